"""What a placing leaves idle, and how much of that the gangs to come cannot use."""

from collections.abc import Iterable, Mapping, Sequence, Sized

from domain.cluster import Gpu
from solver.placement.cells import expected_waste
from solver.placement.counts import UNITS_PER_GPU
from solver.placement.task import Costs, Move, PlaceTask, Placing

_SAME = 1e-6


def waste_gpus(task: PlaceTask, idle: Mapping[str, Sized]) -> float:
    """Expected idle GPUs that the next gang cannot use (FGD); of each node in thousandths, as in the model.

    Args:
        task: nodes, and the widths of the gangs to come.
        idle: idle GPUs of each node that has some.
    """
    largest: dict[str, int] = {}
    for node in task.nodes:
        largest[node.gpu_type] = max(node.num_gpus, largest.get(node.gpu_type, 1))
    waste = {name: expected_waste(size, task.widths, task.shares) for name, size in largest.items()}
    left = [float(waste[node.gpu_type][len(idle.get(node.name, ()))]) for node in task.nodes]
    return sum(round(gpus * UNITS_PER_GPU) for gpus in left) / UNITS_PER_GPU


def waste_without(task: PlaceTask, taken: Iterable[Sequence[Gpu]]) -> float:
    """`waste_gpus` of what is idle once these GPUs are taken."""
    return waste_gpus(task, _without(task.idle, taken))


def idle_moved(idle: Mapping[str, Sequence[Gpu]], moves: Sequence[Move]) -> dict[str, tuple[Gpu, ...]]:
    """Idle GPUs of each node once gangs have moved, by index."""
    freed: dict[str, list[Gpu]] = {name: list(gpus) for name, gpus in idle.items()}
    for move in moves:
        for gpu in move.old:
            freed.setdefault(gpu.node, []).append(gpu)
    return {
        name: tuple(sorted(gpus, key=lambda gpu: gpu.index))
        for name, gpus in _without(freed, [move.new for move in moves]).items()
    }


def idle_after(task: PlaceTask, placing: Placing) -> dict[str, tuple[Gpu, ...]]:
    """Idle GPUs of each node once a placing is carried out; held ones are not among them."""
    moved = idle_moved(task.idle, [move for step in placing.steps for move in step])
    taken = [one.gpus for one in placing.placements]
    taken += [piece for pieces in placing.held for piece in pieces]
    return {name: tuple(gpus) for name, gpus in _without(moved, taken).items()}


def moves_gpus(task: PlaceTask, placing: Placing, costs: Costs) -> float:
    """Price of a placing's moves, in GPUs left unusable."""
    price = {one.job.job_id: one.price(costs) for one in task.movable}
    return sum(price[move.job_id] for step in placing.steps for move in step)


def worth(task: PlaceTask, placing: Placing, costs: Costs) -> tuple[float, float, float, float]:
    """What a placing is worth: value of own starts, GPUs held, value of guests, and the cost as a loss."""
    at = {one.job_id: set(one.gpus) for one in placing.placements}
    value = {True: 0, False: 0}
    cost = waste_gpus(task, idle_after(task, placing)) + moves_gpus(task, placing, costs)
    for want in task.wants:
        gpus = at.get(want.job.job_id)
        if gpus is not None:
            value[want.is_own] += want.job.num_gpus if want.value is None else want.value
        if want.assigned and gpus != set(want.assigned):
            cost += costs.reassign * want.job.num_gpus
    held = sum(len(piece) for pieces in placing.held for piece in pieces)
    return value[True], held, value[False], -cost


def is_better(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the first of two worths that differ is larger in one; differences of rounding do not count."""
    return next((a > b for a, b in zip(one, other, strict=True) if abs(a - b) > _SAME), False)


def _without(idle: Mapping[str, Sequence[Gpu]], taken: Iterable[Sequence[Gpu]]) -> dict[str, list[Gpu]]:
    gone = {gpu for gpus in taken for gpu in gpus}
    return {name: [gpu for gpu in gpus if gpu not in gone] for name, gpus in idle.items()}
