"""The words of calibration: a packed set, the setting it runs at, and what was measured of it.

Whatever belongs to the jobs of a set is a tuple in the order of `PackedSet.members`, the widest job first.
What belongs to workers is a tuple of such tuples, in the order of the workers' indices.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

LEAST_PCT = 10
MOST_PCT = 100


@dataclass(frozen=True, slots=True, order=True)
class Worker:
    """One worker of a job, on one GPU."""

    job_id: str
    index: int


@dataclass(frozen=True, slots=True)
class Member:
    """One job of a packed set.

    Attributes:
        width: its workers.
        batch: samples of one step over all its workers; None where samples cannot be moved between them.
        most_local: the most samples that fit into each worker's memory; empty if there is no limit.
    """

    job_id: str
    width: int
    batch: int | None = None
    most_local: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"job {self.job_id} has no workers")
        if self.most_local and len(self.most_local) != self.width:
            raise ValueError(f"job {self.job_id}: {len(self.most_local)} memory limits, {self.width} workers")
        if self.batch is not None and self.batch < self.width:
            raise ValueError(f"job {self.job_id}: a batch of {self.batch} has no sample for each worker")
        if self.batch is not None and self.most_local and sum(self.most_local) < self.batch:
            raise ValueError(f"job {self.job_id}: a batch of {self.batch} does not fit into memory")


@dataclass(frozen=True, slots=True)
class PackedSet:
    """Jobs that share GPUs under the star rule: the others share with the widest job only.

    Attributes:
        widest: the job with the most workers.
        others: the jobs that share with it.
        partners: for each worker of the widest job who else is on its GPU; None if nobody is.
        members: all jobs, the widest first.
        shared: for each job and worker whether its GPU is shared.
    """

    widest: Member
    others: tuple[Member, ...]
    partners: tuple[Worker | None, ...]
    members: tuple[Member, ...] = field(init=False)
    shared: tuple[tuple[bool, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        members = (self.widest, *self.others)
        _check(self, members)
        here = set(self.partners)
        riding = (
            tuple(Worker(item.job_id, index) in here for index in range(item.width)) for item in self.others
        )
        hosting = tuple(partner is not None for partner in self.partners)
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "shared", (hosting, *riding))

    def place_of(self, job_id: str) -> int:
        """Where a job stands among the members.

        Raises:
            KeyError: if it is none of them.
        """
        for place, item in enumerate(self.members):
            if item.job_id == job_id:
                return place
        raise KeyError(job_id)


def _check(packed: PackedSet, members: tuple[Member, ...]) -> None:
    widths = {item.job_id: item.width for item in members}
    if len(widths) != len(members):
        raise ValueError("a packed set names a job twice")
    if not packed.others:
        raise ValueError("a packed set has at least two jobs")
    if len(packed.partners) != packed.widest.width:
        raise ValueError(f"{packed.widest.width} workers, but {len(packed.partners)} entries of partners")
    if max(widths.values()) > packed.widest.width:
        raise ValueError(f"{packed.widest.job_id} is not the widest job of its set")
    seen = [item for item in packed.partners if item is not None]
    if len(set(seen)) != len(seen):
        raise ValueError("a worker cannot be on two GPUs")
    for item in seen:
        if item.job_id == packed.widest.job_id or not 0 <= item.index < widths.get(item.job_id, 0):
            raise ValueError(f"{item} is no worker of the other jobs")
    idle = set(widths) - {item.job_id for item in seen} - {packed.widest.job_id}
    if idle:
        raise ValueError(f"{', '.join(sorted(idle))}: shares no GPU with {packed.widest.job_id}")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the workers of a packed set run at.

    Attributes:
        shares: MPS share of each worker, whole per cent. A cap and no reservation: the two of a GPU may add
            up to 200, which is free competition.
        batches: samples of each worker in one step; an empty tuple for a job whose samples stay.
    """

    shares: tuple[tuple[int, ...], ...]
    batches: tuple[tuple[int, ...], ...]


class Verb(StrEnum):
    """What is asked of a worker: to run slower, or faster."""

    SQUEEZE = "squeeze"
    SWELL = "swell"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a coordination plan; a plan is a tuple of them, on the workers of one packed set."""

    worker: Worker
    verb: Verb


Plan = tuple[Call, ...]


def reversed_plan(plan: Plan) -> Plan:
    """What undoes a plan: the opposite calls, the last one first."""
    flip = {Verb.SQUEEZE: Verb.SWELL, Verb.SWELL: Verb.SQUEEZE}
    return tuple(Call(call.worker, flip[call.verb]) for call in reversed(plan))


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the shares may go; what a plan allows.

    Attributes:
        least, most: lowest and highest share of each worker, whole per cent.
    """

    least: tuple[tuple[int, ...], ...]
    most: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for low, high in zip(_flat(self.least), _flat(self.most), strict=True):
            if not LEAST_PCT <= low <= high <= MOST_PCT:
                raise ValueError(f"limits of {low} to {high} % are not in [{LEAST_PCT}, {MOST_PCT}]")

    def allow(self, setting: Setting) -> bool:
        """Whether all shares are within."""
        triples = zip(_flat(self.least), _flat(setting.shares), _flat(self.most), strict=True)
        return all(low <= share <= high for low, share, high in triples)


def wide_limits(packed: PackedSet) -> Limits:
    """All that MPS shares can be: 10 to 100 %."""
    return Limits(
        tuple((LEAST_PCT,) * item.width for item in packed.members),
        tuple((MOST_PCT,) * item.width for item in packed.members),
    )


def _flat(rows: tuple[tuple[int, ...], ...]) -> Iterator[int]:
    return (value for row in rows for value in row)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one window of measuring has seen at one setting.

    Attributes:
        rates: steps per second of each job.
        forwards: seconds of one forward pass of each worker; empty for a job of which they are not known.
            The backward pass is left out, since it waits for the others.
        error: relative standard error of the rates (0 if they are exact): for n steps the standard deviation
            of their lengths, over their mean, over the root of n.
    """

    rates: tuple[float, ...]
    forwards: tuple[tuple[float, ...], ...] = ()
    error: float = 0.0

    def __post_init__(self) -> None:
        if not all(rate >= 0 and math.isfinite(rate) for rate in self.rates):
            raise ValueError(f"rates {self.rates} are not all finite and at least 0")
        if not all(seconds > 0 for row in self.forwards for seconds in row):
            raise ValueError("a forward pass takes more than 0 s")
        if not 0 <= self.error < 1:
            raise ValueError(f"a relative error of {self.error} is not in [0, 1)")


@dataclass(frozen=True, slots=True)
class Remaining:
    """What one job still has before it, when the search begins.

    Attributes:
        steps: steps to go, or any other work in the unit of the rates.
        deadline_in_s: seconds from now to its deadline, negative once it has passed; None without one.
        utilisation: of its GPUs when it runs alone, in [0, 1]; None if that is not known.
        lowest_rate: what its rate must not fall below, because of a promise; None if nothing was promised.
        promised_in_s: seconds from now by which it has to end, because of a promise; None likewise.
    """

    steps: float
    deadline_in_s: float | None = None
    utilisation: float | None = None
    lowest_rate: float | None = None
    promised_in_s: float | None = None

    def __post_init__(self) -> None:
        if not (self.steps >= 0 and math.isfinite(self.steps)):
            raise ValueError(f"{self.steps} steps to go are not finite and at least 0")
        if self.utilisation is not None and not 0 <= self.utilisation <= 1:
            raise ValueError(f"a utilisation of {self.utilisation} is not in [0, 1]")
        if self.lowest_rate is not None and self.lowest_rate < 0:
            raise ValueError(f"a lowest rate of {self.lowest_rate} is negative")

    def time_s(self, rate: float) -> float:
        """Seconds it takes at that rate; infinite at a rate of 0."""
        if self.steps == 0:
            return 0.0
        return self.steps / rate if rate > 0 else math.inf

    @property
    def floor(self) -> float:
        """The rate that all promises to it ask for; 0 if there are none, infinite if one cannot be kept."""
        floor = 0.0 if self.lowest_rate is None else self.lowest_rate
        if self.promised_in_s is None or self.steps == 0:
            return floor
        return max(floor, self.steps / self.promised_in_s) if self.promised_in_s > 0 else math.inf
