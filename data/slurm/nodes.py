"""A node of Slurm as a record, from fields that every shape of its output has under some name."""

from dataclasses import dataclass

from data.intake.counts import memory_mib, whole
from data.intake.rows import Notes, RejectedError, quoted
from data.intake.rules import ImportRule
from data.intake.text import clean
from data.inventory_records import NodeRecord, PoolRecord
from data.rules import shown
from data.slurm.durations import is_null
from data.slurm.hostlists import expand_hosts
from data.slurm.node_gpus import NodeGpus, node_gpus
from data.slurm.node_states import parse_node_state


@dataclass(frozen=True, slots=True)
class NodeFields:
    """Fields of a node as they stand in the source; None: it has no such field."""

    name: str
    gres: str | None = None
    cfg_tres: str | None = None
    gres_used: str | None = None
    alloc_tres: str | None = None
    state: str | None = None
    cpus: str | None = None
    memory: str | None = None


def node_record(cluster: str, fields: NodeFields, pools: tuple[str, ...], notes: Notes) -> NodeRecord:
    """The node that the fields speak of.

    Raises:
        RejectedError: if it has no name.
    """
    name = clean(fields.name, notes, "the node")
    if name is None or is_null(name):
        raise RejectedError(ImportRule.MISSING_VALUE, "the node has no name")
    gpus = _gpus(fields, notes)
    state = None if fields.state is None or is_null(fields.state) else clean(fields.state, notes, "the state")
    return NodeRecord(
        cluster=cluster,
        node=name,
        num_gpus=gpus.num_gpus,
        gpu_type=gpus.gpu_type,
        pools=pools,
        num_gpus_in_use=gpus.num_gpus_in_use,
        cpus=None if fields.cpus is None else whole(fields.cpus.rstrip("+"), "the CPUs", notes),
        memory_mib=None if fields.memory is None else memory_mib(fields.memory.rstrip("+"), "memory", notes),
        state=state,
        is_available=None if state is None else _is_available(state, notes),
        mig_slices=gpus.mig_slices,
        num_shards=gpus.num_shards,
    )


class Gathered:
    """Nodes and partitions from rows that name some of both: a node's partitions, a partition's nodes."""

    def __init__(self, cluster: str) -> None:
        """Gather for one cluster; the nodes of one are few enough to remember."""
        self._cluster = cluster
        self._pools_of: dict[str, tuple[str, ...]] = {}
        self._nodes_of: dict[str, dict[str, int | None]] = {}

    def node(self, fields: NodeFields, pools: tuple[str, ...], notes: Notes) -> NodeRecord:
        """The node of a row, with the partitions of all rows so far.

        Raises:
            RejectedError: if it has no name.
        """
        known = self._pools_of.get(fields.name, ())
        both = (*known, *(pool for pool in pools if pool not in known))
        record = node_record(self._cluster, fields, both, notes)
        self._pools_of[fields.name] = both
        for pool in both:
            self._nodes_of.setdefault(pool, {})[record.node] = record.num_gpus
        return record

    def pool(self, pool: str, max_time_s: float | None) -> PoolRecord:
        """A partition with the nodes of all rows so far: its last row has them all."""
        its = self._nodes_of.get(pool, {})
        counts = [count for count in its.values() if count is not None]
        gpus = sum(counts) if len(counts) == len(its) else None
        return PoolRecord(self._cluster, pool, gpus, num_nodes=len(its), max_time_s=max_time_s)


def hosts(text: str, what: str) -> tuple[str, ...]:
    """Hosts of a list, as a row's field has it.

    Raises:
        RejectedError: if it is none.
    """
    try:
        return expand_hosts(text)
    except ValueError as error:
        raise RejectedError(ImportRule.BAD_NODE_LIST, f"{what}: {shown(error)}") from error


def pools_of(text: str | None) -> tuple[str, ...]:
    """Partitions between commas, without the star of the default one."""
    names = (name.strip().rstrip("*") for name in (text or "").split(","))
    return tuple(dict.fromkeys(name for name in names if name and not is_null(name)))


def _gpus(fields: NodeFields, notes: Notes) -> NodeGpus:
    try:
        gpus = node_gpus(fields.gres, fields.cfg_tres, fields.gres_used, fields.alloc_tres)
    except ValueError as error:
        notes.add(ImportRule.BAD_GPUS, shown(error))
        return NodeGpus()
    for doubt in gpus.doubts:
        notes.add(ImportRule.GPUS_DISAGREE, doubt)
    return gpus


def _is_available(text: str, notes: Notes) -> bool | None:
    state = parse_node_state(text)
    if state.unknown:
        words = quoted("+".join(state.unknown))
        notes.add(ImportRule.UNKNOWN_STATE, f"{words} is no state of a node; whether it is open is not known")
    return state.is_available
