"""What the plan checker says of policies that pack: who is made to share, suspends, shares."""

from dataclasses import replace

import pytest
from support import job

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Placement, Plan, Start, WorkerShares
from solver.check_plan import check_plan, lawful_part
from solver.plan_rules import Hosts, Known, PlanOptions, PlanRule, PlanState, Standing, state_of

NODES = (Node("n1", 4), Node("n2", 4))
RATES = {("x", "x"): 0.5, ("x", "y"): 0.9, ("y", "x"): 0.6}
PACKS = PlanOptions(packs=True, rates=lambda model, beside: RATES.get((model, beside)))
ANYBODY = replace(PACKS, hosts=Hosts.EVERYONE, has_own_lanes=False, may_suspend=True)


def of(job_id: str, width: int, model: str | None = "x", pool: str = "a", submit_s: float = 0.0) -> Job:
    return replace(job(job_id, submit_s, width, pool), model=model)


HOST = of("host", 4)
RIDER = of("rider", 2, "y", "b", 5.0)


def on(*indices: int, node: str = "n1") -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index) for index in indices)


def state(*line: Known, idle: int = 4, **more: object) -> PlanState:
    return replace(state_of(10.0, idle, {"a": 4, "b": 4}, line, NODES), **more)


def start(one: Job, *indices: int, node: str = "n1", is_guest: bool = True, **more: object) -> Plan:
    return Plan(
        starts=(Start(one, is_guest),),
        placements=(Placement(one.job_id, on(*indices, node=node)),),
        **more,  # type: ignore[arg-type]
    )


def rules(before: PlanState, plan: Plan, options: PlanOptions = PACKS) -> list[PlanRule]:
    return [fault.rule for fault in check_plan(before, plan, options)]


# Riders are guests: no lane has reached them, as another job of their pool holds its whole quota.
AHEAD = Known(of("ahead", 4, "x", "b"), Standing.OWN, on(0, 1, 2, 3, node="n2"))


def beside(standing: Standing, **more: object) -> PlanState:
    known = Known(HOST, standing, on(0, 1, 2, 3), bool(more.pop("may_share", False)))
    return state(known, AHEAD, Known(RIDER), idle=0, **more)


def test_a_guest_may_be_made_to_share_and_an_own_job_may_not():
    rides = start(RIDER, 0, 1)
    assert rules(beside(Standing.OWN), rides) == [PlanRule.PROTECTED_JOB_SHARES]
    assert rules(beside(Standing.OWN, may_share=True), rides) == []
    guest = state(
        Known(of("host", 4, "x", "b", 1.0), Standing.GUEST, on(0, 1, 2, 3)), AHEAD, Known(RIDER), idle=0
    )
    assert rules(guest, rides) == []


def test_an_own_job_may_lose_what_its_slack_covers():
    rides = start(RIDER, 0, 1)
    assert rules(beside(Standing.OWN, allowed_loss={"host": 0.1}), rides) == []
    assert rules(beside(Standing.OWN, allowed_loss={"host": 0.09}), rides) == [PlanRule.PROTECTED_JOB_SHARES]
    mean = replace(PACKS, redistributes=True)  # two of its four workers at 0.9
    assert rules(beside(Standing.OWN, allowed_loss={"host": 0.05}), rides, mean) == []
    unknown = replace(PACKS, rates=None)
    assert rules(beside(Standing.OWN, allowed_loss={"host": 0.5}), rides, unknown) == [
        PlanRule.PROTECTED_JOB_SHARES
    ]


def test_what_an_own_job_loses_counts_all_its_neighbours():
    """It is slow already beside a slow one; the next one is a gentle one on another GPU."""
    slow = Known(of("slow", 1, "x", "b", 2.0), Standing.GUEST, on(3))
    before = beside(Standing.OWN, allowed_loss={"host": 0.1})
    with_slow = state(*before.known.values(), slow, idle=0, allowed_loss={"host": 0.1})
    assert rules(with_slow, start(RIDER, 0, 1)) == [PlanRule.PROTECTED_JOB_SHARES]


def test_an_own_job_is_protected_as_a_rider_too():
    """A due job starts beside a guest, and a guest starts over an own job that is narrower."""
    guest = Known(of("wide", 4, "x", "b", 1.0), Standing.GUEST, on(0, 1, 2, 3))
    due = of("due", 2, "y")
    before = state(guest, Known(due), idle=4)
    rides = start(due, 0, 1, is_guest=False)
    assert rules(before, rides) == [PlanRule.PROTECTED_JOB_SHARES]
    assert rules(replace(before, allowed_loss={"due": 0.4}), rides) == []
    narrow = Known(of("narrow", 2, "y"), Standing.OWN, on(0, 1))
    over = of("over", 4, "x", "b", 9.0)
    before = state(narrow, AHEAD, Known(over), idle=2)
    assert rules(before, start(over, 0, 1, 2, 3)) == [PlanRule.PROTECTED_JOB_SHARES]
    assert rules(replace(before, allowed_loss={"narrow": 0.4}), start(over, 0, 1, 2, 3)) == []


def test_a_host_over_narrower_jobs_takes_the_idle_gpus_among_its_own():
    narrow = Known(of("narrow", 2, "y"), Standing.OWN, on(0, 1))
    over = of("over", 4, "x", "b", 9.0)
    before = state(narrow, AHEAD, Known(over), idle=1, allowed_loss={"narrow": 1.0})
    assert rules(before, start(over, 0, 1, 2, 3)) == [PlanRule.MORE_GPUS_THAN_IDLE]


def test_everybody_may_be_a_host_where_the_policy_says_so():
    before, rides = beside(Standing.OWN), start(RIDER, 0, 1, is_guest=False)
    assert rules(before, rides, ANYBODY) == []
    assert rules(before, rides, replace(ANYBODY, packs=False)) == [PlanRule.GPU_IN_USE]


@pytest.mark.parametrize("model", [None, "none"])
def test_models_fit_onto_one_gpu(model: str | None):
    before = state(Known(HOST, Standing.OWN, on(0, 1, 2, 3)), Known(replace(RIDER, model=model)))
    rides = start(replace(RIDER, model=model), 0, 1, is_guest=False)
    assert rules(before, rides, ANYBODY) == [PlanRule.PAIR_DOES_NOT_FIT]
    assert rules(before, rides, replace(ANYBODY, rates=None)) == []


def test_every_gpu_that_a_gang_joins_is_asked():
    """The first is of one that shares, the second of one that does not."""
    willing = Known(of("willing", 1), Standing.OWN, on(0), may_share=True)
    unwilling = Known(of("unwilling", 1), Standing.OWN, on(1))
    before = state(willing, unwilling, Known(RIDER, may_share=True), idle=6)
    assert rules(before, start(RIDER, 0, 1), replace(ANYBODY, packs=False)) == [PlanRule.GPU_IN_USE]


def test_who_packs_spreads_nobody_over_more_nodes_than_empty_ones_would_take():
    host = Known(HOST, Standing.OWN, on(0, 1) + on(0, 1, node="n2"))
    before = state(host, Known(RIDER))
    strewn = Plan(starts=(Start(RIDER, False),), placements=(Placement("rider", on(0) + on(0, node="n2")),))
    assert rules(before, strewn, ANYBODY) == [PlanRule.MORE_NODES_THAN_NEEDED]
    full = [Known(of(f"f{k}", 3, "x", "b"), Standing.OWN, on(1, 2, 3, node=f"n{k}")) for k in (1, 2)]
    alone = state(*full, Known(RIDER), idle=2)
    assert rules(alone, strewn, ANYBODY) == [PlanRule.MORE_NODES_THAN_NEEDED]
    assert rules(alone, strewn, replace(ANYBODY, packs=False)) == []


def test_a_gpu_that_two_stopped_jobs_shared_comes_free_once():
    other = Known(of("other", 4, "y"), Standing.OWN, on(0, 1, 2, 3))
    both = (Known(HOST, Standing.OWN, on(0, 1, 2, 3)), other)
    next_one = of("next", 4, "x", "b", 6.0)
    before = state(*both, Known(next_one), Known(RIDER), idle=0)
    stops = start(next_one, 0, 1, 2, 3, is_guest=False, suspends=(HOST, other.job))
    assert rules(before, stops, ANYBODY) == []
    two = replace(stops, starts=(*stops.starts, Start(RIDER, False)), placements=())
    assert rules(before, two, ANYBODY) == [PlanRule.MORE_GPUS_THAN_IDLE]
    half = replace(stops, suspends=(HOST,))
    rules_of_half = rules(before, half, replace(ANYBODY, packs=False))
    assert rules_of_half == [PlanRule.GPU_IN_USE]


def test_only_a_policy_that_may_suspends_and_only_who_runs():
    before = beside(Standing.OWN)
    stops = Plan(suspends=(HOST,))
    assert rules(before, stops, ANYBODY) == []
    assert rules(before, stops, replace(ANYBODY, may_suspend=False)) == [PlanRule.SUSPENDED_BUT_MAY_NOT_BE]
    assert rules(before, stops, replace(PACKS, may_suspend=True)) == [PlanRule.SUSPENDED_BUT_MAY_NOT_BE]
    assert rules(before, Plan(suspends=(RIDER,)), ANYBODY) == [PlanRule.SUSPENDS_WHAT_DOES_NOT_RUN]
    moved = replace(stops, starts=(Start(HOST, False),))
    assert rules(before, moved, ANYBODY) == []
    twice = replace(moved, starts=(*moved.starts, Start(HOST, False)))
    assert PlanRule.NAMED_TWICE in rules(before, twice, ANYBODY)
    assert rules(before, moved, replace(ANYBODY, may_suspend=False)) == [
        PlanRule.NAMED_TWICE,
        PlanRule.STARTS_WHAT_DOES_NOT_WAIT,
        PlanRule.SUSPENDED_BUT_MAY_NOT_BE,
    ]
    stranger = Plan(suspends=(of("stranger", 1),))
    assert rules(before, stranger, ANYBODY) == [PlanRule.UNKNOWN_JOB]


def test_a_rider_may_be_sent_back_for_its_host_although_nobody_is_due():
    rider = Known(RIDER, Standing.GUEST, on(0, 1))
    before = state(Known(HOST, Standing.OWN, on(0, 1, 2, 3)), AHEAD, rider, idle=0)
    back, options = Plan(send_backs=(RIDER,)), replace(PACKS, requeueable_share=0.6)
    assert rules(before, back, options) == []
    assert rules(before, back, replace(options, packs=False)) == [PlanRule.SENT_BACK_FOR_NOBODY]
    alone = state(rider, AHEAD, idle=2)
    assert rules(alone, back, options) == [PlanRule.SENT_BACK_FOR_NOBODY]


def test_shares_are_one_for_each_gpu_of_who_runs_by_then():
    before, rides = beside(Standing.OWN), start(RIDER, 0, 1, is_guest=False)
    given = (WorkerShares("host", (60, 60, 100, 100)), WorkerShares("rider", (40, 50)))
    assert rules(before, replace(rides, shares=given), ANYBODY) == []
    assert rules(before, Plan(shares=given[:1]), ANYBODY) == []
    assert rules(before, Plan(shares=given), ANYBODY) == [PlanRule.SHARES_OF_WHAT_DOES_NOT_RUN]
    gone = Plan(suspends=(HOST,), shares=given[:1])
    assert rules(before, gone, ANYBODY) == [PlanRule.SHARES_OF_WHAT_DOES_NOT_RUN]
    assert rules(before, Plan(shares=(WorkerShares("host", (60,)),)), ANYBODY) == [
        PlanRule.NOT_ONE_SHARE_PER_GPU
    ]
    assert rules(before, Plan(shares=given[:1] * 2), ANYBODY) == [PlanRule.NAMED_TWICE]


def test_of_a_faulty_plan_lawful_suspends_and_shares_are_left():
    before = beside(Standing.OWN)
    plan = Plan(
        suspends=(HOST, RIDER), shares=(WorkerShares("ahead", (50,) * 4), WorkerShares("host", (50,) * 4))
    )
    part = lawful_part(before, plan, ANYBODY)
    assert part == Plan(suspends=(HOST,), shares=plan.shares[:1])


@pytest.mark.parametrize("shares", [(), (0,), (5,), (110,), (50, 55), (-10,)])
def test_shares_are_steps_of_ten_per_cent(shares: tuple[int, ...]):
    with pytest.raises(ValueError, match="job j: "):
        WorkerShares("j", shares)
