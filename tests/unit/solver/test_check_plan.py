"""Each rule of the plan checker, broken once by the smallest plan that does."""

from dataclasses import replace

import pytest
from support import REPOSITORY, job

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import NOTHING, Hold, Placement, Plan, Start
from solver.check_plan import check_plan, lawful_part
from solver.plan_rules import Known, PlanOptions, PlanRule, PlanState, Standing, state_of

QUOTAS = {"a": 4, "b": 4}
NODES = (Node("n1", 4, "old"), Node("n2", 4, "new"))

OWN = job("own", 0.0, 3, "a")
DUE = job("due", 1.0, 1, "a")
BEYOND = job("beyond", 2.0, 2, "a")
GUEST = job("guest", 3.0, 1, "a")
OTHER = job("other", 4.0, 2, "b")

SENDS_BACK = PlanOptions(requeueable_share=0.6)


def own(job: Job, start: int = 0, node: str = "n1", *, shares: bool = False) -> Known:
    return Known(job, Standing.OWN, gpus(node, start, job.num_gpus), shares)


def guest(job: Job, start: int = 0, node: str = "n1", *, shares: bool = False) -> Known:
    return Known(job, Standing.GUEST, gpus(node, start, job.num_gpus), shares)


def gpus(node: str, start: int, num: int) -> tuple[Gpu, ...]:
    gpu_type = next(one.gpu_type for one in NODES if one.name == node)
    return tuple(Gpu(node, index, gpu_type) for index in range(start, start + num))


def state(*line: Known, idle: int | None = None, nodes: tuple[Node, ...] = ()) -> PlanState:
    used = sum(one.job.num_gpus for one in line if one.standing is not Standing.WAITING)
    return state_of(10.0, 8 - used if idle is None else idle, QUOTAS, line, nodes)


def starts(*jobs: Job, guests: tuple[Job, ...] = (), **more: object) -> Plan:
    return Plan(starts=(*(Start(one, False) for one in jobs), *(Start(one, True) for one in guests)), **more)  # type: ignore[arg-type]


def rules(state: PlanState, plan: Plan, options: PlanOptions = SENDS_BACK) -> list[PlanRule]:
    return [fault.rule for fault in check_plan(state, plan, options)]


USUAL = state(own(OWN), Known(DUE), Known(BEYOND), guest(GUEST, 3), Known(OTHER))


def test_the_plan_without_a_decision_breaks_no_rule():
    assert rules(USUAL, NOTHING) == []


def test_a_plan_that_serves_the_lanes_and_lends_the_rest_breaks_no_rule():
    assert rules(state(own(OWN), Known(DUE), Known(BEYOND)), starts(DUE, guests=(BEYOND,))) == []


def test_a_plan_that_sends_a_guest_back_for_a_due_job_breaks_no_rule():
    wide = job("wide", 0.0, 4, "b")
    wants = state(own(OWN), guest(BEYOND, 0, "n2"), Known(wide), idle=3)
    assert rules(wants, starts(wide, send_backs=(BEYOND,))) == []


CASES = [
    ("a job nobody knows", USUAL, starts(DUE, job("stranger")), PlanRule.UNKNOWN_JOB),
    ("a known job of another width", USUAL, starts(replace(DUE, num_gpus=2)), PlanRule.UNKNOWN_JOB),
    ("started twice", USUAL, starts(DUE, DUE), PlanRule.NAMED_TWICE),
    ("what runs is started", USUAL, starts(OWN), PlanRule.STARTS_WHAT_DOES_NOT_WAIT),
    (
        "more than is idle",
        state(own(OWN), Known(DUE), Known(BEYOND), idle=2),
        starts(DUE, guests=(BEYOND,)),
        PlanRule.MORE_GPUS_THAN_IDLE,
    ),
    ("own beyond the quota", USUAL, starts(DUE, BEYOND), PlanRule.OWN_BEYOND_QUOTA),
    ("own beyond the lane", USUAL, starts(DUE, BEYOND), PlanRule.OWN_START_BEYOND_LANE),
    (
        "a narrow job before the wide one in front of it",
        state(Known(OWN), Known(DUE)),
        starts(DUE),
        PlanRule.OWN_START_OVERTAKES,
    ),
    ("what waits is sent back", USUAL, Plan(send_backs=(BEYOND,)), PlanRule.SENDS_BACK_WHAT_DOES_NOT_RUN),
    ("an own job is sent back", USUAL, Plan(send_backs=(OWN,)), PlanRule.OWN_JOB_SENT_BACK),
    (
        "a guest that its lane has reached is sent back",
        state(own(OWN), guest(DUE, 3), Known(OTHER)),
        Plan(send_backs=(DUE,)),
        PlanRule.OWN_JOB_SENT_BACK,
    ),
    (
        "sent back for nobody",
        state(own(OWN), Known(BEYOND), guest(GUEST, 3)),
        Plan(send_backs=(GUEST,)),
        PlanRule.SENT_BACK_FOR_NOBODY,
    ),
    ("what waits becomes own", USUAL, Plan(conversions=(DUE,)), PlanRule.CONVERTED_BUT_NO_GUEST),
    (
        "a guest beyond its lane becomes own",
        state(own(OWN), Known(BEYOND), guest(GUEST, 3)),
        Plan(conversions=(GUEST,)),
        PlanRule.CONVERTED_BEYOND_LANE,
    ),
    ("who is due starts as a guest", USUAL, starts(guests=(DUE,)), PlanRule.GUEST_INSIDE_ITS_LANE),
    (
        "lent while a due job waits",
        state(own(OWN), Known(BEYOND), Known(OTHER)),
        starts(guests=(BEYOND,)),
        PlanRule.LENT_WHILE_DUE_JOB_WAITS,
    ),
    (
        "held for a pool there is not",
        USUAL,
        starts(DUE, holds=(Hold("c", 1),)),
        PlanRule.HOLD_FOR_UNKNOWN_POOL,
    ),
    ("held beyond the quota", USUAL, starts(DUE, holds=(Hold("a", 1),)), PlanRule.HOLD_BEYOND_QUOTA),
    (
        "held, but in use",
        state(own(OWN), Known(DUE), idle=2),
        starts(DUE, holds=(Hold("b", 2, 60.0),)),
        PlanRule.HOLD_OF_GPUS_IN_USE,
    ),
    (
        "held until a time that is over",
        USUAL,
        starts(DUE, holds=(Hold("b", 1, 10.0),)),
        PlanRule.HOLD_IS_OVER,
    ),
]


@pytest.mark.parametrize(
    ("before", "plan", "rule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_broken_rule_is_named(before: PlanState, plan: Plan, rule: PlanRule):
    assert rule in rules(before, plan)


def test_who_must_run_to_its_end_is_not_sent_back():
    wants = state(own(OWN), Known(BEYOND), guest(GUEST, 3), Known(OTHER))
    plan = starts(OTHER, send_backs=(GUEST,))
    assert rules(wants, plan, PlanOptions(requeueable_share=0.5)) == [PlanRule.SENT_BACK_BUT_NOT_REQUEUEABLE]
    never = replace(SENDS_BACK, may_send_back=False)
    assert rules(wants, plan, never) == [PlanRule.SENT_BACK_BUT_NOT_REQUEUEABLE]


def test_gpus_that_are_not_free_at_once_start_nobody():
    wants = state(own(OWN), Known(BEYOND), guest(GUEST, 3), Known(OTHER), idle=1)
    later = replace(SENDS_BACK, frees_at_once=False)
    assert wants.idle_gpus < OTHER.num_gpus <= wants.idle_gpus + GUEST.num_gpus
    assert rules(wants, starts(OTHER, send_backs=(GUEST,)), SENDS_BACK) == []
    assert rules(wants, starts(OTHER, send_backs=(GUEST,)), later) == [PlanRule.MORE_GPUS_THAN_IDLE]
    assert rules(wants, Plan(send_backs=(GUEST,), holds=(Hold("b", 2),)), later) == []


def test_a_hold_for_who_waits_may_wait_for_gpus_that_come_free():
    assert rules(state(own(OWN), Known(OTHER), idle=1), Plan(holds=(Hold("b", 2),))) == []


def test_lanes_mean_nothing_where_the_policy_has_none():
    plan = starts(OTHER, BEYOND)
    assert rules(USUAL, plan, replace(SENDS_BACK, has_own_lanes=False)) == []
    assert PlanRule.OWN_START_BEYOND_LANE in rules(USUAL, plan)


def test_where_guests_stay_guests_the_lane_is_made_of_those_that_wait():
    early = guest(BEYOND, 3)
    after = job("after", 5.0, 4, "a")
    line = state(early, Known(after), idle=4)
    assert PlanRule.OWN_START_BEYOND_LANE in rules(line, starts(after))
    assert rules(line, starts(after), replace(SENDS_BACK, converts=False)) == []


def test_gpus_of_a_type_the_due_job_cannot_use_may_be_lent():
    due = replace(OTHER, gpu_type="new")
    typed = replace(BEYOND, gpu_type="old")
    line = state(own(OWN), Known(typed), Known(due))
    assert rules(line, starts(guests=(typed,))) == []
    assert PlanRule.LENT_WHILE_DUE_JOB_WAITS in rules(line, starts(guests=(replace(typed, gpu_type="new"),)))


def test_a_job_wider_than_its_quota_blocks_nobody():
    too_wide = job("too-wide", 0.0, 5, "a")
    assert rules(state(Known(too_wide), Known(DUE)), starts(DUE)) == []
    assert PlanRule.OWN_START_BEYOND_LANE in rules(state(Known(too_wide)), starts(too_wide))


def placed(plan: Plan, *places: tuple[Job, tuple[Gpu, ...]]) -> Plan:
    return replace(plan, placements=tuple(Placement(one.job_id, where) for one, where in places))


ON_NODES = state(own(OWN), Known(DUE), Known(BEYOND), Known(OTHER), nodes=NODES)


def test_whole_gangs_on_idle_gpus_break_no_rule():
    plan = placed(starts(DUE, OTHER), (DUE, gpus("n1", 3, 1)), (OTHER, gpus("n2", 0, 2)))
    assert rules(ON_NODES, plan) == []


PLACES = [
    ("one of two", ((OTHER, gpus("n2", 0, 2)),), PlanRule.STARTED_BUT_NOT_PLACED),
    (
        "one that does not start",
        ((DUE, gpus("n1", 3, 1)), (OTHER, gpus("n2", 0, 2)), (BEYOND, gpus("n2", 2, 2))),
        PlanRule.PLACED_BUT_NOT_STARTED,
    ),
    ("half a gang", ((DUE, gpus("n1", 3, 1)), (OTHER, gpus("n2", 0, 1))), PlanRule.GANG_NOT_WHOLE),
    ("GPUs there are not", ((DUE, gpus("n1", 9, 1)), (OTHER, gpus("n2", 0, 2))), PlanRule.UNKNOWN_GPU),
    ("GPUs in use", ((DUE, gpus("n1", 2, 1)), (OTHER, gpus("n2", 0, 2))), PlanRule.GPU_IN_USE),
    ("one GPU for two", ((DUE, gpus("n2", 0, 1)), (OTHER, gpus("n2", 0, 2))), PlanRule.GPU_IN_USE),
    (
        "spread without need",
        ((DUE, gpus("n2", 3, 1)), (OTHER, gpus("n1", 3, 1) + gpus("n2", 0, 1))),
        PlanRule.MORE_NODES_THAN_NEEDED,
    ),
    (
        "placed twice",
        ((DUE, gpus("n1", 3, 1)), (DUE, gpus("n2", 3, 1)), (OTHER, gpus("n2", 0, 2))),
        PlanRule.NAMED_TWICE,
    ),
]


@pytest.mark.parametrize(("places", "rule"), [case[1:] for case in PLACES], ids=[case[0] for case in PLACES])
def test_a_broken_rule_of_placement_is_named(places, rule: PlanRule):
    assert rule in rules(ON_NODES, placed(starts(DUE, OTHER), *places))


def test_a_gang_gets_gpus_of_its_type():
    typed = replace(DUE, gpu_type="old")
    line = state(own(OWN), Known(typed), nodes=NODES)
    assert rules(line, placed(starts(typed), (typed, gpus("n1", 3, 1)))) == []
    assert PlanRule.GPU_OF_WRONG_TYPE in rules(line, placed(starts(typed), (typed, gpus("n2", 0, 1))))


def test_a_gang_may_leave_a_node_to_a_hold():
    place = gpus("n1", 3, 1) + gpus("n2", 0, 1)
    plan = placed(starts(OTHER), (OTHER, place))
    line = state(own(OWN), Known(OTHER), nodes=NODES)
    assert rules(line, plan) == [PlanRule.MORE_NODES_THAN_NEEDED]
    assert rules(line, replace(plan, holds=(Hold("b", 1, 60.0),))) == []


def test_a_due_gang_that_finds_no_place_is_left_behind():
    """Its GPUs would be strewn over more nodes than it needs: nobody takes them from it."""
    wide = job("wide", 0.5, 4, "b")
    strewn = [own(job("one", 0.0, 2, "a"), 0, "n1"), own(job("two", 0.0, 1, "a"), 0, "n2")]
    line = state(*strewn, Known(DUE), Known(OTHER), Known(wide), nodes=NODES)
    plan = placed(starts(DUE), (DUE, gpus("n1", 2, 1)))
    assert rules(line, placed(starts(guests=(OTHER,)), (OTHER, gpus("n1", 2, 2)))) != []
    early = state(*strewn, Known(wide), Known(OTHER), nodes=NODES)
    lent = placed(starts(guests=(OTHER,)), (OTHER, gpus("n1", 2, 2)))
    assert rules(early, lent) == []
    assert rules(line, plan) == []
    assert PlanRule.LENT_WHILE_DUE_JOB_WAITS in rules(replace(early, nodes=()), replace(lent, placements=()))


# Packing.

HOST = job("host", 0.0, 4, "b")
RIDERS = [job(f"rider-{k}", 5.0 + k, 1, "a") for k in range(6)]


def test_a_place_is_whole_nodes_and_a_rest_of_one_type():
    """A gang of five is four and one: three on the large node and two on a small one are no place for it."""
    nodes = (Node("large", 4), Node("small", 2), Node("other", 4, "new"))
    gang, narrow = job("gang", 0.0, 5, "a"), job("narrow", 1.0, 1, "b")
    busy = Known(job("busy", 0.0, 1, "b"), Standing.OWN, (Gpu("large", 3),))
    plan = placed(starts(guests=(narrow,)), (narrow, (Gpu("small", 1),)))

    def found(*running: Known) -> list[PlanRule]:
        line = (*running, Known(gang), Known(narrow))
        used = sum(one.job.num_gpus for one in running)
        return rules(state_of(10.0, 10 - used, {"a": 5, "b": 1}, line, nodes), plan)

    assert found(busy) == [], "four of the other type and one of these are of two types"
    assert found() == [PlanRule.GUEST_INSIDE_ITS_LANE, PlanRule.LENT_WHILE_DUE_JOB_WAITS]


def packed(*running: Known, rider: Job, where: tuple[Gpu, ...]) -> list[PlanRule]:
    """Rules broken by one more that rides along; no GPU is idle but those of node n1."""
    line = state(*running, Known(rider, may_share=True), idle=0, nodes=NODES)
    return rules(
        line, placed(starts(guests=(rider,)), (rider, where)), replace(SENDS_BACK, has_own_lanes=False)
    )


def riding(count: int) -> list[Known]:
    return [guest(RIDERS[k], k, "n2", shares=True) for k in range(count)]


def test_a_rider_takes_no_idle_gpu_and_breaks_no_rule():
    assert packed(own(HOST, 0, "n2", shares=True), rider=RIDERS[0], where=gpus("n2", 0, 1)) == []


def test_a_rider_is_no_lending():
    """While a due job waits for an idle GPU, a consenting pair takes none away from it."""
    rider, due = RIDERS[0], job("wide", 0.5, 4, "a")
    line = state(own(HOST, 0, "n2", shares=True), Known(due), Known(rider, may_share=True), idle=3)
    plan = placed(starts(guests=(rider,)), (rider, gpus("n2", 0, 1)))
    assert rules(line, plan) == []


def test_nobody_shares_who_has_not_consented():
    assert packed(own(HOST, 0, "n2"), rider=RIDERS[0], where=gpus("n2", 0, 1)) == [PlanRule.GPU_IN_USE]


def test_two_workers_are_the_most():
    running = [own(HOST, 0, "n2", shares=True), *riding(1)]
    assert PlanRule.MORE_THAN_TWO_WORKERS in packed(*running, rider=RIDERS[1], where=gpus("n2", 0, 1))


def test_five_jobs_are_the_most():
    wide = replace(HOST, num_gpus=5)
    host = Known(wide, Standing.OWN, gpus("n2", 0, 4) + gpus("n1", 0, 1), may_share=True)
    assert packed(host, *riding(3), rider=RIDERS[3], where=gpus("n2", 3, 1)) == []
    assert packed(host, *riding(4), rider=RIDERS[4], where=gpus("n1", 0, 1)) == [
        PlanRule.PACKED_SET_TOO_LARGE
    ]


def test_all_share_with_the_widest_only():
    host = Known(replace(HOST, num_gpus=3), Standing.OWN, gpus("n2", 0, 3), may_share=True)
    other = Known(job("other", 1.0, 1, "b"), Standing.OWN, gpus("n2", 3, 1), may_share=True)
    bridge = job("bridge", 9.0, 2, "a")
    assert packed(host, other, rider=bridge, where=gpus("n2", 2, 2)) == [PlanRule.STAR_RULE]
    assert packed(host, other, rider=bridge, where=gpus("n2", 1, 2)) == []


def test_equal_widths_share_all_their_gpus():
    twin = job("twin", 9.0, 4, "a")
    host = own(HOST, 0, "n2", shares=True)
    assert packed(host, rider=twin, where=gpus("n2", 0, 4)) == []
    assert packed(host, rider=twin, where=gpus("n2", 0, 3) + gpus("n1", 0, 1)) != []


# What is left of a faulty plan.


def test_of_a_faulty_plan_its_lawful_own_starts_are_left():
    plan = starts(DUE, BEYOND, guests=(GUEST, OTHER))
    assert lawful_part(USUAL, plan, SENDS_BACK) == starts(DUE)


def test_what_is_left_keeps_its_places():
    plan = placed(starts(DUE, OTHER), (DUE, gpus("n1", 3, 1)), (OTHER, gpus("n1", 0, 2)))
    assert lawful_part(ON_NODES, plan, SENDS_BACK) == placed(starts(DUE), (DUE, gpus("n1", 3, 1)))


def test_of_a_plan_without_a_lawful_part_nothing_is_left():
    assert lawful_part(USUAL, Plan(send_backs=(OWN,), holds=(Hold("a", 9),)), SENDS_BACK) == NOTHING


WIDE, NEXT = job("wide", 0.0, 3, "a"), job("next", 500.0, 1, "a")


def test_who_is_passed_over_must_be_due_and_may_be_late_already():
    """Two GPUs, due are jobs of three and of one: the narrow one may go first only if the wide is late."""
    wants = state_of(600.0, 2, QUOTAS, (Known(WIDE), Known(NEXT)), ())
    assert rules(wants, starts(NEXT)) != []
    assert rules(wants, starts(NEXT, late=(WIDE,))) == []
    assert rules(wants, starts(NEXT, late=(WIDE, BEYOND))) == [PlanRule.PASSED_OVER_BUT_NOT_LATE]
    soon = state_of(50.0, 2, QUOTAS, (Known(WIDE),), ())
    assert rules(soon, Plan(late=(WIDE,))) == [PlanRule.PASSED_OVER_BUT_NOT_LATE], "50 s are no delay"


LATE = [job("late1", 0.0, 2, "a"), job("late2", 1.0, 2, "b")]
AHEAD, BEHIND = job("ahead", 2.0, 4, "c"), job("behind", 3.0, 4, "a")
SCARCE = state_of(102.0, 6, {"a": 4, "b": 4, "c": 3}, tuple(map(Known, (*LATE, AHEAD, BEHIND))), ())
BY_REFERENCE = replace(SENDS_BACK, serves_by_reference=True)


@pytest.mark.parametrize("options", [SENDS_BACK, BY_REFERENCE])
@pytest.mark.parametrize("guest", [AHEAD, BEHIND])
def test_late_is_no_excuse_for_lending_what_the_late_could_have(options, guest):
    """Six GPUs are idle, two jobs of two are due and called late: neither may wait for a guest of four."""
    plan = starts(guests=(guest,), late=tuple(LATE))
    lent, fits = PlanRule.LENT_WHILE_DUE_JOB_WAITS, PlanRule.PASSED_OVER_BUT_WOULD_FIT
    if options is SENDS_BACK:
        assert rules(SCARCE, plan, options) == [lent, fits, fits]
    else:  # the two that are left idle may be kept for the head of line a, but not if that is the guest
        assert rules(SCARCE, plan, options) == ([lent] if guest is AHEAD else [fits, fits])


def test_late_is_no_excuse_for_idle_gpus():
    assert rules(SCARCE, Plan(late=tuple(LATE))) == [PlanRule.PASSED_OVER_BUT_WOULD_FIT] * 2
    assert rules(SCARCE, starts(LATE[0], late=(LATE[1],))) == [PlanRule.PASSED_OVER_BUT_WOULD_FIT]
    assert rules(SCARCE, starts(*LATE, late=tuple(LATE))) == [], "who starts is not passed over"


def test_idle_gpus_may_be_kept_for_who_is_not_late_and_needs_more():
    wide, narrow = job("wide", 90.0, 4, "b"), job("narrow", 0.0, 2, "a")
    lacking = state_of(102.0, 3, QUOTAS, (Known(narrow), Known(wide)), ())
    assert rules(lacking, Plan(late=(narrow,))) == []
    assert rules(lacking, Plan(late=(narrow, wide))) != []


def test_where_gpus_are_too_few_the_head_of_a_line_may_take_its_turn_before_the_late():
    """The reference may have started it: its pool has a due job, and all before it are due or late."""
    turn = starts(LATE[0], guests=(BEHIND,), late=(LATE[1],))
    assert rules(SCARCE, turn, BY_REFERENCE) == []
    assert rules(SCARCE, turn) == [PlanRule.LENT_WHILE_DUE_JOB_WAITS], "only if the policy serves so"
    before = Known(job("before", 60.0, 3, "a"))
    line = tuple(map(Known, LATE))
    overtaken = state_of(102.0, 6, QUOTAS, (*line, before, Known(BEHIND)), ())
    assert rules(overtaken, turn, BY_REFERENCE) == [PlanRule.LENT_WHILE_DUE_JOB_WAITS]
    too_late = replace(overtaken, now_s=130.0)
    assert rules(too_late, turn, BY_REFERENCE) == [], "who is late by a minute may be passed over"


def test_whoever_is_late_on_nodes_without_a_place_is_left_behind():
    """Two GPUs are idle, one on each node: a gang of two has no place, a guest of one may go before it."""
    line = (own(OWN), own(job("also", 0.0, 3, "b"), 0, "n2"), Known(LATE[1]), Known(GUEST))
    before = replace(state(*line, nodes=NODES), now_s=102.0, quotas={"a": 3, "b": 5})
    plan = placed(starts(guests=(GUEST,), late=(LATE[1],)), (GUEST, gpus("n1", 3, 1)))
    assert rules(before, plan) == []


def test_what_is_left_starts_whom_nobody_overtakes():
    """Without its guest the plan leaves GPUs to who was passed over: he is not, and is asked for again."""
    later = job("later", 100.0, 2, "a")
    line = tuple(map(Known, (LATE[0], later, AHEAD)))
    before = state_of(102.0, 6, {"a": 4, "b": 4, "c": 3}, line, ())
    plan = starts(later, guests=(AHEAD,), late=(LATE[0],))
    assert rules(before, plan) == [PlanRule.LENT_WHILE_DUE_JOB_WAITS]
    assert lawful_part(before, plan, SENDS_BACK) == NOTHING


def test_what_is_left_passes_over_who_is_late():
    wants = state_of(600.0, 2, QUOTAS, (Known(WIDE), Known(NEXT)), ())
    faulty = starts(NEXT, OTHER, late=(WIDE, BEYOND))
    assert lawful_part(wants, faulty, SENDS_BACK) == starts(NEXT, late=(WIDE,))


def test_a_fault_says_who_and_what():
    (fault,) = check_plan(state(Known(DUE), idle=0), starts(DUE))
    assert (fault.job_id, fault.pool) == ("due", "a")
    assert str(fault) == ("more-gpus-than-idle: job due of pool a is to start on 1 GPUs, 0 are left by then")


def test_every_rule_is_in_the_docs():
    page = (REPOSITORY / "docs" / "plan-checks.md").read_text(encoding="utf-8")
    assert [rule for rule in PlanRule if f"`{rule}`" not in page] == []


# Moves.


def test_who_is_suspended_may_start_again_at_once_on_other_gpus():
    mover, stays = job("mover", 0.0, 2, "a"), job("stays", 0.0, 2, "a")
    line = state(own(mover, 0, "n2"), own(stays, 2, "n2"), nodes=NODES, idle=4)
    moves = replace(placed(starts(mover), (mover, gpus("n1", 0, 2))), suspends=(mover,))
    suspends = PlanOptions(has_own_lanes=False, may_suspend=True)
    assert rules(line, moves, suspends) == []
    in_use = replace(placed(starts(mover), (mover, gpus("n2", 2, 2))), suspends=(mover,))
    assert rules(line, in_use, suspends) == [PlanRule.GPU_IN_USE]
    assert PlanRule.SUSPENDED_BUT_MAY_NOT_BE in rules(line, moves, replace(suspends, may_suspend=False))
    assert PlanRule.NAMED_TWICE in rules(line, replace(moves, starts=moves.starts * 2), suspends)
    assert PlanRule.NAMED_TWICE in rules(line, replace(moves, suspends=(mover, mover)), suspends)


def test_who_is_sent_back_does_not_start_again_at_once():
    moves = replace(starts(guests=(GUEST,)), send_backs=(GUEST,))
    assert PlanRule.NAMED_TWICE in rules(state(own(OWN), guest(GUEST, 3)), moves)
