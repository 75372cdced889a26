"""A placing task in canonical order: nodes in groups, gangs in kinds, both counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from domain.cluster import Gpu, Node
from domain.jobs import submit_order
from solver.placement.cells import hold_pieces
from solver.placement.greedy import Ask, Stock, allowed, stocks_of
from solver.placement.movers import MOST_RESIDENTS, worth_moving
from solver.placement.task import Costs, PlaceTask


class Resident(NamedTuple):
    """A gang on one node that may stay there or go: assigned by an earlier plan, or running and movable.

    Attributes:
        name: id of the job.
        gpus: where it is.
        is_running: whether it runs already.
        cost: what it costs if it goes, in GPUs left unusable.
    """

    name: str
    gpus: tuple[Gpu, ...]
    is_running: bool
    cost: float

    @property
    def node(self) -> str:
        """The node it is on."""
        return self.gpus[0].node


class Kind(NamedTuple):
    """Gangs that the model does not tell apart, in the order in which they start.

    Attributes:
        num_gpus: width.
        stocks: indices of the types on which they may go.
        is_own: whether they are their pool's own.
        value: worth of one.
        is_resident: whether each of them has a node on which it may stay.
        is_running: whether they run already, so that each must have a place.
        cost: what each of the residents among them costs if it goes, in GPUs left unusable.
        names: ids of the jobs.
    """

    num_gpus: int
    stocks: tuple[int, ...]
    is_own: bool
    value: int
    is_resident: bool
    is_running: bool
    cost: float
    names: tuple[str, ...]


class Group(NamedTuple):
    """Nodes that the model does not tell apart.

    Attributes:
        stock: index of their type.
        free: GPUs each can give while its residents stay.
        residents: kinds of the residents on each, ascending.
        nodes: their names.
        at_home: for each node the names of its residents, in the order of their kinds.
    """

    stock: int
    free: int
    residents: tuple[int, ...]
    nodes: tuple[str, ...]
    at_home: tuple[tuple[str, ...], ...]


class Piece(NamedTuple):
    """One piece of a hold.

    Attributes:
        hold: which hold.
        part: which of its pieces.
        num_gpus: GPUs, all on one node.
        tie: all pieces of the same tie are of one type, because a gang may need several of them; None: alone.
        gpu_type: type that it has to be of; None: of any.
    """

    hold: int
    part: int
    num_gpus: int
    tie: int | None = None
    gpu_type: str | None = None

    def may_lie_on(self, stock: Stock, node_gpus: int) -> bool:
        """Whether a type serves it; ties hold whole nodes, so only the types of the largest nodes do.

        Args:
            stock: the type.
            node_gpus: GPUs of the largest node of all types.
        """
        is_large = self.tie is None or stock.node_gpus == node_gpus
        return is_large and self.num_gpus <= stock.node_gpus and self.gpu_type in (None, stock.gpu_type)


@dataclass(frozen=True, slots=True)
class Layout:
    """The task, counted.

    Attributes:
        stocks: types of GPU, with the size of their largest node.
        groups: all nodes that have something to give.
        residents: gangs that may stay or go, by name.
        kinds: gangs to start, and running ones to place anew or leave.
        pieces: what is to be held, largest first.
        idle: GPUs to give that are not a resident's, by node.
        fixed: own gangs that keep what an earlier plan gave them: on several nodes, or on a node with many.
    """

    stocks: tuple[Stock, ...]
    groups: tuple[Group, ...]
    residents: Mapping[str, Resident]
    kinds: tuple[Kind, ...]
    pieces: tuple[Piece, ...]
    idle: Mapping[str, tuple[Gpu, ...]]
    fixed: Mapping[str, tuple[Gpu, ...]]


def canonical(task: PlaceTask) -> PlaceTask:
    """The same task with everything but the holds in its one order."""
    return replace(
        task,
        nodes=tuple(sorted(task.nodes, key=lambda node: node.name)),
        idle={name: sorted(task.idle[name], key=lambda gpu: gpu.index) for name in sorted(task.idle)},
        wants=tuple(sorted(task.wants, key=lambda want: submit_order(want.job))),
        movable=tuple(sorted(task.movable, key=lambda one: submit_order(one.job))),
    )


def layout_of(task: PlaceTask, costs: Costs) -> Layout:
    """Count a canonical task; `costs` are the prices of changes."""
    residents, fixed = _residents(task, costs)
    spoken_for = {
        gpu for gpus in (*fixed.values(), *(one.gpus for one in residents.values())) for gpu in gpus
    }
    idle = {name: tuple(gpu for gpu in gpus if gpu not in spoken_for) for name, gpus in task.idle.items()}
    stocks = tuple(stocks_of(idle, task.nodes))
    kinds = tuple(_kinds(task, residents, fixed, stocks))
    return Layout(
        stocks,
        tuple(_groups(task.nodes, idle, residents, stocks, kinds)),
        residents,
        kinds,
        tuple(pieces_to_hold(task, max((one.node_gpus for one in stocks), default=1))),
        idle,
        fixed,
    )


def _residents(task: PlaceTask, costs: Costs) -> tuple[dict[str, Resident], dict[str, tuple[Gpu, ...]]]:
    """Gangs that may stay or go, and own ones that keep what they were assigned.

    A guest assigned to several nodes, or to a node with many others, is placed anew: it must not be in the
    way of an own start. Which running ones may go: `solver.placement.movers`.
    """
    idle = {gpu for gpus in task.idle.values() for gpu in gpus}
    kept = [
        (Resident(want.job.job_id, want.assigned, False, costs.reassign * want.job.num_gpus), want.is_own)
        for want in task.wants
        if want.assigned and idle.issuperset(want.assigned)
    ]
    running = [
        (Resident(one.job.job_id, one.gpus, True, one.price(costs)), False)
        for one in worth_moving(task, costs)
    ]
    residents: dict[str, Resident] = {}
    fixed: dict[str, tuple[Gpu, ...]] = {}
    on_node: Counter[str] = Counter()
    for one, is_own in (*kept, *running):
        if len({gpu.node for gpu in one.gpus}) == 1 and on_node[one.node] < MOST_RESIDENTS:
            on_node[one.node] += 1
            residents[one.name] = one
        elif is_own:
            fixed[one.name] = one.gpus
    return residents, fixed


def pieces_to_hold(task: PlaceTask, node_gpus: int) -> list[Piece]:
    """Pieces of all holds, largest first, then in the order of the holds."""
    pieces: list[Piece] = []
    for number, held in enumerate(task.holds):
        size, widest = held.hold.num_gpus, held.widest_gpus
        parts = (size,) if held.is_piece else hold_pieces(size, widest, node_gpus)
        tie = number if min(size, widest) > parts[0] else None
        pieces += [Piece(number, part, gpus, tie, held.gpu_type) for part, gpus in enumerate(parts)]
    order = {
        number: (held.hold.pool, held.hold.num_gpus, held.widest_gpus)
        for number, held in enumerate(task.holds)
    }
    return sorted(pieces, key=lambda piece: (-piece.num_gpus, order[piece.hold], piece.hold, piece.part))


def asks_to_hold(task: PlaceTask, stocks: Sequence[Stock]) -> list[Ask]:
    """What the pieces of all holds ask of the types, in their order (`pieces_to_hold`)."""
    node_gpus = max((one.node_gpus for one in stocks), default=1)
    return [
        Ask(
            (piece.hold, piece.part),
            piece.num_gpus,
            types=tuple(one.gpu_type for one in stocks if piece.may_lie_on(one, node_gpus)),
            tie=piece.tie,
        )
        for piece in pieces_to_hold(task, node_gpus)
    ]


def _groups(
    nodes: Sequence[Node],
    idle: Mapping[str, Sequence[Gpu]],
    residents: Mapping[str, Resident],
    stocks: Sequence[Stock],
    kinds: Sequence[Kind],
) -> list[Group]:
    stock_of = {stock.gpu_type: k for k, stock in enumerate(stocks)}
    kind_of = {name: k for k, kind in enumerate(kinds) if kind.is_resident for name in kind.names}
    at_home: dict[str, list[str]] = {}
    for name in sorted(residents, key=lambda name: (kind_of[name], name)):
        at_home.setdefault(residents[name].node, []).append(name)
    alike: dict[tuple[int, int, tuple[int, ...]], list[str]] = {}
    for node in nodes:
        here = tuple(kind_of[name] for name in at_home.get(node.name, ()))
        free = len(idle.get(node.name, ()))
        if free or here:
            alike.setdefault((stock_of[node.gpu_type], free, here), []).append(node.name)
    return [
        Group(*key, tuple(names), tuple(tuple(at_home.get(name, ())) for name in names))
        for key, names in sorted(alike.items())
    ]


def _kinds(
    task: PlaceTask, residents: Mapping[str, Resident], fixed: Mapping[str, object], stocks: Sequence[Stock]
) -> list[Kind]:
    rank = {stock.gpu_type: k for k, stock in enumerate(stocks)}
    alike: dict[tuple[int, tuple[int, ...], bool, int, bool, bool, float], list[str]] = {}
    for want in task.wants:
        job = want.job
        if job.job_id not in fixed:
            ask = Ask(job.job_id, job.num_gpus, job.gpu_type)
            on = tuple(rank[one.gpu_type] for one in allowed(stocks, ask))
            value = job.num_gpus if want.value is None else want.value
            home = residents.get(job.job_id)
            cost = 0.0 if home is None else home.cost
            key = (job.num_gpus, on, want.is_own, value, home is not None, False, cost)
            alike.setdefault(key, []).append(job.job_id)
    for one in residents.values():
        if one.is_running:
            at = (rank[one.gpus[0].gpu_type],)
            alike.setdefault((len(one.gpus), at, True, 0, True, True, one.cost), []).append(one.name)
    return [Kind(*key, tuple(names)) for key, names in sorted(alike.items())]
