"""Stop all threads of a placement where they are. Its memory stays allocated."""

from antecast_executor.conditions import ConditionState
from antecast_executor.interfaces import Capability
from antecast_executor.primitives.base import Node, Outcome, find
from antecast_executor.record import Record, RunState


def supported(node: Node) -> Capability:
    """Whether processes can be paused."""
    return find(node.processes.capabilities(), "pause")


def apply(node: Node, record: Record, value: float | None) -> Outcome:  # noqa: ARG001
    """Pause it; it counts as paused even if that could not be read back, so that it is resumed later."""
    record.state, record.is_hold_known = RunState.PAUSED, True
    return _pause(node, record)


def verify(node: Node, record: Record) -> Outcome | None:
    """Ask again whether all threads stand: one in the middle of a system call takes its time."""
    return _pause(node, record) if record.state is RunState.PAUSED else None


def _pause(node: Node, record: Record) -> Outcome:
    if record.process is None:
        raise ValueError(f"{record.placement_id} has not been started")
    answer = node.processes.pause(record.placement_id, record.process)
    return Outcome(ConditionState.VERIFIED if answer.in_force == 1 else ConditionState.APPLIED, answer)
