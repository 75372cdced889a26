"""Two jobs on one GPU, of equal or unequal width, where that is worth more to the objective than it costs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from domain.jobs import Job
from domain.plans import NOTHING, Plan
from solver.packing.books import PackingBooks
from solver.packing.candidates import Candidate, PairRule
from solver.packing.floor import Floor, Place
from solver.packing.worths import WORTHS
from solver.policies.base import Lends, PolicyContext, PolicySpec

_LOOKED_AT: Final = 60
"""Waiting jobs looked at in one decision, by worth."""


class Objective(StrEnum):
    """What packing is for."""

    JCT = "jct"
    DEADLINE = "deadline"
    MAKESPAN = "makespan"
    PROMISE = "promise"


@dataclass(frozen=True, slots=True)
class PackingSettings:
    """Settings of `packing`.

    Attributes:
        objective: what it is for: mean completion time, deadlines met, last end, or mean completion time
            where no host loses more than its budget.
        unequal: whether jobs of unequal width may share.
        liss: samples move between the workers of a job, so that it runs at their mean rate.
        lgrr: MPS shares of packed jobs are calibrated.
        least: least that sharing has to bring, in worth and in work done per second, as a share of what the
            newcomer would bring alone; the objective's own where that is more.
        sigma: with `promise`, most of its speed that a host may lose.
    """

    objective: Objective = Objective.JCT
    unequal: bool = True
    liss: bool = True
    lgrr: bool = False
    least: float = 0.0
    sigma: float = 0.1

    def __post_init__(self) -> None:
        for name in ("least", "sigma"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, must lie in [0, 1]")


class Packing:
    """Each waiting job, worthiest per GPU first: alone on idle GPUs, else beside others where that pays.

    Worth is the objective's (`solver.packing.worths`). Of the places beside others the one that gains most is
    taken, if it brings at least the objective's share of what the newcomer would bring alone, in worth and in
    work. What does not fit is passed over; no GPUs are kept for it. Pools are not told apart. Ties: (submit,
    id).
    """

    def __init__(self, context: PolicyContext, settings: PackingSettings) -> None:
        if context.pairs is None:
            raise ValueError("packing needs pairs")
        self._settings = settings
        self._floor = Floor(context.hosts)
        self._books = PackingBooks(self._floor, context.lives)
        self._rule = PairRule(context.pairs, redistributes=settings.liss)
        self._worth = WORTHS[settings.objective](self._books)
        self._least = max(settings.least, self._worth.least)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job waits."""
        self._books.submitted(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs where it was proposed."""
        self._books.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._books.rate_changed(job, now_s, rate)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._books.ended(job, now_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped and waits again."""
        self._books.sent_back(job, now_s)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Start whom it pays to start."""
        chosen: list[tuple[Job, Place]] = []
        without: set[tuple[int, str | None]] = set()
        worth = {job.job_id: self._worth.of(job, 1.0, now_s) for job in self._books.pending.values()}
        order = sorted(
            self._books.pending.values(),
            key=lambda job: (-worth[job.job_id] / job.num_gpus, job.submit_s, job.job_id),
        )
        for job in order[:_LOOKED_AT]:
            kind = (job.num_gpus, job.model)
            if kind in without:
                continue
            place = self._place(job, worth[job.job_id], now_s)
            if place is None:
                without.add(kind)
                continue
            self._floor.enter(job, place.gpus)
            chosen.append((job, place))
        for job, _ in chosen:
            self._floor.leave(job.job_id)
        return self._books.propose(chosen) if chosen else NOTHING

    def _place(self, job: Job, worth: float, now_s: float) -> Place | None:
        """Where a job is worth most; None where it had better wait."""
        place = self._floor.idle_place(job.num_gpus)
        if place is not None:
            return place
        best: tuple[float, Place] | None = None
        for shared in self._floor.shared_places(job):
            one = self._rule.look_at(job, shared, self._floor) if self._may_share(job, shared) else None
            if one is None or one.added_gpus < self._least * job.num_gpus or self._breaks_budget(one):
                continue
            gain = self._worth.of(job, one.rate, now_s) - sum(
                self._worth.of(loss.job, loss.before, now_s) - self._worth.of(loss.job, loss.after, now_s)
                for loss in one.losses
            )
            if gain >= self._least * worth and (best is None or gain > best[0]):
                best = (gain, shared)
        return None if best is None else best[1]

    def _may_share(self, job: Job, place: Place) -> bool:
        if self._settings.unequal:
            return True
        beside = place.partners()
        return (
            len(beside) == 1
            and self._floor.tenants[beside[0]].job.num_gpus == job.num_gpus
            and None not in place.beside
        )

    def _breaks_budget(self, one: Candidate) -> bool:
        """Whether a host would lose more of its speed than it has to spare."""
        if self._settings.objective is not Objective.PROMISE:
            return False
        return any(loss.after < 1.0 - self._settings.sigma for loss in one.losses)


SPEC = PolicySpec(build=Packing, settings=PackingSettings, uses_lives=True, lends=Lends.NOBODY, packs=True)
