"""Demand forecasts that are watched: a pool whose forecasts do not keep what they say is not lent from.

Each half hour of the clock it is noted, per pool and window, how many jobs the scenarios say will come at
most, and with which chance. When the window is over, what has come is told to a `ForecastMonitor`. Where the
monitor does not trust a pool over a window, the pool is taken to want its whole quota there until it does
again, so nothing of it is lent that far ahead (after SIA, SoCC 2023, which switches sharing off for pools and
windows whose forecasts went bad). What is scored is always the forecast inside, whatever is answered.

A cell of the grid goes by the shortest window that holds it: while the long window of a pool is off and the
short ones are not, it is lent for as long as the short ones reach.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import Burst
from domain.jobs import Job
from domain.observers import Observer
from domain.timegrid import default_grid
from models.calibration.monitor import ForecastMonitor, StreamKey
from models.demand.pools import PoolDemand

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ARRIVALS: Final = "arrival"
"""Kind of the streams: a miss is a window in which more jobs came than was said."""

SLOT_S: Final = 1800.0
"""How often forecasts are noted, and trust is looked at again, in slots of the clock."""

LEVEL: Final = 0.95
"""Least chance that is said of the number of jobs that is not exceeded."""

WATCHED_S: Final = (240.0, 3840.0, 57_600.0)
"""Windows, seconds: the edges of the grid nearest, in ratio, to SIA's 5 min, 1 h and 12 h."""


class _Noted(NamedTuple):
    """What was said of a window: it begins at an instant; most jobs and the chance of no more, (pools,)."""

    begin_s: float
    most_jobs: Floats
    level: Floats


class WatchedDemand(Observer):
    """A `PoolDemand` whose answers are used as long as they turn out to be as good as they say.

    Answers are the ones of the demand inside except for pools and windows that are switched off: there
    `peaks` and `arrivals` are at least the whole quota and as many jobs, in each cell of which the window is
    the shortest. What happens in the past that `fit` learns from is not watched: it starts with trust.

    Args:
        demand: the forecaster inside; told by this one, and by nobody else.
        monitor: decides about trust; one of the usual design if None.

    Attributes:
        monitor: see there; its streams are of kind `ARRIVALS`.
    """

    is_clairvoyant: Final = False

    def __init__(self, demand: PoolDemand, monitor: ForecastMonitor | None = None) -> None:
        self.monitor = monitor or ForecastMonitor()
        self._demand = demand
        self._place = {pool: k for k, pool in enumerate(demand.pools)}
        self._quota = np.array([demand.quotas[pool] for pool in demand.pools], np.float64)
        ends_s = np.array(default_grid().edges_s[1:])
        self._within = ends_s <= np.array(WATCHED_S)[:, None]  # (windows, cells)
        shorter = np.vstack([np.zeros_like(ends_s, np.bool_), self._within[:-1]])
        self._governed = self._within & ~shorter  # of which a window is the shortest
        self._begin(None)

    def fit(
        self, past: Sequence[tuple[Job, float]], censored: Sequence[tuple[Job, float]], now_s: float
    ) -> None:
        """Forget what was seen and learn from a history; see `PoolDemand.fit`.

        The monitor stays what it is: what it knows of the forecasts is no part of the history.
        """
        self._demand.fit(past, censored, now_s)
        self._begin(now_s)
        self._told.update(job.job_id for jobs in (past, censored) for job, _ in jobs)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible. Told twice, it counts once."""
        self._hear(job, now_s)
        self._demand.submitted(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        self._hear(job, now_s)
        self._demand.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._hear(job, now_s)
        self._demand.rate_changed(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us and waits again."""
        self._hear(job, now_s)
        self._demand.sent_back(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone."""
        self._hear(job, now_s)
        self._demand.ended(job, now_s, duration_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn."""
        self._hear(job, now_s)
        self._demand.cancelled(job, now_s)

    def new_load_gpus(self, window_s: float, now_s: float) -> dict[str, float]:
        """SIA's TotalNewLoad, see `PoolDemand.new_load_gpus`; the whole quota of a pool that is off.

        A window goes by the watched one that is nearest in ratio.
        """
        self._pass_time(now_s)
        said = self._demand.new_load_gpus(window_s, now_s)
        nearest = int(np.abs(np.log(np.array(WATCHED_S) / window_s)).argmin())
        for place in np.flatnonzero(self._is_off[:, nearest]).tolist():
            said[self._demand.pools[place]] = float(self._quota[place])
        return said

    def peaks(self, now_s: float) -> Floats:
        """Scenarios as of `PoolDemand.peaks`, read-only; at least the quota in cells that are off."""
        self._pass_time(now_s)
        return self._raised(self._demand.peaks(now_s))

    def arrivals(self, now_s: float) -> Floats:
        """Jobs that arrive in each cell in the scenarios of `peaks`; the same shape, read-only."""
        self._pass_time(now_s)
        return self._raised(self._demand.arrivals(now_s))

    def fresh(self, now_s: float) -> tuple[Floats, Floats]:
        """Peaks and arrivals drawn apart from `peaks` and `arrivals`; the same shapes, raised likewise."""
        self._pass_time(now_s)
        peaks, arrivals = self._demand.fresh(now_s)
        return self._raised(peaks), self._raised(arrivals)

    def bursts(self, now_s: float) -> tuple[Burst, ...]:
        """Bursts of the pools and how often they happen; see `models.scenarios.bursts`."""
        self._pass_time(now_s)
        return self._demand.bursts(now_s)

    @property
    def is_off(self) -> Bools:
        """(pools, windows) which pools are switched off over which of `WATCHED_S`, as of what was told."""
        return self._is_off.copy()

    def reasons_off(self) -> dict[tuple[str, float], list[str]]:
        """Why nothing is lent, in words, for each pool and window (seconds) that is switched off."""
        off = ((self._demand.pools[pool], WATCHED_S[window]) for pool, window in np.argwhere(self._is_off))
        return {key: self.monitor.reasons_off(*key) for key in off}

    def _begin(self, now_s: float | None) -> None:
        """Watch from an instant on; None: from the first that is told of."""
        self._slot = None if now_s is None else math.ceil(now_s / SLOT_S)
        self._told: set[str] = set()
        self._arrived_s: list[float] = []  # of the jobs that still count, in order, and their pools
        self._arrived_in: list[int] = []
        self._noted: list[deque[_Noted]] = [deque() for _ in WATCHED_S]
        self._look_up_trust()

    def _hear(self, job: Job, now_s: float) -> None:
        """Count a job that was not known."""
        place = self._place.get(job.pool)
        if place is None:
            return
        self._pass_time(now_s)
        if job.job_id not in self._told:
            self._told.add(job.job_id)
            self._arrived_s.append(now_s)
            self._arrived_in.append(place)

    def _pass_time(self, now_s: float) -> None:
        """Look at each slot before `now_s`: by then all facts at its beginning are in."""
        if self._slot is None:
            self._slot = math.ceil(now_s / SLOT_S)
        while self._slot * SLOT_S < now_s:
            self._settle(self._slot * SLOT_S)
            self._note(self._slot * SLOT_S)
            self._slot += 1

    def _note(self, at_s: float) -> None:
        """Note what is said of the windows that begin now.

        Of n scenarios the k-th least number of jobs is exceeded with a chance of at most (n + 1 - k) /
        (n + 1) if what comes is as likely as any of them (Vovk, Gammerman and Shafer, 2005). Where more
        scenarios have that number, k is the last of them: the level is what is said of exactly this number.
        """
        said = self._demand.arrivals(at_s)
        number = len(said)
        rank = min(number, math.ceil(LEVEL * (number + 1)))
        for noted, cells in zip(self._noted, self._within, strict=True):
            jobs = said[:, :, cells].sum(axis=2)
            most = np.partition(jobs, rank - 1, axis=0)[rank - 1]
            noted.append(_Noted(at_s, most, (jobs <= most).sum(axis=0) / (number + 1)))

    def _settle(self, now_s: float) -> None:
        """Tell the monitor of the windows that are over, and forget the arrivals that no other needs.

        Windows of a length overlap where they are longer than a slot: each counts for the part of it that is
        its own.
        """
        times, pools = np.array(self._arrived_s), np.array(self._arrived_in, np.intp)
        for noted, window_s in zip(self._noted, WATCHED_S, strict=True):
            weight = min(1.0, SLOT_S / window_s)
            while noted and noted[0].begin_s + window_s <= now_s:
                begin_s, most, level = noted.popleft()
                first = np.searchsorted(times, begin_s, "right")
                beyond = np.searchsorted(times, begin_s + window_s, "left")
                came = np.bincount(pools[first:beyond], minlength=len(most))
                for pool, place in self._place.items():
                    key = StreamKey(ARRIVALS, pool, window_s)
                    is_miss = bool(came[place] > most[place])
                    self.monitor.observe(key, float(level[place]), is_miss, now_s, weight)
        since_s = min((noted[0].begin_s for noted in self._noted if noted), default=now_s)
        stale = int(np.searchsorted(times, since_s, "right"))
        del self._arrived_s[:stale], self._arrived_in[:stale]
        self._look_up_trust()

    def _look_up_trust(self) -> None:
        self._is_off = np.array(
            [
                [not self.monitor.may_lend(pool, window_s) for window_s in WATCHED_S]
                for pool in self._demand.pools
            ],
            np.bool_,
        ).reshape(len(self._place), len(WATCHED_S))
        self._floor: Floats | None = None
        if self._is_off.any():
            self._floor = self._quota[:, None] * (self._is_off @ self._governed)

    def _raised(self, said: Floats) -> Floats:
        """At least the whole quota where a pool is off, (scenarios, pools, cells), read-only."""
        if self._floor is None:
            return said
        raised: Floats = np.maximum(said, self._floor)
        raised.flags.writeable = False
        return raised
