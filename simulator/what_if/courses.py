"""Which jobs are replayed: the end of the history, or futures drawn from it day by day."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from data.history import in_order, to_jobs
from domain.changes import Span, Submitted
from domain.changes.draws import generator
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome
from domain.questions import DAY_S, Futures, Question
from simulator.workload import before, cut_off_before, starts_before


@dataclass(frozen=True)
class Past:
    """What forecasts learn from; the fields are those of `simulator.workload.Workload`."""

    past: tuple[tuple[Job, float], ...]
    unended: tuple[tuple[Job, float], ...]
    starts: Mapping[str, float]
    cut_off: frozenset[str]

    @staticmethod
    def of(frame: pd.DataFrame, cut_s: float, learn_days: float | None) -> "Past":
        """What had happened by an instant, of the last `learn_days` before it."""
        if learn_days is not None:
            frame = in_order(frame[frame["submit_s"] >= cut_s - learn_days * DAY_S])
        past, unended = before(frame, cut_s)
        return Past(tuple(past), tuple(unended), starts_before(frame, cut_s), cut_off_before(frame, cut_s))

    def of_pools(self, quotas: Mapping[str, int]) -> "Past":
        """The part of it that is about these pools."""
        return replace(
            self,
            past=tuple(one for one in self.past if one[0].pool in quotas),
            unended=tuple(one for one in self.unended if one[0].pool in quotas),
        )


@dataclass(frozen=True)
class Course:
    """One stretch of time to be replayed in both worlds.

    Attributes:
        span: which time it is.
        jobs: what is submitted, by (submit, id).
        past: what may be learned from before.
        ends_s: ends of the units of the span by which it is measured, seconds, ascending; a job belongs to
            the first unit that ends at its submit or later.
    """

    span: Span
    jobs: tuple[Submitted, ...]
    past: Past
    ends_s: tuple[float, ...]


def courses_of(frame: pd.DataFrame, question: Question) -> list[Course]:
    """The courses of a question: one of the past, or one for each future.

    Args:
        frame: the history, as `data.schema` has it.
        question: what is asked.

    Raises:
        SettingError: if there are no jobs, or none in the days that futures are drawn from.
    """
    if frame.empty:
        raise SettingError("the cluster has no past jobs: import its history first")
    newest_s = float(frame["submit_s"].max())
    if question.futures is None:
        return [_recent(frame, newest_s, question)]
    return _drawn(frame, newest_s, question, question.futures)


def _recent(frame: pd.DataFrame, newest_s: float, question: Question) -> Course:
    from_s = newest_s - question.days * DAY_S
    begin_s = from_s - question.warm_up_days * DAY_S
    jobs = tuple(_submitted(frame[frame["submit_s"] >= begin_s]))
    ends_s = [min(from_s + day * DAY_S, newest_s) for day in range(1, math.ceil(question.days) + 1)]
    span = Span(begin_s, from_s, newest_s, question.seed)
    return Course(span, jobs, Past.of(frame, begin_s, question.learn_days), tuple(ends_s))


def _drawn(frame: pd.DataFrame, newest_s: float, question: Question, futures: Futures) -> list[Course]:
    """Futures that begin at the newest submit. The day that ends there is day 0, the one before it day 1."""
    first_s = float(frame["submit_s"].iloc[0])
    there = min(futures.from_days, max(1, math.ceil((newest_s - first_s) / DAY_S)))
    ages = ((newest_s - frame["submit_s"]) // DAY_S).astype("int64")
    days = {age: _submitted(frame[ages == age]) for age in range(there)}
    past = Past.of(frame, newest_s, question.learn_days)
    warm_up = math.ceil(question.warm_up_days)
    span = Span(
        newest_s, newest_s + warm_up * DAY_S, newest_s + (warm_up + futures.days) * DAY_S, question.seed
    )
    courses = []
    for number in range(futures.count):
        drawn = _days(futures, there, warm_up + futures.days, question.seed, number)
        jobs = [_on_day(one, age, day) for day, age in enumerate(drawn) for one in days.get(age, ())]
        jobs.sort(key=lambda one: (one.job.submit_s, one.job.job_id))
        own = replace(span, seed=span.seed + number)
        courses.append(Course(own, tuple(jobs), past, (span.to_s,)))
    return courses


def _days(futures: Futures, there: int, num_days: int, seed: int, number: int) -> list[int]:
    """Which past day stands for each day of a future: blocks that begin on a day drawn by its weight."""
    rng = generator(seed, "days", number)
    block = min(futures.block_days, there)
    begins = list(range(block - 1, there))
    half_life = futures.half_life_days
    weights = [1.0 if half_life is None else 0.5 ** (age / half_life) for age in begins]
    found: list[int] = []
    while len(found) < num_days:
        begin = rng.choices(begins, weights)[0]
        found += range(begin, begin - block, -1)
    return found[:num_days]


def _on_day(one: Submitted, age: int, day: int) -> Submitted:
    """A job of a past day, on a day of a future: at the same hour, and as long."""
    later_s = (age + 1 + day) * DAY_S
    job, name = one.job, f"{one.job.job_id}~{day}"
    deadline_s = None if job.deadline_s is None else job.deadline_s + later_s
    moved = replace(job, job_id=name, submit_s=job.submit_s + later_s, deadline_s=deadline_s)
    return Submitted(moved, JobOutcome(name, one.outcome.duration_s, one.outcome.state), one.source_id)


def _submitted(frame: pd.DataFrame) -> list[Submitted]:
    jobs, outcomes = to_jobs(frame)
    return [Submitted(job, outcomes[job.job_id], job.job_id) for job in jobs]
