"""Why jobs are said to arrive: contributions sum to the trees' score, every column has a group."""

import functools
import json
import math

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.demand.features import FEATURE_NAMES
from models.explain.arrivals import GROUP_WORDS, arrival_group, explain_arrival
from models.explain.words import OTHER

NAMES = ("since_arrival_1", "ends_last_60s", "hour_sine", "running", "ln_quota")


@functools.cache
def booster(seed: int) -> lightgbm.Booster:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, len(NAMES)))
    labels = rows[:, 0] + 0.3 * rows[:, 2] + 0.5 * rng.normal(size=400) > 0
    data = lightgbm.Dataset(rows, labels.astype(float))
    parameters = {
        "objective": "binary", "num_leaves": 5, "deterministic": True, "force_row_wise": True,
        "num_threads": 1, "verbosity": -1, "seed": seed,
    }  # fmt: skip
    return lightgbm.train(parameters, data, num_boost_round=15)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 3),
    row=st.lists(st.floats(-3.0, 3.0) | st.just(math.nan), min_size=5, max_size=5),
    threshold=st.floats(-3.0, 3.0),
)
def test_reasons_sum_to_the_score_of_the_trees(seed, row, threshold):
    told = explain_arrival(booster(seed), row, NAMES, threshold)
    score = float(booster(seed).predict(np.array([row]), raw_score=True, num_threads=1)[0])
    assert told.prediction == pytest.approx(score, abs=1e-9)
    assert told.base + math.fsum(one.contribution for one in told.reasons) == pytest.approx(score, abs=1e-9)
    assert told.will_arrive == (told.prediction >= threshold)
    assert told.chance == pytest.approx(float(booster(seed).predict(np.array([row]), num_threads=1)[0]))
    assert json.loads(json.dumps(told.to_dict()))["threshold"] == threshold


def test_the_column_that_decides_is_the_reason_and_named():
    told = explain_arrival(booster(0), [3.0, 0.0, 0.0, 0.0, 0.0], NAMES, 0.0)
    first = told.reasons[0]
    assert told.will_arrive
    assert (first.group, first.column, first.value) == ("arrivals", "since_arrival_1", 3.0)
    assert "likelier, +" in first.words


def test_every_column_of_the_demand_features_has_a_group():
    for name in FEATURE_NAMES:
        assert arrival_group(name) in set(GROUP_WORDS) - {OTHER}, name
    assert arrival_group("something new") == OTHER


def test_names_must_fit():
    with pytest.raises(ValueError, match="names"):
        explain_arrival(booster(0), [1.0], NAMES, 0.0)
