"""A what-if over a small history whose effect is known."""

import json

import pytest

from app.children.what_if import compare, without_impossible
from data.history import from_jobs
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome

DAY_S = 86_400.0


def history(*rows):
    """Rows are (id, pool, submit_s, num_gpus, duration_s)."""
    jobs = [Job(job_id, pool, submit_s, width) for job_id, pool, submit_s, width, _ in rows]
    return from_jobs(jobs, {row[0]: JobOutcome(row[0], row[4]) for row in rows})


def world(a, b, policy="fcfs", **settings):
    return {"quotas": [["a", a], ["b", b]], "policy": policy, "settings": settings}


def ask(frame, baseline, changed, days=1.0):
    return compare(
        frame,
        {"baseline": baseline, "changed": changed, "days": days, "seed": 0, "question_sha256": "0" * 64},
    )


TWO_AT_ONCE = history(
    ("old", "a", 0.0, 1, 100.0),
    ("j1", "a", 10 * DAY_S, 1, 1000.0),
    ("j2", "a", 10 * DAY_S, 1, 1000.0),
    ("j3", "b", 10 * DAY_S, 2, 500.0),
)


def test_one_gpu_more_spares_the_second_job_its_wait():
    answered = ask(TWO_AT_ONCE, world(1, 3), world(2, 2))
    assert answered["baseline"]["mean_queue_delay_s"] == pytest.approx(1000 / 3)
    assert answered["changed"]["mean_queue_delay_s"] == 0
    assert answered["difference"]["mean_jct_s"] == pytest.approx(-1000 / 3)
    assert answered["baseline"]["quota_gpus"] == answered["changed"]["quota_gpus"] == 4
    (a, b) = answered["pools"]
    assert (a["pool"], a["baseline"]["mean_jct_s"], a["changed"]["mean_jct_s"]) == ("a", 1500.0, 1000.0)
    assert (a["baseline"]["jobs"], a["baseline"]["mean_queue_delay_s"]) == (2, 500.0)
    assert (b["baseline"]["mean_jct_s"], b["changed"]["mean_jct_s"]) == (500.0, 500.0)
    assert answered["window"] == {"from_s": 9 * DAY_S, "to_s": 10 * DAY_S, "jobs": 3}
    assert answered["jobs_learned_from"] == 1
    assert answered["excluded"] == {"jobs": 0, "by_pool": []}
    json.dumps(answered, allow_nan=False)


def test_jobs_that_do_not_fit_in_either_world_are_left_out_of_both():
    answered = ask(TWO_AT_ONCE, world(1, 3), world(3, 1))
    assert answered["excluded"] == {"jobs": 1, "by_pool": [{"pool": "b", "jobs": 1}]}
    assert [pool["baseline"]["jobs"] for pool in answered["pools"]] == [2, 0]
    assert [pool["changed"]["jobs"] for pool in answered["pools"]] == [2, 0]
    assert answered["pools"][1]["changed"]["mean_jct_s"] is None


def test_a_pool_that_is_gone_is_left_out():
    frame = history(("j1", "gone", 0.0, 1, 10.0), ("j2", "a", 0.0, 1, 10.0))
    kept, excluded = without_impossible(frame, 0.0, [{"a": 1, "b": 1}])
    assert kept["job_id"].tolist() == ["j2"]
    assert excluded == {"jobs": 1, "by_pool": [{"pool": "gone", "jobs": 1}]}


def test_another_policy_is_a_question_too():
    answered = ask(TWO_AT_ONCE, world(1, 3), world(1, 3, "maxmin"))
    assert answered["changed"]["mean_queue_delay_s"] < answered["baseline"]["mean_queue_delay_s"]


def test_a_pool_whose_jobs_may_be_requeued_lends_and_takes_back():
    frame = TWO_AT_ONCE.assign(requeue_u=0.0)
    answered = ask(frame, world(1, 3), world(1, 3, "reclaim"))
    assert answered["changed"]["mean_queue_delay_s"] == 0


def test_the_same_question_has_the_same_answer_and_says_what_it_rests_on():
    one, two = (ask(TWO_AT_ONCE, world(1, 3), world(2, 2)) for _ in range(2))
    assert one == two
    other = ask(TWO_AT_ONCE.assign(user="x"), world(1, 3), world(2, 2))
    assert other["inputs"]["jobs_sha256"] != one["inputs"]["jobs_sha256"]


def test_without_jobs_there_is_no_answer():
    with pytest.raises(SettingError, match="import its history first"):
        ask(TWO_AT_ONCE.iloc[:0], world(1, 3), world(2, 2))
    with pytest.raises(SettingError, match="ask for more days"):
        ask(history(("wide", "a", 0.0, 9, 10.0)), world(1, 3), world(2, 2))
