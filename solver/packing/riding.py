"""The riding half of a policy that lends: who could host whom now, at which risk, and who does.

It goes by the books of the policy (`solver.lender.Lender`) and keeps only where jobs run.
"""

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.cluster import Gpu
from domain.errors import SettingError
from domain.jobs import Job
from domain.packing import MAX_SET_JOBS
from domain.timegrid import default_grid
from solver.lender import Lender
from solver.lender_settings import LenderSettings
from solver.lending.value import ValueSettings, job_values
from solver.lives import alive_given_age
from solver.lookahead import Guests, LookAhead
from solver.packing.books import Rest
from solver.packing.candidates import PairRule
from solver.packing.ride_words import HostNow, OnHost, Ride, RideRates, RideTerms, WaitingNow
from solver.packing.rides import choose_rides, ride_options
from solver.policies.base import PolicyContext
from solver.progress import left_quantile_s

FloatArray = NDArray[np.float64]

_HIGH_LEVEL: Final = 0.9
_LOW_LEVEL: Final = 0.1
_WORK: Final = 0.35
"""Least work per second that a ride adds, of what the rider would add alone."""
_LOOKED_AT: Final = 40
"""Waiting jobs looked at in one decision, those first that are expected to be over first."""
_LOOK_S: Final = 300.0
"""Where nobody came, started or ended, rides are looked for no more often than this."""
_REFUSALS: Final = 6


class _Left(NamedTuple):
    """Work left of a running job, given what it has done: mean, low and high quantile; seconds alone."""

    done_s: float
    mean_s: float
    head_s: float
    tail_s: float


class Riding:
    """Told every fact after the lender; asked for rides once lanes are served and guests are lent to.

    Hosts are own jobs and guests that must run to their end. A guest that may be sent back is none: its
    riders would have to go with it. Nor does a job ride that may be sent back, or that saves checkpoints:
    what it would keep of a slower attempt is not known.

    Args:
        context: what the policy is built from.
        settings: of the policy.
        lender: its books.

    Raises:
        SettingError: if there are no pairs or nodes.
    """

    def __init__(self, context: PolicyContext, settings: LenderSettings, lender: Lender) -> None:
        if context.pairs is None or context.nodes is None:
            raise SettingError("packing=on needs nodes and pairs: they say who may share a GPU with whom")
        self._lender = lender
        self._lives = context.lives
        self._nodes = context.nodes
        node_gpus: dict[str, int] = {}
        for node in context.hosts:
            node_gpus[node.gpu_type] = max(node.num_gpus, node_gpus.get(node.gpu_type, 1))
        median, lower = (
            PairRule(context.pairs, redistributes=settings.liss, level=level) for level in ("median", "lower")
        )
        self._rates = RideRates(median, lower, settings.liss)
        self._terms = RideTerms(
            sigma=settings.sigma,
            gain=settings.gain,
            work=_WORK,
            waits=settings.waits,
            only_inside=settings.eps == 0.0,
            node_gpus=node_gpus,
        )
        self._begins_s = np.array(default_grid().edges_s[:-1])
        self._running: dict[str, tuple[Job, tuple[Gpu, ...]]] = {}
        self._rest: dict[str, Rest] = {}
        self._left: dict[str, _Left] = {}
        self._proposed: dict[str, Ride] = {}
        self._has_changed = True
        self._looked_s = -np.inf

    def submitted(self) -> None:
        """A job waits."""
        self._has_changed = True

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, on GPUs of its own or as the rider that was proposed."""
        self._has_changed = True
        self._running[job.job_id] = (job, self._nodes.gpus_of(job.job_id))
        ride = self._proposed.pop(job.job_id, None)
        if ride is not None:
            self._lender.rides(job, now_s, ride.host)

    def stopped(self, job: Job) -> None:
        """A job has ended, was cancelled, or was sent back."""
        self._has_changed = True
        self._proposed.pop(job.job_id, None)
        self._running.pop(job.job_id, None)
        self._rest.pop(job.job_id, None)
        self._left.pop(job.job_id, None)

    def forget(self) -> None:
        """What was proposed and not carried out is over."""
        self._proposed.clear()

    def choose(
        self, now_s: float, without: Collection[str], look: LookAhead | None, allowed: float
    ) -> list[Ride]:
        """Rides to propose now.

        Args:
            now_s: the instant.
            without: waiting jobs that start anyhow.
            look: the time ahead with what starts anyhow; None: to be looked up if it is needed.
            allowed: jobs that one start may slow.
        """
        options = self.options(now_s, without)
        if not options:
            return []
        if self._terms.only_inside:
            chosen = choose_rides(options, lambda _: 0.0, _REFUSALS)
        else:
            ahead = self._lender.look_ahead(now_s) if look is None else look
            chosen = choose_rides(options, lambda ride: self._accept(ride, ahead, now_s, allowed), _REFUSALS)
        self.propose(chosen)
        return chosen

    def propose(self, rides: Sequence[Ride]) -> None:
        """These are proposed, and no others: a plan has chosen them."""
        self._proposed = {ride.job.job_id: ride for ride in rides}

    def all_priced(self, now_s: float) -> list[Ride]:
        """Rides that make nobody late and pay, each with the jobs that it alone is expected to slow."""
        options = self.options(now_s, ())
        if not options or self._terms.only_inside:
            return options
        look = self._lender.look_ahead(now_s)
        return [self.priced(ride, look, now_s) for ride in options]

    def options(self, now_s: float, without: Collection[str]) -> list[Ride]:
        """Rides that make nobody late and pay, worthiest first, not priced.

        None where nobody came, started or ended since the last look, unless that is a while ago.
        """
        if not self._has_changed and self._looked_s < now_s < self._looked_s + _LOOK_S:
            return []
        self._has_changed, self._looked_s = False, now_s
        self._lender.tolerance.refresh(now_s)
        hosts = self._hosts(now_s)
        if not hosts:
            return []
        widest = max(len(host.free) for host in hosts)
        return ride_options(self._waiting(now_s, without, widest), hosts, self._rates, self._terms)

    def priced(self, ride: Ride, look: LookAhead, now_s: float) -> Ride:
        """A ride with the jobs that it is expected to slow."""
        return replace(ride, charge=look.charge_of(self._held(ride, now_s)))

    def allowed_loss(self, now_s: float) -> dict[str, float]:
        """Most of its speed that a running job may lose to riders: `sigma`, as long as it has time to lose.

        How long it may do so is in `ride_options`; who ends late the judge of the whole schedule tells.
        """
        self._lender.tolerance.refresh(now_s)
        jobs = (job for job, _ in self._running.values())
        return {job.job_id: self._terms.sigma for job in jobs if self._slack_s(job, now_s) > 0.0}

    def _accept(self, ride: Ride, look: LookAhead, now_s: float, allowed: float) -> float | None:
        held = self._held(ride, now_s)
        charge = look.charge_of(held)
        if charge > allowed:
            return None
        for k in range(len(held.pool)):
            pool, width, cohort = int(held.pool[k]), int(held.width[k]), int(held.cohort[k])
            look.add(look.try_guest(pool, width, held.fresh[k], cohort))
        return charge

    def _held(self, ride: Ride, now_s: float) -> Guests:
        """GPUs held longer than without a ride: the rider's beyond its host's end, the host's all of them."""
        lender, job, host = self._lender, ride.job, ride.host
        rides = self._alive(job, 0.0, ride.rate)
        done_s = self._done_s(host, now_s)
        before, after = (self._alive(host, done_s, rate) for rate in (ride.host_before, ride.host_rate))
        return Guests(
            pool=np.array([lender.rank[job.pool], lender.rank[host.pool]], dtype=np.int64),
            width=np.array([job.num_gpus, host.num_gpus], dtype=np.int64),
            fresh=np.stack([rides * (1.0 - after), np.maximum(after - before, 0.0)]),
            cohort=np.array([lender.cohort_of(job), lender.cohort_of(host)], dtype=np.int64),
        )

    def _alive(self, job: Job, done_s: float, rate: float) -> FloatArray:
        """(cells,) chance that a job runs at the beginning of each cell, at a rate."""
        curve, age_s = self._lender.curve_of(job)[None, :], np.array([[done_s]])
        return np.asarray(alive_given_age(curve, age_s, rate * self._begins_s[None, :])[0])

    def _waiting(self, now_s: float, without: Collection[str], widest: int) -> list[WaitingNow]:
        lender = self._lender
        fitting = (
            job
            for job in lender.beyond_lanes()
            if job.num_gpus <= widest
            and job.job_id not in without
            and job.checkpoint_s is None
            and not lender.can_go_back(job)
        )
        first = heapq.nsmallest(_LOOKED_AT, fitting, key=lambda job: (lender.keys[job.job_id], job.job_id))
        waited_s = [now_s - job.submit_s for job in first]
        values = self._values(waited_s, [lender.keys[job.job_id][0] for job in first], first)
        return [
            WaitingNow(
                job=job,
                slack_s=lender.tolerance.due_by_s(job) - now_s,
                waited_s=waited,
                left_s=self._rest_of(job).mean_s(0.0),
                tail_s=max(lender.tail_s(job), 1.0),
                value=value,
            )
            for job, waited, value in zip(first, waited_s, values, strict=True)
        ]

    def _hosts(self, now_s: float) -> list[HostNow]:
        """Running jobs that have GPUs that nobody shares, and time to lose."""
        lender, riders = self._lender, self._lender.riders
        found: list[tuple[Job, tuple[Gpu, ...], tuple[OnHost, ...], float]] = []
        for job, gpus in self._running.values():
            if job.job_id in riders or (job.job_id in lender.lanes.guests and lender.can_go_back(job)):
                continue
            here = riders.of(job)
            shared = {gpu for rider in here for gpu in self._running[rider.job_id][1]}
            free = tuple(gpu for gpu in gpus if gpu not in shared)
            slack_s = self._slack_s(job, now_s)
            if free and slack_s > 0.0 and len(here) < MAX_SET_JOBS - 1:
                found.append((job, free, tuple(self._on_host(job, one, now_s) for one in here), slack_s))
        ahead = [self._left_of(job, now_s) for job, *_ in found]
        values = self._values([0.0] * len(found), [left.mean_s for left in ahead], [one[0] for one in found])
        return [
            HostNow(
                job=job,
                free=free,
                riders=here,
                slack_s=slack_s,
                left_s=left.mean_s,
                tail_s=left.tail_s,
                head_s=left.head_s,
                value=value,
            )
            for (job, free, here, slack_s), left, value in zip(found, ahead, values, strict=True)
        ]

    def _on_host(self, host: Job, rider: Job, now_s: float) -> OnHost:
        lower = self._rates.lower.pair(rider.model, host.model)
        return OnHost(rider, self._left_of(rider, now_s).tail_s / (lower[0] if lower else 1.0))

    def _values(self, waited_s: Sequence[float], life_s: Sequence[float], jobs: Iterable[Job]) -> list[float]:
        width = np.array([job.num_gpus for job in jobs], dtype=float)
        values = job_values(np.array(waited_s), np.array(life_s), width, ValueSettings())
        return [float(value) for value in values]

    def _slack_s(self, job: Job, now_s: float) -> float:
        """Work that a running job may lose from now on and end no later than in the reference, seconds."""
        since_s = self._lender.budget.shadow.alone_since_s(job, now_s)
        return self._lender.tolerance.due_by_s(job) - since_s

    def _done_s(self, job: Job, now_s: float) -> float:
        return max(0.0, now_s - self._lender.budget.shadow.alone_since_s(job, now_s))

    def _left_of(self, job: Job, now_s: float) -> "_Left":
        """What is left of a running job, at least a second; looked up anew after five minutes of its work."""
        done_s = self._done_s(job, now_s)
        seen = self._left.get(job.job_id)
        if seen is None or not 0.0 <= done_s - seen.done_s < _LOOK_S:
            head_s, tail_s = (
                left_quantile_s(self._lives, job, level, done_s) for level in (_LOW_LEVEL, _HIGH_LEVEL)
            )
            seen = _Left(done_s, self._rest_of(job).mean_s(done_s), head_s, tail_s)
            self._left[job.job_id] = seen
        more_s = done_s - seen.done_s
        left_s = (max(1.0, left - more_s) for left in (seen.mean_s, seen.head_s, seen.tail_s))
        return _Left(done_s, *left_s)

    def _rest_of(self, job: Job) -> Rest:
        if job.job_id not in self._rest:
            self._rest[job.job_id] = Rest(self._lender.curve_of(job).tolist())
        return self._rest[job.job_id]
