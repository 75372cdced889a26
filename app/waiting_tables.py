"""Why jobs wait, as a table and as lines for people."""

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from solver.explain.words import Waiting, life_text


def overview(waiting: Sequence[Waiting], at_s: float) -> Table:
    """One row per job, in the order they are given."""
    table = Table(box=box.SIMPLE_HEAD, caption_justify="left")
    table.caption = "starts: from now, between the earliest and the latest expected instant"
    for name in ("job", "pool"):
        table.add_column(name, no_wrap=True)
    for name in ("GPUs", "waited"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True)
    table.add_column("what would let it start now", ratio=1)
    table.add_column("starts", justify="right", no_wrap=True)
    for one in waiting:
        table.add_row(
            Text(one.job.job_id),
            Text(one.job.pool),
            str(one.job.num_gpus),
            life_text(at_s - one.job.submit_s),
            one.why.value,
            Text("; ".join(change.text.removeprefix("starts at once ") for change in one.changes[:2]) or "-"),
            _span(one, at_s),
        )
    return table


def in_full(one: Waiting, at_s: float) -> list[str]:
    """Everything about one job."""
    job = one.job
    waited = life_text(at_s - job.submit_s)
    lines = [
        f"job {job.job_id} of pool {job.pool} ({job.num_gpus} GPUs) has waited for {waited}: {one.why.value}",
        f"  {one.text}",
    ]
    lines += [f"  {name}: {_number(value)}" for name, value in one.evidence.items()]
    lines += [f"  {change.text}" for change in one.changes] or [
        "  nothing was found that alone would let it start"
    ]
    return [*lines, f"  expected to start in {_span(one, at_s)} from now"]


def _span(one: Waiting, at_s: float) -> str:
    if one.earliest_s is None or one.latest_s is None:
        return "?"
    first = life_text(max(one.earliest_s - at_s, 0.0)) if math.isfinite(one.earliest_s) else "?"
    last = life_text(one.latest_s - at_s) if math.isfinite(one.latest_s) else "?"
    return f"{first} - {last}"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
