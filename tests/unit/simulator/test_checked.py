"""The checker's own books in a replay are those of the whole state, plan by plan."""

import pytest
from hypothesis import given, settings
from support import Instance, all_knowing, instances

from domain.cluster import Node
from domain.jobs import JobOutcome
from domain.plans import Plan
from simulator.checked import CheckedPlans, options_of, plan_state
from simulator.engine import Engine
from simulator.placed import PlacedPlans
from simulator.truth import TrueLives
from solver.plan_rules import PlanState
from solver.policies import POLICIES
from solver.policies.base import parse_settings


class Compared(CheckedPlans):
    """Looks up at each plan what the engine's state says."""

    engine: Engine

    def __init__(self, quotas, options, nodes) -> None:
        super().__init__(quotas, options, nodes)
        self._told = (quotas, nodes)

    def __call__(self, plan: Plan, idle_gpus: int, now_s: float) -> None:
        quotas, nodes = self._told
        whole = plan_state(self.engine.state, quotas, now_s, nodes)
        assert plain(self.state(now_s, idle_gpus)) == plain(whole)
        super().__call__(plan, idle_gpus, now_s)


def plain(state: PlanState) -> tuple[object, ...]:
    lines = {pool: list(line.items()) for pool, line in state.lines.items() if line}
    own = {pool: gpus for pool, gpus in state.own_gpus.items() if gpus}
    workers = {key: sorted(here) for key, here in state.places.workers.items()}
    return state.known, lines, own, state.idle_gpus, workers, state.places.free, state.places.types


@pytest.mark.parametrize("policy", ["fcfs", "maxmin", "reclaim", "sia"])
@pytest.mark.parametrize("has_nodes", [False, True])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(instances())
def test_its_books_are_those_of_the_whole_state(policy: str, has_nodes: bool, instance: Instance):
    jobs, lengths_s, quotas = instance
    spec = POLICIES[policy]
    given_settings = {"requeueable": "1"} if policy == "reclaim" else {}
    chosen = parse_settings(policy, spec.settings, given_settings)
    outcomes = {job_id: JobOutcome(job_id, length_s) for job_id, length_s in lengths_s.items()}
    capacity = sum(quotas.values())
    nodes = (Node("n", capacity),) if has_nodes else ()
    compared = Compared(quotas, options_of(spec, chosen), nodes)
    share = getattr(chosen, "requeueable", 0.0)
    placer = PlacedPlans(nodes, quotas, TrueLives(outcomes), requeueable_share=share) if nodes else None
    compared.engine = Engine(
        jobs=jobs,
        outcomes=outcomes,
        capacity_gpus=capacity,
        policy=spec.build(all_knowing(spec, jobs, outcomes, quotas), chosen),
        tick_s=spec.tick_s,
        plan_check=compared,
        placer=placer,
    )
    compared.engine.run()
