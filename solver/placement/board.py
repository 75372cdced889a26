"""Nodes over time: who is where, where the next gang goes, and which nodes are drained for one that waits."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from domain.cluster import Gpu, Node
from domain.errors import PlanError
from domain.jobs import Job
from solver.placement.cells import IntArray, free_cells, pieces_of
from solver.placement.greedy import tightest_first, types_for
from solver.placement.room import FreeNodes


class Tenant(NamedTuple):
    """A running gang.

    Attributes:
        job: the gang.
        gpus: where it runs.
        until_s: instant by which it is expected to have ended.
        may_go: whether it is a guest that may be sent back.
        is_own: whether it is its pool's own.
    """

    job: Job
    gpus: tuple[Gpu, ...]
    until_s: float
    may_go: bool = False
    is_own: bool = True


@dataclass(slots=True)
class Host:
    """A node of the board: its free GPUs, by index, and the gangs on it with the GPUs of each here."""

    node: Node
    free: list[int]
    tenants: dict[str, int] = field(default_factory=dict)


class Board:
    """Which GPUs are whose. A gang costs O(nodes) to place, O(its nodes) to take off.

    Args:
        nodes: the cluster's nodes; the order in which they are preferred where nothing else decides.
        by_end: whether a gang goes, among nodes where it breaks up equally small cells, where it least puts
            off the instant at which the node is empty; else to the node with the fewest free GPUs.
    """

    def __init__(self, nodes: Sequence[Node], *, by_end: bool = False) -> None:
        self._by_end = by_end
        self._hosts = {node.name: Host(node, list(range(node.num_gpus))) for node in nodes}
        self._largest: dict[str, int] = {}
        for node in nodes:
            self._largest[node.gpu_type] = max(node.num_gpus, self._largest.get(node.gpu_type, 1))
        self.tenants: dict[str, Tenant] = {}
        self._hosts_of: dict[str, str] = {}

    def copy(self) -> "Board":
        """The same books, to be kept apart from now on. O(nodes + gangs)."""
        other = copy(self)
        hosts = self._hosts.items()
        copied = {name: Host(host.node, list(host.free), dict(host.tenants)) for name, host in hosts}
        other._hosts = copied  # noqa: SLF001 - of its kind
        other.tenants = dict(self.tenants)
        other._hosts_of = dict(self._hosts_of)  # noqa: SLF001
        return other

    def free_nodes(self, barred: Collection[str] = ()) -> tuple[FreeNodes, ...]:
        """Free GPUs of each node that is not kept for others, by type."""
        return tuple(
            FreeNodes(name, size, tuple(len(host.free) for host in self._of(name, barred)))
            for name, size in sorted(self._largest.items())
        )

    def idle(self, barred: Collection[str] = ()) -> dict[str, list[Gpu]]:
        """The free GPUs of each node that is not kept for others."""
        return {
            name: [Gpu(name, index, host.node.gpu_type) for index in host.free]
            for name, host in self._hosts.items()
            if name not in barred
        }

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in their order."""
        return [host.node for host in self._hosts.values()]

    def free_gpus(self) -> int:
        """Idle GPUs of all nodes."""
        return sum(len(host.free) for host in self._hosts.values())

    def cells(self, gone: Iterable[Gpu] = ()) -> IntArray:
        """Cells of each size that are free on the largest nodes' scale, without some GPUs more."""
        taken: dict[str, int] = {}
        for gpu in gone:
            taken[gpu.node] = taken.get(gpu.node, 0) + 1
        free = [len(host.free) - taken.get(name, 0) for name, host in self._hosts.items()]
        return free_cells(free, self.node_gpus)

    @property
    def node_gpus(self) -> int:
        """GPUs of the largest node."""
        return max(self._largest.values())

    def are_free(self, gpus: Iterable[Gpu]) -> bool:
        """Whether nobody has any of some GPUs."""
        return all(gpu.node in self._hosts and gpu.index in self._hosts[gpu.node].free for gpu in gpus)

    def let_go(self, job_ids: Iterable[str]) -> None:
        """These gangs are guests that may be sent back."""
        for job_id in job_ids:
            self.tenants[job_id] = self.tenants[job_id]._replace(may_go=True, is_own=False)

    def put(self, tenant: Tenant) -> None:
        """A gang runs from now on.

        Raises:
            PlanError: if a GPU of its is not free.
        """
        for gpu in tenant.gpus:
            host = self._hosts[gpu.node]
            if gpu.index not in host.free:
                raise PlanError(
                    f"job {tenant.job.job_id} is to run on {gpu.node}/{gpu.index}, which is in use"
                )
            host.free.remove(gpu.index)
            host.tenants[tenant.job.job_id] = host.tenants.get(tenant.job.job_id, 0) + 1
        self.tenants[tenant.job.job_id] = tenant

    def ride(self, tenant: Tenant) -> None:
        """A gang runs on GPUs of another one from now on: they stay that one's until it ends.

        Raises:
            PlanError: if its GPUs are not all those of one gang that rides with nobody, or a rider has one.
        """
        rider = tenant.job.job_id
        host = next(
            (one for one in self._on_node(tenant.gpus[0].node) if self._is_on(one, tenant.gpus)), None
        )
        if host is None:
            raise PlanError(f"job {rider} is to ride on GPUs that are not all those of one running job")
        taken = {gpu for one in self._riders_of(host) for gpu in self.tenants[one].gpus}
        if not taken.isdisjoint(tenant.gpus):
            raise PlanError(f"job {rider} is to ride with {host} on GPUs on which somebody rides already")
        self.tenants[rider] = tenant
        self._hosts_of[rider] = host

    def remove(self, job_id: str) -> None:
        """A gang runs no more; the GPUs on which others rode with it are theirs."""
        tenant = self.tenants.pop(job_id)
        if self._hosts_of.pop(job_id, None) is not None:
            return
        for gpu in tenant.gpus:
            host = self._hosts[gpu.node]
            host.free.append(gpu.index)
            host.free.sort()
            host.tenants.pop(job_id, None)
        for rider in self._riders_of(job_id):
            del self._hosts_of[rider]
            self.put(self.tenants[rider])

    def gpus_of(self, job_id: str) -> tuple[Gpu, ...]:
        """Where a gang runs; nowhere if it does not."""
        return self.tenants[job_id].gpus if job_id in self.tenants else ()

    def convert(self, job_id: str) -> None:
        """A guest has become its pool's own: it may not be sent back any more."""
        self.tenants[job_id] = self.tenants[job_id]._replace(may_go=False, is_own=True)

    def find(
        self, job: Job, until_s: float, barred: Collection[str] = (), *, may_go: bool = False
    ) -> tuple[Gpu, ...] | None:
        """GPUs for a gang on the fewest nodes; None if there are none.

        A gang that stays goes where it breaks up the smallest cells of what is free or can be vacated, so
        that gangs that stay keep together; one that may be sent back where it breaks up the smallest free
        cells.

        Args:
            job: the gang.
            until_s: instant by which it is expected to have ended.
            barred: nodes that are kept for others.
            may_go: whether it may be sent back.
        """
        for gpu_type in self._types_for(job):
            taken: list[Gpu] = []
            used: set[str] = set(barred)
            for piece in pieces_of(job.num_gpus, self._largest[gpu_type]):
                fits = [host for host in self._of(gpu_type, used) if len(host.free) >= piece]
                if not fits:
                    break
                host = self._best(fits, piece, until_s, may_go=may_go)
                used.add(host.node.name)
                taken += [Gpu(host.node.name, index, gpu_type) for index in host.free[:piece]]
            if len(taken) == job.num_gpus:
                return tuple(taken)
        return None

    def vacate(self, job: Job, barred: Collection[str] = ()) -> list[Job] | None:
        """Guests to send back so that a gang finds GPUs.

        On each node it needs, where it breaks up the smallest cells of what is free or can be vacated; then
        where the fewest GPUs are thrown away.

        Returns:
            None if there is no way.
        """
        for gpu_type in self._types_for(job):
            victims: dict[str, Job] = {}
            used = set(barred)
            for piece in pieces_of(job.num_gpus, self._largest[gpu_type]):
                order = tightest_first(piece, self._largest[gpu_type])
                ways = [
                    (order[self._clear_gpus(host)], self._lost_gpus(way, victims), rank, host, way)
                    for rank, host in enumerate(self._of(gpu_type, used))
                    if (way := self._way(host, piece)) is not None
                ]
                if not ways:
                    break
                _, _, _, host, way = min(ways, key=lambda entry: entry[:3])
                used.add(host.node.name)
                victims |= {guest.job_id: guest for guest in way}
            else:
                return list(victims.values())
        return None

    def drain(self, job: Job, now_s: float, barred: Collection[str] = ()) -> list[str]:
        """Nodes that will probably be the first to hold a gang: kept free for it as its tenants end."""
        for gpu_type in self._types_for(job):
            chosen: list[str] = []
            for piece in pieces_of(job.num_gpus, self._largest[gpu_type]):
                hosts = list(self._of(gpu_type, {*barred, *chosen}))
                ready = [(self._ready_s(host, piece, now_s), rank) for rank, host in enumerate(hosts)]
                if not ready:
                    break
                chosen.append(hosts[min(ready)[1]].node.name)
            return chosen
        return []

    def _riders_of(self, host: str) -> list[str]:
        return [rider for rider, one in self._hosts_of.items() if one == host]

    def _on_node(self, node: str) -> Iterator[str]:
        return iter(self._hosts[node].tenants if node in self._hosts else ())

    def _is_on(self, job_id: str, gpus: Iterable[Gpu]) -> bool:
        return set(gpus) <= set(self.tenants[job_id].gpus)

    def _types_for(self, job: Job) -> list[str]:
        return types_for(job.num_gpus, job.gpu_type, self._largest)

    def _of(self, gpu_type: str, barred: Collection[str]) -> Iterator[Host]:
        return (
            host
            for name, host in self._hosts.items()
            if host.node.gpu_type == gpu_type and name not in barred
        )

    def _best(self, fits: Sequence[Host], piece: int, until_s: float, *, may_go: bool) -> Host:
        order = tightest_first(piece, self._largest[fits[0].node.gpu_type])
        costs = [self._cost(host, order, until_s, may_go=may_go) for host in fits]
        return fits[costs.index(min(costs))]

    def _cost(
        self, host: Host, order: Mapping[int, int], until_s: float, *, may_go: bool
    ) -> tuple[float, int, int]:
        delay_s = self._delay_s(host, until_s) if self._by_end else 0.0
        free, clear = order[len(host.free)], order[self._clear_gpus(host)]
        return (delay_s, free, clear) if may_go else (delay_s, clear, free)

    def _clear_gpus(self, host: Host) -> int:
        """GPUs that are free or can be vacated."""
        return len(host.free) + sum(gpus for name, gpus in host.tenants.items() if self.tenants[name].may_go)

    def _delay_s(self, host: Host, until_s: float) -> float:
        empty_s = max((self.tenants[name].until_s for name in host.tenants), default=0.0)
        return max(0.0, until_s - empty_s)

    @staticmethod
    def _lost_gpus(way: Iterable[Job], victims: Collection[str]) -> int:
        return sum(guest.num_gpus for guest in way if guest.job_id not in victims)

    def _way(self, host: Host, piece: int) -> list[Job] | None:
        """Fewest guests, widest first, whose going leaves room for a piece; None if there are too few."""
        missing = piece - len(host.free)
        guests = sorted(
            (name for name in host.tenants if self.tenants[name].may_go), key=lambda name: -host.tenants[name]
        )
        way: list[Job] = []
        for name in guests:
            if missing <= 0:
                break
            way.append(self.tenants[name].job)
            missing -= host.tenants[name]
        return way if missing <= 0 else None

    def _ready_s(self, host: Host, piece: int, now_s: float) -> float:
        """When a node is expected to have room for a piece; infinite if it is smaller."""
        room = len(host.free)
        if room >= piece:
            return now_s
        for until_s, name in sorted((self.tenants[name].until_s, name) for name in host.tenants):
            room += host.tenants[name]
            if room >= piece:
                return until_s
        return float("inf")
