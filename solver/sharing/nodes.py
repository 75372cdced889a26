"""States of nodes as arrays: one row per node, one column per GPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from domain.errors import SettingError
from solver.sharing import mig
from solver.sharing.requests import NO_PROFILE, WHOLE_MILLI, Demand

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

NOT_PARTITIONED: Final = -1


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as it is delivered.

    Attributes:
        cpu_milli: thousandths of a CPU.
        memory_mib: main memory.
        num_gpus: its GPUs, all of one type.
        gpu_type: their type; empty where there are none.
        partitioned: how many of them, the last ones, are in MIG mode.

    Raises:
        SettingError: if GPUs are to be partitioned that cannot be.
    """

    cpu_milli: int
    memory_mib: int
    num_gpus: int
    gpu_type: str
    partitioned: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.partitioned <= self.num_gpus:
            raise SettingError(f"{self.partitioned} of {self.num_gpus} GPUs cannot be partitioned")
        if self.partitioned and mig.geometry_code(self.gpu_type) < 0:
            raise SettingError(f"GPU type {self.gpu_type!r} has no MIG mode")


@dataclass(frozen=True, slots=True)
class NodeStates:
    """What is free on each node. Arrays of N nodes and G GPUs (the most that any node has).

    Attributes:
        cpu_milli: free, shape (N,).
        memory_mib: free, shape (N,).
        type_bit: 1 << GPU type of the cluster, 0 without GPUs; shape (N,).
        geometry: place in `mig.GEOMETRIES`, -1 for none; shape (N,).
        gpu_milli: free thousandths of each GPU, 0 where there is none; shape (N, G).
        slices: busy memory slices of each partitioned GPU as a bit mask, else NOT_PARTITIONED; (N, G).
    """

    cpu_milli: IntArray
    memory_mib: IntArray
    type_bit: IntArray
    geometry: IntArray
    gpu_milli: IntArray
    slices: IntArray

    def __len__(self) -> int:
        return len(self.cpu_milli)

    def take(self, rows: IntArray) -> "NodeStates":
        """A copy of these rows, in this order; a row may occur more than once."""
        return NodeStates(
            self.cpu_milli[rows],
            self.memory_mib[rows],
            self.type_bit[rows],
            self.geometry[rows],
            self.gpu_milli[rows],
            self.slices[rows],
        )

    def serves(self, demand: Demand) -> BoolArray:
        """Which GPUs can give the demand one share, CPU and memory aside; shape (N, G)."""
        right_type = (self.type_bit & demand.types)[:, None] != 0
        if demand.profile == NO_PROFILE:
            has_room = (self.slices < 0) & (self.gpu_milli >= max(demand.gpu_milli, 1))
        else:
            fits = mig.FITS[demand.profile][self.geometry[:, None], np.maximum(self.slices, 0)]
            has_room = (self.slices >= 0) & fits
        serves: BoolArray = has_room & right_type
        return serves

    def can_run(self, demand: Demand) -> BoolArray:
        """Which nodes can run the demand now; shape (N,)."""
        enough = (self.cpu_milli >= demand.cpu_milli) & (self.memory_mib >= demand.memory_mib)
        if demand.num_gpus:
            enough &= self.serves(demand).sum(axis=1) >= demand.num_gpus
        return enough

    def distinct(self) -> tuple[IntArray, IntArray]:
        """Rows of the distinct states, and which of them each row equals.

        Rows are told apart by a hash; should two states ever share one, every row counts as distinct.
        """
        columns = np.column_stack(
            (self.cpu_milli, self.memory_mib, self.type_bit, self.geometry, self.gpu_milli, self.slices)
        )
        odd = np.random.default_rng(0).integers(1, 2**62, size=columns.shape[1]) * 2 + 1
        with np.errstate(over="ignore"):
            keys = (columns * odd).sum(axis=1)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if not np.array_equal(columns[first][inverse], columns):
            every = np.arange(len(self))
            return every, every
        return first, inverse


def types_of(specs: Sequence[NodeSpec]) -> tuple[str, ...]:
    """GPU types of the nodes, in alphabetical order."""
    return tuple(sorted({spec.gpu_type for spec in specs if spec.num_gpus}))


def empty_states(specs: Sequence[NodeSpec]) -> NodeStates:
    """States of nodes that run nothing, in the order of the specs."""
    types = types_of(specs)
    most = max((spec.num_gpus for spec in specs), default=0)
    gpu_milli = np.zeros((len(specs), most), dtype=np.int64)
    slices = np.full((len(specs), most), NOT_PARTITIONED, dtype=np.int64)
    geometry = np.array([mig.geometry_code(spec.gpu_type) for spec in specs], dtype=np.int64)
    for row, spec in enumerate(specs):
        gpu_milli[row, : spec.num_gpus] = WHOLE_MILLI
        if spec.partitioned:
            cut = slice(spec.num_gpus - spec.partitioned, spec.num_gpus)
            slices[row, cut] = mig.empty_mask(int(geometry[row]))
    return NodeStates(
        np.array([spec.cpu_milli for spec in specs], dtype=np.int64),
        np.array([spec.memory_mib for spec in specs], dtype=np.int64),
        np.array([1 << types.index(spec.gpu_type) if spec.num_gpus else 0 for spec in specs], dtype=np.int64),
        geometry,
        gpu_milli,
        slices,
    )
