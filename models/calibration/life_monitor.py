"""Forecasts of lives under watch: what was said at submit, held against what became of each job."""

import heapq
import math
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from domain.forecasts import LIFE_EDGES_S, LifetimeForecaster
from domain.jobs import Job
from domain.observers import Observer
from domain.work import WorkDone, started_at
from models.calibration.monitor import LIFE, ForecastMonitor, StreamKey
from models.calibration.pits import PitLevelRow, pit_reliability

LEVEL: Final = 0.9
"""Level whose misses are watched: lives longer than their 0.9 quantile are what slows lenders."""

BURST_S: Final = 600.0
"""Jobs of the same user, pool and width belong to the burst of one that came no longer before."""

INTERVAL: Final = (0.1, 0.9)
"""The central 80 % interval."""


@dataclass(frozen=True, slots=True)
class LifeRecord:
    """How forecasts of lives have done for one group of jobs.

    Attributes:
        group: which jobs.
        number: the latest jobs of it that have started, at most as many as are remembered.
        number_ended: those of them that have ended.
        within_80: estimated share of lives within their central 80 % interval.
        longer_than_90: estimated share of lives longer than their 0.9 quantile.
        longer_low: lower end of the 95 % interval of `longer_than_90`.
        longer_high: its upper end.
    """

    group: str
    number: int
    number_ended: int
    within_80: float
    longer_than_90: float
    longer_low: float
    longer_high: float

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Burst:
    """Jobs of the same user, pool and width that came within a few minutes of its first."""

    first_submit_s: float
    size: int = 0


@dataclass(slots=True)
class _Said:
    """One job: what was said of it, and what is known of its life so far."""

    survival: Sequence[float] | None
    quantile_s: float
    burst: _Burst
    run: WorkDone | None = None
    reached_s: float = 0.0
    attempt: int = 0
    is_decided: bool = False
    pit: float = 0.0
    has_ended: bool = False

    def age_s(self, now_s: float) -> float:
        return max(self.reached_s, 0.0 if self.run is None else self.run.work_at(now_s))

    def pit_at(self, now_s: float) -> float:
        """F(life), or F(age) while nothing more is known."""
        return self.pit if self.survival is None else 1.0 - chance_longer(self.survival, self.age_s(now_s))

    def close(self, lived_s: float, *, has_ended: bool) -> None:
        """Keep the transform and forget the curve."""
        self.reached_s, self.run = lived_s, None
        self.pit, self.has_ended, self.survival = self.pit_at(0.0), has_ended, None


class _Groups:
    """The latest jobs of each group; of more groups than are kept, the one silent longest is forgotten."""

    def __init__(self, most_groups: int, most_jobs: int) -> None:
        self._jobs: OrderedDict[tuple[str, str], deque[_Said]] = OrderedDict()
        self._most_groups, self._most_jobs = most_groups, most_jobs

    def add(self, job: Job, said: _Said) -> None:
        for group in groups_of(job):
            self._jobs.setdefault(group, deque(maxlen=self._most_jobs)).append(said)
            self._jobs.move_to_end(group)
        while len(self._jobs) > self._most_groups:
            self._jobs.popitem(last=False)

    def of(self, group: tuple[str, str]) -> Sequence[_Said]:
        return self._jobs.get(group, ())


class LifeMonitor(Observer):
    """A forecaster of lives that is watched: stands in its place, and passes on what it is told.

    Tell this one and not the forecaster inside. At submit it notes the survival curve and the quantile. The
    outcome at `level` is known as soon as the job ends or its age passes the quantile, whichever is first:
    waiting for the ends of long lives would report an episode when it is over. A job that is cancelled
    before that has no outcome. One that was sent back starts from zero and stays one job; its record goes by
    the greatest age it has reached. An age is work done: a job that shares its GPU grows older more slowly.

    The jobs of a burst live alike and share the weight of one outcome: what the monitor asks is whether one
    burst after the other is longer than said.

    Args:
        inner: the forecaster.
        monitor: told of each outcome, as (`LIFE`, pool).
        level: watched, in (0, 1).
        most_jobs: remembered per group.
        most_groups: remembered.
        most_open: jobs followed at once; of more, the one submitted first is no longer followed.
    """

    def __init__(
        self,
        inner: LifetimeForecaster,
        monitor: ForecastMonitor,
        *,
        level: float = LEVEL,
        most_jobs: int = 200,
        most_groups: int = 2_000,
        most_open: int = 100_000,
    ) -> None:
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}, must lie in (0, 1)")
        if min(most_jobs, most_groups, most_open) < 1:
            raise ValueError("most_jobs, most_groups and most_open must be positive")
        self.inner: Final = inner
        self._observer = inner if isinstance(inner, Observer) else Observer()
        self.monitor: Final = monitor
        self._level = level
        self._most_open = most_open
        self._open: dict[str, tuple[Job, _Said]] = {}
        self._overdue: list[tuple[float, str, int]] = []
        self._groups = _Groups(most_groups, most_jobs)
        self._told_s = -math.inf
        self._bursts: dict[tuple[str, str | None, int], _Burst] = {}
        self._most_groups = most_groups

    @property
    def is_clairvoyant(self) -> bool:
        """Whether the forecaster inside reads the truth."""
        return self.inner.is_clairvoyant

    def quantile_s(self, job: Job, level: float) -> float:
        """The forecaster's quantile, seconds."""
        return self.inner.quantile_s(job, level)

    def survival(self, job: Job) -> Sequence[float]:
        """The forecaster's survival at each edge of `LIFE_EDGES_S`."""
        return self.inner.survival(job)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible: what is said of it now is what counts."""
        self._pass_time(now_s)
        self._observer.submitted(job, now_s)
        self._note(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, from zero."""
        self._pass_time(now_s)
        self._observer.started(job, now_s)
        said = self._note(job)
        if not said.attempt:
            self._groups.add(job, said)
        said.run = started_at(now_s)
        self._await(job, said, said.run)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate: it passes its quantile at another instant."""
        self._pass_time(now_s)
        self._observer.rate_changed(job, now_s, rate)
        known = self._open.get(job.job_id)
        if known is not None and known[1].run is not None and known[1].run.rate != rate:
            known[1].run = known[1].run.at_rate(rate, now_s)
            self._await(job, known[1], known[1].run)

    def _await(self, job: Job, said: _Said, run: WorkDone) -> None:
        """Note when a job passes its quantile; what was noted of it before is void."""
        said.attempt += 1
        if not said.is_decided and math.isfinite(said.quantile_s):
            heapq.heappush(self._overdue, (run.reaches_s(said.quantile_s), job.job_id, said.attempt))
            if len(self._overdue) > 2 * len(self._open) + 64:
                self._overdue = [one for one in self._overdue if self._is_awaited(*one[1:])]
                heapq.heapify(self._overdue)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us: it has lived at least that long."""
        self._pass_time(now_s)
        self._observer.sent_back(job, now_s)
        known = self._open.get(job.job_id)
        if known is not None:
            known[1].reached_s, known[1].run = known[1].age_s(now_s), None

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended: its outcome is known."""
        self._pass_time(now_s)
        known = self._open.pop(job.job_id, None)
        if known is not None:
            self._decide(job, known[1], duration_s > known[1].quantile_s, now_s)
            known[1].close(duration_s, has_ended=True)
        self._observer.ended(job, now_s, duration_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn: it would have lived at least as long as it ran."""
        self._pass_time(now_s)
        known = self._open.pop(job.job_id, None)
        if known is not None:
            known[1].close(known[1].age_s(now_s), has_ended=False)
        self._observer.cancelled(job, now_s)

    def levels(self, group: tuple[str, str], levels: Sequence[float], now_s: float) -> list[PitLevelRow]:
        """Said and seen shares of the latest jobs of a group that have started, those that run included."""
        pits, ended = self._pits(group, now_s)
        return pit_reliability(pits, ended, levels, group=group_words(group))

    def record(self, group: tuple[str, str], now_s: float) -> LifeRecord | None:
        """How forecasts have done for a group (see `groups_of`); None while no job of it has started."""
        rows = self.levels(group, INTERVAL, now_s)
        if not rows:
            return None
        low, high = rows
        return LifeRecord(
            low.group, low.number, low.number_ended, high.seen - low.seen,
            1.0 - high.seen, 1.0 - high.high, 1.0 - high.low,
        )  # fmt: skip

    def records(self, job: Job, now_s: float) -> list[LifeRecord]:
        """How forecasts have done for the groups a job belongs to."""
        found = (self.record(group, now_s) for group in groups_of(job))
        return [one for one in found if one is not None]

    def _pits(self, group: tuple[str, str], now_s: float) -> tuple[np.ndarray, np.ndarray]:
        jobs = self._groups.of(group)
        pits = np.array([said.pit_at(now_s) for said in jobs], np.float64)
        return pits, np.array([said.has_ended for said in jobs], np.bool_)

    def _note(self, job: Job) -> _Said:
        known = self._open.get(job.job_id)
        if known is None:
            burst = self._burst_of(job)
            said = _Said(tuple(self.inner.survival(job)), self.inner.quantile_s(job, self._level), burst)
            known = self._open[job.job_id] = (job, said)
            if len(self._open) > self._most_open:
                del self._open[next(iter(self._open))]
        return known[1]

    def _burst_of(self, job: Job) -> _Burst:
        """The burst that a job joins when it is submitted, itself counted."""
        key = (job.pool, job.user, job.num_gpus)
        burst = self._bursts.pop(key, None)
        if burst is None or job.submit_s - burst.first_submit_s > BURST_S:
            burst = _Burst(job.submit_s)
        self._bursts[key] = burst
        if len(self._bursts) > self._most_groups:
            del self._bursts[next(iter(self._bursts))]
        burst.size += 1
        return burst

    def _pass_time(self, now_s: float) -> None:
        """Call the jobs longer than their quantile that have passed it before `now_s`."""
        while self._overdue and self._overdue[0][0] < now_s:
            at_s, job_id, attempt = heapq.heappop(self._overdue)
            if self._is_awaited(job_id, attempt):
                self._decide(*self._open[job_id], True, at_s)

    def _is_awaited(self, job_id: str, attempt: int) -> bool:
        """Whether this attempt of a job still runs, at the same rate."""
        known = self._open.get(job_id)
        return known is not None and known[1].run is not None and known[1].attempt == attempt

    def _decide(self, job: Job, said: _Said, is_miss: bool, now_s: float) -> None:
        if not said.is_decided:
            said.is_decided = True
            # Facts of a live cluster may come late; outcomes are then told as of the last one.
            self._told_s = max(self._told_s, now_s)
            self.monitor.observe(
                StreamKey(LIFE, job.pool), self._level, is_miss, self._told_s, 1.0 / said.burst.size
            )


def groups_of(job: Job) -> Iterator[tuple[str, str]]:
    """Groups whose forecasts are scored together: the job's pool, and its user where known."""
    yield "pool", job.pool
    if job.user is not None:
        yield "user", job.user


def group_words(group: tuple[str, str]) -> str:
    """A group in words."""
    return f"{group[0]} {group[1]}"


def chance_longer(survival: Sequence[float], life_s: float) -> float:
    """P(life > life_s) of a curve on `LIFE_EDGES_S`, in [0, 1].

    ln S is linear in ln t between edges, and in t up to the first one, as `models.lifetime` reads its
    quantiles; where S falls to 0 it is S that is linear. Beyond the last edge nothing more is known: S stays.
    """
    place = bisect_right(LIFE_EDGES_S, life_s)
    if place == len(LIFE_EDGES_S):
        return survival[-1]
    above, below = (survival[place - 1] if place else 1.0), survival[place]
    if place:
        before_s = LIFE_EDGES_S[place - 1]
        share = math.log(life_s / before_s) / math.log(LIFE_EDGES_S[place] / before_s)
    else:
        share = max(life_s, 0.0) / LIFE_EDGES_S[0]
    if below <= 0.0:
        return above * (1.0 - share)
    return float(above * (below / above) ** share)
