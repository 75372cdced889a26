"""One placing: where gangs go, what is moved for them, what that gains, and why the others have no place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from app.services.place_task import Inputs
from domain.cluster import Gpu
from domain.errors import PlanError
from solver.check_placing import placing_faults
from solver.placement.again import place_again
from solver.placement.gains import idle_after, moves_gpus, waste_gpus
from solver.placement.layout import canonical, layout_of
from solver.placement.left_out import Reason, why_left_out
from solver.placement.model import solve_placing
from solver.placement.task import Costs, Limits, PlaceTask, Placing

_SHOWN_FAULTS = 20


@dataclass(frozen=True)
class Gain:
    """What a placing does to a cluster.

    Attributes:
        gangs: gangs that wait before.
        placed: how many of them get a place.
        placed_gpus: GPUs of those.
        held_gpus, held_asked_gpus: GPUs kept idle for holds, and those that were to be.
        moves: running gangs that are moved.
        move_cost_gpus: price of that, in GPUs left unusable.
        idle_before_gpus, idle_after_gpus: GPUs that nobody has; held ones are not among those afterwards.
        waste_before_gpus, waste_after_gpus: what the next gang is expected not to be able to use of them.
        nodes_before, nodes_after: nodes of which some GPU is in use.
        changed: gangs that get other GPUs than they were given before, or none.
    """

    gangs: int
    placed: int
    placed_gpus: int
    held_gpus: int
    held_asked_gpus: int
    moves: int
    move_cost_gpus: float
    idle_before_gpus: int
    idle_after_gpus: int
    waste_before_gpus: float
    waste_after_gpus: float
    nodes_before: int
    nodes_after: int
    changed: int


@dataclass(frozen=True)
class MoreMoves:
    """What a larger budget of moves would do: how many are needed, and who would get a place, too."""

    moves: int
    job_ids: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """A placing that the independent checker has looked at, and what can be said of it.

    Attributes:
        task: what was to be placed, in canonical order.
        placing: where everything goes.
        reasons: why each of the others has no place, by job id.
        gain: what it does.
        more_moves: what more moves would do; None if nothing, or if nothing more may be moved.
        not_considered: gangs that may be moved and were not thought of (`solver.placement.movers`).
    """

    task: PlaceTask
    placing: Placing
    reasons: Mapping[str, Reason]
    gain: Gain
    more_moves: MoreMoves | None
    not_considered: tuple[str, ...]


def answer(inputs: Inputs, costs: Costs, limits: Limits) -> Answer:
    """Place what the inputs ask for.

    Raises:
        PlanError: if the placing breaks a rule of the independent checker.
    """
    task = canonical(inputs.task)
    if inputs.earlier is None:
        placing = solve_placing(task, costs, limits)
    else:
        placing = place_again(task, inputs.earlier, costs, limits)
    _require_sound(task, placing)
    given = {want.job.job_id: want.assigned for want in task.wants if want.assigned}
    if inputs.earlier is not None:
        given |= inputs.earlier.starts
    movable = {one.job.job_id for one in task.movable}
    considered = layout_of(replace(task, max_moves=max(task.max_moves, 1)), costs).residents
    return Answer(
        task,
        placing,
        why_left_out(task, placing),
        _gain(task, placing, costs, given),
        _more_moves(task, placing, costs, limits, len(movable & considered.keys())),
        tuple(sorted(movable - considered.keys())),
    )


def _require_sound(task: PlaceTask, placing: Placing) -> None:
    faults = placing_faults(task, placing)
    if faults:
        more = [f"... and {len(faults) - _SHOWN_FAULTS} more"] if len(faults) > _SHOWN_FAULTS else []
        raise PlanError("\n".join(["the placing breaks rules:", *faults[:_SHOWN_FAULTS], *more]))


def _gain(task: PlaceTask, placing: Placing, costs: Costs, given: Mapping[str, tuple[Gpu, ...]]) -> Gain:
    after = idle_after(task, placing)
    at = {one.job_id: set(one.gpus) for one in placing.placements}
    held = [gpu for pieces in placing.held for piece in pieces for gpu in piece]
    return Gain(
        gangs=len(task.wants),
        placed=len(placing.placements),
        placed_gpus=sum(len(one.gpus) for one in placing.placements),
        held_gpus=len(held),
        held_asked_gpus=sum(one.hold.num_gpus for one in task.holds),
        moves=sum(map(len, placing.steps)),
        move_cost_gpus=moves_gpus(task, placing, costs),
        idle_before_gpus=_count(task.idle.values()),
        idle_after_gpus=_count(after.values()),
        waste_before_gpus=waste_gpus(task, task.idle),
        waste_after_gpus=waste_gpus(task, after),
        nodes_before=_nodes_in_use(task, task.idle, ()),
        nodes_after=_nodes_in_use(task, after, held),
        changed=sum(at.get(job_id) != set(gpus) for job_id, gpus in given.items()),
    )


def _count(gpus: Iterable[Iterable[Gpu]]) -> int:
    return sum(len(list(some)) for some in gpus)


def _nodes_in_use(task: PlaceTask, idle: Mapping[str, Iterable[Gpu]], held: Iterable[Gpu]) -> int:
    unused = {name: len(list(gpus)) for name, gpus in idle.items()}
    for gpu in held:
        unused[gpu.node] = unused.get(gpu.node, 0) + 1
    return sum(unused.get(node.name, 0) < node.num_gpus for node in task.nodes)


def _more_moves(
    task: PlaceTask, placing: Placing, costs: Costs, limits: Limits, movable: int
) -> MoreMoves | None:
    """Solve once more with every gang that may be moved, if somebody is left out."""
    placed = {one.job_id for one in placing.placements}
    if len(placed) == len(task.wants) or movable <= task.max_moves:
        return None
    free = solve_placing(replace(task, max_moves=movable), costs, limits)
    gained = tuple(one.job_id for one in free.placements if one.job_id not in placed)
    moves = sum(map(len, free.steps))
    before, after = (sum(len(p.gpus) for p in one.placements) for one in (placing, free))
    return MoreMoves(moves, gained) if gained and after > before and moves > task.max_moves else None
