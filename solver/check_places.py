"""The placement half of the plan checker: whole gangs on GPUs there are.

Who may share a GPU is the matter of `solver.check_sharing`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from domain.cluster import ANY_TYPE, Node
from domain.jobs import Job
from domain.plans import Placement, Plan
from solver.check_sharing import names, sharing_faults
from solver.packed_sets import GpuKey, fewest_nodes, fits_type
from solver.place_scene import PlaceScene, free_after, look_at_places, place_fault, workers_after
from solver.plan_rules import STRICT, PlanFault, PlanOptions, PlanRule, PlanState


def place_faults(state: PlanState, plan: Plan, options: PlanOptions = STRICT) -> list[PlanFault]:
    """Faults of a plan's placements; none where it has none: then only counts are planned."""
    if not plan.placements:
        return []
    scene = look_at_places(state, plan)
    faults = list(_completeness(plan))
    for placement in plan.placements:
        job = scene.job(placement.job_id)
        if job is not None:
            faults += _on_its_gpus(scene, job, placement, options)
    return [*faults, *sharing_faults(scene, plan, options)]


def finds_no_place(state: PlanState, plan: Plan, job: Job) -> bool:
    """Whether a job that is left waiting could not have the GPUs of the guests that start, nodes being known.

    GPUs that are strewn (`has_place`) are of no use to it. Idle GPUs, those of guests sent
    back and those of guests that start count as free.
    """
    if not (state.nodes and plan.placements):
        return False
    owned = {start.job.job_id for start in plan.starts if not start.is_guest}
    placed = [place for place in plan.placements if place.job_id in owned]
    return not has_place(job, state.nodes, free_after(state, workers_after(state, plan, placed)))


def has_place_left(state: PlanState, plan: Plan, job: Job) -> bool:
    """Whether a job that is left waiting has a place on GPUs left idle; so if no node is known."""
    if not state.nodes:
        return True
    return has_place(job, state.nodes, free_after(state, workers_after(state, plan, plan.placements)))


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
        if fits_type(job, node.gpu_type):
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
            yield place_fault(PlanRule.NAMED_TWICE, starts[job_id], f"is placed {count} times")
    for job_id, job in starts.items():
        if job_id not in times:
            yield place_fault(PlanRule.STARTED_BUT_NOT_PLACED, job, "starts without a place, others have one")


def _on_its_gpus(
    scene: PlaceScene, job: Job, placement: Placement, options: PlanOptions
) -> Iterator[PlanFault]:
    """One gang: whole, on GPUs there are and of its type, on as few nodes as it could."""
    keys = [(gpu.node, gpu.index) for gpu in placement.gpus]
    if len(set(keys)) != job.num_gpus or len(keys) != job.num_gpus:
        yield place_fault(
            PlanRule.GANG_NOT_WHOLE, job, f"gets {len(set(keys))} GPUs, its gang is {job.num_gpus}"
        )
    unknown = [key for key in keys if scene.types and key not in scene.types]
    if unknown:
        yield place_fault(PlanRule.UNKNOWN_GPU, job, f"gets {names(unknown)}, which there is not")
    wrong = [key for key in keys if not fits_type(job, scene.types.get(key, ANY_TYPE))]
    if wrong:
        found = f"asks for {job.gpu_type} and gets {names(wrong)} of another type"
        yield place_fault(PlanRule.GPU_OF_WRONG_TYPE, job, found)
    nodes = {node for node, _ in keys}
    fewest = None
    if len(nodes) > 1:
        fewest = fewest_nodes(job, scene.state.nodes) if options.packs else _fewest_nodes(scene, job, keys)
    if fewest is not None and 0 < fewest < len(nodes):
        found = f"is spread over {len(nodes)} nodes, {fewest} would do"
        yield place_fault(PlanRule.MORE_NODES_THAN_NEEDED, job, found)


def _fewest_nodes(scene: PlaceScene, job: Job, keys: list[GpuKey]) -> int | None:
    """On how few nodes the gang could be, all others staying where they are; None if that is not known.

    Where GPUs are held, a gang may have to leave a whole node to a hold; one that rides along goes where
    its host is.
    """
    is_riding = any(len(scene.after[key]) > 1 for key in keys)
    if not scene.types or scene.is_holding or is_riding:
        return None
    own = Counter(node for node, _ in keys)
    free = [
        scene.free[node.name] + own[node.name] for node in scene.state.nodes if fits_type(job, node.gpu_type)
    ]
    missing, nodes = job.num_gpus, 0
    for gpus in sorted(free, reverse=True):
        if missing <= 0:
            break
        missing -= gpus
        nodes += 1
    return nodes if missing <= 0 else None
