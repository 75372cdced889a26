"""Own lane, and lending by forecast: what may be lent now without a lane noticing later."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from domain.jobs import Job
from domain.plans import NOTHING, Placement, Plan, Start
from domain.timegrid import default_grid
from solver.explain.lending import explain_lending
from solver.explain.view import LendingTerms, LendingView
from solver.explain.weighed import Weighed
from solver.explain.words import Waiting
from solver.lender import Lender, Served
from solver.lender_settings import LenderSettings
from solver.lookahead import LookAhead
from solver.packing.rides import Ride
from solver.packing.riding import Riding
from solver.placement.room import Cells, Gang
from solver.policies.base import PolicyContext, PolicySpec
from solver.policies.pending import PendingByWidth

_REFUSALS: Final = 6
"""Candidates refused before a decision stops looking: the next ones live longer still."""
_OVERDRAWN: Final = 0.5
"""Part of what a job grants that a start may use once the budget is overdrawn: the other half pays back."""


class Anticipatory:
    """Own lane first; then early starts that are not expected to slow more jobs than the budget allows.

    Own jobs: what a lane has reached starts at once, by (submit, id) over all pools; where idle GPUs do not
    suffice, requeueable guests are sent back: first who loses least running time, which without checkpoints
    is the youngest. Where that does not suffice, the job whose reference start comes first is served first.
    While an own job has to wait, GPUs that come free are kept for it and nothing is lent.

    Lending: jobs beyond their lanes, of all pools alike, shortest forecast median first, ties by
    (submit, id); what does not fit, also by nodes where they are known, is passed over. One that must run
    to its end starts if the jobs it is expected to slow (`solver.lookahead`) are at most eps, what every job
    that is submitted grants, plus a share of what is left of the budget (`solver.budget`), which it is
    charged with; once that is overdrawn, half of eps. One that can be sent back starts if it will
    probably be done before its GPUs are wanted, or would not have to repeat much. After six refusals a
    decision stops looking.
    """

    def __init__(self, context: PolicyContext, settings: LenderSettings) -> None:
        self._settings = settings
        self._lender = Lender(context, settings)
        self._pending: PendingByWidth[tuple[float, float]] = PendingByWidth()
        self._proposed: dict[str, tuple[Job, float]] = {}
        self._in_turn: dict[str, Job] = {}
        self._nodes = context.nodes
        self._room: Cells | None = None
        self._look: LookAhead | None = None
        self._riding = Riding(context, settings, self._lender) if settings.packing else None

    def submitted(self, job: Job, now_s: float) -> None:
        """A job stands in its line, and its life is forecast."""
        self._lender.submitted(job, now_s)
        if self._riding is not None:
            self._riding.submitted()
        self._offer(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, as own or as guest."""
        self._pending.discard(job.job_id)
        self._in_turn.pop(job.job_id, None)
        _, charge = self._proposed.pop(job.job_id, (job, 0.0))
        self._lender.started(job, now_s, charge)
        if self._riding is not None:
            self._riding.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate."""
        self._lender.rate_changed(job, now_s, rate)

    def rides(self, job: Job, now_s: float, host: Job) -> None:
        """A running job is on GPUs of a running host, and takes none itself."""
        self._lender.rides(job, now_s, host)

    def alone(self, job: Job, now_s: float) -> None:
        """A rider has GPUs of its own."""
        self._lender.alone(job, now_s)

    def allowed_loss(self, now_s: float) -> Mapping[str, float]:
        """Share of its speed that a running job may lose to riders, by id; nobody may without `packing`."""
        return {} if self._riding is None else self._riding.allowed_loss(now_s)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._pending.discard(job.job_id)
        self._in_turn.pop(job.job_id, None)
        self._proposed.pop(job.job_id, None)
        self._lender.ended(job, now_s)
        if self._riding is not None:
            self._riding.stopped(job)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest waits again, at its place."""
        self._lender.sent_back(job, now_s)
        if self._riding is not None:
            self._riding.stopped(job)
        self._offer(job)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Serve the lanes, sending guests back if need be; then lend what may be lent."""
        for job in (*self._in_turn.values(), *(job for job, _ in self._proposed.values())):
            self._offer(job)
        self._proposed.clear()
        if self._riding is not None:
            self._riding.forget()
        served = self._lender.serve(now_s, idle_gpus)
        self._in_turn = {start.job.job_id: start.job for start in served.starts if start.is_guest}
        for start in served.starts:
            self._pending.discard(start.job.job_id)
        for job in self._lender.lanes.due.values():
            self._pending.discard(job.job_id)
        starts = list(served.starts)
        self._look = None
        if not served.holds and served.idle_gpus and self._pending:
            if self._nodes is not None:
                room = self._nodes.room(_plan(served, starts), now_s)
                self._room = Cells(room, self._kept(now_s))
            self._lend(served.idle_gpus, now_s)
        rides = () if served.holds else self._ride(now_s)
        starts += [Start(job, True) for job, _ in self._proposed.values()]
        return _plan(served, starts, tuple(Placement(ride.job.job_id, ride.gpus) for ride in rides))

    def waiting(self, now_s: float, idle_gpus: int) -> list[Waiting]:
        """Why each job waits, right after a decision was carried out (`solver.explain`)."""
        lender = self._lender
        left, ahead = lender.budget.left(now_s), lender.ahead(now_s)
        terms = LendingTerms(
            allowed_jobs=self._allowed(left),
            usual_jobs=self._settings.eps,
            left_jobs=left,
            finish=self._settings.finish,
            refusals=_REFUSALS,
            lends_for_good=self._settings.eps > 0.0,
        )
        return explain_lending(
            LendingView(
                now_s=now_s,
                idle_gpus=idle_gpus,
                pools=list(lender.rank),
                due=lender.lanes.due_in_order(),
                beyond=sorted(lender.beyond_lanes(), key=lambda job: (lender.keys[job.job_id], job.job_id)),
                ahead=ahead,
                look=LookAhead(ahead, lender.capacity_gpus),
                grid=default_grid(),
                fresh=lender.fresh,
                cohort_of=lender.cohort_of,
                may_send_back=lender.may_send_back,
                repeated_share=lender.repeated_share,
                has_place=lambda job: self._has_place(job, set()),
                terms=terms,
                weighed=self._weighed_at(now_s),
            )
        )

    def _weighed_at(self, _now_s: float) -> Weighed | None:
        """The plan that answered at an instant; None: candidates were looked at one by one."""
        return None

    def _lend(self, idle_gpus: int, now_s: float) -> None:
        """Propose early starts, one after another."""
        job = self._pending.best(idle_gpus)
        if job is None:
            return
        look = self._look = self._lender.look_ahead(now_s)
        allowed = self._allowed(self._lender.budget.left(now_s))
        self._lend_one_by_one(idle_gpus, lambda job: self._accept(look, job, allowed))

    def _lend_one_by_one(self, idle_gpus: int, accept: Callable[[Job], float | None]) -> None:
        """Propose those whom `accept` gives a charge, until it has refused so many."""
        refused: list[Job] = []
        passed_over: list[Job] = []
        without_place: set[int] = set()
        while idle_gpus and len(refused) < _REFUSALS:
            job = self._pending.best(idle_gpus, without_place)
            if job is None:
                break
            if not self._has_place(job, without_place):
                self._pending.discard(job.job_id)
                passed_over.append(job)
                continue
            self._pending.discard(job.job_id)
            charge = accept(job)
            if charge is None:
                refused.append(job)
            else:
                self._propose(job, charge)
                idle_gpus -= job.num_gpus
        for job in refused + passed_over:
            self._offer(job)

    def _ride(self, now_s: float) -> Sequence[Ride]:
        """Propose early starts of jobs on GPUs of others, where that is set."""
        if self._riding is None or not self._pending:
            return ()
        allowed = self._allowed(self._lender.budget.left(now_s))
        rides = self._riding.choose(now_s, self._proposed, self._look, allowed)
        for ride in rides:
            self._pending.discard(ride.job.job_id)
            self._proposed[ride.job.job_id] = (ride.job, ride.charge)
        return rides

    def _has_place(self, job: Job, without_place: set[int]) -> bool:
        """Whether the nodes have room for a job; where one of any type has none, no other so wide has."""
        if self._room is None or self._room.fits(Gang(job.num_gpus, job.gpu_type)):
            return True
        if job.gpu_type is None:
            without_place.add(job.num_gpus)
        return False

    def _propose(self, job: Job, charge: float) -> None:
        self._proposed[job.job_id] = (job, charge)
        if self._room is not None:
            self._room.admit(Gang(job.num_gpus, job.gpu_type))

    def _kept(self, _now_s: float) -> list[Gang]:
        """Gangs for which the nodes have to have room after the guests."""
        return []

    def _allowed(self, left: float) -> float:
        """Jobs that one early start may slow, with so much left of the budget."""
        if left > 0.0:
            return self._settings.eps + self._settings.share * left
        return self._settings.eps * _OVERDRAWN

    def _accept(self, look: LookAhead, job: Job, allowed: float) -> float | None:
        """The charge of lending to a job; None if it is refused."""
        fresh = self._lender.fresh[job.job_id]
        if self._lender.may_send_back(job):
            chance = look.chance_sent_back(job.num_gpus, fresh)
            if chance * self._lender.repeated_share(job) > self._settings.finish:
                return None
            look.add_requeueable(job.num_gpus, fresh)
            return 0.0
        trial = look.try_guest(self._lender.rank[job.pool], job.num_gpus, fresh, self._lender.cohort_of(job))
        if self._settings.eps == 0.0 or trial.charge > allowed:
            return None
        look.add(trial)
        return trial.charge

    def _offer(self, job: Job) -> None:
        self._pending.add(job, self._lender.keys[job.job_id])


def _plan(served: Served, starts: list[Start], placements: tuple[Placement, ...] = ()) -> Plan:
    if not (starts or served.victims or served.converted or served.holds):
        return NOTHING
    return Plan(
        send_backs=tuple(served.victims),
        conversions=tuple(served.converted),
        starts=tuple(starts),
        holds=tuple(served.holds),
        placements=placements,
        late=tuple(served.late),
    )


SPEC = PolicySpec(
    build=Anticipatory,
    settings=LenderSettings,
    uses_lives=True,
    uses_demand=True,
    may_send_back=True,
    has_own_lanes=True,
    serves_by_reference=True,
    lives="hazard",
    arrivals="corrected",
    tick_s=300.0,
)
PERFECT_SPEC = replace(SPEC, is_clairvoyant=True)
