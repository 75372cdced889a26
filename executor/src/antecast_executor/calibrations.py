"""The searches of a node: which packed sets are to be calibrated, since when they are, and what came of it.

The document says which shares may be moved, how far and what for (`Calibrate`). A search begins once all of
its set runs at the shares of the document. From then on what the coordinator has put in force stands in for
the document's shares, also after its end, until the set or what the document says of it changes.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from antecast_executor import happenings
from antecast_executor.actuator import Actuator
from antecast_executor.calibration import OBJECTIVES, Remaining
from antecast_executor.clock import Clock, to_text
from antecast_executor.conditions import ConditionState
from antecast_executor.coordinator import Bounds, Coordinator, Outcome
from antecast_executor.document import Calibrate, Placement, shares
from antecast_executor.hands import ActuatorHands
from antecast_executor.journal import Event
from antecast_executor.packed import NotPackedError
from antecast_executor.record import Record, RunState
from antecast_executor.telemetry import Telemetry

NO_TELEMETRY = "nothing on this node tells the steps of training"
STEPS_TOLD = 16
"""Of the steps of a search so many, the last ones, are in the status."""
_KEPT = frozenset({None, Outcome.FOUND, Outcome.NOT_ALLOWED, Outcome.NO_STEPS})
"""Outcomes that leave the coordinator's shares in force."""
_HAS_ITS_SHARE = frozenset({ConditionState.EFFECTIVE, ConditionState.VERIFIED})
_log = logging.getLogger(__name__)

_Key = tuple[tuple[str, float, Calibrate | None], ...]


@dataclass(slots=True)
class _Search:
    """One search, and what has been told of it."""

    names: tuple[str, ...]
    objective: str
    gpus: frozenset[str]
    coordinator: Coordinator
    steps: list[dict[str, Any]] = field(default_factory=list)
    is_end_told: bool = False


class Calibrations:
    """Runs a coordinator for each packed set that the document wants calibrated. Its owner keeps the lock."""

    def __init__(
        self, actuator: Actuator, records: Mapping[str, Record], telemetry: Telemetry | None, clock: Clock
    ) -> None:
        """Be ready.

        Args:
            actuator: who changes shares.
            records: of the node, as they are now.
            telemetry: who knows the steps; None if nobody does, so that no search begins.
            clock: of the node.
        """
        self._actuator = actuator
        self._records = records
        self._telemetry = telemetry
        self._clock = clock
        self._searches: dict[_Key, _Search] = {}
        self._waiting: dict[_Key, str] = {}

    def step(self, wanted: Sequence[Placement]) -> list[Event]:
        """Begin, go on with or end searches; what there is to tell of those that have ended.

        Args:
            wanted: the placements of the document in force that are not over.
        """
        sets = {_key(members): members for members in linked(wanted) if _is_asked_for(members)}
        gone = [self._searches.pop(key) for key in list(self._searches) if key not in sets]
        for search in gone:
            search.coordinator.leave()
        self._waiting = {}
        for key, members in sets.items():
            if key not in self._searches and not self._begin(key, members):
                continue
            self._go_on(self._searches[key])
        # One whose set stands still for a while begins anew when all of it runs again.
        paused = [
            key for key, item in self._searches.items() if item.coordinator.outcome is Outcome.SET_CHANGED
        ]
        ended = [*gone, *self._searches.values()]
        for key in paused:
            del self._searches[key]
            self._waiting[key] = "not all of the set runs"
        return [self._event(item) for item in ended if _is_news(item)]

    def held(self, wanted: Iterable[Placement]) -> list[Placement]:
        """What is wanted, with the shares of coordinators in place of the document's."""
        names = {
            name
            for search in self._searches.values()
            if search.coordinator.outcome in _KEPT
            for name in search.names
        }
        return [self._held(item) if item.placement_id in names else item for item in wanted]

    def to_json(self) -> list[dict[str, Any]]:
        """The searches as the status has them: those under way and those that wait, and why."""
        waiting = [
            {
                "placements": [name for name, _, _ in key],
                "state": "waits",
                "objective": None,
                "outcome": None,
                "reason": reason,
                "steps": [],
            }
            for key, reason in self._waiting.items()
        ]
        return [*waiting, *(_told(search) for search in self._searches.values())]

    def _begin(self, key: _Key, members: Sequence[Placement]) -> bool:
        """Begin a search if that can be, else say why not."""
        try:
            self._searches[key] = self._search(members)
        except ValueError as error:
            self._waiting[key] = str(error)
            return False
        _log.info("calibration of %s begins", ", ".join(self._searches[key].names))
        return True

    def _search(self, members: Sequence[Placement]) -> _Search:
        """A search on these placements.

        Raises:
            ValueError: if there is something in its way; the message says what.
        """
        if self._telemetry is None:
            raise NotPackedError(NO_TELEMETRY)
        asked = _asked(members)
        for item in members:
            self._check(item)
        wall_s = self._clock.wall()
        first = {item.job_id: item for item in sorted(members, key=lambda item: item.rank, reverse=True)}
        objective = next(iter(asked.values())).objective
        coordinator = Coordinator(
            members,
            {name: Bounds(item.least_pct, item.most_pct) for name, item in asked.items()},
            {job_id: _remaining(asked[item.placement_id], wall_s) for job_id, item in first.items()},
            objective=OBJECTIVES[objective],
            hands=ActuatorHands(self._actuator, self._records),
            telemetry=self._telemetry,
        )
        return _Search(tuple(asked), objective, frozenset(shares(members)), coordinator)

    def _check(self, item: Placement) -> None:
        name = item.placement_id
        record = self._records.get(name)
        if record is None or record.state is not RunState.RUNNING:
            raise NotPackedError(f"{name} does not run")
        launch = record.conditions.get("launch")
        if record.share_pct != item.share_pct or launch is None or launch.state not in _HAS_ITS_SHARE:
            raise NotPackedError(f"{name} does not have its share yet")

    def _go_on(self, search: _Search) -> None:
        present = [
            item.placement_id
            for item in self._records.values()
            if item.state is RunState.RUNNING and not search.gpus.isdisjoint(item.placement.gpus)
        ]
        before = len(search.coordinator.reports)
        search.coordinator.step(self._clock.monotonic(), present)
        at = to_text(self._clock.wall())
        for report in search.coordinator.reports[before:]:
            search.steps.append({"at": at, **report.to_json()})
        del search.steps[:-STEPS_TOLD]

    def _held(self, item: Placement) -> Placement:
        record = self._records.get(item.placement_id)
        share_pct = None if record is None else record.share_pct
        if share_pct is None or item.calibrate is None:
            return item
        is_within = item.calibrate.least_pct <= share_pct <= item.calibrate.most_pct
        return replace(item, share_pct=share_pct) if is_within else item

    def _event(self, search: _Search) -> Event:
        search.is_end_told = True
        given = {name: self._records[name].share_pct for name in search.names if name in self._records}
        _log.info("calibration of %s: %s, %s", ", ".join(search.names), search.coordinator.outcome, given)
        data = {
            "placements": list(search.names),
            "objective": search.objective,
            "outcome": search.coordinator.outcome,
            "shares": given,
            "tries": len(search.coordinator.search.tries),
        }
        return happenings.of_calibration(data, self._clock.wall())


def linked(placements: Iterable[Placement]) -> list[tuple[Placement, ...]]:
    """Placements by what binds them: a GPU that they share, or their job; each in the order of their ids."""
    groups: list[list[Placement]] = []
    for item in sorted(placements, key=lambda item: item.placement_id):
        bound = [group for group in groups if any(_are_bound(item, other) for other in group)]
        groups = [group for group in groups if group not in bound]
        groups.append([*(other for group in bound for other in group), item])
    return [tuple(sorted(group, key=lambda item: item.placement_id)) for group in groups]


def _are_bound(item: Placement, other: Placement) -> bool:
    return item.job_id == other.job_id or not set(item.gpus).isdisjoint(other.gpus)


def _key(members: Sequence[Placement]) -> _Key:
    return tuple((item.placement_id, item.share_pct, item.calibrate) for item in members)


def _is_asked_for(members: Sequence[Placement]) -> bool:
    return any(item.calibrate is not None for item in members)


def _asked(members: Sequence[Placement]) -> dict[str, Calibrate]:
    asked = {item.placement_id: item.calibrate for item in members if item.calibrate is not None}
    left_out = [item.placement_id for item in members if item.calibrate is None]
    if left_out:
        raise NotPackedError(f"{left_out[0]} is of the set, and is not to be calibrated")
    objectives = sorted({item.objective for item in asked.values()})
    if len(objectives) > 1:
        raise NotPackedError(f"one set has one objective, not {' and '.join(objectives)}")
    return asked


def _remaining(asked: Calibrate, wall_s: float) -> Remaining:
    return Remaining(
        steps=asked.steps,
        deadline_in_s=None if asked.deadline_s is None else asked.deadline_s - wall_s,
        utilisation=asked.utilisation,
        lowest_rate=asked.lowest_rate,
        promised_in_s=None if asked.promised_s is None else asked.promised_s - wall_s,
    )


def _is_news(search: _Search) -> bool:
    return search.coordinator.outcome is not None and not search.is_end_told


def _told(search: _Search) -> dict[str, Any]:
    outcome = search.coordinator.outcome
    return {
        "placements": list(search.names),
        "state": "searches" if outcome is None else "ended",
        "objective": search.objective,
        "outcome": outcome,
        "reason": "",
        "steps": list(search.steps),
    }
