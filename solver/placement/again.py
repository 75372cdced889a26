"""Placing once more, with what an earlier plan decided: as little changes as is worth it.

Three plans are weighed: the earlier one as it is, what it moves and starts with the rest placed around it,
and one that owes it nothing but the price of giving a waiting gang other GPUs. The first of them wins unless
a later one starts more of the pools' own, holds more, starts more guests, or costs less, in this order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from domain.cluster import Gpu
from domain.plans import Placement
from solver.placement.assign import steps_of
from solver.placement.gains import idle_moved, is_better, worth
from solver.placement.layout import canonical
from solver.placement.model import DEFAULT_COSTS, DEFAULT_LIMITS, reasons_of, solve_placing
from solver.placement.task import Costs, Held, Limits, Move, PlaceTask, Placing

HoldKey = tuple[str, int, int, str | None]
"""What a hold is known by from plan to plan: its pool, its GPUs, the widest gang it is for, its type."""

Pieces = tuple[tuple[Gpu, ...], ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier plan decided, as far as it has not come true yet.

    Attributes:
        starts: GPUs of each gang that it starts, by job id.
        moves: GPUs to which it moves each running gang, by job id.
        held: pieces of each hold, in the order of the plan.
    """

    starts: Mapping[str, tuple[Gpu, ...]] = field(default_factory=dict)
    moves: Mapping[str, tuple[Gpu, ...]] = field(default_factory=dict)
    held: Sequence[tuple[HoldKey, Pieces]] = ()


def key_of(held: Held) -> HoldKey:
    """What a hold is known by from plan to plan."""
    return held.hold.pool, held.hold.num_gpus, held.widest_gpus, held.gpu_type


def place_again(
    task: PlaceTask, earlier: Earlier, costs: Costs = DEFAULT_COSTS, limits: Limits = DEFAULT_LIMITS
) -> Placing:
    """Place a task with as few changes to an earlier plan as are worth it.

    Args:
        task: what is to be placed; what the earlier plan gave a gang goes before what the task says.
        earlier: that plan; what of it is gone by now is passed over.
        costs: prices of changes.
        limits: when to stop, for each of at most two solves.
    """
    task = canonical(_assigned(task, earlier))
    fresh = solve_placing(task, costs, limits)
    moves = _moves_still_to_make(task, earlier)
    plans = [fresh]
    if moves is not None:
        kept = _kept(task, earlier, moves)
        plans = [kept, _extended(task, moves, costs, limits), fresh] if moves else [kept, fresh]
    best = plans[0]
    for plan in plans[1:]:
        if is_better(worth(task, plan, costs), worth(task, best, costs)):
            best = plan
    return best if best is fresh else _told_as(best, fresh, -worth(task, best, costs)[-1])


def _told_as(best: Placing, fresh: Placing, objective: float) -> Placing:
    """A plan that no other one beats, with what is proven of the one it was weighed against."""
    return replace(
        best,
        status=fresh.status,
        objective=objective,
        bound=min(fresh.bound, objective),
        deterministic_s=max(fresh.deterministic_s, best.deterministic_s),
        fallback=fresh.fallback,
        groups=fresh.groups,
    )


def _assigned(task: PlaceTask, earlier: Earlier) -> PlaceTask:
    """The task with what the earlier plan gave waiting gangs; others keep theirs where that is free of it."""
    given = {
        want.job.job_id: gpus
        for want in task.wants
        if len(gpus := earlier.starts.get(want.job.job_id, ())) == want.job.num_gpus
    }
    gone = {gpu for gpus in given.values() for gpu in gpus}
    return replace(
        task,
        wants=tuple(
            want._replace(
                assigned=given.get(want.job.job_id, () if gone.intersection(want.assigned) else want.assigned)
            )
            for want in task.wants
        ),
    )


def _moves_still_to_make(task: PlaceTask, earlier: Earlier) -> list[Move] | None:
    """Moves of the earlier plan; None if they cannot all be made any more."""
    moves = [
        Move(one.job.job_id, one.gpus, earlier.moves[one.job.job_id])
        for one in task.movable
        if set(earlier.moves.get(one.job.job_id, one.gpus)) != set(one.gpus)
    ]
    free = {gpu for gpus in task.idle.values() for gpu in gpus} | {gpu for one in moves for gpu in one.old}
    new = [gpu for one in moves for gpu in one.new]
    fits = len(set(new)) == len(new) and free.issuperset(new) and len(moves) <= task.max_moves
    return moves if fits and all(len(one.new) == len(one.old) for one in moves) else None


def _kept(task: PlaceTask, earlier: Earlier, moves: Sequence[Move]) -> Placing:
    """The earlier plan as it is, without what is taken by now."""
    free = {gpu for gpus in idle_moved(task.idle, moves).values() for gpu in gpus}
    starts: list[Placement] = []
    for want in task.wants:
        gpus = earlier.starts.get(want.job.job_id, ())
        if len(gpus) == want.job.num_gpus and free.issuperset(gpus):
            free.difference_update(gpus)
            starts.append(Placement(want.job.job_id, gpus))
    held: list[Pieces] = []
    left = list(earlier.held)
    for one in task.holds:
        match = next((known for known in left if known[0] == key_of(one)), None)
        pieces = () if match is None else match[1]
        if match is not None:
            left.remove(match)
        if free.issuperset(gpu for piece in pieces for gpu in piece):
            free.difference_update(gpu for piece in pieces for gpu in piece)
            held.append(pieces)
        else:
            held.append(())
    reasons = reasons_of(task, {one.job_id for one in starts})
    return Placing(tuple(starts), tuple(held), steps_of(moves), reasons)


def _extended(task: PlaceTask, moves: Sequence[Move], costs: Costs, limits: Limits) -> Placing:
    """What the earlier plan moves is moved; everything else is placed on what that leaves."""
    moved = {move.job_id for move in moves}
    rest = replace(
        task,
        idle=idle_moved(task.idle, moves),
        movable=tuple(one for one in task.movable if one.job.job_id not in moved),
        max_moves=task.max_moves - len(moves),
    )
    done = solve_placing(rest, costs, limits)
    return replace(done, steps=steps_of([*moves, *(move for step in done.steps for move in step)]))
