"""Who is on which GPU once a plan is carried out: what the checker of placements looks at."""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from domain.jobs import Job
from domain.plans import Placement, Plan
from solver.packed_sets import GpuKey
from solver.plan_rules import PlanFault, PlanRule, PlanState, Standing


@dataclass(frozen=True)
class PlaceScene:
    """Who is on which GPU once the plan is carried out.

    Attributes:
        state: the cluster before the plan.
        leaving: ids of the jobs that are stopped.
        starting: the jobs that start, by id.
        own: ids of the jobs that start as own or become own.
        placed: the GPUs of each job that is placed, by id.
        after: ids of the jobs on each GPU that the plan touches, those that run before those that start.
        is_holding: GPUs are kept idle, so a gang may have to leave a node to a hold.
    """

    state: PlanState
    leaving: frozenset[str]
    starting: Mapping[str, Job]
    own: frozenset[str]
    placed: Mapping[str, tuple[GpuKey, ...]]
    after: Mapping[GpuKey, tuple[str, ...]]
    is_holding: bool

    @property
    def types(self) -> Mapping[GpuKey, str]:
        """Type of each GPU there is; empty where the nodes are not known."""
        return self.state.places.types

    @cached_property
    def free(self) -> Mapping[str, int]:
        """GPUs of each node that nobody has."""
        return free_after(self.state, self.after)

    @cached_property
    def workers(self) -> Mapping[GpuKey, tuple[str, ...]]:
        """Ids of the jobs on each GPU of the cluster."""
        return ChainMap(dict(self.after), self.state.places.workers)

    def job(self, job_id: str) -> Job | None:
        """A job that runs by then."""
        if job_id in self.starting:
            return self.starting[job_id]
        known = self.state.known.get(job_id)
        runs = known is not None and known.standing is not Standing.WAITING and job_id not in self.leaving
        return known.job if known is not None and runs else None

    def gpus_of(self, job_id: str) -> tuple[GpuKey, ...]:
        """The GPUs of a job that runs by then."""
        if job_id in self.placed:
            return self.placed[job_id]
        known = self.state.known.get(job_id)
        return () if known is None else tuple((gpu.node, gpu.index) for gpu in known.gpus)

    def is_own(self, job_id: str) -> bool:
        """Whether a job is its pool's own by then."""
        known = self.state.known.get(job_id)
        return job_id in self.own or (known is not None and known.standing is Standing.OWN)

    def may_share(self, job_id: str) -> bool:
        """Whether a job has consented to share its GPUs."""
        known = self.state.known.get(job_id)
        return known is not None and known.may_share


def look_at_places(state: PlanState, plan: Plan) -> PlaceScene:
    """Work out who is where once a plan is carried out."""
    starts_own = (start.job.job_id for start in plan.starts if not start.is_guest)
    return PlaceScene(
        state,
        leaving=leaving(plan),
        starting={start.job.job_id: start.job for start in plan.starts},
        own=frozenset(starts_own) | {job.job_id for job in plan.conversions},
        placed={
            one.job_id: tuple(dict.fromkeys((gpu.node, gpu.index) for gpu in one.gpus))
            for one in plan.placements
        },
        after=workers_after(state, plan, plan.placements),
        is_holding=any(hold.until_s is not None for hold in plan.holds),
    )


def place_fault(rule: PlanRule, job: Job, found: str) -> PlanFault:
    """A rule of placement broken by one job, and what was found of it."""
    return PlanFault(rule, job.job_id, job.pool, f"job {job.job_id} of pool {job.pool} {found}")


def leaving(plan: Plan) -> frozenset[str]:
    """Ids of the jobs that a plan stops: sent back or suspended."""
    return frozenset(job.job_id for job in (*plan.send_backs, *plan.suspends))


def is_left_in_use(state: PlanState, plan: Plan, key: GpuKey) -> bool:
    """Whether somebody who is not stopped has a GPU."""
    stopped = leaving(plan)
    return any(one not in stopped for one in state.places.workers.get(key, ()))


def workers_after(state: PlanState, plan: Plan, placed: Iterable[Placement]) -> dict[GpuKey, tuple[str, ...]]:
    """Who is on each GPU that the plan touches, once those stopped are gone and these gangs have started."""
    stopped = leaving(plan)
    gone = (state.known[job_id].gpus for job_id in stopped if job_id in state.known)
    keys = {(gpu.node, gpu.index) for gpus in (*gone, *(place.gpus for place in placed)) for gpu in gpus}
    before = state.places.workers
    after = {key: tuple(one for one in before.get(key, ()) if one not in stopped) for key in keys}
    for place in placed:
        for gpu in place.gpus:
            after[gpu.node, gpu.index] += (place.job_id,)
    return after


def free_after(state: PlanState, after: Mapping[GpuKey, tuple[str, ...]]) -> dict[str, int]:
    """GPUs of each node that nobody has by then."""
    free = dict(state.places.free)
    for key, here in after.items():
        if key in state.places.types:
            free[key[0]] += bool(state.places.workers.get(key)) - bool(here)
    return free
