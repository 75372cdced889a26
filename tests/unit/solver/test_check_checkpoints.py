"""The judge of schedules on guests that go on from a checkpoint."""

import pytest

from domain.jobs import Job
from domain.schedules import Stretch
from solver.check import CheckOptions, Rule, check

JOB = Job("a1", "A", 0.0, 3, requeue_u=0.5, checkpoint_s=20.0)
SOME = CheckOptions(requeueable_share=0.6)
LAST = Stretch("a1", 200.0, 260.0)


def guest(start_s, end_s, **more):
    return Stretch("a1", start_s, end_s, is_guest=True, **more)


def rules(stretches, options=SOME, job=JOB):
    faults = check([job], {"a1": 100.0}, {"A": 4}, stretches, options=options).faults
    return [fault.rule for fault in faults]


KEPT = guest(100.0, 150.0, rate=0.8, is_stopped=True)


@pytest.mark.parametrize(
    "stretches",
    [
        [KEPT, LAST],
        [guest(0.0, 10.0, is_lost=True), KEPT, LAST],
        [KEPT, guest(160.0, 175.0, rate=1e-9, is_stopped=True), LAST],
        [KEPT, guest(150.0, 150.0, rate=1e-9, is_stopped=True), Stretch("a1", 150.0, 210.0)],
        [guest(0.0, 60.0 - 1e-9, rate=1.0, is_stopped=True), Stretch("a1", 70.0, 110.0)],
    ],
    ids=["kept", "lost before", "nothing kept after", "no time at all", "rounding"],
)
def test_what_was_saved_may_be_kept(stretches):
    assert rules(stretches) == []


@pytest.mark.parametrize(
    ("stretches", "options", "rule"),
    [
        ([guest(100.0, 150.0, rate=0.8), LAST], SOME, Rule.INTERRUPTED),
        ([KEPT, Stretch("a1", 200.0, 230.0), Stretch("a1", 240.0, 270.0)], SOME, Rule.INTERRUPTED),
        ([KEPT, LAST], CheckOptions(requeueable_share=0.5), Rule.LOST_BUT_NOT_REQUEUEABLE),
        ([KEPT._replace(own_from_s=120.0), LAST], SOME, Rule.OWN_ATTEMPT_LOST),
        ([KEPT._replace(is_guest=False), LAST], SOME, Rule.OWN_ATTEMPT_LOST),
        ([KEPT, guest(160.0, 170.0, is_lost=True), LAST], SOME, Rule.LOST_AFTER_FINAL_START),
        ([KEPT._replace(rate=1.0), Stretch("a1", 200.0, 250.0)], SOME, Rule.KEPT_WHAT_WAS_NOT_SAVED),
        ([KEPT._replace(rate=0.4), Stretch("a1", 200.0, 280.0)], SOME, Rule.KEPT_WHAT_WAS_NOT_SAVED),
        ([guest(0.0, 50.0, is_lost=True), Stretch("a1", 60.0, 160.0)], SOME, Rule.KEPT_WHAT_WAS_NOT_SAVED),
        ([KEPT, Stretch("a1", 200.0, 250.0)], SOME, Rule.ENDS_BEFORE_WORK_IS_DONE),
        ([KEPT, Stretch("a1", 200.0, 270.0)], SOME, Rule.RUNS_ON_AFTER_WORK_IS_DONE),
        ([KEPT._replace(is_lost=True), LAST], SOME, Rule.MALFORMED_STRETCH),
    ],
)
def test_nothing_else_may_be(stretches, options, rule):
    assert rules(stretches, options) == [rule]


def test_a_job_that_was_stopped_last_never_ran_to_its_end():
    assert Rule.NEVER_RAN in rules([KEPT])


LOADS = Job("a1", "A", 0.0, 3, requeue_u=0.5, checkpoint_s=20.0, restart_s=8.0)
NET = guest(100.0, 150.0, rate=32.0 / 50.0, is_stopped=True)
"""40 s saved, 8 of which are loading."""


@pytest.mark.parametrize(
    "stretches",
    [
        [NET, Stretch("a1", 200.0, 268.0)],
        [guest(0.0, 19.0, is_lost=True), NET, Stretch("a1", 200.0, 268.0)],
        [NET, guest(160.0, 187.0, rate=1e-9, is_stopped=True), Stretch("a1", 200.0, 268.0)],
        [NET, guest(160.0, 188.0, rate=20.0 / 28.0, is_stopped=True), Stretch("a1", 200.0, 248.0)],
    ],
    ids=["loaded", "lost before", "loading and 19 s of work", "loading and 20 s of work"],
)
def test_what_was_saved_may_be_kept_less_the_time_to_load_it(stretches):
    assert rules(stretches, job=LOADS) == []


@pytest.mark.parametrize(
    "stretches",
    [
        [KEPT, LAST],
        [NET._replace(rate=31.0 / 50.0), Stretch("a1", 200.0, 269.0)],
        [NET, guest(160.0, 180.0, rate=1.0, is_stopped=True), Stretch("a1", 200.0, 248.0)],
        [guest(0.0, 30.0, is_lost=True), Stretch("a1", 200.0, 300.0)],
        [NET, guest(160.0, 188.0, rate=12.0 / 28.0, is_stopped=True), Stretch("a1", 200.0, 256.0)],
    ],
    ids=["loads in no time", "loads too long", "works while it loads", "keeps nothing", "pays twice"],
)
def test_a_schedule_that_lies_about_the_time_to_be_back_is_refused(stretches):
    assert rules(stretches, job=LOADS) == [Rule.KEPT_WHAT_WAS_NOT_SAVED]


def test_one_that_saved_no_more_than_loading_takes_starts_from_zero():
    slow = Job("a1", "A", 0.0, 3, requeue_u=0.5, checkpoint_s=20.0, restart_s=40.0)
    assert rules([guest(0.0, 50.0, is_lost=True), Stretch("a1", 60.0, 160.0)], job=slow) == []
    assert rules([KEPT, LAST], job=slow) == [Rule.KEPT_WHAT_WAS_NOT_SAVED]
