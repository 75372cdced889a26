"""Big gangs that come besides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule, OnJobs, Span, Submitted, World
from domain.changes.draws import generator
from domain.changes.moments import Moment, moment, span_s
from domain.changes.reading import Entry
from domain.jobs import Job, JobOutcome

_MAX_GPUS: Final = 1_000_000
_MOST: Final = 1_000
_NEAREST: Final = 20
_UNKNOWN_LIFE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Gang(OnJobs):
    """`count` gangs (1) of `pool`, `gpus` wide, submitted at `at`.

    They run for `duration` (`6h`, or seconds). Where that is left out, each has the life of one of the twenty
    jobs of the pool that are nearest in width, drawn from the seed; an hour where the pool has no jobs.
    """

    pool: str
    gpus: int
    at: Moment
    duration_s: float | None = None
    count: int = 1

    kind: ClassVar[str] = "gang"
    example: ClassVar[Mapping[str, object]] = {"kind": "gang", "pool": "a", "gpus": 2, "at": "+6h"}

    @classmethod
    def read(cls, entry: Entry, calendar: Calendar) -> Self:
        """`pool`, `gpus`, `at`, perhaps `duration` and `count`."""
        duration_s = None
        if entry.has("duration"):
            said = entry.moment("duration")
            duration_s = span_s(said) if isinstance(said, str) else entry.number("duration", 0.0, 1e11)
        return cls(
            entry.text("pool"),
            entry.whole("gpus", 1, _MAX_GPUS),
            moment(entry.moment("at"), calendar),
            duration_s,
            entry.whole("count", 1, _MOST) if entry.has("count") else 1,
        )

    def on_world(self, world: World) -> World:
        """As it is."""
        world.require_pool(self.pool)
        return world

    def on_jobs(self, jobs: Sequence[Submitted], world: World, span: Span) -> Sequence[Submitted]:
        """The jobs, and the gangs."""
        quota = world.quotas[self.pool]
        if self.gpus > quota:
            raise BrokenRuleError(
                ChangeRule.WIDER_THAN_QUOTA,
                f"{self.gpus} GPUs in pool {self.pool}, whose quota is {quota}: it would never start",
            )
        at_s = self.at.in_span(span.from_s)
        if not span.begin_s <= at_s <= span.to_s:
            raise BrokenRuleError(
                ChangeRule.OUTSIDE_THE_SPAN,
                f"at is {at_s:.0f} s, what is replayed lies between {span.begin_s:.0f} and {span.to_s:.0f} s",
            )
        taken = {one.job.job_id for one in jobs}
        made: list[Submitted] = []
        for number in range(1, self.count + 1):
            name = f"gang-{self.pool}-{self.gpus}-{number}"
            while name in taken:
                name += "+"
            taken.add(name)
            life_s = self._life_s(jobs, generator(span.seed, self.pool, self.gpus, number).random())
            made.append(Submitted(Job(name, self.pool, at_s, self.gpus), JobOutcome(name, life_s), name))
        return [*jobs, *made]

    def _life_s(self, jobs: Sequence[Submitted], uniform: float) -> float:
        if self.duration_s is not None:
            return self.duration_s
        own = [one for one in jobs if one.job.pool == self.pool]
        own.sort(key=lambda one: (abs(one.job.num_gpus - self.gpus), one.job.submit_s, one.job.job_id))
        near = own[:_NEAREST]
        return near[int(uniform * len(near))].outcome.duration_s if near else _UNKNOWN_LIFE_S
