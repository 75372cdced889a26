"""Idle GPUs as a table and lines for people."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich import box
from rich.table import Table
from rich.text import Text

from app.services.idle import Answer, names
from data.rules import printable
from data.telemetry.holding import Holding
from data.telemetry.idle import Judged, Verdict

_NAMED = 3
_FIRST = (
    Verdict.HELD_EMPTY, Verdict.IDLE, Verdict.MEMORY_HELD, Verdict.FREE, Verdict.UNKNOWN, Verdict.WORKING
)  # fmt: skip
"""What is worth a look comes first."""


def gpu_table(gpus: Sequence[Judged], most: int) -> Table:
    """One row per GPU, idle ones first; at most so many rows."""
    table = Table(box=box.SIMPLE_HEAD, caption_justify="left")
    for name in ("node", "GPU", "job", "verdict", "util %", "memory %", "since (UTC)", ""):
        table.add_column(name, justify="right" if name.endswith("%") else "left", overflow="fold")
    for one in sorted(gpus, key=lambda one: _FIRST.index(one.verdict))[:most]:
        profile = f" {one.profile}" if one.profile else ""
        cells = (one.device.node, one.device.shown + profile, _job(one))
        table.add_row(
            *(Text(printable(cell)) for cell in cells),
            one.verdict.value,
            _number(one.util_pct),
            _number(one.memory_pct),
            _since(one),
            Text(one.why),
        )
    if len(gpus) > most:
        table.caption = f"{len(gpus) - most:,} more: --most, or --json"
    return table


def lines(told: Answer, most: int) -> list[str]:
    """Sums by verdict, whose the time was, and what has to be known."""
    found = told.found
    whole = sum(found.gpu_hours.values())
    said = [f"{whole:,.2f} GPU-hours from {_instant(found.begin_s)} to {_instant(found.end_s)} UTC:"]
    said += [
        f"  {verdict.value:<11} {hours:>10,.2f}  {verdict.meaning}"
        for verdict, hours in found.gpu_hours.items()
    ]
    share = 100.0 * found.unattributed / whole if whole else 0.0
    said.append(f"attributed to nobody: {found.unattributed:,.2f} GPU-hours ({share:.1f} %)")
    said += [
        f"node {printable(node)}: of the GPUs that jobs hold at least {gpus} idle, not known which"
        for node, gpus in list(found.idle_at_least.items())[:most]
    ]
    return [*said, *(f"note: {printable(note)}" for note in told.notes[:most])]


def _job(one: Judged) -> str:
    held = names(one)
    more = f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    sign = ", " if one.held.is_certain else " or "
    perhaps = "perhaps " if one.held.holding is Holding.PERHAPS else ""
    return (perhaps + sign.join(held[:_NAMED]) + more) or "-"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1f}"


def _since(one: Judged) -> str:
    if one.since_s is None:
        return "-"
    return ("before " if one.is_longer else "") + _instant(one.since_s)


def _instant(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
