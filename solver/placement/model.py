"""Placing as a model: own starts, held cells, guests, then the least fragmentation and the fewest changes."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from domain.cluster import Gpu
from domain.plans import Placement
from solver.placement.assign import Assignment, assign, steps_of
from solver.placement.blocks import merge, split
from solver.placement.cells import expected_waste
from solver.placement.counts import CountModel
from solver.placement.gains import idle_after, is_better, waste_gpus, waste_without, worth
from solver.placement.greedy import Ask, may_use, place, place_asks, stocks_of
from solver.placement.layout import Layout, asks_to_hold, canonical, layout_of
from solver.placement.task import Costs, Limits, Move, PlaceTask, Placing

DEFAULT_COSTS = Costs()
DEFAULT_LIMITS = Limits()

_ROUNDED_GPUS = 1e-3


def solve_placing(task: PlaceTask, costs: Costs = DEFAULT_COSTS, limits: Limits = DEFAULT_LIMITS) -> Placing:
    """Place a task as well as the limits allow; at worst as the greedy rule does.

    The order of nodes, gangs and GPUs in the task does not matter. A task with nothing to place gives an
    empty placing. One with more nodes than `limits.max_nodes` is solved in groups of nodes
    (`solver.placement.blocks`), with equal parts of the limits.

    Args:
        task: what is to be placed.
        costs: prices of changes.
        limits: when to stop.
    """
    task = canonical(task)
    blocks = max(1, -(-len(task.nodes) // limits.max_nodes))
    if blocks == 1:
        return _solve_moving(task, costs, limits)
    each = replace(limits, deterministic=limits.deterministic / blocks, wall_s=limits.wall_s / blocks)
    parts = split(task, blocks)
    return merge(task, parts, [_solve_moving(part.task, costs, each) for part in parts])


def greedy_placing(task: PlaceTask) -> Placing:
    """Place a task by the greedy rule: own starts, held pieces, guests; nothing assigned or running moves."""
    task = canonical(task)
    kept = {want.job.job_id: want.assigned for want in task.wants if _is_idle(task, want.assigned)}
    gone = {gpu for gpus in kept.values() for gpu in gpus}
    idle = {name: [gpu for gpu in gpus if gpu not in gone] for name, gpus in task.idle.items()}
    stocks = stocks_of(idle, task.nodes)
    asks: list[Ask] = []
    for is_own in (True, False):
        asks += [
            Ask(want.job.job_id, want.job.num_gpus, want.job.gpu_type)
            for want in sorted(task.wants, key=lambda want: -(want.value or want.job.num_gpus))
            if want.is_own == is_own and want.job.job_id not in kept
        ]
        if is_own:
            asks += asks_to_hold(task, stocks)
    found = place_asks(asks, stocks)
    starts = kept | {name: gpus for name, gpus in found.items() if isinstance(name, str)}
    held = {name: gpus for name, gpus in found.items() if isinstance(name, tuple)}
    cost = waste_without(task, [*starts.values(), *held.values()])
    return replace(_told(task, starts, held, ()), status="greedy", objective=cost, fallback="greedy")


def _solve_moving(task: PlaceTask, costs: Costs, limits: Limits) -> Placing:
    """With moves; where that is cut short, the better of what it found and the placing without any."""
    done = _solve_whole(task, costs, limits)
    if done.status == "optimal" or not task.max_moves:
        return done
    still = _solve_whole(replace(task, max_moves=0), costs, limits)
    if is_better(worth(task, done, costs), worth(task, still, costs)):
        return done
    return replace(still, status="feasible", bound=min(done.bound, still.objective), fallback="no-moves")


def _solve_whole(task: PlaceTask, costs: Costs, limits: Limits) -> Placing:
    layout = layout_of(task, costs)
    waste = [expected_waste(one.node_gpus, task.widths, task.shares) for one in layout.stocks]
    counts = CountModel(layout, waste, task.max_moves).solve(limits)
    if counts is None:
        return greedy_placing(task)
    found = assign(layout, counts)
    placing = _told(task, found.starts | _last_try(task, found), found.held, found.moves)
    objective = waste_gpus(task, idle_after(task, placing)) + _changes_gpus(layout, found)
    is_as_counted = abs(objective - counts.cost) <= _ROUNDED_GPUS * (1 + len(layout.residents))
    return replace(
        placing,
        status="optimal" if counts.is_optimal and is_as_counted else "feasible",
        objective=objective,
        bound=min(max(0.0, counts.bound), objective),
        deterministic_s=counts.deterministic_s,
        fallback=None if counts.is_optimal else "incumbent",
    )


def _changes_gpus(layout: Layout, found: Assignment) -> float:
    """Price of those that do not stay where they are."""
    moved = {move.job_id for move in found.moves}
    return sum(
        one.cost
        for one in layout.residents.values()
        if (one.name in moved if one.is_running else found.starts.get(one.name) != one.gpus)
    )


def _last_try(task: PlaceTask, found: Assignment) -> dict[str, tuple[Gpu, ...]]:
    """Gangs left out because of how their width rounds up to a cell, on GPUs that nobody got."""
    left = [want.job for want in task.wants if want.job.job_id not in found.starts]
    if not left:
        return {}
    gone = {gpu for gpus in (*found.starts.values(), *found.held.values()) for gpu in gpus}
    gone |= {gpu for move in found.moves for gpu in move.new}
    idle = {name: [gpu for gpu in gpus if gpu not in gone] for name, gpus in task.idle.items()}
    return {one.job_id: one.gpus for one in place(left, idle, task.nodes)}


def _told(
    task: PlaceTask,
    starts: Mapping[str, tuple[Gpu, ...]],
    held: Mapping[tuple[int, int], tuple[Gpu, ...]],
    moves: Sequence[Move],
) -> Placing:
    by_hold: list[list[tuple[Gpu, ...]]] = [[] for _ in task.holds]
    for (hold, _), gpus in sorted(held.items()):
        by_hold[hold].append(gpus)
    names = [want.job.job_id for want in task.wants]
    return Placing(
        placements=tuple(Placement(name, starts[name]) for name in names if name in starts),
        held=tuple(map(tuple, by_hold)),
        steps=steps_of(moves),
        unplaced=reasons_of(task, starts),
    )


def reasons_of(task: PlaceTask, starts: Container[str]) -> dict[str, str]:
    """Why each gang that was not placed was not, in a few words; `starts` are the ids of those that were."""
    reasons: dict[str, str] = {}
    for want in task.wants:
        job = want.job
        if job.job_id in starts:
            continue
        total = sum(node.num_gpus for node in task.nodes if may_use(job.gpu_type, node.gpu_type))
        idle = sum(may_use(job.gpu_type, gpu.gpu_type) for gpus in task.idle.values() for gpu in gpus)
        if total < job.num_gpus:
            reasons[job.job_id] = (
                f"asks for {job.num_gpus} GPUs of type {job.gpu_type or 'any'}, there are {total}"
            )
        elif idle < job.num_gpus:
            reasons[job.job_id] = f"asks for {job.num_gpus} GPUs, {idle} are idle"
        else:
            reasons[job.job_id] = f"does not fit any node although {idle} GPUs are idle"
    return reasons


def _is_idle(task: PlaceTask, gpus: Sequence[Gpu]) -> bool:
    return bool(gpus) and all(gpu in task.idle.get(gpu.node, ()) for gpu in gpus)
