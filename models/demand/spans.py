"""Spans of time and how likely they are over soon: gaps between arrivals, and lives of running jobs.

Both are life tables (Cutler and Ederer, 1958) that forget by exposures: causal, with no trained part, and
quick to follow a change. Asked in bulk: P(over within the window | not over yet).
"""

import math
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.work import WorkDone

Floats = NDArray[np.float64]

NUM_BINS: Final = len(LIFE_EDGES_S)
"""Bin k holds the spans in (edge k-1, edge k], bin 0 those up to the first edge."""

_MEMORY: Final = 50.0
_PRIOR_EXPOSURES: Final = 3.0
_LEAST_HAZARD: Final = 1e-4
_MOST_HAZARD: Final = 0.97
_MOST_KEYS: Final = 4096
_DEFAULT_MEDIAN_S: Final = 3600.0
_DEFAULT_SHAPE: Final = 0.7
_FIRST_EDGE_S: Final = LIFE_EDGES_S[0]
_PER_DOUBLING: Final = round(1.0 / math.log2(LIFE_EDGES_S[1] / LIFE_EDGES_S[0]))
_GAP_CLASSES_S: Final = (10.0, 60.0, 600.0, 7200.0)
_LN_2: Final = math.log(2.0)


def ln_alive(curves: Floats, times_s: Floats) -> Floats:
    """Logarithm of S at a time of its own for each curve, linear in the logarithm of time between the edges.

    Args:
        curves: ln S at 0 and at the edges of `LIFE_EDGES_S`, shape (rows, edges + 1).
        times_s: shape (rows,).
    """
    place = _PER_DOUBLING * np.log2(np.maximum(times_s, 1e-9) / _FIRST_EDGE_S) + 1.0
    place = np.minimum(np.maximum(place, 0.0), NUM_BINS - 1e-6)
    column = place.astype(np.intp)
    rows = np.arange(len(curves))
    low, high = curves[rows, column], curves[rows, column + 1]
    alive: Floats = low + (place - column) * (high - low)
    return alive


def _default_hazards() -> Floats:
    """Hazards of a log-logistic span with a median of an hour and a heavy tail: said of the unknown."""
    alive = 1.0 / (1.0 + (np.array(LIFE_EDGES_S) / _DEFAULT_MEDIAN_S) ** _DEFAULT_SHAPE)
    hazards: Floats = 1.0 - alive / np.concatenate(([1.0], alive[:-1]))
    return hazards


_DEFAULT_HAZARDS: Final = _default_hazards()


class SpanTables:
    """For each key how many of the last 50 or so spans that reached a bin were over in it.

    A key's hazard is mixed with that of the next more general one as if it had been seen on three spans. Of
    more than 4,096 keys those made first are forgotten.
    """

    def __init__(self) -> None:
        self._tables: dict[Hashable, Floats] = {}

    def add(self, keys: Sequence[Hashable], span_s: float, *, is_over: bool) -> None:
        """Count a span that was over after `span_s`, or has lasted at least so long."""
        place = bisect_left(LIFE_EDGES_S, span_s)
        is_over = is_over and place < NUM_BINS
        stop = place + 1 if is_over else place
        for key in keys:
            table = self._tables.get(key)
            if table is None:
                if len(self._tables) >= _MOST_KEYS:
                    del self._tables[next(iter(self._tables))]
                table = self._tables[key] = np.zeros((2, NUM_BINS))
            part = table[:, :stop]
            part *= 1.0 - 1.0 / _MEMORY
            part[0] += 1.0
            if is_over:
                part[1, -1] += 1.0

    def curve(self, keys: Sequence[Hashable]) -> Floats:
        """Logarithm of S at 0 and at the edges, of a span with these keys, the most general first."""
        hazards = _DEFAULT_HAZARDS
        for key in keys:
            table = self._tables.get(key)
            if table is not None:
                hazards = (table[1] + _PRIOR_EXPOSURES * hazards) / (table[0] + _PRIOR_EXPOSURES)
        passed = np.log1p(-np.minimum(np.maximum(hazards, _LEAST_HAZARD), _MOST_HAZARD))
        return np.concatenate(([0.0], np.cumsum(passed)))


class GapTables:
    """How long the pools stay quiet between arrivals, by pool and by the length of the gap before."""

    def __init__(self, num_pools: int) -> None:
        self._tables = SpanTables()
        self._last_s = [-math.inf] * num_pools
        self._gap_class = [0] * num_pools
        unknown = self._tables.curve(("all",))
        self._curves = np.tile(unknown, (num_pools, 1))

    def arrived(self, pool: int, now_s: float) -> None:
        """A job has arrived in a pool."""
        gap_s = now_s - self._last_s[pool]
        if math.isfinite(gap_s):
            self._tables.add(self._keys(pool), gap_s, is_over=True)
        self._last_s[pool] = now_s
        self._gap_class[pool] = bisect_left(_GAP_CLASSES_S, gap_s)
        self._curves[pool] = self._tables.curve(self._keys(pool))

    def soon(self, window_s: float, now_s: float) -> Floats:
        """P(a job arrives within the window | quiet so far), for each pool; NaN before its first arrival."""
        last_s = np.array(self._last_s)
        is_known = np.isfinite(last_s)
        quiet_s = np.where(is_known, now_s - last_s, 0.0)
        change = ln_alive(self._curves, quiet_s + window_s) - ln_alive(self._curves, quiet_s)
        return np.where(is_known, -np.expm1(change), np.nan)

    def _keys(self, pool: int) -> tuple[Hashable, ...]:
        return ("all", ("pool", pool), ("gap", pool, self._gap_class[pool]))


class RunningJobs:
    """The jobs that run, each with the curve of lives that its keys had when it started.

    Keys: all jobs, the pool, pool and width, and where the user is known, the user's.
    """

    def __init__(self) -> None:
        self._tables = SpanTables()
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._curves = np.zeros((0, NUM_BINS + 1))
        # pool, GPUs, an instant, instant it leaves, rate, its age at the former instant
        self._numbers = np.zeros((0, 6))
        self._untold: set[str] = set()

    def started(self, pool: int, job: Job, now_s: float, age_s: float = 0.0) -> None:
        """A job runs; `age_s` is what it has already run."""
        self.stopped(job, now_s, counts=False)
        place = self._free.pop() if self._free else self._grow()
        self._places[job.job_id] = place
        self._curves[place] = self._tables.curve(_keys(pool, job))
        self._numbers[place] = (pool, job.num_gpus, now_s - age_s, np.inf, 1.0, 0.0)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate; one that does not run is ignored."""
        place = self._places.get(job.job_id)
        if place is not None and self._numbers[place, 4] != rate:
            age_s = self._age_s(place, now_s)
            self._numbers[place, 2], self._numbers[place, 4:] = now_s, (rate, age_s)

    def age_s(self, job: Job, now_s: float) -> float:
        """Work that a running job has done, seconds; 0 for one that does not run."""
        place = self._places.get(job.job_id)
        return 0.0 if place is None else self._age_s(place, now_s)

    def _age_s(self, place: int, now_s: float) -> float:
        _, _, since_s, _, rate, work_s = self._numbers[place].tolist()
        return WorkDone(work_s, rate, since_s).work_at(now_s)

    def stopped(self, job: Job, now_s: float, *, counts: bool = True) -> None:
        """A job runs no longer but has not ended: it counts up to the age it reached."""
        place = self._places.pop(job.job_id, None)
        self._untold.discard(job.job_id)
        if place is None:
            return
        pool, age_s = int(self._numbers[place, 0]), self._age_s(place, now_s)
        self._numbers[place, 3] = -np.inf
        self._free.append(place)
        if counts:
            self._tables.add(_keys(pool, job), age_s, is_over=False)

    def ended(self, pool: int, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended."""
        self.stopped(job, now_s, counts=False)
        self._tables.add(_keys(pool, job), duration_s, is_over=True)

    def leave_untold(self, now_s: float) -> None:
        """Let each job that runs now leave at the median of its remaining life, unless told of again."""
        for place in self._places.values():
            likely_s = self._likely_s(self._curves[place], self._age_s(place, now_s))
            _, _, since_s, _, rate, work_s = self._numbers[place].tolist()
            self._numbers[place, 3] = WorkDone(work_s, rate, since_s).reaches_s(likely_s)

    def likely_life_s(self, pool: int, job: Job, age_s: float) -> float:
        """Median life of a job that has lived `age_s`; twice its age where the curve never says."""
        return self._likely_s(self._tables.curve(_keys(pool, job)), age_s)

    def expected(self, windows_s: tuple[float, ...], now_s: float, num_pools: int) -> Floats:
        """What runs in each pool and what of it is expected to end within each window.

        Returns:
            shape (pools, 2 + 2 x windows): jobs and GPUs running; for each window the expected number of
            jobs that end and of GPUs they set free.
        """
        is_running = self._numbers[:, 3] > now_s
        numbers, curves = self._numbers[is_running], self._curves[is_running]
        pool, gpus = numbers[:, 0].astype(np.intp), numbers[:, 1]
        rate = numbers[:, 4]
        age_s = numbers[:, 5] + rate * (now_s - numbers[:, 2])
        columns = [np.ones(len(pool)), gpus]
        alive = ln_alive(curves, age_s)
        for window_s in windows_s:
            ends = -np.expm1(ln_alive(curves, age_s + rate * window_s) - alive)
            columns += [ends, ends * gpus]
        return np.stack([np.bincount(pool, one, num_pools) for one in columns], axis=1).astype(np.float64)

    def _likely_s(self, curve: Floats, age_s: float) -> float:
        wanted = float(ln_alive(curve[None], np.array([age_s]))[0]) - _LN_2
        place = int(np.searchsorted(-curve, -wanted, "left"))
        return max(LIFE_EDGES_S[place - 1], age_s + 1.0) if 0 < place <= NUM_BINS else 2.0 * age_s + 1.0

    def _grow(self) -> int:
        """Twice as many places; one of the new ones."""
        old, added = len(self._curves), max(16, len(self._curves))
        self._curves = np.concatenate([self._curves, np.zeros((added, NUM_BINS + 1))])
        empty = np.zeros((added, 6))
        empty[:, 3] = -np.inf
        self._numbers = np.concatenate([self._numbers, empty])
        self._free = list(range(old + added - 1, old, -1))
        return old


def _keys(pool: int, job: Job) -> tuple[Hashable, ...]:
    keys: list[Hashable] = ["all", ("pool", pool), ("width", pool, job.num_gpus)]
    if job.user is not None:
        keys.append(("user", pool, job.num_gpus, job.user))
    return tuple(keys)
