"""Own lane, and a lending plan: which early starts together are worth most within the budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from domain.jobs import Job
from domain.plans import Plan
from solver.explain.weighed import Weighed
from solver.lender_settings import LenderSettings
from solver.lending.classes import Candidates, JobClasses, group
from solver.lending.curves import MOST_BUDGETS, FloatArray
from solver.lending.decomposed import DecomposedSolver
from solver.lending.drawn import Draws, passed_draws
from solver.lending.log import PlanLog
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import IntArray, LendingPlan, LendingProblem, Placeability, placeability
from solver.lending.rides import RideRows, best_rides, ride_rows
from solver.lending.send_backs import by_levels, level_of
from solver.lending.solve import Limits
from solver.lending.standing import StandingPlan, Yardstick
from solver.lending.value import FAIRNESS, PoolsNow, PoolTerms, ValueSettings, job_values
from solver.lending.verify import Situation, Verified, verify
from solver.lookahead import Guests, LookAhead
from solver.packing.rides import Ride
from solver.placement.room import Gang
from solver.policies import anticipatory
from solver.policies.anticipatory import Anticipatory
from solver.policies.base import PolicyContext

_LIMITS: Final = Limits(nodes=500, wall_s=2.0)
_REPLAY_LIMITS: Final = replace(_LIMITS, wall_s=120.0)
"""The same, but a replay on a busy machine is to be the same as on an idle one."""
_PART_OF_BUDGET: Final = 0.1
"""Of what is left of the budget, the part one plan may use: there will be others."""
_LEAST_CANDIDATES: Final = 2
_NEW_RIDERS: Final = 1
"""Of one host, by one plan: what a host loses to a rider, and may lose, is told of that rider alone."""
_WHOLE_UP_TO: Final = 8_000
"""Classes that are solved whole: up to some 50,000 GPUs that is faster than by groups of pools."""


class Between(StrEnum):
    """How single jobs are answered between two plans."""

    GREEDY = "greedy"
    """Each by the exact risk, as in `anticipatory`."""
    PLAN = "plan"
    """By what the plan that stands has left of its budget, at its prices."""


@dataclass(frozen=True, slots=True)
class PlannedSettings(LenderSettings):
    """Settings of `planned`: those of `anticipatory`, and these.

    Attributes:
        fairness: how pools are treated, see `solver.lending.value`: `none`, `lowest-use`, `maxmin`, `beta`.
        plan_s: a plan is made anew after so long.
        between: how single jobs are answered in between.
        hold_s: where nodes are known, they keep room for the widest gang of each pool that the reference
            starts within so long.
    """

    fairness: str = "lowest-use"
    plan_s: float = 300.0
    between: Between = Between.GREEDY
    hold_s: float = 900.0

    def __post_init__(self) -> None:
        super(PlannedSettings, self).__post_init__()
        if self.fairness not in FAIRNESS:
            raise ValueError(f"fairness is {self.fairness!r}, must be one of {', '.join(FAIRNESS)}")
        for name in ("plan_s", "hold_s"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, must be at least 0 and finite")


class Planned(Anticipatory):
    """`anticipatory` with a plan in place of one candidate after another.

    Every five minutes the jobs that wait and would fit are put into classes, the risk of lending becomes
    lines, and a mixed integer program chooses what to start (`solver.lending`): most value, at a price of
    risk and within a part of the budget. A job is worth more the longer it has waited for its length and the
    less its pool uses of its quota; the price is such that a job of average worth may slow as many as in
    `anticipatory`. Of a class, the jobs of most value start, ties by (submit, id). The exact risk of the
    choice is computed guest by guest and has to fit, and so have fresh draws. In between, single jobs are
    answered greedily from the same budget, or from what is left of the plan (`between`).

    Where nodes are known, the program has rows that say which gangs can be placed at once beside what is
    kept for the next ones in line, so a plan that is carried out as a whole leaves nobody without nodes.

    Where jobs may ride with others (`ride_options`), the same program chooses who rides: a ride is one more
    way to start a job early, which takes no idle GPUs. So a plan is then made also while none is idle.

    Attributes:
        last_plan: the last lending plan that was made.
        ride_options: asked at the instant of a plan, once lanes are served, for the rides that are possible
            then, priced; None where nobody rides.
    """

    ride_options: Callable[[float], Sequence[Ride]] | None = None

    def __init__(self, context: PolicyContext, settings: PlannedSettings) -> None:
        super().__init__(context, settings)
        if self._riding is not None:
            self.ride_options = self._riding.all_priced
        self._fairness = FAIRNESS[settings.fairness]
        self._plan_s = settings.plan_s
        self._asks_plan = settings.between is Between.PLAN
        self._standing: StandingPlan | None = None
        self._hold_s = settings.hold_s
        self._quota = np.array(list(context.quotas.values()), dtype=float)
        is_live = context.is_live
        whole = HighsSolver(_LIMITS if is_live else _REPLAY_LIMITS, is_isolated=is_live)
        self._solver = DecomposedSolver(whole, whole_up_to=_WHOLE_UP_TO)
        self._log = PlanLog()
        self._jobs: dict[str, Job] = {}
        self._kinds: dict[str | None, int] = {}
        self._planned_s = -np.inf
        self._full_planned_s = -np.inf
        self._rides: list[Ride] | None = None
        self._weighed: Weighed | None = None
        self.last_plan: LendingPlan | None = None
        self._behind: LendingPlan | None = None

    def submitted(self, job: Job, now_s: float) -> None:
        """A job stands in its line, and its life is forecast."""
        super().submitted(job, now_s)
        self._jobs[job.job_id] = job
        self._kinds.setdefault(job.gpu_type, len(self._kinds))

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, as own or as guest."""
        super().started(job, now_s)
        self._jobs.pop(job.job_id, None)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        super().ended(job, now_s)
        self._jobs.pop(job.job_id, None)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest waits again, at its place."""
        super().sent_back(job, now_s)
        self._jobs[job.job_id] = job

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Serve the lanes, sending guests back if need be; then lend what may be lent."""
        self._behind = None
        self._rides = None
        return self._without_lost_hosts(super().decide(now_s, idle_gpus))

    def plan_behind(self) -> Mapping[str, Any] | None:
        """What is known of the plan behind the last decision; None if it was answered greedily."""
        return None if self._behind is None else self._behind.said()

    def _lend(self, idle_gpus: int, now_s: float) -> None:
        # asked again at the instant of a plan, it plans again: plans are proposals
        self._weighed = None
        if self._is_due(self._planned_s, now_s) and self._plan_all(idle_gpus, now_s):
            self._planned_s = now_s
        elif self._asks_plan and self._standing is not None:
            self._lend_by_plan(self._standing, idle_gpus, now_s)
        else:
            super()._lend(idle_gpus, now_s)

    def _ride(self, now_s: float) -> Sequence[Ride]:
        """Those that the plan of this instant chose; in between, as in `anticipatory`."""
        is_asked = self.ride_options is not None and self._rides is None and not self._proposed
        if is_asked and self._is_due(max(self._planned_s, self._full_planned_s), now_s):
            # no GPU is idle, or nobody fits: that is no plan of the idle GPUs that there will be
            self._weighed = None
            self._full_planned_s = now_s
            self._plan_all(0, now_s)
        return super()._ride(now_s) if self._rides is None else self._rides

    def _is_due(self, last_s: float, now_s: float) -> bool:
        return now_s == last_s or now_s >= last_s + self._plan_s

    def _plan_all(self, idle_gpus: int, now_s: float) -> bool:
        """Weigh all who could start or ride, if they are enough to be weighed."""
        waiting = {job_id: job for job_id, job in self._jobs.items() if job_id not in self._lender.lanes.due}
        asked = self.ride_options(now_s) if waiting and self.ride_options is not None else ()
        options = best_rides([ride for ride in asked if ride.job.job_id in waiting])
        riders = {ride.job.job_id for ride in options}
        fitting = [job for job in waiting.values() if job.num_gpus <= idle_gpus or job.job_id in riders]
        if len(fitting) < _LEAST_CANDIDATES and not options:
            return False
        self._plan(fitting, options, idle_gpus, now_s)
        return True

    def _without_lost_hosts(self, plan: Plan) -> Plan:
        """Nobody rides with a guest that is sent back."""
        gone = {job.job_id for job in plan.send_backs}
        lost = {ride.job.job_id for ride in self._rides or () if ride.host.job_id in gone}
        if not lost:
            return plan
        for job_id in sorted(lost):
            self._offer(self._proposed.pop(job_id)[0])
        return replace(
            plan,
            starts=tuple(start for start in plan.starts if start.job.job_id not in lost),
            placements=tuple(place for place in plan.placements if place.job_id not in lost),
        )

    def _lend_by_plan(self, standing: StandingPlan, idle_gpus: int, now_s: float) -> None:
        """Answer single jobs from the plan that stands."""
        lender = self._lender
        standing.refresh(lender.lanes.guests, idle_gpus)
        self._lend_one_by_one(
            idle_gpus,
            lambda job: standing.charge_of(
                job,
                now_s,
                rank=lender.rank[job.pool],
                median_s=lender.keys[job.job_id][0],
                fresh=lender.fresh[job.job_id],
                repeats=lender.repeated_share(job) if lender.may_send_back(job) else None,
            ),
        )

    def _plan(self, fitting: list[Job], options: list[Ride], idle_gpus: int, now_s: float) -> None:
        look = self._look = self._lender.look_ahead(now_s)
        left = self._lender.budget.left(now_s)
        candidates = self._candidates(fitting, look, now_s)
        mean_value = max(float(candidates.value.mean()), 1e-12)
        candidates = replace(candidates, value=candidates.value / mean_value)
        classes = group(candidates)
        terms = self._pool_terms(classes, idle_gpus)
        problem = self._problem(classes, terms, look, idle_gpus, left)
        problem = replace(problem, rides=self._ride_rows(options, classes, terms.factor / mean_value))

        def chosen(choice: IntArray) -> list[Job]:
            starts = (self._jobs[job_id] for job_id in problem.started(classes.members, choice))
            return [job for job in starts if not self._lender.may_send_back(job)]

        plan = plan_lending(
            problem, self._solver, lambda choice: self._exact_risk(chosen(choice), look), classes.members
        )
        plan = passed_draws(problem, plan, self._draws(chosen, now_s), classes.members)
        self.last_plan = self._behind = plan
        self._log.add(plan)
        if self._asks_plan:
            yardstick = Yardstick(mean_value, terms.factor, look.net_of_backlog())
            self._standing = StandingPlan(problem, plan, classes.members, yardstick)
        self._weighed = Weighed(
            now_s=now_s,
            jobs={job.job_id: job for job in fitting},
            candidates=candidates,
            classes=classes,
            factor=terms.factor,
            problem=problem,
            plan=plan,
            look=look.copy(),
            solver=self._solver,
            exact_risk=self._risk_of,
        )
        self._rides = [options[number] for number in plan.rides]
        if self._riding is not None:
            self._riding.propose(self._rides)
        for ride in self._rides:
            self._pending.discard(ride.job.job_id)
            self._proposed[ride.job.job_id] = (ride.job, ride.charge)
        for job_id in plan.job_ids:
            job = self._jobs[job_id]
            # rows are exact for GPUs of one type only
            if self._room is None or self._room.fits(_gang(job)):
                self._pending.discard(job_id)
                self._propose(job, self._charge(look, job))

    def notes(self) -> Mapping[str, Any]:
        """What became of the plans."""
        return {"plans": self._log.as_report()}

    def _kept(self, now_s: float) -> list[Gang]:
        """Of each pool the widest gang about to start in its lane; single GPUs are only counted."""
        widest: dict[str, Job] = {}
        for job in self._lender.next_in_lanes(now_s, self._hold_s):
            if job.num_gpus > (widest[job.pool].num_gpus if job.pool in widest else 1):
                widest[job.pool] = job
        return [_gang(job) for job in widest.values()]

    def _candidates(self, jobs: list[Job], look: LookAhead, now_s: float) -> Candidates:
        lender = self._lender
        pool = np.array([lender.rank[job.pool] for job in jobs], dtype=np.int64)
        width = np.array([job.num_gpus for job in jobs], dtype=np.int64)
        fresh = np.array([lender.fresh[job.job_id] for job in jobs])
        submit_s = np.array([job.submit_s for job in jobs])
        median_s = np.array([lender.keys[job.job_id][0] for job in jobs])
        is_requeueable = np.array([lender.may_send_back(job) for job in jobs])
        value = job_values(now_s - submit_s, median_s, width.astype(float), ValueSettings())
        return Candidates(
            job_ids=tuple(job.job_id for job in jobs),
            submit_s=submit_s,
            pool=pool,
            width_gpus=width,
            median_s=median_s,
            tail_s=np.array([lender.tail_s(job) for job in jobs]),
            value=value,
            alive_gpus=width[:, None] * fresh * look.net_of_backlog()[pool],
            is_requeueable=is_requeueable,
            repeats=level_of(np.array([lender.repeated_share(job) for job in jobs])),
            kind=None if self._room is None else np.array([self._kinds[job.gpu_type] for job in jobs]),
        )

    def _weighed_at(self, now_s: float) -> Weighed | None:
        weighed = self._weighed
        return weighed if weighed is not None and weighed.now_s == now_s else None

    def _pool_terms(self, classes: JobClasses, idle_gpus: int) -> PoolTerms:
        asked = np.bincount(
            classes.pool, weights=classes.count * classes.width_gpus, minlength=self._quota.size
        ).astype(np.float64)
        used = self._lender.used_gpus()
        return self._fairness(
            PoolsNow(self._quota, used, asked, float(idle_gpus)),
            ValueSettings(),
            float(np.median(classes.value)),
        )

    def _problem(
        self, classes: JobClasses, terms: PoolTerms, look: LookAhead, idle_gpus: int, left: float
    ) -> LendingProblem:
        allowed = self._allowed(left)
        budget = 0.0 if self._settings.eps == 0.0 else max(_PART_OF_BUDGET * left, allowed)
        return classes.problem(
            idle_gpus=idle_gpus,
            risk=look.risk_lines(idle_gpus, MOST_BUDGETS * budget),
            budget_jobs=budget,
            factor=terms.factor,
            price=1.0 / allowed if allowed > 0.0 else 0.0,
            # where nobody can be sent back, nobody will be
            send_back=by_levels(look.send_back_lines(idle_gpus), classes.repeats, classes.is_requeueable)
            if classes.is_requeueable.any()
            else None,
            send_back_price=1.0 / self._settings.finish if self._settings.finish > 0.0 else 1e6,
            utility=terms.utility,
            placeability=self._placeability(classes),
        )

    def _placeability(self, classes: JobClasses) -> Placeability | None:
        if self._room is None:
            return None
        types = list(self._kinds)
        gangs = zip(classes.width_gpus.tolist(), classes.kind.tolist(), strict=True)
        return placeability(self._room.rows([Gang(width, types[kind]) for width, kind in gangs]))

    def _ride_rows(self, options: Sequence[Ride], classes: JobClasses, factor: FloatArray) -> RideRows | None:
        """Rides in the values of the plan; `factor` (pools,) is on the value of each pool's jobs."""
        value = [ride.value * factor[self._lender.rank[ride.job.pool]] for ride in options]
        room = dict.fromkeys((ride.host.job_id for ride in options), _NEW_RIDERS)
        return ride_rows(options, classes.members, np.array(value), room)

    def _exact_risk(self, lent: Sequence[Job], look: LookAhead) -> float:
        return self._risk_of(lent, look) if lent else 0.0

    def _risk_of(self, lent: Sequence[Job], look: LookAhead) -> float:
        """Jobs slowed if some start that must run to their end."""
        lender = self._lender
        guests = Guests(
            pool=np.array([lender.rank[job.pool] for job in lent]),
            width=np.array([job.num_gpus for job in lent]),
            fresh=np.stack([lender.fresh[job.job_id] for job in lent]),
            cohort=np.array([lender.cohort_of(job) for job in lent]),
        )
        return look.charge_of(guests)

    def _draws(self, chosen_by: Callable[[IntArray], list[Job]], now_s: float) -> Draws:
        """What fresh draws of this instant say of a choice; made when first asked for."""
        made: list[tuple[Situation, list[Job]]] = []

        def draws(choice: IntArray) -> Verified:
            if not made:
                waiting = self._lender.beyond_lanes()
                made.append((self._lender.situation(now_s, waiting), waiting))
            situation, waiting = made[0]
            chosen = {job.job_id for job in chosen_by(choice)}
            starts = np.array([job.job_id in chosen for job in waiting], dtype=np.bool_)
            return verify(situation, starts, round(now_s) % 2**32)

        return draws

    def _charge(self, look: LookAhead, job: Job) -> float:
        """Let a job start in the look ahead; the jobs it is expected to slow."""
        fresh = self._lender.fresh[job.job_id]
        if self._lender.may_send_back(job):
            look.add_requeueable(job.num_gpus, fresh)
            return 0.0
        trial = look.try_guest(self._lender.rank[job.pool], job.num_gpus, fresh, self._lender.cohort_of(job))
        look.add(trial)
        return trial.charge


def _gang(job: Job) -> Gang:
    return Gang(job.num_gpus, job.gpu_type)


SPEC = replace(anticipatory.SPEC, build=Planned, settings=PlannedSettings)
