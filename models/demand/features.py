"""What a pool's demand forecast is made of: counts of the past that are kept up as facts arrive."""

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WINDOWS_S: Final = (300.0, 3600.0, 43_200.0)
"""SIA's windows (SoCC 2023): 5 min, 1 h, 12 h."""

ROW_EVERY_S: Final = {300.0: 600.0, 3600.0: 1800.0, 43_200.0: 3600.0}
"""Every how many seconds a row to learn from is kept, for each window."""

LEARN_SPAN_S: Final = 21 * 86_400.0
"""What is learned from: three weeks, as SIA."""

SUBMITTED, STARTED, ENDED = range(3)
"""Kinds of facts, in the order in which they befall a job."""

LOAD_WINDOWS: Final = 3
"""Windows that the sliding maximum of the load looks back on."""

_TICK_S: Final = 300.0
_PERIODS_BACK_S: Final = tuple(periods * period_s for period_s in (3600.0, 86_400.0) for periods in (1, 2, 3))
_MULTIPLES: Final = (1, 10, 100)
_RECENT_LIVES: Final = 64
_LEAST_STEP_S: Final = 60.0
_NOTHING_KNOWN_S: Final = 3600.0

FEATURE_NAMES: Final = (
    *(f"arrivals_{back_s:g}s_ago" for back_s in _PERIODS_BACK_S),
    *(f"arrivals_last_{m}k" for m in _MULTIPLES),
    *(f"completions_last_{m}k" for m in _MULTIPLES),
    "expected_to_finish_within_k",
    "expected_to_finish_later",
    "quota_gpus",
)
"""Columns of `PoolFacts.features`, k being the window. After SIA's features (SoCC 2023)."""


class _RecentLives:
    """The last `_RECENT_LIVES` durations, also kept sorted."""

    __slots__ = ("_in_order", "_sorted")

    def __init__(self) -> None:
        self._in_order: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, duration_s: float) -> None:
        if len(self._in_order) == _RECENT_LIVES:
            del self._sorted[bisect_left(self._sorted, self._in_order.popleft())]
        self._in_order.append(duration_s)
        insort(self._sorted, duration_s)

    def expected_life_s(self, age_s: float) -> float:
        """Median of the lives above `age_s`; twice the age where there is none; always above the age."""
        shorter, number = bisect_right(self._sorted, age_s), len(self._sorted)
        if shorter < number:
            expected = self._sorted[(shorter + number) // 2]
        else:
            expected = 2.0 * age_s if number else max(2.0 * age_s, _NOTHING_KNOWN_S)
        return max(expected, age_s + _LEAST_STEP_S)


class _RecentLoads:
    """The largest load within a window, for each of the last windows of the clock that had any."""

    __slots__ = ("_busy", "_window_s")

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._busy: deque[tuple[int, int]] = deque(maxlen=LOAD_WINDOWS)

    def note(self, load: int, now_s: float) -> None:
        place = math.floor(now_s / self._window_s)
        if self._busy and self._busy[-1][0] == place:
            load = max(load, self._busy.pop()[1])
        self._busy.append((place, load))

    def largest(self, now_s: float, *, count_quiet: bool) -> int:
        first = math.floor(now_s / self._window_s) - LOAD_WINDOWS if count_quiet else -math.inf
        return max((load for place, load in self._busy if place > first), default=0)


class PoolFacts:
    """One pool's arrivals, completions and running jobs, and the counts that forecasts are made of.

    Facts and questions come in the order of their instants. Counts over (a, b] include the instant b.
    A running job is expected to end at the median of the pool's last 64 lives; each time that passes, at
    the median of those lives that exceed its age, or at twice its age if none does.

    Args:
        quota: GPUs of the pool.
        since_s: instant at which the record begins; what lies before is unknown and not zero.
    """

    def __init__(self, quota: int, since_s: float) -> None:
        self._quota = float(quota)
        self._since_s = since_s
        self._arrivals: list[float] = []
        self._gpus: list[int] = [0]
        self._completions: list[float] = []
        self._lives = _RecentLives()
        self._expected: list[tuple[float, str]] = []
        self._running: dict[str, tuple[float, float]] = {}
        self._untold: set[str] = set()
        self._loads = {window: _RecentLoads(window) for window in WINDOWS_S}

    def arrives_within(self, instants_s: Floats, window_s: float) -> Bools:
        """Whether a job arrived in (instant, instant + window], for instants whose window is over."""
        arrivals = np.array(self._arrivals)
        first = np.searchsorted(arrivals, instants_s, "right")
        is_any: Bools = np.searchsorted(arrivals, instants_s + window_s, "right") > first
        return is_any

    def arrived(self, gpus: int, now_s: float) -> None:
        """A job has arrived."""
        self._arrivals.append(now_s)
        self._gpus.append(self._gpus[-1] + gpus)
        for window_s, loads in self._loads.items():
            first = bisect_right(self._arrivals, now_s - window_s)
            loads.note(self._gpus[-1] - self._gpus[first], now_s)

    def started(self, job_id: str, now_s: float, age_s: float = 0.0) -> None:
        """A job runs; `age_s` is what it has already run."""
        self.stopped(job_id, now_s)
        self._expect(job_id, now_s - age_s, now_s)

    def stopped(self, job_id: str, now_s: float) -> None:
        """A job runs no longer, for whatever reason."""
        self._renew(now_s)
        known = self._running.pop(job_id, None)
        self._untold.discard(job_id)
        if known is not None:
            del self._expected[bisect_left(self._expected, (known[1], job_id))]

    def ended(self, job_id: str, now_s: float, duration_s: float) -> None:
        """A job has ended."""
        self.stopped(job_id, now_s)
        self._completions.append(now_s)
        self._lives.add(duration_s)

    def leave_untold(self) -> None:
        """Let the jobs that run now end when they are expected to, unless something is told of them."""
        self._untold = set(self._running)

    def load_estimate(self, window_s: float, now_s: float, *, count_quiet: bool = False) -> int:
        """SIA's NewLoadEstimate: sliding maximum of the GPUs asked for within a window of `window_s`.

        The maximum is taken over the last three windows of the clock in which something arrived; with
        `count_quiet` over the last three, which is SIA's rule and 0 for a pool that was quiet so long. The
        estimate is only used where arrivals are forecast, and a zero would then contradict the forecast.
        """
        return self._loads[window_s].largest(now_s, count_quiet=count_quiet)

    def features(self, window_s: float, now_s: float) -> list[float]:
        """Values of `FEATURE_NAMES` at `now_s`; NaN where they lie before the record begins.

        A window in the past that reaches beyond `now_s` (12 h, an hour ago) ends at `now_s`. Counts
        over a span that begins before the record are scaled up to the whole span.
        """
        self._renew(now_s)
        row = self._count_periodic(window_s, now_s)
        observed_s = max(now_s - self._since_s, window_s)
        for instants in (self._arrivals, self._completions):
            number = len(instants)
            for multiple in _MULTIPLES:
                span_s = multiple * window_s
                count = number - bisect_right(instants, now_s - span_s)
                row.append(count * span_s / observed_s if span_s > observed_s else count)
        soon = bisect_right(self._expected, now_s + window_s, key=_instant)
        row += (soon, len(self._expected) - soon, self._quota)
        return row

    def _count_periodic(self, window_s: float, now_s: float) -> list[float]:
        arrivals, counts = self._arrivals, []
        for back_s in _PERIODS_BACK_S:
            from_s = now_s - back_s
            if from_s < self._since_s:
                counts.append(math.nan)
            else:
                first = bisect_right(arrivals, from_s)
                counts.append(bisect_right(arrivals, from_s + window_s, first) - first)
        return counts

    def _expect(self, job_id: str, start_s: float, now_s: float) -> None:
        end_s = start_s + self._lives.expected_life_s(now_s - start_s)
        self._running[job_id] = (start_s, end_s)
        insort(self._expected, (end_s, job_id))

    def _renew(self, now_s: float) -> None:
        """Give the jobs that outlived their expected end a new one, as of the instant it passed."""
        while self._expected and self._expected[0][0] <= now_s:
            passed_s, job_id = self._expected.pop(0)
            start_s, _ = self._running.pop(job_id)
            if job_id not in self._untold:
                self._expect(job_id, start_s, passed_s)


def feature_rows(pools: Sequence[PoolFacts], window_s: float, now_s: float) -> Floats:
    """Features of each pool, shape (pools, features)."""
    return np.array([pool.features(window_s, now_s) for pool in pools])


class LearningRows:
    """Features on a raster of instants, kept as time passes, so that learning needs no second replay."""

    def __init__(self) -> None:
        self._kept: dict[float, deque[tuple[float, Floats]]] = {window: deque() for window in WINDOWS_S}

    def keep(self, pools: Sequence[PoolFacts], from_s: float, until_s: float) -> None:
        """Keep a row for each instant of the raster in [from, until), all facts up to it being in."""
        for tick in range(math.ceil(from_s / _TICK_S), math.ceil(until_s / _TICK_S)):
            instant_s = tick * _TICK_S
            for window_s, kept in self._kept.items():
                if instant_s % ROW_EVERY_S[window_s] == 0.0:
                    kept.append((instant_s, feature_rows(pools, window_s, instant_s)))
                    while kept[0][0] < instant_s - LEARN_SPAN_S:
                        kept.popleft()

    def labelled(self, pools: Sequence[PoolFacts], window_s: float, now_s: float) -> tuple[Floats, Bools]:
        """Rows whose window is over by `now_s`, and whether a job arrived in it.

        Returns:
            features, in the order of time, shape (instants, pools, features), and (instants, pools).
        """
        kept = [
            (instant_s, rows) for instant_s, rows in self._kept[window_s] if instant_s + window_s <= now_s
        ]
        if not kept:
            shape = (0, len(pools), len(FEATURE_NAMES))
            return np.empty(shape), np.empty(shape[:2], dtype=np.bool_)
        instants = np.array([instant_s for instant_s, _ in kept])
        labels = np.stack([pool.arrives_within(instants, window_s) for pool in pools], axis=1)
        return np.stack([rows for _, rows in kept]), labels


def history_facts(
    past: Sequence[tuple[Job, float]], censored: Sequence[tuple[Job, float]], now_s: float
) -> list[tuple[float, int, Job, float]]:
    """What a history tells, in the order of time: each job of the past is taken to have started at once.

    Args:
        past: jobs that had ended by `now_s`, each with its `duration_s`.
        censored: jobs that had not, each with its age in seconds, 0 where it had not started.
        now_s: instant up to which the history reaches.

    Returns:
        (instant, `SUBMITTED`, `STARTED` or `ENDED`, job, duration) of each fact.

    Raises:
        ValueError: if something is said to have happened after `now_s`.
    """
    facts = [(job.submit_s, kind, job, 0.0) for job, _ in past for kind in (SUBMITTED, STARTED)]
    facts += [(job.submit_s + duration_s, ENDED, job, duration_s) for job, duration_s in past]
    facts += [(job.submit_s, SUBMITTED, job, 0.0) for job, _ in censored]
    facts += [(max(job.submit_s, now_s - age_s), STARTED, job, 0.0) for job, age_s in censored if age_s > 0]
    for instant_s, _, job, _ in facts:
        if instant_s > now_s:
            raise ValueError(f"job {job.job_id} has a fact at {instant_s}, after the history ends at {now_s}")
    return sorted(facts, key=lambda fact: (fact[0], fact[1], fact[2].job_id))


def _instant(expected: tuple[float, str]) -> float:
    return expected[0]
