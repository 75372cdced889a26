"""The checker's own books in a replay are those of the whole state, plan by plan."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from support import Instance, all_knowing, instances, job

from domain.cluster import Node
from domain.errors import PlanError
from domain.jobs import Job, JobOutcome
from domain.plans import Placement, Plan, Start
from simulator.checked import CheckedPlans, options_of, plan_state
from simulator.engine import Engine
from simulator.placed import PlacedPlans
from simulator.truth import TrueLives
from solver.plan_rules import Hosts, Known, PlanOptions, PlanState, Standing, state_of
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


def test_its_books_are_those_of_packed_plans_too():
    """A rider joins, its host is suspended and comes back over it; consent and slack are asked for."""
    nodes, quotas = (Node("n", 4),), {"a": 4}
    host, rider = job("host", 0.0, 4), job("rider", 1.0, 2)
    options = PlanOptions(packs=True, hosts=Hosts.EVERYONE, has_own_lanes=False, may_suspend=True)
    checked = CheckedPlans(quotas, options, nodes, may_share=lambda one: one is host)
    gpus = nodes[0].gpus()

    def starts(one: Job, width: int) -> Plan:
        return Plan(starts=(Start(one, False),), placements=(Placement(one.job_id, gpus[:width]),))

    def books(idle: int, *line: Known) -> None:
        assert plain(checked.state(0.0, idle)) == plain(state_of(0.0, idle, quotas, line, nodes))

    for one in (host, rider):
        checked.submitted(one, one.submit_s)
    checked(starts(host, 4), 4, 1.0)
    checked(starts(rider, 2), 0, 1.0)
    runs, rides = Known(host, Standing.OWN, gpus, True), Known(rider, Standing.OWN, gpus[:2])
    books(0, runs, rides)
    checked(Plan(suspends=(host,)), 0, 2.0)
    books(2, Known(host, may_share=True), rides)
    checked(starts(host, 4), 2, 3.0)
    assert checked.state(3.0, 0).places.workers["n", 0] == ("rider", "host")
    checked(Plan(suspends=(rider, host)), 0, 4.0)
    books(4, Known(host, may_share=True), Known(rider))
    checked(starts(rider, 2), 4, 5.0)
    checked.ended(rider, 6.0, 1.0)
    books(4, Known(host, may_share=True))


def test_what_jobs_may_lose_is_asked_for_as_of_the_plan():
    nodes, quotas = (Node("n", 2),), {"a": 2, "b": 2}
    host, rider, ahead = (
        replace(job(name, 0.0, 2, pool), model="x")
        for name, pool in (("host", "a"), ("rider", "b"), ("ahead", "b"))
    )
    options = PlanOptions(packs=True, rates=lambda *_: 0.9)
    checked = CheckedPlans(quotas, options, nodes, allowed_loss=lambda now_s: {"host": now_s / 100.0})
    gpus = nodes[0].gpus()
    for one in (host, ahead, rider):
        checked.submitted(one, 0.0)
    checked(Plan(starts=(Start(host, False),), placements=(Placement("host", gpus),)), 2, 0.0)
    rides = Plan(starts=(Start(rider, True),), placements=(Placement("rider", gpus),))
    with pytest.raises(PlanError, match="protected-job-shares"):
        checked(rides, 0, 9.0)
    checked(rides, 0, 10.0)
