"""Who wins and who loses: jobs that are in both worlds, by pool, user and width, and the most moved."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from domain.jobs import Job
from domain.measures import SLOWED_AFTER_S
from simulator.what_if.lived import WorldLived

MOST_LISTED: Final = 10
_HOUR_S: Final = 3600.0
_NOBODY: Final = "(not said)"


class Moved(NamedTuple):
    """A job in both worlds.

    Attributes:
        job: as submitted.
        source_id: its id in the record.
        course: which future it is of; 0 where the past is gone through again.
        base_jct_s, change_s: completion time as it is; changed less that (below 0: it ends earlier).
    """

    job: Job
    source_id: str
    course: int
    base_jct_s: float
    change_s: float


def moved(base: Sequence[WorldLived], changed: Sequence[WorldLived]) -> list[Moved]:
    """The jobs that both worlds have, course by course, by (submit, id)."""
    found = []
    for course, (first, second) in enumerate(zip(base, changed, strict=True)):
        after = dict(zip((job.job_id for job in second.jobs), second.jct_s.tolist(), strict=True))
        for job, source_id, jct_s in zip(first.jobs, first.source_ids, first.jct_s.tolist(), strict=True):
            if job.job_id in after:
                found.append(Moved(job, source_id, course, jct_s, after[job.job_id] - jct_s))
    return found


def who(jobs: Sequence[Moved]) -> dict[str, Any]:
    """Winners and losers.

    Returns:
        pools, widths: all of them; users: those who win and those who lose most, ten each; jobs: the same.
        Earlier and later are those who move by more than a minute.
    """
    users = _groups(jobs, lambda job: job.user if isinstance(job.user, str) else _NOBODY)
    return {
        "jobs_in_both": len(jobs),
        "pools": _groups(jobs, lambda job: job.pool),
        "widths": sorted(_groups(jobs, width_class), key=lambda row: int(row["name"].split("-")[0])),
        "users": {
            "won": [row for row in users if row["total_change_h"] < 0.0][:MOST_LISTED],
            "lost": [row for row in reversed(users) if row["total_change_h"] > 0.0][:MOST_LISTED],
        },
        "jobs": {"won": _most(jobs, 1.0), "lost": _most(jobs, -1.0)},
    }


def width_class(job: Job) -> str:
    """1, 2, 3-4, 5-8, ...: up to each power of two."""
    top = 1 << (job.num_gpus - 1).bit_length()
    return str(top) if top <= 2 else f"{top // 2 + 1}-{top}"


def _groups(jobs: Iterable[Moved], name_of: Callable[[Job], str]) -> list[dict[str, Any]]:
    """One row for each name, who wins most first; ties by name."""
    groups: dict[str, list[Moved]] = {}
    for one in jobs:
        groups.setdefault(name_of(one.job), []).append(one)
    rows = [
        {
            "name": name,
            "jobs": len(own),
            "earlier": sum(one.change_s < -SLOWED_AFTER_S for one in own),
            "later": sum(one.change_s > SLOWED_AFTER_S for one in own),
            "mean_change_s": math.fsum(one.change_s for one in own) / len(own),
            "total_change_h": math.fsum(one.change_s for one in own) / _HOUR_S,
        }
        for name, own in groups.items()
    ]
    return sorted(rows, key=lambda row: (row["total_change_h"], row["name"]))


def _most(jobs: Sequence[Moved], sign: float) -> list[dict[str, Any]]:
    own = [one for one in jobs if sign * one.change_s < -SLOWED_AFTER_S]
    own.sort(key=lambda one: (sign * one.change_s, one.course, one.job.submit_s, one.job.job_id))
    return [
        {
            "job_id": one.source_id,
            "future": one.course,
            "pool": one.job.pool,
            "user": one.job.user if isinstance(one.job.user, str) else None,
            "num_gpus": one.job.num_gpus,
            "submit_s": one.job.submit_s,
            "jct_s": one.base_jct_s,
            "change_s": one.change_s,
        }
        for one in own[:MOST_LISTED]
    ]
