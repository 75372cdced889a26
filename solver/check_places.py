"""The placement half of the plan checker: whole gangs on GPUs there are, and who may share one.

Rules of packing are those of Gimbal (ACM TACO 2025, section 4): at most two workers a GPU; each job on the
fewest nodes; in a packed set all others are packed with its widest job only (equal widths share all their
GPUs, one to one); at most five jobs in a set.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from domain.cluster import Node
from domain.jobs import Job
from domain.plans import Placement, Plan
from solver.plan_rules import GpuKey, PlanFault, PlanRule, PlanState, Standing

MOST_JOBS_IN_A_SET: Final = 5
MOST_WORKERS_ON_A_GPU: Final = 2

_ANY_TYPE: Final = "any"


def place_faults(state: PlanState, plan: Plan) -> list[PlanFault]:
    """Faults of a plan's placements; none where it has none: then only counts are planned."""
    if not plan.placements:
        return []
    scene = _look(state, plan)
    faults = list(_completeness(plan))
    for placement in plan.placements:
        job = scene.job(placement.job_id)
        if job is not None:
            faults += _on_its_gpus(scene, job, placement)
    return [*faults, *_sharing(scene, plan)]


def finds_no_place(state: PlanState, plan: Plan, job: Job) -> bool:
    """Whether a job that is left waiting could not have the GPUs of the guests that start, nodes being known.

    GPUs that are strewn (`has_place`) are of no use to it. Idle GPUs, those of guests sent
    back and those of guests that start count as free.
    """
    if not (state.nodes and plan.placements):
        return False
    owned = {start.job.job_id for start in plan.starts if not start.is_guest}
    placed = [place for place in plan.placements if place.job_id in owned]
    return not has_place(job, state.nodes, _free_after(state, _workers_after(state, plan, placed)))


def has_place_left(state: PlanState, plan: Plan, job: Job) -> bool:
    """Whether a job that is left waiting has a place on GPUs left idle; so if no node is known."""
    if not state.nodes:
        return True
    return has_place(job, state.nodes, _free_after(state, _workers_after(state, plan, plan.placements)))


def is_left_in_use(state: PlanState, plan: Plan, key: GpuKey) -> bool:
    """Whether somebody who is not sent back has a GPU."""
    leaving = {job.job_id for job in plan.send_backs}
    return any(one not in leaving for one in state.places.workers.get(key, ()))


def _workers_after(
    state: PlanState, plan: Plan, placed: Iterable[Placement]
) -> dict[GpuKey, tuple[str, ...]]:
    """Who is on each GPU that the plan touches, once the guests are gone and these gangs have started."""
    leaving = {job.job_id for job in plan.send_backs}
    gone = (state.known[job_id].gpus for job_id in leaving if job_id in state.known)
    keys = {(gpu.node, gpu.index) for gpus in (*gone, *(place.gpus for place in placed)) for gpu in gpus}
    before = state.places.workers
    after = {key: tuple(one for one in before.get(key, ()) if one not in leaving) for key in keys}
    for place in placed:
        for gpu in place.gpus:
            after[gpu.node, gpu.index] += (place.job_id,)
    return after


def _free_after(state: PlanState, after: Mapping[GpuKey, tuple[str, ...]]) -> dict[str, int]:
    """GPUs of each node that nobody has by then."""
    free = dict(state.places.free)
    for key, here in after.items():
        if key in state.places.types:
            free[key[0]] += bool(state.places.workers.get(key)) - bool(here)
    return free


def has_place(job: Job, nodes: Iterable[Node], free: Mapping[str, int]) -> bool:
    """Whether free GPUs hold a gang: on whole nodes and one for the rest, all of one type.

    Of the types that it may have, those on which it needs the fewest nodes.

    Args:
        job: whose gang.
        nodes: hosts that are there.
        free: free GPUs of each node.
    """
    by_type: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if _fits_type(job, node.gpu_type):
            by_type[node.gpu_type].append(node)
    shapes = [divmod(job.num_gpus, max(node.num_gpus for node in alike)) for alike in by_type.values()]
    fewest = min((whole + bool(rest) for whole, rest in shapes), default=0)
    return any(
        whole + bool(rest) == fewest and _hold(alike, free, whole, rest)
        for (whole, rest), alike in zip(shapes, by_type.values(), strict=True)
    )


def _hold(nodes: Iterable[Node], free: Mapping[str, int], whole: int, rest: int) -> bool:
    """Whether so many of the largest nodes are empty and one more has a rest of GPUs free."""
    largest = max(node.num_gpus for node in nodes)
    most = sorted((free[node.name] for node in nodes), reverse=True)
    empty = all(gpus == largest for gpus in most[:whole])
    return empty and len(most) >= whole + bool(rest) and (not rest or most[whole] >= rest)


@dataclass(frozen=True)
class _Scene:
    """Who is on which GPU once the plan is carried out.

    Attributes:
        state: the cluster before the plan.
        leaving: ids of the guests that are sent back.
        starting: the jobs that start, by id.
        after: ids of the jobs on each GPU that the plan touches, those that run before those that start.
        is_holding: GPUs are kept idle, so a gang may have to leave a node to a hold.
    """

    state: PlanState
    leaving: frozenset[str]
    starting: Mapping[str, Job]
    after: Mapping[GpuKey, tuple[str, ...]]
    is_holding: bool

    @property
    def types(self) -> Mapping[GpuKey, str]:
        """Type of each GPU there is; empty where the nodes are not known."""
        return self.state.places.types

    @cached_property
    def free(self) -> Mapping[str, int]:
        """GPUs of each node that nobody has."""
        return _free_after(self.state, self.after)

    @cached_property
    def workers(self) -> Mapping[GpuKey, tuple[str, ...]]:
        """Ids of the jobs on each GPU of the cluster; only packed sets need all of them."""
        return {**self.state.places.workers, **self.after}

    def job(self, job_id: str) -> Job | None:
        """A job that runs by then."""
        if job_id in self.starting:
            return self.starting[job_id]
        known = self.state.known.get(job_id)
        runs = known is not None and known.standing is not Standing.WAITING and job_id not in self.leaving
        return known.job if known is not None and runs else None

    def may_share(self, job_id: str) -> bool:
        """Whether a job has consented to share its GPUs."""
        known = self.state.known.get(job_id)
        return known is not None and known.may_share


def _look(state: PlanState, plan: Plan) -> _Scene:
    return _Scene(
        state,
        leaving=frozenset(job.job_id for job in plan.send_backs),
        starting={start.job.job_id: start.job for start in plan.starts},
        after=_workers_after(state, plan, plan.placements),
        is_holding=any(hold.until_s is not None for hold in plan.holds),
    )


def _fault(rule: PlanRule, job: Job, found: str) -> PlanFault:
    return PlanFault(rule, job.job_id, job.pool, f"job {job.job_id} of pool {job.pool} {found}")


def _completeness(plan: Plan) -> Iterator[PlanFault]:
    """Every start has one place, and every place is a start's."""
    times = Counter(placement.job_id for placement in plan.placements)
    starts = {start.job.job_id: start.job for start in plan.starts}
    for job_id, count in times.items():
        if job_id not in starts:
            yield PlanFault(
                PlanRule.PLACED_BUT_NOT_STARTED, job_id, None, f"job {job_id} is placed, but does not start"
            )
        elif count > 1:
            yield _fault(PlanRule.NAMED_TWICE, starts[job_id], f"is placed {count} times")
    for job_id, job in starts.items():
        if job_id not in times:
            yield _fault(PlanRule.STARTED_BUT_NOT_PLACED, job, "starts without a place, others have one")


def _on_its_gpus(scene: _Scene, job: Job, placement: Placement) -> Iterator[PlanFault]:
    """One gang: whole, on GPUs there are and of its type, on as few nodes as it could."""
    keys = [(gpu.node, gpu.index) for gpu in placement.gpus]
    if len(set(keys)) != job.num_gpus or len(keys) != job.num_gpus:
        yield _fault(PlanRule.GANG_NOT_WHOLE, job, f"gets {len(set(keys))} GPUs, its gang is {job.num_gpus}")
    unknown = [key for key in keys if scene.types and key not in scene.types]
    if unknown:
        yield _fault(PlanRule.UNKNOWN_GPU, job, f"gets {_names(unknown)}, which there is not")
    wrong = [key for key in keys if not _fits_type(job, scene.types.get(key, _ANY_TYPE))]
    if wrong:
        found = f"asks for {job.gpu_type} and gets {_names(wrong)} of another type"
        yield _fault(PlanRule.GPU_OF_WRONG_TYPE, job, found)
    nodes = {node for node, _ in keys}
    fewest = _fewest_nodes(scene, job, keys) if len(nodes) > 1 else None
    if fewest is not None and len(nodes) > fewest:
        found = f"is spread over {len(nodes)} nodes, {fewest} would do"
        yield _fault(PlanRule.MORE_NODES_THAN_NEEDED, job, found)


def _fits_type(job: Job, gpu_type: str) -> bool:
    return job.gpu_type in (None, _ANY_TYPE, gpu_type) or gpu_type == _ANY_TYPE


def _names(keys: Iterable[GpuKey]) -> str:
    return ", ".join(f"GPU {index} of node {node}" for node, index in keys)


def _fewest_nodes(scene: _Scene, job: Job, keys: list[GpuKey]) -> int | None:
    """On how few nodes the gang could be, all others staying where they are; None if that is not known.

    Where GPUs are held, a gang may have to leave a whole node to a hold; one that rides along goes where
    its host is.
    """
    is_riding = any(len(scene.after[key]) > 1 for key in keys)
    if not scene.types or scene.is_holding or is_riding:
        return None
    own = Counter(node for node, _ in keys)
    free = [
        scene.free[node.name] + own[node.name] for node in scene.state.nodes if _fits_type(job, node.gpu_type)
    ]
    missing, nodes = job.num_gpus, 0
    for gpus in sorted(free, reverse=True):
        if missing <= 0:
            break
        missing -= gpus
        nodes += 1
    return nodes if missing <= 0 else None


def _sharing(scene: _Scene, plan: Plan) -> Iterator[PlanFault]:
    """Who joins a GPU that has a worker: with its consent, as the second one, and in a small star."""
    if all(len(here) < 2 for here in scene.after.values()):
        return
    told: set[str] = set()
    for key in sorted({(gpu.node, gpu.index) for placement in plan.placements for gpu in placement.gpus}):
        here = scene.after[key]
        job = scene.job(here[-1])
        if len(here) == 1 or job is None or job.job_id in told:
            continue
        told.add(job.job_id)
        unwilling = [job_id for job_id in here if not scene.may_share(job_id)]
        if unwilling:
            found = f"gets {_names([key])}, which {_listed(here[:-1])} has; {unwilling[0]} does not share"
            yield _fault(PlanRule.GPU_IN_USE, job, found)
        if len(here) > MOST_WORKERS_ON_A_GPU:
            found = f"is worker {len(here)} on {_names([key])}, two may share one"
            yield _fault(PlanRule.MORE_THAN_TWO_WORKERS, job, found)
    yield from _packed_sets(scene)


def _packed_sets(scene: _Scene) -> Iterator[PlanFault]:
    """Every packed set that somebody joins is a small star around its widest job."""
    partners: dict[str, set[str]] = defaultdict(set)
    for here in scene.workers.values():
        for job_id in here:
            partners[job_id].update(one for one in here if one != job_id)
    seen: set[str] = set()
    for job_id in sorted(scene.starting):
        if job_id in seen or not partners[job_id]:
            continue
        members = _set_of(job_id, partners)
        seen |= members
        job = scene.starting[job_id]
        jobs = {one: known for one in members if (known := scene.job(one)) is not None}
        if len(members) > MOST_JOBS_IN_A_SET:
            found = f"makes a packed set of {len(members)} jobs, {MOST_JOBS_IN_A_SET} is the most"
            yield _fault(PlanRule.PACKED_SET_TOO_LARGE, job, found)
        if members <= jobs.keys() and not _is_star(scene, jobs, partners):
            found = f"is packed with {_listed(partners[job_id])}: no star around the widest of the set"
            yield _fault(PlanRule.STAR_RULE, job, found)


def _set_of(job_id: str, partners: Mapping[str, set[str]]) -> set[str]:
    """All jobs that share with it, with those that share with it, and so on."""
    members, edge = {job_id}, [job_id]
    while edge:
        for one in partners[edge.pop()] - members:
            members.add(one)
            edge.append(one)
    return members


def _is_star(scene: _Scene, jobs: Mapping[str, Job], partners: Mapping[str, set[str]]) -> bool:
    """Whether all share with the widest job only; one as wide as it shares all its GPUs, one to one."""
    members = set(jobs)
    widest = max(job.num_gpus for job in jobs.values())
    centres = [job_id for job_id, job in jobs.items() if job.num_gpus == widest]
    if len(centres) > 1:
        return len(members) == 2 and _share_all(scene, members)
    others = members - set(centres)
    return all(partners[one] == set(centres) for one in others)


def _share_all(scene: _Scene, pair: set[str]) -> bool:
    return all(pair <= set(here) for here in scene.workers.values() if pair & set(here))


def _listed(job_ids: Iterable[str]) -> str:
    return " and ".join(sorted(job_ids))
