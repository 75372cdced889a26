"""Who changes the shares of running placements for a coordinator."""

from collections.abc import Mapping
from typing import Protocol

from antecast_executor.actuator import Actuator
from antecast_executor.conditions import Condition
from antecast_executor.reconciler import Action
from antecast_executor.record import Record


class Hands(Protocol):
    """Who changes shares on this node."""

    def share_pct(self, placement_id: str) -> float | None:
        """The share that was asked for last; None if that is not known."""
        ...

    def highest_pct(self, placement_id: str) -> float:
        """What it can be swelled to without a restart: a running MPS client keeps the share it began with."""
        ...

    def give(self, placement_id: str, share_pct: float) -> Condition:
        """Squeeze or swell it, and say what is in force now."""
        ...


class ActuatorHands:
    """`Hands` that act as a tick does: intent into the journal, the primitive, its outcome, an event."""

    def __init__(self, actuator: Actuator, records: Mapping[str, Record]) -> None:
        """Act on these records."""
        self._actuator = actuator
        self._records = records

    def share_pct(self, placement_id: str) -> float | None:
        """As the record has it."""
        return self._records[placement_id].share_pct

    def highest_pct(self, placement_id: str) -> float:
        """The share it was started with."""
        started_pct = self._records[placement_id].started_share_pct
        return 100.0 if started_pct is None else started_pct

    def give(self, placement_id: str, share_pct: float) -> Condition:
        """By squeeze, or by swell."""
        record = self._records[placement_id]
        before_pct = 100.0 if record.share_pct is None else record.share_pct
        primitive = "squeeze" if share_pct < before_pct else "swell"
        self._actuator.act(record, Action(primitive, placement_id, share_pct))
        return record.conditions[primitive]
