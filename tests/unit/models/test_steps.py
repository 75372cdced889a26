"""Demand step by step: what a record repeats is forecast, nothing later is looked at, scores are honest."""

import math

import numpy as np
import pytest

from domain.jobs import Job
from models import LIFETIME_MODELS, Training
from models.demand.steps import StepDemand
from models.evaluation.held_out import record_of_training, score_lives, score_steps

DAY_S, HOUR_S = 86_400.0, 3_600.0
DAYS = 14
AT_S = DAYS * DAY_S


def daily(days: int, hour: float = 10.0) -> list[tuple[Job, float]]:
    """Each day at the same hour two jobs of 4 GPUs come, ten minutes apart, and run for half an hour."""
    return [
        (Job(f"d{day}-{k}", "a", day * DAY_S + hour * HOUR_S + 600.0 * k, 4, user="u", name="n"), 1800.0)
        for day in range(days)
        for k in range(2)
    ]


def test_a_pattern_of_the_day_is_said_for_its_hours_and_for_no_others():
    demand = StepDemand({"a": 16, "b": 4})
    demand.fit(daily(DAYS), [], AT_S)
    said = demand.forecast(AT_S, horizon_s=DAY_S, step_s=HOUR_S, levels=(0.1, 0.5, 0.9))
    assert said.samples > 0
    assert said.peak_gpus.shape == (2, 24, 3)
    assert said.arrivals_mean[0].sum() == pytest.approx(2.0)
    assert said.peak_gpus[0, 10, 1] == 8
    assert said.peak_gpus[1].max() == said.peak_gpus[0, 14:].max() == 0
    assert (np.diff(said.peak_gpus, axis=2) >= 0).all()


def test_a_peak_is_found_wherever_in_a_long_step_it_is():
    demand = StepDemand({"a": 16})
    demand.fit(daily(DAYS), [], AT_S)
    said = demand.forecast(AT_S, horizon_s=DAY_S, step_s=DAY_S, levels=(0.5,))
    assert (said.peak_gpus[0, 0, 0], said.arrivals[0, 0, 0]) == (8, 2)


def test_nothing_later_is_looked_at():
    known, more = StepDemand({"a": 16}), StepDemand({"a": 16})
    known.fit(daily(7), [], 7 * DAY_S)
    more.fit([*daily(DAYS), *((Job(f"x{k}", "a", 7.2 * DAY_S, 16), 9e4) for k in range(9))], [], AT_S)
    grid = {"horizon_s": DAY_S, "step_s": HOUR_S, "levels": (0.5, 0.9)}
    one, other = (demand.forecast(7 * DAY_S, **grid) for demand in (known, more))
    assert np.array_equal(one.peak_gpus, other.peak_gpus)
    assert np.array_equal(one.arrivals_mean, other.arrivals_mean)


def test_of_the_unknown_the_whole_quota_is_said_and_bad_grids_are_refused():
    demand = StepDemand({"a": 16})
    said = demand.forecast(0.0, horizon_s=HOUR_S, step_s=HOUR_S, levels=(0.5,))
    assert (said.samples, said.peak_gpus.tolist()) == (0, [[[16.0]]])
    for horizon_s in (0.0, 1000.0, 5000 * HOUR_S):
        with pytest.raises(ValueError, match="horizon"):
            demand.forecast(0.0, horizon_s=horizon_s, step_s=HOUR_S, levels=(0.5,))
    with pytest.raises(ValueError, match="no pool 'z'"):
        demand.forecast(0.0, horizon_s=HOUR_S, step_s=HOUR_S, levels=(0.5,), pools=["z"])


def test_held_out_scores_say_who_is_better():
    """Two users of one pool and width live apart: who knows users beats who does not."""
    past = [
        (Job(f"j{k}", "a", 600.0 * k, 1, user=f"u{k % 2}", name="n"), (60.0, 6000.0)[k % 2])
        for k in range(2000)
    ]
    past.sort(key=lambda one: one[0].submit_s + one[1])
    training = Training({"a": 8}, past, (), 600.0 * 2000 + 6000.0)
    record = record_of_training(training)
    learner = Training({"a": 8}, (), (), training.now_s)
    found = score_lives(record, "learned", lambda: LIFETIME_MODELS["learned"](learner))
    assert found is not None
    assert found.beats_baseline
    assert found.pinball < 0.5 * found.baseline_pinball
    assert found.number > 300
    worse = score_lives(record, "random", lambda: LIFETIME_MODELS["random"](learner))
    assert worse is not None
    assert not worse.beats_baseline


def test_demand_is_scored_beside_the_same_hours_of_the_week_before():
    training = Training({"a": 16}, daily(DAYS), (), AT_S)
    demand = StepDemand({"a": 16})
    demand.fit(training.past, training.censored, training.now_s)
    found = score_steps(demand, record_of_training(training))
    assert set(found) == {"peak_gpus", "arrivals"}
    for one in found.values():
        assert one.baseline_pinball == 0.0  # each day is like the one before
        assert math.isfinite(one.pinball)
        assert not one.beats_baseline
        assert one.number >= 24
