"""What clusters consist of, as inventory readers hand it on: nodes, and the GPUs of pools over time."""

from dataclasses import dataclass

from data.records import RecordError


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node, as it was seen once.

    Attributes:
        cluster: the cluster it belongs to.
        node: its name.
        num_gpus: GPUs that it has, whole devices; of a node in MIG mode slices by profile in `mig_slices`.
            None where the source does not say, which is not zero.
        gpu_type: their type, lower case; None where it is not said or they differ.
        pools: partitions, queues or virtual clusters it belongs to.
        seen_s: when; None where the source does not say.
        num_gpus_in_use: GPUs given out when it was seen.
        gpu_memory_mib: memory of each of its GPUs.
        cpus, memory_mib: what else it has.
        state: in the source's words (`IDLE+DRAIN`).
        is_available: whether jobs may be started on it; None where that is not said.
        mig_slices: slices that it offers, by profile.
        num_shards: shares that its devices are offered in (`gres/shard`, time slicing): beside the devices,
            not on top of them. One share in use keeps a device from jobs that want it whole.

    Raises:
        RecordError: if it has no name or a negative number.
    """

    cluster: str
    node: str
    num_gpus: int | None
    gpu_type: str | None = None
    pools: tuple[str, ...] = ()
    seen_s: float | None = None
    num_gpus_in_use: int | None = None
    gpu_memory_mib: float | None = None
    cpus: float | None = None
    memory_mib: float | None = None
    state: str | None = None
    is_available: bool | None = None
    mig_slices: tuple[tuple[str, int], ...] = ()
    num_shards: int = 0

    def __post_init__(self) -> None:
        if not self.node or not self.cluster:
            raise RecordError("a node needs a cluster and a name")
        amounts = (
            self.num_gpus, self.num_gpus_in_use, self.gpu_memory_mib, self.cpus, self.memory_mib,
            self.num_shards, *(count for _, count in self.mig_slices),
        )  # fmt: skip
        if any(amount is not None and amount < 0 for amount in amounts):
            raise RecordError(f"node {self.node} has a negative amount: {amounts}")


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """The GPUs of a pool from an instant on, until the next record of the same pool.

    Attributes:
        cluster: the cluster.
        pool: partition, queue or virtual cluster.
        gpus: GPUs that are its own; 0: the pool is not there (yet, or any more); None: from then on it is
            not known.
        from_s: since when; None where the source knows the present only.
        num_nodes: nodes, where those are said instead of or beside GPUs.
        max_time_s: longest time limit of its jobs, where there is one.

    Raises:
        RecordError: if it has no name or a negative number.
    """

    cluster: str
    pool: str
    gpus: int | None
    from_s: float | None = None
    num_nodes: int | None = None
    max_time_s: float | None = None

    def __post_init__(self) -> None:
        if not self.pool or not self.cluster:
            raise RecordError("a pool needs a cluster and a name")
        amounts = (self.gpus, self.num_nodes, self.max_time_s)
        if any(amount is not None and amount < 0 for amount in amounts):
            raise RecordError(f"pool {self.pool} has a negative amount: {amounts}")
