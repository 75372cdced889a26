"""Let a paused placement go on."""

from antecast_executor.conditions import ConditionState
from antecast_executor.interfaces import Capability
from antecast_executor.primitives.base import Node, Outcome, find
from antecast_executor.record import Record, RunState


def supported(node: Node) -> Capability:
    """Whether processes can be resumed."""
    return find(node.processes.capabilities(), "resume")


def apply(node: Node, record: Record, value: float | None) -> Outcome:  # noqa: ARG001
    """Resume it; it stays paused in our books until that is read back, so that it is tried again."""
    if record.process is None:
        raise ValueError(f"{record.placement_id} has not been started")
    answer = node.processes.resume(record.placement_id, record.process)
    if answer.in_force == 0:
        record.state, record.is_hold_known = RunState.RUNNING, True
        return Outcome(ConditionState.VERIFIED, answer)
    return Outcome(ConditionState.APPLIED, answer)


def verify(node: Node, record: Record) -> Outcome | None:  # noqa: ARG001
    """It was read back when it was done."""
    return None
