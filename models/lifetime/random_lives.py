"""Random lives, for ablations: the length of some other job of the pool."""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from domain.jobs import Job
from models.lifetime.baselines import PointLifetimes

_NOTHING_KNOWN_S: Final = 3600.0
"""Said while no job of the pool has ended."""
_LEAST_S: Final = 1.0


class RandomLifetimes(PointLifetimes):
    """Says, at every level, how long one job of the same pool has run, drawn when the job is submitted.

    Right on average over a pool, and nothing of what is known of the job counts. The draw is a hash of seed
    and id, so it depends on nothing but what had ended by the submit.

    Args:
        past: (job, duration_s) of jobs that have ended.
        seed: of the draws.
    """

    def __init__(self, past: Iterable[tuple[Job, float]] = (), *, seed: int = 0) -> None:
        self._seed = seed
        self._lives: dict[str, list[float]] = {}
        self._drawn_s: dict[str, float] = {}
        for job, duration_s in past:
            self.observe(job, duration_s)

    def submitted(self, job: Job, now_s: float) -> None:  # noqa: ARG002 - when is no matter
        """A job has become eligible: its life is drawn, once."""
        if job.job_id not in self._drawn_s:
            self._drawn_s[job.job_id] = self._draw_s(job)

    def observe(self, job: Job, duration_s: float) -> None:
        """Learn from a job that had ended."""
        self._drawn_s.pop(job.job_id, None)
        self._lives.setdefault(job.pool, []).append(max(duration_s, _LEAST_S))

    def point_s(self, job: Job) -> float:
        """The life drawn, seconds; of a job never submitted, what would be drawn now."""
        drawn_s = self._drawn_s.get(job.job_id)
        return self._draw_s(job) if drawn_s is None else drawn_s

    def _draw_s(self, job: Job) -> float:
        lives = self._lives.get(job.pool)
        if not lives:
            return _NOTHING_KNOWN_S
        return lives[crc32(f"{self._seed}:{job.job_id}".encode()) * len(lives) >> 32]
