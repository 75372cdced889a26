"""Who shared GPUs with whom, read off a schedule whose stretches name their GPUs.

Schedules are taken as valid: at most two jobs on a GPU, and packed sets that are stars (`domain.packing`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from domain.cluster import Gpu
from domain.jobs import Job, submit_order
from domain.schedules import Stretch


class SharedSpell(NamedTuple):
    """Time in which the same two jobs had one GPU.

    Attributes:
        start_s, end_s: half-open [start, end), seconds.
        gpu: which one.
        first: id of the job that had it first; of two that came at once the wider, then by (submit, id).
        second: id of the other.
    """

    start_s: float
    end_s: float
    gpu: Gpu
    first: str
    second: str

    def inside_s(self, window: tuple[float, float]) -> float:
        """How much of it lies in a window, seconds."""
        return max(0.0, min(self.end_s, window[1]) - max(self.start_s, window[0]))


class Ride(NamedTuple):
    """Time in which one job shared GPUs with the host of its packed set.

    Attributes:
        start_s, end_s: half-open [start, end), seconds.
        host: id of the wider job; of two of equal width the one that shares with others meanwhile, else the
            one that was there first.
        rider: id of the other.
        num_gpus: GPUs that they share.
    """

    start_s: float
    end_s: float
    host: str
    rider: str
    num_gpus: int


class PackedSet(NamedTuple):
    """Time in which a host had riders without a break.

    Attributes:
        start_s, end_s: seconds.
        host: id of the host.
        most_jobs: jobs that it had at most at once, the host included.
    """

    start_s: float
    end_s: float
    host: str
    most_jobs: int


def shared_spells(jobs: Mapping[str, Job], stretches: Iterable[Stretch]) -> list[SharedSpell]:
    """All spells, by (start, end, GPU); O(n log n) in the stretches and their GPUs.

    Args:
        jobs: by id.
        stretches: in any order; those that name no GPUs are shared with nobody.

    Raises:
        KeyError: if a stretch is of nobody known.
    """
    by_gpu: dict[Gpu, list[Stretch]] = {}
    for stay in _stays(stretches):
        for gpu in stay.gpus:
            by_gpu.setdefault(gpu, []).append(stay)
    spells: list[SharedSpell] = []
    for gpu, stays in by_gpu.items():
        stays.sort(key=lambda stay: (stay.start_s, -jobs[stay.job_id].num_gpus, *_order(jobs, stay)))
        there: list[Stretch] = []
        for stay in stays:
            there = [one for one in there if one.end_s > stay.start_s]
            spells += [
                SharedSpell(stay.start_s, min(one.end_s, stay.end_s), gpu, one.job_id, stay.job_id)
                for one in there
            ]
            there.append(stay)
    spells.sort(key=lambda one: (one.start_s, one.end_s, one.gpu.node, one.gpu.index))
    return spells


def rides(jobs: Mapping[str, Job], spells: Iterable[SharedSpell]) -> list[Ride]:
    """Who rode on whom, by (start, end, ids)."""
    pairs = Counter((spell.start_s, spell.end_s, spell.first, spell.second) for spell in spells)
    by_job: dict[str, list[tuple[float, float]]] = {}
    for start_s, end_s, first, second in pairs:
        by_job.setdefault(first, []).append((start_s, end_s))
        by_job.setdefault(second, []).append((start_s, end_s))
    found = []
    for (start_s, end_s, first, second), num_gpus in pairs.items():
        ranks = [
            (jobs[one].num_gpus, sum(s < end_s and start_s < e for s, e in by_job[one]))
            for one in (first, second)
        ]
        host, rider = (first, second) if ranks[0] >= ranks[1] else (second, first)
        found.append(Ride(start_s, end_s, host, rider, num_gpus))
    return sorted(found)


def packed_sets(all_rides: Sequence[Ride]) -> list[PackedSet]:
    """The packed sets, by (start, end, host). A rider that leaves as the next one joins is no break."""
    by_host: dict[str, list[Ride]] = {}
    for ride in sorted(all_rides, key=attrgetter("start_s")):
        by_host.setdefault(ride.host, []).append(ride)
    found = []
    for host, mine in by_host.items():
        group: list[Ride] = []
        for ride in mine:
            if group and ride.start_s > max(one.end_s for one in group):
                found.append(_set_of(host, group))
                group = []
            group.append(ride)
        found.append(_set_of(host, group))
    return sorted(found)


def _set_of(host: str, group: Sequence[Ride]) -> PackedSet:
    most = max(sum(one.start_s <= ride.start_s < one.end_s for one in group) for ride in group)
    return PackedSet(group[0].start_s, max(ride.end_s for ride in group), host, 1 + most)


def _stays(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stretches that follow each other on the same GPUs as one: a change of rate is no change of place."""
    by_job: dict[str, list[Stretch]] = {}
    for stretch in stretches:
        if stretch.gpus and stretch.start_s < stretch.end_s:
            by_job.setdefault(stretch.job_id, []).append(stretch)
    found = []
    for mine in by_job.values():
        mine.sort(key=attrgetter("start_s"))
        stay = mine[0]
        for stretch in mine[1:]:
            if stretch.start_s == stay.end_s and stretch.gpus == stay.gpus:
                stay = stay._replace(end_s=stretch.end_s)
            else:
                found.append(stay)
                stay = stretch
        found.append(stay)
    return found


def _order(jobs: Mapping[str, Job], stay: Stretch) -> tuple[float, str]:
    return submit_order(jobs[stay.job_id])
