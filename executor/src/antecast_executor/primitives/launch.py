"""Start a placement's command on its GPUs, under their MPS daemon where that is possible.

A client reaches one daemon only and there is one daemon for each GPU, so a placement on several GPUs starts
without MPS. A share below 100 % is then kept by time slices, and said to be advisory.
"""

from antecast_executor.conditions import ConditionState
from antecast_executor.interfaces import Capability, EffectiveAt, Enforcement, InForce
from antecast_executor.primitives import sharing
from antecast_executor.primitives.base import Node, Outcome, find, worker_pids
from antecast_executor.record import Record, RunState


def supported(node: Node) -> Capability:
    """Whether processes can be started."""
    return find(node.processes.capabilities(), "launch")


def apply(node: Node, record: Record, value: float | None) -> Outcome:
    """Start it. The record has its process afterwards."""
    placement = record.placement
    share_pct = placement.share_pct if value is None else value
    is_under_mps = sharing.takes_mps(node, placement)
    env = environment(node, record, share_pct, is_under_mps=is_under_mps)
    record.process = node.processes.launch(
        record.placement_id,
        placement.argv,
        env,
        cwd=None,
        log=node.logs / f"{record.placement_id}.log",
    )
    record.state = RunState.RUNNING
    record.started_s = node.clock.wall()
    record.is_under_mps = is_under_mps
    record.started_share_pct = share_pct if is_under_mps else 100.0
    record.share_pct = share_pct
    if is_under_mps:
        waiting = InForce(share_pct, None, EffectiveAt.NEXT_CLIENT, Enforcement.NATIVE, "not_attached")
        return Outcome(ConditionState.APPLIED, waiting)
    if share_pct < 100:
        return Outcome(ConditionState.EFFECTIVE, sharing.slice_time(node, record, share_pct))
    return Outcome(ConditionState.VERIFIED, _whole(record))


def verify(node: Node, record: Record) -> Outcome | None:
    """An MPS client has its share once it is attached: before, nothing is in force."""
    if not record.is_under_mps or record.started_share_pct is None:
        whole = Outcome(ConditionState.VERIFIED, _whole(record))
        return whole if record.placement.share_pct >= 100 else None
    attached = worker_pids(node, record)
    if not attached:
        return None
    uuid = record.placement.gpus[0]
    answer = node.share.set_share(uuid, attached[0], record.started_share_pct)
    if answer.in_force is None:
        return Outcome(ConditionState.EFFECTIVE, answer)
    if sharing.is_equal(answer):
        return Outcome(ConditionState.VERIFIED, sharing.held(answer))
    return Outcome(ConditionState.FAILED, answer)


def _whole(record: Record) -> InForce:
    """A whole GPU needs no cap; one on its memory cannot be had without MPS, and that is said."""
    reason = "" if record.placement.memory_mib is None else "no memory cap without MPS"
    return InForce(100.0, 100.0, EffectiveAt.NOW, Enforcement.NATIVE, reason)


def environment(node: Node, record: Record, share_pct: float, *, is_under_mps: bool) -> dict[str, str]:
    """The command's environment: what the plan says, and over it what grants exactly these GPUs."""
    placement = record.placement
    env = {
        **placement.env,
        "ANTECAST_PLACEMENT_ID": placement.placement_id,
        "ANTECAST_JOB_ID": placement.job_id,
        "ANTECAST_RANK": str(placement.rank),
        "ANTECAST_NUM_RANKS": str(placement.num_ranks),
        "CUDA_VISIBLE_DEVICES": ",".join(placement.gpus),
    }
    if is_under_mps:
        uuid = placement.gpus[0]
        node.share.ensure(uuid)
        caps = node.share.client_env(
            uuid, share_pct=share_pct, memory_mib=placement.memory_mib, priority=placement.priority
        )
        env.update(caps)
    return env
