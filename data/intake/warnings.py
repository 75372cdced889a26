"""What of a file matters to whoever learns from it: the rate of labels, limits, days without rows."""

from itertools import pairwise
from typing import Final

from data.intake.report import DayCount, FileReport, Warned, day_text

_LEAST_ATTEMPTS: Final = 20
"""Days with fewer say nothing about shares."""

_JUMP: Final = 0.5
_SHOWN_DAYS: Final = 5

SHARES: Final = {
    "ended": "an end",
    "with_user": "a user",
    "with_name": "a name",
    "with_pool": "a pool",
    "with_gpus": "a count of GPUs",
    "finite_limits": "a finite limit",
}


def warnings_of(report: FileReport) -> list[Warned]:
    """Warnings of a file of history, from its counts by day."""
    days = sorted(report.days.items())
    total = sum(count.attempts for _, count in days)
    if not total:
        return []
    return [*_gaps(days), *_jumps(days), *_never(days, total)]


def _gaps(days: list[tuple[int, DayCount]]) -> list[Warned]:
    gaps = [(before, after) for (before, _), (after, _) in pairwise(days) if after > before + 1]
    if not gaps:
        return []
    shown = ", ".join(
        f"{after - before - 1} after {day_text(before)}" for before, after in gaps[:_SHOWN_DAYS]
    )
    lost = sum(after - before - 1 for before, after in gaps)
    return [
        Warned("days-without-rows", f"{lost} days have no submission although days around them do: {shown}")
    ]


def _jumps(days: list[tuple[int, DayCount]]) -> list[Warned]:
    found = []
    for name, what in SHARES.items():
        shares = [
            (day, getattr(count, name) / count.attempts)
            for day, count in days
            if count.attempts >= _LEAST_ATTEMPTS
        ]
        jumps = [(day, was, now) for (_, was), (day, now) in pairwise(shares) if abs(now - was) >= _JUMP]
        if jumps:
            day, was, now = jumps[0]
            more = f", and {len(jumps) - 1} more such days" if len(jumps) > 1 else ""
            text = (
                f"the share of attempts with {what} goes from {was:.0%} to {now:.0%} on {day_text(day)}{more}"
            )
            found.append(Warned(f"share-jumps-{name.replace('_', '-')}", text))
    return found


def _never(days: list[tuple[int, DayCount]], total: int) -> list[Warned]:
    found = []
    for name, what in SHARES.items():
        share = sum(getattr(count, name) for _, count in days) / total
        if share < 0.05:
            found.append(
                Warned(f"hardly-any-{name.replace('_', '-')}", f"{share:.1%} of the attempts have {what}")
            )
    return found
