"""The own lane, guests and conversion, and the rules for real life on that side."""

import pytest
from support import job

from solver.lane import Lanes


def ids(jobs):
    return [j.job_id for j in jobs]


def lanes_with(*jobs, quotas=None):
    lanes = Lanes(quotas or {"a": 2, "b": 2})
    for one in jobs:
        lanes.submitted(one)
    return lanes


def test_own_jobs_are_due_until_they_are_seen_to_run():
    one = job("one")
    lanes = lanes_with(one)
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["one"]
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["one"], "an ignored decision is offered again"
    lanes.started(one)
    assert lanes.due_in_order() == []
    assert not lanes.guests


def test_a_guest_becomes_own_without_moving_when_the_lane_reaches_it():
    wide, later = job("wide", num_gpus=2), job("zlater")
    lanes = lanes_with(wide, later)
    lanes.advance()
    lanes.started(wide)
    lanes.started(later)
    assert ids(lanes.guests.values()) == ["zlater"]
    lanes.ended(wide)
    assert ids(lanes.advance()) == ["zlater"]
    assert not lanes.guests
    assert lanes.own_gpus() == 1


def test_a_guest_sent_back_keeps_its_place():
    wide, first, second = job("wide", num_gpus=2), job("x1"), job("x2")
    lanes = lanes_with(wide, first, second)
    lanes.advance()
    lanes.started(wide)
    lanes.started(first)
    lanes.sent_back(first)
    lanes.ended(wide)
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["x1", "x2"]


def test_an_own_job_that_was_stopped_all_the_same_is_due_again():
    own = job("own")
    lanes = lanes_with(own)
    lanes.advance()
    lanes.started(own)
    lanes.sent_back(own)
    assert ids(lanes.due_in_order()) == ["own"]
    assert lanes.own_gpus() == 1


def test_jobs_that_were_own_before_are_own_whatever_the_quota_and_drain():
    lanes = Lanes({"a": 2}, own=("wide", "x2"))
    head, wide, second = job("head"), job("wide", num_gpus=2), job("x2")
    for one in (head, wide, second):
        lanes.submitted(one)
    lanes.started(wide)
    lanes.started(second)
    assert lanes.advance() == []
    assert not lanes.guests
    assert lanes.own_gpus() == 3
    lanes.ended(wide)
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["head"]


def test_a_guest_that_ends_or_is_cancelled_leaves_the_line():
    wide, guest, behind = job("wide", num_gpus=2), job("x1"), job("x2", num_gpus=2)
    lanes = lanes_with(wide, guest, behind)
    lanes.advance()
    lanes.started(wide)
    lanes.started(guest)
    lanes.ended(guest)
    lanes.ended(wide)
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["x2"]


def test_a_job_wider_than_its_pool_is_refused_at_submit():
    with pytest.raises(ValueError, match="quota of pool a is 2"):
        lanes_with(job("wide", num_gpus=3))


def test_a_job_too_wide_after_a_cut_has_no_promise_and_does_not_block():
    runs, wide, narrow = job("runs", num_gpus=2), job("wide", num_gpus=2), job("zn")
    lanes = lanes_with(runs, wide, narrow)
    lanes.advance()
    lanes.started(runs)
    assert ids(lanes.set_quota("a", 1)) == ["wide"]
    assert ids(lanes.without_promise.values()) == ["wide"]
    lanes.ended(runs)
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["zn"]


def test_a_requeue_by_the_user_is_a_new_job_at_the_tail():
    first, second = job("x1", num_gpus=2), job("x2", num_gpus=2)
    lanes = lanes_with(first, second)
    lanes.advance()
    lanes.started(first)
    lanes.requeued(first, job("x1-again", submit_s=5.0, num_gpus=2))
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["x2"]


def test_a_lost_node_puts_own_jobs_at_the_head_and_guests_at_their_place():
    own, waiting, guest = job("own", num_gpus=2), job("x1"), job("x2")
    lanes = lanes_with(own, waiting, guest)
    lanes.advance()
    lanes.started(own)
    lanes.started(guest)
    lanes.node_lost([(own, job("own-again", submit_s=9.0, num_gpus=2))], [guest])
    lanes.advance()
    assert ids(lanes.due_in_order()) == ["own-again"]
    assert not lanes.guests
    assert ids(lanes.line("a").waiting.values()) == ["x1", "x2"]
