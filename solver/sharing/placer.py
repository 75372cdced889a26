"""Nodes that requests are placed on one by one, with the costs of a rule kept between requests.

What a placement costs depends on the class of the request and on the state of the node only, so a cost is
computed again only for nodes that have changed since the class was last asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domain.errors import PlanError
from solver.sharing import mig
from solver.sharing.nodes import FloatArray, IntArray, NodeSpec, NodeStates, empty_states, types_of
from solver.sharing.options import Options, options_of, tightest
from solver.sharing.requests import NO_PROFILE, Demand, Request, demand_of
from solver.sharing.rules.base import Rule

_SAME_COST = 1e-9
_WORTH_SORTING = 32


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a request went.

    Attributes:
        node: its row.
        gpus: GPUs that give it a share each.
        start: first memory slice of a MIG slice, else -1.
    """

    node: int
    gpus: tuple[int, ...]
    start: int


class Placer:
    """Places requests on nodes by a rule, whole or not at all, and takes them back.

    Equal costs go to the node that is first in `order`; on the node to the option with the tightest GPU, then
    to the first. A rule that draws takes any of them, by `seed`.
    """

    def __init__(
        self, specs: Sequence[NodeSpec], rule: Rule, order: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        """Start with nodes that run nothing.

        Args:
            specs: the nodes; their GPU types are those that requests may name.
            rule: what a placement costs.
            order: place of each node in the order that breaks ties; by row if not given.
            seed: of the draws of a rule that draws.
        """
        self.types = types_of(specs)
        self.states: NodeStates = empty_states(specs)
        self._rule = rule
        self._order = np.arange(len(specs)) if order is None else np.asarray(order)
        self._random = np.random.default_rng(seed)
        self._changed_at = np.zeros(len(specs), dtype=np.int64)
        self._now = 0
        self._kept: dict[Demand, _Costs] = {}

    def demand(self, request: Request) -> Demand:
        """The request in the numbers of these nodes.

        Raises:
            SettingError: if it names a GPU type that no node has.
        """
        return demand_of(request, self.types)

    def costs(self, demand: Demand) -> FloatArray:
        """What the demand costs on each node, infinite where it cannot run; shape (nodes,)."""
        return self._refreshed(demand).cost.copy()

    def place(self, demand: Demand) -> Spot | None:
        """Put the demand where it costs least; None, and nothing changes, where no node can run it."""
        kept = self._refreshed(demand)
        least = kept.cost.min(initial=np.inf)
        if least == np.inf:
            return None
        tied = np.flatnonzero(kept.cost <= least + _SAME_COST)
        if self._rule.is_drawn:
            node = int(tied[self._random.integers(len(tied))])
        else:
            node = int(tied[self._order[tied].argmin()])
        spot = self._spot(demand, node, int(kept.gpu[node]), int(kept.start[node]))
        self._occupy(demand, spot)
        return spot

    def release(self, demand: Demand, spot: Spot) -> None:
        """Give back what the demand held at that spot.

        Raises:
            PlanError: if it cannot have held it; nothing changes then.
        """
        states, node, gpus = self.states, spot.node, list(spot.gpus)
        if demand.profile != NO_PROFILE:
            mask = self._slice_bits(demand, spot)
            if (states.slices[node, gpus] & mask != mask).any():
                raise PlanError(f"{demand} does not run at {spot}")
            states.slices[node, gpus] &= ~mask
            free = mig.FREE_MILLI[states.geometry[node], states.slices[node, gpus]]
            states.gpu_milli[node, gpus] = free
        else:
            if (states.gpu_milli[node, gpus] + demand.gpu_milli > 1000).any():
                raise PlanError(f"{demand} does not run at {spot}")
            states.gpu_milli[node, gpus] += demand.gpu_milli
        states.cpu_milli[node] += demand.cpu_milli
        states.memory_mib[node] += demand.memory_mib
        self._touch(node)

    def _spot(self, demand: Demand, node: int, gpu: int, start: int) -> Spot:
        if gpu >= 0:
            return Spot(node, (gpu,), start)
        chosen = tightest(self.states.take(np.array([node])), demand)[0]
        return Spot(node, tuple(int(one) for one in np.flatnonzero(chosen)), start)

    def _occupy(self, demand: Demand, spot: Spot) -> None:
        states, node, gpus = self.states, spot.node, list(spot.gpus)
        states.cpu_milli[node] -= demand.cpu_milli
        states.memory_mib[node] -= demand.memory_mib
        if demand.profile != NO_PROFILE:
            states.slices[node, gpus] |= self._slice_bits(demand, spot)
            free = mig.FREE_MILLI[states.geometry[node], states.slices[node, gpus]]
            states.gpu_milli[node, gpus] = free
        else:
            states.gpu_milli[node, gpus] -= demand.gpu_milli
        self._touch(node)

    def _slice_bits(self, demand: Demand, spot: Spot) -> int:
        shape = mig.profile_on(int(self.states.geometry[spot.node]), demand.profile)
        if shape is None or spot.start not in shape.starts:
            raise PlanError(f"{demand} has no place at {spot}")
        return shape.bits(spot.start)

    def _touch(self, node: int) -> None:
        self._now += 1
        self._changed_at[node] = self._now

    def _refreshed(self, demand: Demand) -> "_Costs":
        kept = self._kept.get(demand)
        if kept is None:
            kept = self._kept[demand] = _Costs(len(self.states))
        stale = np.flatnonzero(self._changed_at > kept.seen_at)
        if len(stale):
            self._recompute(demand, kept, stale)
        kept.seen_at = self._now
        return kept

    def _recompute(self, demand: Demand, kept: "_Costs", stale: IntArray) -> None:
        states = self.states.take(stale)
        same = np.arange(len(stale))
        if len(stale) >= _WORTH_SORTING:
            first, same = states.distinct()
            states = states.take(first)
        runs = np.flatnonzero(states.can_run(demand))
        cost = np.full(len(states), np.inf)
        gpu = np.full(len(states), -1)
        start = np.full(len(states), -1)
        if len(runs):
            options = options_of(states.take(runs), demand)
            of_options = self._rule.cost(options)
            best = self._best(options, of_options)
            cost[runs], gpu[runs], start[runs] = of_options[best], options.gpu[best], options.start[best]
        kept.cost[stale], kept.gpu[stale], kept.start[stale] = cost[same], gpu[same], start[same]

    def _best(self, options: Options, cost: FloatArray) -> IntArray:
        """The cheapest option of each row of `options.before`."""
        count = len(cost)
        if count == len(options.before):
            return np.arange(count)
        second = self._random.random(count) if self._rule.is_drawn else options.left_milli()
        ranked = np.lexsort((np.arange(count), second, cost, options.row))
        return ranked[np.searchsorted(options.row, np.arange(len(options.before)))]


class _Costs:
    """What is kept for one class: cost, GPU and start of the best option of every node."""

    __slots__ = ("cost", "gpu", "seen_at", "start")

    def __init__(self, num_nodes: int) -> None:
        self.cost = np.full(num_nodes, np.inf)
        self.gpu = np.full(num_nodes, -1, dtype=np.int64)
        self.start = np.full(num_nodes, -1, dtype=np.int64)
        self.seen_at = -1
