"""An independent look at a placing: whole gangs on free GPUs, moves that can be made, holds that hold.

It shares the words of `solver.placement.task` with what it looks at and no code. What is looked at: what
starts, and what is kept, lies on GPUs that are idle once all moves are made, none of them twice; each step of
moves finds its GPUs idle or freed within the step; no more gangs move than may, and only those that may;
gangs are whole, on GPUs of one type that they accept, on as few nodes as the sizes of nodes allow; every gang
has a place or a reason; and a hold that is full has a place for every width that it is for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from domain.cluster import ANY_TYPE, Gpu, Node
from domain.jobs import Job
from solver.placement.task import Held, Movable, Move, PlaceTask, Placing

_TOLERANCE_GPUS = 1e-6


def placing_faults(task: PlaceTask, placing: Placing) -> list[str]:
    """What is wrong with a placing of a task, one sentence each; empty if nothing is."""
    there = {gpu for node in task.nodes for gpu in node.gpus()}
    faults = list(_moves(task, placing.steps))
    free = _free_after_moves(task, placing.steps)
    faults += _starts(task, placing)
    for owner, gpus in _owners(task, placing):
        faults += [f"{owner} gets {_name(gpu)}, which there is not" for gpu in gpus if gpu not in there]
        faults += [f"{owner} gets {_name(gpu)}, which is not free" for gpu in gpus if gpu not in free]
        free.difference_update(gpus)
    faults += _holds(task, placing)
    if placing.bound > placing.objective + _TOLERANCE_GPUS:
        faults.append(f"the bound {placing.bound:g} is above the objective {placing.objective:g}")
    return faults


def _moves(task: PlaceTask, steps: Sequence[Sequence[Move]]) -> Iterator[str]:
    runs = {one.job.job_id: one for one in task.movable}
    moved = [move for step in steps for move in step]
    if len(moved) > task.max_moves:
        yield f"{len(moved)} gangs are moved, {task.max_moves} may be"
    for job_id, times in Counter(move.job_id for move in moved).items():
        if times > 1:
            yield f"gang {job_id} is moved {times} times"
    for move in moved:
        yield from _move(move, runs.get(move.job_id))
    free = _idle(task)
    for number, step in enumerate(steps, start=1):
        free |= {gpu for move in step for gpu in move.old}
        arriving = [(move.job_id, gpu) for move in step for gpu in move.new]
        for job_id, gpu in arriving:
            if gpu not in free:
                yield f"step {number} gives gang {job_id} {_name(gpu)}, which is not free by then"
            free.discard(gpu)


def _move(move: Move, runs: Movable | None) -> Iterator[str]:
    """One gang goes from where it runs to as many GPUs of the same type, on no more nodes."""
    if runs is None:
        yield f"gang {move.job_id} is moved and may not be"
    elif set(runs.gpus) != set(move.old):
        yield f"gang {move.job_id} is moved from where it does not run"
    if {gpu.gpu_type for gpu in move.new} != {gpu.gpu_type for gpu in move.old}:
        yield f"gang {move.job_id} is moved to GPUs of another type"
    if not len(move.old) == len(move.new) == len(set(move.new)):
        yield f"gang {move.job_id} has {len(move.old)} GPUs and gets {len(set(move.new))}"
    if len({gpu.node for gpu in move.new}) > len({gpu.node for gpu in move.old}):
        yield f"gang {move.job_id} is moved to more nodes than it is on"


def _free_after_moves(task: PlaceTask, steps: Sequence[Sequence[Move]]) -> set[Gpu]:
    free = _idle(task)
    for step in steps:
        free |= {gpu for move in step for gpu in move.old}
        free -= {gpu for move in step for gpu in move.new}
    return free


def _idle(task: PlaceTask) -> set[Gpu]:
    return {gpu for gpus in task.idle.values() for gpu in gpus}


def _owners(task: PlaceTask, placing: Placing) -> Iterator[tuple[str, tuple[Gpu, ...]]]:
    for one in placing.placements:
        yield f"gang {one.job_id}", one.gpus
    for held, pieces in zip(task.holds, placing.held, strict=False):
        for piece in pieces:
            yield f"the hold for pool {held.hold.pool}", piece


def _starts(task: PlaceTask, placing: Placing) -> Iterator[str]:
    jobs = {want.job.job_id: want.job for want in task.wants}
    times = Counter(one.job_id for one in placing.placements)
    for job_id, count in times.items():
        if job_id not in jobs:
            yield f"gang {job_id} starts and does not wait"
        elif count > 1:
            yield f"gang {job_id} starts {count} times"
    for job_id in jobs:
        if (job_id in times) == (job_id in placing.unplaced):
            yield f"gang {job_id} has to have either a place or a reason why it has none"
    for one in placing.placements:
        if one.job_id in jobs:
            yield from _gang(task.nodes, jobs[one.job_id], one.gpus)


def _gang(nodes: Iterable[Node], job: Job, gpus: Sequence[Gpu]) -> Iterator[str]:
    """A gang is whole, on one type that it accepts, on as few nodes as their sizes allow."""
    if len(set(gpus)) != job.num_gpus or len(gpus) != job.num_gpus:
        yield f"gang {job.job_id} gets {len(set(gpus))} GPUs and has {job.num_gpus} workers"
    type_of, size = {}, Counter[str]()
    for node in nodes:
        type_of[node.name] = node.gpu_type
        size[node.gpu_type] = max(size[node.gpu_type], node.num_gpus)
    types = {type_of[gpu.node] for gpu in gpus if gpu.node in type_of}
    if len(types) > 1 or not all(_accepts(job, one) for one in types):
        yield f"gang {job.job_id} asks for type {job.gpu_type or 'any'} and gets {', '.join(sorted(types))}"
    fewest = min((-(-job.num_gpus // most) for one, most in size.items() if _accepts(job, one)), default=0)
    spread = len({gpu.node for gpu in gpus})
    if spread > fewest:
        yield f"gang {job.job_id} is on {spread} nodes, {fewest} would do"


def _accepts(job: Job, gpu_type: str) -> bool:
    return job.gpu_type is None or gpu_type in (job.gpu_type, ANY_TYPE)


def _holds(task: PlaceTask, placing: Placing) -> Iterator[str]:
    if len(placing.held) != len(task.holds):
        yield f"{len(task.holds)} holds are asked for and {len(placing.held)} are told of"
        return
    sizes = {node.name: node.num_gpus for node in task.nodes}
    for held, pieces in zip(task.holds, placing.held, strict=True):
        pool, kept = held.hold.pool, sum(map(len, pieces))
        if kept > held.hold.num_gpus:
            yield f"the hold for pool {pool} keeps {kept} GPUs, {held.hold.num_gpus} were asked for"
        if any(len({gpu.node for gpu in piece}) != 1 for piece in pieces):
            yield f"a piece of the hold for pool {pool} is not on one node"
        if held.gpu_type is not None and any(gpu.gpu_type != held.gpu_type for p in pieces for gpu in p):
            yield f"the hold for pool {pool} is of another type than {held.gpu_type}"
        if kept == held.hold.num_gpus and not held.is_piece:
            yield from _has_room(held, pieces, max(sizes.values()))


def _has_room(held: Held, pieces: Sequence[Sequence[Gpu]], node_gpus: int) -> Iterator[str]:
    """Every width up to the widest finds whole nodes and one more piece for the rest, all of one type."""
    by_type: dict[str, Counter[str]] = {}
    for piece in pieces:
        for gpu in piece:
            by_type.setdefault(gpu.gpu_type, Counter())[gpu.node] += 1
    for width in range(1, min(held.hold.num_gpus, held.widest_gpus) + 1):
        if not any(_fits(width, kept, node_gpus) for kept in by_type.values()):
            yield f"the hold for pool {held.hold.pool} has no room for a gang of {width} GPUs"


def _fits(width: int, kept: Mapping[str, int], node_gpus: int) -> bool:
    whole, rest = divmod(width, node_gpus)
    most = sorted(kept.values(), reverse=True)
    if len(most) < whole + bool(rest) or any(gpus < node_gpus for gpus in most[:whole]):
        return False
    return not rest or most[whole] >= rest


def _name(gpu: Gpu) -> str:
    return f"GPU {gpu.index} of node {gpu.node}"
