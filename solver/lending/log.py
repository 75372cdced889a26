"""What became of the plans of one policy, in counts.

No seconds: a report of the same replay is the same byte for byte. How many were cut by the wall clock is
told all the same, because where that is not 0 the replay need not repeat either.
"""

from collections import Counter
from typing import Any

import numpy as np

from solver.lending.problem import Fallback, LendingPlan, PlanStatus


class PlanLog:
    """Adds up plans."""

    def __init__(self) -> None:
        self._status: Counter[PlanStatus] = Counter()
        self._fallback: Counter[Fallback] = Counter()
        self._gaps: list[float] = []
        self._cut = self._rounds = self._starts = 0
        self._work = self._risk_jobs = 0.0

    def add(self, plan: LendingPlan) -> None:
        """A plan was made."""
        self._status[plan.status] += 1
        self._fallback[plan.fallback] += 1
        self._cut += plan.is_cut
        if plan.status is PlanStatus.EMPTY:
            return
        self._gaps.append(plan.gap)
        self._rounds += plan.rounds
        self._work += plan.work
        self._starts += int(plan.counts.sum()) + len(plan.rides)
        self._risk_jobs += plan.risk_jobs if plan.exact_risk_jobs is None else plan.exact_risk_jobs

    def as_report(self) -> dict[str, Any]:
        """Counts of plans, and the gaps of those that are not empty.

        `proven_pct` is the share proven to be within the gap that was asked for (within the lines of their
        round: `LendingPlan.bound`), `without_bound` how many could say nothing of the best plan; the
        quantiles of the gap are over the others, null where there are none. `solver_work` adds up the
        solver's own deterministic measure, `risk_jobs` the jobs that plans were expected to slow when made.
        """
        bounded = [100.0 * gap for gap in self._gaps if np.isfinite(gap)]
        solved = len(self._gaps)
        return {
            "plans": self._status.total(),
            "by_status": {status.value: self._status[status] for status in PlanStatus},
            "by_fallback": {
                kind.value: self._fallback[kind] for kind in Fallback if kind is not Fallback.NONE
            },
            "cut_by_wall_clock": self._cut,
            "proven_pct": 100.0 * self._status[PlanStatus.OPTIMAL] / solved if solved else None,
            "gap_median_pct": float(np.median(bounded)) if bounded else None,
            "gap_p95_pct": float(np.quantile(bounded, 0.95)) if bounded else None,
            "gap_worst_pct": max(bounded, default=None),
            "without_bound": solved - len(bounded),
            "rounds": self._rounds,
            "solver_work": self._work,
            "starts": self._starts,
            "risk_jobs": self._risk_jobs,
        }
