"""More or fewer arrivals of a pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from domain.changes.base import Calendar, OnJobs, Span, Submitted, World
from domain.changes.draws import generator, uniform
from domain.changes.moments import DAY_S
from domain.changes.reading import Entry
from domain.jobs import JobOutcome

_MOST_TIMES: Final = 10.0


@dataclass(frozen=True, slots=True)
class Arrivals(OnJobs):
    """`times` as many arrivals of `pool`.

    Below 1 each job stays if its own number, drawn from the seed and its id, is below `times`: the jobs of
    0.3 are among those of 0.5. Above 1 all jobs stay, and copies of the pool's jobs come besides, a whole
    round of them for each whole time and a part of a round, drawn like that, for the rest. In a round every
    job comes a number of whole days later, the same for all and drawn from the seed, going round at the end
    of the time replayed: so bursts, widths and lives stay what they are, the hour of the day too, and twice
    the arrivals are twice the work. In less than two days the shift is any part of them.
    """

    pool: str
    times: float

    kind: ClassVar[str] = "arrivals"
    example: ClassVar[Mapping[str, object]] = {"kind": "arrivals", "pool": "a", "times": 2}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`pool`, `times`."""
        return cls(entry.text("pool"), entry.number("times", 0.0, _MOST_TIMES))

    def on_world(self, world: World) -> World:
        """As it is."""
        world.require_pool(self.pool)
        return world

    def on_jobs(self, jobs: Sequence[Submitted], _world: World, span: Span) -> Sequence[Submitted]:
        """The jobs of others, and those of the pool as often as is wanted."""
        kept = [one for one in jobs if one.job.pool != self.pool]
        own = [one for one in jobs if one.job.pool == self.pool]
        for number in range(int(self.times) + 1):
            left = self.times - number
            drawn = [one for one in own if uniform(span.seed, number, one.job.job_id) < left]
            kept += drawn if number == 0 else self._later(drawn, number, span)
        return kept

    def _later(self, jobs: Sequence[Submitted], number: int, span: Span) -> list[Submitted]:
        length_s = span.to_s - span.begin_s
        days = int(length_s // DAY_S)
        rng = generator(span.seed, self.pool, number)
        if days > 1:
            shift_s, round_s = DAY_S * rng.randrange(1, days), days * DAY_S
        else:
            shift_s, round_s = length_s * rng.random(), length_s
        return [_moved(one, number, shift_s, span.begin_s, round_s) for one in jobs]


def _moved(one: Submitted, number: int, shift_s: float, begin_s: float, round_s: float) -> Submitted:
    """A copy of a job, later; what lies behind the last whole day of a round stays where it is."""
    job = one.job
    since_s = job.submit_s - begin_s
    submit_s = begin_s + (since_s + shift_s) % round_s if since_s < round_s else job.submit_s
    deadline_s = None if job.deadline_s is None else job.deadline_s + (submit_s - job.submit_s)
    name = f"{job.job_id}+{number}"
    copy = replace(job, job_id=name, submit_s=submit_s, deadline_s=deadline_s)
    return Submitted(copy, JobOutcome(name, one.outcome.duration_s, one.outcome.state), one.source_id)
