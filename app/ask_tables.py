"""What a service expects, and why jobs wait, for people."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from solver.explain.words import life_text

Json = Mapping[str, Any]


def lives_table(answer: Json) -> Iterator[Any]:
    """One row per job."""
    names = [f"{level:.0%} done" for level in answer["levels"]]
    table = _table("job", "has run", *(f"{name} in" for name in names), "done within 1 h")
    for one in answer["jobs"]:
        (within,) = one["ends_within"]
        left = (_span(seconds) for seconds in one["remaining_s"])
        chance = "?" if within is None else f"{within:.0%}"
        table.add_row(Text(one["job_id"]), life_text(one["elapsed_s"]), *left, chance)
    yield table
    yield Text(_rests_on(answer))


def demand_table(answer: Json) -> Iterator[Any]:
    """One row per step of each pool."""
    levels = [f"GPUs at {level:.0%}" for level in answer["levels"]]
    table = _table("pool", "from", "to", *levels, "jobs, mean")
    for pool in answer["pools"]:
        for at, step in enumerate(pool["steps"]):
            name = Text(f"{pool['pool']} ({pool['quota_gpus']})" if at == 0 else "")
            gpus = (f"{value:g}" for value in step["peak_gpus"])
            span = (life_text(step["from_s"]), life_text(step["to_s"]))
            table.add_row(name, *span, *gpus, f"{step['jobs_mean']:.2f}")
    yield table
    yield Text(_rests_on(answer))


def waits_table(answer: Json) -> Iterator[Any]:
    """One row per job that waits."""
    yield Text(f"{answer['num_waiting']} jobs wait")
    if not answer["items"]:
        return
    at = datetime.fromisoformat(answer["at"])
    table = _table("job", "pool", "GPUs", "waited", "why", "what would let it start now", "starts in")
    for one in answer["items"]:
        levers = "; ".join(change["text"].removeprefix("starts at once ") for change in one["changes"][:2])
        table.add_row(
            Text(one["job_id"]),
            Text(one["pool"]),
            str(one["num_gpus"]),
            life_text(max((at - datetime.fromisoformat(one["submitted_at"])).total_seconds(), 0.0)),
            one["why"],
            Text(levers or "-"),
            _starts(one, at),
        )
    yield table


def explanation_lines(answer: Json) -> Iterator[Any]:
    """Everything about one job."""
    wait = answer["wait"]
    yield Text(f"job {answer['job_id']}: {answer['state']}" + ("" if wait is None else f", {wait['why']}"))
    yield Text(f"  {answer['text']}")
    if wait is None:
        return
    for name, value in wait["evidence"].items():
        yield Text(f"  {name}: {value if isinstance(value, str) else f'{value:.4g}'}")
    for change in wait["changes"]:
        yield Text(f"  {change['text']}")
    if wait["latest_at"] is not None:
        yield Text(f"  expected to start by {wait['latest_at']}")


def _starts(one: Json, at: datetime) -> str:
    spans = []
    for name in ("earliest_at", "latest_at"):
        instant = one[name]
        left = None if instant is None else (datetime.fromisoformat(instant) - at).total_seconds()
        spans.append(_span(None if left is None else max(left, 0.0)))
    return " - ".join(spans)


def _span(seconds: float | None) -> str:
    return "?" if seconds is None else life_text(seconds)


def _rests_on(answer: Json) -> str:
    models = ", ".join(f"{name} {value}" for name, value in answer["models"].items())
    return f"learned from {answer['jobs_learned_from']} jobs up to {answer['as_of']} ({models})"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        table.add_column(name)
    return table
