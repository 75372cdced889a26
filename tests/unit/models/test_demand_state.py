"""Demand models that were stored: nobody can tell them from those that were not."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from data.history import from_frame
from models.artifacts import ArtifactError
from models.artifacts.parts import decode, encode
from models.backtest import Kind, Record, facts, record_of, tell
from models.demand.pools import PoolDemand
from models.demand.state import STORE
from models.scenarios import SCENARIO_MODELS

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
QUOTAS = {"a": 8, "b": 3}


def record() -> Record:
    """Six days: bursts on the hour in one pool, single jobs in the other; some wait, one never ends."""
    rng = np.random.default_rng(0)
    starts = np.repeat(np.arange(HOUR_S, 6 * DAY_S, 3 * HOUR_S), 3) + np.tile([0.0, 40.0, 90.0], 48)
    submit_s = np.concatenate((starts, rng.uniform(0, 6 * DAY_S, 150)))
    number = len(submit_s)
    frame = pd.DataFrame(
        {
            "job_id": [f"j{k:04d}" for k in range(number)],
            "pool": np.where(np.arange(number) < len(starts), "a", "b"),
            "submit_s": submit_s,
            "num_gpus": rng.integers(1, 3, number),
            "duration_s": np.where(np.arange(number) == 5, 1e7, rng.lognormal(7.0, 1.0, number)),
            "user": "u",
            "start_s": np.where(rng.random(number) < 0.2, submit_s + 600.0, np.nan),
        }
    )
    return record_of(from_frame(frame, source="test").frame, 6 * DAY_S)


RECORD = record()


def said(model: PoolDemand, now_s: float) -> list[Any]:
    """Everything that can be asked."""
    found: list[Any] = [model.peaks(now_s), model.arrivals(now_s)]
    for window_s in model.windows_s:
        quantiles = model.quantiles(window_s, now_s)
        found += [quantiles.requested, quantiles.held]
        found += [list(model.new_load_gpus(window_s, now_s).values())]
        found += [list(model.will_jobs_arrive(window_s, now_s).values())]
    return found


def live(model: PoolDemand, from_s: float, until_s: float) -> list[Any]:
    """Tell what happens; ask at every third submit."""
    found = []
    for fact in facts(RECORD, from_s, until_s):
        tell(model, RECORD, fact)
        if fact.kind is Kind.SUBMITTED and fact.place % 3 == 0:
            found += said(model, fact.at_s)
    return found


def made(scenarios: str = "bootstrap") -> PoolDemand:
    model = PoolDemand(QUOTAS, seed=1, retrain_every_s=math.inf, num_scenarios=20, scenarios=scenarios)
    model.fit([], [], 0.0)
    return model


@pytest.fixture(scope="module")
def half() -> tuple[PoolDemand, dict[str, bytes]]:
    """A model half way through, trained, and asked on the way; and its bytes as of then."""
    model = made()
    for fact in facts(RECORD, until_s=3 * DAY_S):
        tell(model, RECORD, fact)
    STORE.retrain(model, 3 * DAY_S)
    live(model, 3 * DAY_S, 4 * DAY_S)
    return model, encode(STORE.to_parts(model))


def test_a_model_that_was_stored_says_and_learns_the_same_to_the_last_bit(half):
    model, stored = half
    again = STORE.from_parts(decode(stored))
    assert encode(STORE.to_parts(again)) == stored
    for begin_s, end_s in ((4 * DAY_S, 5 * DAY_S), (5 * DAY_S, 6 * DAY_S)):
        one, other = (live(each, begin_s, end_s) for each in (model, again))
        assert len(one) > 100
        for ours, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for each in (model, again):
            STORE.retrain(each, end_s)
    assert encode(STORE.to_parts(model)) == encode(STORE.to_parts(again))


@pytest.mark.parametrize("scenarios", SCENARIO_MODELS)
def test_each_way_to_draw_scenarios_can_be_stored(scenarios):
    model = made(scenarios)
    for fact in facts(RECORD, until_s=2 * DAY_S):
        tell(model, RECORD, fact)
    model.peaks(2 * DAY_S)
    again = STORE.from_parts(decode(encode(STORE.to_parts(model))))
    for each in (model, again):
        for fact in facts(RECORD, 2 * DAY_S, 3 * DAY_S):
            tell(each, RECORD, fact)
    np.testing.assert_array_equal(model.peaks(3 * DAY_S), again.peaks(3 * DAY_S))


def test_parts_that_do_not_fit_are_refused(half):
    parts = decode(half[1])
    for name, array in parts.arrays.items():
        left = {other: one for other, one in parts.arrays.items() if other != name}
        for bad in ({}, {name: array[1:]}, {name: np.append(array, array[:1])}):
            with pytest.raises(ArtifactError):
                STORE.from_parts(replace(parts, arrays=left | bad))
    for name in parts.texts:
        with pytest.raises(ArtifactError, match=name):
            STORE.from_parts(replace(parts, texts={**parts.texts, name: "tree\n"}))
