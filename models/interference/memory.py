"""Whether two models fit into the memory of one GPU, said with caution."""

import math
from collections.abc import Mapping
from typing import Final

from data.pairs import Pair, PairTable, pair_of
from models.interference.profiles import NOTHING_KNOWN, Profile, family_and_batch, family_of

USABLE_SHARE: Final = 0.9
"""Share of a GPU's memory that two jobs may fill (the rest: contexts and fragmentation)."""

_BEYOND: Final = 0.8
"""Chance that is left of fitting, per doubling beyond the largest batch of a family. In the table this was
made for, 105 of the 130 pairs with the largest batch of a family of several fit."""

_Batches = tuple[int | None, int | None]


class MemoryRule:
    """Chance that a pair fits, from the table, memory profiles and the order of batch sizes."""

    def __init__(
        self, table: PairTable, profiles: Mapping[str, Profile], gpu_memory_gb: float | None
    ) -> None:
        """Args: the table; profiles by model; memory of the GPU in GB, None if not known."""
        self._table: Final = table
        self._profiles: Final = profiles
        self._gpu_memory_gb: Final = gpu_memory_gb
        self._models: Final = frozenset(table.models)
        self._fitting: Final = _by_families(frozenset(table.rates))
        self._unfit: Final = _by_families(table.unfit)

    def chance(self, model_a: str, model_b: str) -> float:
        """In order of trust: the pair itself; profiles; batch sizes; the shares of similar pairs.

        A pair fits if one of the same families with batches at least as large does, and does not if one with
        batches at most as large does not: memory grows with the batch. Otherwise the chance is the lower of
        the two models' shares of fitting pairs, k / (n + 2) of n, and smaller the farther a batch lies beyond
        the largest of its family.
        """
        pair = pair_of(model_a, model_b)
        if pair in self._table.rates:
            return 1.0
        if pair in self._table.unfit:
            return 0.0
        for said in (self._by_profiles(*pair), self._by_batches(*pair)):
            if said is not None:
                return float(said)
        return min(self._share(model_a), self._share(model_b))

    def _by_profiles(self, model_a: str, model_b: str) -> bool | None:
        needed = [self._profiles.get(name, NOTHING_KNOWN).memory_gb for name in (model_a, model_b)]
        if self._gpu_memory_gb is None or needed[0] is None or needed[1] is None:
            return None
        return needed[0] + needed[1] <= USABLE_SHARE * self._gpu_memory_gb

    def _by_batches(self, model_a: str, model_b: str) -> bool | None:
        key, asked = _by_family(model_a, model_b)
        if any(_at_most(known, one) for known in self._unfit.get(key, ()) for one in asked):
            return False
        if any(_at_most(one, known) for known in self._fitting.get(key, ()) for one in asked):
            return True
        return None

    def _share(self, model: str) -> float:
        """Share of fitting pairs of the model; of its kin with the next smaller batch; of all."""
        name, doublings = (model, 0.0) if model in self._models else self._smaller_kin(model)
        fits = sum(name is None or name in pair for pair in self._table.rates)
        fails = sum(name is None or name in pair for pair in self._table.unfit)
        return float(_BEYOND**doublings) * fits / (fits + fails + 2)

    def _smaller_kin(self, model: str) -> tuple[str | None, float]:
        """The kin to go by, and how many doublings the model lies beyond the largest of them."""
        batch = family_and_batch(model)[1]
        kin = [name for name in self._models if family_of(name) == family_of(model)]
        if not kin:
            return None, 0.0
        smaller = [name for name in kin if _size(name) <= (batch or 0)]
        largest = max(map(_size, kin))
        doublings = math.log2(batch / largest) if batch and 0 < largest < batch else 0.0
        return max(smaller or kin, key=lambda name: (_size(name), name)), doublings


def _size(model: str) -> int:
    return family_and_batch(model)[1] or 0


def _at_most(ones: _Batches, others: _Batches) -> bool:
    """Whether no batch is larger than its counterpart; one that is not known compares with such only."""
    return all(a == b if a is None or b is None else a <= b for a, b in zip(ones, others, strict=True))


def _by_family(model_a: str, model_b: str) -> tuple[Pair, list[_Batches]]:
    """The two families in order and the batches in that order; in both orders for two of one family."""
    (one, batch_a), (other, batch_b) = family_and_batch(model_a), family_and_batch(model_b)
    if one == other:
        return (one, other), [(batch_a, batch_b), (batch_b, batch_a)]
    return ((one, other), [(batch_a, batch_b)]) if one < other else ((other, one), [(batch_b, batch_a)])


def _by_families(pairs: frozenset[Pair]) -> dict[Pair, list[_Batches]]:
    found: dict[Pair, list[_Batches]] = {}
    for model_a, model_b in sorted(pairs):
        key, batches = _by_family(model_a, model_b)
        found.setdefault(key, []).extend(batches)
    return found
