"""Lateness that placement alone caused, apart from all other."""

from typing import Any

from domain.measures import is_slowed, lateness_s
from simulator.replay import Replay
from simulator.report import Lived, evaluated_jobs
from simulator.workload import Workload


def placement_report(workload: Workload, replay: Replay, reference: Lived) -> dict[str, Any]:
    """How many of the slowed jobs would not have been, had they started when GPUs sufficed in sum.

    A job is slowed by placement alone if it would have been in time without the stretches in which it was to
    start, enough GPUs were idle in sum, and no nodes held it. That is not asked of those that waited behind
    it for GPUs in sum.

    Returns:
        Empty where GPUs were only counted.
    """
    if replay.held_up_s is None:
        return {}
    jobs = evaluated_jobs(workload)
    lived = Lived.of(replay.schedule)
    late = {job.job_id: lateness_s(lived.end_s[job.job_id], reference.end_s[job.job_id]) for job in jobs}
    held_up_s = {job.job_id: replay.held_up_s.get(job.job_id, 0.0) for job in jobs}
    alone = [name for name in late if is_slowed(late[name]) and not is_slowed(late[name] - held_up_s[name])]
    return {
        "slowed_by_placement_jobs": len(alone),
        "slowed_by_placement_pct": 100.0 * len(alone) / len(jobs),
        "slowed_by_placement_max_min": max((late[name] for name in alone), default=0.0) / 60.0,
        "held_up_jobs": sum(seconds > 0.0 for seconds in held_up_s.values()),
        "held_up_hours": sum(held_up_s.values()) / 3600.0,
    }
