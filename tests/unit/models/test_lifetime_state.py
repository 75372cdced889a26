"""Lifetime models that were stored: nobody can tell them from those that were not."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from data.history import from_frame
from models.artifacts import ArtifactError, Parts
from models.artifacts.parts import decode, encode
from models.artifacts.store import Store
from models.backtest import Record, facts, forecasts_at_submit, record_of, tell
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.empirical_state import STORE as EMPIRICAL
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.state import STORE as HAZARD

DAY_S = 86_400.0
DAYS = 8


def record(seed: int = 0, number: int = 1000) -> Record:
    """Jobs with everything a record can say; some wait, some come in bursts, a few never end."""
    rng = np.random.default_rng(seed)
    burst = np.sort(rng.integers(0, number // 3, number))
    submit_s = np.sort(rng.uniform(0, DAYS * DAY_S, number // 3))[burst] + rng.integers(0, 200, number)
    user = rng.integers(0, 6, number // 3)[burst]
    kind = rng.integers(0, 4, number // 3)[burst]
    waits = rng.random(number) < 0.3
    frame = pd.DataFrame(
        {
            "job_id": [f"j{k:04d}" for k in rng.permutation(number)],
            "pool": [f"p{one % 2}" for one in user],
            "submit_s": submit_s,
            "num_gpus": 1 + kind % 2,
            "duration_s": np.where(
                rng.random(number) < 0.01, 1e7, 30.0 * 9.0**kind * rng.lognormal(0, 1, number)
            ),
            "user": [None if one == 5 else f"u{one}" for one in user],
            "name": [None if one == 3 else f"train-k{one}-{place}" for place, one in enumerate(kind)],
            "limit_s": np.where(kind == 1, np.nan, 3600.0 * (1 + user)),
            "gpu_type": [None if one % 3 else "v100" for one in user],
            "array_id": [None if one % 5 else f"a{one}" for one in burst],
            "start_s": np.where(waits, submit_s + rng.exponential(900.0, number), np.nan),
        }
    )
    return record_of(from_frame(frame, source="test").frame, DAYS * DAY_S)


@dataclass(frozen=True)
class Case:
    """A model, how it is made and stored."""

    make: Callable[[], Any]
    store: Store


def hazard() -> HazardLifetimes:
    model = HazardLifetimes(seed=3, retrain_every_s=1.5 * DAY_S, window_s=5 * DAY_S, half_life_s=2 * DAY_S)
    model.fit([], [], 0.0)
    return model


CASES = {"empirical": Case(EmpiricalLifetimes, EMPIRICAL), "hazard": Case(hazard, HAZARD)}
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def told(case: Case, whole: Record, until_s: float) -> Any:
    model = case.make()
    for fact in facts(whole, until_s=until_s):
        tell(model, whole, fact)
    return model


@pytest.fixture(scope="module")
def half() -> dict[str, tuple[Any, dict[str, bytes]]]:
    """Each model half way through, having been asked on the way, and its bytes as of then."""
    found = {}
    for name, case in CASES.items():
        model = told(case, record(), 3 * DAY_S)
        forecasts_at_submit(model, record(), 3 * DAY_S, 5 * DAY_S, every=3)
        found[name] = (model, encode(case.store.to_parts(model)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_model_that_was_stored_says_and_learns_the_same_to_the_last_bit(half, name):
    """Also after it is trained anew on the way, and when it is trained anew at the end."""
    model, stored = half[name]
    store = CASES[name].store
    again = store.from_parts(decode(stored))
    assert encode(store.to_parts(again)) == stored
    assert encode(store.to_parts(model)) == stored, "taking a model apart leaves it as it is"
    end_s = DAYS * DAY_S
    made, remade = (forecasts_at_submit(one, record(), 5 * DAY_S, end_s) for one in (model, again))
    assert len(made.places) > 100
    np.testing.assert_array_equal(made.survival, remade.survival)
    np.testing.assert_array_equal(made.quantiles_s, remade.quantiles_s)
    for one in (model, again):
        store.retrain(one, end_s)
    assert encode(store.to_parts(model)) == encode(store.to_parts(again))


@EACH
def test_a_model_that_was_told_nothing_can_be_stored(case):
    stored = encode(case.store.to_parts(case.make()))
    assert encode(case.store.to_parts(case.store.from_parts(decode(stored)))) == stored


@EACH
def test_the_same_facts_give_the_same_bytes(case):
    small = record(number=300)
    one, other = (encode(case.store.to_parts(told(case, small, 4 * DAY_S))) for _ in range(2))
    assert one == other


def test_every_part_is_needed_and_none_may_be_of_another_length(half):
    """Whatever is missing, longer, shorter or of another type is refused, never half read."""
    parts = decode(half["hazard"][1])
    for name, array in parts.arrays.items():
        left = {other: one for other, one in parts.arrays.items() if other != name}
        for bad in (
            {},
            {name: array[1:]},
            {name: np.append(array, array[:1])},
            {name: np.zeros(array.shape, "<u1")},
        ):
            with pytest.raises(ArtifactError):
                HAZARD.from_parts(replace(parts, arrays=left | bad))
    for bad in (None, {}, {"root": {}}, {**parts.values, "root": 1}, {**parts.values, "classes": []}):
        with pytest.raises(ArtifactError):
            HAZARD.from_parts(replace(parts, values=bad))
    with pytest.raises(ArtifactError, match=r"trees-0\.txt"):
        HAZARD.from_parts(replace(parts, texts={}))


def test_empirical_parts_that_do_not_fit_are_refused(half):
    parts = decode(half["empirical"][1])
    for changed in (
        {"counts": parts.arrays["counts"] * 0},
        {"lives_s": parts.arrays["lives_s"] - 1e9},
        {"lives_s": parts.arrays["lives_s"][:-1]},
        {"lives_s": parts.arrays["lives_s"] * math.nan},
    ):
        with pytest.raises(ArtifactError):
            EMPIRICAL.from_parts(replace(parts, arrays={**parts.arrays, **changed}))
    for bad in (None, {"version": 2, "keys": []}, {"version": 1, "keys": [1]}, {"version": 1}):
        with pytest.raises(ArtifactError):
            EMPIRICAL.from_parts(replace(parts, values=bad))


def test_parts_of_another_model_are_refused(half):
    with pytest.raises(ArtifactError):
        HAZARD.from_parts(decode(half["empirical"][1]))
    with pytest.raises(ArtifactError):
        EMPIRICAL.from_parts(decode(half["hazard"][1]))
    with pytest.raises(ArtifactError):
        HAZARD.from_parts(Parts())
