"""The pools' facts together: features at an instant, outcomes of windows, and the rows to learn from."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from domain.jobs import Job
from models.demand.features import DAY_S, HOUR_S, WINDOWS_S, Floats, PoolFacts, between_anchors
from models.demand.spans import GapTables, RunningJobs

LEARN_SPAN_S: Final = 21 * DAY_S
"""What is learned from: three weeks, as SIA."""

_ROW_EVERY_S: Final = ((300.0, 660.0), (3600.0, 1860.0), (43_200.0, 3660.0))
_MINUTE_S: Final = 60.0


def row_every_s(window_s: float) -> float:
    """Every how many seconds a row to learn from is kept, for a window.

    A prime number of minutes by default: on a raster of ten minutes a job that comes every ten minutes is
    always seen at the same distance, and what is learned is wrong everywhere else.
    """
    return _MINUTE_S * max(1, round(between_anchors(_ROW_EVERY_S, window_s) / _MINUTE_S))


class _Lives:
    """How long each of a pool's jobs lived, in the order of arrival."""

    def __init__(self) -> None:
        self.gpus: list[int] = []
        self.life_s: list[float] = []  # infinite while it has not ended
        self.open: dict[str, tuple[int, Job]] = {}
        self.most_s: dict[str, float] = {}  # greatest age in runs that were stopped, of all that have run


class DemandFacts:
    """Told facts in the order of their instants; says the features of all pools, and what came of a window.

    Args:
        quotas: GPUs of each pool.
        since_s: instant at which the record begins.
        windows_s: windows that will be asked about.
    """

    def __init__(
        self, quotas: Mapping[str, int], since_s: float, windows_s: Sequence[float] = WINDOWS_S
    ) -> None:
        self.pools = [PoolFacts(quota, since_s, windows_s) for quota in quotas.values()]
        self._place = {pool: place for place, pool in enumerate(quotas)}
        self._quotas = np.array(list(quotas.values()), np.float64)
        self._windows_s = tuple(windows_s)
        self._lives = [_Lives() for _ in quotas]
        self._gaps = GapTables(len(quotas))
        self._running = RunningJobs()
        self._anywhere: list[float] = []
        self._expected: tuple[float, Floats] | None = None

    def arrived(self, job: Job, now_s: float) -> None:
        """A job has arrived."""
        place = self._place[job.pool]
        self.pools[place].arrived(job.num_gpus, now_s)
        self._gaps.arrived(place, now_s)
        self._anywhere.append(now_s)
        lives = self._lives[place]
        lives.open[job.job_id] = (len(lives.gpus), job)
        lives.gpus.append(job.num_gpus)
        lives.life_s.append(math.inf)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, from zero."""
        self._expected = None
        place = self._place[job.pool]
        self._running.started(place, job, now_s)
        self._lives[place].most_s.setdefault(job.job_id, 0.0)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._expected = None
        self._running.rate_changed(job, now_s, rate)

    def stopped(self, job: Job, now_s: float) -> None:
        """A job runs no longer, and has not ended."""
        self._expected = None
        most_s = self._lives[self._place[job.pool]].most_s
        if job.job_id in most_s:
            most_s[job.job_id] = max(most_s[job.job_id], self._running.age_s(job, now_s))
        self._running.stopped(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended."""
        self._expected = None
        place = self._place[job.pool]
        self.pools[place].ended(now_s)
        self._running.ended(place, job, now_s, duration_s)
        lives = self._lives[place]
        lives.life_s[lives.open.pop(job.job_id)[0]] = duration_s
        lives.most_s.pop(job.job_id, None)

    def withdrawn(self, job: Job, now_s: float) -> None:
        """A job was withdrawn by its user: it counts as having lived to the age it reached."""
        self.stopped(job, now_s)
        lives = self._lives[self._place[job.pool]]
        lives.life_s[lives.open.pop(job.job_id)[0]] = lives.most_s.pop(job.job_id, 0.0)

    def leave_untold(self, now_s: float) -> None:
        """Let the jobs that run now end when they are expected to, unless something is told of them."""
        self._running.leave_untold(now_s)
        self._expected = None

    def features(self, window_s: float, now_s: float) -> Floats:
        """Features of each pool, shape (pools, features)."""
        if self._expected is None or self._expected[0] != now_s:
            of_all = self._running.expected(self._windows_s, now_s, len(self.pools))
            self._expected = (now_s, of_all)
        place = 2 + 2 * self._windows_s.index(window_s)
        expected = self._expected[1][:, (0, 1, place, place + 1)].copy()
        measures = np.maximum(self._quotas, 1.0)  # a pool whose nodes are all gone has no quota
        expected[:, 1] /= measures
        expected[:, 3] /= measures
        own = np.array([pool.features(window_s, now_s) for pool in self.pools])
        hour = now_s / HOUR_S * (math.pi / 12.0)
        number = len(self._anywhere)
        shared = [math.sin(hour), math.cos(hour), math.floor(now_s / DAY_S) % 7]
        shared += [float(number - bisect_right(self._anywhere, now_s - span_s)) for span_s in (60.0, HOUR_S)]
        common = np.broadcast_to(np.array(shared), (len(own), len(shared)))
        return np.concatenate([own, common, self._gaps.soon(window_s, now_s)[:, None], expected], axis=1)

    def outcomes(self, from_s: float, window_s: float, now_s: float) -> Floats:
        """What was asked for in (from, from + window], a window that is over by `now_s`.

        Returns:
            GPUs asked for, and of those the ones that would still be held at the end of the window, had each
            job started on arrival; capped by the quota; shape (2, pools). A job that has not ended is given
            the median of the lives above its age.
        """
        outcome = np.zeros((2, len(self.pools)))
        for place, (pool, lives) in enumerate(zip(self.pools, self._lives, strict=True)):
            first, beyond = pool.arrivals_between(from_s, from_s + window_s)
            if first == beyond:
                continue
            held = 0
            unended = dict(lives.open.values())
            for at_s, gpus, life_s, job in zip(
                pool.instants(first, beyond),
                lives.gpus[first:beyond],
                lives.life_s[first:beyond],
                range(first, beyond),
                strict=True,
            ):
                needed_s = from_s + window_s - at_s
                is_held = life_s > needed_s
                if is_held and job in unended:
                    is_held = self._is_likely_beyond(place, unended[job], needed_s, now_s)
                held += gpus * is_held
            outcome[:, place] = (sum(lives.gpus[first:beyond]), held)
        return np.minimum(outcome, self._quotas)

    def _is_likely_beyond(self, place: int, job: Job, needed_s: float, now_s: float) -> bool:
        age_s = max(self._lives[place].most_s.get(job.job_id, 0.0), self._running.age_s(job, now_s))
        return age_s >= needed_s or self._running.likely_life_s(place, job, age_s) > needed_s


class KeptRow(NamedTuple):
    """Features of all pools at an instant, and what came of the window that began there."""

    instant_s: float
    features: Floats
    outcomes: Floats


class LearningRows:
    """Features on a raster of instants, kept as time passes, so that learning needs no second replay.

    What came of a window is worked out at the first tick by which it is over, from what is known then.

    Args:
        windows_s: windows to keep rows for.
    """

    def __init__(self, windows_s: Sequence[float] = WINDOWS_S) -> None:
        self._every_s = {window_s: row_every_s(window_s) for window_s in windows_s}
        self._open: dict[float, deque[tuple[float, Floats]]] = {window_s: deque() for window_s in windows_s}
        self._kept: dict[float, deque[KeptRow]] = {window_s: deque() for window_s in windows_s}

    def keep(self, facts: DemandFacts, from_s: float, until_s: float) -> None:
        """Keep a row for each instant of the raster in [from, until), all facts up to it being in."""
        for window_s, every_s in self._every_s.items():
            for tick in range(math.ceil(from_s / every_s), math.ceil(until_s / every_s)):
                self._settle(facts, window_s, tick * every_s)
                row = (tick * every_s, facts.features(window_s, tick * every_s))
                self._open[window_s].append(row)

    def _settle(self, facts: DemandFacts, window_s: float, now_s: float) -> None:
        waiting, kept = self._open[window_s], self._kept[window_s]
        while waiting and waiting[0][0] + window_s <= now_s:
            began_s, features = waiting.popleft()
            kept.append(KeptRow(began_s, features, facts.outcomes(began_s, window_s, now_s)))
            while kept[0].instant_s < now_s - LEARN_SPAN_S:
                kept.popleft()

    def over(self, window_s: float, after_s: float = -math.inf) -> list[KeptRow]:
        """Rows of instants after one whose window is known to be over, in the order of time."""
        rows = []
        for row in reversed(self._kept[window_s]):
            if row.instant_s <= after_s:
                break
            rows.append(row)
        return rows[::-1]
