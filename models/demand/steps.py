"""What pools will ask for, step by step on a grid of the asker's own: peak GPUs and arrivals.

The samples are past stretches of the same length that began at about the same time of the day, those at which
the pool was as busy as it is now; what they asked for is worked out from the record when it is asked for. The
seasonal baseline, which any forecast has to beat, is what the same hours of the last seven days asked for.
"""

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from domain.observers import Observer
from domain.timegrid import LOOK_S
from models.scenarios.stretches import (
    DAY_S,
    HOUR_S,
    RASTER_S,
    Floats,
    PoolLog,
    cell_arrivals,
    cell_peaks,
    survival_of,
)

LOOK_BACK_S: Final = 28 * DAY_S
"""How far back stretches begin at most."""

LEAST_SAMPLES: Final = 20
"""Stretches that are looked at where there are as many, however far off on the clock."""

_BUSY_S: Final = 3 * HOUR_S
"""What was asked for in this time before an instant says how busy the pool is then."""

_WEEK: Final = 7
MAX_STEPS: Final = 1_000


@dataclass(frozen=True, slots=True)
class StepForecast:
    """What pools ask for in steps from an instant on.

    Attributes:
        pools: names.
        step_s: length of a step, seconds.
        levels: in (0, 1), ascending.
        peak_gpus: most GPUs that the jobs arriving after the instant hold at once within a step, had each
            started on arrival; shape (pools, steps, levels), non-decreasing along the last axis.
        peak_gpus_mean: shape (pools, steps).
        arrivals, arrivals_mean: jobs that arrive in a step; likewise.
        samples: stretches behind what is said of a pool; 0: nothing is known, and the whole quota is said.
    """

    pools: tuple[str, ...]
    step_s: float
    levels: tuple[float, ...]
    peak_gpus: Floats
    peak_gpus_mean: Floats
    arrivals: Floats
    arrivals_mean: Floats
    samples: int


class StepDemand(Observer):
    """Told what happens; may be asked as of any instant of the past, and then knows nothing later.

    Args:
        quotas: GPUs of each pool; jobs of others are left out.
        seed: of the lives given to jobs that have not ended.
    """

    def __init__(self, quotas: Mapping[str, int], *, seed: int = 0) -> None:
        self.quotas = dict(quotas)
        self._seed = seed
        self._logs = {pool: PoolLog() for pool in quotas}
        self._places: dict[str, int] = {}
        self._first_s = math.inf

    def fit(
        self,
        past: Sequence[tuple[Job, float]],
        censored: Sequence[tuple[Job, float]],
        now_s: float,
        starts: Mapping[str, float] | None = None,
        cut_off: Collection[str] = frozenset(),
    ) -> None:
        """Take in a record; arguments as of `models.lifetime.hazard.HazardLifetimes.fit`."""
        began = starts or {}
        rows = [(job, life_s, True) for job, life_s in past] + [
            (job, age_s, False) for job, age_s in censored
        ]
        for job, life_s, is_past in sorted(rows, key=lambda row: (row[0].submit_s, row[0].job_id)):
            self.submitted(job, job.submit_s)
            if job.pool not in self._logs or (not is_past and life_s <= 0.0):
                continue
            start_s = began.get(job.job_id, job.submit_s if is_past else now_s - life_s)
            self.started(job, start_s)
            if is_past and job.job_id in cut_off:
                self.sent_back(job, start_s + life_s)
            elif is_past:
                self.ended(job, start_s + life_s, life_s)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has arrived. Told twice, it counts once."""
        if job.pool in self._logs and job.job_id not in self._places:
            uniform = (zlib.crc32(f"{self._seed}:{job.job_id}".encode()) + 0.5) / 2.0**32
            self._places[job.job_id] = self._logs[job.pool].add(job.num_gpus, uniform, now_s)
            self._first_s = min(self._first_s, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        if job.job_id in self._places:
            self._logs[job.pool].start_s[self._places[job.job_id]] = now_s

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        if job.job_id in self._places:
            self._logs[job.pool].change_rate(self._places[job.job_id], now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job runs no longer and has not ended."""
        if job.job_id in self._places:
            self._logs[job.pool].stop(self._places[job.job_id], now_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn: it counts up to the age it reached."""
        self.sent_back(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended."""
        if job.job_id in self._places:
            log, place = self._logs[job.pool], self._places[job.job_id]
            log.ended_s[place], log.duration_s[place] = now_s, duration_s

    def forecast(
        self,
        now_s: float,
        *,
        horizon_s: float,
        step_s: float,
        levels: Sequence[float],
        pools: Sequence[str] | None = None,
        is_seasonal: bool = False,
    ) -> StepForecast:
        """What pools ask for in each step of [now, now + horizon).

        Args:
            now_s: the instant; nothing later is looked at.
            horizon_s: a multiple of `step_s`.
            step_s: length of a step.
            levels: in (0, 1), ascending.
            pools: those asked about; all where None.
            is_seasonal: say what the baseline says.

        Raises:
            ValueError: if the horizon is no whole number of steps, 1 to `MAX_STEPS`, or a pool is unknown.
        """
        number = round(horizon_s / step_s) if step_s > 0.0 else 0
        if not 1 <= number <= MAX_STEPS or abs(number * step_s - horizon_s) > 1e-6 * step_s:
            raise ValueError(f"a horizon of {horizon_s:g} s is not 1 to {MAX_STEPS} steps of {step_s:g} s")
        asked = tuple(self.quotas) if pools is None else tuple(pools)
        unknown = [pool for pool in asked if pool not in self.quotas]
        if unknown:
            raise ValueError(f"there is no pool {unknown[0]!r}")
        edges = np.arange(number + 1, dtype=np.float64) * step_s
        stretches = self._daily(now_s, horizon_s) if is_seasonal else self._alike(now_s, horizon_s, step_s)
        tables = self._tables(asked, stretches, now_s, edges)
        if not is_seasonal:
            tables = [
                table[:, self._as_busy(pool, stretches, now_s)]
                for pool, table in zip(asked, tables, strict=True)
            ]
        samples = len(tables[0][0])
        if not samples:
            tables = [np.full((2, 1, number), float(self.quotas[pool])) for pool in asked]
        cuts = [np.quantile(table, levels, axis=1, method="higher") for table in tables]
        both, means = np.moveaxis(np.array(cuts), 1, 3), np.array([table.mean(axis=1) for table in tables])
        return StepForecast(
            asked, step_s, tuple(levels), both[:, 0], means[:, 0], both[:, 1], means[:, 1], samples
        )

    def asked_for(self, at_s: float, now_s: float, *, horizon_s: float, step_s: float) -> Floats:
        """What came: peaks and arrivals of each pool in the steps from an instant on, (2, pools, steps).

        Args:
            at_s: the instant.
            now_s: as of when jobs are known; those that run on are given a life.
            horizon_s: as of `forecast`.
            step_s: likewise.
        """
        edges = np.arange(round(horizon_s / step_s) + 1, dtype=np.float64) * step_s
        tables = self._tables(tuple(self.quotas), np.array([at_s]), now_s, edges)
        return np.array([[table[k, 0] for table in tables] for k in range(2)])

    def _alike(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Past instants a quarter of a step, at most an hour, off on the clock; else the nearest few."""
        span_s = min(LOOK_BACK_S, now_s - self._first_s) if math.isfinite(self._first_s) else 0.0
        first, last = math.ceil(horizon_s / RASTER_S), math.floor(span_s / RASTER_S)
        back_s: Floats = np.arange(first, last + 1, dtype=np.float64) * RASTER_S
        apart_s = np.abs((back_s + DAY_S / 2) % DAY_S - DAY_S / 2)
        if not len(back_s):
            return back_s
        enough = min(LEAST_SAMPLES, len(back_s)) - 1
        return np.sort(
            now_s - back_s[apart_s <= max(min(HOUR_S, step_s / 4), float(np.sort(apart_s)[enough]))]
        )

    def _daily(self, now_s: float, horizon_s: float) -> Floats:
        """The same instant of the last seven days of which the whole horizon is over."""
        first = max(1, math.ceil(horizon_s / DAY_S))
        instants_s = now_s - np.arange(first, first + _WEEK) * DAY_S
        return np.sort(instants_s[instants_s >= self._first_s])

    def _as_busy(self, pool: str, instants_s: Floats, now_s: float) -> NDArray[np.intp]:
        """Places of the half of the instants at which a pool was most nearly as busy as it is now."""
        submit_s, gpus = self._logs[pool].arrivals_between(-math.inf, now_s)
        summed = np.concatenate(([0.0], np.cumsum(gpus)))
        at_s = np.append(instants_s, now_s)
        asked = summed[np.searchsorted(submit_s, at_s)] - summed[np.searchsorted(submit_s, at_s - _BUSY_S)]
        busy = np.log1p(asked)
        nearest = np.argsort(np.abs(busy[:-1] - busy[-1]), kind="stable")
        return np.sort(nearest[: max(LEAST_SAMPLES, len(instants_s) // 2)])

    def _tables(
        self, pools: Sequence[str], instants_s: Floats, now_s: float, edges_s: Floats
    ) -> list[Floats]:
        """Peaks and arrivals of each pool after each instant, a table (2, instants, steps) each."""
        number, parts = len(edges_s) - 1, math.ceil((edges_s[1] - edges_s[0]) / LOOK_S)
        if not len(instants_s):
            return [np.zeros((2, 0, number)) for _ in pools]
        fine_s = np.linspace(0.0, edges_s[-1], number * parts + 1)  # a peak is looked for in LOOK_S at most
        known = {pool: log.known(float(instants_s[0]), now_s) for pool, log in self._logs.items()}
        everywhere = survival_of(list(known.values()))
        tables = []
        for one in (known[pool] for pool in pools):
            ends_s = one.submit_s + one.lives_s(everywhere)
            peaks = cell_peaks(one.submit_s, ends_s, one.gpus, instants_s, fine_s)
            came = cell_arrivals(one.submit_s, instants_s, edges_s)
            tables.append(np.array([peaks.reshape(-1, number, parts).max(axis=2), came], np.float64))
        return tables
