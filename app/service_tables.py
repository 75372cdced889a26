"""Plans and what-ifs as tables for people."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

_HOUR_S: Final = 3600.0
_FIGURES: Final = (
    ("GPUs in quotas", "quota_gpus", 1.0, 0),
    ("mean completion time, h", "mean_jct_s", _HOUR_S, 2),
    ("median completion time, h", "median_jct_s", _HOUR_S, 2),
    ("95 % done within, h", "p95_jct_s", _HOUR_S, 2),
    ("mean wait, h", "mean_queue_delay_s", _HOUR_S, 2),
    ("99 % wait at most, h", "p99_queue_delay_s", _HOUR_S, 2),
    ("jobs slowed against no sharing", "slowed_jobs_vs_fcfs", 1.0, 0),
    ("requeues", "requeues", 1.0, 0),
    ("GPUs in use, %", "utilisation_pct", 1.0, 1),
)


def plan_table(plan: Mapping[str, Any]) -> Iterator[Any]:
    """One row per thing to do, in the order in which it is to be done."""
    at = datetime.fromisoformat(plan["at"]).strftime("%Y-%m-%d %H:%M:%S")
    use = (
        "carried out by the executors"
        if plan["is_enforced"]
        else "advice only: the scheduler asks for decisions"
    )
    table = _table("do", "job or pool", "how")
    for job_id in plan["send_backs"]:
        table.add_row("send back", Text(job_id), "its GPUs are wanted by their owner")
    for job_id in plan["conversions"]:
        table.add_row("make own", Text(job_id), "was a guest")
    for start in plan["starts"]:
        table.add_row("start", Text(start["job_id"]), _how(start))
    for rider in plan["riders"]:
        table.add_row("start", Text(rider["job_id"]), Text(f"on the GPU of {rider['host_job_id']}"))
    for share in plan["shares"]:
        table.add_row(share["primitive"], Text(share["job_id"]), f"to {share['share_pct']:g} % of its GPU")
    for dropped in plan["dropped"]:
        table.add_row("dropped", Text(dropped["job_id"]), Text(dropped["why"]))
    for hold in plan["holds"]:
        table.add_row("keep free", Text(hold["pool"]), f"{hold['num_gpus']} GPUs")
    yield Text(f"plan {plan['number']} of {at} UTC ({use})" + ("" if table.row_count else ": nothing to do"))
    if table.row_count:
        yield table


def _how(start: Mapping[str, Any]) -> Text:
    where = ", ".join(f"{node}:{index}" for node, index in start["gpus"] or [])
    kind = "as a guest on lent GPUs" if start["is_guest"] else "on its pool's own GPUs"
    return Text(f"{kind} {where}".rstrip())


def what_if_tables(answer: Mapping[str, Any]) -> Iterator[Any]:
    """What would have been, beside what is, for the cluster and for each pool."""
    window = answer["window"]
    days = (window["to_s"] - window["from_s"]) / 86_400
    yield Text(f"the last {days:.3g} days again, {window['jobs']} jobs: as it is, and changed")
    table = _table("", "as it is", "changed", "difference")
    for label, name, unit, digits in _FIGURES:
        values = (answer[part][name] for part in ("baseline", "changed", "difference"))
        before, after, difference = (_number(value, unit, digits) for value in values)
        sign = "+" if (answer["difference"][name] or 0) > 0 else ""
        table.add_row(label, before, after, sign + difference)
    yield table
    yield _pools(answer["pools"])
    left_out = answer["excluded"]
    if left_out["jobs"]:
        listed = ", ".join(f"{one['jobs']} of {one['pool']}" for one in left_out["by_pool"])
        yield Text(f"left out, wider than the quota in one of the two: {left_out['jobs']} jobs ({listed})")


def _pools(pools: list[dict[str, Any]]) -> Table:
    names = ("jobs", "GPUs", "changed", "mean completion, h", "changed", "mean wait, h", "changed")
    table = _table("pool", *names)
    for pool in pools:
        before, after = pool["baseline"], pool["changed"]
        table.add_row(
            Text(pool["pool"]),
            f"{before['jobs']:g}",
            *(
                _number(world[name], unit, digits)
                for name, unit, digits in (
                    ("quota_gpus", 1.0, 0),
                    ("mean_jct_s", _HOUR_S, 2),
                    ("mean_queue_delay_s", _HOUR_S, 2),
                )
                for world in (before, after)
            ),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="left" if name in ("job or pool", "how") else "right")
    return table


def _number(value: float | None, unit: float, digits: int) -> str:
    return "-" if value is None else f"{value / unit:.{digits}f}"
