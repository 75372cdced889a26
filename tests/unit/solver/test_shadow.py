"""The live reference, rule by rule."""

import pytest
from support import job

from solver.shadow import Shadow


def test_it_is_known_in_time_while_reality_is_ahead():
    """Pool of one GPU: x2 runs at once on lent GPUs and ends before its reference start."""
    x1, x2, x3 = job("x1"), job("x2"), job("x3")
    shadow = Shadow({"a": 1})
    for one in (x1, x2, x3):
        shadow.submitted(one, 0.0)
        shadow.started(one, 0.0)
    shadow.ended(x2, 5.0)
    shadow.ended(x1, 10.0)
    shadow.advance(12.0)
    assert shadow.exact_start_s(x2) == 10.0
    assert shadow.exact_start_s(x3) is None
    shadow.advance(15.0)
    assert shadow.exact_end_s(x2) == 15.0
    assert shadow.exact_start_s(x3) == shadow.early_start_s(x3) == 15.0


def test_a_job_that_is_behind_is_taken_to_end_by_the_early_reference_and_waited_for_by_the_exact_one():
    x1, x2 = job("x1"), job("x2")
    shadow = Shadow({"a": 1})
    shadow.submitted(x1, 0.0)
    shadow.submitted(x2, 0.0)
    shadow.advance(3.0)
    assert shadow.exact_start_s(x1) == 0.0
    assert shadow.early_start_s(x2) == 0.0
    shadow.started(x1, 4.0)
    shadow.advance(20.0)
    assert shadow.exact_start_s(x2) is None
    shadow.ended(x1, 24.0)
    shadow.advance(24.0)
    assert shadow.exact_start_s(x2) == 20.0


def test_lost_work_uses_up_the_slack_and_then_the_job_is_behind():
    """x2 starts 10 s early at half speed: it is level with its reference 20 s after its start."""
    x1, x2, x3 = job("x1"), job("x2"), job("x3")
    shadow = Shadow({"a": 1})
    for one in (x1, x2, x3):
        shadow.submitted(one, 0.0)
    shadow.started(x1, 0.0)
    shadow.started(x2, 0.0, rate=0.5)
    shadow.ended(x1, 10.0)
    shadow.advance(20.0)
    assert shadow.early_start_s(x3) is None
    shadow.advance(21.0)
    assert shadow.early_start_s(x3) == 20.0
    assert shadow.exact_start_s(x3) is None
    shadow.rate_changed(x2, 30.0, 1.0)
    shadow.ended(x2, 40.0)
    shadow.advance(40.0)
    assert shadow.exact_end_s(x2) == 35.0, "15 s of work at half and 10 s at full speed, from 10 s on"
    assert shadow.exact_start_s(x3) == 35.0


def test_failure_limit_and_kill_while_running_count_the_work_done():
    x1, x2 = job("x1"), job("x2")
    shadow = Shadow({"a": 1})
    for one in (x1, x2):
        shadow.submitted(one, 0.0)
        shadow.started(one, 0.0)
    shadow.ended(x2, 3.0)
    shadow.ended(x1, 8.0)
    shadow.advance(11.0)
    assert (shadow.exact_start_s(x2), shadow.exact_end_s(x2)) == (8.0, 11.0)


def test_a_cancelled_guest_leaves_the_reference_at_once():
    x1, guest, x3 = job("x1"), job("guest"), job("x3")
    shadow = Shadow({"a": 1})
    for one in (x1, guest, x3):
        shadow.submitted(one, 0.0)
        shadow.started(one, 0.0)
    shadow.cancelled(guest, 4.0)
    shadow.ended(x1, 10.0)
    shadow.advance(10.0)
    assert shadow.exact_start_s(guest) is None
    assert shadow.exact_start_s(x3) == 10.0


def test_a_kill_of_a_job_that_the_reference_runs_counts_the_work_done():
    x1, x2 = job("x1"), job("x2")
    shadow = Shadow({"a": 1})
    for one in (x1, x2):
        shadow.submitted(one, 0.0)
    shadow.started(x1, 0.0)
    shadow.cancelled(x1, 4.0)
    shadow.advance(4.0)
    assert shadow.exact_start_s(x2) == 4.0


def test_a_job_cancelled_while_it_waits_longer_than_in_the_reference_ends_there_now():
    x1, x2 = job("x1"), job("x2")
    shadow = Shadow({"a": 1})
    for one in (x1, x2):
        shadow.submitted(one, 0.0)
    shadow.advance(3.0)
    shadow.cancelled(x1, 5.0)
    shadow.advance(6.0)
    assert shadow.exact_end_s(x1) == 5.0
    assert shadow.exact_start_s(x2) == 5.0


def test_a_guest_sent_back_does_not_move_the_reference():
    x1, x2 = job("x1"), job("x2")
    shadow = Shadow({"a": 1})
    for one in (x1, x2):
        shadow.submitted(one, 0.0)
        shadow.started(one, 0.0)
    shadow.sent_back(x2, 6.0)
    shadow.started(x2, 7.0)
    shadow.ended(x1, 10.0)
    shadow.ended(x2, 27.0)
    shadow.advance(30.0)
    assert (shadow.exact_start_s(x2), shadow.exact_end_s(x2)) == (10.0, 30.0)


def test_a_requeue_by_the_user_is_a_new_job_at_the_tail():
    x1, x2, again = job("x1"), job("x2"), job("x1-again", submit_s=4.0)
    shadow = Shadow({"a": 1})
    shadow.submitted(x1, 0.0)
    shadow.submitted(x2, 0.0)
    shadow.started(x1, 0.0)
    shadow.requeued(x1, again, 4.0)
    shadow.advance(4.0)
    assert shadow.exact_start_s(x2) == 4.0
    shadow.started(x2, 4.0)
    shadow.ended(x2, 9.0)
    shadow.advance(9.0)
    assert shadow.exact_start_s(again) == 9.0


def test_a_lost_node_makes_own_jobs_new_ones_at_the_head():
    own, waiting, again = job("own"), job("waiting"), job("own-again", submit_s=4.0)
    shadow = Shadow({"a": 1})
    shadow.submitted(own, 0.0)
    shadow.submitted(waiting, 0.0)
    shadow.started(own, 0.0)
    shadow.node_lost([(own, again)], [], 4.0)
    shadow.advance(4.0)
    assert shadow.exact_start_s(again) == 4.0
    assert shadow.exact_start_s(waiting) is None


def test_quotas_rise_at_once_and_drain_after_a_cut():
    jobs = [job(f"x{k}") for k in range(4)]
    shadow = Shadow({"a": 1})
    for one in jobs:
        shadow.submitted(one, 0.0)
    shadow.started(jobs[0], 0.0)
    shadow.set_quota("a", 2, 5.0)
    shadow.advance(5.0)
    assert shadow.exact_start_s(jobs[1]) == 5.0
    shadow.started(jobs[1], 5.0)
    shadow.set_quota("a", 1, 6.0)
    shadow.ended(jobs[0], 7.0)
    shadow.advance(7.0)
    assert shadow.exact_start_s(jobs[2]) is None, "the cut drains first"
    shadow.ended(jobs[1], 8.0)
    shadow.advance(8.0)
    assert shadow.exact_start_s(jobs[2]) == 8.0


def test_too_wide_for_its_pool_has_no_reference():
    with pytest.raises(ValueError, match="wider than the quota"):
        Shadow({"a": 1}).submitted(job("wide", num_gpus=2), 0.0)


def test_too_wide_after_a_cut_leaves_the_line_and_never_blocks_it():
    runs, wide, narrow = job("runs", num_gpus=2), job("wide", num_gpus=2), job("zn")
    shadow = Shadow({"a": 2})
    for one in (runs, wide, narrow):
        shadow.submitted(one, 0.0)
    shadow.started(runs, 0.0)
    shadow.set_quota("a", 1, 3.0)
    shadow.ended(runs, 5.0)
    shadow.advance(5.0)
    assert shadow.exact_start_s(wide) is None
    assert shadow.exact_start_s(narrow) == 5.0


def test_a_held_job_is_submitted_when_it_becomes_eligible():
    held = job("held", submit_s=9.0)
    shadow = Shadow({"a": 1})
    shadow.submitted(held, 9.0)
    shadow.advance(9.0)
    assert shadow.exact_start_s(held) == 9.0


def test_facts_out_of_order_are_refused():
    shadow = Shadow({"a": 1})
    shadow.advance(5.0)
    with pytest.raises(ValueError, match="in the order of their instants"):
        shadow.submitted(job("late"), 4.0)


def test_the_exact_reference_is_settled_up_to_the_delay_of_the_job_that_is_furthest_behind():
    shadow = Shadow({"a": 2, "b": 1})
    first, second = job("first"), job("second")
    for one in (first, second):
        shadow.submitted(one, 0.0)
    shadow.advance(50.0)
    assert shadow.exact_settled_s("a") == 0.0, "both should run and do not"
    shadow.started(first, 60.0)
    shadow.started(second, 100.0)
    shadow.advance(500.0)
    assert shadow.exact_settled_s("a") == 400.0
    assert shadow.exact_settled_s("b") == 500.0
    shadow.ended(second, 500.0)
    shadow.advance(501.0)
    assert shadow.exact_settled_s("a") == 441.0
