"""One course replayed in one world, and what became of each measured job."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from domain.changes import Submitted, World
from domain.cluster import Cluster, Pool
from domain.jobs import Job
from domain.measures import is_slowed, lateness_s, speedup
from domain.schedules import as_attempts
from domain.usage import use_integrals
from simulator.engine import Progress
from simulator.replay import Replay, replay
from simulator.report import Lived, faults_of, reference_of
from simulator.what_if.courses import Course
from simulator.workload import Workload
from solver.policies import POLICIES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RECORD_DECIDES = "0.5"
"""As in live clusters: a job is requeueable if its record or its pool says so."""

USES = ("allocated_gpu_hours", "capacity_gpu_hours", "lent_gpu_hours", "lost_gpu_hours")
_HOUR_S = 3600.0


@dataclass(frozen=True)
class WorldLived:
    """What happened to the measured jobs of one course in one world.

    Attributes:
        jobs: measured, by (submit, id).
        source_ids: the ids in the record that they come from.
        units: unit of each job, shape (jobs,).
        pools: place of its pool in the order of the quotas, shape (jobs,).
        wait_s, jct_s, reference_jct_s: shape (jobs,); the reference is the same world without sharing.
        gain: speed-up against it.
        late_s: end - reference end.
        requeues: how often it was sent back.
        uses: by pool and unit what `USES` names, shape (pools + 1, units, uses); last for all.
        faults: what the judges find in the schedule.
    """

    jobs: tuple[Job, ...]
    source_ids: tuple[str, ...]
    units: Ints
    pools: Ints
    wait_s: Floats
    jct_s: Floats
    reference_jct_s: Floats
    gain: Floats
    late_s: Floats
    requeues: Ints
    uses: Floats
    faults: tuple[str, ...]

    @property
    def is_slowed(self) -> NDArray[np.bool_]:
        """Which jobs break the promise."""
        return np.array([is_slowed(late) for late in self.late_s.tolist()], dtype=np.bool_)


def live(
    course: Course,
    world: World,
    jobs: Sequence[Submitted],
    seed: int,
    progress: Progress | None = None,
    *,
    is_judged: bool = True,
) -> WorldLived:
    """Replay a course in a world.

    Args:
        course: which time, and what is learned from.
        world: in which.
        jobs: what is submitted there, by (submit, id).
        seed: of what forecasts draw.
        progress: told now and then how far it is.
        is_judged: whether the judges look at the schedule.

    Raises:
        SettingError: if the policy or its settings are refused.
        StalledError: if jobs never start.
    """
    workload = _workload(course, world, jobs)
    settings = dict(world.settings)
    if any(one.name == "requeueable" for one in fields(POLICIES[world.policy].settings)):
        settings = {"requeueable": RECORD_DECIDES, **settings}
    done = replay(workload, world.policy, settings, seed=seed, progress=progress, quiet=world.quiet)
    sources = {one.job.job_id: one.source_id for one in jobs}
    faults = tuple(faults_of(workload, done)) if is_judged else ()
    return _told(course, workload, done, sources, faults)


def _workload(course: Course, world: World, jobs: Sequence[Submitted]) -> Workload:
    past = course.past.of_pools(world.quotas)
    pools = tuple(Pool(name, world.quotas[name]) for name in sorted(world.quotas))
    nodes = tuple(sorted(world.nodes, key=lambda node: node.name)) if world.is_placed else ()
    return Workload(
        Cluster(pools, nodes),
        tuple(one.job for one in jobs),
        {one.job.job_id: one.outcome for one in jobs},
        past.past,
        past.unended,
        course.span.begin_s,
        course.span.from_s,
        past.starts,
        past.cut_off,
    )


def _told(
    course: Course, workload: Workload, done: Replay, sources: Mapping[str, str], faults: tuple[str, ...]
) -> WorldLived:
    lived, reference = Lived.of(done.schedule), reference_of(workload)
    jobs = tuple(job for job in workload.jobs if job.submit_s >= course.span.from_s)
    place = {pool: index for index, pool in enumerate(workload.cluster.quotas())}
    jct_s = [lived.end_s[job.job_id] - job.submit_s for job in jobs]
    reference_jct_s = [reference.end_s[job.job_id] - job.submit_s for job in jobs]
    sent_back = Counter(one.job_id for one in as_attempts(done.schedule.stretches) if one.was_sent_back)
    return WorldLived(
        jobs,
        tuple(sources[job.job_id] for job in jobs),
        np.array([_unit(course, job.submit_s) for job in jobs], dtype=np.int64),
        np.array([place[job.pool] for job in jobs], dtype=np.int64),
        np.array([lived.start_s[job.job_id] - job.submit_s for job in jobs]),
        np.array(jct_s),
        np.array(reference_jct_s),
        np.array([speedup(r, j) for r, j in zip(reference_jct_s, jct_s, strict=True)]),
        np.array([lateness_s(lived.end_s[job.job_id], reference.end_s[job.job_id]) for job in jobs]),
        np.array([sent_back[job.job_id] for job in jobs], dtype=np.int64),
        _uses(course, workload, done),
        faults,
    )


def _unit(course: Course, at_s: float) -> int:
    return min(bisect_left(course.ends_s, at_s), len(course.ends_s) - 1)


def _uses(course: Course, workload: Workload, done: Replay) -> Floats:
    quotas = workload.cluster.quotas()
    found = np.zeros((len(quotas) + 1, len(course.ends_s), len(USES)))
    begin_s = course.span.from_s
    stretches, capacity_gpus = done.schedule.stretches, workload.cluster.capacity_gpus
    for unit, end_s in enumerate(course.ends_s):
        window = (begin_s, max(begin_s, end_s))
        whole = use_integrals(workload.jobs, stretches, quotas, window, capacity_gpus)
        found[-1, unit] = [getattr(whole, name) for name in USES]
        held, lost = _held_by_pool(workload, done, window)
        for place, (pool, quota) in enumerate(quotas.items()):
            capacity = quota * (window[1] - window[0]) / _HOUR_S
            found[place, unit] = [held[pool], capacity, whole.lent_by_donor.get(pool, 0.0), lost[pool]]
        begin_s = window[1]
    return found


def _held_by_pool(
    workload: Workload, done: Replay, window: tuple[float, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """GPU-hours that each pool's jobs held in a window, own and lent, and those of them that were lost."""
    by_id = {job.job_id: job for job in workload.jobs}
    held, lost = (dict.fromkeys(workload.cluster.quotas(), 0.0) for _ in range(2))
    for one in as_attempts(done.schedule.stretches):
        job = by_id[one.job_id]
        inside_s = max(0.0, min(one.end_s, window[1]) - max(one.start_s, window[0]))
        held[job.pool] += job.num_gpus * inside_s / _HOUR_S
        lost[job.pool] += job.num_gpus * inside_s / _HOUR_S * one.lost_share
    return held, lost
