"""Why a job waits that a plan has weighed together with others and left out."""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from domain.jobs import Job
from solver.explain.costs import Costs
from solver.explain.view import LendingView
from solver.explain.weighed import Weighed, first_steps
from solver.explain.words import Change, Lever, Waiting, Why, apart, life_text
from solver.lending.problem import PlanStatus
from solver.lending.value import ValueSettings, job_values

_ROUNDING: Final = 1e-6
"""Of what a plan is worth, at least 1: what a solver takes for nothing."""
_LONGEST_WAIT_S: Final = 30 * 86_400.0
_HALVINGS: Final = 40
_NAMED: Final = 3
"""Jobs that a sentence names."""


class _Margin(NamedTuple):
    """What one more job of a class would do to the plan, in the values of the plan (1: the mean job).

    Attributes:
        value: what its start is worth, pools treated as they are.
        utility: the part of that which its pool gains by the GPUs.
        risk_jobs: jobs slowed, by the lines of the plan.
        price: what that costs, and that it may be sent back.
        exact_price: the same, the risk being that of the exact model.
    """

    value: float
    utility: float
    risk_jobs: float
    price: float
    exact_price: float


class Weighing:
    """What is said of the jobs that a plan has left out.

    Args:
        view: the policy, the plan carried out.
        weighed: the plan.
    """

    def __init__(self, view: LendingView, weighed: Weighed) -> None:
        self._view, self._weighed = view, weighed

    def explain(self, job: Job) -> Waiting:
        """Why a job waits that was weighed; it fits, and nobody is due."""
        if job.job_id in self._weighed.plan.job_ids:
            text = "the plan chose it, but the nodes have no room for it beside the others that it chose"
            room = {"idle_gpus": self._view.idle_gpus, "width_gpus": job.num_gpus}
            return Waiting(job, Why.HELD_BY_POLICY, text, room)
        costs = None if self._can_go_back(job) else Costs(self._view, job)
        margin = self._margin(job, 0.0 if costs is None else costs.charge)
        binds = self._binds(job, margin)
        evidence = self._evidence(margin, binds)
        if binds == "budget":
            evidence["plan_risk_with_it_jobs"] = self._risk_with(job)
        where, text = self._where(costs)
        text = f"{self._others()}: {_SAID[binds](margin, evidence)}; {self._instead()}{text}"
        changes = self._changes(job, margin, binds)
        return Waiting(job, Why.NOT_WORTH_ITS_PRICE, text, where | evidence, changes)

    def _where(self, costs: Costs | None) -> tuple[dict[str, float | str], str]:
        """Where its risk comes from by the exact model, whom the plan has chosen being guests."""
        if costs is None or costs.charge <= 0.0:
            return {}, ""
        where = costs.for_whom()
        begins, ends = (life_text(float(where[key])) for key in ("cell_begins_s", "cell_ends_s"))
        text = (
            f"; of the {costs.charge:.2g} jobs it may slow by the exact model the largest part, "
            f"{costs.part.share:.0%}, is between {begins} and {ends} from now {costs.need_text(where)}"
        )
        return where, text

    def _can_go_back(self, job: Job) -> bool:
        return bool(self._weighed.candidates.is_requeueable[self._place(job)])

    def _place(self, job: Job) -> int:
        return self._weighed.candidates.job_ids.index(job.job_id)

    def _margin(self, job: Job, charge: float) -> _Margin:
        problem, counts = self._weighed.problem, self._weighed.plan.counts
        more = counts + self._one(job)
        value = float(problem.value[self._weighed.class_of[job.job_id]])
        risk = problem.risk_jobs(more) - problem.risk_jobs(counts)
        back = problem.send_backs(more) - problem.send_backs(counts)
        price = problem.price * risk + problem.send_back_price * back
        gain = problem.objective(more) - problem.objective(counts)
        exact = problem.price * charge + problem.send_back_price * back
        return _Margin(gain + price, gain + price - value, risk, price, exact)

    def _one(self, job: Job) -> np.ndarray:
        one = np.zeros(self._weighed.problem.num_classes, dtype=np.int64)
        one[self._weighed.class_of[job.job_id]] = 1
        return one

    def _binds(self, job: Job, margin: _Margin) -> str:
        """What keeps it out of the plan: `price`, `lines`, `budget`, `nodes`, or a `gap`."""
        problem, plan = self._weighed.problem, self._weighed.plan
        if margin.value - margin.price <= _ROUNDING * max(abs(plan.objective), 1.0):
            return "lines" if margin.value > margin.exact_price else "price"
        rows = problem.placeability
        if rows is not None:
            taken = rows.units @ (plan.counts + self._one(job))
            if (taken > rows.available + _ROUNDING).any():
                return "nodes"
        return "budget" if self._risk_with(job) > problem.allowed_jobs else "gap"

    def _risk_with(self, job: Job) -> float:
        """Jobs that the plan would slow with one more: exactly or by its lines, whichever says more."""
        problem, weighed = self._weighed.problem, self._weighed
        lines = problem.risk_jobs(weighed.plan.counts + self._one(job))
        return max(weighed.risk_of([*weighed.chosen(), job]), lines) + weighed.plan.ride_jobs

    def _evidence(self, margin: _Margin, binds: str) -> dict[str, float | str]:
        problem, plan = self._weighed.problem, self._weighed.plan
        return {
            "binds": binds,
            "value": margin.value,
            "price": margin.price,
            "exact_price": margin.exact_price,
            "risk_jobs": margin.risk_jobs,
            "price_per_job": problem.price,
            "weighed_jobs": len(self._weighed.jobs),
            "chosen_jobs": len(plan.job_ids),
            "plan_value": plan.objective,
            "plan_status": plan.status.value,
            "plan_gap": plan.gap,
            "plan_risk_jobs": plan.risk_jobs if plan.exact_risk_jobs is None else plan.exact_risk_jobs,
            "plan_budget_jobs": problem.budget_jobs,
        }

    def _others(self) -> str:
        others = len(self._weighed.jobs) - 1
        return f"weighed together with {others} other jobs and left out"

    def _instead(self) -> str:
        """What the plan does, and how good it is known to be."""
        plan = self._weighed.plan
        ids = plan.job_ids
        first = ", ".join(ids[:_NAMED]) + (", ..." if len(ids) > _NAMED else "")
        does = f"the plan starts {first} ({len(ids)} in all)" if ids else "the plan starts nobody"
        if plan.status is not PlanStatus.OPTIMAL:
            return f"{does}; it is {plan.status.value}, so better ones are not ruled out"
        if plan.gap <= _ROUNDING:
            return f"{does}, which is proven best"
        return f"{does}, and it is proven that no plan is better by more than {plan.gap:.2g} of its worth"

    def _changes(self, job: Job, margin: _Margin, binds: str) -> tuple[Change, ...]:
        """What would do: found by planning again, but for the wait, which is reckoned."""
        found: list[Change] = []
        if not self._can_go_back(job):
            found += self._larger(job, margin)
            if self._weighed.if_sent_back(job):
                found.append(Change(Lever.REQUEUEABLE, None, "starts at once if it could be sent back"))
        wait_s = self._wait_s(job, margin) if binds in ("price", "lines") else None
        if wait_s is not None:
            text = (
                f"is worth its price once it has waited {life_text(wait_s)} longer, all else being as it is"
            )
            found.append(Change(Lever.LONGER_WAIT, wait_s, text))
        return tuple(found)

    def _larger(self, job: Job, margin: _Margin) -> list[Change]:
        problem = self._weighed.problem
        if job.job_id in self._allowances:
            now = 1.0 / problem.price
            value = self._allowances[job.job_id] * now
            text = f"starts at once if one early start might slow {value:.3g} jobs ({now:.3g} may)"
            return [Change(Lever.LARGER_ALLOWANCE, value, text)]
        if job.job_id in self._budgets:
            value = self._budgets[job.job_id] * problem.budget_jobs
            now = problem.budget_jobs
            text = f"starts at once if the plan might slow {value:.3g} jobs in all ({now:.3g} may)"
            return [Change(Lever.LARGER_BUDGET, value, text)]
        # the others take the GPUs before it starts; what it costs to send them back is no matter of risk
        worth = margin.value - (margin.price - problem.price * margin.risk_jobs)
        if margin.risk_jobs <= 0.0 or worth <= 0.0 or problem.price * margin.risk_jobs < worth:
            return []
        value = margin.risk_jobs / worth
        now = 1.0 / problem.price
        text = f"is worth its price if one early start might slow {value:.3g} jobs ({now:.3g} may)"
        return [Change(Lever.LARGER_ALLOWANCE, value, text)]

    @cached_property
    def _allowances(self) -> dict[str, float]:
        return first_steps(self._weighed.with_allowance)

    @cached_property
    def _budgets(self) -> dict[str, float]:
        return first_steps(self._weighed.with_budget)

    def _wait_s(self, job: Job, margin: _Margin) -> float | None:
        """For how much longer it has to wait to be worth its price; None: for longer than a month."""
        place = self._place(job)
        rank = int(self._weighed.candidates.pool[place])
        now = float(self._weighed.candidates.value[place] * self._weighed.factor[rank])
        wanted = margin.price - margin.utility
        waited_s = self._weighed.now_s - job.submit_s
        life_s = float(self._weighed.candidates.median_s[place])
        if now <= 0.0 or not np.isfinite(life_s) or now >= wanted:
            return None

        def value(more_s: float) -> float:
            both = np.array([waited_s, waited_s + more_s])
            worth = job_values(both, np.full(2, life_s), np.full(2, float(job.num_gpus)), ValueSettings())
            return now * float(worth[1] / worth[0])

        if value(_LONGEST_WAIT_S) < wanted:
            return None
        low_s, high_s = 0.0, _LONGEST_WAIT_S
        for _ in range(_HALVINGS):
            middle_s = 0.5 * (low_s + high_s)
            low_s, high_s = (low_s, middle_s) if value(middle_s) >= wanted else (middle_s, high_s)
        return high_s


def _by_price(margin: _Margin, _evidence: dict[str, float | str]) -> str:
    value, price = apart(margin.value, margin.price)
    what = "that it may be sent back"
    if margin.risk_jobs > 0.0:
        what = f"its risk, {margin.risk_jobs:.2g} jobs slowed by the plan's reckoning,"
    return f"its start is worth {value} (1 is the mean job), and {what} costs {price}"


def _by_lines(margin: _Margin, evidence: dict[str, float | str]) -> str:
    return (
        f"{_by_price(margin, evidence)}; by the exact model it would be {margin.exact_price:.2g} only, but "
        "the plan reckons by lines that lie above it"
    )


def _by_budget(margin: _Margin, evidence: dict[str, float | str]) -> str:
    may, would = apart(float(evidence["plan_budget_jobs"]), float(evidence["plan_risk_with_it_jobs"]))
    return (
        f"its start is worth {margin.value:.3g} at a price of {margin.price:.3g}, but with it the plan would "
        f"slow {would} jobs, and one plan may slow {may}"
    )


def _by_nodes(margin: _Margin, _evidence: dict[str, float | str]) -> str:
    return (
        f"its start is worth {margin.value:.3g} at a price of {margin.price:.3g}, but the nodes have no room "
        "for it beside what is kept for others and what the plan starts"
    )


def _by_gap(margin: _Margin, evidence: dict[str, float | str]) -> str:
    return (
        f"its start would add {margin.value - margin.price:.2g}, less than what the search left open "
        f"(gap {float(evidence['plan_gap']):.2g}) or what its margin for the exact risk allowed"
    )


_SAID: Final = {
    "price": _by_price,
    "lines": _by_lines,
    "budget": _by_budget,
    "nodes": _by_nodes,
    "gap": _by_gap,
}
