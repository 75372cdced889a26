"""What a schedule did to jobs: one measure, one function, on plain numbers.

Lists of numbers belong together place by place, one place per job. Who is measured (after a warm-up,
of one pool, ...) is the caller's choice.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final

from domain.shares import Share

SLOWED_AFTER_S: Final = 60.0
"""A job that ends later than this after its reference end counts as slowed."""
_SLOWED_SHARE_OF_JCT: Final = 0.01
_SHORTEST_RUN_S: Final = 10.0
_MINUTE_S: Final = 60.0


def jct_s(submit_s: float, end_s: float) -> float:
    """Job completion time, seconds: end - submit (SIA, its measure of latency)."""
    return end_s - submit_s


def queue_delay_s(submit_s: float, start_s: float) -> float:
    """Seconds in the queue: start - submit.

    For a job that was thrown back, `start_s` is the start of the attempt that counted
    (`Schedule.first_starts`): running for nothing is waiting.
    """
    return start_s - submit_s


def makespan_s(submits_s: Iterable[float], ends_s: Iterable[float]) -> float:
    """Last end - first submit, seconds (field convention).

    Raises:
        ValueError: if there are no jobs.
    """
    return max(ends_s) - min(submits_s)


def bounded_slowdown(jct: float, run_s: float) -> float:
    """JCT / max(run, 10 s), floored at 1 (Feitelson and Rudolph 1998); no unit.

    Args:
        jct: job completion time, seconds.
        run_s: end - start as it happened, seconds.
    """
    return max(1.0, jct / max(run_s, _SHORTEST_RUN_S))


def lateness_s(end_s: float, reference_end_s: float) -> float:
    """End - reference end, seconds; negative for a job that ends earlier than in the reference."""
    return end_s - reference_end_s


def is_slowed(lateness: float) -> bool:
    """Whether a job ends more than 60 s after its reference end: the promise's own rule.

    Args:
        lateness: `lateness_s` of the job, seconds.
    """
    return lateness > SLOWED_AFTER_S


def is_slowed_beyond_1pct(lateness: float, reference_jct: float) -> bool:
    """Whether a job is late by more than max(60 s, 1 % of its reference JCT); both in seconds."""
    return lateness > max(SLOWED_AFTER_S, _SLOWED_SHARE_OF_JCT * reference_jct)


def slowed_share(latenesses: Iterable[float]) -> Share:
    """Share of jobs that are slowed by more than 60 s (SIA's share of jobs slowed)."""
    slowed = [is_slowed(late) for late in latenesses]
    return Share(sum(slowed), len(slowed))


def slowed_share_beyond_1pct(latenesses: Iterable[float], reference_jcts: Iterable[float]) -> Share:
    """Share of jobs that are late by more than max(60 s, 1 % of their reference JCT)."""
    pairs = zip(latenesses, reference_jcts, strict=True)
    slowed = [is_slowed_beyond_1pct(late, reference) for late, reference in pairs]
    return Share(sum(slowed), len(slowed))


def total_lateness_min(latenesses: Iterable[float]) -> float:
    """Sum of max(0, lateness) over all jobs, minutes (SIA's total slowdown); latenesses in seconds."""
    return math.fsum(max(0.0, late) for late in latenesses) / _MINUTE_S


def worst_lateness_min(latenesses: Iterable[float]) -> float:
    """Largest lateness, minutes, never below 0 (SIA's maximal slowdown); latenesses in seconds."""
    return max(0.0, max(latenesses, default=0.0)) / _MINUTE_S


def deadlines_met(ends_s: Iterable[float], deadlines_s: Iterable[float]) -> Share:
    """Share of jobs that end by their deadline; both are instants, seconds."""
    met = [end_s <= by_s for end_s, by_s in zip(ends_s, deadlines_s, strict=True)]
    return Share(sum(met), len(met))


def ratio(above: float, below: float) -> float:
    """One time over another where either may be zero: 0 / 0 is 1 (nothing changed), x / 0 infinite.

    A JCT is 0 for a job of zero length that started at once.
    """
    if below == 0.0:
        return 1.0 if above == 0.0 else math.inf
    return above / below


def speedup(reference_jct: float, jct: float) -> float:
    """JCT in the reference / JCT of one job (SIA); above 1 is faster. Zeros as in `ratio`."""
    return ratio(reference_jct, jct)


def speedup_of_means(reference_jcts: Sequence[float], jcts: Sequence[float]) -> float:
    """Mean JCT in the reference / mean JCT: what happened to the average wait. Long jobs weigh most.

    Raises:
        ValueError: if there are no jobs, or not as many of one as of the other.
    """
    if len(reference_jcts) != len(jcts):
        raise ValueError(f"{len(reference_jcts)} JCTs in the reference, {len(jcts)} to compare")
    return ratio(_mean(reference_jcts), _mean(jcts))


def speedup_mean(reference_jcts: Sequence[float], jcts: Sequence[float]) -> float:
    """Arithmetic mean of the jobs' speed-ups: dominated by few short jobs that had waited long.

    Raises:
        ValueError: if there are no jobs, or not as many of one as of the other.
    """
    return _mean([speedup(r, j) for r, j in zip(reference_jcts, jcts, strict=True)])


def speedup_geomean(reference_jcts: Sequence[float], jcts: Sequence[float]) -> float:
    """Geometric mean of the jobs' speed-ups: every job weighs the same, twice as slow undoes twice as fast.

    One job of zero length that no longer waits makes it infinite, one that has to wait newly makes it 0,
    and both together leave it undefined (nan).

    Raises:
        ValueError: if there are no jobs, or not as many of one as of the other.
    """
    gains = [speedup(r, j) for r, j in zip(reference_jcts, jcts, strict=True)]
    if math.inf in gains:
        return math.nan if 0.0 in gains else math.inf
    if 0.0 in gains:
        return 0.0
    return math.exp(_mean([math.log(gain) for gain in gains]))


def quantile(values: Iterable[float], level: float) -> float:
    """Value at `level` in [0, 1], linear between order statistics (numpy's and pandas' default).

    Raises:
        ValueError: if there are no values or the level leaves [0, 1].
    """
    ordered = sorted(values)
    if not ordered or not 0.0 <= level <= 1.0:
        raise ValueError(f"no quantile of {len(ordered)} values at level {level}")
    place = level * (len(ordered) - 1)
    low = ordered[math.floor(place)]
    high = ordered[math.ceil(place)]
    if low == high:  # also keeps inf - inf out of what follows
        return low
    return low + (place - math.floor(place)) * (high - low)


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("there are no jobs to measure")
    return fmean(values)
