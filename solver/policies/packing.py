"""Two jobs on one GPU, where that brings the objective more than it costs: equal and unequal widths."""

from dataclasses import dataclass
from enum import StrEnum

from domain.jobs import Job
from domain.plans import NOTHING, Plan
from solver.packing.books import PackingBooks
from solver.packing.candidates import Candidate, PairRule
from solver.packing.floor import Floor, Place
from solver.policies.base import Lends, PolicyContext, PolicySpec


class Objective(StrEnum):
    JCT = "jct"
    DEADLINE = "deadline"
    MAKESPAN = "makespan"
    PROMISE = "promise"


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class PackingSettings:
    objective: Objective = Objective.JCT
    liss: bool = True
    unequal: bool = True
    look: int = 60
    least: float = 0.0
    order: str = "cmu"
    valuewidth: float = 0.0


class Packing:
    def __init__(self, context: PolicyContext, settings: PackingSettings) -> None:
        self._settings = settings
        self._floor = Floor(context.hosts)
        self._books = PackingBooks(self._floor, context.lives)
        self._rule = PairRule(context.pairs, redistributes=settings.liss)

    def submitted(self, job, now_s):
        self._books.submitted(job)

    def started(self, job, now_s):
        self._books.started(job, now_s)

    def rate_changed(self, job, now_s, rate):
        self._books.rate_changed(job, now_s, rate)

    def ended(self, job, now_s):
        self._books.ended(job)

    def sent_back(self, job, now_s):
        self._books.sent_back(job, now_s)

    def decide(self, now_s, idle_gpus):
        self._values = {}
        chosen = []
        pend = sorted(
            self._books.pending.values(),
            key=lambda j: (
                -self._value(j, now_s) / j.num_gpus**self._settings.valuewidth,
                j.submit_s,
                j.job_id,
            ),
        )
        failed = set()
        for job in pend[: self._settings.look]:
            kind = (job.num_gpus, job.model)
            if kind in failed:
                continue
            best = self._best(job, now_s)
            if best is None:
                failed.add(kind)
                continue
            self._floor.enter(job, best.place.gpus)
            chosen.append((job, best.place))
        for job, _ in chosen:
            self._floor.leave(job.job_id)
        return self._books.propose(chosen) if chosen else NOTHING

    def _value(self, job, now_s):
        v = self._values.get(job.job_id)
        if v is None:
            v = self._values[job.job_id] = 1.0 / self._books.left_s(job, now_s)
        return v

    def _best(self, job, now_s):
        place = self._floor.idle_place(job.num_gpus)
        best, gain = None, -1
        if place is not None:
            best = Candidate(job, place, 1.0)
            return best
        for place in self._floor.shared_places(job):
            if not self._settings.unequal and any(
                self._floor.tenants[p].job.num_gpus != job.num_gpus for p in place.partners()
            ):
                continue
            if not self._settings.unequal and None in place.beside:
                continue
            c = self._rule.look_at(job, place, self._floor)
            if c is None:
                continue
            if c.added_gpus < self._settings.least * job.num_gpus:
                continue
            g = self._value(job, now_s) * c.rate - sum(
                self._value(l.job, now_s) * (l.before - l.after) for l in c.losses
            )
            if g > max(gain, 0):
                best, gain = c, g
        return best


SPEC = PolicySpec(build=Packing, settings=PackingSettings, uses_lives=True, lends=Lends.NOBODY, packs=True)
