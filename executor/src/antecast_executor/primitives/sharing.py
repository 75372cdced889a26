"""What launch, squeeze and swell have in common: an MPS share, and time slices where it cannot be changed."""

from dataclasses import replace

from antecast_executor.conditions import ConditionState
from antecast_executor.document import Placement
from antecast_executor.interfaces import Capability, DeviceError, EffectiveAt, Enforcement, InForce
from antecast_executor.primitives.base import Node, Outcome, find, worker_pids
from antecast_executor.record import Record

MPS = "set_share"
THROTTLE = "throttle"
READ_BACK_TOLERANCE_PCT = 0.5


def has_mps(node: Node) -> bool:
    """Whether workers can be given an MPS share here."""
    return find(node.share.capabilities(), MPS).supported


def takes_mps(node: Node, placement: Placement) -> bool:
    """Whether this placement starts as an MPS client."""
    is_mig = any(item.is_mig for item in node.devices.devices() if item.uuid in placement.gpus)
    return len(placement.gpus) == 1 and not is_mig and has_mps(node)


def means(node: Node) -> Capability:
    """How the share of a running worker can be changed: by time slices, else for the next client only."""
    slices = find(node.processes.capabilities(), THROTTLE)
    return slices if slices.supported else find(node.share.capabilities(), MPS)


def change(node: Node, record: Record, share_pct: float) -> Outcome:
    """Give a running placement another share, and say what that does to it now."""
    capped = _cap(node, record, share_pct)
    started_pct = record.started_share_pct or 100.0
    record.share_pct = share_pct
    if share_pct < started_pct:
        sliced = slice_time(node, record, share_pct)
        if sliced.in_force is not None and sliced.effective_at is EffectiveAt.NOW:
            return Outcome(ConditionState.EFFECTIVE, sliced)
        return Outcome(ConditionState.APPLIED, replace(capped, reason=f"{capped.reason}; {sliced.reason}"))
    if record.is_throttled:
        slice_time(node, record, started_pct)
    if is_equal(capped):
        return Outcome(ConditionState.VERIFIED, held(capped))
    return Outcome(ConditionState.APPLIED, capped)


def _cap(node: Node, record: Record, share_pct: float) -> InForce:
    """The MPS side: it binds workers that start from now on, and says what the running one has."""
    if not record.is_under_mps:
        reason = "started without MPS: only a restart changes its share"
        started_pct = record.started_share_pct
        return InForce(share_pct, started_pct, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, reason)
    uuid = record.placement.gpus[0]
    try:
        attached = worker_pids(node, record)
        if set(node.share.clients(uuid)) <= set(attached):
            # The cap is the daemon's: where another placement shares the GPU it would bind that one's too.
            node.share.set_share(uuid, None, share_pct)
        if attached:
            return node.share.set_share(uuid, attached[0], share_pct)
    except DeviceError as error:
        # A daemon that does not answer keeps no time slices from being set.
        reason = f"{error.code}: {error}"
        return InForce(share_pct, None, EffectiveAt.NEXT_DAEMON, Enforcement.RESTART, reason)
    return InForce(share_pct, None, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, "not_attached")


def held(answer: InForce) -> InForce:
    """The share that a worker started with is what is wanted: it holds, by MPS itself or without any cap."""
    return replace(answer, effective_at=EffectiveAt.NOW, enforcement=Enforcement.NATIVE, reason="")


def slice_time(node: Node, record: Record, share_pct: float) -> InForce:
    """Let it run only a part of the time, such that it gets about this share on average."""
    started_pct = record.started_share_pct or 100.0
    duty_pct = min(100.0, 100.0 * share_pct / started_pct)
    if record.process is None:
        raise ValueError(f"{record.placement_id} has not been started")
    can = find(node.processes.capabilities(), THROTTLE)
    if not can.supported:
        reason = f"no time slices: {can.reason}"
        return InForce(share_pct, None, EffectiveAt.NEXT_CLIENT, Enforcement.UNSUPPORTED, reason)
    answer = node.processes.throttle(record.placement_id, record.process, duty_pct)
    record.is_throttled = answer.in_force is not None and answer.in_force < 100
    in_force = None if answer.in_force is None else round(started_pct * answer.in_force / 100.0, 3)
    kept = f"MPS share of the running client stays {started_pct:g} %; " if record.is_under_mps else ""
    reason = f"{kept}time slices, {duty_pct:g} % of the time" + (
        f"; {answer.reason}" if answer.reason else ""
    )
    return InForce(share_pct, in_force, answer.effective_at, answer.enforcement, reason)


def is_equal(answer: InForce) -> bool:
    """Whether what was read back is what was asked for."""
    return answer.in_force is not None and abs(answer.in_force - answer.requested) <= READ_BACK_TOLERANCE_PCT
