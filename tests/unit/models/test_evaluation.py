"""The document of `antecast evaluate` on records whose scores are known."""

import math
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from data.history import from_frame
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from models.backtest import forecast, record_of
from models.demand.features import ENDED, STARTED, SUBMITTED
from models.demand.scoring import _facts
from models.evaluation.lives import BASELINES, evaluate_lives
from models.lifetime.baselines import LastTwo, PoolWidthMedian
from models.lifetime.empirical import EmpiricalLifetimes

DAY_S = 86_400.0


def job(job_id, num_gpus=1, **known):
    return Job(job_id, "a", 0.0, num_gpus, **known)


class Exponential:
    """Says the true distribution of lives that are exponential with a mean of an hour."""

    is_clairvoyant = False

    def quantile_s(self, _job, level):
        return -3600.0 * math.log(1.0 - level)

    def survival(self, _job):
        return tuple(math.exp(-edge / 3600.0) for edge in LIFE_EDGES_S)


class TooShort(Exponential):
    """The same with a mean of three minutes."""

    def quantile_s(self, _job, level):
        return super().quantile_s(_job, level) / 20.0


def history(number=3000, *, users=None):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "job_id": [f"j{k:05}" for k in range(number)],
            "pool": np.where(np.arange(number) % 3 == 0, "a", "b"),
            "submit_s": np.sort(rng.uniform(0, 10 * DAY_S, number)),
            "num_gpus": 1,
            "duration_s": rng.exponential(3600.0, number),
        }
    )
    if users:
        frame["user"] = [f"u{k}" for k in rng.integers(0, users, number)]
    return from_frame(frame, source="generated").frame


def evaluated(frame, make=Exponential, cut_s=math.inf):
    return evaluate_lives(
        record_of(frame, cut_s), {"ours": make}, train_until_s=5 * DAY_S, eval_from_s=6 * DAY_S
    )


def test_the_true_distribution_is_found_to_be_calibrated():
    frame = history()
    found = evaluated(frame)
    scored = frame[frame["submit_s"] >= 6 * DAY_S]
    assert found["num_jobs"] == len(scored)
    assert found["coverage_80"] == pytest.approx(0.8, abs=0.03)
    assert found["beyond_90"] == pytest.approx(0.1, abs=0.02)
    for row in (one for one in found["levels"] if one["group"] == "all"):
        assert row["seen"] == pytest.approx(row["level"], abs=0.04)
    for row in found["tails"][:2]:
        assert row["seen"] == pytest.approx(row["said"], abs=0.06)
    assert found["c_index"] == pytest.approx(0.5)  # it tells no two jobs apart
    assert found["pinball"] < found["pinball_best_baseline"]
    assert set(found["models"]) == {"ours", *BASELINES}


def test_forecasts_that_are_too_short_are_found_out():
    found = evaluated(history(), TooShort)
    assert found["too_short_at_90"] == pytest.approx(math.exp(-1.0), abs=0.04)  # those beyond an hour
    assert found["coverage_80"] < 0.3
    assert found["beyond_90"] > 0.7
    assert found["groups"]["outside_70_90"] == 2
    assert {row["group"] for row in found["groups"]["pools"]} == {"a", "b"}


def test_only_groups_with_enough_jobs_are_held_against_the_bounds():
    frame = history(users=40)
    found = evaluated(frame)
    scored = frame[frame["submit_s"] >= 6 * DAY_S]
    assert sum(row["num_jobs"] for row in found["groups"]["pools"]) == len(scored)
    for row in found["groups"]["user_deciles"]:
        assert row["num_jobs"] >= 200
    few = evaluated(history(300))
    assert few["groups"]["pools"] == []


def test_a_job_that_runs_at_the_cut_counts_with_its_age():
    frame = history()
    whole, cut = evaluated(frame), evaluated(frame, cut_s=7 * DAY_S)
    assert whole["num_running"] == 0
    assert cut["num_running"] > 0
    for row in (one for one in cut["levels"] if one["group"] == "all"):
        assert row["seen"] == pytest.approx(row["level"], abs=0.09), "censored lives shorten nothing"


class Peeking(EmpiricalLifetimes):
    """A leak, planted: it knows each life from the start."""

    lives_s: ClassVar[dict[str, float]] = {}

    def quantile_s(self, job, level):
        return self.lives_s[job.job_id] * level


@pytest.mark.parametrize(
    ("make", "is_honest"), [(EmpiricalLifetimes, True), (LastTwo, True), (Peeking, False)]
)
def test_what_happens_later_reaches_no_forecast(make, is_honest):
    """Everything that has not ended by day 7 lives on, and nobody is submitted after it."""
    until_s = 7 * DAY_S
    frame = history(users=5)
    ends_s = frame["submit_s"] + frame["duration_s"]
    changed = frame[frame["submit_s"] < until_s].copy()
    changed.loc[ends_s >= until_s, "duration_s"] += 50 * DAY_S
    said = []
    for one in (frame, changed):
        Peeking.lives_s = dict(zip(one["job_id"], one["duration_s"], strict=True))
        said.append(forecast(make(), record_of(one, math.inf), 5 * DAY_S, until_s).quantiles_s)
    assert np.array_equal(said[0], said[1]) == is_honest


def test_ends_of_jobs_that_waited_are_told_when_they_were():
    jobs = [Job("a", "p", 0.0, 1), Job("b", "p", 10.0, 2)]
    told = _facts([(jobs[0], 5.0), (jobs[1], 7.0)], {"a": 100.0}, 0.0)
    assert [(at_s, kind, one.job_id) for at_s, kind, one, _ in told] == [
        (0.0, SUBMITTED, "a"),
        (10.0, SUBMITTED, "b"),
        (10.0, STARTED, "b"),
        (17.0, ENDED, "b"),
        (100.0, STARTED, "a"),
        (105.0, ENDED, "a"),
    ]


def test_the_last_two_of_the_same_name_are_averaged_in_ln():
    model = LastTwo()
    model.observe(job("x", user="u", name="n"), 7.0)
    for life_s in (100.0, 400.0):
        model.observe(job("a", user="u", name="n"), life_s)
    assert model.quantile_s(job("b", user="u", name="n"), 0.9) == pytest.approx(200.0)
    assert model.quantile_s(job("c", user="u", name="other"), 0.1) == pytest.approx(200.0)
    assert sum(model.survival(job("b", user="u", name="n"))) == sum(edge < 200.0 for edge in LIFE_EDGES_S)


def test_the_median_of_pool_and_width_falls_back_on_all():
    model = PoolWidthMedian()
    assert model.point_s(job("a")) == 3600.0
    for life_s in (10.0, 30.0, 20.0):
        model.observe(job("x"), life_s)
    assert model.point_s(job("a")) == 20.0
    assert model.point_s(job("a", num_gpus=4)) == 20.0
