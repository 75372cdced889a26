"""Time shares of jobs and pairs by a linear program, given out in rounds, after Gavel (OSDI 2020)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from domain.cluster import Gpu
from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Plan
from solver.packing.candidates import PairRule
from solver.packing.floor import Floor, Place
from solver.packing.time_shares import Combination, offers, time_shares
from solver.packing.told import BooksTold
from solver.policies.base import Lends, PolicyContext, PolicySpec

Target = dict[str, tuple[Gpu, ...]]
"""The GPUs of every job that is to run, by job id."""

_LEAST_RECEIVED: Final = 1e-9


@dataclass(frozen=True, slots=True)
class GavelSettings:
    """What may be set.

    Attributes:
        round_s: length of a round, seconds, above 0.
        pairs: most pairs that each job brings into the linear program, at least 0; 0: nobody shares.
    """

    round_s: float = 360.0
    pairs: int = 8

    def __post_init__(self) -> None:
        if not 0.0 < self.round_s < math.inf:
            raise ValueError(f"round_s is {self.round_s}, must be above 0 and finite")
        if self.pairs < 0:
            raise ValueError(f"pairs is {self.pairs}, must be at least 0")


class TimeLedger:
    """Time that combinations were owed by their shares, and time that they had; seconds."""

    def __init__(self) -> None:
        self.shares: Mapping[Combination, float] = {}
        self._owed_s: dict[Combination, float] = {}
        self._had_s: dict[Combination, float] = {}
        self._until_s = -math.inf

    def count(self, running: Iterable[Combination], now_s: float) -> None:
        """Time has passed since the last call, with these running."""
        if now_s <= self._until_s:
            return
        passed_s = now_s - self._until_s
        self._until_s = now_s
        if math.isinf(passed_s):
            return
        for one, share in self.shares.items():
            self._owed_s[one] = self._owed_s.get(one, 0.0) + share * passed_s
        for one in running:
            self._had_s[one] = self._had_s.get(one, 0.0) + passed_s

    def forget(self, job_id: str) -> None:
        """A job has ended, and with it all its combinations."""
        self.shares = {one: share for one, share in self.shares.items() if job_id not in one}
        for known in (self._owed_s, self._had_s):
            for one in [one for one in known if job_id in one]:
                del known[one]

    def priority(self, one: Combination, ahead_s: float) -> float:
        """Time owed by the end of a round over time had; infinite for one that never ran."""
        owed_s = self._owed_s.get(one, 0.0) + self.shares.get(one, 0.0) * ahead_s
        had_s = self._had_s.get(one, 0.0)
        if owed_s <= 0.0:
            return 0.0
        return math.inf if had_s < _LEAST_RECEIVED else owed_s / had_s


class GavelMakespan(BooksTold):
    """Makespan policy with space sharing and the round-based mechanism.

    At the start of a round, if jobs have come or gone since, the linear program is solved anew. Order:
    combinations of the highest time owed over time had, then of the largest share, as far as GPUs go and
    none of their jobs has been chosen. Skipping: what does not fit is passed over; GPUs that are left over
    go to jobs without a share, most work left first. Ties: (submit, id). Chosen jobs that run keep their
    GPUs; the others that run are suspended with their work kept. Inside a round only idle GPUs are given
    out, to single jobs in the same order.

    Args:
        context: nodes, pairs and who says how long jobs live.
        settings: length of a round and most pairs.
    """

    def __init__(self, context: PolicyContext, settings: GavelSettings) -> None:
        super().__init__(context)
        if context.pairs is None:
            raise ValueError("gavel-makespan lets jobs share GPUs: it needs measured pairs")
        self._settings = settings
        self._capacity_gpus = self._floor.idle_gpus()
        self._rule = PairRule(context.pairs, redistributes=False)
        self._ledger = TimeLedger()
        self._has_changed = True
        self._round: tuple[float, float] = (-math.inf, -math.inf)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job waits."""
        super().submitted(job, now_s)
        self._has_changed = True

    def started(self, job: Job, now_s: float) -> None:
        """A job runs where it was put."""
        self._count(now_s)
        super().started(job, now_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was suspended."""
        self._count(now_s)
        super().sent_back(job, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._count(now_s)
        super().ended(job, now_s)
        self._ledger.forget(job.job_id)
        self._has_changed = True

    def look_again_s(self) -> float:
        """The next round, if anybody waits for one."""
        if not self._books.pending and not self._is_shared():
            return math.inf
        return (self._round[0] + 1.0) * self._settings.round_s

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Once a round who runs where; in between who gets the GPUs of those that have ended."""
        self._count(now_s)
        number = now_s // self._settings.round_s
        if number > self._round[0] or now_s == self._round[1]:
            self._round = (number, now_s)
            return self._new_round(now_s)
        return self._fill(now_s)

    def _new_round(self, now_s: float) -> Plan:
        if not self._books.pending and not self._is_shared():
            return NOTHING
        if self._has_changed:
            self._share_out(now_s)
            self._has_changed = False
        target = Placing(self._floor, self._jobs()).place(self._choose(now_s))
        return self._change_to(target)

    def _share_out(self, now_s: float) -> None:
        jobs = sorted(self._jobs().values(), key=submit_order)
        found = offers(jobs, self._rule, self._settings.pairs)
        left_s = {job.job_id: self._books.left_s(job, now_s) for job in jobs}
        self._ledger.shares = time_shares(found, left_s, self._capacity_gpus)

    def _choose(self, now_s: float) -> list[Combination]:
        """Who runs in this round: by what they are owed, then whoever else fits."""
        jobs, ledger, round_s = self._jobs(), self._ledger, self._settings.round_s

        def order(one: Combination) -> tuple[float, float, list[tuple[float, str]]]:
            came = [submit_order(jobs[name]) for name in one.jobs()]
            return (-ledger.priority(one, round_s), -ledger.shares[one], came)

        rest = sorted(jobs.values(), key=lambda job: (-self._books.left_s(job, now_s), submit_order(job)))
        chosen: list[Combination] = []
        taken: set[str] = set()
        left_gpus = self._capacity_gpus
        queue = [*sorted(ledger.shares, key=order), *(Combination(job.job_id) for job in rest)]
        for one in queue:
            width = jobs[one.first].num_gpus
            if width <= left_gpus and taken.isdisjoint(one.jobs()):
                chosen.append(one)
                taken.update(one.jobs())
                left_gpus -= width
        return chosen

    def _change_to(self, target: Target) -> Plan:
        """The plan after which those of the target run, and nobody else."""
        running = self._books.running
        stays = {name for name in running if target.get(name) == self._floor.tenants[name].gpus}
        stopped = sorted((job for name, job in running.items() if name not in stays), key=submit_order)
        starts = [
            (self._jobs()[name], Place(gpus, (None,) * len(gpus)))
            for name, gpus in target.items()
            if name not in stays
        ]
        if not (stopped or starts):
            return NOTHING
        return replace(self._books.propose(starts), suspends=tuple(stopped))

    def _fill(self, now_s: float) -> Plan:
        """Idle GPUs to single jobs that wait."""
        floor, chosen = self._floor.copy(), []
        ledger, round_s = self._ledger, self._settings.round_s
        owed: dict[str, float] = {}
        for one in ledger.shares:
            for name in one.jobs():
                owed[name] = max(owed.get(name, 0.0), ledger.priority(one, round_s))

        def order(job: Job) -> tuple[float, tuple[float, str]]:
            return (-owed.get(job.job_id, math.inf), submit_order(job))

        for job in sorted(self._books.pending.values(), key=order):
            place = floor.idle_place(job.num_gpus)
            if place is not None:
                floor.enter(job, place.gpus)
                chosen.append((job, place))
        return self._books.propose(chosen) if chosen else NOTHING

    def _jobs(self) -> dict[str, Job]:
        return {**self._books.pending, **self._books.running}

    def _is_shared(self) -> bool:
        return any(tenant.partners() for tenant in self._floor.tenants.values())

    def _count(self, now_s: float) -> None:
        self._ledger.count(running_together(self._floor), now_s)


def running_together(floor: Floor) -> list[Combination]:
    """Who runs, by itself or with whom."""
    found: dict[Combination, None] = {}
    for tenant in floor.tenants.values():
        both = sorted(
            [tenant.job, *(floor.tenants[name].job for name in tenant.partners())], key=submit_order
        )
        found[Combination(*(job.job_id for job in both))] = None
    return list(found)


class Placing:
    """Puts the combinations of a round on GPUs: who runs stays, the others go where there is room.

    Args:
        floor: who is where now.
        jobs: all there are, by id.
    """

    def __init__(self, floor: Floor, jobs: Mapping[str, Job]) -> None:
        self._floor = floor
        self._jobs = jobs

    def place(self, chosen: Sequence[Combination]) -> Target:
        """GPUs for the chosen.

        Where the nodes' rests are too small for a wide one, all are put anew if more GPUs are used then.
        """
        kept = self._kept(chosen)
        target = self._put(kept, [one for one in chosen if one.first not in kept])
        if all(one.first in target for one in chosen):
            return target
        anew = self._put({}, chosen)
        return anew if self._used(anew) > self._used(target) else target

    def _kept(self, chosen: Sequence[Combination]) -> Target:
        """Combinations one job of which runs: on its GPUs, unless somebody before them has these already."""
        kept: Target = {}
        given: set[Gpu] = set()
        for one in chosen:
            for name in one.jobs():
                tenant = self._floor.tenants.get(name)
                if tenant is not None and given.isdisjoint(tenant.gpus):
                    given.update(tenant.gpus)
                    kept |= dict.fromkeys(one.jobs(), tenant.gpus)
                    break
        return kept

    def _put(self, kept: Target, others: Sequence[Combination]) -> Target:
        """Those that are kept, and the others beside them, the widest first."""
        floor, target = self._floor.copy(), dict(kept)
        for name, tenant in self._floor.tenants.items():
            if kept.get(name) != tenant.gpus:
                floor.leave(name)
        for name, gpus in kept.items():
            if name not in floor.tenants:
                floor.enter(self._jobs[name], gpus)
        for one in sorted(others, key=lambda one: -self._jobs[one.first].num_gpus):
            place = floor.idle_place(self._jobs[one.first].num_gpus)
            if place is not None:
                floor.enter(self._jobs[one.first], place.gpus)
                target |= dict.fromkeys(one.jobs(), place.gpus)
        return target

    def _used(self, target: Target) -> int:
        return len({gpu for gpus in target.values() for gpu in gpus})


SPEC = PolicySpec(
    build=GavelMakespan,
    settings=GavelSettings,
    uses_lives=True,
    lends=Lends.NOBODY,
    packs=True,
    suspends=True,
)
