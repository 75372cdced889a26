"""The packing half of the plan checker: who may share a GPU, with whom, and at what shares.

Two workers a GPU, small stars (`solver.packed_sets`), pairs that fit. Who may be made to share: where no
policy packs, jobs that have all consented. Where one does, anybody (`Hosts.EVERYONE`), or nobody who would be
late for it (`Hosts.CONSENTING`): an own job shares only with its consent, or if it loses no more of its
speed than its slack allows (`PlanState.allowed_loss`), with all the neighbours that it has by then. Host and
rider are alike in this: what is protected is the job, whoever came first.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from domain.jobs import Job
from domain.packing import MAX_SET_JOBS, MAX_WORKERS
from domain.plans import Plan
from solver.packed_sets import GpuKey, is_star, packed_set
from solver.place_scene import PlaceScene, place_fault
from solver.plan_rules import Hosts, PlanFault, PlanOptions, PlanRule

_RATE: Final = 1e-9


def sharing_faults(scene: PlaceScene, plan: Plan, options: PlanOptions) -> list[PlanFault]:
    """Faults of whoever joins a GPU that has a worker."""
    if all(len(here) < 2 for here in scene.after.values()):
        return []
    joined: dict[GpuKey, Job] = {}
    for key in sorted({(gpu.node, gpu.index) for placement in plan.placements for gpu in placement.gpus}):
        here = scene.after[key]
        job = scene.job(here[-1])
        if len(here) > 1 and job is not None:
            joined[key] = job
    found = [*_each_gpu(scene, joined, options)]
    if options.packs and options.hosts is Hosts.CONSENTING:
        found += _protected(scene, joined, options)
    first: dict[tuple[PlanRule, str | None], PlanFault] = {}
    for one in found:
        first.setdefault((one.rule, one.job_id), one)
    return [*first.values(), *_packed_sets(scene)]


def share_faults(scene: PlaceScene, plan: Plan) -> Iterator[PlanFault]:
    """Shares are those of jobs that run by then: one for each of their GPUs, told once."""
    seen: set[str] = set()
    for one in plan.shares:
        job = scene.job(one.job_id)
        if job is None:
            found = f"job {one.job_id} gets shares of GPUs, but does not run by then"
            yield PlanFault(PlanRule.SHARES_OF_WHAT_DOES_NOT_RUN, one.job_id, None, found)
            continue
        if one.job_id in seen:
            yield place_fault(PlanRule.NAMED_TWICE, job, "gets its shares twice")
        seen.add(one.job_id)
        workers = len(scene.gpus_of(one.job_id)) or job.num_gpus
        if len(one.shares_pct) != workers:
            found = f"gets {len(one.shares_pct)} shares, it has {workers} workers"
            yield place_fault(PlanRule.NOT_ONE_SHARE_PER_GPU, job, found)


def names(keys: Iterable[GpuKey]) -> str:
    """GPUs for people."""
    return ", ".join(f"GPU {index} of node {node}" for node, index in keys)


def _each_gpu(scene: PlaceScene, joined: Mapping[GpuKey, Job], options: PlanOptions) -> Iterator[PlanFault]:
    """On each GPU that somebody joins: all are willing, they are two, and they fit."""
    for key, job in joined.items():
        here = scene.after[key]
        unwilling = [job_id for job_id in here if not (options.packs or scene.may_share(job_id))]
        if unwilling:
            found = f"gets {names([key])}, which {_listed(here[:-1])} has; {unwilling[0]} does not share"
            yield place_fault(PlanRule.GPU_IN_USE, job, found)
        if len(here) > MAX_WORKERS:
            found = f"is worker {len(here)} on {names([key])}, two may share one"
            yield place_fault(PlanRule.MORE_THAN_TWO_WORKERS, job, found)
        unfit = [
            one for one in here[:-1] if options.rates is not None and not _rate(scene, job, one, options)
        ]
        if unfit:
            found = f"gets {names([key])} beside {unfit[0]}, they do not fit onto one GPU"
            yield place_fault(PlanRule.PAIR_DOES_NOT_FIT, job, found)


def _protected(scene: PlaceScene, joined: Mapping[GpuKey, Job], options: PlanOptions) -> Iterator[PlanFault]:
    """Own jobs that have not consented lose no more than their slack allows."""
    losses: dict[str, float] = {}
    for key, joins in joined.items():
        for job_id in scene.after[key]:
            job = scene.job(job_id)
            if job is None or scene.may_share(job_id) or not scene.is_own(job_id):
                continue
            if job_id not in losses:
                losses[job_id] = _loss(scene, job, options)
            allowed = scene.state.allowed_loss.get(job_id, 0.0)
            if losses[job_id] > allowed + _RATE:
                found = f"shares {names([key])}; own job {job_id} has not consented and would lose"
                found += f" {losses[job_id]:.3f} of its speed, {allowed:.3f} is its slack"
                yield place_fault(PlanRule.PROTECTED_JOB_SHARES, joins, found)


def _loss(scene: PlaceScene, job: Job, options: PlanOptions) -> float:
    """Share of its speed that a job loses to all the neighbours that it has by then."""
    workers = []
    for key in scene.gpus_of(job.job_id):
        mates = [one for one in scene.workers.get(key, ()) if one != job.job_id]
        workers.append(min((_rate(scene, job, one, options) for one in mates), default=1.0))
    if options.redistributes and min(workers) > 0.0:
        return 1.0 - math.fsum(workers) / len(workers)
    return 1.0 - min(workers)


def _rate(scene: PlaceScene, job: Job, beside: str, options: PlanOptions) -> float:
    """Rate of a job beside another, as far as it is known; 0 where they do not fit."""
    other = scene.job(beside)
    if options.rates is None or job.model is None or other is None or other.model is None:
        return 0.0
    return options.rates(job.model, other.model) or 0.0


def _packed_sets(scene: PlaceScene) -> Iterator[PlanFault]:
    """Every packed set that somebody joins is a small star around its widest job."""
    seen: set[str] = set()
    for job_id, job in sorted(scene.starting.items()):
        if job_id in seen or job_id not in scene.placed:
            continue
        partners = packed_set(job_id, scene.gpus_of, scene.workers)
        seen |= partners.keys()
        if len(partners) > MAX_SET_JOBS:
            found = f"makes a packed set of {len(partners)} jobs, {MAX_SET_JOBS} is the most"
            yield place_fault(PlanRule.PACKED_SET_TOO_LARGE, job, found)
        widths = {one: known.num_gpus for one in partners if (known := scene.job(one)) is not None}
        is_known = widths.keys() == partners.keys()
        if is_known and not is_star(partners, widths, scene.gpus_of, scene.workers):
            found = f"is packed with {_listed(partners[job_id])}: no star around the widest of the set"
            yield place_fault(PlanRule.STAR_RULE, job, found)


def _listed(job_ids: Iterable[str]) -> str:
    return " and ".join(sorted(job_ids))
