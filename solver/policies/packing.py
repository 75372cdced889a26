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
    lgrr: bool = False
    sigma: float = 0.1
    unequal: bool = True
    look: int = 60
    least: float = 0.0
    order: str = "cmu"
    valuewidth: float = 0.0
    vkind: str = "mean"
    score: str = "cmu"
    mix: float = 0.0
    reserve: int = 0
    ripe: float = 0.1
    thrift: float = 0.0
    rorder: str = "ratio"


class Packing:
    def __init__(self, context: PolicyContext, settings: PackingSettings) -> None:
        self._settings = settings
        self._floor = Floor(context.hosts)
        self._books = PackingBooks(self._floor, context.lives)
        self._kept = {}
        self._blocked = []
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
        barred = self._reserve(now_s)
        pend = sorted(
            self._books.pending.values(),
            key=lambda j: (
                -self._value(j, now_s) / j.num_gpus**self._settings.valuewidth,
                j.submit_s,
                j.job_id,
            ),
        )
        failed = set()
        blocked = []
        for job in pend[: self._settings.look]:
            kind = (job.num_gpus, job.model) if job.job_id not in self._kept else job.job_id
            if kind in failed:
                continue
            mine = self._kept.get(job.job_id, ())
            best = self._best(job, now_s, barred - set(mine))
            if best is None:
                failed.add(kind)
                blocked.append(job)
                continue
            self._floor.enter(job, best.place.gpus)
            chosen.append((job, best.place))
        self._blocked = blocked
        for job, _ in chosen:
            self._floor.leave(job.job_id)
        return self._books.propose(chosen) if chosen else NOTHING

    def _value(self, job, now_s):
        v = self._values.get(job.job_id)
        if v is None:
            k = self._settings.vkind
            if k == "mean":
                left = self._books.left_s(job, now_s)
            elif k == "one":
                left = 1.0
            else:
                left = self._books.left_quantile_s(job, now_s, float(k))
            v = self._values[job.job_id] = 1.0 / left
        return v

    def _reserve(self, now_s):
        pending = self._books.pending
        self._kept = {k: v for k, v in self._kept.items() if k in pending}
        S = self._settings
        if S.reserve:
            ratio = lambda j: (now_s - j.submit_s) * self._value(j, now_s)
            key = {"ratio": lambda j: -ratio(j), "age": lambda j: j.submit_s, "width": lambda j: (-j.num_gpus, j.submit_s)}[S.rorder]
            for job in sorted(self._blocked, key=key):
                if len(self._kept) >= S.reserve:
                    break
                if job.job_id in pending and job.job_id not in self._kept and ratio(job) > S.ripe:
                    self._kept[job.job_id] = self._target(job, now_s)
        return set(n for names in self._kept.values() for n in names)

    def _target(self, job, now_s):
        taken = set(n for names in self._kept.values() for n in names)
        needed = -(-job.num_gpus // self._floor.node_gpus)
        allow = 4 // needed
        cost = []
        for name in self._floor.nodes:
            if name in taken:
                continue
            on = self._floor.workers_on(name)
            names = {x for here in on for x in here}
            ends = sorted((self._books.left_s(self._books.running[x], now_s) / self._books.rate(x), x) for x in names)
            gone = set(); t = 0.0
            for end, x in ends:
                alive = [[y for y in here if y not in gone] for here in on]
                free = sum(1 for h in alive if not h)
                if all(len(h) <= 1 for h in alive) and (len({y for h in alive for y in h}) <= allow) or free >= job.num_gpus:
                    break
                gone.add(x); t = end
            cost.append((t, name))
        cost.sort()
        return tuple(n for _, n in cost[:needed])

    def _best(self, job, now_s, barred=()):
        place = self._floor.idle_place(job.num_gpus, barred)
        best, gain = None, -1
        if place is not None:
            best = Candidate(job, place, 1.0)
            gain = self._value(job, now_s) * (1 - (self._settings.thrift if self._blocked else 0.0))
            if self._settings.thrift == 0 or not self._blocked:
                return best
        for place in self._floor.shared_places(job, barred):
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
            if g <= 0: continue
            if self._settings.score == "added": g = c.added_gpus / job.num_gpus
            elif self._settings.score == "mix": g = g / self._value(job, now_s) + self._settings.mix * c.added_gpus / job.num_gpus
            if g > gain:
                best, gain = c, g
        return best


SPEC = PolicySpec(build=Packing, settings=PackingSettings, uses_lives=True, lends=Lends.NOBODY, packs=True)
