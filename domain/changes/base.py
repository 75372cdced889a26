"""What a what-if may change: a cluster's world, and the jobs that are replayed in it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol, Self

from domain.changes.reading import Entry
from domain.cluster import Node, check_quotas
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome


class ChangeRule(StrEnum):
    """What an entry of a patch can break."""

    UNKNOWN_KIND = "unknown-kind"
    UNKNOWN_FIELD = "unknown-field"
    MISSING_FIELD = "missing-field"
    WRONG_VALUE = "wrong-value"
    UNKNOWN_POOL = "unknown-pool"
    UNKNOWN_NODE = "unknown-node"
    NODE_EXISTS = "node-exists"
    NO_NODES_KNOWN = "no-nodes-known"
    TOO_FEW_GPUS = "too-few-gpus"
    WIDER_THAN_QUOTA = "wider-than-quota"
    OUTSIDE_THE_SPAN = "outside-the-span"
    NO_SUCH_JOBS = "no-such-jobs"
    REFUSED = "refused"


class ChangeError(SettingError):
    """An entry of a patch that cannot be; the message names entry, kind and rule.

    Attributes:
        index: place of the entry in the patch, from 0.
        kind: what it says it is; empty where it says nothing.
        rule: what it breaks.
    """

    def __init__(self, index: int, kind: str, rule: ChangeRule, message: str) -> None:
        named = f" ({kind})" if kind else ""
        super().__init__(f"changes[{index}]{named}: {rule.value}: {message}")
        self.index, self.kind, self.rule = index, kind, rule


class BrokenRuleError(Exception):
    """What a change raises inside; `domain.changes` says which entry it was."""

    def __init__(self, rule: ChangeRule, message: str) -> None:
        super().__init__(message)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class QuietTime:
    """A time in which nothing is lent: [from_s, to_s), and the same every `every_s` where it is given."""

    from_s: float
    to_s: float
    every_s: float | None = None

    def holds(self, now_s: float) -> bool:
        """Whether an instant lies in it."""
        begin_s = self._begin_s(now_s)
        return begin_s <= now_s < begin_s + (self.to_s - self.from_s)

    def next_end_s(self, now_s: float) -> float:
        """When it ends next after an instant; infinite if it does not any more."""
        if self.every_s is None:
            return self.to_s if now_s < self.to_s else math.inf
        end_s = self._begin_s(now_s) + (self.to_s - self.from_s)
        return end_s if end_s > now_s else end_s + self.every_s

    def _begin_s(self, now_s: float) -> float:
        if self.every_s is None:
            return self.from_s
        return self.from_s + math.floor((now_s - self.from_s) / self.every_s) * self.every_s


@dataclass(frozen=True, slots=True)
class World:
    """What a replay rests on beside its jobs.

    Attributes:
        quotas: GPUs of each pool, in the order of the pools.
        policy: name in the registry.
        settings: `key=value` texts.
        nodes: where they are known; empty: GPUs are only counted.
        quiet: times in which nothing is lent.
        is_placed: whether gangs are put on the nodes; else GPUs are only counted, by the quotas.
    """

    quotas: Mapping[str, int]
    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    quiet: tuple[QuietTime, ...] = ()
    is_placed: bool = False

    @property
    def capacity_gpus(self) -> int:
        """GPUs that there are."""
        return sum(node.num_gpus for node in self.nodes) if self.nodes else sum(self.quotas.values())

    def require_pool(self, pool: str) -> None:
        """Refuse a pool that there is not."""
        if pool not in self.quotas:
            raise BrokenRuleError(
                ChangeRule.UNKNOWN_POOL, f"there is no pool {pool!r}; there are: {', '.join(self.quotas)}"
            )

    def require_room(self, quotas: Mapping[str, int], capacity_gpus: int) -> None:
        """Refuse quotas that promise more than there is."""
        try:
            check_quotas(quotas, capacity_gpus)
        except ValueError as error:
            raise BrokenRuleError(
                ChangeRule.TOO_FEW_GPUS, f"{error}; lower the quota of another pool"
            ) from error


class Submitted(NamedTuple):
    """A job of a replay: as submitted, what becomes of it, and the id in the record that it comes from."""

    job: Job
    outcome: JobOutcome
    source_id: str


@dataclass(frozen=True, slots=True)
class Span:
    """The stretch of time that is replayed, seconds on the cluster's clock.

    Attributes:
        begin_s: where the replay begins, on an empty cluster.
        from_s: jobs submitted from here on are measured.
        to_s: jobs submitted up to here are replayed.
        seed: of what changes draw. The same for base and scenario, so that both have the same luck.
    """

    begin_s: float
    from_s: float
    to_s: float
    seed: int


@dataclass(frozen=True, slots=True)
class Calendar:
    """How texts become instants.

    Attributes:
        origin: second 0 of the cluster's clock; None: only seconds are understood.
    """

    origin: datetime | None = None


class Change(Protocol):
    """One kind of entry of a patch."""

    kind: ClassVar[str]
    example: ClassVar[Mapping[str, object]]
    """An entry of it; a test applies it."""

    @classmethod
    def read(cls, entry: Entry, calendar: Calendar) -> Self:
        """Make it of an entry.

        Raises:
            EntryError: for a field that is missing, or has a value of the wrong kind.
            BrokenRuleError: for one that makes no sense.
        """
        ...

    def on_world(self, world: World) -> World:
        """The world with the change.

        Raises:
            BrokenRuleError: if it cannot be.
        """
        ...

    def on_jobs(self, jobs: Sequence[Submitted], world: World, span: Span) -> Sequence[Submitted]:
        """The jobs with the change; in no particular order, each id once.

        Args:
            jobs: of the whole replay, by (submit, id), those of before `span.from_s` included.
            world: changed by the whole patch.
            span: which time it is.

        Raises:
            BrokenRuleError: if it cannot be.
        """
        ...


class OnWorld:
    """Part of changes that leave the jobs as they are."""

    def on_jobs(self, jobs: Sequence[Submitted], _world: World, _span: Span) -> Sequence[Submitted]:
        """As they are."""
        return jobs


class OnJobs:
    """Part of changes that leave the world as it is."""

    def on_world(self, world: World) -> World:
        """As it is."""
        return world
