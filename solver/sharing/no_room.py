"""Why no node can run a request, with the numbers."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from solver.sharing import mig
from solver.sharing.nodes import BoolArray, NodeStates
from solver.sharing.requests import NO_PROFILE, WHOLE_MILLI, Demand


class NoRoom(StrEnum):
    """What a request lacks; `docs/fragmentation.md` says what each of them means."""

    UNKNOWN_GPU_TYPE = "unknown-gpu-type"
    NO_SUCH_SLICE = "no-such-slice"
    LARGER_THAN_NODES = "larger-than-nodes"
    NO_GPU = "no-gpu"
    NO_SLICE = "no-slice"
    NO_CPU = "no-cpu"
    NO_MEMORY = "no-memory"
    STREWN = "strewn"


class Reason(NamedTuple):
    """Why a request has no place.

    Attributes:
        why: what it lacks.
        text: one sentence.
    """

    why: NoRoom
    text: str


def why_no_room(states: NodeStates, empty: NodeStates, demand: Demand) -> Reason:
    """The reason of a demand that no node can run.

    Args:
        states: what is free.
        empty: what would be free if nothing ran.
        demand: what is asked for.
    """
    never = _never(empty, demand)
    if never is not None:
        return never
    has_gpus = _has_gpus(states, demand)
    if not has_gpus.any():
        return _no_gpu(states, demand)
    has_cpu = states.cpu_milli >= demand.cpu_milli
    has_memory = states.memory_mib >= demand.memory_mib
    nodes = f"{has_gpus.sum()} nodes have the GPUs" if demand.num_gpus else f"there are {len(states)} nodes"
    if not (has_gpus & has_cpu).any():
        most = states.cpu_milli[has_gpus].max() / 1000
        return Reason(
            NoRoom.NO_CPU, f"{nodes}, the most CPUs free are {most:g} of {demand.cpu_milli / 1000:g}"
        )
    if not (has_gpus & has_memory).any():
        most_mib = states.memory_mib[has_gpus].max()
        text = f"{nodes}, the most memory free is {most_mib} MiB of {demand.memory_mib} MiB"
        return Reason(NoRoom.NO_MEMORY, text)
    return Reason(NoRoom.STREWN, f"{nodes}, some with CPUs enough and some with memory, none with both")


def _never(empty: NodeStates, demand: Demand) -> Reason | None:
    """Why it could not run even if nothing else ran."""
    is_type = (empty.type_bit & demand.types) != 0
    if demand.num_gpus and not is_type.any():
        return Reason(NoRoom.UNKNOWN_GPU_TYPE, "no node has GPUs of a type that it accepts")
    if demand.profile != NO_PROFILE and not empty.serves(demand).any():
        name = mig.PROFILE_NAMES[demand.profile]
        return Reason(NoRoom.NO_SUCH_SLICE, f"no GPU that it accepts is in MIG mode and has {name}")
    if not empty.can_run(demand).any():
        return Reason(NoRoom.LARGER_THAN_NODES, "no node could run it even if nothing else ran")
    return None


def _has_gpus(states: NodeStates, demand: Demand) -> BoolArray:
    if not demand.num_gpus:
        return np.ones(len(states), dtype=np.bool_)
    has: BoolArray = states.serves(demand).sum(axis=1) >= demand.num_gpus
    return has


def _no_gpu(states: NodeStates, demand: Demand) -> Reason:
    is_type = (states.type_bit & demand.types) != 0
    if demand.profile != NO_PROFILE:
        name = mig.PROFILE_NAMES[demand.profile]
        partitioned = int((states.slices[is_type] >= 0).sum())
        text = f"{partitioned} GPUs that it accepts are in MIG mode, on none is a legal start left for {name}"
        return Reason(NoRoom.NO_SLICE, text)
    most = int(states.serves(demand).sum(axis=1).max(initial=0))
    share = "idle" if demand.gpu_milli == WHOLE_MILLI else f"with {demand.gpu_milli} thousandths free"
    text = f"asks for {demand.num_gpus} GPUs {share} on one node, the most of an accepted type are {most}"
    return Reason(NoRoom.NO_GPU, text)
