"""Files in: the arrow from nodes, gangs and holds to one placing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.services.earlier_places import EarlierFile, read_earlier
from data.readers.benchmark_csv import read_nodes
from data.readers.place_csv import HeldGpus, RunningGang, WaitingGang, read_holds, read_running, read_waiting
from data.rules import FaultLog, Rule, shown
from domain.cluster import ANY_TYPE, Gpu, Node
from domain.errors import Fault, InputError
from domain.jobs import Job
from solver.placement.again import Earlier
from solver.placement.greedy import types_for
from solver.placement.task import Held, Movable, PlaceTask, Want


@dataclass(frozen=True)
class Source:
    """Where a placing comes from; the fields are the command line's options of the same names."""

    nodes: Path
    waiting: Path
    running: Path | None = None
    holds: Path | None = None
    previous: Path | None = None
    max_moves: int = 0
    is_lenient: bool = False


@dataclass(frozen=True)
class Inputs:
    """A task, and what was seen on the way to it.

    Attributes:
        task: what is to be placed.
        running: gangs that run, those that may not be moved among them.
        earlier: what an earlier plan decided; None where none was given.
        skipped: faults of the rows that were left out (lenient reading only).
        notes: what was read and could not be used as it is, one sentence each.
    """

    task: PlaceTask
    running: tuple[RunningGang, ...]
    earlier: Earlier | None
    skipped: tuple[Fault, ...]
    notes: tuple[str, ...]


def load(source: Source) -> Inputs:
    """Read the files of one placing.

    Raises:
        InputError: with every fault found in a file.
    """
    nodes = read_nodes(source.nodes)
    waiting, skipped = read_waiting(source.waiting, nodes, is_lenient=source.is_lenient)
    running = () if source.running is None else read_running(source.running, nodes)
    holds = () if source.holds is None else read_holds(source.holds)
    waiting, twice = _not_running(waiting, running, source)
    task, lost = _task(nodes, waiting, running, holds)
    task = replace(task, max_moves=source.max_moves)
    notes = [_lost(lost)] if lost else []
    earlier = None
    if source.previous is not None:
        told = read_earlier(source.previous, nodes)
        earlier = _usable(told, task)
        notes += told.notes
    return Inputs(task, running, earlier, (*skipped, *twice), tuple(notes))


def _not_running(
    waiting: Sequence[WaitingGang], running: Sequence[RunningGang], source: Source
) -> tuple[tuple[WaitingGang, ...], list[Fault]]:
    """Gangs that wait and do not run already.

    Raises:
        InputError: if there are others, unless reading is lenient or nobody is left.
    """
    there = {one.job.job_id for one in running}
    log = FaultLog(str(source.waiting))
    for one in waiting:
        if one.job.job_id in there:
            message = f"job {shown(one.job.job_id)} waits and runs at once, says {source.running}"
            log.add(None, Rule.DUPLICATE_ID, message)
    left = tuple(one for one in waiting if one.job.job_id not in there)
    if log and not (source.is_lenient and left):
        raise InputError(log.listed())
    return left, log.listed()


def _task(
    nodes: Sequence[Node],
    waiting: Sequence[WaitingGang],
    running: Sequence[RunningGang],
    holds: Sequence[HeldGpus],
) -> tuple[PlaceTask, list[str]]:
    """The task, and the gangs that cannot keep what an earlier plan gave them."""
    used = {gpu for one in running for gpu in one.gpus}
    idle = {node.name: tuple(gpu for gpu in node.gpus() if gpu not in used) for node in nodes}
    largest = _largest(nodes)
    wants, lost = [], []
    for one in waiting:
        keeps = not one.gpus or (used.isdisjoint(one.gpus) and _is_tight(one.job, one.gpus, largest))
        wants.append(Want(one.job, not one.is_guest, one.value, one.gpus if keeps else ()))
        lost += [] if keeps else [one.job.job_id]
    types = {node.gpu_type for node in nodes}
    widths = Counter([one.job.num_gpus for one in waiting] + [one.job.num_gpus for one in running])
    total = widths.total()
    task = PlaceTask(
        nodes=tuple(nodes),
        idle=idle,
        wants=tuple(wants),
        holds=tuple(Held(one.hold, one.widest_gpus, gpu_type=_type_of(one, types)) for one in holds),
        movable=tuple(Movable(one.job, one.gpus, one.move_cost) for one in running if one.is_movable),
        widths=tuple(sorted(widths)),
        shares=tuple(widths[width] / total for width in sorted(widths)),
    )
    return task, lost


def _type_of(one: HeldGpus, types: set[str]) -> str | None:
    """Type that a hold's GPUs have to be of; those of which nobody said a type are any type's."""
    return None if one.gpu_type not in types and ANY_TYPE in types else one.gpu_type


def _largest(nodes: Sequence[Node]) -> dict[str, int]:
    """GPUs of the largest node of each type."""
    largest: dict[str, int] = {}
    for node in nodes:
        largest[node.gpu_type] = max(node.num_gpus, largest.get(node.gpu_type, 1))
    return largest


def _is_tight(job: Job, gpus: Sequence[Gpu], largest: Mapping[str, int]) -> bool:
    """Whether a gang is whole, on one type that it may get, and on the fewest nodes."""
    kinds = {gpu.gpu_type for gpu in gpus}
    if (
        len(gpus) != job.num_gpus
        or len(kinds) != 1
        or not kinds <= set(types_for(len(gpus), job.gpu_type, largest))
    ):
        return False
    return len({gpu.node for gpu in gpus}) == -(-len(gpus) // largest[kinds.pop()])


def _usable(told: EarlierFile, task: PlaceTask) -> Earlier:
    """An earlier plan without what this task's gangs cannot have any more."""
    largest = _largest(task.nodes)
    jobs = {want.job.job_id: want.job for want in task.wants}
    runs = {one.job.job_id: one for one in task.movable}
    plan = told.plan
    return Earlier(
        {
            job_id: gpus
            for job_id, gpus in plan.starts.items()
            if job_id in jobs and _is_tight(jobs[job_id], gpus, largest)
        },
        {
            job_id: gpus
            for job_id, gpus in plan.moves.items()
            if job_id in runs and _may_go(runs[job_id], gpus)
        },
        plan.held,
    )


def _may_go(one: Movable, gpus: Sequence[Gpu]) -> bool:
    """Whether a gang on one node is moved to as many GPUs of one other, of the same type."""
    is_alike = len(gpus) == len(one.gpus) and {g.gpu_type for g in gpus} == {g.gpu_type for g in one.gpus}
    return is_alike and len({gpu.node for gpu in gpus}) == 1 == len({gpu.node for gpu in one.gpus})


def _lost(job_ids: Sequence[str]) -> str:
    some = ", ".join(map(shown, job_ids[:5])) + (", ..." if len(job_ids) > 5 else "")
    return f"{len(job_ids)} gangs cannot keep the GPUs they were given, in use or on too many nodes: {some}"
