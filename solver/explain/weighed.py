"""A plan that weighed jobs together, and what it would have been had something been otherwise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from solver.lending.classes import Candidates, JobClasses, group
from solver.lending.plan import plan_lending
from solver.lending.problem import LendingPlan, LendingProblem, Placeability
from solver.lending.send_backs import by_levels
from solver.lending.solve import LendingSolver
from solver.lookahead import LookAhead

FloatArray = NDArray[np.float64]

STEPS: Final = (1.01, 1.03, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Times what is allowed, tried one after another."""


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """A plan as it was made: from these jobs, for these GPUs, at this price.

    Attributes:
        now_s: the instant.
        jobs: that were weighed, by id.
        candidates: the same as numbers.
        classes: in which they were weighed.
        factor: (pools,) on the value of each pool's jobs.
        problem: that was solved.
        plan: that answers it.
        look: the time ahead before anybody of the plan starts.
        solver: that was asked.
        exact_risk: jobs slowed if these start, all of whom must run to their end, by the exact model.
        class_of: by id, the class of each job that was left out or chosen.
    """

    now_s: float
    jobs: Mapping[str, Job]
    candidates: Candidates
    classes: JobClasses
    factor: FloatArray
    problem: LendingProblem
    plan: LendingPlan
    look: LookAhead
    solver: LendingSolver
    exact_risk: Callable[[Sequence[Job], LookAhead], float]
    class_of: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        places = {job_id: k for k, ids in enumerate(self.classes.members) for job_id in ids}
        object.__setattr__(self, "class_of", places)

    def chosen(self) -> list[Job]:
        """Whom the plan starts."""
        return [self.jobs[job_id] for job_id in self.plan.job_ids]

    def risk_of(self, jobs: Sequence[Job], without: str | None = None) -> float:
        """Jobs slowed, exactly, if some start together; of those only who must run to their end count.

        Args:
            jobs: that start.
            without: a job taken to be one that can be sent back.
        """
        back = dict(zip(self.candidates.job_ids, self.candidates.is_requeueable.tolist(), strict=True))
        lent = [job for job in jobs if not back[job.job_id] and job.job_id != without]
        return self.exact_risk(lent, self.look) if lent else 0.0

    def with_allowance(self, factor: float) -> frozenset[str]:
        """Who would start if one early start might slow `factor` times as many jobs."""
        price, budget = self.problem.price, self.problem.budget_jobs
        if price <= 0.0:
            return frozenset()
        allowed = factor / price
        return self._starts(
            replace(self.problem, price=1.0 / allowed, budget_jobs=max(budget, allowed)), self.classes
        )

    def with_budget(self, factor: float) -> frozenset[str]:
        """Who would start if the plan might slow `factor` times as many jobs in all."""
        return self._starts(
            replace(self.problem, budget_jobs=factor * self.problem.budget_jobs), self.classes
        )

    def if_sent_back(self, job: Job) -> bool:
        """Whether a job would start if it, and nobody else beside, could be sent back."""
        place = self.candidates.job_ids.index(job.job_id)
        can = self.candidates.is_requeueable.copy()
        can[place] = True
        classes = group(replace(self.candidates, is_requeueable=can))
        old = self.problem
        lines = old.send_back.lines[-1] if old.send_back else self.look.send_back_lines(old.idle_gpus)
        problem = replace(
            old,
            pool=classes.pool,
            width_gpus=classes.width_gpus,
            count=classes.count,
            value=classes.value * self.factor[classes.pool],
            alive_gpus=classes.alive_gpus,
            is_requeueable=classes.is_requeueable,
            repeats=classes.repeats,
            send_back=by_levels(lines, classes.repeats, classes.is_requeueable),
            placeability=self._places(classes),
            rides=None if old.rides is None else old.rides.regrouped(classes.members),
        )
        return job.job_id in self._starts(problem, classes, job.job_id)

    def _places(self, classes: JobClasses) -> Placeability | None:
        """The rows of the nodes for other classes of the same widths and kinds."""
        rows = self.problem.placeability
        if rows is None:
            return None
        widths, kinds = self.classes.width_gpus.tolist(), self.classes.kind.tolist()
        column = {pair: k for k, pair in enumerate(zip(widths, kinds, strict=True))}
        wanted = zip(classes.width_gpus.tolist(), classes.kind.tolist(), strict=True)
        return replace(rows, units=rows.units[:, [column[pair] for pair in wanted]])

    def _starts(
        self, problem: LendingProblem, classes: JobClasses, without: str | None = None
    ) -> frozenset[str]:
        def exact(choice: NDArray[np.int64]) -> float:
            chosen = [self.jobs[job_id] for job_id in problem.started(classes.members, choice)]
            return self.risk_of(chosen, without)

        return frozenset(plan_lending(problem, self.solver, exact, classes.members).job_ids)


def first_steps(starts: Callable[[float], frozenset[str]]) -> dict[str, float]:
    """By id, the first step at which each job would start; those that start at one."""
    found: dict[str, float] = {}
    for step in STEPS:
        for job_id in sorted(starts(step)):
            found.setdefault(job_id, step)
    return found
