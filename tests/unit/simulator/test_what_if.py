"""What-ifs over small histories: figures, intervals, futures, who wins, and the same bytes each time."""

import json
import math

import numpy as np
import pytest
from support import run as run_policy

from data.history import History, from_jobs
from domain.changes import World
from domain.changes.base import QuietTime
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome
from domain.measures import quantile
from domain.questions import Futures, Question, question_from, world_from, world_to_json
from simulator.quiet import QuietTimes
from simulator.replay import replay
from simulator.report import describe, reference_of
from simulator.what_if.answer import answer
from simulator.what_if.courses import courses_of
from simulator.what_if.figures import figures_of, scope_of
from simulator.what_if.intervals import range_level, rank_of
from simulator.what_if.lived import live
from simulator.workload import make_workload

DAY_S = 86_400.0
WORLD = World({"a": 4, "b": 4}, "reclaim", {"requeueable": "1"})


def history(days=8, per_day=30):
    """Two pools that are busy in turns."""
    jobs, outcomes = [], {}
    for number in range(days * per_day):
        day, place = divmod(number, per_day)
        submit_s = day * DAY_S + 1000.0 + place * 97.0 + (40_000.0 if place % 3 == 0 else 0.0)
        pool = "ab"[(day + place % 2) % 2]
        job = Job(f"j{number:04}", pool, submit_s, 1 + number % 4, user=f"u{number % 5}")
        jobs.append(job)
        outcomes[job.job_id] = JobOutcome(job.job_id, 300.0 + (number * 7919 % 13) * 400.0)
    return from_jobs(jobs, outcomes)


FRAME = history()


def ask(changes, frame=FRAME, world=WORLD, **more):
    question = Question(changes, **{"days": 4.0, "seed": 5, **more})
    return answer(frame, {"base": world_to_json(world), "question": question.to_json(), "origin": None})


def test_the_figures_of_a_world_are_those_of_a_replay():
    answered = ask(
        [{"kind": "quota", "pool": "a", "by_gpus": 2, "from": "b"}],
        world=World({"a": 4, "b": 6}, "reclaim", {"requeueable": "1"}),
        warm_up_days=0.0,
    )
    newest_s = float(FRAME["submit_s"].max())
    for quotas, found in (({"a": 4, "b": 6}, answered["baseline"]), ({"a": 6, "b": 4}, answered["changed"])):
        workload = make_workload(
            History(FRAME, (), (), "x"),
            quotas,
            train_until_s=newest_s - 4 * DAY_S,
            eval_from_s=newest_s - 4 * DAY_S,
        )
        report = describe(workload, replay(workload, "reclaim", {"requeueable": "1"}), reference_of(workload))
        for name in (
            "mean_jct_s",
            "median_jct_s",
            "p95_jct_s",
            "mean_queue_delay_s",
            "p99_queue_delay_s",
            "requeues",
        ):
            assert found[name] == pytest.approx(report[name]), name
        for name in (
            "speedup_ratio_of_means",
            "speedup_geomean",
            "slowed_jobs",
            "slowed_pct",
            "slowed_max_min",
        ):
            assert found[f"{name}_vs_fcfs"] == pytest.approx(report["against_fcfs"][name]), name
        for name in ("utilisation_pct", "lent_gpu_hours", "lost_gpu_hours"):
            assert found[name] == pytest.approx(report["use"][name]), name
    assert answered["baseline"]["requeues"] > 0
    assert answered["faults"] == {"baseline": 0, "changed": 0}
    assert sum(pool["baseline"]["jobs"] for pool in answered["pools"]) == answered["baseline"]["jobs"]
    assert sum(pool["changed"]["requeues"] for pool in answered["pools"]) == answered["changed"]["requeues"]


@pytest.mark.parametrize("futures", [None, Futures(3, 2, 5)])
def test_a_change_that_changes_nothing_differs_in_nothing_for_sure(futures):
    answered = ask([{"kind": "quota", "pool": "a", "by_gpus": 0}], futures=futures)
    assert set(answered["difference"].values()) == {0.0}
    assert {edge for one in answered["intervals"].values() for edge in one.values()} == {0.0}
    assert answered["who"]["jobs"] == {"won": [], "lost": []}
    assert answered["units"]["number"] == (4 if futures is None else 3)


def test_less_of_a_pool_is_a_loss_for_it_and_the_interval_says_how_sure():
    answered = ask([{"kind": "quota", "pool": "a", "gpus": 4}, {"kind": "arrivals", "pool": "b", "times": 0}])
    wait = answered["intervals"]["mean_jct_s"]
    assert wait["low"] <= wait["high"]
    (a, b) = answered["pools"]
    assert (b["changed"]["jobs"], b["changed"]["mean_jct_s"]) == (0, None)
    assert a["changed"]["mean_queue_delay_s"] <= a["baseline"]["mean_queue_delay_s"]
    assert {row["name"] for row in answered["who"]["pools"]} == {"a"}
    assert {row["name"] for row in answered["who"]["widths"]} == {"1", "2", "3-4"}
    won = answered["who"]["jobs"]["won"]
    assert won == sorted(won, key=lambda row: row["change_s"])
    json.dumps(answered, allow_nan=False)


def test_the_same_question_has_the_same_bytes_and_another_seed_other_futures():
    changes = [{"kind": "arrivals", "pool": "a", "times": 1.5}]
    one, two = (json.dumps(ask(changes, futures=Futures(2, 2, 6)), sort_keys=True) for _ in range(2))
    assert one == two
    assert json.dumps(ask(changes, futures=Futures(2, 2, 6), seed=6), sort_keys=True) != one


def test_futures_are_past_days_at_the_same_hour():
    question = Question(futures=Futures(4, 3, 5, block_days=2), seed=1, warm_up_days=1.0)
    newest_s = float(FRAME["submit_s"].max())
    source = dict(zip(FRAME["job_id"], FRAME["submit_s"], strict=True))
    courses = courses_of(FRAME, question)
    assert len(courses) == 4
    assert len({tuple(one.source_id for one in course.jobs) for course in courses}) > 1
    for course in courses:
        assert course.span.from_s == newest_s + DAY_S
        assert course.span.to_s == newest_s + 4 * DAY_S
        for one in course.jobs:
            assert newest_s < one.job.submit_s <= course.span.to_s
            moved_s = one.job.submit_s - source[one.source_id]
            assert moved_s / DAY_S == pytest.approx(round(moved_s / DAY_S))
            assert newest_s - source[one.source_id] < 5 * DAY_S
    assert courses_of(FRAME, question) == courses


def test_draws_weigh_units_as_if_their_jobs_were_there_so_often():
    (course,) = courses_of(FRAME, Question(days=3.0))
    lived = live(course, WORLD, course.jobs, 0)
    scope = scope_of([lived], [4, 4], None, is_per_unit=False)
    draws = np.array([[1, 1, 1], [3, 0, 0], [0, 1, 2]])
    found = figures_of(scope, draws)
    for row, weights in enumerate(draws.tolist()):
        waits = [
            wait
            for wait, unit in zip(lived.wait_s.tolist(), lived.units.tolist(), strict=True)
            for _ in range(weights[unit])
        ]
        assert found["mean_queue_delay_s"][row] == pytest.approx(math.fsum(waits) / len(waits))
        assert found["p99_queue_delay_s"][row] == pytest.approx(quantile(waits, 0.99))


def test_the_range_holds_one_more_value_as_often_as_it_says():
    assert [round(range_level(number)) for number in (1, 4, 9, 19, 99)] == [0, 60, 80, 80, 80]
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(4000, 20))
    known = np.sort(values[:, :19], axis=1)
    rank = rank_of(19)
    is_in = (known[:, rank - 1] <= values[:, 19]) & (values[:, 19] <= known[:, -rank])
    assert 100 * is_in.mean() == pytest.approx(range_level(19), abs=2.5)


def test_nobody_is_lent_to_in_a_quiet_time_and_it_is_decided_when_it_ends():
    jobs = [Job("own", "a", 0.0, 1), Job("guest", "a", 1.0, 1), Job("later", "a", 200.0, 1)]
    lives = {"own": 5000.0, "guest": 50.0, "later": 50.0}
    assert (
        dict(run_policy("reclaim", jobs, lives, {"a": 1, "b": 2}, requeueable="1").first_starts())["guest"]
        == 1.0
    )
    frame = from_jobs(jobs, {job_id: JobOutcome(job_id, life) for job_id, life in lives.items()})
    workload = make_workload(
        History(frame, (), (), "x"), {"a": 1, "b": 2}, train_until_s=0.0, eval_from_s=0.0
    )
    quiet = (QuietTime(0.0, 100.0), QuietTime(50.0, 150.0))
    done = replay(workload, "reclaim", {"requeueable": "1"}, quiet=quiet)
    starts = done.schedule.first_starts()
    assert starts == {"own": 0.0, "guest": 150.0, "later": 200.0}
    with pytest.raises(SettingError, match="knows no guests"):
        replay(workload, "maxmin", {}, quiet=quiet)
    assert QuietTimes(quiet).end_s(150.0) == math.inf


def test_jobs_that_could_not_start_in_one_of_the_worlds_are_left_out_of_both():
    answered = ask([{"kind": "quota", "pool": "a", "gpus": 3}])
    assert answered["excluded"]["by_pool"][0]["pool"] == "a"
    assert answered["baseline"]["jobs"] == answered["changed"]["jobs"]


@pytest.mark.parametrize(
    ("frame", "more", "words"),
    [
        (FRAME.iloc[:0], {}, "import its history first"),
        (FRAME.assign(num_gpus=99), {}, "ask for more days"),
        (FRAME, {"changes": [{"kind": "leave_out", "min_gpus": 1}]}, "no job is left to measure"),
    ],
)
def test_without_jobs_there_is_no_answer(frame, more, words):
    with pytest.raises(SettingError, match=words):
        ask(**{"changes": [{"kind": "quota", "pool": "a", "gpus": 5}], "frame": frame, **more})


def test_questions_and_worlds_survive_json():
    question = Question([{"kind": "quota"}], 2.0, 0.0, Futures(2, half_life_days=3.5), 9, 1.5)
    assert question_from(json.loads(json.dumps(question.to_json()))) == question
    world = World({"a": 1}, "fcfs", {"x": "1"}, (), (QuietTime(0.0, 1.0),), False)
    assert world_from(json.loads(json.dumps(world_to_json(world)))) == world
    for said in (
        {"days": 0},
        {"seed": -1},
        {"nix": 1},
        {"futures": {"count": 1.5}},
        {"futures": {"nix": 1}},
        {"futures": 3},
    ):
        with pytest.raises(SettingError):
            question_from(said)
