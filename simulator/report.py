"""What a schedule did, as numbers that can be written down: one replay against one other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from domain.bootstrap import blocks_of, bootstrap_bounds
from domain.fairness import donor_harm, jain_index
from domain.jobs import Job
from domain.measures import (
    bounded_slowdown,
    deadlines_met,
    is_slowed,
    lateness_s,
    makespan_s,
    quantile,
    slowed_share,
    slowed_share_beyond_1pct,
    speedup,
    speedup_geomean,
    speedup_mean,
    speedup_of_means,
    total_lateness_min,
    worst_lateness_min,
)
from domain.schedules import Schedule, as_attempts
from domain.shares import Share
from domain.usage import lending_spells, use_integrals
from simulator.replay import Replay
from simulator.workload import Workload
from solver.check import CheckOptions, ScheduleFault, check
from solver.check_packed import PackedOptions, check_packed
from solver.policies import POLICIES
from solver.reference import fcfs_starts

_QUANTILES = (("p5", 0.05), ("p50", 0.5), ("p95", 0.95))


@dataclass(frozen=True)
class Lived:
    """When each replayed job lived, seconds, by job id.

    Attributes:
        start_s: start of the attempt that counted; where several did, of the first one.
        end_s: end.
        resumed_s: start of the last attempt of those that went on from a checkpoint.
    """

    start_s: Mapping[str, float]
    end_s: Mapping[str, float]
    resumed_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def final_start_s(self, job_id: str) -> float:
        """Start of the attempt in which a job ended."""
        return self.resumed_s.get(job_id, self.start_s[job_id])

    @staticmethod
    def of(schedule: Schedule) -> "Lived":
        """Read them off a schedule."""
        return Lived(schedule.first_starts(), schedule.last_ends(), schedule.resumed_starts())


def reference_of(workload: Workload) -> Lived:
    """The world without sharing: first come, first served inside each pool's quota, when all is known."""
    durations_s = workload.durations_s()
    starts = fcfs_starts(workload.jobs, durations_s, workload.cluster.quotas())
    return Lived(starts, {job_id: start_s + durations_s[job_id] for job_id, start_s in starts.items()})


def evaluated_jobs(workload: Workload) -> list[Job]:
    """Jobs that measures are taken of: submitted at `eval_from_s` or later."""
    return [job for job in workload.jobs if job.submit_s >= workload.eval_from_s]


def against(workload: Workload, lived: Lived, reference: Lived) -> dict[str, Any]:
    """Speed-ups and slowed jobs of one schedule against another, over the evaluated jobs.

    Speed-ups are given as ratio of means, arithmetic and geometric mean and quantiles, because they differ
    by orders of magnitude. The share of slowed jobs comes with two intervals at 95 %: Clopper-Pearson, for
    which jobs are independent, and a bootstrap over the days of submission, as slowdowns cluster. Those of
    the warm-up (submitted before `eval_from_s`) are counted apart.
    """
    jobs = evaluated_jobs(workload)
    jcts = _jcts(jobs, lived)
    reference_jcts = _jcts(jobs, reference)
    late = _latenesses(jobs, lived, reference)
    slowed = slowed_share(late)
    low, high = slowed.bounds()
    days = blocks_of((job.submit_s for job in jobs), map(is_slowed, late))
    days_low, days_high = bootstrap_bounds(days)
    gains = [speedup(r, j) for r, j in zip(reference_jcts, jcts, strict=True)]
    warm_up = [job for job in workload.jobs if job.submit_s < workload.eval_from_s]
    slowed_then = slowed_share(_latenesses(warm_up, lived, reference))
    with_warm_up = Share(slowed.hits + slowed_then.hits, slowed.total + slowed_then.total)
    slow_jobs = [job for job, s in zip(jobs, late, strict=True) if is_slowed(s)]
    work = {job.job_id: job.num_gpus * workload.outcomes[job.job_id].duration_s for job in jobs}
    total_work = math.fsum(work.values())
    return {
        "speedup_ratio_of_means": speedup_of_means(reference_jcts, jcts),
        "speedup_mean": speedup_mean(reference_jcts, jcts),
        "speedup_geomean": speedup_geomean(reference_jcts, jcts),
        **{f"speedup_{name}": quantile(gains, level) for name, level in _QUANTILES},
        "slowed_jobs": slowed.hits,
        "slowed_pct": 100.0 * slowed.value,
        "slowed_pct_low": 100.0 * low,
        "slowed_pct_high": 100.0 * high,
        "slowed_pct_days_low": 100.0 * days_low,
        "slowed_pct_days_high": 100.0 * days_high,
        "slowed_days": sum(day.hits > 0 for day in days),
        "slowed_in_warm_up": slowed_then.hits,
        "slowed_pct_in_warm_up": 100.0 * slowed_then.value,
        "slowed_pct_with_warm_up": 100.0 * with_warm_up.value,
        "slowed_over_1pct_pct": 100.0 * slowed_share_beyond_1pct(late, reference_jcts).value,
        "slowed_gpu_hours_pct": 100.0 * math.fsum(work[j.job_id] for j in slow_jobs) / total_work
        if total_work
        else 0.0,
        "slowed_max_min": worst_lateness_min(late),
        "slowed_total_min": total_lateness_min(late),
    }


def describe(workload: Workload, replay: Replay, reference: Lived) -> dict[str, Any]:
    """The whole report of one replay, `reference` being the world without sharing (`fcfs`)."""
    jobs = evaluated_jobs(workload)
    lived = Lived.of(replay.schedule)
    window = (workload.eval_from_s, max(job.submit_s for job in jobs))
    quotas = workload.cluster.quotas()
    capacity_gpus = workload.cluster.capacity_gpus
    use = use_integrals(workload.jobs, replay.schedule.stretches, quotas, window, capacity_gpus)
    sent_back = sum(attempt.was_sent_back for attempt in as_attempts(replay.schedule.stretches))
    return {
        "policy": replay.policy,
        "settings": dict(replay.settings),
        "saw_truth": replay.saw_truth,
        "train_until_s": workload.train_until_s,
        "eval_from_s": workload.eval_from_s,
        "cluster_gpus": capacity_gpus,
        "pools": len(quotas),
        "jobs_replayed": len(workload.jobs),
        "jobs_evaluated": len(jobs),
        "jobs_learned_from": len(workload.past),
        "events": replay.schedule.events,
        "requeues": sent_back,
        **_times(workload, jobs, lived),
        **_deadlines(jobs, lived),
        "against_fcfs": against(workload, lived, reference),
        "use": {
            "window_s": list(window),
            "utilisation_pct": 100.0 * use.utilisation,
            "effective_utilisation_pct": 100.0 * use.effective_utilisation,
            "lent_gpu_hours": use.lent_gpu_hours,
            "held_idle_gpu_hours": use.held_idle_gpu_hours,
            "lost_gpu_hours": use.lost_gpu_hours,
            "allocated_gpu_hours": use.allocated_gpu_hours,
        },
        **_fairness(workload, replay, lived, reference, use.lent_by_donor),
        **replay.notes,
        "faults": faults_of(workload, replay),
    }


def finite(value: Any) -> Any:
    """The same report with numbers JSON cannot hold (infinite, not a number) replaced by null."""
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _times(workload: Workload, jobs: Sequence[Job], lived: Lived) -> dict[str, Any]:
    waits = [lived.start_s[job.job_id] - job.submit_s for job in jobs]
    jcts = _jcts(jobs, lived)
    bounded = [
        bounded_slowdown(jct, _ran_s(workload, job, lived)) for job, jct in zip(jobs, jcts, strict=True)
    ]
    return {
        "mean_jct_s": math.fsum(jcts) / len(jcts),
        "median_jct_s": quantile(jcts, 0.5),
        "p95_jct_s": quantile(jcts, 0.95),
        "p99_jct_s": quantile(jcts, 0.99),
        "mean_queue_delay_s": math.fsum(waits) / len(waits),
        "median_queue_delay_s": quantile(waits, 0.5),
        "p99_queue_delay_s": quantile(waits, 0.99),
        "mean_bounded_slowdown": math.fsum(bounded) / len(bounded),
        "makespan_s": makespan_s((job.submit_s for job in workload.jobs), lived.end_s.values()),
    }


def _deadlines(jobs: Sequence[Job], lived: Lived) -> dict[str, Any]:
    """How many of the jobs that have a deadline met it; nothing where none has one."""
    by_s = {job.job_id: job.deadline_s for job in jobs if job.deadline_s is not None}
    if not by_s:
        return {}
    met = deadlines_met((lived.end_s[job_id] for job_id in by_s), by_s.values())
    return {"deadlines": {"jobs": met.total, "met": met.hits, "met_pct": 100.0 * met.value}}


def _ran_s(workload: Workload, job: Job, lived: Lived) -> float:
    """How long a job ran; between attempts of one that goes on from a checkpoint it waits."""
    if job.job_id in lived.resumed_s:
        return workload.outcomes[job.job_id].duration_s
    return lived.end_s[job.job_id] - lived.start_s[job.job_id]


def _fairness(
    workload: Workload, replay: Replay, lived: Lived, reference: Lived, lent_by_donor: Mapping[str, float]
) -> dict[str, Any]:
    jobs = evaluated_jobs(workload)
    latenesses = dict(zip((job.job_id for job in jobs), _latenesses(jobs, lived, reference), strict=True))
    spells = lending_spells(workload.jobs, replay.schedule.stretches, workload.cluster.quotas())
    harm = donor_harm(jobs, latenesses, spells)
    rows: dict[str, dict[str, Any]] = {}
    for pool, quota in workload.cluster.quotas().items():
        here = [job for job in jobs if job.pool == pool]
        rows[pool] = {"quota_gpus": quota, "jobs": len(here), "lent_gpu_hours": lent_by_donor.get(pool, 0.0)}
        if here:
            jcts, reference_jcts = _jcts(here, lived), _jcts(here, reference)
            slowed_here = slowed_share(latenesses[job.job_id] for job in here)
            rows[pool] |= {
                "mean_jct_s": math.fsum(jcts) / len(jcts),
                "speedup_ratio_of_means": speedup_of_means(reference_jcts, jcts),
                "speedup_geomean": speedup_geomean(reference_jcts, jcts),
                "finish_time_fairness": 1.0 / speedup_of_means(reference_jcts, jcts),
                "slowed_jobs": slowed_here.hits,
                "slowed_pct": 100.0 * slowed_here.value,
                "slowed_max_min": worst_lateness_min(latenesses[job.job_id] for job in here),
            }
    gains = [row["speedup_geomean"] for row in rows.values() if row["jobs"]]
    worst = max((pool for pool in rows if rows[pool]["jobs"]), key=lambda pool: rows[pool]["slowed_pct"])
    return {
        "jain_index_of_pool_speedups": jain_index(gains) if all(map(math.isfinite, gains)) else math.nan,
        "donor_harm_pct": 100.0 * harm.value,
        "donor_jobs": harm.total,
        "worst_pool": worst,
        "worst_pool_slowed_pct": rows[worst]["slowed_pct"],
        "by_pool": rows,
    }


def faults_of(workload: Workload, replay: Replay) -> list[str]:
    """What the judges find: of every schedule, and of one whose jobs share GPUs how they do."""
    spec = POLICIES[replay.policy]
    options = CheckOptions(
        is_preemption_allowed=spec.suspends,
        requeueable_share=float(replay.settings.get("requeueable", 0.0)) if spec.may_send_back else 0.0,
        has_own_lanes=spec.has_own_lanes,
        # nodes may have more GPUs than the quotas promise; what nobody was promised is lent like any idle GPU
        capacity_steps=((-math.inf, workload.cluster.capacity_gpus),),
        reclaim_s=float(replay.settings.get("reclaim_s", 0.0)),
        is_packed=replay.packs,
    )
    report = check(
        workload.jobs,
        workload.durations_s(),
        workload.cluster.quotas(),
        replay.schedule.stretches,
        options=options,
    )
    return [fault.message for fault in (*report.faults, *_packing_faults(workload, replay))]


def _packing_faults(workload: Workload, replay: Replay) -> tuple[ScheduleFault, ...]:
    if replay.rates is None:
        return ()
    options = PackedOptions(
        redistributes=bool(replay.settings.get("liss", False)),
        share_gain=replay.share_gain,
        is_preemption_allowed=POLICIES[replay.policy].suspends,
    )
    nodes, stretches = workload.cluster.nodes, replay.schedule.stretches
    return check_packed(workload.jobs, stretches, nodes, replay.rates, options)


def _jcts(jobs: Sequence[Job], lived: Lived) -> list[float]:
    return [lived.end_s[job.job_id] - job.submit_s for job in jobs]


def _latenesses(jobs: Sequence[Job], lived: Lived, reference: Lived) -> list[float]:
    return [lateness_s(lived.end_s[job.job_id], reference.end_s[job.job_id]) for job in jobs]
