"""Pools, nodes and GPUs, and the arithmetic of quotas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ANY_TYPE: Final = "any"
"""Type of GPUs of which nobody said a type."""

MAX_GPUS_OF_A_NODE: Final = 1_024
"""Most GPUs of one node that is read or told: far above any host, and what books by the GPU can hold."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device: its node, its index there and its type."""

    node: str
    index: int
    gpu_type: str = ANY_TYPE


@dataclass(frozen=True, slots=True)
class Node:
    """One host. `pool` is the pool that owns it, None where nodes belong to no pool in particular."""

    name: str
    num_gpus: int
    gpu_type: str = ANY_TYPE
    pool: str | None = None

    def __post_init__(self) -> None:
        if self.num_gpus < 1:
            raise ValueError(f"node {self.name}: num_gpus is {self.num_gpus}, must be at least 1")

    def gpus(self) -> tuple[Gpu, ...]:
        """The node's devices in the order of their index."""
        return tuple(Gpu(self.name, index, self.gpu_type) for index in range(self.num_gpus))


@dataclass(frozen=True, slots=True)
class Pool:
    """A scheduling partition with a quota of GPUs that are its own."""

    name: str
    quota_gpus: int

    def __post_init__(self) -> None:
        if self.quota_gpus < 0:
            raise ValueError(f"pool {self.name}: quota_gpus is {self.quota_gpus}, must be >= 0")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Pools and, where they are known, nodes.

    Raises:
        ValueError: if a name occurs twice or the quotas add up to more than the nodes have.
    """

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        for kind, names in (("pool", [p.name for p in self.pools]), ("node", [n.name for n in self.nodes])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{kind} {twice[0]} is listed twice")
        check_quotas(self.quotas(), self.capacity_gpus)

    @property
    def capacity_gpus(self) -> int:
        """GPUs of the nodes; where no nodes are given, the sum of the quotas."""
        if self.nodes:
            return sum(node.num_gpus for node in self.nodes)
        return sum(pool.quota_gpus for pool in self.pools)

    def quotas(self) -> dict[str, int]:
        """Quota of each pool, in the order of the pools."""
        return {pool.name: pool.quota_gpus for pool in self.pools}


def check_quotas(quotas: Mapping[str, int], capacity_gpus: int) -> None:
    """Quotas may never promise more than there is: the promise rests on it.

    Raises:
        ValueError: if a quota is negative or their sum exceeds `capacity_gpus`.
    """
    negative = [pool for pool, quota in quotas.items() if quota < 0]
    if negative:
        raise ValueError(f"pool {negative[0]}: quota is {quotas[negative[0]]}, must be >= 0")
    total = sum(quotas.values())
    if total > capacity_gpus:
        raise ValueError(f"quotas add up to {total} GPUs, the cluster has {capacity_gpus}")


def shrink_quotas(quotas: Mapping[str, int], lost_gpus: int, owner: str | None) -> dict[str, int]:
    """Quotas after `lost_gpus` GPUs are gone, by a rule that can be printed.

    The owner pool gives them up first. What it cannot cover, or all of it where no pool owns the node, is
    taken from the (other) pools in proportion to their quotas, by largest remainder, ties to the pool
    listed first.

    Raises:
        ValueError: if more GPUs are lost than the quotas hold, or the owner is unknown.
    """
    left = dict(quotas)
    if lost_gpus < 0 or lost_gpus > sum(left.values()):
        raise ValueError(f"{lost_gpus} GPUs are lost, the quotas hold {sum(left.values())}")
    if owner is not None:
        if owner not in left:
            raise ValueError(f"unknown owner pool {owner}")
        taken = min(left[owner], lost_gpus)
        left[owner] -= taken
        lost_gpus -= taken
    total = sum(left.values())
    if lost_gpus == 0:
        return left
    shares = {pool: lost_gpus * quota / total for pool, quota in left.items()}
    cut = {pool: int(share) for pool, share in shares.items()}
    by_remainder = sorted(left, key=lambda pool: -(shares[pool] - cut[pool]))
    for pool in by_remainder[: lost_gpus - sum(cut.values())]:
        cut[pool] += 1
    return {pool: quota - cut[pool] for pool, quota in left.items()}
