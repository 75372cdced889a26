"""Every plan of a replay before the independent checker, before it is carried out."""

from collections.abc import Mapping
from typing import Any

from domain.cluster import Node
from domain.errors import PlanError
from domain.jobs import submit_order
from domain.plans import Plan
from simulator.state import ClusterState
from solver.check_plan import check_plan
from solver.plan_rules import Known, PlanOptions, PlanState, Standing, state_of
from solver.policies.base import PolicySpec


class CheckedPlans:
    """Refuses plans that break a rule; the engine calls it with each plan.

    Args:
        quotas: GPUs of each pool.
        options: what the policy owes.
        nodes: hosts; empty where only counts are planned.
    """

    def __init__(self, quotas: Mapping[str, int], options: PlanOptions, nodes: tuple[Node, ...] = ()) -> None:
        self._quotas = quotas
        self._options = options
        self._nodes = nodes

    def __call__(self, plan: Plan, state: ClusterState, now_s: float) -> None:
        """Judge one plan. O(unfinished jobs log unfinished jobs).

        Raises:
            PlanError: with every broken rule.
        """
        faults = check_plan(plan_state(state, self._quotas, now_s, self._nodes), plan, self._options)
        if faults:
            listed = "; ".join(map(str, faults))
            raise PlanError(f"the plan of {now_s} s breaks {len(faults)} rule(s): {listed}")


def options_of(spec: PolicySpec, settings: Any) -> PlanOptions:
    """What a policy owes, from its registration and its settings in force."""
    return PlanOptions(
        requeueable_share=getattr(settings, "requeueable", 0.0),
        may_send_back=spec.may_send_back,
        has_own_lanes=spec.has_own_lanes,
        converts=spec.converts,
        serves_by_reference=spec.serves_by_reference,
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
