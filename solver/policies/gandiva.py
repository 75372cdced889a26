"""Pack at random where no GPU is idle, look at it, undo what was not worth it, after Gandiva (OSDI 2018)."""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Plan
from solver.packing.candidates import PairRule
from solver.packing.floor import Floor, Place, Tenant
from solver.packing.told import BooksTold
from solver.policies.base import Lends, PolicyContext, PolicySpec

LEAST_SUM: Final = 1.0
"""Least sum of the rates of two jobs that share their GPUs: that of taking turns."""

Models = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class GandivaSettings:
    """What may be set.

    Attributes:
        measure_s: for how long a new pair runs before it is looked at, seconds, above 0.
        moves: whether a job that shares moves to idle GPUs that nobody waits for.
        seed: of the choice among the jobs that a job could join, at least 0.
    """

    measure_s: float = 60.0
    moves: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.measure_s < math.inf:
            raise ValueError(f"measure_s is {self.measure_s}, must be above 0 and finite")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, must be at least 0")


class Trial(NamedTuple):
    """A pair that is looked at at an instant."""

    newcomer: Job
    host: Job
    due_s: float


class Gandiva(BooksTold):
    """First come, first served; no rate is known before it has been seen.

    Order: (submit, id), which also breaks ties. Skipping: a job that finds neither idle GPUs nor a job to
    join is passed over. It joins a job of the same width that has its GPUs alone, chosen at random among
    those whose memory allows it and whose model has not been found bad beside its own. After a measuring
    time the pair is kept if the sum of both rates is at least 1; if not, the newcomer is suspended with
    its work kept, waits again in its old place, and the pair of models is remembered as bad.

    Args:
        context: nodes, and which pairs fit into the memory of one GPU.
        settings: measuring time and seed.
    """

    def __init__(self, context: PolicyContext, settings: GandivaSettings) -> None:
        super().__init__(context)
        if context.pairs is None:
            raise ValueError("gandiva lets jobs share GPUs: it needs to know which pairs fit")
        self._settings = settings
        self._fits = PairRule(context.pairs, redistributes=False)
        self._bad: set[Models] = set()
        self._trials: dict[str, Trial] = {}
        self._attempts: dict[str, int] = {}

    def started(self, job: Job, now_s: float) -> None:
        """A job runs; if it shares, its pair will be looked at."""
        super().started(job, now_s)
        self._attempts[job.job_id] = self._attempts.get(job.job_id, 0) + 1
        tenant = self._floor.tenants.get(job.job_id)
        for host in tenant.partners() if tenant is not None else ():
            due_s = now_s + self._settings.measure_s
            self._trials[job.job_id] = Trial(job, self._books.running[host], due_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was suspended."""
        super().sent_back(job, now_s)
        self._forget(job)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        super().ended(job, now_s)
        self._forget(job)
        self._attempts.pop(job.job_id, None)

    def look_again_s(self) -> float:
        """When the next pair has been measured."""
        return min((trial.due_s for trial in self._trials.values()), default=math.inf)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Undo what was not worth it, start who waits, and spread out if GPUs are left."""
        floor = self._floor.copy()
        stopped = self._judge(now_s)
        for job in stopped:
            floor.leave(job.job_id)
        chosen = list(self._starts([*self._books.pending.values(), *stopped], floor))
        moved: list[tuple[Job, Place]] = []
        if self._settings.moves and len(chosen) == len(self._books.pending) + len(stopped):
            moved = list(self._moves(floor))
        if not (stopped or chosen or moved):
            return NOTHING
        plan = self._books.propose([*chosen, *moved])
        return replace(plan, suspends=(*stopped, *(job for job, _ in moved)))

    def _judge(self, now_s: float) -> list[Job]:
        """Newcomers of the pairs that have been measured and are not worth it; the others are kept."""
        stopped = []
        for trial in list(self._trials.values()):
            if trial.due_s > now_s:
                continue
            both = self._books.rate(trial.newcomer.job_id) + self._books.rate(trial.host.job_id)
            if both >= LEAST_SUM:
                del self._trials[trial.newcomer.job_id]
                continue
            self._bad |= {_models(trial.newcomer, trial.host), _models(trial.host, trial.newcomer)}
            stopped.append(trial.newcomer)
        return sorted(stopped, key=submit_order)

    def _starts(self, waiting: list[Job], floor: Floor) -> Iterator[tuple[Job, Place]]:
        """Places for those who wait, as they came."""
        for job in sorted(waiting, key=submit_order):
            place = floor.idle_place(job.num_gpus) or self._shared_place(job, floor)
            if place is not None:
                floor.enter(job, place.gpus)
                yield job, place

    def _shared_place(self, job: Job, floor: Floor) -> Place | None:
        """On the GPUs of one job drawn among those that it may join; the same however often it is asked."""
        hosts = [tenant.job for tenant in floor.tenants.values() if self._may_join(job, tenant)]
        if not hosts:
            return None
        hosts.sort(key=submit_order)
        name = zlib.crc32(job.job_id.encode())
        draw = np.random.default_rng([self._settings.seed, name, self._attempts.get(job.job_id, 0)])
        return floor.beside(hosts[int(draw.integers(len(hosts)))].job_id)

    def _may_join(self, job: Job, tenant: Tenant) -> bool:
        host = tenant.job
        return (
            host.num_gpus == job.num_gpus
            and not tenant.partners()
            and _models(job, host) not in self._bad
            and self._fits.pair(job.model, host.model) is not None
        )

    def _moves(self, floor: Floor) -> Iterator[tuple[Job, Place]]:
        """Nobody waits: those who share get idle GPUs, the one that came later first of each pair."""
        sharing = [job for job in self._books.running.values() if job.job_id in floor.tenants]
        for job in sorted(sharing, key=submit_order, reverse=True):
            if not floor.tenants[job.job_id].partners():
                continue
            place = floor.idle_place(job.num_gpus)
            if place is not None:
                floor.leave(job.job_id)
                floor.enter(job, place.gpus)
                yield job, place

    def _forget(self, job: Job) -> None:
        """The pairs of a job that has stopped are no more."""
        for trial in list(self._trials.values()):
            if job.job_id in (trial.newcomer.job_id, trial.host.job_id):
                del self._trials[trial.newcomer.job_id]


def _models(one: Job, other: Job) -> Models:
    return (one.model, other.model)


SPEC = PolicySpec(build=Gandiva, settings=GandivaSettings, lends=Lends.NOBODY, packs=True, suspends=True)
