"""A plan beside the cluster it is about to change: what every rule of the checker looks at."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from domain.jobs import Job
from domain.plans import Plan
from solver.check_places import finds_no_place, has_place_left
from solver.packed_sets import GpuKey
from solver.place_scene import is_left_in_use, leaving
from solver.plan_rules import Known, PlanFault, PlanOptions, PlanRule, PlanState, Standing


@dataclass(frozen=True)
class Scene:
    """A plan beside its state, and what the checker has worked out of them.

    Attributes:
        inside: jobs inside their lane that do not run as own yet, in the order of the lines.
        due: those of them that wait.
        left: those of the due that the plan does not start, although they have a place if nodes are known,
            and that may not be passed over: the plan does not call them late.
        late: those of the due that the plan does not start and calls late, although they have a place if
            nodes are known.
        needs: of each placed start, how many GPUs it takes that nobody else has: a rider takes none.
        idle_gpus: GPUs that may be had once those that are stopped are gone.
    """

    state: PlanState
    plan: Plan
    options: PlanOptions
    inside: Mapping[str, Known]
    due: Mapping[str, Known]
    left: Mapping[str, Known]
    late: Mapping[str, Known]
    needs: Mapping[str, int]
    idle_gpus: int

    @cached_property
    def started(self) -> frozenset[str]:
        """Ids of the jobs that the plan starts."""
        return frozenset(start.job.job_id for start in self.plan.starts)

    @cached_property
    def left_gpus(self) -> int:
        """GPUs that nobody has once the plan is carried out."""
        return self.idle_gpus - sum(self.gpus_for(job) for job, _ in self.plan.starts)

    def fits_left(self, job: Job) -> bool:
        """Whether the GPUs that the plan leaves idle hold a job, on nodes of its own if they are known."""
        return job.num_gpus <= self.left_gpus and has_place_left(self.state, self.plan, job)

    def runs_as(self, job: Job) -> Standing | None:
        """What a job does before the plan; None if it is not known."""
        known = self.state.known.get(job.job_id)
        return None if known is None else known.standing

    def gpus_for(self, job: Job) -> int:
        """Idle GPUs that starting a job takes."""
        return self.needs.get(job.job_id, job.num_gpus)


def look(state: PlanState, plan: Plan, options: PlanOptions) -> Scene:
    """Work out who is inside which lane, who is due, and what of the due the plan leaves waiting."""
    started = {start.job.job_id for start in plan.starts}
    inside = inside_lanes(state, counts_guests=options.converts) if options.has_own_lanes else {}
    due = {job_id: one for job_id, one in inside.items() if one.standing is Standing.WAITING}
    waits = {
        job_id: one
        for job_id, one in due.items()
        if job_id not in started and not finds_no_place(state, plan, one.job)
    }
    called_late = {job.job_id for job in plan.late}
    return Scene(
        state,
        plan,
        options,
        inside=inside,
        due=due,
        left={job_id: one for job_id, one in waits.items() if job_id not in called_late},
        late={job_id: one for job_id, one in waits.items() if job_id in called_late},
        needs=_needs(state, plan),
        idle_gpus=state.idle_gpus + (_freed_gpus(state, plan) if options.frees_at_once else 0),
    )


def _freed_gpus(state: PlanState, plan: Plan) -> int:
    """GPUs that nobody has any more once those that are stopped are gone.

    One that somebody shares who stays is still in use, and one that two of them share comes free once.
    """
    gone = [state.known[job_id] for job_id in leaving(plan) if job_id in state.known]
    suspended = {job.job_id for job in plan.suspends}
    keys: set[GpuKey] = set()
    unnamed = 0
    for one in gone:
        is_guest = one.standing is Standing.GUEST
        if is_guest or (one.standing is Standing.OWN and one.job.job_id in suspended):
            keys.update((gpu.node, gpu.index) for gpu in one.gpus)
            unnamed += one.job.num_gpus - len(one.gpus)
    return unnamed + sum(not is_left_in_use(state, plan, key) for key in keys)


def _needs(state: PlanState, plan: Plan) -> dict[str, int]:
    """Of each placed start, how many GPUs it takes that nobody else has by then."""
    taken: set[GpuKey] = set()
    needs: dict[str, int] = {}
    for placement in plan.placements:
        keys = {(gpu.node, gpu.index) for gpu in placement.gpus}
        needs[placement.job_id] = sum(not is_left_in_use(state, plan, key) for key in keys - taken)
        taken |= keys
    return needs


def inside_lanes(state: PlanState, *, counts_guests: bool) -> dict[str, Known]:
    """Whom the lanes reach that does not run as own yet, by id, pool by pool in the order of the lines.

    Args:
        state: the cluster.
        counts_guests: whether guests are part of their lane, to become own; else they are passed over.
    """
    inside: dict[str, Known] = {}
    for pool, line in state.lines.items():
        quota = state.quotas.get(pool, 0)
        room = quota - state.own_gpus.get(pool, 0)
        for job_id, one in line.items():
            width = one.job.num_gpus
            if width > quota or (one.standing is Standing.GUEST and not counts_guests):
                continue
            if width > room:
                break
            room -= width
            inside[job_id] = one
    return inside


def fault(rule: PlanRule, job: Job, found: str) -> PlanFault:
    """A rule broken by one job, and what was found of it."""
    return PlanFault(rule, job.job_id, job.pool, f"job {job.job_id} of pool {job.pool} {found}")
