"""Two jobs of equal width on the same GPUs where their sharing scores allow it, after Lucid (ASPLOS 2023)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from domain.jobs import Job
from domain.plans import NOTHING, Plan
from solver.packing.candidates import PairRule
from solver.packing.floor import Floor, Place, Tenant
from solver.packing.told import BooksTold
from solver.policies.base import Lends, PolicyContext, PolicySpec

MOST_SCORES: Final = 2
"""Most that the sharing scores of two jobs on a GPU may add up to."""

MOST_TIMES_HOST: Final = 2.0
"""Most that the newcomer's priority, GPUs x life, may be, in times that of the job it joins."""


class Scores(StrEnum):
    """How the mean rate of a model beside others becomes its sharing score."""

    PUBLISHED = "published"
    """By the published limits: at least 0.95, at least 0.85, less."""
    THIRDS = "thirds"
    """The best third of the models, the middle third, the rest."""


@dataclass(frozen=True, slots=True)
class LucidSettings:
    """What may be set.

    Attributes:
        scores: how a model's mean rate becomes its score.
        tiny: least mean rate of score 0, in (0, 1]; for `published`.
        medium: least mean rate of score 1, in (0, tiny]; for `published`.
        level: level of the forecast life that counts as the life, in (0, 1).
    """

    scores: Scores = Scores.THIRDS
    tiny: float = 0.95
    medium: float = 0.85
    level: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level is {self.level}, must lie in (0, 1)")
        if not 0.0 < self.tiny <= 1.0:
            raise ValueError(f"tiny is {self.tiny}, must lie in (0, 1]")
        if not 0.0 < self.medium <= self.tiny:
            raise ValueError(f"medium is {self.medium}, must lie in (0, tiny]")


class SharingScores:
    """Scores of models: 0 hardly suffers from others, 1 somewhat, 2 much.

    A model is judged by its mean rate beside all models there are that fit beside it, itself included.

    Args:
        models: names of all models there are; more may be asked about.
        rule: rates of pairs.
        settings: how a mean rate becomes a score.
    """

    def __init__(self, models: Sequence[str], rule: PairRule, settings: LucidSettings) -> None:
        means = {model: _mean_rate(model, models, rule) for model in models}
        if settings.scores is Scores.PUBLISHED:
            self._scores = {
                model: _score(mean, settings.tiny, settings.medium) for model, mean in means.items()
            }
        else:
            order = sorted(means, key=lambda model: (-means[model], model))
            self._scores = {model: 3 * place // len(order) for place, model in enumerate(order)}

    def of(self, model: str | None) -> int:
        """The score; one that is not known is the worst."""
        return self._scores.get(model or "", MOST_SCORES)


def _mean_rate(model: str, others: Sequence[str], rule: PairRule) -> float:
    """Mean rate of a model beside those that fit beside it; 0 if none does."""
    rates = [both[0] for other in others if (both := rule.pair(model, other)) is not None]
    return sum(rates) / len(rates) if rates else 0.0


def _score(mean: float, tiny: float, medium: float) -> int:
    if mean >= tiny:
        return 0
    return 1 if mean >= medium else MOST_SCORES


class Lucid(BooksTold):
    """Exclusive where GPUs are idle, else beside one job of the same width whose score allows it.

    Order: least GPUs x forecast life first. Skipping: a job that finds no place is passed over. Ties:
    (submit, id). Among several jobs it could join, the one of the lowest score, of these the one that runs
    longest. Nobody is ever stopped or moved.

    Args:
        context: nodes, pairs and who says how long jobs live.
        settings: scores and the level of the life.
    """

    def __init__(self, context: PolicyContext, settings: LucidSettings) -> None:
        super().__init__(context)
        if context.pairs is None:
            raise ValueError("lucid lets jobs share GPUs: it needs measured pairs")
        self._lives = context.lives
        self._level = settings.level
        self._rule = PairRule(context.pairs, redistributes=False)
        self._scores = SharingScores(context.models, self._rule, settings)
        self._priority: dict[str, float] = {}
        self._since_s: dict[str, float] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job joins the queue; its priority never changes."""
        super().submitted(job, now_s)
        self._priority[job.job_id] = self._lives.quantile_s(job, self._level) * job.num_gpus

    def started(self, job: Job, now_s: float) -> None:
        """A job runs where it was put."""
        super().started(job, now_s)
        self._since_s[job.job_id] = now_s

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        super().ended(job, now_s)
        self._priority.pop(job.job_id, None)
        self._since_s.pop(job.job_id, None)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Go through the queue once."""
        floor = self._floor.copy()
        chosen: list[tuple[Job, Place]] = []
        failed: set[tuple[int, str | None]] = set()
        queue = sorted(self._books.pending.values(), key=self._order)
        for job in queue:
            kind = (job.num_gpus, job.model)
            if kind in failed:
                continue
            place = floor.idle_place(job.num_gpus) or self._shared_place(job, floor)
            if place is None:
                failed.add(kind)
                continue
            floor.enter(job, place.gpus)
            chosen.append((job, place))
        return self._books.propose(chosen) if chosen else NOTHING

    def _order(self, job: Job) -> tuple[float, float, str]:
        return (self._priority[job.job_id], job.submit_s, job.job_id)

    def _shared_place(self, job: Job, floor: Floor) -> Place | None:
        """On the very GPUs of the best job that it may join; None if there is none."""
        hosts = [tenant for tenant in floor.tenants.values() if self._may_join(job, tenant)]
        if not hosts:
            return None
        return floor.beside(min(hosts, key=self._preference).job.job_id)

    def _may_join(self, job: Job, tenant: Tenant) -> bool:
        host = tenant.job
        return (
            host.num_gpus == job.num_gpus
            and not tenant.partners()
            and self._scores.of(job.model) + self._scores.of(host.model) <= MOST_SCORES
            and self._priority[job.job_id] <= MOST_TIMES_HOST * self._priority[host.job_id]
            and self._rule.pair(job.model, host.model) is not None
        )

    def _preference(self, tenant: Tenant) -> tuple[int, float, float, str]:
        host = tenant.job
        return (
            self._scores.of(host.model),
            self._since_s.get(host.job_id, math.inf),
            host.submit_s,
            host.job_id,
        )


SPEC = PolicySpec(build=Lucid, settings=LucidSettings, uses_lives=True, lends=Lends.NOBODY, packs=True)
