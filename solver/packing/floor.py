"""Who is on which GPU, as a policy knows it, and where a job may go: alone, beside one job, or over several.

Places are enumerated, not searched for: on one node for a gang that fits into one, on whole nodes otherwise
(the fewest nodes possible, Gimbal section 4.1). Beside whom, and whether it is worth it, is the policy's
business (`solver.packing.candidates`).
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.packing import MAX_SET_JOBS


class Place(NamedTuple):
    """GPUs for a job, and who is on each of them already (None: nobody)."""

    gpus: tuple[Gpu, ...]
    beside: tuple[str | None, ...]

    def partners(self) -> list[str]:
        """Jobs it would share with, in the order of the GPUs."""
        return list(dict.fromkeys(one for one in self.beside if one is not None))


@dataclass(slots=True)
class Tenant:
    """A running job.

    Attributes:
        job: that runs.
        gpus: where.
        mates: who shares each of its GPUs (None: nobody).
        shares: its MPS share and its mate's on those of them where one of the two is capped, per cent.
    """

    job: Job
    gpus: tuple[Gpu, ...]
    mates: dict[Gpu, str | None] = field(default_factory=dict)
    shares: dict[Gpu, tuple[int, int]] = field(default_factory=dict)

    def partners(self) -> list[str]:
        """Jobs it shares with, in the order of its GPUs."""
        return list(dict.fromkeys(one for one in self.mates.values() if one is not None))


class Floor:
    """The GPUs of a cluster whose jobs may share. Told of starts and ends; asked for places.

    Args:
        nodes: all of one size; the order in which they are preferred where nothing else decides.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._gpus: dict[str, tuple[Gpu, ...]] = {node.name: node.gpus() for node in nodes}
        self.node_gpus = max(node.num_gpus for node in nodes)
        self._on: dict[Gpu, tuple[str, ...]] = {gpu: () for gpus in self._gpus.values() for gpu in gpus}
        self.tenants: dict[str, Tenant] = {}

    def copy(self) -> "Floor":
        """The same GPUs and jobs, to try something out on."""
        other = copy(self)
        other._on = dict(self._on)  # noqa: SLF001 - of the same class
        other.tenants = {
            name: Tenant(tenant.job, tenant.gpus, dict(tenant.mates), dict(tenant.shares))
            for name, tenant in self.tenants.items()
        }
        return other

    def beside(self, job_id: str) -> Place:
        """The very GPUs of a running job that has them alone."""
        gpus = self.tenants[job_id].gpus
        return Place(gpus, (job_id,) * len(gpus))

    def enter(self, job: Job, gpus: Sequence[Gpu], setting: tuple[int, int] = (100, 100)) -> None:
        """A job runs on some GPUs from now on; `setting`: its share where it has mates, and theirs there."""
        mates: dict[Gpu, str | None] = {}
        for gpu in gpus:
            here = self._on[gpu]
            mates[gpu] = here[0] if here else None
            for other in here:
                self.tenants[other].mates[gpu] = job.job_id
            self._on[gpu] = (*here, job.job_id)
        tenant = self.tenants[job.job_id] = Tenant(job, tuple(gpus), mates)
        if setting != (100, 100):
            for gpu, mate in mates.items():
                if mate is not None:
                    tenant.shares[gpu] = setting
                    self.tenants[mate].shares[gpu] = (setting[1], setting[0])

    def leave(self, job_id: str) -> None:
        """A job runs no more; one that did not is ignored."""
        tenant = self.tenants.pop(job_id, None)
        if tenant is None:
            return
        for gpu in tenant.gpus:
            left = tuple(one for one in self._on[gpu] if one != job_id)
            self._on[gpu] = left
            for other in left:
                self.tenants[other].mates[gpu] = None
                self.tenants[other].shares.pop(gpu, None)

    def idle_gpus(self) -> int:
        """GPUs that nobody has."""
        return sum(not here for here in self._on.values())

    def idle_place(self, num_gpus: int) -> Place | None:
        """Idle GPUs on the fewest nodes, where they leave the smallest rest; None if there are none."""
        whole, rest = divmod(num_gpus, self.node_gpus)
        idle = [[gpu for gpu in gpus if not self._on[gpu]] for gpus in self._gpus.values()]
        order = sorted(range(len(idle)), key=lambda k: (len(idle[k]), k))
        taken: list[Gpu] = []
        used: set[int] = set()
        for piece in [self.node_gpus] * whole + ([rest] if rest else []):
            k = next((k for k in order if len(idle[k]) >= piece and k not in used), None)
            if k is None:
                return None
            used.add(k)
            taken += idle[k][:piece]
        return Place(tuple(taken), (None,) * num_gpus)

    def shared_places(self, job: Job) -> Iterator[Place]:
        """Places in which a job shares at least one GPU, within the rules of packed sets."""
        found: Iterator[Place]
        if job.num_gpus <= self.node_gpus:
            found = (place for gpus in self._gpus.values() for place in self._on_node(job, gpus))
        else:
            found = self._on_whole_nodes(job)
        for place in found:
            if self.keeps_equal_rule(job, place):
                yield place

    def may_join(self, job: Job, partners: Sequence[str]) -> bool:
        """Whether a job may share with these: as one's rider or equal, or as the host of them all."""
        if len(partners) == 1:
            other = self.tenants[partners[0]]
            theirs = other.partners()
            if not theirs:
                return True
            if other.job.num_gpus == job.num_gpus:
                return False
            return (
                other.job.num_gpus >= job.num_gpus and len(theirs) + 2 <= MAX_SET_JOBS and self._is_hub(other)
            )
        return len(partners) < MAX_SET_JOBS and all(
            not self.tenants[one].partners() and self.tenants[one].job.num_gpus <= job.num_gpus
            for one in partners
        )

    def _is_hub(self, tenant: Tenant) -> bool:
        """Whether a job that shares may take one more: it is the host of its set."""
        return all(
            len(self.tenants[one].partners()) == 1 and self.tenants[one].job.num_gpus <= tenant.job.num_gpus
            for one in tenant.partners()
        )

    def _on_node(self, job: Job, gpus: Sequence[Gpu]) -> Iterator[Place]:
        """Beside each single job of a node; then over several of them."""
        idle = [gpu for gpu in gpus if not self._on[gpu]]
        slots: dict[str, list[Gpu]] = {}
        for gpu in gpus:
            here = self._on[gpu]
            if len(here) == 1:
                slots.setdefault(here[0], []).append(gpu)
        width = job.num_gpus
        for name, theirs in slots.items():
            if len(theirs) + len(idle) >= width and self.may_join(job, [name]):
                yield self._place((theirs + idle)[:width])
        if width > 1:
            yield from self._over_several(job, idle, slots)

    def _over_several(self, job: Job, idle: list[Gpu], slots: dict[str, list[Gpu]]) -> Iterator[Place]:
        """As the host of narrower jobs that share with nobody: the widest of them first, so that few do."""
        free = [
            (name, theirs)
            for name, theirs in slots.items()
            if not self.tenants[name].partners() and self.tenants[name].job.num_gpus <= job.num_gpus
        ]
        free.sort(key=lambda entry: (-len(entry[1]), entry[0]))
        chosen = list(idle[: job.num_gpus])
        over = 0
        for _, theirs in free:
            if len(chosen) >= job.num_gpus or over == MAX_SET_JOBS - 1:
                break
            chosen += theirs[: job.num_gpus - len(chosen)]
            over += 1
        if len(chosen) == job.num_gpus and over > 1:
            yield self._place(chosen)

    def _on_whole_nodes(self, job: Job) -> Iterator[Place]:
        """On whole nodes: beside one job and on idle nodes, or over several jobs that share with nobody."""
        open_nodes: list[tuple[frozenset[str], Sequence[Gpu]]] = [
            (frozenset(one for gpu in gpus for one in self._on[gpu]), gpus)
            for gpus in self._gpus.values()
            if all(len(self._on[gpu]) <= 1 for gpu in gpus)
        ]
        hosts = sorted({next(iter(names)) for names, _ in open_nodes if len(names) == 1})
        for name in hosts:
            if self.may_join(job, [name]):
                fit = [gpus for names, gpus in open_nodes if names <= {name}]
                fit.sort(key=lambda gpus: not self._on[gpus[0]])
                yield from self._cut(job, fit)
        yield from self._cut(job, self._hosting(job, open_nodes))

    def _hosting(
        self, job: Job, open_nodes: list[tuple[frozenset[str], Sequence[Gpu]]]
    ) -> list[Sequence[Gpu]]:
        """Nodes that a wide job can take over as the host, chosen so that it shares with few."""
        needed = -(-job.num_gpus // self.node_gpus)
        chosen: list[Sequence[Gpu]] = []
        sharing: set[str] = set()
        rest = list(range(len(open_nodes)))
        while len(chosen) < needed and rest:
            best = min(rest, key=lambda k: (len(open_nodes[k][0] - sharing), k))
            names, gpus = open_nodes[best]
            rest.remove(best)
            if self.may_join(job, sorted(sharing | names)) or not (sharing | names):
                sharing |= names
                chosen.append(gpus)
        return chosen if len(chosen) == needed else []

    def _cut(self, job: Job, nodes: Sequence[Sequence[Gpu]]) -> Iterator[Place]:
        """The first nodes as a place; one that shares with nobody is none."""
        needed = -(-job.num_gpus // self.node_gpus)
        if len(nodes) < needed:
            return
        gpus = [gpu for node in nodes[:needed] for gpu in node]
        place = self._place(gpus[: job.num_gpus])
        partners = place.partners()
        if partners and self.may_join(job, partners):
            yield place

    def _place(self, gpus: Sequence[Gpu]) -> Place:
        here = (self._on[gpu] for gpu in gpus)
        return Place(tuple(gpus), tuple(names[0] if names else None for names in here))

    def keeps_equal_rule(self, job: Job, place: Place) -> bool:
        """Equal widths share all GPUs, one to one, or none."""
        beside = place.partners()
        equals = [name for name in beside if self.tenants[name].job.num_gpus == job.num_gpus]
        if not equals:
            return True
        other = self.tenants[equals[0]]
        return len(beside) == 1 and set(other.gpus) == set(place.gpus) and None not in place.beside
