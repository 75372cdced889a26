"""Lives that were cut off by the state a record gives: at least so long to lifetimes, over to demand."""

import math

import numpy as np
import pandas as pd
import pytest

from data.history import from_frame
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import JobState
from models import LIFETIME_MODELS
from models.backtest import Kind, facts, forecast, known_at, learn, record_of
from models.lifetime.hazard import HazardLifetimes
from models.training import Training
from simulator.forecasting import ForecastChoice, training_of
from simulator.workload import make_workload

HOUR_S = 3600.0


def table(number=1500, cut_share=0.5, state="cut_off"):
    """Lives of ten hours; a part of them is cut off after one."""
    rng = np.random.default_rng(0)
    is_cut = rng.uniform(size=number) < cut_share
    frame = pd.DataFrame(
        {
            "job_id": [f"j{k:05d}" for k in range(number)],
            "pool": "a",
            "submit_s": 300.0 * np.arange(number),
            "num_gpus": 1,
            "duration_s": np.where(is_cut, HOUR_S, 10 * HOUR_S) * rng.lognormal(0.0, 0.1, number),
            "user": "u",
            "state": np.where(is_cut, state, "completed"),
        }
    )
    return from_frame(frame, source="made").frame


END_S = 1500 * 300.0 + 20 * HOUR_S


def survival_at(model, record, hours):
    job = record.jobs[-1]
    return float(np.interp(hours * HOUR_S, np.asarray(LIFE_EDGES_S), model.survival(job)))


@pytest.mark.parametrize("state", ["cut_off", "cancelled", "timeout"])
def test_the_hazard_model_takes_them_as_lives_of_at_least_that_length(state):
    honest, naive = HazardLifetimes(), HazardLifetimes()
    record = record_of(table(state=state), END_S)
    learn(honest, record, END_S)
    learn(naive, record_of(table().assign(state="completed"), END_S), END_S)
    assert survival_at(naive, record, 4) < 0.65
    assert survival_at(honest, record, 4) > 0.9


def test_told_as_it_happens_it_learns_the_same():
    record = record_of(table(), END_S)
    model = HazardLifetimes(retrain_every_s=86_400.0)
    model.fit([], [], 0.0)
    made = forecast(model, record, 0.0, END_S)
    assert np.median(made.quantiles_s[-100:, 4]) > 8 * HOUR_S


@pytest.mark.parametrize("name", ["learned", "random"])
def test_models_without_censoring_leave_them_out(name):
    record = record_of(table(), END_S)
    past, going_on = known_at(record, END_S)
    hidden = frozenset(
        job.job_id for job, lived in zip(record.jobs, record.was_cut_off, strict=True) if lived
    )
    training = Training({"a": 8}, past, going_on, END_S, cut_off=hidden)
    assert len(past) == len(record)
    assert LIFETIME_MODELS[name](training).quantile_s(record.jobs[-1], 0.2) > 5 * HOUR_S


def test_the_recent_lives_learn_from_whole_ones_only_as_they_are_told():
    record = record_of(table(), END_S)
    model = LIFETIME_MODELS["learned"](Training({"a": 8}, [], [], 0.0))
    learn(model, record, END_S)
    assert model.quantile_s(record.jobs[-1], 0.1) > 5 * HOUR_S


def test_their_gpus_come_back_when_they_went():
    record = record_of(table(10, cut_share=1.0), math.inf)
    assert [fact.kind for fact in facts(record)].count(Kind.CUT_OFF) == 10
    assert not record.has_ended.any()
    past, going_on = known_at(record, END_S)
    assert (len(past), going_on) == (10, [])


def test_a_replay_learns_from_its_past_in_the_same_way():
    frame = table()
    history = from_frame(frame, source="made")
    cut_s = float(frame["submit_s"].iloc[-100])
    work = make_workload(history, {"a": 400}, train_until_s=cut_s, eval_from_s=cut_s)
    training = training_of(work, ForecastChoice("learned", None, 0.0), 0)
    past = {job.job_id for job, _ in training.past}
    states = frame.set_index("job_id")["state"]
    assert {job.job_id for job, _ in training.whole()} == {
        job_id for job_id in past if states[job_id] == "completed"
    }
    assert past & training.cut_off


def test_without_states_nothing_changes():
    frame = table().drop(columns="state")
    record = record_of(frame.assign(state=None).astype({"state": "str"}), END_S)
    assert not record.was_cut_off.any()
    assert record.has_ended.all()
    assert not JobState.UNKNOWN.hides_life
