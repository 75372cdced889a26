"""Lives of plans, reviewed actions and observed days as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

_PARTS: Final = (("start", "starts"), ("send back", "send_backs"), ("keep free", "holds"))
_ID_WIDTH: Final = 41
_HOUR_S: Final = 3600.0


def plans_table(plans: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """One row a plan."""
    table = _table("plan", "id", "of (UTC)", "status", "starts", "back", "holds", "churn")
    for plan in plans:
        table.add_row(
            str(plan["number"]),
            Text(plan["plan_id"]),
            _at(plan["at"]),
            plan["status"],
            *(str(len(plan[part])) for part in ("starts", "send_backs", "holds")),
            _share(plan["churn"]),
        )
    yield table if plans else Text("no plans yet")


def life_of(plan: Mapping[str, Any]) -> Iterator[Any]:
    """Where a plan is in its life, in a line."""
    said = f"{plan['status']}, version {plan['version']}"
    if plan["status"] == "draft" and plan["expires_at"] is not None:
        said += f", may be approved until {_at(plan['expires_at'])} UTC"
    if plan["reviewed_by"] is not None:
        said += f", reviewed by {plan['reviewed_by']}"
    yield Text(f"{said}; id {plan['plan_id']}")


def holds_table(plan: Mapping[str, Any]) -> Iterator[Any]:
    """What a plan's holds rest on, and what they have come to; nothing where it has none."""
    if not plan["hold_forecasts"]:
        return
    table = _table("hold", "GPUs", "by (UTC)", "chance", "likely by", "at the latest", "state", "drift")
    checks = plan["hold_checks"] or [None] * len(plan["hold_forecasts"])
    for hold, check in zip(plan["hold_forecasts"], checks, strict=True):
        table.add_row(
            Text(hold["pool"]),
            str(hold["num_gpus"]),
            _at(hold["by"]),
            _share(hold["probability"]),
            _at(hold["likely_by"]),
            _at(hold["bound"]),
            "-" if check is None else check["state"],
            "-" if check is None else str(check["drift_gpus"]),
        )
    yield table


def diff_table(diff: Mapping[str, Any]) -> Iterator[Any]:
    """One row for each thing that differs."""
    counts = diff["counts"]
    listed = ", ".join(f"{counts[name]} {name}" for name in ("added", "gone", "moved", "done", "same"))
    forecast = "another forecast" if diff["forecast_changed"] else "the same forecast"
    yield Text(f"{diff['plan_id']} beside {diff['to']}: {listed}; churn {_share(diff['churn'])}; {forecast}")
    table = _table("do", "what", "job or pool")
    for label, part in _PARTS:
        for name in ("added", "gone", "done"):
            for one in diff[part][name]:
                table.add_row(label, name, Text(_name(one)))
        for one in diff[part]["moved"]:
            table.add_row(label, "moved", Text(_name(one["after"])))
    if table.row_count:
        yield table


def actions_table(actions: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """One row an action."""
    table = _table("number", "do", "job or pool", "GPUs", "status", "proposed", "reviewed by")
    for action in actions:
        table.add_row(
            str(action["number"]),
            action["kind"].replace("_", " "),
            Text(_name(action)),
            str(action["num_gpus"]),
            action["status"],
            f"{action['times']} times",
            Text(action["reviewed_by"] or "-"),
        )
    yield table if actions else Text("nothing is proposed")


def observations_table(observations: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """One row a day, and who would have been slowed on the newest."""
    if not observations:
        yield Text("no day was observed yet; ask for one: --day YYYY-MM-DD")
        return
    table = _table(
        "day",
        "jobs",
        "wait: would, h",
        "happened, h",
        "walls, h",
        "earlier",
        "lent GPU-h",
        "slowed",
        "most, min",
    )
    for one in observations:
        report = one["report"]
        waits = (report[part]["mean_queue_delay_s"] for part in ("would_have", "happened", "walls"))
        table.add_row(
            one["day"],
            str(report["jobs"]),
            *(_number(wait_s, _HOUR_S) for wait_s in waits),
            str(report["earlier_than_walls"]["jobs"]),
            _number(report["would_have"]["lent_gpu_hours"], 1.0),
            str(report["slowed"]),
            _number(report["slowed_most_s"], 60.0),
        )
    yield table
    for job in observations[0]["report"]["slowed_jobs"]:
        yield Text(f"{job['job_id']} of {job['pool']} would have ended {job['later_s'] / 60:.1f} min later")


def _name(one: Mapping[str, Any]) -> str:
    job_id = one.get("job_id")
    return str(one["pool"] if job_id is None else job_id)


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        is_id = name == "id"  # whole, for it is copied
        table.add_column(name, no_wrap=is_id, min_width=_ID_WIDTH if is_id else None)
    return table


def _at(instant: str | None) -> str:
    return "-" if instant is None else datetime.fromisoformat(instant).strftime("%Y-%m-%d %H:%M:%S")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100.0 * value:.0f} %"


def _number(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:.2f}"
