"""The starts of one decision on real nodes, and what is kept free for gangs that have to wait.

Own starts come first, in their order, then the cells of gangs that GPUs are held for, then guests. Each of
the two steps is greedy at first. The model of `solver.placement.model` is asked only where the greedy rule
leaves somebody out whom it might serve: where idle GPUs suffice in sum, and widths are no powers of two or
there are several types (else the rule is exact, `solver.placement.cells`).

An own start, or a gang that GPUs are held for, that finds no place keeps the idle GPUs of the nodes that lack
the fewest for it: as gangs end there, they become its own, and no guest may start on them meanwhile.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from domain.cluster import Gpu, Node
from domain.jobs import Job
from solver.explain.words import Why
from solver.placement.cells import cell_of, pieces_of
from solver.placement.fit import TypeRoom, rooms_for, rooms_of, usable
from solver.placement.greedy import place
from solver.placement.task import Limits, PlaceTask, Want

Places = Mapping[str, tuple[Gpu, ...]]
Idle = Mapping[str, Sequence[Gpu]]

LIVE_LIMITS: Final = Limits(deterministic=0.2, wall_s=2.0)
"""Of one step: a decision is asked for at every event."""

_MOST_LEFT: Final = 16
"""Gangs left out by the greedy rule that the model is asked about, the first ones."""


class Unplaced(NamedTuple):
    """Why a start has no place.

    Attributes:
        why: `no-node-fits`; `behind-due-job` where what would hold it is kept; `wider-than-idle` or
            `no-idle-gpu` where too few GPUs of its type are idle.
        text: one sentence.
    """

    why: Why
    text: str

    def __str__(self) -> str:
        return f"{self.why}: {self.text}"


@dataclass(frozen=True, slots=True)
class Dealt:
    """Where the starts of a decision go.

    Attributes:
        places: GPUs of each that starts, by job id, in the order in which they were asked for.
        unplaced: why each of the others does not.
        kept: idle GPUs that no guest may have, by the id of the gang they are kept for.
        solves: how often the model was asked.
    """

    places: Places
    unplaced: Mapping[str, Unplaced]
    kept: Places = field(default_factory=dict)
    solves: int = 0


@dataclass(frozen=True, slots=True)
class Starts:
    """What a decision asks for, each in the order in which it is served.

    Attributes:
        own: starts of pools' own jobs.
        held: gangs that wait and that GPUs are held for.
        guests: starts on lent GPUs.
    """

    own: Sequence[Job] = ()
    held: Sequence[Job] = ()
    guests: Sequence[Job] = ()


def place_starts(
    starts: Starts,
    idle: Idle,
    nodes: Sequence[Node],
    coming: Iterable[int] = (),
    limits: Limits = LIVE_LIMITS,
) -> Dealt:
    """Place what a decision starts, own jobs first, guests only where they break no cell that is kept.

    Args:
        starts: what is to start; all job ids differ.
        idle: idle GPUs of each node that has some.
        nodes: all nodes that are there.
        coming: widths of the gangs to come, for which the model keeps what stays idle usable.
        limits: when the model stops, in each of the two steps.
    """
    desk = _Desk(nodes, Counter(coming) or Counter((1,)), limits)
    first = desk.serve(starts.own, starts.held, idle)
    held = [job for job in starts.held if job.job_id in first]
    own = {job.job_id: first[job.job_id] for job in starts.own if job.job_id in first}
    left = _without(idle, own.values())
    late = [job for job in (*starts.own, *starts.held) if job.job_id not in first]
    cells = {job.job_id: first[job.job_id] for job in held}
    drained = desk.drain(late, _without(left, cells.values()))
    guests, cells = desk.lend(starts.guests, held, cells, _without(left, drained.values()))
    kept = cells | drained
    places = own | guests
    keepers = [(job, kept[job.job_id]) for job in (*starts.own, *starts.held) if kept.get(job.job_id)]
    unplaced: dict[str, Unplaced] = {}
    spare = idle  # when it is a job's turn
    for job in (*starts.own, *starts.guests):
        if job.job_id in places:
            spare = _without(spare, [places[job.job_id]])
        else:
            unplaced[job.job_id] = desk.why(job, spare, keepers)
    return Dealt(places, unplaced, kept, desk.solves)


class _Desk:
    """Serves gangs in two tiers, the first before the second."""

    def __init__(self, nodes: Sequence[Node], coming: Counter[int], limits: Limits) -> None:
        self._nodes = nodes
        self._coming = coming
        self._limits = limits
        self.solves = 0

    def serve(self, first: Sequence[Job], then: Sequence[Job], idle: Idle) -> dict[str, tuple[Gpu, ...]]:
        """GPUs of those that get some: the first tier before the other, in each earlier ones first."""
        found = self._greedy(first, idle)
        found |= self._greedy(then, _without(idle, found.values()))
        jobs = [*first, *then]
        if not self._may_gain([job for job in jobs if job.job_id not in found], jobs, idle, found):
            return found
        better = self._solve(first, then, idle, found)
        served = [[job.job_id in one for job in jobs] for one in (found, better)]
        return better if served[1] > served[0] else found

    def lend(
        self, guests: Sequence[Job], held: Sequence[Job], cells: Places, idle: Idle
    ) -> tuple[dict[str, tuple[Gpu, ...]], dict[str, tuple[Gpu, ...]]]:
        """GPUs of guests, and the cells of held gangs, which may be others now but all stay placed."""
        found = self.serve(held, guests, idle)
        if any(job.job_id not in found for job in held):
            return self.serve((), guests, _without(idle, cells.values())), dict(cells)
        kept = {job.job_id: found.pop(job.job_id) for job in held}
        return found, kept

    def drain(self, late: Iterable[Job], idle: Idle) -> dict[str, tuple[Gpu, ...]]:
        """Idle GPUs of the nodes that lack the fewest for each gang, on nodes of its own."""
        rooms = self._rooms(idle)
        barred: set[str] = set()
        kept: dict[str, tuple[Gpu, ...]] = {}
        for job in late:
            choices = [room.nearest(job.num_gpus, barred) for room in rooms_for(rooms, *_asks(job))]
            choices = [choice for choice in choices if choice]
            if choices:
                best = min(choices, key=lambda choice: sum(one.gpus for one in choice))
                barred |= {one.node for one in best}
                kept[job.job_id] = tuple(gpu for one in best for gpu in idle.get(one.node, ()))
        return kept

    def why(self, job: Job, spare: Idle, kept: Sequence[tuple[Job, Sequence[Gpu]]]) -> Unplaced:
        """Why a job has no place, with so much left idle and some of that kept for others."""
        rooms = usable(self._rooms(spare), job.gpu_type)
        total, idle_gpus = sum(room.total_gpus for room in rooms), sum(room.idle_gpus for room in rooms)
        kind = "" if job.gpu_type is None else f" of type {job.gpu_type}"
        if idle_gpus < job.num_gpus:
            there = f"{idle_gpus} are idle" if total >= job.num_gpus else f"there are {total}"
            why = Why.WIDER_THAN_IDLE if idle_gpus else Why.NO_IDLE_GPU
            return Unplaced(why, f"asks for {job.num_gpus} GPUs{kind}, {there}")
        fit = rooms_for(rooms, *_asks(job))
        for other, gpus in kept if any(room.holds(job.num_gpus) for room in fit) else ():
            if any(gpu.node in room.free for room in fit for gpu in gpus):
                text = f"the nodes that would hold it are kept for pool {other.pool} ({other.job_id})"
                return Unplaced(Why.BEHIND_DUE_JOB, text)
        widest = max((room.widest_gpus() for room in fit), default=0)
        text = f"does not fit any node although {idle_gpus} GPUs{kind} are idle: the widest gang has {widest}"
        return Unplaced(Why.NO_NODE_FITS, text)

    def _greedy(self, jobs: Sequence[Job], idle: Idle) -> dict[str, tuple[Gpu, ...]]:
        return {one.job_id: one.gpus for one in place(jobs, idle, self._nodes)} if jobs else {}

    def _rooms(self, idle: Idle) -> list[TypeRoom]:
        return rooms_of({node: len(gpus) for node, gpus in idle.items()}, self._nodes)

    def _may_gain(self, left: Sequence[Job], jobs: Sequence[Job], idle: Idle, found: Places) -> bool:
        """Whether the model might serve somebody whom the greedy rule left out."""
        if not left:
            return False
        rooms, spare = self._rooms(idle), self._rooms(_without(idle, found.values()))
        room = sum(one.idle_gpus for one in spare)
        suffices = any(
            job.num_gpus <= min(room, sum(one.idle_gpus for one in usable(rooms, job.gpu_type)))
            for job in left
        )
        return suffices and not all(self._is_exact(job, rooms) for job in jobs)

    @staticmethod
    def _is_exact(job: Job, rooms: Sequence[TypeRoom]) -> bool:
        """Whether counts of cells say exactly if the job fits: one type, and no piece below its cell."""
        fit = rooms_for(rooms, *_asks(job))
        if len(fit) != 1:
            return not fit
        pieces = pieces_of(job.num_gpus, fit[0].node_gpus)
        return all(cell_of(piece, fit[0].node_gpus) == piece for piece in pieces)

    def _solve(
        self, first: Sequence[Job], then: Sequence[Job], idle: Idle, found: Places
    ) -> dict[str, tuple[Gpu, ...]]:
        """By the model: all whom the greedy rule serves, and of the others whom it can."""
        from solver.placement.model import solve_placing  # noqa: PLC0415 - ortools; most decisions need none

        self.solves += 1
        own = _worth(first, found)
        asked = [*own, *_worth(then, found)]
        wants = tuple(
            Want(replace(job, job_id=f"{rank:06d}", submit_s=float(rank)), rank < len(own), value)
            for rank, (job, value) in enumerate(asked)
        )
        total = self._coming.total()
        task = PlaceTask(
            tuple(self._nodes),
            idle,
            wants,
            widths=tuple(sorted(self._coming)),
            shares=tuple(self._coming[width] / total for width in sorted(self._coming)),
        )
        placing = solve_placing(task, limits=self._limits)
        return {asked[int(one.job_id)][0].job_id: one.gpus for one in placing.placements}


def _worth(jobs: Sequence[Job], found: Places) -> list[tuple[Job, int]]:
    """Jobs to ask for with their worth: whoever has a place keeps it, then the first of the others.

    Worth is in powers of two, so that one counts more than all who come after it.
    """
    left = [job.job_id for job in jobs if job.job_id not in found][:_MOST_LEFT]
    worth = {job_id: 1 << (len(left) - 1 - rank) for rank, job_id in enumerate(left)}
    return [
        (job, worth.get(job.job_id, 1 << len(left)))
        for job in jobs
        if job.job_id in found or job.job_id in worth
    ]


def _asks(job: Job) -> tuple[int, str | None]:
    return job.num_gpus, job.gpu_type


def _without(idle: Idle, taken: Iterable[Iterable[Gpu]]) -> dict[str, Sequence[Gpu]]:
    gone: dict[str, set[int]] = {}
    for gpus in taken:
        for gpu in gpus:
            gone.setdefault(gpu.node, set()).add(gpu.index)
    return {
        node: [gpu for gpu in gpus if gpu.index not in gone[node]] if node in gone else gpus
        for node, gpus in idle.items()
    }
