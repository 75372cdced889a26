"""Why a placing left a gang out, with the numbers: what it asks for, what there is, and who has it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from domain.cluster import Gpu
from domain.jobs import Job
from solver.placement.fit import TypeRoom, rooms_for, rooms_of, usable
from solver.placement.gains import idle_after
from solver.placement.task import PlaceTask, Placing

_NAMED: Final = 4


class LeftOut(StrEnum):
    """What keeps a gang from a place; `docs/placement.md` says what each of them means."""

    UNKNOWN_GPU_TYPE = "unknown-gpu-type"
    WIDER_THAN_NODES = "wider-than-nodes"
    WIDER_THAN_IDLE = "wider-than-idle"
    NO_NODE_FITS = "no-node-fits"
    HELD_FOR_POOL = "held-for-pool"
    OTHERS_FIRST = "others-first"


class Reason(NamedTuple):
    """Why one gang has no place.

    Attributes:
        why: what binds.
        text: one sentence.
    """

    why: LeftOut
    text: str


def why_left_out(task: PlaceTask, placing: Placing) -> dict[str, Reason]:
    """The reason of each gang of a task that the placing does not start, in the order of the task."""
    placed = {one.job_id for one in placing.placements}
    scene = _Scene(task, placing)
    return {want.job.job_id: scene.reason(want.job) for want in task.wants if want.job.job_id not in placed}


class _Scene:
    """Room by type: on empty nodes, on what is idle now, and on what is left with and without holds."""

    def __init__(self, task: PlaceTask, placing: Placing) -> None:
        held = [gpu for pieces in placing.held for piece in pieces for gpu in piece]
        after = {name: len(gpus) for name, gpus in idle_after(task, placing).items()}
        for gpu in held:
            after[gpu.node] = after.get(gpu.node, 0) + 1
        self._task = task
        self._placing = placing
        self._empty = self._rooms({node.name: node.num_gpus for node in task.nodes})
        self._idle = self._rooms({name: len(gpus) for name, gpus in task.idle.items()})
        self._unheld = self._rooms(after)

    def reason(self, job: Job) -> Reason:
        """Why one gang has no place."""
        of_type = "" if job.gpu_type is None else f" of type {job.gpu_type}"
        rooms = usable(self._empty, job.gpu_type)
        if not rooms:
            there = ", ".join(one.gpu_type for one in self._empty[:_NAMED]) or "none"
            return Reason(LeftOut.UNKNOWN_GPU_TYPE, f"asks for GPUs{of_type}, the nodes have: {there}")
        if not self._holds(self._empty, job):
            widest = max(one.widest_gpus() for one in rooms)
            text = (
                f"asks for {job.num_gpus} GPUs{of_type}; the widest gang that empty nodes hold has {widest}"
            )
            return Reason(LeftOut.WIDER_THAN_NODES, text)
        idle_gpus = sum(one.idle_gpus for one in usable(self._idle, job.gpu_type))
        if idle_gpus < job.num_gpus:
            text = f"asks for {job.num_gpus} GPUs{of_type}, {idle_gpus} are idle"
            return Reason(LeftOut.WIDER_THAN_IDLE, text)
        if not self._holds(self._idle, job):
            fit = rooms_for(self._idle, job.num_gpus, job.gpu_type)
            widest = max((one.widest_gpus() for one in fit), default=0)
            text = (
                f"fits no node although {idle_gpus} GPUs{of_type} are idle: the widest that fits has {widest}"
            )
            return Reason(LeftOut.NO_NODE_FITS, text)
        return self._taken(job)

    def _taken(self, job: Job) -> Reason:
        """Of a gang that would fit if it came first."""
        nodes = {node for one in rooms_for(self._idle, job.num_gpus, job.gpu_type) for node in one.free}
        if self._holds(self._unheld, job):
            pools = [
                held.hold.pool
                for held, pieces in zip(self._task.holds, self._placing.held, strict=True)
                if any(gpu.node in nodes for piece in pieces for gpu in piece)
            ]
            text = f"would fit on GPUs that are kept for {_listed('pool', pools)}"
            return Reason(LeftOut.HELD_FOR_POOL, text)
        takers = [one.job_id for one in self._placing.placements if _on(one.gpus, nodes)]
        pools = [
            held.hold.pool
            for held, pieces in zip(self._task.holds, self._placing.held, strict=True)
            if any(_on(piece, nodes) for piece in pieces)
        ]
        who = " and ".join(_listed(*one) for one in (("gang", takers), ("pool", pools)) if one[1])
        text = f"would fit if it came first; the GPUs go to {who or 'others'}"
        return Reason(LeftOut.OTHERS_FIRST, text)

    def _rooms(self, idle_gpus: Mapping[str, int]) -> list[TypeRoom]:
        return rooms_of(idle_gpus, self._task.nodes)

    @staticmethod
    def _holds(rooms: Sequence[TypeRoom], job: Job) -> bool:
        return any(one.holds(job.num_gpus) for one in rooms_for(rooms, job.num_gpus, job.gpu_type))


def _on(gpus: Sequence[Gpu], nodes: set[str]) -> bool:
    return any(gpu.node in nodes for gpu in gpus)


def _listed(noun: str, names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _NAMED} more" if len(distinct) > _NAMED else ""
    return f"{noun}{'s' * (len(distinct) > 1)} {', '.join(distinct[:_NAMED])}{more}"
