"""End a placement, one rung after the other: ask, take its GPU work away, kill, see that it is gone.

Killing an MPS client with work on the GPU can leave its neighbours hanging, so its work is taken away first.
"""

from antecast_executor.conditions import ConditionState
from antecast_executor.interfaces import Capability, DeviceError, EffectiveAt, Enforcement, InForce
from antecast_executor.primitives.base import Node, Outcome, find, worker_pids
from antecast_executor.record import Record, Rung, RunState

DETACH_WAIT_S = 2.0
KILL_WAIT_S = 10.0


def supported(node: Node) -> Capability:
    """Whether processes can be ended."""
    return find(node.processes.capabilities(), "stop")


def apply(node: Node, record: Record, value: float | None) -> Outcome:  # noqa: ARG001
    """Ask it to end."""
    record.state = RunState.STOPPING
    _climb(node, record, Rung.ASKED)
    if record.process is not None:
        try:
            node.processes.terminate(record.placement_id, record.process)
        except DeviceError as error:
            # The ladder goes on: the next rung needs no consent.
            return Outcome(ConditionState.APPLIED, _answer(f"not asked to end: {error}"))
    return Outcome(ConditionState.APPLIED, _answer("asked to end"))


def verify(node: Node, record: Record) -> Outcome | None:
    """Climb on if the time of this rung is over. That it is gone is noticed where all ends are."""
    if record.process is None or record.rung is None:
        return None
    waited_s = node.clock.monotonic() - record.rung_at_s
    if record.rung is Rung.ASKED and waited_s >= record.placement.grace_s:
        return _detach(node, record)
    if record.rung is Rung.DETACHED and (waited_s >= DETACH_WAIT_S or not _attached(node, record)):
        return _kill(node, record)
    if record.rung is Rung.KILLED and waited_s >= KILL_WAIT_S:
        return Outcome(ConditionState.APPLIED, _answer("leaked: killed, but it does not go away"))
    return None


def _climb(node: Node, record: Record, rung: Rung) -> None:
    record.rung = rung
    record.rung_at_s = node.clock.monotonic()


def _attached(node: Node, record: Record) -> list[int]:
    try:
        return worker_pids(node, record)
    except DeviceError:
        return []  # a daemon that does not answer must not keep the placement alive


def _detach(node: Node, record: Record) -> Outcome:
    attached = _attached(node, record)
    if not attached:
        return _kill(node, record)
    failures = [text for pid in attached if (text := _terminate_client(node, record, pid))]
    _climb(node, record, Rung.DETACHED)
    return Outcome(ConditionState.APPLIED, _answer("; ".join(["GPU work taken away", *failures])))


def _terminate_client(node: Node, record: Record, pid: int) -> str:
    try:
        node.share.terminate_client(record.placement.gpus[0], pid)
    except DeviceError as error:
        return f"{error.code}: {error}"
    return ""


def _kill(node: Node, record: Record) -> Outcome:
    _climb(node, record, Rung.KILLED)
    if record.process is not None:
        node.processes.kill(record.placement_id, record.process)
    return Outcome(ConditionState.APPLIED, _answer("killed"))


def _answer(reason: str) -> InForce:
    return InForce(1.0, None, EffectiveAt.NOW, Enforcement.NATIVE, reason)
