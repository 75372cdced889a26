"""What is left of a job, and what it is worth that it runs at a rate."""

import math

import pytest
from packed_worlds import ToldLives, make_nodes

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from solver.packing.books import PackingBooks, Rest
from solver.packing.floor import Floor
from solver.packing.worths import WORTHS

MEAN_S = 4000.0
EXPONENTIAL = Rest([math.exp(-edge_s / MEAN_S) for edge_s in LIFE_EDGES_S])


def job(job_id: str, width: int = 1, deadline_s: float | None = None) -> Job:
    return Job(job_id, "all", 0.0, width, deadline_s=deadline_s)


def books_of(lives_s: dict[str, float], *jobs: Job) -> PackingBooks:
    books = PackingBooks(Floor(make_nodes(1, 8)), ToldLives(lives_s))
    for one in jobs:
        books.submitted(one)
        books.started(one, 0.0)
    return books


@pytest.mark.parametrize("done_s", [0.0, 1000.0, 6000.0])
def test_an_exponential_life_has_as_much_left_at_any_age(done_s):
    assert EXPONENTIAL.mean_s(done_s) == pytest.approx(MEAN_S, rel=0.05)


def test_one_that_has_outlived_its_forecast_has_as_much_left_as_done():
    assert EXPONENTIAL.mean_s(80_000.0) == 80_000.0


def test_the_chance_to_end_is_conditional_on_age_and_on_the_most_it_may_take():
    given = EXPONENTIAL.chance_by(1000.0, 2000.0, 6000.0)
    at = [math.exp(-x / MEAN_S) for x in (1000.0, 3000.0, 6000.0)]
    assert given == pytest.approx((at[0] - at[1]) / (at[0] - at[2]), rel=0.02)
    assert EXPONENTIAL.chance_by(1000.0, 5000.0, 6000.0) == 1.0


def test_work_is_counted_at_the_rate_it_is_done():
    books = books_of({"a": 4000.0}, one := job("a"))
    books.rate_changed(one, 100.0, 0.5)
    assert books.done_s(one, 300.0) == 200.0
    books.sent_back(one, 300.0)
    assert books.done_s(one, 900.0) == 200.0
    books.started(one, 1000.0)
    assert books.done_s(one, 1010.0) == 210.0


def test_least_left_is_worth_most_to_the_mean():
    short, long = job("short"), job("long")
    worth = WORTHS["jct"](books_of({"short": 600.0, "long": 6000.0}, short, long))
    assert worth.of(short, 0.5, 0.0) > worth.of(long, 1.0, 0.0)
    assert worth.of(short, 0.5, 0.0) == pytest.approx(worth.of(short, 1.0, 0.0) / 2.0)


def test_width_counts_for_the_last_end_and_nothing_else():
    wide, narrow = job("wide", 4), job("narrow")
    worth = WORTHS["makespan"](books_of({"wide": 10.0, "narrow": 9000.0}, wide, narrow))
    assert worth.of(wide, 0.5, 0.0) == 2.0
    assert worth.of(narrow, 1.0, 5.0) == 1.0


def test_who_can_still_be_in_time_is_worth_more_than_who_cannot():
    in_time, late = job("in-time", deadline_s=9000.0), job("late", deadline_s=50.0)
    worth = WORTHS["deadline"](books_of({"in-time": 4000.0, "late": 4000.0}, in_time, late))
    assert worth.of(in_time, 1.0, 100.0) > 5.0 * worth.of(late, 1.0, 100.0)


def test_deadlines_say_more_about_lives_the_more_jobs_have_ended():
    early = [job(f"e{k}", deadline_s=4000.0) for k in range(20)]
    books = books_of({one.job_id: 1000.0 for one in early} | {"waits": 1000.0}, *early)
    assert books.usual_share() == 1.0
    for one in early:
        books.ended(one, 1000.0)
    assert books.usual_share() == pytest.approx((5.0 + 20 * 0.25) / 25.0)
    waits = job("waits", deadline_s=4000.0)
    books.submitted(waits)
    assert waits.job_id in books.pending
    books.ended(waits, 1100.0)
    assert books.usual_share() == pytest.approx(0.4), "who never ran needed nothing"
