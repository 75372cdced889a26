"""An independent look at a packing of shares: nothing is given out twice, and slices lie where they may.

It shares words with the placer and no code. Where a MIG slice may begin is derived from its name and that
of the GPU, not looked up: a GPU of 8 memory slices has 7 compute slices, one of 4 has 4; a slice of c compute
and m memory slices begins at a multiple of m, and begin + c is within the compute slices; m is the least
power of two that is no less than c, and on GPUs of 8 slices there is also one of 1 and 2.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from domain.cluster import ANY_TYPE
from solver.sharing.nodes import NodeSpec
from solver.sharing.placer import Spot
from solver.sharing.requests import Request

_WHOLE_MILLI: Final = 1000
_PROFILE: Final = re.compile(r"([0-9]+)g\.([0-9]+)gb")
_TYPE: Final = re.compile(r"[A-Z]+([0-9]+)-([0-9]+)GB")
_FOUR_SLICES: Final = "30"


class Given(NamedTuple):
    """What a request got.

    Attributes:
        name: who asked.
        request: for what.
        spot: where it went.
    """

    name: str
    request: Request
    spot: Spot


def packing_faults(specs: Sequence[NodeSpec], given: Sequence[Given]) -> list[str]:
    """What is wrong with a packing, one sentence each; empty if nothing is."""
    faults = [
        f"{name} is placed {times} times"
        for name, times in Counter(g.name for g in given).items()
        if times > 1
    ]
    for one in given:
        faults += _one(specs, one)
    if faults:
        return faults
    by_node: dict[int, list[Given]] = defaultdict(list)
    for one in given:
        by_node[one.spot.node].append(one)
    for row, here in sorted(by_node.items()):
        faults += _node(row, specs[row], here)
    return faults


def _one(specs: Sequence[NodeSpec], one: Given) -> Iterator[str]:
    """A request by itself: as many GPUs as it asks for, which there are, of its types, in the right mode."""
    request, spot = one.request, one.spot
    if not 0 <= spot.node < len(specs):
        yield f"{one.name} is on node {spot.node}, which there is not"
        return
    spec = specs[spot.node]
    if len(set(spot.gpus)) != request.num_gpus or len(spot.gpus) != request.num_gpus:
        yield f"{one.name} asks for {request.num_gpus} GPUs and gets {len(set(spot.gpus))}"
    if any(not 0 <= gpu < spec.num_gpus for gpu in spot.gpus):
        yield f"{one.name} gets a GPU that node {spot.node} has not"
    accepts = not request.gpu_types or spec.gpu_type in (*request.gpu_types, ANY_TYPE)
    if spot.gpus and not accepts:
        yield f"{one.name} gets GPUs of type {spec.gpu_type}, it accepts {', '.join(request.gpu_types)}"
    whole = spec.num_gpus - spec.partitioned
    if any((gpu >= whole) != bool(request.profile) for gpu in spot.gpus):
        yield f"{one.name} is on a GPU of the other mode"
    elif request.profile and not _may_begin(spec.gpu_type, request.profile, spot.start):
        yield f"{one.name} gets a slice {request.profile} that may not begin at {spot.start}"


def _node(row: int, spec: NodeSpec, here: Sequence[Given]) -> Iterator[str]:
    """What the requests of one node take together."""
    for what, used, there in (
        ("CPU", sum(one.request.cpu_milli for one in here), spec.cpu_milli),
        ("memory", sum(one.request.memory_mib for one in here), spec.memory_mib),
    ):
        if used > there:
            yield f"{used} of {there} {what} of node {row} are given"
    milli: Counter[int] = Counter()
    slices: dict[int, Counter[int]] = defaultdict(Counter)
    for one in here:
        for gpu in one.spot.gpus:
            if one.request.profile:
                length = _lengths(spec.gpu_type, one.request.profile)[1]
                slices[gpu].update(range(one.spot.start, one.spot.start + length))
            else:
                milli[gpu] += one.request.gpu_milli
    yield from _overfull(row, milli, slices)


def _overfull(row: int, milli: Mapping[int, int], slices: Mapping[int, Counter[int]]) -> Iterator[str]:
    for gpu, used in sorted(milli.items()):
        if used > _WHOLE_MILLI:
            yield f"{used} thousandths of GPU {gpu} of node {row} are given"
    for gpu, times in sorted(slices.items()):
        twice = sorted(one for one, count in times.items() if count > 1)
        if twice:
            yield f"memory slice {twice[0]} of GPU {gpu} of node {row} is given twice"


def _lengths(gpu_type: str, profile: str) -> tuple[int, int, int, int]:
    """Compute and memory slices of a profile, and those of the GPU; zeros where it has no such slices."""
    card, asked = _TYPE.fullmatch(gpu_type), _PROFILE.fullmatch(profile)
    if card is None or asked is None:
        return 0, 0, 0, 0
    memory_slices = 4 if card[1] == _FOUR_SLICES else 8
    compute_slices = 4 if memory_slices == 4 else 7
    length = int(asked[2]) * memory_slices / int(card[2])
    if not length.is_integer():
        return 0, 0, 0, 0
    return int(asked[1]), int(length), compute_slices, memory_slices


def _may_begin(gpu_type: str, profile: str, start: int) -> bool:
    compute, memory, all_compute, all_memory = _lengths(gpu_type, profile)
    is_shape = memory == 1 << (compute - 1).bit_length() or (compute, memory, all_memory) == (1, 2, 8)
    if not memory or not is_shape or start < 0 or start % memory:
        return False
    return start + compute <= all_compute and start + memory <= all_memory
