"""The event engine: arrivals and endings under a virtual clock, decisions in between.

At each instant: endings first, then arrivals by (submit, id), then one decision, carried out at once. What
a decision starts may end at the same instant (a job of no length); then the instant is gone through again.

A guest that is sent back keeps what it saved at its last checkpoint, if it saves any, and its next attempt
runs for what is left of its work, and for as long as it takes to load what was saved. Its GPUs are idle at
once, or after a time that is given.

Where two jobs may share a GPU, a pace says how fast each goes. Rates are settled once all that happens at an
instant has happened; each change of a job's rate begins a new stretch.
"""

import heapq
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from domain.errors import StalledError
from domain.jobs import Job, JobOutcome, submit_order
from domain.observers import Observer
from domain.plans import Plan
from domain.schedules import Schedule
from simulator.pace import Pace
from simulator.placed import PlacedPlans
from simulator.quiet import QuietTimes
from simulator.state import ClusterState
from solver.desk import Desk
from solver.policies.base import Policy

Progress = Callable[[int, int], None]
"""Called now and then with (jobs ended, jobs in all)."""


class PlanCheck(Observer, ABC):
    """Looks at every plan before it is carried out; it is told all facts, as an observer is."""

    @abstractmethod
    def __call__(self, plan: Plan, idle_gpus: int, now_s: float) -> None:
        """Judge one plan.

        Args:
            plan: what is about to be carried out.
            idle_gpus: GPUs that nobody has before that.
            now_s: the instant.

        Raises:
            PlanError: if the plan must not be carried out.
        """


_EVENTS_PER_REPORT = 2048


class Engine:
    """Replays jobs under a policy. One instance, one run.

    Args:
        jobs: what is submitted.
        outcomes: the truth, by job id; nothing but this engine looks into it.
        capacity_gpus: GPUs of the cluster.
        policy: the rule to follow.
        progress: told now and then how far the replay is.
        observers: told all facts, each before the policy is.
        tick_s: while jobs wait, decide at every multiple of this as well.
        plan_check: looks at every plan before it is carried out (`simulator.checked`).
        placer: puts plans on nodes; None: GPUs are only counted.
        reclaim_s: for how long nobody has the GPUs of a guest that was sent back; they are only counted then.
        pace: says how fast jobs that share GPUs go; None: every job has its GPUs alone.
        quiet: times in which no guest is started; None: there are none.
    """

    def __init__(  # noqa: PLR0913 - named, and each a part of the replay
        self,
        *,
        jobs: Sequence[Job],
        outcomes: Mapping[str, JobOutcome],
        capacity_gpus: int,
        policy: Policy,
        progress: Progress | None = None,
        observers: Sequence[Observer] = (),
        tick_s: float | None = None,
        plan_check: PlanCheck | None = None,
        placer: PlacedPlans | None = None,
        reclaim_s: float = 0.0,
        pace: Pace | None = None,
        quiet: QuietTimes | None = None,
    ) -> None:
        self._arrivals = sorted(jobs, key=submit_order)
        self._outcomes = outcomes
        self._desk = Desk(policy, observers if plan_check is None else (*observers, plan_check))
        self._progress = progress
        self._tick_s = tick_s
        self._plan_check = plan_check
        self._placer = placer
        self._reclaim_s = reclaim_s
        self._pace = pace
        self._quiet = quiet
        self._freeings: deque[tuple[float, int]] = deque()
        self._state = ClusterState(capacity_gpus)
        self._endings: list[tuple[float, int, str]] = []
        self._next_arrival = 0
        self._events = 0
        self._ended = 0

    @property
    def state(self) -> ClusterState:
        """Who waits and who runs; to be looked at."""
        return self._state

    def run(self, until_s: float = math.inf) -> Schedule:
        """Replay all jobs to their end, or stop after a decision at an instant.

        Raises:
            PlanError: if the policy plans what cannot be.
            StalledError: if jobs are left waiting when nothing is going to happen any more.
        """
        arrivals, state = self._arrivals, self._state
        next_report, last_s = _EVENTS_PER_REPORT, -math.inf
        while True:
            now_s = self._next_instant_s(last_s)
            if now_s == math.inf or now_s > until_s:
                break
            last_s = now_s
            self._end_jobs(now_s)
            while self._freeings and self._freeings[0][0] <= now_s:
                state.free(self._freeings.popleft()[1])
            self._submit_jobs(now_s)
            self._decide(now_s)
            self._settle_rates(now_s)
            if self._progress is not None and self._events >= next_report:
                self._progress(self._ended, len(arrivals))
                next_report = self._events + _EVENTS_PER_REPORT
        if until_s == math.inf:
            self._require_all_ended()
        else:
            self._decide(until_s)
        return Schedule(tuple(state.stretches), self._events)

    def _next_instant_s(self, last_s: float) -> float:
        """When something happens next, or is to be decided; infinite if nothing will happen any more."""
        arrivals, k = self._arrivals, self._next_arrival
        now_s = min(
            self._next_ending_s(),
            arrivals[k].submit_s if k < len(arrivals) else math.inf,
            self._freeings[0][0] if self._freeings else math.inf,
            math.inf if self._pace is None else self._pace.next_s(),
            self._quiet.end_s(last_s) if self._quiet is not None and self._state.pending else math.inf,
        )
        if now_s == math.inf:
            return now_s
        if self._tick_s is not None and self._state.pending:
            now_s = min(now_s, (last_s // self._tick_s + 1.0) * self._tick_s)
        return min(now_s, self._look_again_s(last_s))

    def _look_again_s(self, last_s: float) -> float:
        """When the policy wants to decide though nothing happens; what it wanted in the past is over."""
        look_s = self._desk.look_again_s()
        return look_s if look_s > last_s else math.inf

    def _next_ending_s(self) -> float:
        """When the next attempt ends that still runs.

        At the instant at which one sent back would have ended nothing happens, and nobody may be asked:
        that instant is not knowable.
        """
        endings, running = self._endings, self._state.running
        while endings:
            end_s, serial, job_id = endings[0]
            attempt = running.get(job_id)
            if attempt is not None and attempt.serial == serial:
                return end_s
            heapq.heappop(endings)
        return math.inf

    def _end_jobs(self, now_s: float) -> None:
        endings, running = self._endings, self._state.running
        while endings and endings[0][0] == now_s:
            _, serial, job_id = heapq.heappop(endings)
            attempt = running.get(job_id)
            if attempt is None or attempt.serial != serial:
                continue
            frees_gpus = None if self._pace is None else self._pace.leave(job_id, now_s)
            job = self._state.finish(job_id, now_s, frees_gpus=frees_gpus)
            self._desk.ended(job, now_s, self._outcomes[job_id].duration_s)
            if self._placer is not None:
                self._placer.ended(job)
            self._events += 1
            self._ended += 1

    def _submit_jobs(self, now_s: float) -> None:
        arrivals = self._arrivals
        k = self._next_arrival
        while k < len(arrivals) and arrivals[k].submit_s == now_s:
            self._state.submit(arrivals[k])
            self._desk.submitted(arrivals[k], now_s)
            if self._placer is not None:
                self._placer.submitted(arrivals[k])
            k += 1
        self._events += k - self._next_arrival
        self._next_arrival = k

    def _decide(self, now_s: float) -> None:
        """Decide and carry it out; where wider guests find no nodes, ask again for narrower ones."""
        limit_gpus: int | None = self._state.idle_gpus
        while limit_gpus is not None:
            plan = self._desk.decide(now_s, min(limit_gpus, self._state.idle_gpus))
            limit_gpus = None
            if self._quiet is not None:
                plan = self._quiet.without_guests(plan, now_s)
            if self._placer is not None:
                plan = self._placer.arrange(plan, now_s)
                limit_gpus = self._placer.ask_again_gpus
            self._carry_out(plan, now_s)

    def _carry_out(self, plan: Plan, now_s: float) -> None:
        state, desk = self._state, self._desk
        if self._plan_check is not None:
            self._plan_check(plan, state.idle_gpus, now_s)
        for job in plan.send_backs:
            frees_gpus = self._leave(job, now_s)
            state.send_back(job, now_s, frees_now=self._reclaim_s <= 0.0, frees_gpus=frees_gpus)
            if self._reclaim_s > 0.0:
                freed_gpus = job.num_gpus if frees_gpus is None else frees_gpus
                self._freeings.append((now_s + self._reclaim_s, freed_gpus))
            desk.sent_back(job, now_s)
            self._events += 1
        for job in plan.suspends:
            state.suspend(job, now_s, frees_gpus=self._leave(job, now_s))
            desk.sent_back(job, now_s)
            self._events += 1
        for job in plan.conversions:
            state.convert(job, now_s)
        gpus = {placement.job_id: placement.gpus for placement in plan.placements}
        for job, is_guest in plan.starts:
            place = gpus.get(job.job_id, ())
            takes_gpus = (
                None if self._pace is None else self._pace.enter(job, place, now_s, state.kept_s(job))
            )
            serial = state.start(job, now_s, is_guest=is_guest, gpus=place, takes_gpus=takes_gpus)
            desk.started(job, now_s)
            self._foresee_end(job.job_id, serial)
        if self._pace is not None:
            self._pace.set_shares(plan.shares, now_s)

    def _leave(self, job: Job, now_s: float) -> int | None:
        return None if self._pace is None else self._pace.leave(job.job_id, now_s)

    def _foresee_end(self, job_id: str, serial: int) -> None:
        attempt = self._state.running[job_id]
        left_s = self._outcomes[job_id].duration_s - self._state.kept_s(attempt.job)
        if attempt.rate != 1.0 or attempt.work_s:
            left_s = (left_s - attempt.work_s) / attempt.rate
        heapq.heappush(self._endings, (attempt.start_s + max(0.0, left_s), serial, job_id))

    def _settle_rates(self, now_s: float) -> None:
        """Begin new stretches where neighbours or rates have changed, once all of an instant has happened."""
        pace = self._pace
        if pace is None:
            return
        for job_id in pace.settle(now_s):
            attempt = self._state.running[job_id]
            rate = pace.rate(job_id)
            if rate != attempt.rate or attempt.start_s < now_s:
                serial = self._state.change_rate(job_id, now_s, rate)
                self._foresee_end(job_id, serial)
            if rate != attempt.rate:
                self._desk.rate_changed(attempt.job, now_s, rate)

    def _require_all_ended(self) -> None:
        if self._state.pending:
            stuck = min(self._state.pending.values(), key=submit_order)
            raise StalledError(
                f"{len(self._state.pending)} jobs never start, the first one {stuck.job_id} "
                f"({stuck.num_gpus} GPUs, pool {stuck.pool}), although nothing runs any more"
            )
        if self._progress is not None:
            self._progress(self._ended, len(self._arrivals))
