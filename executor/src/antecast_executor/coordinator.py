"""The local coordinator: runs one search on one packed set of this node, inside the limits that the plan set.

It squeezes and swells through the executor's own primitives, believes only what is read back, and goes on
when the workers' steps have been seen. It keeps no clock: whoever owns the tick calls `step`.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from antecast_executor.actuator import MIN_DWELL_S
from antecast_executor.calibration import Limits, Objective, Remaining, Rules, Search, Setting
from antecast_executor.calibration.search import MEASURE_S, MEASURE_STEPS
from antecast_executor.conditions import Condition
from antecast_executor.document import Placement
from antecast_executor.hands import Hands
from antecast_executor.interfaces import EffectiveAt
from antecast_executor.packed import NotPackedError, packed_placements
from antecast_executor.primitives.sharing import READ_BACK_TOLERANCE_PCT
from antecast_executor.telemetry import Telemetry, measure

SILENCE_S = 5 * MEASURE_S
"""After so long without one step of some worker there is nothing to search by."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the plan lets the share of one placement go, in per cent."""

    least_pct: float
    most_pct: float


class Kind(StrEnum):
    """What a step was for."""

    TRY = "try"
    BEST = "best"
    BACK = "back"


class Outcome(StrEnum):
    """Why a coordinator has ended."""

    FOUND = "found"
    NOT_ALLOWED = "not_allowed"
    NOT_IN_FORCE = "not_in_force"
    NO_STEPS = "no_steps"
    SET_CHANGED = "set_changed"


@dataclass(frozen=True, slots=True)
class Share:
    """What one placement was given.

    Attributes:
        is_in_force: whether what was read back is what was asked for, and holds now.
    """

    placement_id: str
    condition: Condition
    is_in_force: bool


@dataclass(frozen=True, slots=True)
class Report:
    """One step of a coordinator.

    Attributes:
        at_s: when, on the clock that `step` is told.
        shares: the placements whose share it changed.
    """

    kind: Kind
    at_s: float
    shares: tuple[Share, ...]

    @property
    def is_in_force(self) -> bool:
        """Whether all it asked for holds now; that it is kept by time slices only is in `enforcement`."""
        return all(share.is_in_force for share in self.shares)

    def to_json(self) -> dict[str, Any]:
        """As it is told: each share with what is in force, by what means and from when on."""
        shares = [
            {
                "placement_id": share.placement_id,
                "requested": share.condition.requested,
                "in_force": share.condition.in_force,
                "is_in_force": share.is_in_force,
                "enforcement": share.condition.enforcement,
                "effective_at": share.condition.effective_at,
                "reason": share.condition.reason,
            }
            for share in self.shares
        ]
        return {"step": self.kind, "at_s": self.at_s, "is_in_force": self.is_in_force, "shares": shares}


class Coordinator:
    """One search on one packed set; made anew when the set changes.

    Attributes:
        search: how far it has come.
        reports: its steps so far.
        outcome: why it has ended; None while it goes on.
    """

    def __init__(
        self,
        placements: Sequence[Placement],
        bounds: Mapping[str, Bounds],
        remaining: Mapping[str, Remaining],
        *,
        objective: Objective,
        hands: Hands,
        telemetry: Telemetry,
        rules: Rules | None = None,
    ) -> None:
        """Be ready to begin; nothing is changed yet.

        Args:
            placements: all workers of the set, one GPU each, all on this node.
            bounds: by placement id.
            remaining: by job id.
            objective: what for.
            hands: who changes shares.
            telemetry: who knows the steps.
            rules: of the search. Samples are not moved: nobody here could tell the workers.

        Raises:
            NotPackedError: if the placements are no such set, or their shares are outside the limits.
        """
        self._set = packed_placements(placements)
        self._hands = hands
        self._telemetry = telemetry
        limits = Limits(
            self._each(lambda name: math.ceil(bounds[name].least_pct)),
            self._each(lambda name: math.floor(min(bounds[name].most_pct, hands.highest_pct(name)))),
        )
        self._start = Setting(self._each(self._share_now), ((),) * len(self._set.names))
        jobs = [remaining[item.job_id] for item in self._set.packed.members]
        self.search = Search(self._set.packed, objective, jobs, self._start, rules=rules, limits=limits)
        self.reports: list[Report] = []
        self.outcome: Outcome | None = None
        self._now_s = 0.0
        self._since_s: float | None = None

    def step(self, now_s: float, present: Collection[str]) -> None:
        """Go on as far as possible now; to be called at every tick, and cheap while it waits.

        Args:
            now_s: on the clock of the telemetry.
            present: ids of all placements that run on the GPUs of the set.
        """
        if self.outcome is not None:
            return
        self._now_s = now_s
        if set(present) != self._set.placement_ids:
            # What was found is about a set that is no more: those that are left get what the plan gave them.
            self._end(Outcome.SET_CHANGED, Kind.BACK, self._start, only=present)
        elif self._since_s is None:
            self._ask()
        else:
            self._look(now_s - self._since_s)

    def leave(self) -> None:
        """The plan wants something else: it is over, and the reconciler gives what is wanted now."""
        if self.outcome is None:
            self.outcome = Outcome.SET_CHANGED

    def _look(self, waited_s: float) -> None:
        """Take the window in once it is full: five steps of each worker, or a minute and one of each.

        A share stays for a moment at least, however short the steps are: no flutter.
        """
        if waited_s < MIN_DWELL_S:
            return
        since_s = self._now_s - waited_s
        jobs = [[self._telemetry.steps(name, since_s) for name in row] for row in self._set.names]
        fewest = min(len(steps) for row in jobs for steps in row)
        if fewest >= MEASURE_STEPS or (waited_s >= MEASURE_S and fewest > 0):
            self.search.measured(measure(jobs))
            self._ask()
        elif waited_s >= SILENCE_S:
            self._end(Outcome.NO_STEPS, Kind.BEST, self.search.best)

    def _ask(self) -> None:
        """Put in force what the search wants to know about, and begin to measure."""
        setting = self.search.next()
        if setting is None:
            is_allowed = self.search.is_allowed
            self._end(Outcome.FOUND if is_allowed else Outcome.NOT_ALLOWED, Kind.BEST, self.search.best)
            return
        if not self._put(Kind.TRY, setting):
            self._end(Outcome.NOT_IN_FORCE, Kind.BACK, self._start)
            return
        self._since_s = self._now_s

    def _put(self, kind: Kind, setting: Setting, only: Collection[str] | None = None) -> bool:
        """Give each worker its share; whether all of it is in force. Squeezes come first: they make room."""
        wanted = [
            (name, float(share))
            for row, shares in zip(self._set.names, setting.shares, strict=True)
            for name, share in zip(row, shares, strict=True)
            if only is None or name in only
        ]
        changes = [(name, share, self._hands.share_pct(name)) for name, share in wanted]
        due = [(name, share) for name, share, now in changes if now is None or now != share]
        due.sort(key=lambda item: item[1] > (self._hands.share_pct(item[0]) or 0.0))
        shares = tuple(_share(name, self._hands.give(name, share)) for name, share in due)
        report = Report(kind, self._now_s, shares)
        if shares:
            self.reports.append(report)
        return report.is_in_force

    def _end(
        self, outcome: Outcome, kind: Kind, setting: Setting, only: Collection[str] | None = None
    ) -> None:
        self.outcome = outcome
        self._put(kind, setting, only)

    def _each(self, of: Callable[[str], int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(of(name) for name in row) for row in self._set.names)

    def _share_now(self, name: str) -> int:
        """Whole per cent: the control program takes no finer steps that would matter here."""
        share_pct = self._hands.share_pct(name)
        if share_pct is None:
            raise NotPackedError(f"the share of {name} is not known")
        return round(share_pct)


def _share(name: str, condition: Condition) -> Share:
    in_force, requested = condition.in_force, condition.requested
    is_equal = (
        in_force is not None
        and requested is not None
        and abs(in_force - requested) <= READ_BACK_TOLERANCE_PCT
        and condition.effective_at is EffectiveAt.NOW
    )
    return Share(name, condition, is_equal)
