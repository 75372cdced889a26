"""Jobs that are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule, OnJobs, Span, Submitted, World
from domain.changes.reading import Entry, EntryError

_MAX_GPUS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LeaveOut(OnJobs):
    """Jobs that fulfil all that is said: `jobs` (ids), `pool`, `user`, `min_gpus`, `max_gpus`.

    In sampled futures an id means each job that was drawn from the one of that id.
    """

    jobs: frozenset[str] | None = None
    pool: str | None = None
    user: str | None = None
    min_gpus: int = 1
    max_gpus: int = _MAX_GPUS

    kind: ClassVar[str] = "leave_out"
    example: ClassVar[Mapping[str, object]] = {"kind": "leave_out", "pool": "a", "min_gpus": 2}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """At least one of `jobs`, `pool`, `user`, `min_gpus`, `max_gpus`."""
        names = ("jobs", "pool", "user", "min_gpus", "max_gpus")
        if not any(entry.has(name) for name in names):
            raise EntryError(f"at least one of {', '.join(names)} has to be there", is_missing=True)
        return cls(
            frozenset(entry.texts("jobs")) if entry.has("jobs") else None,
            entry.text("pool") if entry.has("pool") else None,
            entry.text("user") if entry.has("user") else None,
            entry.whole("min_gpus", 1, _MAX_GPUS) if entry.has("min_gpus") else 1,
            entry.whole("max_gpus", 1, _MAX_GPUS) if entry.has("max_gpus") else _MAX_GPUS,
        )

    def on_world(self, world: World) -> World:
        """As it is."""
        if self.pool is not None:
            world.require_pool(self.pool)
        return world

    def on_jobs(self, jobs: Sequence[Submitted], _world: World, _span: Span) -> Sequence[Submitted]:
        """The other jobs."""
        if self.jobs is not None and self.jobs.isdisjoint(one.source_id for one in jobs):
            raise BrokenRuleError(
                ChangeRule.NO_SUCH_JOBS, f"none of them is replayed, such as {min(self.jobs)!r}"
            )
        return [one for one in jobs if not self._is_meant(one)]

    def _is_meant(self, one: Submitted) -> bool:
        job = one.job
        return (
            (self.jobs is None or one.source_id in self.jobs)
            and self.pool in (None, job.pool)
            and self.user in (None, job.user)
            and self.min_gpus <= job.num_gpus <= self.max_gpus
        )
