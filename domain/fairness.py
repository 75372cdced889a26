"""Whether pools and jobs were treated alike, and whether those who lent were hurt by it."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from domain.jobs import Job
from domain.measures import is_slowed, ratio
from domain.shares import Share

DONOR_LOOKBACK_S: Final = 12 * 3600.0
"""How long a pool that has lent counts as a donor."""


def finish_time_fairness(jct: float, isolated_jct: float) -> float:
    """JCT when sharing / JCT under an isolated 1/n share: Themis's rho; at most 1 is fair, no unit.

    Here the isolated share is the job's own pool's quota without sharing, so `isolated_jct` is the JCT
    in the reference and rho is one over the job's speed-up. Pools bring quotas of their own into the
    cluster: an equal split, Themis's share, would be somebody else's.
    """
    return ratio(jct, isolated_jct)


def jain_index(values: Sequence[float]) -> float:
    """Jain's index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything.

    All zeros are equal: 1. To compare pools, give one value per pool.

    Raises:
        ValueError: if there are no values or one is negative.
    """
    if not values or min(values) < 0.0:
        raise ValueError("Jain's index needs values of at least 0")
    squares = sum(value * value for value in values)
    total = sum(values)
    return total * total / (len(values) * squares) if squares > 0.0 else 1.0


def donor_harm(
    jobs: Iterable[Job],
    latenesses: Mapping[str, float],
    spells: Mapping[str, Sequence[tuple[float, float]]],
    lookback_s: float = DONOR_LOOKBACK_S,
) -> Share:
    """Share slowed among the jobs of pools that lent shortly before the job's submit.

    Args:
        jobs: the jobs to look at; those without a lateness are left out.
        latenesses: `lateness_s` by job id, seconds.
        spells: when each pool lent, as `domain.usage.lending_spells` gives it.
        lookback_s: how long before the submit counts, seconds.
    """
    hits = total = 0
    for job in jobs:
        late = latenesses.get(job.job_id)
        if late is not None and _has_lent(spells.get(job.pool, ()), job.submit_s - lookback_s, job.submit_s):
            hits += is_slowed(late)
            total += 1
    return Share(hits, total)


def _has_lent(spells: Sequence[tuple[float, float]], from_s: float, to_s: float) -> bool:
    """Whether any of the ordered, disjoint spells [start, end) meets [from_s, to_s)."""
    begun = bisect_left(spells, to_s, key=itemgetter(0))
    return begun > 0 and spells[begun - 1][1] > from_s
