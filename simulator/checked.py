"""Every plan of a replay before the independent checker, before it is carried out."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from domain.cluster import Gpu, Node
from domain.errors import PlanError
from domain.interference import PairRates
from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Plan
from simulator.engine import PlanCheck
from simulator.state import ClusterState
from solver.check_plan import check_plan
from solver.plan_rules import Hosts, Known, Places, PlanOptions, PlanState, Standing, state_of
from solver.policies.base import PolicySpec


class CheckedPlans(PlanCheck):
    """Refuses plans that break a rule; the engine calls it with each plan, and tells it who comes and ends.

    It keeps its own books of who waits and who runs as what, from these facts and the plans it let pass.

    Args:
        quotas: GPUs of each pool.
        options: what the policy owes.
        nodes: hosts; empty where only counts are planned.
        policy: whose plans they are, to say so.
        may_share: whether a job has consented to share its GPUs; nobody has where it is not given.
        allowed_loss: what of its speed each job may lose at an instant (`PlanState.allowed_loss`); asked of
            plans that place jobs on GPUs of others. None: nobody may lose any.
    """

    def __init__(
        self,
        quotas: Mapping[str, int],
        options: PlanOptions,
        nodes: tuple[Node, ...] = (),
        policy: str = "the policy",
        *,
        may_share: Callable[[Job], bool] | None = None,
        allowed_loss: Callable[[float], Mapping[str, float]] | None = None,
    ) -> None:
        self._policy = policy
        self._quotas = quotas
        self._options = options
        self._nodes = nodes
        self._known: dict[str, Known] = {}
        self._lines: dict[str, dict[str, Known]] = {}
        self._own_gpus: Counter[str] = Counter()
        self._places = Places(nodes)
        self._may_share = may_share
        self._allowed_loss = allowed_loss

    def submitted(self, job: Job, now_s: float) -> None:  # noqa: ARG002
        """A job stands at the tail of its line: jobs are told of by (submit, id)."""
        self._stand(self._known_as(job))

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:  # noqa: ARG002
        """A job that ran has ended; how long it ran means nothing here."""
        one = self._known.pop(job.job_id)
        self._places.leave(job.job_id, one.gpus)
        self._leave(one)

    def state(self, now_s: float, idle_gpus: int) -> PlanState:
        """What a plan of this instant is judged against; to be looked at before anything else is told."""
        return PlanState(
            now_s,
            idle_gpus,
            self._quotas,
            self._known,
            self._lines,
            self._own_gpus,
            self._nodes,
            self._places,
        )

    def __call__(self, plan: Plan, idle_gpus: int, now_s: float) -> None:
        """Judge one plan, and take it as carried out if it breaks no rule. O(what it names and the lanes).

        Raises:
            PlanError: with every broken rule.
        """
        if plan == NOTHING:
            return
        state = self.state(now_s, idle_gpus)
        if self._allowed_loss is not None and self._joins(plan):
            state = replace(state, allowed_loss=self._allowed_loss(now_s))
        faults = check_plan(state, plan, self._options)
        if faults:
            listed = "; ".join(map(str, faults))
            raise PlanError(f"the plan of {self._policy} at {now_s} s breaks {len(faults)} rule(s): {listed}")
        self._carry_out(plan)

    def _joins(self, plan: Plan) -> bool:
        """Whether a plan places a job on a GPU that somebody has."""
        workers = self._places.workers
        return any((gpu.node, gpu.index) in workers for one in plan.placements for gpu in one.gpus)

    def _carry_out(self, plan: Plan) -> None:
        for job in (*plan.send_backs, *plan.suspends):
            self._stop(job)
        for job in plan.conversions:
            self._stand(self._known_as(job, Standing.OWN, self._known[job.job_id].gpus))
        gpus = {placement.job_id: placement.gpus for placement in plan.placements}
        for job, is_guest in plan.starts:
            standing = Standing.GUEST if is_guest else Standing.OWN
            self._stand(self._known_as(job, standing, gpus.get(job.job_id, ())))
            self._places.enter(job.job_id, gpus.get(job.job_id, ()))

    def _known_as(self, job: Job, standing: Standing = Standing.WAITING, gpus: tuple[Gpu, ...] = ()) -> Known:
        return Known(job, standing, gpus, self._may_share is not None and self._may_share(job))

    def _stop(self, job: Job) -> None:
        """A job that runs waits again; an own one is put back at its place in line."""
        before = self._known[job.job_id]
        self._places.leave(job.job_id, before.gpus)
        if before.standing is Standing.OWN:
            self._leave(before)
        self._stand(self._known_as(job))
        if before.standing is Standing.OWN:
            line = self._lines[job.pool].values()
            in_order = sorted(line, key=lambda one: submit_order(one.job))
            self._lines[job.pool] = {one.job.job_id: one for one in in_order}

    def _stand(self, one: Known) -> None:
        """Enter what a job does; who waits or is a guest keeps its place in line."""
        job = one.job
        if one.standing is Standing.OWN:
            self._leave(self._known[job.job_id])
            self._own_gpus[job.pool] += job.num_gpus
        else:
            self._lines.setdefault(job.pool, {})[job.job_id] = one
        self._known[job.job_id] = one

    def _leave(self, one: Known) -> None:
        if one.standing is Standing.OWN:
            self._own_gpus[one.job.pool] -= one.job.num_gpus
        else:
            del self._lines[one.job.pool][one.job.job_id]


def options_of(spec: PolicySpec, settings: Any, rates: PairRates | None = None) -> PlanOptions:
    """What a policy owes, from its registration and its settings in force.

    One that packs may make everybody share; one that lends with `packing` on, only whom that leaves in time.

    Args:
        spec: its registration.
        settings: those in force.
        rates: of pairs, where jobs may share GPUs; None: whether they fit is not judged, and own jobs may
            lose nothing.
    """
    return PlanOptions(
        requeueable_share=getattr(settings, "requeueable", 0.0),
        may_send_back=spec.may_send_back,
        has_own_lanes=spec.has_own_lanes,
        converts=spec.converts,
        serves_by_reference=spec.serves_by_reference,
        frees_at_once=getattr(settings, "reclaim_s", 0.0) <= 0.0,
        packs=spec.packs or getattr(settings, "packing", False),
        hosts=Hosts.EVERYONE if spec.packs else Hosts.CONSENTING,
        rates=rates,
        redistributes=getattr(settings, "liss", False),
        may_suspend=spec.suspends,
    )


def plan_state(
    state: ClusterState, quotas: Mapping[str, int], now_s: float, nodes: tuple[Node, ...] = ()
) -> PlanState:
    """The cluster of a replay as the checker looks at it."""
    line = [Known(job) for job in state.pending.values()]
    for attempt in state.running.values():
        is_own = attempt.own_from_s is not None
        line.append(Known(attempt.job, Standing.OWN if is_own else Standing.GUEST, attempt.gpus))
    line.sort(key=lambda known: submit_order(known.job))
    return state_of(now_s, state.idle_gpus, quotas, line, nodes)
