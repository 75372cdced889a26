"""The ways in which a demand can be put on each of some nodes, and what each leaves behind."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.sharing import mig
from solver.sharing.nodes import BoolArray, IntArray, NodeStates
from solver.sharing.requests import NO_PROFILE, Demand

NO_START: Final = -1


@dataclass(frozen=True, slots=True)
class Options:
    """K hypothetical placements of one demand.

    Attributes:
        demand: what is placed.
        before: states of the nodes looked at, all of which can run it.
        row: the row of `before` that each option is about, ascending; shape (K,).
        after: states once it is placed; K rows.
        gpu: which GPU, where the option is about one of several, else -1; shape (K,).
        start: first memory slice of a MIG slice, else NO_START; shape (K,).
    """

    demand: Demand
    before: NodeStates
    row: IntArray
    after: NodeStates
    gpu: IntArray
    start: IntArray

    def left_milli(self) -> IntArray:
        """What stays free on the GPU that an option is about; 0 where it is about no single one."""
        rows = np.arange(len(self.row))
        return np.where(self.gpu >= 0, self.after.gpu_milli[rows, np.maximum(self.gpu, 0)], 0)


def options_of(before: NodeStates, demand: Demand) -> Options:
    """All placements of the demand on nodes that can run it, without those that differ in name only.

    Of GPUs of a node in the same state only the first is an option. Several shares go to the tightest GPUs
    that have room, one share each.
    """
    if demand.profile != NO_PROFILE:
        return _slices(before, demand)
    if demand.is_fraction:
        row, gpu = np.nonzero(_first_of_kind(before.gpu_milli, before.serves(demand)))
        chosen = np.zeros((len(row), before.gpu_milli.shape[1]), dtype=np.bool_)
        chosen[np.arange(len(row)), gpu] = True
    else:
        row, gpu = np.arange(len(before)), np.full(len(before), -1)
        chosen = tightest(before, demand)
    after = before.take(row)
    _subtract(after, demand)
    after.gpu_milli[chosen] -= demand.gpu_milli
    return Options(demand, before, row, after, gpu, np.full(len(row), NO_START))


def tightest(states: NodeStates, demand: Demand) -> BoolArray:
    """The GPUs on which a demand of several shares goes: those with the least room that is enough; (N, G)."""
    if not demand.num_gpus:
        return np.zeros(states.gpu_milli.shape, dtype=np.bool_)
    room = np.where(states.serves(demand), states.gpu_milli, np.iinfo(np.int64).max)
    rank = np.argsort(np.argsort(room, axis=1, kind="stable"), axis=1, kind="stable")
    return rank < demand.num_gpus


def _subtract(states: NodeStates, demand: Demand) -> None:
    states.cpu_milli[:] -= demand.cpu_milli
    states.memory_mib[:] -= demand.memory_mib


def _first_of_kind(state: IntArray, allowed: BoolArray) -> BoolArray:
    """`allowed` without GPUs whose state an earlier allowed GPU of the node has."""
    kept = allowed.copy()
    for gpu in range(1, state.shape[1]):
        same = (state[:, :gpu] == state[:, gpu : gpu + 1]) & allowed[:, :gpu]
        kept[:, gpu] &= ~same.any(axis=1)
    return kept


def _slices(before: NodeStates, demand: Demand) -> Options:
    """Placements of a MIG slice: a GPU and a legal start on it."""
    found = [
        (row, gpu, *spot)
        for row, gpu in zip(*np.nonzero(_first_of_kind(before.slices, before.serves(demand))), strict=True)
        for spot in mig.legal_spots(int(before.geometry[row]), demand.profile, int(before.slices[row, gpu]))
    ]
    row, gpu, start, mask = np.array(found, dtype=np.int64).reshape(-1, 4).T
    after = before.take(row)
    _subtract(after, demand)
    option = np.arange(len(row))
    after.slices[option, gpu] = mask
    after.gpu_milli[option, gpu] = mig.FREE_MILLI[before.geometry[row], mask]
    return Options(demand, before, row, after, gpu, start)
