"""The line: the longest prefix that fits."""

import pytest
from support import job

from solver.line import Line


def ids(jobs):
    return [j.job_id for j in jobs]


def test_the_longest_prefix_enters_and_the_first_that_does_not_fit_stops_the_rest():
    line = Line("a", 4)
    for k, width in enumerate((2, 1, 2, 1)):
        line.append(job(f"j{k}", num_gpus=width))
    assert ids(line.advance()) == ["j0", "j1"]
    line.remove("j0")
    assert ids(line.advance()) == ["j2", "j3"]
    assert line.used_gpus == 4


def test_removing_a_waiting_job_lets_those_behind_it_move_up():
    line = Line("a", 2)
    for name, width in (("one", 1), ("wide", 2), ("two", 1)):
        line.append(job(name, num_gpus=width))
    assert ids(line.advance()) == ["one"]
    line.remove("wide")
    assert ids(line.advance()) == ["two"]


def test_removing_what_is_not_there_changes_nothing():
    line = Line("a", 2)
    line.append(job("one"))
    line.remove("nobody")
    assert ids(line.advance()) == ["one"]


def test_a_job_wider_than_the_quota_is_refused_at_submit():
    with pytest.raises(ValueError, match="asks for 3 GPUs, the quota of pool a is 2"):
        Line("a", 2).append(job("wide", num_gpus=3))


def test_jobs_put_in_front_keep_their_order():
    line = Line("a", 1)
    line.append(job("waiting"))
    line.push_front([job("first"), job("second")])
    assert ids(line.waiting.values()) == ["first", "second", "waiting"]


def test_a_quota_cut_drains_and_puts_out_what_has_become_too_wide():
    line = Line("a", 4)
    for name, width in (("runs", 4), ("wide", 3), ("narrow", 1)):
        line.append(job(name, num_gpus=width))
    line.advance()
    assert ids(line.set_quota(2)) == ["wide"]
    assert line.advance() == []
    line.remove("runs")
    assert ids(line.advance()) == ["narrow"]


def test_a_raised_quota_counts_at_once():
    line = Line("a", 1)
    line.append(job("one"))
    line.append(job("two"))
    assert ids(line.advance()) == ["one"]
    line.set_quota(2)
    assert ids(line.advance()) == ["two"]
