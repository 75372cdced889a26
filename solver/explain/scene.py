"""A cluster when somebody asks why jobs wait, and the reasons that can be told from outside its policy."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from domain.cluster import Gpu
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from solver.check_places import place_faults
from solver.check_plan import inside_lanes
from solver.explain.starts import lives_left
from solver.explain.waits import behind_due, explain_due, short_of_gpus
from solver.explain.words import Change, Lever, Waiting, Why
from solver.packing.consenting import CONTEXT_MIB
from solver.plan_rules import Known, PlanOptions, PlanState, Standing
from solver.policies.base import Lends

_NAMED: Final = 3
"""Jobs that a sentence names."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster right after a decision was carried out.

    Attributes:
        state: who waits and who runs.
        owes: what the policy owes (own lanes, who may be sent back).
        lends: to whom it lends.
        started_s: since when each running job runs.
        survival: forecast of a job's life at `domain.forecasts.LIFE_EDGES_S`.
        is_lending: False: the operator's kill switch is thrown, or forecasts are not trusted.
        off_since_s: since when nothing is lent, seconds, where that is known.
        memory_mib: most GPU memory a job uses, where its record says so.
        gpu_memory_mib: memory of each GPU by (node, index), where it is known.
    """

    state: PlanState
    owes: PlanOptions
    lends: Lends
    started_s: Mapping[str, float]
    survival: Callable[[Job], Sequence[float]]
    is_lending: bool = True
    off_since_s: float | None = None
    memory_mib: Mapping[str, int] = field(default_factory=dict)
    gpu_memory_mib: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def waiting(self) -> list[Job]:
        """Jobs that wait, by (submit, id)."""
        jobs = [one.job for one in self.state.known.values() if one.standing is Standing.WAITING]
        return sorted(jobs, key=lambda job: (job.submit_s, job.job_id))

    def due(self) -> list[Job]:
        """Own jobs that wait, by (submit, id); none where there are no own lanes."""
        if not self.owes.has_own_lanes:
            return []
        inside = inside_lanes(self.state, counts_guests=self.owes.converts)
        return [job for job in self.waiting() if job.job_id in inside]

    def lends_by_rule(self, job: Job) -> bool:
        """Whether the policy's rule allows a job to start beyond its lane."""
        if self.lends is Lends.REQUEUEABLE:
            return job.is_requeueable(self.owes.requeueable_share)
        return self.lends is Lends.ALL

    def may_lend_to(self, job: Job) -> bool:
        """Whether the operator allows it, too."""
        return self.is_lending and self.lends_by_rule(job)


def explain_by_state(scene: Scene) -> list[Waiting]:
    """Why each job waits, by what can be seen from outside the policy."""
    due = scene.due()
    found = explain_due(due, scene.state.idle_gpus)
    ids = {job.job_id for job in due}
    return found + [_beyond(scene, job, due) for job in scene.waiting() if job.job_id not in ids]


def _beyond(scene: Scene, job: Job, due: Sequence[Job]) -> Waiting:
    quota = scene.state.quotas.get(job.pool, 0)
    if scene.owes.has_own_lanes and job.num_gpus > quota:
        return no_promise(job, quota)
    if scene.lends is Lends.NOBODY:
        return _in_own_lane(scene, job)
    return (
        _not_requeueable(scene, job, due)
        or behind_due(job, due, scene.state.idle_gpus)
        or short_of_gpus(job, scene.state.idle_gpus)
        or _held(scene, job)
    )


def no_promise(job: Job, quota: int) -> Waiting:
    """That it can never become its pool's own."""
    text = f"it asks for {job.num_gpus} GPUs, its pool {job.pool} has {quota}: it has no place in its lane"
    change = Change(Lever.HIGHER_QUOTA, job.num_gpus, f"a quota of {job.num_gpus} GPUs would give it a place")
    return Waiting(job, Why.NO_PROMISE, text, {"width_gpus": job.num_gpus, "quota_gpus": quota}, (change,))


def _in_own_lane(scene: Scene, job: Job) -> Waiting:
    before = _before(scene, job)
    ahead = sum(one.num_gpus for one in before)
    quota, own = scene.state.quotas.get(job.pool, 0), scene.state.own_gpus.get(job.pool, 0)
    text = (
        f"pool {job.pool} uses {own} of its {quota} GPUs, {ahead} GPUs stand before it, and nothing is lent"
    )
    evidence: dict[str, float | str] = {
        "quota_gpus": quota,
        "own_gpus": own,
        "before_gpus": ahead,
        "width_gpus": job.num_gpus,
    }
    if not scene.owes.has_own_lanes:
        return Waiting(job, Why.WAITS_IN_OWN_LANE, text, evidence)
    # one that is wider than its quota never starts, and its lane passes it over
    wanted = own + job.num_gpus + sum(one.num_gpus for one in before if one.num_gpus <= quota) - quota
    return Waiting(job, Why.WAITS_IN_OWN_LANE, text, evidence, _lane_freed(scene, job, wanted))


def _before(scene: Scene, job: Job) -> list[Job]:
    """Jobs that stand before one in its line."""
    line = scene.state.lines.get(job.pool, {}).values()
    return [one.job for one in takewhile(lambda one: one.job.job_id != job.job_id, line)]


def _lane_freed(scene: Scene, job: Job, wanted: int) -> tuple[Change, ...]:
    """How many GPUs its pool's jobs have to give up for the lane to reach it, and who does so first."""
    if wanted <= 0:
        return ()
    ending: list[Job] = []
    for one in _ending_first(scene, job.pool):
        if sum(other.num_gpus for other in ending) >= wanted:
            break
        ending.append(one)
    if sum(one.num_gpus for one in ending) < wanted:
        text = f"its lane reaches it once {wanted} GPUs of its pool's jobs before it have come free"
        return (Change(Lever.LANE_FREED, wanted, text),)
    names = ", ".join(one.job_id for one in ending[:_NAMED]) + (", ..." if len(ending) > _NAMED else "")
    text = f"starts at once if {wanted} more GPUs of its pool came free, as when {names} "
    return (Change(Lever.LANE_FREED, wanted, text + ("has ended" if len(ending) == 1 else "have ended")),)


def _ending_first(scene: Scene, pool: str) -> list[Job]:
    """The pool's own jobs that run, the first to end by a high level of their lives first."""
    state = scene.state
    own = {
        job_id: one.job
        for job_id, one in state.known.items()
        if one.standing is Standing.OWN and one.job.pool == pool
    }
    ages_s = {job_id: state.now_s - scene.started_s.get(job_id, state.now_s) for job_id in own}
    left_s = lives_left({job_id: scene.survival(one) for job_id, one in own.items()}, ages_s).high_s
    return sorted(own.values(), key=lambda one: (left_s[one.job_id], one.job_id))


def _not_requeueable(scene: Scene, job: Job, due: Sequence[Job]) -> Waiting | None:
    if scene.lends_by_rule(job):
        return None
    text = "GPUs are lent to jobs only that may be sent back, and its record does not say that it may"
    fits = not due and job.num_gpus <= scene.state.idle_gpus
    change = Change(Lever.REQUEUEABLE, None, "starts at once if it could be sent back")
    return Waiting(job, Why.NOT_REQUEUEABLE, text, {}, (change,) if fits else ())


def _held(scene: Scene, job: Job) -> Waiting:
    idle = scene.state.idle_gpus
    text = f"{idle} GPUs are idle and its {job.num_gpus} would fit, but the policy keeps them for others"
    return Waiting(job, Why.HELD_BY_POLICY, text, {"idle_gpus": idle, "width_gpus": job.num_gpus})


# Packing.


def no_host(scene: Scene, job: Job) -> Waiting | None:
    """That no job that shares its GPUs can be its host; None if it does not share, or one can, or none is."""
    known = scene.state.known
    hosts = [one for one in known.values() if one.may_share and one.gpus and one.job.job_id != job.job_id]
    if not (known[job.job_id].may_share and hosts):
        return None
    verdicts = [_verdict(scene, job, host) for host in hosts]
    if None in verdicts:
        return None
    why = Why.MEMORY if Why.MEMORY in verdicts else Why.STAR_RULE
    said = (
        "the memory of its GPUs does not hold both" if why is Why.MEMORY else "the rules of packing forbid it"
    )
    text = f"too few GPUs are idle, and none of {len(hosts)} jobs that share can be its host: {said}"
    return Waiting(job, why, text, {"hosts": len(hosts), "short_of_memory": verdicts.count(Why.MEMORY)})


def _verdict(scene: Scene, job: Job, host: Known) -> Why | None:
    """Why a job cannot ride along with a host; None if it can."""
    seats = _seats(scene, host)[: job.num_gpus]
    if len(seats) < job.num_gpus:
        return Why.STAR_RULE
    ride = Plan(starts=(Start(job, True),), placements=(Placement(job.job_id, tuple(seats)),))
    if place_faults(scene.state, ride):
        return Why.STAR_RULE
    needs = _memory_of(scene, job) + _memory_of(scene, host.job) + CONTEXT_MIB
    has = (scene.gpu_memory_mib.get((gpu.node, gpu.index), needs) for gpu in seats)
    return Why.MEMORY if min(has) < needs else None


def _memory_of(scene: Scene, job: Job) -> int:
    return scene.memory_mib.get(job.job_id, 0)


def _seats(scene: Scene, host: Known) -> list[Gpu]:
    """The host's GPUs, those nobody else is on first."""
    workers = Counter((gpu.node, gpu.index) for one in scene.state.known.values() for gpu in one.gpus)
    return sorted(host.gpus, key=lambda gpu: (workers[gpu.node, gpu.index], gpu.node, gpu.index))
