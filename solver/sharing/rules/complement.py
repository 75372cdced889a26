"""Requests that fill a node together, in GPU and in CPU: the rule in use.

A placement costs, in milli GPU,
    pattern   what its share takes from what the GPU was good for (`solver.sharing.patterns`);
    balance   the growth of the free GPU that will lack CPU, if what comes next asks as the workload does;
    spread    a tenth of FGD's growth of the expected fragmentation, but with every class weighted by the GPUs
              that it asks for in all: it keeps GPU types that some insist on, and idle GPUs side by side;
rounded, so that placements that differ by less than the estimates are worth go to the first node.

Balance: where GPUs worth R are free beside C CPUs, requests that fill them ask for CPU with mean k R and
standard deviation s sqrt(R), k and s from the workload's GPU requests. As in the newsvendor problem, the
expected shortage is s sqrt(R) (phi(z) - z (1 - Phi(z))) with z = (C - k R) / (s sqrt(R)), divided by k to
count GPUs. A request with much CPU per GPU therefore goes where CPU is plenty, one with little to where it
is scarce, and requests without GPU to where it would be left over.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr

from solver.sharing.nodes import FloatArray, IntArray, NodeStates
from solver.sharing.options import Options
from solver.sharing.patterns import usable_gpus
from solver.sharing.requests import Demand, TaskMix, mix_of
from solver.sharing.rules.base import Workload
from solver.sharing.rules.fgd import growth

_SPREAD_WEIGHT: Final = 0.1
_STEP_MILLI: Final = 20.0
_COVERAGE: Final = 0.95


@dataclass(frozen=True, slots=True)
class CpuAppetite:
    """CPU that requests take along with GPUs.

    Attributes:
        mean_milli: per GPU worth of requests.
        sd_milli: standard deviation for one GPU's worth; grows with the root of their number.
    """

    mean_milli: float
    sd_milli: float


class Complement:
    """Pattern, balance and spread of a placement."""

    is_drawn = False

    def __init__(self, mix: TaskMix, usable: FloatArray, appetite: CpuAppetite) -> None:
        self._mix = mix
        self._usable = usable
        self._appetite = appetite

    def cost(self, options: Options) -> FloatArray:
        """In milli GPU, rounded. The price of the share is the same everywhere and left out."""
        before, after, row = options.before, options.after, options.row
        worth_before, worth_after = self._worth_gpus(before)[row], self._worth_gpus(after)
        short_before = self._short_gpus(before.cpu_milli[row], worth_before)
        short_after = self._short_gpus(after.cpu_milli, worth_after)
        lost_milli = 1000.0 * (worth_before - worth_after + short_after - short_before)
        cost = lost_milli + _SPREAD_WEIGHT * growth(options, self._mix)
        rounded: FloatArray = np.round(cost / _STEP_MILLI) * _STEP_MILLI
        return rounded

    def _worth_gpus(self, states: NodeStates) -> FloatArray:
        """What the free GPU of each node is good for; of a partitioned GPU, all that is free."""
        by_patterns = self._usable[states.gpu_milli]
        worth: FloatArray = np.where(states.slices < 0, by_patterns, states.gpu_milli / 1000.0).sum(axis=1)
        return worth

    def _short_gpus(self, cpu_milli: IntArray, worth_gpus: FloatArray) -> FloatArray:
        """GPUs expected to lack CPU where `worth_gpus` are free beside `cpu_milli`."""
        mean, sd = self._appetite.mean_milli, self._appetite.sd_milli
        if mean <= 0.0:
            return np.zeros(len(worth_gpus))
        spread = np.maximum(sd * np.sqrt(worth_gpus), 1e-9)
        z = (cpu_milli - mean * worth_gpus) / spread
        short = spread * (np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) - z * ndtr(-z))
        lacking: FloatArray = short / mean
        return lacking


def appetite_of(counts: dict[Demand, float], usable: FloatArray) -> CpuAppetite:
    """CPU per GPU of requests that need GPUs, and how much it varies.

    Requests come one by one, so the CPU of a sum of them varies like a compound Poisson sum: its variance
    per GPU is the mean square of what each takes above the mean, over the mean GPUs of one.
    """
    asking = [(demand, count) for demand, count in counts.items() if demand.num_gpus and count > 0]
    if not asking:
        return CpuAppetite(0.0, 0.0)
    weight = np.array([count for _, count in asking])
    cpu_milli = np.array([demand.cpu_milli for demand, _ in asking])
    gpus = np.array([demand.num_gpus * usable[demand.gpu_milli] for demand, _ in asking])
    total_gpus = max(float(weight @ gpus), 1e-9)
    mean = float(weight @ cpu_milli) / total_gpus
    return CpuAppetite(mean, math.sqrt(float(weight @ (cpu_milli - mean * gpus) ** 2) / total_gpus))


def build(workload: Workload) -> Complement:
    """The rule for this workload."""
    shares: dict[int, float] = defaultdict(float)
    asked_milli: dict[Demand, float] = {}
    for demand, count in workload.counts.items():
        asked_milli[demand] = count * demand.num_gpus * demand.gpu_milli
        if demand.is_fraction:
            shares[demand.gpu_milli] += count
    usable = usable_gpus(shares)
    appetite = appetite_of(workload.counts, usable)
    mix = mix_of(asked_milli if any(asked_milli.values()) else workload.counts, _COVERAGE)
    return Complement(mix, usable, appetite)
