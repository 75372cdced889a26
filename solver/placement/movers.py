"""Which running gangs a model thinks of moving: all on a few nodes, and of many the most promising.

Each node with gangs that may go is a group of its own in the model once their prices differ, so it would grow
with the nodes. Where there are many, those are kept on which the cheapest choice of gangs makes room for the
widest piece of a gang that the greedy rule leaves out: by price per GPU of that piece. Where it leaves out
nobody, the pieces of the gangs to come take their place.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from domain.cluster import Node
from solver.placement.cells import pieces_of
from solver.placement.greedy import may_use, place
from solver.placement.task import Costs, Movable, PlaceTask

MOST_RESIDENTS: Final = 4
"""Gangs of one node that may stay or go; a model looks at every choice of who stays."""

_MOST_NODES: Final = 48
_FEWEST_NODES: Final = 12
"""With a small budget, nodes beyond it and these; more make the choice hard to solve and rarely better."""


def worth_moving(task: PlaceTask, costs: Costs) -> tuple[Movable, ...]:
    """Gangs that a model thinks of moving, the cheapest first.

    Args:
        task: what is placed, in canonical order.
        costs: prices of changes.
    """
    if not task.max_moves:
        return ()
    by_node: dict[str, list[Movable]] = {}
    for one in sorted(task.movable, key=lambda one: one.price(costs)):
        if len({gpu.node for gpu in one.gpus}) == 1:
            here = by_node.setdefault(one.gpus[0].node, [])
            here += [one] * (len(here) < MOST_RESIDENTS)
    most = min(_MOST_NODES, _FEWEST_NODES + task.max_moves)
    if len(by_node) > most:
        by_node = _most_promising(task, costs, by_node, most)
    chosen = [one for here in by_node.values() for one in here]
    return tuple(sorted(chosen, key=lambda one: one.price(costs)))


def _most_promising(
    task: PlaceTask, costs: Costs, by_node: dict[str, list[Movable]], most: int
) -> dict[str, list[Movable]]:
    pieces = _pieces_left_out(task)
    ranked = []
    for node in task.nodes:
        here = by_node.get(node.name, [])
        idle_gpus = len(task.idle.get(node.name, ()))
        wanted = [piece for piece in pieces.get(node.gpu_type, ()) if piece <= node.num_gpus]
        price = _least_price(here, idle_gpus, wanted, task.max_moves, costs) if here else None
        if price is not None:
            ranked.append((price, node.name))
    return {name: by_node[name] for _, name in sorted(ranked)[:most]}


def _least_price(
    here: Sequence[Movable], idle_gpus: int, wanted: Iterable[int], most: int, costs: Costs
) -> float | None:
    """Least price per GPU of a piece for which gangs that leave make room; None if for none."""
    prices = [
        sum(one.price(costs) for one in some) / piece
        for number in range(1, min(most, len(here)) + 1)
        for some in combinations(here, number)
        for piece in wanted
        if idle_gpus < piece <= idle_gpus + sum(len(one.gpus) for one in some)
    ]
    return min(prices, default=None)


def _pieces_left_out(task: PlaceTask) -> dict[str, set[int]]:
    """Pieces, by type, of gangs that find no place without moves; of those to come where all find one."""
    largest: dict[str, Node] = {}
    for node in task.nodes:
        if node.gpu_type not in largest or node.num_gpus > largest[node.gpu_type].num_gpus:
            largest[node.gpu_type] = node
    jobs = [want.job for want in task.wants]
    placed = {one.job_id for one in place(jobs, task.idle, task.nodes)}
    asked = [(job.num_gpus, job.gpu_type) for job in jobs if job.job_id not in placed]
    return {
        name: {
            piece
            for width, kind in asked or [(width, None) for width in task.widths]
            if may_use(kind, name)
            for piece in pieces_of(width, node.num_gpus)
        }
        for name, node in largest.items()
    }
