"""Gimbal's Algorithm 1 with early exit: squeeze one side of a packed set step by step while it helps.

A state machine without a clock: `next` says what to put in force and measure, `measured` takes what was seen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from antecast_executor.calibration import lgrr, liss
from antecast_executor.calibration.calibrator import calibrate, rebalanced
from antecast_executor.calibration.objectives import BROKEN, Objective
from antecast_executor.calibration.tries import Try, is_better, smooth
from antecast_executor.calibration.words import (
    Call,
    Limits,
    Measurement,
    PackedSet,
    Plan,
    Remaining,
    Setting,
    Verb,
    Worker,
    wide_limits,
)

MEASURE_S = 60.0
MEASURE_STEPS = 5
SWITCHES_EACH = 10
"""Most switches for each job but one."""
CLEAR = 3.0
"""Standard errors by which two settings have to differ to be told apart for good."""
LUCKY = 0.005
"""Relative standard error that is small enough for a setting that looks better than all before it."""
_REBALANCES = 2
"""How often samples are moved at one setting of the shares."""
_NOTHING = Measurement(())


def measuring_s(step_s: float) -> float:
    """How long one window takes: five steps of the slowest job, at most a minute."""
    return min(MEASURE_S, MEASURE_STEPS * step_s)


def most_switches(packed: PackedSet) -> int:
    """How many switches a search makes at most, the return to the best setting included."""
    return SWITCHES_EACH * (len(packed.members) - 1)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a search goes about it.

    Attributes:
        has_lgrr, has_liss: which mechanisms it has.
        patience: it ends after so many tries in a row without gain.
        most_windows: how often one setting is measured at most; never again where measurements are exact.
        precise: relative standard error at which no setting is measured again, not even one that cannot be
            told apart from the best.
    """

    has_lgrr: bool = True
    has_liss: bool = True
    patience: int = 3
    most_windows: int = 12
    precise: float = 0.003

    def __post_init__(self) -> None:
        if self.patience < 1 or self.most_windows < 1 or not self.precise >= 0:
            raise ValueError(f"{self}: patience and windows are at least 1, the precision at least 0")


class End(StrEnum):
    """Why a search is over."""

    NO_GAIN = "no_gain"
    NOTHING_LEFT = "nothing_left"


class Search:
    """One search on one packed set.

    Attributes:
        tries: what was tried, in order; the first is the start.
        failures: tries without gain since the last gain.
        switches: jobs that were switched so far, without the return to `best`.
        end: why it is over; None while it goes on.
        low: places of the jobs that are squeezed; empty until the start has been measured.
    """

    def __init__(
        self,
        packed: PackedSet,
        objective: Objective,
        remaining: Sequence[Remaining],
        start: Setting,
        *,
        rules: Rules | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Begin at a setting.

        Raises:
            ValueError: if a tuple does not fit the set, or the start is outside the limits.
        """
        self._packed = packed
        self._objective = objective
        self._remaining = tuple(remaining)
        self._rules = rules or Rules()
        self._limits = limits or wide_limits(packed)
        if len(self._remaining) != len(packed.members):
            raise ValueError(f"{len(packed.members)} jobs, but what remains of {len(self._remaining)}")
        if not self._limits.allow(start):
            raise ValueError(f"shares {start.shares} are not within the limits")
        self.tries: list[Try] = []
        self.failures = 0
        self.switches = 0
        self.end: End | None = None
        self.low: tuple[int, ...] = ()
        self._here = Try(start, 0, _NOTHING)
        self._rebalances = 0
        self._has_swelled = False
        self._is_counted = False
        self._is_asked = False
        self._step: Plan = ()
        self._squares = 0.0
        self._windows = 0

    # What callers ask

    def next(self) -> Setting | None:
        """What to put in force and measure now; None once it is over: then `best` is to be put in force."""
        self._is_asked = self.end is None
        return self._here.setting if self._is_asked else None

    def measured(self, window: Measurement) -> None:
        """What one window has seen at the setting that `next` gave.

        Raises:
            RuntimeError: if `next` was not asked for it.
            ValueError: if it is about another number of jobs.
        """
        if not self._is_asked:
            raise RuntimeError("a measurement that was not asked for")
        if len(window.rates) != len(self._packed.members):
            raise ValueError(f"{len(self._packed.members)} jobs, but {len(window.rates)} rates")
        self._is_asked = False
        self._here.add(window, self._error_of(window), self._objective, self._remaining)
        if self._here.windows == 1 and self._moves_samples():
            return
        if not self.tries or self.tries[-1] is not self._here:
            self.tries.append(self._here)
        smooth(self.tries, self._here.leg)
        if not self._is_undecided():
            self._judge()

    @property
    def best(self) -> Setting:
        """The best setting so far."""
        return self._best().setting if self.tries else self._here.setting

    @property
    def best_value(self) -> float:
        """What is believed of its value; infinite before anything was measured."""
        return self._best().believed if self.tries else self._here.believed

    @property
    def is_allowed(self) -> bool:
        """Whether the best setting may be kept at all: it breaks no promise, and all jobs get on."""
        return self.best_value < BROKEN

    @property
    def switches_in_all(self) -> int:
        """Jobs that were switched, with the return to `best`."""
        return self.switches + lgrr.switches(self._here.setting, self.best)

    # Judging

    def _error_of(self, window: Measurement) -> float:
        """Of any window: root mean square over all so far, since five steps alone tell it badly."""
        self._squares += window.error**2
        self._windows += 1
        return math.sqrt(self._squares / self._windows)

    def _moves_samples(self) -> bool:
        """Take stragglers away first: that costs nothing, and the rates before it do not count."""
        if not self._rules.has_liss or self._rebalances >= _REBALANCES:
            return False
        after = rebalanced(self._packed, self._here.setting, self._here.pooled)
        if after == self._here.setting:
            return False
        leg = self._here.leg
        if not self.tries:
            # The start counts all the same: it is what a gain is compared with.
            self.tries.append(self._here)
            leg += 1
        self._rebalances += 1
        self._here = Try(after, leg, _NOTHING)
        return True

    def _best(self) -> Try:
        """The best try that can still be returned to; of equally good ones the first."""
        room = most_switches(self._packed) - self.switches
        best: Try | None = None
        for item in self.tries:
            can_return = lgrr.switches(self._here.setting, item.setting) <= room
            if can_return and (best is None or is_better(item.believed, best.believed)):
                best = item
        return best or self._here

    def _earlier(self) -> list[Try]:
        return [item for item in self.tries if item is not self._here]

    def _is_undecided(self) -> bool:
        """Whether to measure again: noise could be what sets it apart from the best of the others."""
        if self._here.pooled.error <= self._rules.precise or self._here.windows >= self._rules.most_windows:
            return False
        others = self._earlier()
        if not others:
            return True
        lead = min(item.believed for item in others) - self._here.believed
        if abs(lead) <= CLEAR * self._here.doubt:
            return True
        # A measurement that is only lucky would stay the best until the end.
        return lead > 0 and self._here.pooled.error > LUCKY

    def _judge(self) -> None:
        others = self._earlier()
        if self._is_counted:
            is_gain = is_better(self._here.believed, min(item.believed for item in others))
            self.failures = 0 if is_gain else self.failures + 1
        if self.failures >= self._rules.patience:
            self.end = End.NO_GAIN
            return
        if not self.low:
            self.low = self._low_side()
        self._go_on()

    def _low_side(self) -> tuple[int, ...]:
        """The side of lower priority: a side counts as its most important job does. The widest wins ties."""
        places = range(len(self._packed.members))
        worth = [self._objective.priority(self._here.pooled, self._remaining, place) for place in places]
        return tuple(places[1:]) if worth[0] >= max(worth[1:]) else (0,)

    # Going on

    def _go_on(self) -> None:
        if not self._has_swelled:
            self._has_swelled = True
            high = tuple(place for place in range(len(self._packed.members)) if place not in self.low)
            if self._goes_to(self._plan_of(high, Verb.SWELL), is_counted=False):
                return
        if self._goes_to(self._uneven()) or self._goes_to(self._plan_of(self.low, Verb.SQUEEZE)):
            return
        self.end = End.NOTHING_LEFT

    def _plan_of(self, places: Sequence[int], verb: Verb) -> Plan:
        """The same for all workers of these jobs that share their GPU."""
        return tuple(
            Call(Worker(self._packed.members[place].job_id, index), verb)
            for place in places
            for index, is_shared in enumerate(self._packed.shared[place])
            if is_shared
        )

    def _uneven(self) -> Plan:
        """What helps stragglers of the widest job that are still there; empty if there are none."""
        forwards = self._here.pooled.forwards
        slow = liss.slow_workers(forwards[0]) if forwards else frozenset()
        if not slow:
            return ()
        if self.low != (0,):
            beside = (self._packed.partners[index] for index in sorted(slow))
            return tuple(Call(worker, Verb.SQUEEZE) for worker in beside if worker is not None)
        widest = self._packed.widest
        return tuple(
            Call(Worker(widest.job_id, index), Verb.SWELL if index in slow else Verb.SQUEEZE)
            for index in range(widest.width)
        )

    def _goes_to(self, plan: Plan, *, is_counted: bool = True) -> bool:
        """Go where a plan leads, if that is somewhere new and the way back can still be paid for."""
        here = self._here.setting
        after = calibrate(
            self._packed,
            here,
            plan,
            limits=self._limits,
            measured=self._here.pooled,
            has_lgrr=self._rules.has_lgrr,
            has_liss=self._rules.has_liss,
        )
        if after == here or any(_is_same(after, item.setting, here) for item in self.tries):
            return False
        cost = lgrr.switches(here, after)
        if self.switches + cost + lgrr.switches(after, self.best) > most_switches(self._packed):
            return False
        # Only a step that is repeated leads along one convex curve.
        is_on_leg = is_counted and self._step in ((), plan)
        self._step = plan if is_counted else ()
        self.switches += cost
        self._rebalances = 0
        self._is_counted = is_counted
        self._here = Try(after, self._here.leg if is_on_leg else self._here.leg + 1, _NOTHING)
        return True


def _is_same(after: Setting, before: Setting, here: Setting) -> bool:
    """Whether it has been there: samples follow the shares, so where these change they alone count."""
    return after.shares == before.shares if after.shares != here.shares else after == before
