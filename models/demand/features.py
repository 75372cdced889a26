"""What a pool's demand forecast is made of: counts of the past that are kept up as facts arrive."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from models.demand.cadence import Cadence

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WINDOWS_S: Final = (300.0, 3600.0, 43_200.0)
"""SIA's windows (SoCC 2023): 5 min, 1 h, 12 h."""

SUBMITTED, STARTED, ENDED = range(3)
"""Kinds of facts, in the order in which they befall a job."""

LOAD_WINDOWS: Final = 3
"""Windows that the sliding maximum of the load looks back on."""

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0

_LAST_ARRIVALS: Final = (1, 2, 3, 5, 10, 20)
_LAST_ENDS: Final = (1, 2, 5)
_ARRIVAL_SPANS_S: Final = (60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 3 * DAY_S, 7 * DAY_S)
_END_SPANS_S: Final = (60.0, 300.0, 900.0, 3600.0, 43_200.0)
_LOAD_SPANS_S: Final = (900.0, 3600.0, 14_400.0, 86_400.0)
_PERIODS_BACK_S: Final = tuple(periods * period_s for period_s in (HOUR_S, DAY_S) for periods in (1, 2, 3))
_DAYS_BACK: Final = 7
_LEVEL_STEP: Final = 0.05

ANCHORS: Final = ("load_last_k", "load_day_ago", "level", "largest", "mean_3_days")
"""Loads, GPUs: what a distribution measures its bins against; the quota is one more."""

FEATURE_NAMES: Final = (
    *(f"since_arrival_{k}" for k in _LAST_ARRIVALS),
    *(f"since_end_{k}" for k in _LAST_ENDS),
    *(f"arrivals_last_{span_s:g}s" for span_s in _ARRIVAL_SPANS_S),
    *(f"ends_last_{span_s:g}s" for span_s in _END_SPANS_S),
    *(f"load_last_{span_s:g}s" for span_s in _LOAD_SPANS_S),
    *(f"arrivals_{back_s:g}s_ago" for back_s in _PERIODS_BACK_S),
    "days_with_arrivals",
    "arrivals_around_on_other_days",
    "slots_with_arrivals_last_day",
    "slots_with_arrivals_last_week",
    "cadence_within_k",
    "cadence_later",
    "cadence_due_in",
    *(f"{anchor}_of_quota" for anchor in ANCHORS),
    "ln_quota",
    "hour_sine",
    "hour_cosine",
    "weekday",
    "arrivals_anywhere_60s",
    "arrivals_anywhere_3600s",
    "arrival_soon",
    "running",
    "running_of_quota",
    "expected_to_finish_within_k",
    "expected_to_finish_within_k_of_quota",
)
"""Columns of `DemandFacts.features`, k being the window. After SIA's features (SoCC 2023), and more."""


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
    """One pool's arrivals and ends, and the counts that forecasts are made of.

    Facts and questions come in the order of their instants. Counts over (a, b] include the instant b.

    Args:
        quota: GPUs of the pool; shares of it are of one GPU where it has none now (its nodes are gone).
        since_s: instant at which the record begins; what lies before is unknown and not zero.
        windows_s: windows that will be asked about.
    """

    def __init__(self, quota: int, since_s: float, windows_s: Sequence[float] = WINDOWS_S) -> None:
        self.quota = max(float(quota), 1.0)
        self._since_s = since_s
        self._arrivals: list[float] = []
        self._gpus: list[int] = [0]
        self._ends: list[float] = []
        self._cadence = Cadence()
        self._loads = {window_s: _RecentLoads(window_s) for window_s in windows_s}
        self._slots: dict[float, list[int]] = {window_s: [] for window_s in windows_s}
        self._level: dict[float, float] = {}

    def arrived(self, gpus: int, now_s: float) -> None:
        """A job has arrived."""
        self._arrivals.append(now_s)
        self._gpus.append(self._gpus[-1] + gpus)
        self._cadence.arrived(now_s)
        for window_s, loads in self._loads.items():
            load = self._load(now_s - window_s, now_s)
            loads.note(load, now_s)
            known = self._level.get(window_s, math.log(load))
            self._level[window_s] = known + _LEVEL_STEP * (math.log(load) - known)
            slot = math.floor(now_s / window_s)
            if not self._slots[window_s] or self._slots[window_s][-1] != slot:
                self._slots[window_s].append(slot)

    def ended(self, now_s: float) -> None:
        """A job has ended."""
        self._ends.append(now_s)

    def arrivals_between(self, from_s: float, until_s: float) -> tuple[int, int]:
        """First and one past the last of the arrivals in (from, until], in the order of arrival."""
        first = bisect_right(self._arrivals, from_s)
        return first, bisect_right(self._arrivals, until_s, first)

    def instants(self, first: int, beyond: int) -> list[float]:
        """Instants of some arrivals."""
        return self._arrivals[first:beyond]

    def load_estimate(self, window_s: float, now_s: float, *, count_quiet: bool = False) -> int:
        """SIA's NewLoadEstimate: sliding maximum of the GPUs asked for within a window of `window_s`.

        The maximum is taken over the last three windows of the clock in which something arrived; with
        `count_quiet` over the last three, which is SIA's rule and 0 for a pool that was quiet so long. The
        estimate is only used where arrivals are forecast, and a zero would then contradict the forecast.
        """
        return self._loads[window_s].largest(now_s, count_quiet=count_quiet)

    def features(self, window_s: float, now_s: float) -> list[float]:
        """The pool's own columns of `FEATURE_NAMES` at `now_s`, up to `ln_quota`; NaN where unknown.

        A window in the past that reaches beyond `now_s` (12 h, an hour ago) ends at `now_s`. Counts
        over a span that begins before the record are scaled up to the whole span.
        """
        row = _since(self._arrivals, _LAST_ARRIVALS, now_s) + _since(self._ends, _LAST_ENDS, now_s)
        observed_s = max(now_s - self._since_s, 1.0)
        row += _counts(self._arrivals, _ARRIVAL_SPANS_S, now_s, observed_s)
        row += _counts(self._ends, _END_SPANS_S, now_s, observed_s)
        row += [self._load(now_s - span_s, now_s) / self.quota for span_s in _LOAD_SPANS_S]
        row += self._count_periodic(window_s, now_s)
        row += self._count_slots(window_s, now_s)
        within, beyond, first_s = self._cadence.due(window_s, now_s)
        row += (within, beyond, min(first_s, 7 * DAY_S))
        row += [anchor / self.quota for anchor in self.anchors(window_s, now_s)]
        row.append(math.log(self.quota))
        return row

    def anchors(self, window_s: float, now_s: float) -> list[float]:
        """Values of `ANCHORS`, GPUs; NaN where unknown."""
        day_ago_s = now_s - DAY_S
        ago = math.nan
        if day_ago_s >= self._since_s:
            ago = self._load(day_ago_s, min(day_ago_s + window_s, now_s))
        level = self._level.get(window_s)
        observed_s = min(3 * DAY_S, max(now_s - self._since_s, window_s))
        return [
            self._load(now_s - window_s, now_s),
            ago,
            math.nan if level is None else math.exp(level),
            self.load_estimate(window_s, now_s),
            self._load(now_s - 3 * DAY_S, now_s) * window_s / observed_s,
        ]

    def _load(self, from_s: float, until_s: float) -> int:
        """GPUs asked for in (from, until]."""
        arrivals = self._arrivals
        return self._gpus[bisect_right(arrivals, until_s)] - self._gpus[bisect_right(arrivals, from_s)]

    def _count_periodic(self, window_s: float, now_s: float) -> list[float]:
        counts = []
        for back_s in _PERIODS_BACK_S:
            from_s = now_s - back_s
            counts.append(math.nan if from_s < self._since_s else self._count(from_s, window_s, now_s))
        days = [now_s - day * DAY_S for day in range(1, _DAYS_BACK + 1)]
        days = [from_s for from_s in days if from_s - HOUR_S >= self._since_s]
        if not days:
            return [*counts, math.nan, math.nan]
        busy = sum(self._count(from_s, window_s, now_s) > 0 for from_s in days)
        around = sum(self._count(from_s - HOUR_S, window_s + 2 * HOUR_S, now_s) for from_s in days)
        return [*counts, busy / len(days), around / len(days)]

    def _count(self, from_s: float, window_s: float, now_s: float) -> int:
        first = bisect_right(self._arrivals, from_s)
        return bisect_right(self._arrivals, min(from_s + window_s, now_s), first) - first

    def _count_slots(self, window_s: float, now_s: float) -> list[float]:
        """Share of the windows of the clock in which something arrived, over the last day and week."""
        slots, last = self._slots[window_s], math.floor(now_s / window_s)
        shares = []
        for span_s in (DAY_S, 7 * DAY_S):
            number = max(1.0, min(span_s, now_s - self._since_s) / window_s)
            first = last - math.floor(number)
            shares.append((len(slots) - bisect_right(slots, first)) / number)
        return shares


def _since(instants: list[float], places: tuple[int, ...], now_s: float) -> list[float]:
    number = len(instants)
    return [math.log1p(now_s - instants[-k]) if k <= number else math.nan for k in places]


def _counts(
    instants: list[float], spans_s: tuple[float, ...], now_s: float, observed_s: float
) -> list[float]:
    number, counts = len(instants), []
    for span_s in spans_s:
        count: float = number - bisect_right(instants, now_s - span_s)
        counts.append(count * span_s / observed_s if span_s > observed_s else count)
    return counts


def check_windows(windows_s: Sequence[float]) -> tuple[float, ...]:
    """Windows in ascending order.

    Raises:
        ValueError: if there is none, or one is not positive and finite.
    """
    kept = tuple(sorted({float(window_s) for window_s in windows_s}))
    if not kept or not all(0.0 < window_s < math.inf for window_s in kept):
        raise ValueError(f"windows_s is {tuple(windows_s)}, must hold positive lengths")
    return kept


def between_anchors(anchors: Sequence[tuple[float, float]], window_s: float) -> float:
    """Value at a window from those at the default ones: linear in ln of the window, constant beyond them."""
    if window_s <= anchors[0][0]:
        return anchors[0][1]
    for (low_s, low), (high_s, high) in pairwise(anchors):
        if window_s <= high_s:
            share = math.log(window_s / low_s) / math.log(high_s / low_s)
            return low + share * (high - low)
    return anchors[-1][1]


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
