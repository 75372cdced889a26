"""What to do next, from what is wanted and what is there. Pure: no clock, no process, no network.

Level-triggered: the same inputs give the same actions however they came about, and once the node is as
wanted there is nothing to do. Room is made before it is taken: stops and squeezes come first, and a launch or
a swell waits until the shares in force on its GPUs leave it room. A GPU has room for 100 %, or for more where
more is wanted of it: shares are caps, and two that compete freely have 100 % each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from antecast_executor.document import OnDisconnect, Placement, Wanted, shares
from antecast_executor.record import OVER, RunState

TOLERANCE_PCT = 1e-6
LEAST_SHARE_PCT = 10.0
"""What a worker has at least, so going down to it takes nothing from a neighbour."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A placement that was started here.

    Attributes:
        share_pct: the share it was given last; None if that is not known.
        is_hold_known: whether `state` is sure to tell a paused one from a running one.
    """

    placement_id: str
    gpus: tuple[str, ...]
    state: RunState
    share_pct: float | None
    is_hold_known: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """What must not be done now.

    Attributes:
        may_launch: False once the document has expired.
        is_cut_off: whether on_disconnect applies.
        lost_gpus: GPUs that nothing can start on.
        blocked: (placement, primitive) pairs that have to wait after a failure or a recent change.
    """

    may_launch: bool = True
    is_cut_off: bool = False
    lost_gpus: frozenset[str] = frozenset()
    blocked: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Action:
    """One primitive on one placement; `value` is the share for launch, squeeze and swell."""

    primitive: str
    placement_id: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The actions in the order in which they are to be taken, and why launches wait."""

    actions: tuple[Action, ...] = ()
    waiting: dict[str, str] = field(default_factory=dict)


def reconcile(
    desired: Sequence[Placement], observed: Sequence[Observed], limits: Limits | None = None
) -> Steps:
    """The next actions towards what is desired."""
    work = _Work({item.placement_id: item for item in desired}, observed, limits or Limits())
    work.stop()
    work.pause()
    work.squeeze()
    work.resume()
    work.swell()
    work.launch(desired)
    return Steps(tuple(work.actions), work.waiting)


class _Work:
    def __init__(self, desired: dict[str, Placement], observed: Sequence[Observed], limits: Limits) -> None:
        self._desired = desired
        self._limits = limits
        self._room: dict[str, float] = {
            uuid: max(100.0, sum(item.share_pct for item in sharers))
            for uuid, sharers in shares(list(desired.values())).items()
        }
        self._known = {item.placement_id for item in observed}
        self._live = [item for item in observed if item.state not in OVER]
        self._given: dict[str, float] = {}
        self._leavers: set[str] = set()
        for item in self._live:
            self._give(item.gpus, 100.0 if item.share_pct is None else item.share_pct)
        self.actions: list[Action] = []
        self.waiting: dict[str, str] = {}

    def _give(self, gpus: Iterable[str], share_pct: float) -> None:
        for uuid in gpus:
            self._given[uuid] = self._given.get(uuid, 0.0) + share_pct

    def _has_room(self, gpus: Iterable[str], share_pct: float) -> bool:
        return all(
            self._given.get(uuid, 0.0) + share_pct <= self._room.get(uuid, 100.0) + TOLERANCE_PCT
            for uuid in gpus
        )

    def _add(self, primitive: str, placement_id: str, value: float | None = None) -> bool:
        if (placement_id, primitive) in self._limits.blocked:
            return False
        self.actions.append(Action(primitive, placement_id, value))
        return True

    def _staying(self) -> Iterable[tuple[Observed, Placement]]:
        """The live ones that stay, with what is wanted of them."""
        for item in self._live:
            wanted = self._desired.get(item.placement_id)
            if wanted is not None and item.state is not RunState.STOPPING and not self._has_to_go(wanted):
                yield item, wanted

    def _has_to_go(self, wanted: Placement) -> bool:
        return self._limits.is_cut_off and wanted.on_disconnect is OnDisconnect.STOP

    def _has_to_rest(self, wanted: Placement) -> bool:
        away = self._limits.is_cut_off and wanted.on_disconnect is OnDisconnect.PAUSE
        return away or wanted.state is Wanted.PAUSED

    def stop(self) -> None:
        staying = {item.placement_id for item, _ in self._staying()}
        for item in self._live:
            if item.placement_id not in staying:
                self._leavers.update(item.gpus)
                if item.state is not RunState.STOPPING:
                    self._add("stop", item.placement_id)

    def pause(self) -> None:
        for item, wanted in self._staying():
            may_run = item.state is RunState.RUNNING or not item.is_hold_known
            if may_run and self._has_to_rest(wanted):
                self._add("pause", item.placement_id, 1.0)

    def resume(self) -> None:
        for item, wanted in self._staying():
            may_stand = item.state is RunState.PAUSED or not item.is_hold_known
            if may_stand and not self._has_to_rest(wanted):
                self._add("resume", item.placement_id, 0.0)

    def squeeze(self) -> None:
        for item, wanted in self._staying():
            if item.share_pct is None:
                self._make_known(item, wanted)
                continue
            less = wanted.share_pct - item.share_pct
            if less < 0.0 and self._add("squeeze", item.placement_id, wanted.share_pct):
                self._give(item.gpus, less)

    def _make_known(self, item: Observed, wanted: Placement) -> None:
        """Set a share that is not known: to what is wanted if nobody can be hurt, else low, to grow later.

        It may be far below what is wanted while neighbours hold the rest; setting it at once could give out
        more than there is.
        """
        share_pct = wanted.share_pct if self._is_alone(item) else LEAST_SHARE_PCT
        if share_pct < 100.0 and self._add("squeeze", item.placement_id, share_pct):
            self._give(item.gpus, share_pct - 100.0)

    def _is_alone(self, item: Observed) -> bool:
        return all(other is item or set(other.gpus).isdisjoint(item.gpus) for other in self._live)

    def swell(self) -> None:
        for item, wanted in self._staying():
            if item.share_pct is None:
                if wanted.share_pct >= 100.0 and self._is_alone(item):
                    self._add("swell", item.placement_id, wanted.share_pct)
                continue
            more = wanted.share_pct - item.share_pct
            if more <= 0.0 or not self._has_room(item.gpus, more):
                continue
            if self._add("swell", item.placement_id, wanted.share_pct):
                self._give(item.gpus, more)

    def launch(self, desired: Sequence[Placement]) -> None:
        for wanted in desired:
            if wanted.placement_id in self._known:
                continue
            reason = self._why_not(wanted)
            if reason:
                self.waiting[wanted.placement_id] = reason
            elif self._add("launch", wanted.placement_id, wanted.share_pct):
                self._give(wanted.gpus, wanted.share_pct)

    def _why_not(self, wanted: Placement) -> str:
        if not self._limits.may_launch:
            return "the document has expired: no launches until the control plane is back"
        if self._has_to_go(wanted) or self._has_to_rest(wanted):
            return "it is to be paused, so it is not started"
        for uuid in wanted.gpus:
            if uuid in self._limits.lost_gpus:
                return f"GPU {uuid} is lost"
            if uuid in self._leavers:
                return f"GPU {uuid} is not free yet of what has to leave it"
            if not self._has_room((uuid,), wanted.share_pct):
                return f"GPU {uuid} has no room yet"
        return ""
