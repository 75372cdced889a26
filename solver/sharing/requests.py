"""What a request asks for, and the mix of requests that a cluster is expected to see."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from domain.errors import SettingError
from solver.sharing import mig

WHOLE_MILLI: Final = 1000
NO_PROFILE: Final = -1


@dataclass(frozen=True, slots=True)
class Request:
    """One pod (or one worker of a gang): it runs on one node.

    Attributes:
        cpu_milli: thousandths of a CPU.
        memory_mib: main memory.
        num_gpus: GPUs on which it needs a share each; 0: none.
        gpu_milli: the share of each of them, in thousandths; 1000: the whole GPU.
        profile: MIG slice it asks for instead ("3g.20gb"), on one GPU; empty: none.
        gpu_types: types it accepts; empty: any.

    Raises:
        SettingError: if it asks for what does not exist.
    """

    cpu_milli: int = 0
    memory_mib: int = 0
    num_gpus: int = 0
    gpu_milli: int = WHOLE_MILLI
    profile: str = ""
    gpu_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.num_gpus) < 0:
            raise SettingError(f"a request cannot be negative: {self}")
        if not 0 < self.gpu_milli <= WHOLE_MILLI:
            raise SettingError(f"gpu_milli is {self.gpu_milli}, must lie in 1..{WHOLE_MILLI}")
        if self.profile:
            mig.profile_code(self.profile)
            if self.num_gpus != 1 or self.gpu_milli != WHOLE_MILLI:
                raise SettingError(f"a MIG slice is one share of one GPU, without gpu_milli: {self}")


class Share(NamedTuple):
    """A share of one GPU: a MIG profile, or NO_PROFILE and thousandths."""

    profile: int
    milli: int


class Demand(NamedTuple):
    """A request in the numbers of a cluster.

    Attributes:
        cpu_milli: thousandths of a CPU.
        memory_mib: main memory.
        num_gpus: GPUs on which it needs a share each.
        gpu_milli: the share of each, a slice's among them; 0 where it needs no GPU.
        profile: code of the MIG profile, or NO_PROFILE.
        types: bit i: it accepts GPUs of type i of the cluster.
    """

    cpu_milli: int
    memory_mib: int
    num_gpus: int
    gpu_milli: int
    profile: int
    types: int

    @property
    def is_fraction(self) -> bool:
        """It wants one part of one GPU, so that it matters which GPU of the node it gets."""
        return self.num_gpus == 1 and self.profile == NO_PROFILE and self.gpu_milli < WHOLE_MILLI


def demand_of(request: Request, types: Sequence[str]) -> Demand:
    """The request in the numbers of a cluster whose GPU types are `types`, in order.

    Raises:
        SettingError: if it names a GPU type that the cluster does not have.
    """
    unknown = sorted(set(request.gpu_types) - set(types))
    if unknown:
        raise SettingError(f"GPU type {unknown[0]!r} is on no node; the cluster has {', '.join(types)}")
    bits = sum(1 << types.index(name) for name in set(request.gpu_types or types))
    profile = mig.profile_code(request.profile) if request.profile else NO_PROFILE
    milli = request.gpu_milli if profile == NO_PROFILE else mig.share_milli(profile)
    shares = (request.num_gpus, milli if request.num_gpus else 0)
    return Demand(request.cpu_milli, request.memory_mib, *shares, profile, bits)


@dataclass(frozen=True)
class TaskMix:
    """Task classes and how often each is asked for: the M of the fragmentation measure.

    Attributes:
        demands: the classes.
        weights: their shares among all requests, adding up to 1; shape (classes,).
    """

    demands: tuple[Demand, ...]
    weights: npt.NDArray[np.float64]

    @cached_property
    def columns(self) -> dict[str, npt.NDArray[np.int64]]:
        """The fields of the classes, each of shape (classes,)."""
        return {
            name: np.array([getattr(demand, name) for demand in self.demands], dtype=np.int64)
            for name in Demand._fields
        }

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], npt.NDArray[np.int64]]:
        """The distinct shares of a GPU that are asked for, and which of them each class asks for."""
        asked = [Share(demand.profile, max(demand.gpu_milli, 1)) for demand in self.demands]
        distinct = tuple(sorted(set(asked)))
        return distinct, np.array([distinct.index(share) for share in asked], dtype=np.int64)


def mix_of(counts: Mapping[Demand, float], coverage: float = 1.0) -> TaskMix:
    """The mix of the most frequent classes that together make up `coverage` of all requests.

    Args:
        counts: how often each class is asked for (or any weight).
        coverage: share of the requests in (0, 1]; FGD's published runs use 0.95.

    Raises:
        ValueError: if there is nothing to count.
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    total = sum(counts.values())
    if total <= 0:
        raise ValueError("a task mix needs at least one request")
    kept: list[tuple[Demand, float]] = []
    while ranked[len(kept) :] and sum(count for _, count in kept) < coverage * total - 1e-9:
        kept.append(ranked[len(kept)])
    weights = np.array([count for _, count in kept], dtype=np.float64)
    return TaskMix(tuple(demand for demand, _ in kept), weights / weights.sum())


def counted(demands: Iterable[Demand], *, by_memory: bool = False) -> Counter[Demand]:
    """How often each class is asked for; without `by_memory` main memory does not tell classes apart."""
    return Counter(demand if by_memory else demand._replace(memory_mib=0) for demand in demands)
