"""Policies that know the nodes: what they start together has a place, and what they keep stays whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Instance, instances, job

from domain.cluster import Node
from domain.jobs import Job, JobOutcome
from domain.plans import Plan, Start
from domain.schedules import Schedule
from simulator.engine import Engine
from simulator.placed import DEFAULT_RULE, Keep, PlacedPlans, PlaceRule
from simulator.truth import TrueLives
from solver.placement.cells import pieces_of
from solver.placement.room import Cells, FreeNodes, Gang, GuestRoom
from solver.policies import POLICIES
from solver.policies.anticipatory import Anticipatory
from solver.policies.base import PolicyContext, parse_settings


class Watched(PlacedPlans):
    """Looks at every plan: whether all its guests were placed, and whether what was kept fits after it."""

    policy: Anticipatory
    lent: int = 0

    def arrange(self, plan: Plan, now_s: float) -> Plan:
        kept = self._kept_by_policy(plan)
        done = super().arrange(plan, now_s)
        wanted = {start.job.job_id for start in plan.starts if start.is_guest}
        if not plan.holds:
            assert wanted <= {start.job.job_id for start in done.starts}
            assert self.ask_again_gpus is None
            self.lent += len(wanted)
            if wanted:
                after = Cells(self.room(Plan(), now_s)._replace(kept=()))
                assert all(after.admit(Gang(piece)) for piece in kept)
        return done

    def _kept_by_policy(self, plan: Plan) -> list[int]:
        cells = self.policy._room
        return sorted(cells._kept["any"], reverse=True) if cells is not None and not plan.holds else []


def run_on(
    policy: str,
    jobs: Sequence[Job],
    durations_s: dict[str, float],
    quotas: dict[str, int],
    nodes: Sequence[Node],
    rule: PlaceRule = DEFAULT_RULE,
    **own: str,
) -> tuple[Schedule, Watched]:
    outcomes = {job_id: JobOutcome(job_id, duration) for job_id, duration in durations_s.items()}
    spec = POLICIES[policy]
    built = parse_settings(policy, spec.settings, own)
    lives = TrueLives(outcomes)
    share = getattr(built, "requeueable", 0.0)
    placer = Watched(nodes, quotas, lives, requeueable_share=share, rule=rule)
    placer.policy = spec.build(PolicyContext(quotas, lives, nodes=placer), built)
    engine = Engine(
        jobs=jobs,
        outcomes=outcomes,
        capacity_gpus=sum(quotas.values()),
        policy=placer.policy,
        tick_s=spec.tick_s,
        placer=placer,
    )
    return engine.run(), placer


TWO = (Node("n0", 4), Node("n1", 4))


@pytest.mark.parametrize("policy", ["anticipatory", "planned"])
def test_guests_that_fit_in_sum_but_on_no_node_are_passed_over(policy: str):
    """Two own jobs of three leave one GPU on each node: none for the pair, though it is the shortest."""
    jobs = [job("own-0", 0.0, 3), job("own-1", 0.0, 3), job("pair", 1.0, 2)]
    jobs += [job(f"single-{k}", 1.0, 1) for k in range(2)]
    lives = {"own-0": 100.0, "own-1": 100.0, "pair": 1.0, "single-0": 5.0, "single-1": 5.0}
    schedule, placer = run_on(policy, jobs, lives, {"a": 6, "b": 2}, TWO)
    assert schedule.first_starts() == {
        "own-0": 0.0,
        "own-1": 0.0,
        "pair": 100.0,
        "single-0": 1.0,
        "single-1": 1.0,
    }
    assert not placer.held_up_s


@pytest.mark.parametrize(("hold_s", "started"), [("0", ["a0", "x0", "x1"]), ("900", ["a0", "x0"])])
def test_room_is_kept_for_the_next_in_line(hold_s: str, started: list[str]):
    """A gang of four starts when a0 ends, after a minute; of the pairs behind it one leaves a node whole."""
    jobs = [job("a0", 0.0, 2), job("next", 0.0, 4, requeue_u=None)]
    jobs += [job(f"x{k}", 0.0, 2, requeue_u=0.1) for k in range(2)]
    lives = {"a0": 60.0, "next": 50.0, "x0": 10.0, "x1": 10.0}
    schedule, _ = run_on(
        "planned", jobs, lives, {"a": 4, "b": 4}, TWO, eps="0", requeueable="0.5", hold_s=hold_s
    )
    assert [name for name, start_s in sorted(schedule.first_starts().items()) if start_s == 0.0] == started
    assert schedule.first_starts()["next"] == 60.0


class Fixed:
    """Two a100 on one node and a v100 on another, whatever starts."""

    def room(self, _own: Plan, _now_s: float) -> GuestRoom:
        return GuestRoom((FreeNodes("a100", 2, (2,)), FreeNodes("v100", 2, (1,))))


@pytest.mark.parametrize("policy", ["anticipatory", "planned"])
def test_of_several_types_only_what_is_there_is_lent(policy: str):
    """Beside one on an a100 there is no node for a pair of any type, although three GPUs are idle."""
    spec, quotas = POLICIES[policy], {"a": 2, "b": 3}
    chosen = parse_settings(policy, spec.settings, {"hold_s": "0"} if policy == "planned" else {})
    asking = [job("own", 0.0, 2), Job("one", "a", 1.0, 1, gpu_type="a100"), job("pair", 2.0, 2)]
    asking.append(Job("other", "a", 2.0, 2, gpu_type="v100"))
    lives = TrueLives({one.job_id: JobOutcome(one.job_id, 60.0 + one.submit_s) for one in asking})
    built = spec.build(PolicyContext(quotas, lives, nodes=Fixed()), chosen)
    for one in asking:
        built.submitted(one, 2.0)
    assert [start.job.job_id for start in built.decide(2.0, 5).starts] == ["own", "one"]


def test_asking_for_the_room_changes_nothing():
    lives = TrueLives({name: JobOutcome(name, 10.0) for name in ("a", "b", "own", "g")})
    placer = PlacedPlans(TWO, {"a": 8}, lives)
    two = (Start(job("a", num_gpus=3), False), Start(job("b", num_gpus=3), False))
    assert placer.room(Plan(starts=two), 0.0).nodes[0].free_gpus == (1, 1)
    assert placer.room(Plan(), 0.0).nodes[0].free_gpus == (4, 4)
    placer.arrange(Plan(starts=two), 0.0)
    blocked = Plan(starts=(Start(job("own", num_gpus=4), False),))
    assert placer.room(blocked, 1.0).nodes[0].free_gpus == (1,), "one node drains for it"
    assert placer.room(Plan(), 1.0).nodes[0].free_gpus == (1, 1)
    assert not placer.held_up_s
    stop = PlacedPlans(TWO, {"a": 8}, lives, rule=PlaceRule(drains=0))
    stop.arrange(Plan(starts=two), 0.0)
    assert stop.room(blocked, 1.0).nodes[0].free_gpus == ()


def test_guests_that_fit_together_only_are_placed_together():
    """One that stays goes where others can make way, here to the other node, which the wide one needs."""
    lives = TrueLives({name: JobOutcome(name, 10.0) for name in ("own", "r", "stay", "wide")})
    placer = PlacedPlans(TWO, {"a": 8}, lives, requeueable_share=0.5)
    placer.arrange(Plan(starts=(Start(job("r", num_gpus=3, requeue_u=0.1), True),)), 0.0)
    both = Plan(
        starts=(Start(job("stay", requeue_u=0.9), True), Start(job("wide", num_gpus=4, requeue_u=0.9), True))
    )
    done = placer.arrange(both, 1.0)
    assert [start.job.job_id for start in done.starts] == ["stay", "wide"]
    assert placer.ask_again_gpus is None
    where = {placement.job_id: {gpu.node for gpu in placement.gpus} for placement in done.placements}
    assert where == {"stay": {"n0"}, "wide": {"n1"}}


@settings(max_examples=25, deadline=None)
@given(
    instances(max_jobs=12),
    st.integers(1, 6),
    st.sampled_from([PlaceRule(), PlaceRule(Keep.EACH), PlaceRule(Keep.WIDEST, drains=0)]),
    st.sampled_from(["anticipatory", "planned"]),
    st.sampled_from(["0", "0.6"]),
)
def test_every_guest_of_a_plan_has_a_place_and_what_is_kept_stays(
    instance: Instance, size: int, rule: PlaceRule, policy: str, requeueable: str
):
    jobs, durations, quotas = instance
    total = sum(quotas.values())
    sizes = [size] * (total // size) + ([total % size] if total % size else [])
    nodes = [Node(f"n{k}", gpus) for k, gpus in enumerate(sizes)]
    schedule, _ = run_on(policy, jobs, durations, quotas, nodes, rule, requeueable=requeueable)
    width = {one.job_id: one.num_gpus for one in jobs}
    assert set(schedule.last_ends()) == set(width)
    for stretch in schedule.stretches:
        on_each = {gpu.node for gpu in stretch.gpus}
        assert len(on_each) == len(pieces_of(width[stretch.job_id], max(sizes)))
