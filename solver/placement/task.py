"""What is to be placed, and what comes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Hold, Placement


class Want(NamedTuple):
    """A gang to start.

    Attributes:
        job: the gang.
        is_own: whether it is its pool's own; all of these come before what is held, and that before guests.
        value: what starting it is worth beside others of its kind, a whole number; few distinct ones
            make a small model. None: its GPUs.
        assigned: GPUs that an earlier plan gave it and that are idle still; empty if none did.
    """

    job: Job
    is_own: bool
    value: int | None = None
    assigned: tuple[Gpu, ...] = ()


class Held(NamedTuple):
    """GPUs to keep idle for a pool, and the widest gang that they are for.

    Attributes:
        hold: what is kept, for whom.
        widest_gpus: GPUs of the widest gang.
        is_piece: it is one piece of a larger hold, to lie on one node.
        gpu_type: type that it has to be of, as other pieces of that hold are; None: of any.
    """

    hold: Hold
    widest_gpus: int
    is_piece: bool = False
    gpu_type: str | None = None


class Movable(NamedTuple):
    """A running gang that may be moved, and where it runs.

    Attributes:
        job: the gang.
        gpus: where it runs.
        cost: what moving it costs, at least 0, in GPUs left unusable (FGD); None: `Costs.move` for each of
            its GPUs.
    """

    job: Job
    gpus: tuple[Gpu, ...]
    cost: float | None = None

    def price(self, costs: "Costs") -> float:
        """What moving it costs, in GPUs left unusable."""
        return costs.move * len(self.gpus) if self.cost is None else self.cost


class Move(NamedTuple):
    """A running gang changes its GPUs."""

    job_id: str
    old: tuple[Gpu, ...]
    new: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class PlaceTask:
    """One instant's placing.

    Attributes:
        nodes: all nodes.
        idle: idle GPUs of each node, those assigned to waiting gangs included.
        wants: gangs to start.
        holds: GPUs to keep idle, earlier ones first.
        movable: running gangs that may be moved.
        max_moves: how many of them may be.
        widths: widths of the gangs to come, for the fragmentation of what stays idle.
        shares: share of each width; they add up to one.

    Raises:
        ValueError: if a job is named twice, a GPU is idle and in use at once, or a move costs less than
            nothing.
    """

    nodes: tuple[Node, ...]
    idle: Mapping[str, Sequence[Gpu]]
    wants: tuple[Want, ...] = ()
    holds: tuple[Held, ...] = ()
    movable: tuple[Movable, ...] = ()
    max_moves: int = 0
    widths: tuple[int, ...] = (1,)
    shares: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        ids = [want.job.job_id for want in self.wants] + [one.job.job_id for one in self.movable]
        if len(set(ids)) != len(ids):
            raise ValueError("a job is to be placed twice")
        idle = {gpu for gpus in self.idle.values() for gpu in gpus}
        if any(gpu in idle for one in self.movable for gpu in one.gpus):
            raise ValueError("a GPU of a running gang is idle")
        if any(one.cost is not None and one.cost < 0 for one in self.movable):
            raise ValueError("a move costs less than nothing")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a placing pays for quality, in GPUs left unusable (FGD) per GPU.

    Attributes:
        reassign: of a waiting gang that loses the GPUs an earlier plan gave it.
        move: of a running gang that is moved and names no price of its own.
    """

    reassign: float = 0.5
    move: float = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a solve stops.

    Attributes:
        deterministic: work of the solver, in its own unit of about a second; decides.
        wall_s: kill switch, seconds.
        max_nodes: nodes of one model; more are solved in groups of nodes.
        seed: of the solver.
    """

    deterministic: float = 1.0
    wall_s: float = 5.0
    max_nodes: int = 1500
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Placing:
    """Where everything goes.

    Attributes:
        placements: gangs that start, in canonical order.
        held: GPUs kept idle for each hold, in the order of the holds; each tuple lies on one node. A hold is
            full if they add up to it; then any gang up to its widest fits into it, on GPUs of one type.
        steps: moves in the order in which they are made; those of one step at once (gangs that exchange
            places), so that no GPU is ever given twice. Starts come after them.
        unplaced: why a gang was not placed, by job id.
        status: `optimal`, `feasible` (stopped at a limit) or `greedy`. With moves, what is proven is proven
            of the running gangs that were considered (`solver.placement.movers`).
        objective: expected GPUs of what stays idle that the next gang cannot use (FGD), plus the price of
            changes.
        bound: the least that it could be with as much started and held, as far as proven.
        deterministic_s: work of the solver, to the nanosecond: beyond that the order of its sums shows.
        fallback: `greedy` if the model gave nothing better; `incumbent` if it was cut short; `no-moves` if it
            was cut short with moves and found more without; `groups` if it was split; else None.
        groups: groups of nodes that were solved one by one.
    """

    placements: tuple[Placement, ...] = ()
    held: tuple[tuple[tuple[Gpu, ...], ...], ...] = ()
    steps: tuple[tuple[Move, ...], ...] = ()
    unplaced: Mapping[str, str] = field(default_factory=dict)
    status: str = "optimal"
    objective: float = 0.0
    bound: float = 0.0
    deterministic_s: float = 0.0
    fallback: str | None = None
    groups: int = 1

    @property
    def gap(self) -> float:
        """(objective - bound) / objective; 0 where it is proven optimal."""
        return max(0.0, self.objective - self.bound) / max(self.objective, 1e-9)
