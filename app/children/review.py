"""A plan as far as somebody has accepted it: own starts need nobody's word, lending does.

A function of the plan and of what the log's entry says was accepted, so that a decision can be derived again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.jobs import Job
from domain.plans import Plan, Start


def reviewed(plan: Plan, idle_gpus: int, accepted: Mapping[str, Any]) -> tuple[Plan, list[dict[str, Any]]]:
    """Cut a plan down to what may be given out.

    Args:
        plan: what is decided; it fits the idle GPUs.
        idle_gpus: GPUs that are idle before guests are sent back.
        accepted: `starts` and `send_backs`, ids of jobs, and `holds`, pairs of pool and GPUs.

    Returns:
        The plan without what nobody has accepted, its own starts cut to what fits beside the guests that are
        not sent back; and all that lending proposes: kind, job_id, pool, num_gpus, whether it is given out.
    """
    may_start, may_go = set(accepted["starts"]), set(accepted["send_backs"])
    may_hold = {(pool, num_gpus) for pool, num_gpus in accepted["holds"]}
    gone = tuple(job for job in plan.send_backs if job.job_id in may_go)
    starts = _starts(plan, idle_gpus + sum(job.num_gpus for job in gone), may_start)
    holds = [hold for hold in plan.holds if (hold.pool, hold.num_gpus) in may_hold]
    given = {job.job_id for job in gone} | {start.job.job_id for start in starts}
    proposed = [_of_job("send_back", job, given) for job in plan.send_backs]
    proposed += [_of_job("start", start.job, given) for start in plan.starts if start.is_guest]
    proposed += [
        {
            "kind": "hold",
            "job_id": None,
            "pool": pool,
            "num_gpus": num_gpus,
            "is_given_out": (pool, num_gpus) in may_hold,
        }
        for pool, num_gpus in dict.fromkeys((hold.pool, hold.num_gpus) for hold in plan.holds)
    ]  # holds of one pool and width are one action
    return replace(plan, send_backs=gone, starts=tuple(starts), holds=tuple(holds)), proposed


def _starts(plan: Plan, room: int, may_start: set[str]) -> list[Start]:
    """Starts in their order; what comes after one that does not fit must not overtake it."""
    starts: list[Start] = []
    for start in plan.starts:
        if start.is_guest and start.job.job_id not in may_start:
            continue
        if start.job.num_gpus > room:
            break
        room -= start.job.num_gpus
        starts.append(start)
    return starts


def _of_job(kind: str, job: Job, given: set[str]) -> dict[str, Any]:
    return {
        "kind": kind,
        "job_id": job.job_id,
        "pool": job.pool,
        "num_gpus": job.num_gpus,
        "is_given_out": job.job_id in given,
    }
