"""Why jobs wait, in a word each and at next to no cost: what the state tells; nobody is asked.

The words are those of the full explanation. Where only the policy could say more, or the nodes, the word is
`held-by-policy`; whoever wants to know asks for that one job.
"""

import heapq
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from domain.jobs import Job
from solver.check_plan import inside_lanes
from solver.explain.starts import lane_starts
from solver.explain.words import Why
from solver.plan_rules import PlanOptions, PlanState, Standing
from solver.policies.base import Lends


@dataclass(frozen=True, slots=True)
class Waits:
    """The cluster right after a decision, its starts not yet told.

    Attributes:
        state: its `idle_gpus` are those left once the decision is carried out.
        owes: what the policy owes.
        lends: to whom it lends.
        is_lending: False: the operator has switched lending off.
        explains: whether the policy has reasons of its own for whom it does not lend to.
        starting: ids that the decision starts.
        stopping: ids that it sends back.
    """

    state: PlanState
    owes: PlanOptions
    lends: Lends
    is_lending: bool
    explains: bool
    starting: Collection[str]
    stopping: Collection[str] = ()

    def first(self, most: int) -> list[tuple[Job, Why]]:
        """The first jobs that wait, by (submit, id), each with its reason."""
        due = self._due()
        return [(job, self._why(job, due)) for job in islice(self._in_order(), most)]

    def _in_order(self) -> Iterator[Job]:
        """Who waits, by (submit, id) as far as the lines are in that order."""
        lines = (self._of_line(pool) for pool in self.state.lines)
        return heapq.merge(*lines, key=lambda job: (job.submit_s, job.job_id))

    def _of_line(self, pool: str) -> Iterator[Job]:
        for job_id, one in self.state.lines[pool].items():
            if (one.standing is Standing.WAITING and job_id not in self.starting) or job_id in self.stopping:
                yield one.job

    def _due(self) -> dict[str, Job]:
        """Own jobs that wait on, in their order."""
        if not self.owes.has_own_lanes:
            return {}
        inside = inside_lanes(self.state, counts_guests=self.owes.converts).values()
        waiting = [
            one.job
            for one in inside
            if one.standing is Standing.WAITING and one.job.job_id not in self.starting
        ]
        return {job.job_id: job for job in sorted(waiting, key=lambda job: (job.submit_s, job.job_id))}

    def _why(self, job: Job, due: Mapping[str, Job]) -> Why:
        if self.owes.has_own_lanes and job.num_gpus > self.state.quotas.get(job.pool, 0):
            return Why.NO_PROMISE
        if job.job_id in due:
            is_first = next(iter(due)) == job.job_id
            return self._short() if is_first or self._is_short(job) else Why.BEHIND_DUE_JOB
        return self._by_rule(job) or self._by_room(job, due)

    def _by_rule(self, job: Job) -> Why | None:
        """Why nothing is lent to it, whatever is idle."""
        if not self.is_lending:
            return Why.LENDING_OFF
        if not self.explains and self.lends is Lends.NOBODY:
            return Why.WAITS_IN_OWN_LANE
        if not self.explains and not self._may_be_lent_to(job):
            return Why.NOT_REQUEUEABLE
        return None

    def _by_room(self, job: Job, due: Mapping[str, Job]) -> Why:
        if due:
            return Why.BEHIND_DUE_JOB
        return self._short() if self._is_short(job) else Why.HELD_BY_POLICY

    def _is_short(self, job: Job) -> bool:
        return job.num_gpus > self.state.idle_gpus

    def _short(self) -> Why:
        return Why.NO_IDLE_GPU if self.state.idle_gpus <= 0 else Why.WIDER_THAN_IDLE

    def _may_be_lent_to(self, job: Job) -> bool:
        if self.lends is Lends.REQUEUEABLE:
            return job.is_requeueable(self.owes.requeueable_share)
        return True


def starts_by_limits(
    state: PlanState, started_s: Mapping[str, float], pools: Collection[str]
) -> dict[str, float]:
    """When each job's own lane reaches it if every job of its pool runs to its limit, by id.

    Infinite where a job before it has no limit. No forecast is asked, and lives are not longer than their
    limits, so it is a promise wherever limits are kept.

    Args:
        state: the cluster.
        started_s: since when each job runs.
        pools: those asked about.
    """
    left_s: dict[str, float] = {}
    for job_id, one in state.known.items():
        if one.job.pool in pools:
            limit_s = math.inf if one.job.limit_s is None else one.job.limit_s
            left_s[job_id] = max(limit_s - (state.now_s - started_s.get(job_id, state.now_s)), 0.0)
    found = lane_starts(state, left_s, pools)
    return {job_id: at_s for job_id, at_s in found.items() if math.isfinite(at_s)}
