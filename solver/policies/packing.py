"""Two jobs on one GPU, of equal or unequal width, where that is worth more to the objective than it costs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from domain.jobs import Job
from domain.plans import NOTHING, Plan, WorkerShares
from solver.packing.candidates import Candidate, PairRule
from solver.packing.floor import Place
from solver.packing.share_model import ShareModel
from solver.packing.told import BooksTold
from solver.packing.worths import WORTHS
from solver.policies.base import Lends, PolicyContext, PolicySpec

_LOOKED_AT: Final = 60
"""Waiting jobs looked at in one decision, by worth."""
_SQUEEZED: Final = 4
"""Places, the best ones under free competition, for which shares are looked at as well."""
_SETTINGS: Final = tuple(setting for pct in range(20, 100, 20) for setting in ((100, pct), (pct, 100)))
"""MPS shares that are looked at: of the newcomer, and of those it joins."""
_MUCH_MORE: Final = 1.5
"""How many times the gain of free competition shares have to bring: they stay while what is known changes."""

Ranked = tuple[float, int, Candidate]
"""What a candidate loses (its gain, negative), its place in the order found, and itself."""


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
        search: with `lgrr`, nodes go on from the shares of the plan by Algorithm 1.
        sigma: with `promise`, most of its speed that a host may lose.
    """

    objective: Objective = Objective.JCT
    unequal: bool = True
    liss: bool = True
    lgrr: bool = False
    least: float = 0.0
    search: bool = False
    sigma: float = 0.1

    def __post_init__(self) -> None:
        for name in ("least", "sigma"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, must lie in [0, 1]")


class Packing(BooksTold):
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
        super().__init__(context)
        self._rule = PairRule(
            context.pairs,
            redistributes=settings.liss,
            level="lower" if settings.objective is Objective.PROMISE else "median",
            shares=ShareModel() if settings.lgrr else None,
            under_shares=context.under_shares,
        )
        self._worth = WORTHS[settings.objective](self._books)
        self._least = max(settings.least, self._worth.least)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Start whom it pays to start."""
        chosen: list[Candidate] = []
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
            one = self._best(job, worth[job.job_id], now_s)
            if one is None:
                without.add(kind)
                continue
            self._floor.enter(job, one.place.gpus, one.setting)
            chosen.append(one)
        shares = self._shares(chosen)
        for one in chosen:
            self._floor.leave(one.job.job_id)
        if not chosen:
            return NOTHING
        plan = self._books.propose(
            [(one.job, one.place) for one in chosen], {one.job.job_id: one.setting for one in chosen}
        )
        return replace(plan, shares=shares)

    def _shares(self, chosen: Sequence[Candidate]) -> tuple[WorkerShares, ...]:
        """Shares of all whose are not what they were, once these have started."""
        names = dict.fromkeys(
            name
            for one in chosen
            if one.setting != (100, 100)
            for name in (one.job.job_id, *one.place.partners())
        )
        tenants = (self._floor.tenants[name] for name in names)
        return tuple(
            WorkerShares(
                tenant.job.job_id, tuple(tenant.shares.get(gpu, (100, 100))[0] for gpu in tenant.gpus)
            )
            for tenant in tenants
        )

    def _best(self, job: Job, worth: float, now_s: float) -> Candidate | None:
        """Where a job is worth most, and at which shares; None where it had better wait."""
        place = self._floor.idle_place(job.num_gpus)
        if place is not None:
            return Candidate(job, place, 1.0)
        found = [
            (-self._gain(one, now_s), k, one)
            for k, shared in enumerate(self._floor.shared_places(job))
            if self._may_share(job, shared)
            and (one := self._rule.look_at(job, shared, self._floor)) is not None
        ]
        if self._settings.lgrr:
            found += self._squeezed(sorted(found)[:_SQUEEZED], len(found), now_s)
        paying = (
            entry
            for entry in found
            if -entry[0] >= self._least * worth
            and entry[2].added_gpus >= self._least * job.num_gpus
            and not self._breaks_budget(entry[2])
        )
        best = min(paying, default=None)
        return None if best is None else best[2]

    def _squeezed(self, found: Sequence[Ranked], first: int, now_s: float) -> list[Ranked]:
        """The same places at other shares, where these bring much more than free competition."""
        more: list[Ranked] = []
        for loss, _, free in found:
            for setting in _SETTINGS:
                one = self._rule.look_at(free.job, free.place, self._floor, setting)
                gain = -1.0 if one is None else self._gain(one, now_s)
                if one is not None and gain > max(0.0, -_MUCH_MORE * loss):
                    more.append((-gain, first + len(more), one))
        return more

    def _gain(self, one: Candidate, now_s: float) -> float:
        """Worth of a candidate, less what those lose that it joins."""
        of = self._worth.of
        lost = sum(of(x.job, x.before, now_s) - of(x.job, x.after, now_s) for x in one.losses)
        return of(one.job, one.rate, now_s) - lost

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
