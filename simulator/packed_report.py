"""What sharing GPUs did: how much of them, to whom, and what it cost those who shared."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from domain.jobs import Job
from domain.schedules import Stretch
from domain.sharing import Ride, SharedSpell, packed_sets, rides, shared_spells
from simulator.replay import Replay
from simulator.report import evaluated_jobs
from simulator.workload import Workload

_HOUR_S: Final = 3600.0


def packing_report(workload: Workload, replay: Replay, use: Mapping[str, Any]) -> dict[str, Any]:
    """Measures of packing. GPU-hours and rates are of the window of `use`, the others of the evaluated jobs.

    - `packed_gpu_hours`: GPUs that two jobs shared, each counted once; `packed_pct` is their share of the
      GPU-hours in use, and `equal_width_pct` that between two jobs of equal width of them;
    - `mean_packed_rate`: rate of jobs while they shared, weighted with their GPUs; None where nobody did;
    - `jobs_hosted`, `jobs_rode`: jobs that had a rider or were one at some time; some were both;
    - `sets_by_size`: packed sets of the hosts among these jobs, by the most jobs they had at once;
    - `colocation_slowdown_mean`, `colocation_slowdown_worst`: of jobs that shared, time they ran over the
      time they would have run alone, at least 1; None where nobody shared. `colocation_slowed_most` is the
      job.

    Args:
        workload: that was replayed.
        replay: what happened.
        use: how its GPUs were used: `use` of `simulator.report.describe`.

    Returns:
        Empty where jobs could not share GPUs.
    """
    if not replay.packs:
        return {}
    from_s, to_s = use["window_s"]
    window = (from_s, to_s)
    by_id = {job.job_id: job for job in workload.jobs}
    stretches = replay.schedule.stretches
    spells = shared_spells(by_id, stretches)
    all_rides = rides(by_id, spells)
    asked = {job.job_id for job in evaluated_jobs(workload)}
    hosts = {ride.host for ride in all_rides} & asked
    riders = {ride.rider for ride in all_rides} & asked
    sizes = Counter(one.most_jobs for one in packed_sets(all_rides) if one.host in asked)
    return {
        **_gpu_hours(by_id, spells, window, use["allocated_gpu_hours"]),
        "mean_packed_rate": _mean_rate(by_id, stretches, all_rides, window),
        "jobs_packed": len(hosts | riders),
        "jobs_hosted": len(hosts),
        "jobs_rode": len(riders),
        "sets_by_size": {str(size): sizes[size] for size in sorted(sizes)},
        **_slowdowns([one for one in stretches if one.job_id in hosts | riders]),
    }


def _gpu_hours(
    jobs: Mapping[str, Job],
    spells: Iterable[SharedSpell],
    window: tuple[float, float],
    used_gpu_hours: float,
) -> dict[str, float]:
    seconds: list[float] = []
    equal: list[float] = []
    for spell in spells:
        inside_s = spell.inside_s(window)
        seconds.append(inside_s)
        if jobs[spell.first].num_gpus == jobs[spell.second].num_gpus:
            equal.append(inside_s)
    total_s = math.fsum(seconds)
    return {
        "packed_gpu_hours": total_s / _HOUR_S,
        "packed_pct": 100.0 * total_s / _HOUR_S / used_gpu_hours if used_gpu_hours else 0.0,
        "equal_width_pct": 100.0 * math.fsum(equal) / total_s if total_s else 0.0,
    }


def _mean_rate(
    jobs: Mapping[str, Job],
    stretches: Iterable[Stretch],
    all_rides: Sequence[Ride],
    window: tuple[float, float],
) -> float | None:
    """Mean rate over GPUs and time of jobs that share; a stretch either shares all of its time or none."""
    shared: dict[str, list[Ride]] = {}
    for ride in all_rides:
        shared.setdefault(ride.host, []).append(ride)
        shared.setdefault(ride.rider, []).append(ride)
    work: list[float] = []
    held: list[float] = []
    for one in stretches:
        mine = shared.get(one.job_id, ())
        inside_s = min(one.end_s, window[1]) - max(one.start_s, window[0])
        if inside_s > 0.0 and any(r.start_s < one.end_s and one.start_s < r.end_s for r in mine):
            held.append(jobs[one.job_id].num_gpus * inside_s)
            work.append(held[-1] * one.rate)
    return math.fsum(work) / math.fsum(held) if held else None


def _slowdowns(stretches: Iterable[Stretch]) -> dict[str, Any]:
    """Of each job, over its attempts that were not sent back: what those did counts as work of its own."""
    ran_s: defaultdict[str, float] = defaultdict(float)
    work_s: defaultdict[str, float] = defaultdict(float)
    for one in stretches:
        if not one.was_sent_back:
            ran_s[one.job_id] += one.end_s - one.start_s
            work_s[one.job_id] += one.rate * (one.end_s - one.start_s)
    slowdowns = {job_id: max(1.0, ran_s[job_id] / work_s[job_id]) for job_id in ran_s if work_s[job_id]}
    worst = max(slowdowns, key=lambda job_id: (slowdowns[job_id], job_id), default=None)
    return {
        "colocation_slowdown_mean": math.fsum(slowdowns.values()) / len(slowdowns) if slowdowns else None,
        "colocation_slowdown_worst": None if worst is None else slowdowns[worst],
        "colocation_slowed_most": worst,
    }
