"""Siblings: jobs of one array, or else of one burst, and what became of those that came first."""

import math
from dataclasses import dataclass
from typing import Final

from domain.jobs import Job
from domain.work import WorkDone
from models.lifetime.names import template_of

BURST_GAP_S: Final = 600.0
"""Jobs of the same user, pool, width and name template are siblings if no gap between submits is longer."""

MOST_FAMILIES: Final = 50_000
"""Families that are remembered, the ones used last."""

PLAIN_SIBLINGS: Final = ("siblings", "siblings running", "siblings ended", "since sibling")
RELATIVE_SIBLINGS: Final = ("sibling mean", "sibling last", "sibling age")

Kin = tuple[str | int | None, ...]


@dataclass(slots=True)
class Family:
    """Siblings so far.

    Attributes:
        submitted, running, ended: how many.
        sum_start_s: sum of the starts of those that run, less the work done by then, seconds.
        lost_rate: sum of what those that run lose each second to rates below 1.
        lost_from_s: the same, each times its start, seconds.
        sum_ln_life: sum of the ln lives of those that have ended.
        last_ln_life: of the one that ended last; NaN before.
        last_submit_s: when the last one was submitted.
        number: which burst of its kin this is.
    """

    submitted: int = 0
    running: int = 0
    ended: int = 0
    sum_start_s: float = 0.0
    lost_rate: float = 0.0
    lost_from_s: float = 0.0
    sum_ln_life: float = 0.0
    last_ln_life: float = math.nan
    last_submit_s: float = math.nan
    number: int = 0

    def runs(self, run: WorkDone, sign: int) -> None:
        """One more runs, or one less."""
        self.running += sign
        self.sum_start_s += sign * (run.since_s - run.work_s)
        self.lost_rate += sign * (1.0 - run.rate)
        self.lost_from_s += sign * (1.0 - run.rate) * run.since_s
        if not self.running:
            self.sum_start_s = self.lost_rate = self.lost_from_s = 0.0

    def mean_age_s(self, now_s: float) -> float:
        """Mean work that those that run have done, seconds."""
        lost_s = self.lost_rate * now_s - self.lost_from_s
        return now_s - (self.sum_start_s + lost_s) / self.running


class Siblings:
    """Families by kin; a new burst of the same kin is a new family."""

    def __init__(self) -> None:
        self.families: dict[Kin, Family] = {}

    def family_of(self, job: Job, now_s: float) -> tuple[Kin, Family]:
        """The family that a job submitted now belongs to, which it is not yet counted in."""
        kin = kin_of(job)
        family = self.families.pop(kin, None)
        if family is None:
            family = Family()
            if len(self.families) >= MOST_FAMILIES:
                del self.families[next(iter(self.families))]
        elif job.array_id is None and now_s - family.last_submit_s > BURST_GAP_S:
            family = Family(number=family.number + 1)
        self.families[kin] = family
        return kin, family

    def family_for(self, job: Job, now_s: float) -> Family:
        """The family that a job would belong to if it were submitted now; nothing changes."""
        family = self.families.get(kin_of(job))
        if family is None:
            return Family()
        if job.array_id is None and now_s - family.last_submit_s > BURST_GAP_S:
            return Family(number=family.number + 1)
        return family

    def submitted(self, family: Family, now_s: float) -> None:
        """A job joins a family."""
        family.submitted += 1
        family.last_submit_s = now_s

    def started(self, kin: Kin, number: int, run: WorkDone) -> None:
        """A job of a family runs."""
        family = self._known(kin, number)
        if family is not None:
            family.runs(run, 1)

    def stopped(self, kin: Kin, number: int, run: WorkDone) -> None:
        """A job of a family that ran like that does not run any more."""
        family = self._known(kin, number)
        if family is not None and family.running > 0:
            family.runs(run, -1)

    def ended(self, kin: Kin, number: int, ln_life: float) -> None:
        """A job of a family has ended."""
        family = self._known(kin, number)
        if family is not None:
            family.ended += 1
            family.sum_ln_life += ln_life
            family.last_ln_life = ln_life

    def _known(self, kin: Kin, number: int) -> Family | None:
        """The family a job was submitted into, if that is still the one remembered."""
        family = self.families.get(kin)
        return family if family is not None and family.number == number else None


def kin_of(job: Job) -> Kin:
    """What siblings have in common."""
    if job.array_id is not None:
        return ("array", job.pool, job.array_id)
    template = None if job.name is None else template_of(job.name)
    return ("burst", job.user, job.pool, job.num_gpus, template)


def plain_of(family: Family, now_s: float) -> tuple[float, ...]:
    """Values of `PLAIN_SIBLINGS`."""
    since_s = max(now_s - family.last_submit_s, 0.0)  # NaN before the first
    return (
        math.log1p(family.submitted),
        math.log1p(family.running),
        math.log1p(family.ended),
        math.log1p(since_s),
    )


def relative_of(family: Family, now_s: float) -> tuple[float, ...]:
    """Values of `RELATIVE_SIBLINGS`: ln seconds."""
    mean = family.sum_ln_life / family.ended if family.ended else math.nan
    age = math.nan
    if family.running:
        age = math.log(max(1.0, family.mean_age_s(now_s)))
    return (mean, family.last_ln_life, age)
