"""A task too large for one model, split into groups of nodes that are solved one by one.

Nodes are dealt out by type and idle GPUs, so that the groups are alike. Each gang and each piece of a hold
goes, in the order in which they are served, to the group with the most room that can still place it by the
counts of cells; gangs that were assigned or run stay with their node. What is lost: a gang that would fit
only by changes in another group, and room that is left over in several groups and would be joined in one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from domain.cluster import Gpu, Node
from solver.placement.greedy import Ask, Stock, allowed, stocks_of
from solver.placement.layout import Piece, pieces_to_hold
from solver.placement.task import Held, Movable, PlaceTask, Placing, Want


@dataclass(frozen=True, slots=True)
class Part:
    """One group of nodes and what was given to it.

    Attributes:
        task: its own task.
        holds: for each of its holds, which of the whole task's it is a piece of.
    """

    task: PlaceTask
    holds: tuple[int, ...]


def split(task: PlaceTask, blocks: int) -> list[Part]:
    """Deal out a canonical task."""
    home = _deal(task, blocks)
    stocks = [
        stocks_of({name: gpus for name, gpus in task.idle.items() if home[name] == k}, _of(task, home, k))
        for k in range(blocks)
    ]
    wants: list[list[Want]] = [[] for _ in range(blocks)]
    pieces: list[list[tuple[int, Held]]] = [[] for _ in range(blocks)]
    for want in task.wants:
        if want.assigned:
            block = home[want.assigned[0].node]
            wants[block].append(_within(want, block, home))
            _room(stocks[block], _ask(want))
    for is_own in (True, False):
        for want in task.wants:
            if not want.assigned and want.is_own == is_own:
                wants[_best(stocks, _ask(want))].append(want)
        if is_own:
            for number, part in _held_parts(task, stocks):
                kinds = None if part.gpu_type is None else (part.gpu_type,)
                ask = Ask("held", part.widest_gpus, types=kinds)
                pieces[_best(stocks, ask)].append((number, part))
    movable: list[list[Movable]] = [[] for _ in range(blocks)]
    for one in task.movable:
        movable[home[one.gpus[0].node]].append(one)
    moves = _shares(task.max_moves, [len(one) for one in movable])
    return [
        Part(
            replace(
                task,
                nodes=_of(task, home, k),
                idle={name: gpus for name, gpus in task.idle.items() if home[name] == k},
                wants=tuple(wants[k]),
                holds=tuple(held for _, held in pieces[k]),
                movable=tuple(movable[k]),
                max_moves=moves[k],
            ),
            tuple(number for number, _ in pieces[k]),
        )
        for k in range(blocks)
    ]


def merge(task: PlaceTask, parts: Sequence[Part], placings: Sequence[Placing]) -> Placing:
    """The whole task's placing from those of its groups; nothing is proven about the whole."""
    placed = {one.job_id: one for placing in placings for one in placing.placements}
    held: list[list[tuple[Gpu, ...]]] = [[] for _ in task.holds]
    for part, placing in zip(parts, placings, strict=True):
        for number, pieces in zip(part.holds, placing.held, strict=True):
            held[number] += pieces
    reasons = {job_id: why for placing in placings for job_id, why in placing.unplaced.items()}
    names = [want.job.job_id for want in task.wants]
    return Placing(
        placements=tuple(placed[name] for name in names if name in placed),
        held=tuple(map(tuple, held)),
        steps=tuple(step for placing in placings for step in placing.steps),
        unplaced={name: reasons[name] for name in names if name in reasons},
        status="feasible",
        objective=sum(placing.objective for placing in placings),
        deterministic_s=sum(placing.deterministic_s for placing in placings),
        fallback="groups",
        groups=len(parts),
    )


def _held_parts(task: PlaceTask, stocks: Sequence[Sequence[Stock]]) -> list[tuple[int, Held]]:
    """The pieces of all holds as holds of their own, and of which each is one.

    Where a gang may need several pieces they are of one type: that of which most can be held in all groups.
    """
    pieces = pieces_to_hold(task, max((node.num_gpus for node in task.nodes), default=1))
    node_gpus = max((node.num_gpus for node in task.nodes), default=1)
    kinds = {
        tie: _type_of([piece for piece in pieces if piece.tie == tie], stocks, node_gpus)
        for tie in {piece.tie for piece in pieces if piece.tie is not None}
    }
    return [
        (
            piece.hold,
            Held(
                replace(task.holds[piece.hold].hold, num_gpus=piece.num_gpus),
                piece.num_gpus,
                is_piece=True,
                gpu_type=piece.gpu_type if piece.tie is None else kinds[piece.tie],
            ),
        )
        for piece in pieces
    ]


def _type_of(tied: Sequence[Piece], stocks: Sequence[Sequence[Stock]], node_gpus: int) -> str:
    """The type of which most idle GPUs are left in all groups, the first of equals; empty if none serves."""
    room: dict[str, int] = {}
    for stock in (one for block in stocks for one in block if tied[0].may_lie_on(one, node_gpus)):
        room[stock.gpu_type] = room.get(stock.gpu_type, 0) + stock.slack_gpus
    return min(room, key=lambda kind: (-room[kind], kind), default="")


def _deal(task: PlaceTask, blocks: int) -> dict[str, int]:
    """Group of each node: alike ones in turn."""
    alike = sorted(
        task.nodes, key=lambda node: (node.gpu_type, -len(task.idle.get(node.name, ())), node.name)
    )
    return {node.name: rank % blocks for rank, node in enumerate(alike)}


def _of(task: PlaceTask, home: dict[str, int], block: int) -> tuple[Node, ...]:
    return tuple(node for node in task.nodes if home[node.name] == block)


def _within(want: Want, block: int, home: dict[str, int]) -> Want:
    """A gang assigned to nodes of several groups is placed anew in the first one."""
    is_within = all(home[gpu.node] == block for gpu in want.assigned)
    return want if is_within else want._replace(assigned=())


def _ask(want: Want) -> Ask:
    return Ask(want.job.job_id, want.job.num_gpus, want.job.gpu_type)


def _room(stocks: Sequence[Stock], ask: Ask) -> bool:
    return any(one.admit(ask.num_gpus) for one in allowed(stocks, ask))


def _best(stocks: Sequence[Sequence[Stock]], ask: Ask) -> int:
    """The group with the most room that can place the ask; the one with the most room if none can."""
    by_room = sorted(
        range(len(stocks)), key=lambda k: -sum(one.slack_gpus for one in allowed(stocks[k], ask))
    )
    return next((k for k in by_room if _room(stocks[k], ask)), by_room[0])


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """Whole shares of a total in proportion to the weights, what is left over to the first ones."""
    whole = sum(weights) or 1
    shares = [total * weight // whole for weight in weights]
    for k in range(total - sum(shares)):
        shares[k % len(shares)] += 1
    return shares
