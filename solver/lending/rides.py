"""Rides in the lending problem: binary choices beside the counts, and which of them exclude each other.

A ride starts one waiting job on GPUs of a running host. It takes no idle GPU and no place on a node; it takes
its job out of its class, its charge out of the budget, and its GPUs from all other riders of the host. All
rules of packed sets are rows of one kind, at most so many of a group: one ride of a job, one rider on a GPU,
so many riders of a host. That equal widths are alone with each other needs no row of its own: a rider as wide
as its host has all of the host's GPUs. No rider has riders, as hosts run and riders wait.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.packing import MAX_SET_JOBS
from solver.packing.rides import Ride

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MOST_RIDES: Final = 200
"""Candidates that one plan weighs."""
MOST_RIDERS: Final = MAX_SET_JOBS - 1
"""Riders of one host."""
_WHOLE: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class RideRows:
    """Candidates for riding, as numbers.

    Attributes:
        job_ids: (rides,) the rider of each; several may be of one job.
        of_class: (rides,) class of the rider.
        value: (rides,) worth, net of what the host loses; may be negative.
        charge_jobs: (rides,) jobs that it is expected to slow, at least 0.
        member: (groups, rides) 1 where a ride is of a group of which only so many may be chosen.
        most: (groups,) how many.
        is_open: (rides,) whether it may be chosen at all.

    Raises:
        ValueError: if shapes differ or a number makes no sense.
    """

    job_ids: tuple[str, ...]
    of_class: IntArray
    value: FloatArray
    charge_jobs: FloatArray
    member: FloatArray
    most: FloatArray
    is_open: BoolArray

    def __post_init__(self) -> None:
        columns = (self.of_class, self.value, self.charge_jobs, self.is_open)
        if any(column.shape != (self.size,) for column in columns):
            raise ValueError("job_ids, of_class, value, charge_jobs and is_open have one entry per ride")
        if self.member.shape != (self.most.size, self.size):
            raise ValueError(
                f"groups are {self.member.shape}, not {self.most.size} groups x {self.size} rides"
            )
        if not (np.isfinite(self.value).all() and np.isfinite(self.charge_jobs).all()):
            raise ValueError("values and charges of rides are finite")
        if (self.charge_jobs < 0.0).any() or (self.of_class < 0).any() or (self.most < 0.0).any():
            raise ValueError("charges, classes and sizes of groups are at least 0")

    @property
    def size(self) -> int:
        """Candidates."""
        return len(self.job_ids)

    def by_class(self, taken: NDArray[Any], num_classes: int) -> NDArray[Any]:
        """(classes,) jobs that ride, of (rides,) chosen ones; whole where those are."""
        found = np.bincount(self.of_class, weights=taken, minlength=num_classes)
        return found if taken.dtype.kind == "f" else found.astype(np.int64)

    def riding(self, taken: IntArray) -> frozenset[str]:
        """Ids of the jobs that ride."""
        return frozenset(self.job_ids[k] for k in np.flatnonzero(taken).tolist())

    def violations(self, taken: IntArray) -> Iterator[str]:
        """Rules that chosen rides break, in words."""
        if ((taken < 0) | (taken > self.is_open)).any():
            yield "a ride is chosen that may not be, or more than once"
        if (self.member @ taken > self.most).any():
            yield "rides of one job, one GPU or one host exclude each other"

    def scaled(self, factor: float, price: float) -> "RideRows":
        """The same rides where all that slows jobs counts `factor` times as much toward the budget.

        What each is worth after its price stays the same.
        """
        more = price * self.charge_jobs * (factor - 1.0)
        return replace(self, value=self.value + more, charge_jobs=self.charge_jobs * factor)

    def left_by(self, taken: FloatArray) -> "RideRows":
        """What may still be chosen beside others. A part of a ride keeps nobody off its GPUs."""
        whole = np.floor(taken + _WHOLE)
        most = np.maximum(self.most - self.member @ whole, 0.0)
        is_barred = (self.member[most == 0.0] > 0.0).any(axis=0)
        return replace(self, most=most, is_open=self.is_open & (whole == 0.0) & ~is_barred)

    def of(self, classes: IntArray) -> "RideRows":
        """The rides of some classes, which are numbered in that order then."""
        place = {one: k for k, one in enumerate(classes.tolist())}
        rides = np.flatnonzero(np.isin(self.of_class, classes))
        return RideRows(
            job_ids=tuple(self.job_ids[k] for k in rides.tolist()),
            of_class=np.array([place[one] for one in self.of_class[rides].tolist()], dtype=np.int64),
            value=self.value[rides],
            charge_jobs=self.charge_jobs[rides],
            member=self.member[:, rides],
            most=self.most,
            is_open=self.is_open[rides],
        )

    def regrouped(self, members: Sequence[Sequence[str]]) -> "RideRows":
        """The same rides where the waiting jobs are in other classes."""
        return replace(self, of_class=_classes_of(self.job_ids, members))


def ride_rows(
    rides: Sequence[Ride],
    members: Sequence[Sequence[str]],
    value: FloatArray | None = None,
    room: Mapping[str, int] | None = None,
) -> RideRows | None:
    """Candidates as numbers; None if there are none.

    Args:
        rides: candidates; their riders are among the members.
        members: ids of the jobs of each class.
        value: (rides,) what they are worth to the problem; None for what they say.
        room: by id, how many riders hosts may get at once; those that are not named as many as a set holds.

    Raises:
        ValueError: if a rider is of no class, does not fit on its host, or an entry makes no sense.
    """
    if not rides:
        return None
    groups: dict[tuple[int, ...], int] = {}
    for most, ids in _groups(rides, room or {}):
        groups[ids] = min(most, groups.get(ids, most))
    binding = {ids: most for ids, most in groups.items() if len(ids) > most}
    member = np.zeros((len(binding), len(rides)))
    for row, ids in enumerate(binding):
        member[row, list(ids)] = 1.0
    most_of = np.array(list(binding.values()), dtype=float)
    kept = ~_implied(member, most_of)
    is_barred = (member[most_of == 0.0] > 0.0).any(axis=0)
    return RideRows(
        job_ids=tuple(ride.job.job_id for ride in rides),
        of_class=_classes_of([ride.job.job_id for ride in rides], members),
        value=np.array([ride.value for ride in rides]) if value is None else value,
        charge_jobs=np.array([ride.charge for ride in rides]),
        member=member[kept],
        most=most_of[kept],
        is_open=~is_barred,
    )


def best_rides(rides: Sequence[Ride], most: int = MOST_RIDES) -> list[Ride]:
    """As many rides as a plan weighs, those worth most, ties by (submit, id); in the order given."""
    if len(rides) <= most:
        return list(rides)
    keys = [(-ride.value, ride.job.submit_s, ride.job.job_id, ride.host.job_id) for ride in rides]
    chosen = sorted(range(len(rides)), key=keys.__getitem__)[:most]
    return [rides[k] for k in sorted(chosen)]


def started(
    members: Sequence[Sequence[str]], counts: Sequence[int], riding: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Ids of the jobs that start: of each class the first so many of those that do not ride."""
    pairs = zip(members, counts, strict=False)
    if not riding:
        return tuple(job_id for ids, count in pairs for job_id in ids[:count])
    rest = (([one for one in ids if one not in riding], count) for ids, count in pairs)
    return tuple(job_id for ids, count in rest for job_id in ids[:count])


def _groups(rides: Sequence[Ride], room: Mapping[str, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """How many may be chosen of which rides: of one job, on one GPU, beside one host."""
    of_job: dict[str, list[int]] = {}
    on_gpu: dict[tuple[str, str, int], list[int]] = {}
    of_host: dict[str, list[int]] = {}
    for number, ride in enumerate(rides):
        if not ride.job.num_gpus == len(set(ride.gpus)) <= ride.host.num_gpus:
            found = f"job {ride.job.job_id} of width {ride.job.num_gpus} cannot ride on {len(set(ride.gpus))}"
            raise ValueError(f"{found} of the {ride.host.num_gpus} GPUs of {ride.host.job_id}")
        of_job.setdefault(ride.job.job_id, []).append(number)
        of_host.setdefault(ride.host.job_id, []).append(number)
        for gpu in ride.gpus:
            on_gpu.setdefault((ride.host.job_id, gpu.node, gpu.index), []).append(number)
    yield from ((1, tuple(ids)) for ids in of_job.values())
    yield from ((1, tuple(ids)) for ids in on_gpu.values())
    for host, ids in of_host.items():
        yield min(room.get(host, MOST_RIDERS), MOST_RIDERS), tuple(ids)


def _implied(member: FloatArray, most: FloatArray) -> BoolArray:
    """(groups,) whether a group of which one may be chosen is part of another such; no two are the same."""
    ones = most == 1.0
    sizes = member.sum(axis=1)
    is_part = (member @ member.T >= sizes[:, None]) & ones[:, None] & ones[None, :]
    np.fill_diagonal(is_part, val=False)
    return np.asarray(is_part.any(axis=1))


def _classes_of(job_ids: Sequence[str], members: Sequence[Sequence[str]]) -> IntArray:
    wanted = set(job_ids)
    place = {job_id: one for one, ids in enumerate(members) for job_id in ids if job_id in wanted}
    missing = wanted - place.keys()
    if missing:
        raise ValueError(f"job {min(missing)} has a ride and is of no class")
    return np.array([place[job_id] for job_id in job_ids], dtype=np.int64)
