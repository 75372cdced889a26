"""The books of a policy that lends: lanes, lives, what waits, the budget, and the time ahead made of them.

Policies that lend by forecast differ in whom they choose. Everything else they do alike, and it is here:
own jobs first, guests sent back where a lane needs their GPUs, and what is known of the time ahead.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.checkpoints import KeptWork, reload_s
from domain.jobs import Job
from domain.measures import is_slowed
from domain.plans import Hold, Start
from domain.timegrid import default_grid
from solver.budget import SlowdownBudget
from solver.drawing import situation_of, waiting_lives
from solver.lane import Lanes
from solver.lender_settings import LenderSettings
from solver.lending.verify import Situation
from solver.lives import Cohorts, Entry, Fates, LifeBook, survival_at
from solver.lookahead import Ahead, Bursts, LookAhead, Stakes
from solver.policies.base import PolicyContext
from solver.policies.victims import fewest, least_lost_first
from solver.progress import left_alive, left_quantile_s, repeated_share
from solver.reclaim_time import ReclaimQueue
from solver.riders import Riders
from solver.tolerance import Tolerance
from solver.usual import UsualUse

FloatArray = NDArray[np.float64]

_GUEST, _OWN, _REQUEUEABLE = range(3)
_LOW_LEVEL: Final = 0.25
"""Lives not known yet are taken at this level where shorter means more cautious."""
_HIGH_LEVEL: Final = 0.9
_PRIOR_JOBS: Final = 50.0
_MOST_WEIGHT: Final = 20.0
_FATES_SEED: Final = 0
_MOST_LATE_S: Final = 1800.0
_FIRST, _IN_TIME, _LATE = range(3)


class Served(NamedTuple):
    """What the lanes get at one instant.

    Attributes:
        victims: guests to send back.
        converted: guests that have become own.
        starts: own jobs that start.
        holds: own jobs that have to wait: GPUs that come free are kept for them.
        late: those of the own jobs that have to wait that are slowed already.
        idle_gpus: left over; lent only where nobody has to wait.
    """

    victims: list[Job]
    converted: list[Job]
    starts: list[Start]
    holds: list[Hold]
    late: list[Job]
    idle_gpus: int


class Lender:
    """Told every fact, asked to serve the lanes and for the time ahead.

    Args:
        context: what the policy is built from.
        settings: see there.

    Attributes:
        lanes: of all pools.
        budget: of jobs that may be slowed.
        capacity_gpus: of the cluster.
        rank: of each pool.
        riders: running jobs on GPUs of others.
        tolerance: by when jobs have to start.
    """

    def __init__(self, context: PolicyContext, settings: LenderSettings) -> None:
        self._lives = context.lives
        self._demand = context.demand
        self._settings = settings
        self.capacity_gpus = sum(context.quotas.values())
        self.rank = {pool: k for k, pool in enumerate(context.quotas)}
        self.lanes = Lanes(context.quotas, context.own)
        self.budget = SlowdownBudget(context.quotas, settings.eps)
        self.tolerance = Tolerance(self.budget.shadow, list(self.rank), self._least_work_s)
        pools = len(self.rank)
        self._quota = np.array(list(context.quotas.values()), dtype=float)
        self._begins_s = np.array(default_grid().edges_s[:-1])
        self._lengths_s = np.diff(default_grid().edges_s)
        self._book = LifeBook(3 * pools, pools, self._begins_s)
        self._cohorts = Cohorts()
        self._fates = Fates(settings.kinship, _FATES_SEED)
        self._usual = UsualUse(self._begins_s)
        self._backlog = np.zeros((pools, self._begins_s.size))
        self._num_waiting = np.zeros(pools)
        self._num_submitted = np.zeros(pools)
        self._entries: dict[str, Entry] = {}
        self._low_s: dict[str, float] = {}
        self._high_s: dict[str, float] = {}
        self._used = np.zeros(pools)
        self._progress = KeptWork()
        self.riders = Riders()
        self._queue: ReclaimQueue | None = None
        if settings.reclaim_s > 0.0:
            self._queue = ReclaimQueue(context.quotas, settings.reclaim_s, self._late_s)
        self.fresh: dict[str, FloatArray] = {}
        self.keys: dict[str, tuple[float, float]] = {}

    def submitted(self, job: Job, now_s: float) -> None:
        """A job stands in its line, and its life is forecast."""
        self.lanes.submitted(job)
        self.budget.submitted(job, now_s)
        curve = np.asarray(self._lives.survival(job))
        self._entries[job.job_id] = Entry(job.job_id, job.num_gpus, curve, self._cohorts.of(job))
        self._low_s[job.job_id] = self._lives.quantile_s(job, _LOW_LEVEL)
        self._high_s[job.job_id] = self._lives.quantile_s(job, _HIGH_LEVEL)
        self.fresh[job.job_id] = survival_at(curve[None, :], self._begins_s[None, :])[0]
        self.keys[job.job_id] = (self._lives.quantile_s(job, 0.5), job.submit_s)
        self._num_submitted[self.rank[job.pool]] += 1
        self._waits(job, 1)

    def started(self, job: Job, now_s: float, charge: float) -> None:
        """A job runs, as own or as guest that is expected to slow `charge` jobs."""
        self._waits(job, -1)
        self.lanes.started(job)
        kept_s = self._progress.kept_s(job)
        self._progress.started(job, now_s)
        self.budget.started(job, now_s, kept_s)
        if job.job_id in self.lanes.guests:
            self.budget.charge(job, charge)
        elif self._queue is not None:
            self._queue.started(job, now_s)
        # as old as the work done: that is what its forecast life is of
        begun_s, done_s = now_s - kept_s, self._progress.done_s(job) if job.restart_s else 0.0
        self._book.add(self._entries[job.job_id], begun_s, self._group(job, self._kind(job)), done_s)
        self._used[self.rank[job.pool]] += job.num_gpus

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate; it was 1 since it started.

        Raises:
            ValueError: if it does not run.
        """
        self._progress.rate_changed(job, rate)
        self.budget.rate_changed(job, now_s, rate)
        self._book.rate_changed(job.job_id, now_s, rate)
        if self._queue is not None:
            self._queue.rate_changed(job, now_s, rate)

    def rides(self, job: Job, now_s: float, host: Job) -> None:  # noqa: ARG002 - a fact has its instant
        """A running job is on GPUs of a running host, and takes none itself until one of the two stops.

        Everything else about it goes on: its line, its place in the lane, its reference. Where it is own, it
        takes room in its lane.

        Raises:
            ValueError: if one of the two does not run or rides already, the job is a host, or the host has
                too few GPUs that nobody shares.
        """
        for one in (job, host):
            if not self.runs(one):
                raise ValueError(
                    f"job {job.job_id} cannot ride with {host.job_id}: {one.job_id} does not run"
                )
        self.riders.rides(job, host)
        self._book.rides(job.job_id, host.job_id)
        self._used[self.rank[job.pool]] -= job.num_gpus
        self._regroup(host)

    def alone(self, job: Job, now_s: float) -> None:  # noqa: ARG002 - a fact has its instant
        """A rider has GPUs of its own; nothing changes if it had.

        It has them without being told of it once its host has ended or was sent back.
        """
        host = self.riders.alone(job)
        if host is not None:
            self._book.alone(job.job_id)
            self._used[self.rank[job.pool]] += job.num_gpus
            self._regroup(host)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        if self.runs(job):
            self._stops(job, now_s)
        else:
            self._waits(job, -1)
        self.lanes.ended(job)
        self.budget.ended(job, now_s)
        self._progress.ended(job)
        if self._queue is not None:
            self._queue.ended(job, now_s)
        for known in (self._entries, self._low_s, self._high_s, self.fresh, self.keys):
            known.pop(job.job_id, None)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest waits again, at its place."""
        self.lanes.sent_back(job)
        self.budget.sent_back(job, now_s)
        if self._queue is not None:
            self._queue.sent_back(job, now_s, self.riders.shared_gpus(job))
        self._stops(job, now_s)
        if self._progress.sent_back(job, now_s) > 0.0:
            self._forecast_rest(job)
        self._waits(job, 1)

    def runs(self, job: Job) -> bool:
        """Whether a job runs."""
        return job.job_id in self._book

    def may_send_back(self, job: Job) -> bool:
        """Whether lending may count on sending a job back: before anybody is slowed its GPUs are free."""
        return self.can_go_back(job) and not is_slowed(self._settings.reclaim_s)

    def can_go_back(self, job: Job) -> bool:
        """Whether a job may be sent back and start again, whenever its GPUs are free then."""
        return job.is_requeueable(self._settings.requeueable)

    def _late_s(self, job: Job, now_s: float) -> float:
        """How late a job is at most that starts now: starts in the early reference are never later."""
        self.budget.shadow.advance(now_s)
        start_s = self.budget.shadow.early_start_s(job)
        return 0.0 if start_s is None else max(0.0, now_s - start_s)

    def repeated_share(self, job: Job) -> float:
        """Share of a waiting job's run that being sent back would cost it, at most: repeated or loading."""
        return repeated_share(job, self.keys[job.job_id][0])

    def tail_s(self, job: Job) -> float:
        """A high quantile of what a waiting job still has to run, seconds."""
        return self._high_s[job.job_id]

    def used_gpus(self) -> FloatArray:
        """(pools,) GPUs of the jobs that run; of riders none."""
        return self._used.copy()

    def cohort_of(self, job: Job) -> int:
        """The burst a job belongs to."""
        return self._entries[job.job_id].cohort

    def curve_of(self, job: Job) -> FloatArray:
        """Forecast survival of a job at the edges of `LIFE_EDGES_S`."""
        return self._entries[job.job_id].curve

    def serve(self, now_s: float, idle_gpus: int) -> Served:
        """Let lanes advance, and start what they have reached.

        Where idle GPUs do not suffice, guests are sent back, those first that lose least. Where that does not
        suffice either, the jobs whose reference start comes first are served first, and the others wait.
        """
        converted = self.lanes.advance()
        self._usual.note(now_s, self.lanes.own_gpus() - self.riders.gpus_outside(self.lanes.guests))
        for job in converted:
            self._regroup(job)
        due = self.lanes.due_in_order()
        if self._queue is not None:
            return self._serve_in_turn(self._queue, now_s, idle_gpus, (converted, due))
        victims = self._victims_for(sum(job.num_gpus for job in due) - idle_gpus, now_s)
        idle_gpus += self.riders.freed_gpus(victims)
        if sum(job.num_gpus for job in due) <= idle_gpus:
            starts = [Start(job, False) for job in due]
            idle_gpus -= sum(job.num_gpus for job in due)
            return Served(victims, converted, starts, [], [], idle_gpus)
        return self._ration(due, now_s, Served(victims, converted, [], [], [], idle_gpus))

    def _serve_in_turn(
        self, queue: ReclaimQueue, now_s: float, idle_gpus: int, own: tuple[list[Job], list[Job]]
    ) -> Served:
        """The same where GPUs of guests that are sent back are free only after a while."""
        converted, due = own
        for job in converted:
            queue.converted(job, now_s)
        turn = queue.serve(now_s, idle_gpus, due)
        victims = self._victims_for(turn.missing_gpus, now_s)
        if turn.waits and turn.short_gpus > self.riders.freed_gpus(victims):
            return self._ration(due, now_s, Served(victims, converted, [], [], [], idle_gpus))
        starts = [Start(job, False) for job in turn.starts]
        holds = [Hold(job.pool, job.num_gpus) for job in turn.waits]
        return Served(victims, converted, starts, holds, [], turn.lendable_gpus)

    def _ration(self, due: list[Job], now_s: float, served: Served) -> Served:
        """Too few GPUs for all that is due: they go where they still keep somebody from being slowed.

        Whoever is late already is late once; whoever could still be on time, also a job beyond its lane that
        the reference starts now, is served before him, by reference start. Nobody is passed over for ever:
        one that is late by half an hour comes first. GPUs are kept for the first who needs more than there
        are, unless he is late already.
        """
        self.tolerance.refresh(now_s)
        own = {job.job_id for job in due}
        pools = dict.fromkeys(job.pool for job in due)
        asking = [*due, *(job for pool in pools for job in self._next_in_reference(pool, now_s, own))]
        ranked = sorted(
            (self._rank_by(self.tolerance.due_by_s(job), now_s), job.submit_s, job.job_id, job)
            for job in asking
        )
        idle_gpus, is_kept = served.idle_gpus, False
        for (rank, _), _, _, job in ranked:
            if not is_kept and job.num_gpus <= idle_gpus:
                served.starts.append(Start(job, job.job_id not in own))
                idle_gpus -= job.num_gpus
                continue
            is_kept = is_kept or rank != _LATE
            if job.job_id in own:
                served.holds.append(Hold(job.pool, job.num_gpus))
                if rank == _LATE:
                    served.late.append(job)
        return served._replace(idle_gpus=idle_gpus)

    def _rank_by(self, due_by_s: float, now_s: float) -> tuple[int, float]:
        late_s = now_s - due_by_s
        if late_s > _MOST_LATE_S:
            return _FIRST, due_by_s
        return (_LATE if is_slowed(late_s) else _IN_TIME), due_by_s

    def _next_in_reference(self, pool: str, now_s: float, own: Collection[str]) -> list[Job]:
        """Jobs beyond a pool's lane that wait and that the reference has started, or is about to."""
        found: list[Job] = []
        for job in self.lanes.line(pool).waiting.values():
            if job.job_id in self.lanes.guests or job.job_id in own:
                continue
            if self.tolerance.due_by_s(job) > now_s:
                break
            found.append(job)
        return found

    def next_in_lanes(self, now_s: float, within_s: float) -> list[Job]:
        """Jobs beyond their lanes that wait and that the reference starts within so long, pool by pool."""
        self.tolerance.refresh(now_s)
        by_s = now_s + within_s
        return [job for pool in self.rank for job in self._next_in_reference(pool, by_s, self.lanes.due)]

    def look_ahead(self, now_s: float) -> LookAhead:
        """The time ahead, to which guests can be added."""
        return LookAhead(self.ahead(now_s), self.capacity_gpus)

    def beyond_lanes(self) -> list[Job]:
        """Jobs that wait and are not due, pool by pool in the order of their lines."""
        lines = (self.lanes.line(pool).waiting.values() for pool in self.rank)
        return [job for line in lines for job in line if not self.runs(job)]

    def situation(self, now_s: float, waiting: Sequence[Job]) -> Situation:
        """What fresh draws start from; `waiting` are the jobs beyond their lanes, in the order drawn."""
        lives = [
            waiting_lives(jobs, self._entries, self.fresh, self.rank)
            for jobs in (list(self.lanes.due.values()), waiting)
        ]
        return situation_of(
            self.ahead(now_s),
            self._book.lives(now_s),
            (lives[0], lives[1]),
            self._demand.fresh(now_s),
            self.capacity_gpus,
        )

    def ahead(self, now_s: float) -> Ahead:
        """What is known of the time ahead. Jobs that are due count as own: they start as soon as can be."""
        alive = self._book.alive(now_s)
        guest, own, requeueable = alive.mean.reshape(3, len(self.rank), -1)
        backlog, num_waiting = self._backlog.copy(), self._num_waiting.copy()
        for job in self.lanes.due.values():
            rank, width = self.rank[job.pool], job.num_gpus * self.fresh[job.job_id]
            own[rank] += width
            backlog[rank] -= width
            num_waiting[rank] -= 1
        peaks = self._demand.peaks(now_s)
        return Ahead(
            own=own,
            guest=guest,
            requeueable=requeueable,
            backlog=backlog,
            alive=alive,
            fates=self._fates,
            peaks=peaks,
            arrivals=self._demand.arrivals(now_s),
            quota_gpus=self._quota,
            stakes=self._stakes(now_s, num_waiting),
            bursts=self._bursts(now_s),
            riding=self._book.riding(now_s).reshape(3, len(self.rank), -1)[_OWN],
            floor=self._usual.floor(peaks.shape[0]),
        )

    def _bursts(self, now_s: float) -> Bursts:
        found = self._demand.bursts(now_s)
        pool, gpus, jobs, per_s = np.array(found, dtype=float).reshape(-1, 4).T
        chance = per_s[:, None] * self._lengths_s
        return Bursts(pool.astype(np.intp), gpus, jobs, chance * self._settings.burst_weight)

    def _stakes(self, now_s: float, num_waiting: FloatArray) -> Stakes:
        """Pools with few jobs weigh more: a job slowed is a larger share of theirs."""
        self.tolerance.refresh(now_s)
        slack_s = np.stack([self._head_slack_s(now_s), self.tolerance.tail_slack_s(now_s)])
        late_s = np.maximum(slack_s[:, :, None] - self._begins_s, 0.0)
        urgency = np.exp(-late_s / self._settings.patience_s)
        counts = self._num_submitted + _PRIOR_JOBS
        weight = np.clip(counts.mean() / counts, 1.0, _MOST_WEIGHT)
        return Stakes(urgency[0], urgency[1], num_waiting, weight)

    def _head_slack_s(self, now_s: float) -> FloatArray:
        """(pools,) tolerance of the first job of each pool that waits; 0 where none does."""
        slack_s = np.zeros(len(self.rank))
        for pool, rank in self.rank.items():
            for job in self.lanes.line(pool).waiting.values():
                if job.job_id not in self.lanes.guests:
                    slack_s[rank] = max(0.0, self.tolerance.due_by_s(job) - now_s)
                    break
        return slack_s

    def _least_work_s(self, job: Job) -> float:
        return max(self._low_s.get(job.job_id, 0.0), self._progress.done_s(job))

    def _forecast_rest(self, job: Job) -> None:
        """What is left of a job that has kept a part of its work."""
        kept_s, job_id = self._progress.kept_s(job), job.job_id
        self._high_s[job_id] = left_quantile_s(self._lives, job, _HIGH_LEVEL, kept_s)
        loads_s = reload_s(job, kept_s)
        self.fresh[job_id] = left_alive(self._entries[job_id].curve, kept_s, self._begins_s, loads_s)
        self.keys[job_id] = (left_quantile_s(self._lives, job, 0.5, kept_s), job.submit_s)

    def _waits(self, job: Job, sign: int) -> None:
        rank = self.rank[job.pool]
        self._num_waiting[rank] += sign
        self._backlog[rank] += sign * job.num_gpus * self.fresh[job.job_id]

    def _stops(self, job: Job, now_s: float) -> None:
        for one in self.riders.party(job):
            self.alone(one, now_s)
        self._book.remove(job.job_id)
        self._used[self.rank[job.pool]] -= job.num_gpus

    def _regroup(self, job: Job) -> None:
        """Count a running job, and the host it is on, as what they are now."""
        for one in (job, self.riders.host_of(job)):
            if one is not None:
                self._book.move(one.job_id, self._group(one, self._kind(one)))

    def _kind(self, job: Job) -> int:
        """A guest can be counted on to go back only together with its riders: they would keep its GPUs."""
        if job.job_id not in self.lanes.guests:
            return _OWN
        return _REQUEUEABLE if self._are_guests(job, self.may_send_back) else _GUEST

    def _are_guests(self, host: Job, can_go: Callable[[Job], bool]) -> bool:
        """Whether a job and its riders are guests that can go."""
        return all(one.job_id in self.lanes.guests and can_go(one) for one in self.riders.party(host))

    def _group(self, job: Job, kind: int) -> int:
        return kind * len(self.rank) + self.rank[job.pool]

    def _victims_for(self, missing_gpus: int, now_s: float) -> list[Job]:
        """Requeueable guests that give up `missing_gpus`, or all; none that could be spared.

        A rider frees nothing by itself; it goes right before its host, and where it cannot, both stay.
        """
        if missing_gpus <= 0:
            return []
        candidates = (
            job
            for job in reversed(self.lanes.guests.values())
            if job.job_id not in self.riders and self._are_guests(job, self.can_go_back)
        )
        chosen = fewest(least_lost_first(candidates, self._progress, now_s), missing_gpus)
        return [job for host in chosen for job in self.riders.party(host)]
