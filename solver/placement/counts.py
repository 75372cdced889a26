"""How many pieces of each size on nodes of each group: the CP-SAT model of a placing.

Nodes of one group have equally many GPUs to give and the same kinds of residents. For each choice of who of
them stays, which leaves a node f GPUs to give: y[u] nodes on which u of those are taken. And for the group
p[w] pieces of w GPUs, which count as their cell. Sizes divide each other, so the pieces go into the nodes
exactly if, for every cell size c, sum over pieces with a cell s of at least c of p s / c <= sum over u of
y[u] (u // c), with equality for c = 1. The y are also all that fragmentation depends on. So the model grows
with the number of groups, not of nodes.

A piece that is smaller than its cell (3, 5, 6, 7) would waste the difference: y[W, u] are nodes that hold a
few of these, W, as what they are, and u GPUs in cells beside them. Up to two are told apart. More only
fit on nodes beyond 8 GPUs; there they may count as their cells, which the model then takes for full.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

from ortools.sat.python import cp_model

from solver.placement.cells import FloatArray, cell_of, cell_sizes, pieces_of
from solver.placement.layout import Group, Layout, Piece
from solver.placement.task import Limits

UNITS_PER_GPU = 1000
"""Whole units of cost per GPU."""
_WORK_DIGITS = 9
_MOST_ODD = 2


Choice = tuple[int, ...]
"""Which residents of a node stay, by their place in `Group.residents`."""


class Taken(NamedTuple):
    """What becomes of a node.

    Attributes:
        stay: which of its residents stay.
        odd: GPUs of the pieces on it that count as what they are, ascending.
        cells: GPUs that are taken in cells.
    """

    stay: Choice
    odd: tuple[int, ...]
    cells: int


class HeldAs(NamedTuple):
    """Pieces of holds that the model does not tell apart: see `Piece`."""

    num_gpus: int
    tie: int | None
    gpu_type: str | None


def held_as(piece: Piece) -> HeldAs:
    """What a piece is to the model."""
    return HeldAs(piece.num_gpus, piece.tie, piece.gpu_type)


@dataclass(frozen=True, slots=True)
class Counts:
    """A solution.

    Attributes:
        taken: for each group, how many nodes become what.
        pieces: for each group, how many pieces of each number of GPUs.
        started: for each kind, how many gangs on each of its types.
        held: for each type, how many pieces of each tie and number of GPUs are held (`held_as`).
        is_optimal: whether all of it is proven.
        cost: fragmentation and changes, in GPUs.
        bound: the least cost proven possible.
        deterministic_s: work of the solver.
    """

    taken: Sequence[Counter[Taken]]
    pieces: Sequence[Counter[int]]
    started: Sequence[Counter[int]]
    held: Sequence[Counter[HeldAs]]
    is_optimal: bool
    cost: float
    bound: float
    deterministic_s: float


class CountModel:
    """Variables and rows of one layout.

    Args:
        layout: what is placed.
        waste: expected waste of a node by its free GPUs, for each type.
        max_moves: how many running gangs may be moved.
    """

    def __init__(self, layout: Layout, waste: Sequence[FloatArray], max_moves: int) -> None:
        self._layout = layout
        self._model = cp_model.CpModel()
        self._sizes = [_piece_sizes(layout, k) for k in range(len(layout.stocks))]
        self._stay: list[list[cp_model.LinearExprT]] = [[] for _ in layout.kinds]
        self._taken = [self._taken_of(group) for group in layout.groups]
        self._pieces = [self._pieces_of(group) for group in layout.groups]
        self._started = [self._started_of(k) for k in range(len(layout.kinds))]
        self._held = self._held_of()
        for k in range(len(layout.groups)):
            self._pack(k)
        for k in range(len(layout.stocks)):
            self._balance(k)
        moved = [
            var
            for kind, started in zip(layout.kinds, self._started, strict=True)
            if kind.is_running
            for var in started.values()
        ]
        if moved:
            self._model.add(sum(moved) <= max_moves)
            self._hint_nothing()
        self._cost = self._cost_of(waste)

    def solve(self, limits: Limits) -> Counts | None:
        """Most value of own starts, then most GPUs held, then most value of guests, then least cost.

        What cannot be improved because everything is served is no solve of its own.

        Returns:
            None if a limit struck before anything was found.
        """
        left = limits
        work, is_optimal = 0.0, True
        for goal, most in self._goals():
            self._model.maximize(goal)
            solver, status = _solve(self._model, left)
            work += solver.response_proto.deterministic_time
            if status not in _FOUND:
                return None
            is_optimal &= status == cp_model.OPTIMAL
            left = _rest(left, solver)
            self._model.add(goal >= min(round(solver.objective_value), most))
            self._hint(solver)
        self._model.minimize(self._cost)
        solver, status = _solve(self._model, left)
        work += solver.response_proto.deterministic_time
        if status not in _FOUND:
            return None
        return self._read(solver, is_optimal and status == cp_model.OPTIMAL, round(work, _WORK_DIGITS))

    def _taken_of(self, group: Group) -> dict[Taken, cp_model.IntVar]:
        nodes = len(group.nodes)
        taken: dict[Taken, cp_model.IntVar] = {}
        odd = self._odd_sizes(group)
        for stay in _choices(group.residents):
            free = self._free(group, stay)
            for some in _few_of(odd, free):
                for cells in range(free - sum(some) + 1):
                    var = taken[Taken(stay, some, cells)] = self._model.new_int_var(0, nodes, "")
                    for at in stay:
                        self._stay[group.residents[at]].append(var)
        self._model.add(sum(taken.values()) == nodes)
        return taken

    def _free(self, group: Group, stay: Choice) -> int:
        """GPUs that a node can give while these residents stay."""
        gone = (k for at, k in enumerate(group.residents) if at not in stay)
        return group.free + sum(self._layout.kinds[k].num_gpus for k in gone)

    def _pieces_of(self, group: Group) -> dict[int, cp_model.IntVar]:
        most = self._free(group, ())
        return {
            size: self._model.new_int_var(0, len(group.nodes) * (most // size), "")
            for size in self._sizes[group.stock]
            if size <= most
        }

    def _started_of(self, k: int) -> dict[int, cp_model.IntVar]:
        kind = self._layout.kinds[k]
        started = {stock: self._model.new_int_var(0, len(kind.names), "") for stock in kind.stocks}
        served = cp_model.LinearExpr.sum([*started.values(), *self._stay[k]])
        if kind.is_running:
            self._model.add(served == len(kind.names))
        else:
            self._model.add(served <= len(kind.names))
        return started

    def _held_of(self) -> dict[tuple[HeldAs, int], cp_model.IntVar]:
        stocks, pieces = self._layout.stocks, self._layout.pieces
        node_gpus = max((one.node_gpus for one in stocks), default=1)
        wanted = Counter(held_as(piece) for piece in pieces)
        lies_on = {
            held_as(piece): [k for k, one in enumerate(stocks) if piece.may_lie_on(one, node_gpus)]
            for piece in pieces
        }
        ties = sorted({piece.tie for piece in pieces if piece.tie is not None})
        is_of = {tie: [self._model.new_bool_var("") for _ in stocks] for tie in ties}
        for types in is_of.values():
            self._model.add_at_most_one(types)
        held: dict[tuple[HeldAs, int], cp_model.IntVar] = {}
        for one in sorted(wanted, key=lambda one: (one.num_gpus, one.tie or 0, one.gpu_type or "")):
            for k in lies_on[one]:
                held[one, k] = self._model.new_int_var(0, wanted[one], "")
                if one.tie is not None:
                    self._model.add(held[one, k] <= wanted[one] * is_of[one.tie][k])
            self._model.add(sum(held[one, k] for k in lies_on[one]) <= wanted[one])
        return held

    def _pack(self, k: int) -> None:
        """Pieces fit into what is taken of the group's nodes."""
        group, taken = self._layout.groups[k], self._taken[k]
        sizes = cell_sizes(self._layout.stocks[group.stock].node_gpus)
        cells = []
        for piece, var in self._pieces[k].items():
            odd = sum(one.odd.count(piece) * nodes for one, nodes in taken.items() if piece in one.odd)
            if self._is_told_apart(group, piece):
                self._model.add(var == odd)
            else:
                self._model.add(var >= odd)
            cells.append((counts_as(self._layout, group, piece), var - odd))
        used = sum(one.cells * nodes for one, nodes in taken.items())
        self._model.add(sum(cell * number for cell, number in cells) == used)
        for size in sizes[1:] if len(group.nodes) > 1 else ():
            asked = sum(number * (cell // size) for cell, number in cells if cell >= size)
            self._model.add(asked <= sum(nodes * (one.cells // size) for one, nodes in taken.items()))

    def _is_told_apart(self, group: Group, piece: int) -> bool:
        """Whether all pieces of a size count as what they are: no node has room for more of them."""
        odd = self._odd_sizes(group)
        return piece in odd and (_MOST_ODD + 1) * min(odd) > self._free(group, ())

    def _odd_sizes(self, group: Group) -> list[int]:
        """Pieces that would waste a part of their cell."""
        sizes = self._sizes[group.stock]
        return [size for size in sizes if counts_as(self._layout, group, size) > size]

    def _balance(self, k: int) -> None:
        """Every piece that is asked of a type is on one of its groups."""
        node_gpus = self._layout.stocks[k].node_gpus
        for size in self._sizes[k]:
            given = [
                pieces[size]
                for group, pieces in zip(self._layout.groups, self._pieces, strict=True)
                if group.stock == k and size in pieces
            ]
            asked = [
                started[k] * pieces_of(kind.num_gpus, node_gpus).count(size)
                for kind, started in zip(self._layout.kinds, self._started, strict=True)
                if k in started
            ]
            asked += [var for (held, at), var in self._held.items() if (held.num_gpus, at) == (size, k)]
            self._model.add(sum(given) == sum(asked))

    def _goals(self) -> list[tuple[cp_model.LinearExpr, int]]:
        """What is served, and the most that each tier can be; those that ask for nothing are left out."""
        goals = [self._value(is_own=True), self._held_gpus(), self._value(is_own=False)]
        return [(goal, most) for goal, most in goals if most]

    def _value(self, *, is_own: bool) -> tuple[cp_model.LinearExpr, int]:
        terms: list[cp_model.LinearExprT] = []
        most = 0
        for kind, started in zip(self._layout.kinds, self._started, strict=True):
            if kind.is_own == is_own and not kind.is_running:
                terms += [kind.value * var for var in started.values()]
                most += kind.value * len(kind.names)
        for kind, stay in zip(self._layout.kinds, self._stay, strict=True):
            if kind.is_own == is_own and not kind.is_running:
                terms += [kind.value * var for var in stay]
        return cp_model.LinearExpr.sum(terms), most

    def _held_gpus(self) -> tuple[cp_model.LinearExpr, int]:
        total = cp_model.LinearExpr.sum([held.num_gpus * var for (held, _), var in self._held.items()])
        return total, sum(piece.num_gpus for piece in self._layout.pieces)

    def _cost_of(self, waste: Sequence[FloatArray]) -> cp_model.LinearExpr:
        layout = self._layout
        terms: list[cp_model.LinearExprT] = []
        for group, taken in zip(layout.groups, self._taken, strict=True):
            lost = waste[group.stock]
            for one, nodes in taken.items():
                free = self._free(group, one.stay) - sum(one.odd) - one.cells
                terms.append(round(UNITS_PER_GPU * float(lost[free])) * nodes)
        for kind, stays in zip(layout.kinds, self._stay, strict=True):
            if kind.is_resident:
                # the least unit keeps a move that costs nothing from being made for nothing
                price_each = max(int(kind.is_running), round(UNITS_PER_GPU * kind.cost))
                terms += [-price_each * var for var in stays]
                terms.append(price_each * len(kind.names))
        return cp_model.LinearExpr.sum(terms)

    def _hint_nothing(self) -> None:
        """Begin with nothing done: a budget of moves makes it hard to find any solution at all."""
        for group, taken in zip(self._layout.groups, self._taken, strict=True):
            everybody = tuple(range(len(group.residents)))
            for one, var in taken.items():
                is_left = (one.stay, one.odd, one.cells) == (everybody, (), 0)
                self._model.add_hint(var, len(group.nodes) if is_left else 0)
        for var in (var for some in (*self._pieces, *self._started) for var in some.values()):
            self._model.add_hint(var, 0)
        for var in self._held.values():
            self._model.add_hint(var, 0)

    def _hint(self, solver: cp_model.CpSolver) -> None:
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for index, value in enumerate(solver.response_proto.solution):
            self._model.add_hint(self._model.get_int_var_from_proto_index(index), value)

    def _read(self, solver: cp_model.CpSolver, is_optimal: bool, work: float) -> Counts:
        held: list[Counter[HeldAs]] = [Counter() for _ in self._layout.stocks]
        for (one, stock), var in self._held.items():
            held[stock][one] = solver.value(var)
        return Counts(
            [Counter({at: solver.value(var) for at, var in one.items()}) for one in self._taken],
            [Counter({size: solver.value(var) for size, var in one.items()}) for one in self._pieces],
            [Counter({k: solver.value(var) for k, var in one.items()}) for one in self._started],
            held,
            is_optimal,
            solver.objective_value / UNITS_PER_GPU,
            solver.best_objective_bound / UNITS_PER_GPU,
            work,
        )


def _choices(residents: tuple[int, ...]) -> list[Choice]:
    """Who may stay: of residents of one kind the first ones, so that alike choices are one."""
    places = range(len(residents))
    return [
        stay
        for size in range(len(residents) + 1)
        for stay in combinations(places, size)
        if all(at - 1 in stay for at in stay if at and residents[at - 1] == residents[at])
    ]


def _few_of(sizes: Sequence[int], room: int) -> list[tuple[int, ...]]:
    """None, one or two of these sizes that go into a node with so much room."""
    few = [some for number in range(_MOST_ODD + 1) for some in combinations_with_replacement(sizes, number)]
    return [some for some in few if sum(some) <= room]


def counts_as(layout: Layout, group: Group, piece: int) -> int:
    """GPUs that a piece counts as in a group: its cell, or on a single node what it is."""
    return piece if len(group.nodes) == 1 else cell_of(piece, layout.stocks[group.stock].node_gpus)


def _piece_sizes(layout: Layout, stock: int) -> list[int]:
    """GPUs of the pieces that may go on a type, ascending."""
    node_gpus = layout.stocks[stock].node_gpus
    widths = {kind.num_gpus for kind in layout.kinds if stock in kind.stocks}
    sizes = {piece for width in widths for piece in pieces_of(width, node_gpus)}
    return sorted(sizes | {piece.num_gpus for piece in layout.pieces if piece.num_gpus <= node_gpus})


_FOUND = (cp_model.OPTIMAL, cp_model.FEASIBLE)


def _solve(model: cp_model.CpModel, limits: Limits) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed
    solver.parameters.max_deterministic_time = limits.deterministic
    solver.parameters.max_time_in_seconds = limits.wall_s
    return solver, solver.solve(model)


def _rest(limits: Limits, solver: cp_model.CpSolver) -> Limits:
    """What is left of the limits after a solve."""
    return replace(
        limits,
        deterministic=max(0.0, limits.deterministic - solver.response_proto.deterministic_time),
        wall_s=max(0.0, limits.wall_s - solver.wall_time),
    )
