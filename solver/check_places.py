"""The placement half of the plan checker: whole gangs on GPUs there are, and who may share one.

Rules of packing are those of Gimbal (ACM TACO 2025, section 4): at most two workers a GPU; each job on the
fewest nodes; in a packed set all others are packed with its widest job only (equal widths share all their
GPUs, one to one); at most five jobs in a set.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Placement, Plan
from solver.plan_rules import PlanFault, PlanRule, PlanState, Standing

MOST_JOBS_IN_A_SET: Final = 5
MOST_WORKERS_ON_A_GPU: Final = 2

_ANY_TYPE: Final = "any"

GpuKey = tuple[str, int]


def place_faults(state: PlanState, plan: Plan) -> list[PlanFault]:
    """Faults of a plan's placements; none where it has none: then only counts are planned."""
    if not plan.placements:
        return []
    scene = _look(state, plan)
    faults = list(_completeness(plan))
    for placement in plan.placements:
        job = scene.jobs.get(placement.job_id)
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
    return not has_place(job, state.nodes, _taken(state, plan, owned))


def has_place_left(state: PlanState, plan: Plan, job: Job) -> bool:
    """Whether a job that is left waiting has a place on GPUs left idle; so if no node is known."""
    placed = {place.job_id for place in plan.placements}
    return not state.nodes or has_place(job, state.nodes, _taken(state, plan, placed))


def _taken(state: PlanState, plan: Plan, placed: AbstractSet[str]) -> set[GpuKey]:
    """GPUs of those who run on, and of those of the placed ones that are named."""
    leaving = {one.job_id for one in plan.send_backs}
    held = [one.gpus for one in state.known.values() if one.job.job_id not in leaving]
    held += [place.gpus for place in plan.placements if place.job_id in placed]
    return {(gpu.node, gpu.index) for gpus in held for gpu in gpus}


def has_place(job: Job, nodes: Iterable[Node], taken: AbstractSet[GpuKey]) -> bool:
    """Whether GPUs that are not taken hold a gang: on whole nodes and one for the rest, all of one type.

    Of the types that it may have, those on which it needs the fewest nodes.

    Args:
        job: whose gang.
        nodes: hosts that are there.
        taken: (node, index) of the GPUs in use.
    """
    by_type: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if _fits_type(job, node.gpu_type):
            by_type[node.gpu_type].append(node)
    shapes = [divmod(job.num_gpus, max(node.num_gpus for node in alike)) for alike in by_type.values()]
    fewest = min((whole + bool(rest) for whole, rest in shapes), default=0)
    return any(
        whole + bool(rest) == fewest and _hold(alike, taken, whole, rest)
        for (whole, rest), alike in zip(shapes, by_type.values(), strict=True)
    )


def _hold(nodes: Iterable[Node], taken: AbstractSet[GpuKey], whole: int, rest: int) -> bool:
    """Whether so many of the largest nodes are empty and one more has a rest of GPUs free."""
    free = sorted(
        ((node.num_gpus, sum((node.name, k) not in taken for k in range(node.num_gpus))) for node in nodes),
        key=lambda one: -one[1],
    )
    largest = max(num_gpus for num_gpus, _ in free)
    empty = all(gpus == largest for _, gpus in free[:whole])
    return empty and len(free) >= whole + bool(rest) and (not rest or free[whole][1] >= rest)


@dataclass(frozen=True, slots=True)
class _Scene:
    """Who is on which GPU once the plan is carried out.

    Attributes:
        jobs: all jobs that start or run on by then, by id.
        may_share: whether a job has consented to share its GPUs.
        types: type of each GPU there is; empty where the nodes are not known.
        workers: ids of the jobs on each GPU, those that run before those that start.
        starting: ids of the jobs that start.
        is_holding: GPUs are kept idle, so a gang may have to leave a node to a hold.
    """

    jobs: Mapping[str, Job]
    may_share: Mapping[str, bool]
    types: Mapping[GpuKey, str]
    workers: Mapping[GpuKey, list[str]]
    starting: frozenset[str]
    is_holding: bool


def _look(state: PlanState, plan: Plan) -> _Scene:
    leaving = {job.job_id for job in plan.send_backs}
    starting = {start.job.job_id: start.job for start in plan.starts}
    staying = [
        one
        for one in state.known.values()
        if one.standing is not Standing.WAITING and one.job.job_id not in leaving
    ]
    workers: dict[GpuKey, list[str]] = defaultdict(list)
    for one in staying:
        _put(workers, one.job.job_id, one.gpus)
    for placement in plan.placements:
        _put(workers, placement.job_id, placement.gpus)
    return _Scene(
        jobs={one.job.job_id: one.job for one in staying} | starting,
        may_share={one.job.job_id: one.may_share for one in state.known.values()},
        types={(gpu.node, gpu.index): gpu.gpu_type for node in state.nodes for gpu in node.gpus()},
        workers=workers,
        starting=frozenset(starting),
        is_holding=any(hold.until_s is not None for hold in plan.holds),
    )


def _put(workers: dict[GpuKey, list[str]], job_id: str, gpus: Iterable[Gpu]) -> None:
    for gpu in gpus:
        workers[gpu.node, gpu.index].append(job_id)


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
    fewest = _fewest_nodes(scene, job, keys)
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
    is_riding = any(len(scene.workers[key]) > 1 for key in keys)
    if not scene.types or scene.is_holding or is_riding:
        return None
    free: Counter[str] = Counter()
    for (node, index), gpu_type in scene.types.items():
        others = [one for one in scene.workers.get((node, index), ()) if one != job.job_id]
        if not others and _fits_type(job, gpu_type):
            free[node] += 1
    missing, nodes = job.num_gpus, 0
    for _, gpus in free.most_common():
        if missing <= 0:
            break
        missing -= gpus
        nodes += 1
    return nodes if missing <= 0 else None


def _sharing(scene: _Scene, plan: Plan) -> Iterator[PlanFault]:
    """Who joins a GPU that has a worker: with its consent, as the second one, and in a small star."""
    told: set[str] = set()
    for key in sorted({(gpu.node, gpu.index) for placement in plan.placements for gpu in placement.gpus}):
        here = scene.workers[key]
        job = scene.jobs.get(here[-1])
        if len(here) == 1 or job is None or job.job_id in told:
            continue
        told.add(job.job_id)
        unwilling = [job_id for job_id in here if not scene.may_share.get(job_id, False)]
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
        job = scene.jobs[job_id]
        if len(members) > MOST_JOBS_IN_A_SET:
            found = f"makes a packed set of {len(members)} jobs, {MOST_JOBS_IN_A_SET} is the most"
            yield _fault(PlanRule.PACKED_SET_TOO_LARGE, job, found)
        if members <= scene.jobs.keys() and not _is_star(scene, members, partners):
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


def _is_star(scene: _Scene, members: set[str], partners: Mapping[str, set[str]]) -> bool:
    """Whether all share with the widest job only; one as wide as it shares all its GPUs, one to one."""
    widest = max(scene.jobs[one].num_gpus for one in members)
    centres = [one for one in members if scene.jobs[one].num_gpus == widest]
    if len(centres) > 1:
        return len(members) == 2 and _share_all(scene, members)
    others = members - set(centres)
    return all(partners[one] == set(centres) for one in others)


def _share_all(scene: _Scene, pair: set[str]) -> bool:
    return all(pair <= set(here) for here in scene.workers.values() if pair & set(here))


def _listed(job_ids: Iterable[str]) -> str:
    return " and ".join(sorted(job_ids))
