"""Joint scenarios of demand: past stretches of the same hour of the day, replayed (block bootstrap)."""

import math
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import Burst
from domain.jobs import Job
from domain.timegrid import LOOK_S, default_grid
from models.scenarios.bursts import MEMORY_S, burst_rates

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RASTER_S: Final = 1800.0  # distance of the past instants
REFRESH_S: Final = 43_200.0  # how often the library takes in what has been told, on the clock told
_MAIN_CELLS: Final = 11  # cells, up to 16 h ahead, that have to be known of a stretch for it to be drawn
_BLOCK_ELEMENTS: Final = 1_000_000
HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
_LIVES: Final = 2000
_FRESH: Final = 2  # salt of draws beside the usual ones
_LEAST_LIVES: Final = 20
_LEAST_ALIVE: Final = 1e-9
_NOTHING_KNOWN_S: Final = 3600.0


def cell_peaks(submit_s: Floats, end_s: Floats, gpus: Ints, instants_s: Floats, edges_s: Floats) -> Ints:
    """Peak GPUs held in each cell by the jobs that arrive after an instant, each started on arrival.

    A job holds its GPUs over [submit, end), a cell is [instant + edge, instant + next edge), of which the
    first `LOOK_S` seconds are looked at. One sweep for many instants: events are sorted once, and those of
    jobs that had arrived before an instant are masked.

    Args:
        submit_s: arrivals, ascending, shape (jobs,).
        end_s: ends, shape (jobs,).
        gpus: widths, shape (jobs,).
        instants_s: shape (instants,).
        edges_s: edges of the cells, ascending, the first one 0, shape (cells + 1,).

    Returns:
        shape (instants, cells).
    """
    times = np.concatenate([end_s, submit_s])
    order = np.argsort(times, kind="stable")
    times = times[order]
    delta = np.concatenate([-gpus, gpus]).astype(np.int32)[order]
    arrival = np.concatenate([submit_s, submit_s])[order]
    peaks = np.zeros((len(instants_s), len(edges_s) - 1), dtype=np.int64)
    step = max(1, _BLOCK_ELEMENTS // max(1, len(times)))
    for k in range(0, len(instants_s), step):
        peaks[k : k + step] = _sweep(times, delta, arrival, instants_s[k : k + step], edges_s)
    return peaks


def _sweep(times: Floats, delta: NDArray[np.int32], arrival: Floats, instants: Floats, edges: Floats) -> Ints:
    low = int(np.searchsorted(times, instants.min(), "right"))
    high = int(np.searchsorted(times, instants.max() + edges[-1], "left"))
    times = times[low:high]
    rows, columns = len(instants), high - low + 1
    level = np.zeros((rows, columns), dtype=np.int32)
    is_new = arrival[low:high] > instants[:, None]
    np.cumsum(np.where(is_new, delta[low:high], 0), axis=1, out=level[:, 1:])
    begins = instants[:, None] + edges[:-1]
    first = np.searchsorted(times, begins, "right")
    beyond = np.searchsorted(times, begins + np.minimum(np.diff(edges), LOOK_S), "left") + 1
    spans = np.stack([first, beyond], axis=2) + columns * np.arange(rows)[:, None, None]
    flat = np.append(level.ravel(), np.int32(0))
    peaks: Ints = np.maximum.reduceat(flat, spans.ravel())[::2].reshape(rows, -1).astype(np.int64)
    return peaks


def cell_arrivals(submit_s: Floats, instants_s: Floats, edges_s: Floats) -> Ints:
    """Jobs that arrive in each cell after each instant (never at it), shape (instants, cells)."""
    bounds = np.searchsorted(submit_s, instants_s[:, None] + edges_s, "left")
    bounds[:, 0] = np.searchsorted(submit_s, instants_s, "right")
    return np.diff(bounds, axis=1)


class _Survival:
    """Product-limit estimate of P(life > t) (Kaplan and Meier 1958), with a Pareto tail.

    Beyond the longest life seen to its end the chance of lasting x times as long is 1 / x.

    Args:
        life_s: lives, or ages of those that have not ended, shape (jobs,).
        is_ended: which of them are lives, shape (jobs,).
    """

    def __init__(self, life_s: Floats, is_ended: Bools) -> None:
        order = np.lexsort((~is_ended, life_s))
        ended = is_ended[order]
        at_risk = len(order) - np.arange(len(order))
        alive = np.cumprod(np.where(ended, 1.0 - 1.0 / at_risk, 1.0))[ended]
        self._times = np.append(life_s[order][ended], np.inf)
        self._alive = np.maximum(np.append(1.0, alive), _LEAST_ALIVE)
        self._longest = self._times[-2] if ended.any() else _NOTHING_KNOWN_S

    def draw_s(self, age_s: Floats, uniform: Floats) -> Floats:
        """Life above `age_s` where P(life > t | life > age) falls to `uniform`, which lies in (0, 1)."""
        wanted = uniform * self._alive[np.searchsorted(self._times, age_s, "right")]
        reached = np.searchsorted(-self._alive[1:], -wanted, "left")
        tail = np.maximum(self._longest, age_s) * self._alive[-1] / wanted
        drawn: Floats = np.where(reached < len(self._times) - 1, self._times[reached], tail)
        return drawn


class PoolLog:
    """The arrivals of one pool and what has become of them, column by column, in the order of arrival."""

    def __init__(self) -> None:
        self.submit_s = array("d")
        self.gpus = array("q")
        self.uniform = array("d")
        self.start_s = array("d")
        self.ended_s = array("d")
        self.duration_s = array("d")
        self.stops: list[tuple[int, float, float]] = []
        self.slower: dict[int, list[tuple[float, float]]] = {}  # by place: instants and rates from there

    def add(self, gpus: int, uniform: float, now_s: float) -> int:
        """A job has arrived, whose level of survival is `uniform`; its place in the columns."""
        self.submit_s.append(now_s)
        self.gpus.append(gpus)
        self.uniform.append(uniform)
        for column in (self.start_s, self.ended_s, self.duration_s):
            column.append(math.inf)
        return len(self.submit_s) - 1

    def change_rate(self, place: int, now_s: float, rate: float) -> None:
        """The job at a place goes on at another rate."""
        if rate < 1.0 or place in self.slower:
            self.slower.setdefault(place, []).append((now_s, rate))

    def lost_s(self, place: int, from_s: float, until_s: float) -> float:
        """Work that the job at a place has lost to its rates in a time throughout which it ran, seconds."""
        lost_s, end_s = 0.0, until_s
        for at_s, rate in reversed(self.slower.get(place, ())):
            lost_s += (1.0 - rate) * max(0.0, end_s - max(at_s, from_s))
            end_s = min(end_s, at_s)
        return lost_s

    def stop(self, place: int, now_s: float) -> None:
        """The job at a place runs no longer but has not ended either."""
        self.change_rate(place, now_s, 1.0)
        if self.start_s[place] < now_s:
            self.stops.append((place, self.start_s[place], now_s))
        self.start_s[place] = math.inf

    def arrivals_since(self, from_s: float) -> tuple[Floats, Ints]:
        """Instants and widths of the jobs that have arrived from `from_s` on."""
        begin = bisect_left(self.submit_s, from_s)
        return np.array(self.submit_s[begin:]), np.array(self.gpus[begin:], dtype=np.int64)

    def arrivals_between(self, from_s: float, until_s: float) -> tuple[Floats, Ints]:
        """Instants and widths of the jobs that arrived in [from, until)."""
        begin, end = bisect_left(self.submit_s, from_s), bisect_left(self.submit_s, until_s)
        return np.array(self.submit_s[begin:end]), np.array(self.gpus[begin:end], dtype=np.int64)

    def known(self, from_s: float, as_of_s: float) -> "_Known":
        """What had been told before `as_of_s` of the jobs since `from_s`, at least the last `_LIVES`."""
        end = bisect_left(self.submit_s, as_of_s)
        begin = min(bisect_left(self.submit_s, from_s), max(0, end - _LIVES))
        start_s = np.array(self.start_s[begin:end])
        age_s = np.where(start_s < as_of_s, as_of_s - start_s, 0.0)
        for place in self.slower:
            if begin <= place < end and self.start_s[place] < as_of_s:
                age_s[place - begin] -= self.lost_s(place, self.start_s[place], as_of_s)
        for place, began_s, stopped_s in self.stops:
            if begin <= place < end and began_s < as_of_s:
                until_s = min(stopped_s, as_of_s)
                ran_s = until_s - began_s - self.lost_s(place, began_s, until_s)
                age_s[place - begin] = max(age_s[place - begin], ran_s)
        is_ended = np.array(self.ended_s[begin:end]) < as_of_s
        return _Known(
            np.array(self.submit_s[begin:end]),
            np.array(self.gpus[begin:end], dtype=np.int64),
            np.array(self.uniform[begin:end]),
            np.where(is_ended, np.array(self.duration_s[begin:end]), age_s),
            is_ended,
        )


class _Known(NamedTuple):
    """Jobs as known at an instant; `life_s` is the age of those that have not ended."""

    submit_s: Floats
    gpus: Ints
    uniform: Floats
    life_s: Floats
    is_ended: Bools

    def lives_s(self, everywhere: "_Survival") -> Floats:
        """Life of each job: its own where it has ended, else drawn given its age."""
        is_enough = self.is_ended.sum() >= _LEAST_LIVES
        survival = _Survival(self.life_s, self.is_ended) if is_enough else everywhere
        drawn: Floats = survival.draw_s(self.life_s, self.uniform)
        return np.where(self.is_ended, self.life_s, drawn)


def survival_of(known: Sequence[_Known]) -> _Survival:
    """Lives of all these jobs taken together."""
    return _Survival(
        np.concatenate([one.life_s for one in known]), np.concatenate([one.is_ended for one in known])
    )


class PastStretches:
    """The library of past stretches, and the scenarios drawn from it.

    Half-hourly instants of the past; of each, per pool and cell of the grid, the peak of the GPUs that jobs
    arriving after it held, had each started at once, and how many arrived. A job that has not ended is given
    a life: its age or more, at a level of P(life > t | life > age) that is its own for good.

    An instant is worked out when another of its cells is over, so the library is up to twelve hours behind.
    Other generators of scenarios draw on the same library in another way: subclasses that override `_draw`.

    Args:
        quotas: GPUs of each pool.
        seed: of the lives given and of the draws.
        num_scenarios: how many to draw.
        since_s: instant at which the record begins.
        begin_s: instant as of which the library is first made; facts up to it are told before any draw.

    Attributes:
        slot_s: how long a draw stands. Slots are those of the clock; a draw is a function of the seed and of
            what had happened before its slot began, whenever and however often it is asked for.
    """

    slot_s: ClassVar[float] = HOUR_S

    def __init__(
        self, quotas: Mapping[str, int], seed: int, num_scenarios: int, *, since_s: float, begin_s: float
    ) -> None:
        self._edges = np.array(default_grid().edges_s)
        self._logs = {pool: PoolLog() for pool in quotas}
        self._places: dict[str, int] = {}
        self._seed = seed
        self._num_scenarios = num_scenarios
        self._begin_s = self._next_s = begin_s
        self._instants = np.empty(0)
        self._known = np.empty(0, dtype=np.int64)
        self._tables = np.zeros((2, 0, len(quotas), len(self._edges) - 1))
        self._first = math.ceil(since_s / RASTER_S)
        self._drawn: tuple[float, Floats, Floats] | None = None
        self._bursts: tuple[int, tuple[Burst, ...]] | None = None
        self._unknown = np.array(list(quotas.values()), dtype=np.float64)

    def arrived(self, job: Job, now_s: float) -> None:
        """A job has arrived."""
        uniform = (zlib.crc32(f"{self._seed}:{job.job_id}".encode()) + 0.5) / 2.0**32
        self._places[job.job_id] = self._logs[job.pool].add(job.num_gpus, uniform, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        self._logs[job.pool].start_s[self._places[job.job_id]] = now_s

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._logs[job.pool].change_rate(self._places[job.job_id], now_s, rate)

    def stopped(self, job: Job, now_s: float) -> None:
        """A job runs no longer but has not ended either."""
        self._logs[job.pool].stop(self._places[job.job_id], now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended."""
        log, place = self._logs[job.pool], self._places[job.job_id]
        log.ended_s[place] = now_s
        log.duration_s[place] = duration_s

    def draw(self, now_s: float) -> tuple[Floats, Floats]:
        """Peaks and arrivals, each (scenarios, pools, cells); one draw for each slot, to be read only.

        A cell that is not over yet in a past stretch is filled from another one, the same for all pools;
        one that is over in none, as the last that is (its arrivals in proportion to the length). The whole
        quota, and as many jobs, before the library holds anything.
        """
        slot_s = self._slot_begin_s(now_s)
        if self._drawn is None or self._drawn[0] != slot_s:
            at_s = max(slot_s, self._begin_s)
            self._refresh_until(at_s)
            drawn = self._draw(at_s) if self._known.any() else self._whole_quota()
            drawn.flags.writeable = False
            self._drawn = (slot_s, drawn[0], drawn[1])
        return self._drawn[1:]

    def fresh(self, now_s: float) -> tuple[Floats, Floats]:
        """Peaks and arrivals as of `draw`, drawn apart: what a plan made from `draw` has not seen.

        Before the library holds anything, the same as `draw`.
        """
        at_s = max(self._slot_begin_s(now_s), self._begin_s)
        self._refresh_until(at_s)
        drawn = self._draw(at_s, _FRESH) if self._known.any() else self._whole_quota()
        return drawn[0], drawn[1]

    def _slot_begin_s(self, now_s: float) -> float:
        """Where the slot of `now_s` begins."""
        return math.floor(now_s / self.slot_s) * self.slot_s

    def bursts(self, now_s: float) -> tuple[Burst, ...]:
        """Bursts of the pools and their rates, looked up anew every half hour of the clock."""
        slot = math.floor(now_s / RASTER_S)
        if self._bursts is None or self._bursts[0] != slot:
            at_s = max(slot * RASTER_S, self._begin_s)
            since_s = max(at_s - MEMORY_S, self._first * RASTER_S)
            arrivals = [log.arrivals_between(since_s, at_s) for log in self._logs.values()]
            self._bursts = (slot, burst_rates(arrivals, since_s, at_s))
        return self._bursts[1]

    def need(self, now_s: float) -> Floats:
        """GPUs that each pool's new jobs may claim: the peaks of `draw`, capped by the quota; same shape."""
        return np.minimum(self.draw(now_s)[0], self._unknown[:, None])

    def _refresh_until(self, until_s: float) -> None:
        while self._next_s <= until_s:
            self._refresh(self._next_s)
            self._next_s = (math.floor(self._next_s / REFRESH_S) + 1) * REFRESH_S

    def _refresh(self, as_of_s: float) -> None:
        last = math.floor((as_of_s - self._edges[1]) / RASTER_S)
        new = np.arange(self._first + len(self._instants), last + 1) * RASTER_S
        self._instants = np.concatenate([self._instants, new])
        grown = np.zeros((2, len(new), *self._tables.shape[2:]))
        self._tables = np.concatenate([self._tables, grown], axis=1)
        known = np.searchsorted(self._edges[1:], as_of_s - self._instants, "right")
        stale = known > np.append(self._known, np.zeros(len(new), dtype=np.int64))
        self._known = known
        if stale.any():
            self._recompute(np.flatnonzero(stale), as_of_s)

    def _recompute(self, rows: Ints, as_of_s: float) -> None:
        instants = self._instants[rows]
        known = [log.known(float(instants[0]), as_of_s) for log in self._logs.values()]
        everywhere = survival_of(known)
        for pool, one in enumerate(known):
            ends = one.submit_s + one.lives_s(everywhere)
            self._tables[0, rows, pool] = cell_peaks(one.submit_s, ends, one.gpus, instants, self._edges)
            self._tables[1, rows, pool] = cell_arrivals(one.submit_s, instants, self._edges)

    def _whole_quota(self) -> Floats:
        shape = (2, self._num_scenarios, *self._tables.shape[2:])
        return np.broadcast_to(self._unknown[:, None], shape).copy()

    def _draw(self, at_s: float, salt: int = 0) -> Floats:
        """Peaks and arrivals as of `at_s`, shape (2, scenarios, pools, cells), from a library not empty.

        Another `salt`, at least 0, is another draw.
        """
        hour = math.floor(at_s / HOUR_S)
        rng = self._rng(hour, salt)
        known_cells = int(self._known.max())
        main = _balanced(self._candidates(hour, min(known_cells, _MAIN_CELLS)), self._num_scenarios, rng)
        donors = _balanced(self._candidates(hour, known_cells), self._num_scenarios, rng)
        cells = np.minimum(np.arange(len(self._edges) - 1), known_cells - 1)
        rows = np.where(cells < self._known[main][:, None], main[:, None], donors[:, None])
        pools = np.arange(len(self._unknown))
        drawn: Floats = self._tables[:, rows[:, None, :], pools[None, :, None], cells[None, None, :]]
        lengths = np.diff(self._edges)
        drawn[1] *= lengths / lengths[cells]
        return drawn

    def _rng(self, number: int, salt: int, *more: int) -> np.random.Generator:
        """The generator of a draw's number and salt."""
        return np.random.default_rng([self._seed, number % 2**32, *more, *([salt] if salt else [])])

    def _candidates(self, hour: int, least_cells: int) -> Ints:
        """Rows of which `least_cells` are known, at most an hour from this one on the clock.

        Farther ones too, the nearest first, where those are fewer than the scenarios.
        """
        rows = np.flatnonzero(self._known >= least_cells)
        ahead_s = self._instants[rows] - (hour + 0.5) * HOUR_S
        apart_s = np.abs((ahead_s + DAY_S / 2) % DAY_S - DAY_S / 2)
        enough = min(self._num_scenarios, len(rows)) - 1
        return rows[apart_s <= max(HOUR_S, float(np.sort(apart_s)[enough]))]


def _balanced(candidates: Ints, number: int, rng: np.random.Generator) -> Ints:
    """`number` of the candidates in random order, each drawn as often as any other, give or take one."""
    return np.asarray(rng.permutation(np.resize(rng.permutation(candidates), number)), dtype=np.int64)
