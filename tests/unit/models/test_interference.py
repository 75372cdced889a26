"""Rates of two jobs on one GPU: what every forecaster owes, and what the learned one makes of its table."""

import functools
import json
import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pairs import PairTable
from domain.errors import InputError, SettingError
from domain.interference import RateForecast
from models.interference import INTERFERENCE_MODELS, PairInterference, Profile
from models.interference.calibration import Novelty
from models.interference.field import to_logit, to_rate
from models.interference.profiles import Likeness, Shape, family_and_batch
from models.interference.scores import RIVALS, leave_out, score_interference

BATCHES = (8, 16, 32, 64, 128)
KINDS = {"calm": (1.5, 0.2), "greedy": (0.5, 1.2), "frail": (-0.5, 0.4)}
"""Of each family its sensitivity, logit, higher is better, and how hard it presses on others."""


def named(kind: str, batch: int) -> str:
    return f"{kind} (batch size {batch})"


def true_rate(model: str, beside: str) -> float:
    """An exact law: sensitivity and pressure, both smooth in the batch."""
    (own, batch), (other, other_batch) = family_and_batch(model), family_and_batch(beside)
    logit = (
        KINDS[own][0]
        + 0.1 * math.log2(batch / 32)
        - KINDS[other][1] * (1 + 0.2 * math.log2(other_batch / 32))
    )
    return 1.0 / (1.0 + math.exp(-logit))


def made_table(kinds=tuple(KINDS), batches=BATCHES, unfit=frozenset()) -> PairTable:
    models = sorted(named(kind, batch) for kind in kinds for batch in batches)
    pairs = [pair for pair in combinations_with_replacement(models, 2) if pair not in unfit]
    return PairTable.of({(a, b): (true_rate(a, b), true_rate(b, a)) for a, b in pairs}, frozenset(unfit))


TABLE = made_table()


@functools.cache
def forecaster(name: str):
    return INTERFERENCE_MODELS[name](TABLE, None, None)


def fresh() -> PairInterference:
    return PairInterference(made_table(("calm", "greedy"), (8, 32, 128)))


# The family: every forecaster of the registry.

NAMES = st.one_of(
    st.sampled_from(TABLE.models),
    st.builds(named, st.sampled_from([*KINDS, "new"]), st.integers(1, 2000)),
    st.text(min_size=1, max_size=20).filter(str.strip),
)


@pytest.mark.parametrize("name", INTERFERENCE_MODELS)
@given(model_a=NAMES, model_b=NAMES)
@settings(max_examples=60, deadline=None)
def test_rates_are_bounded_ordered_and_symmetric(name, model_a, model_b):
    model = forecaster(name)
    both = model.rates(model_a, model_b)
    assert both is not None
    for one in both:
        assert 0.0 < one.lower <= one.median <= one.upper <= 1.0
    assert model.rates(model_b, model_a) == both[::-1]
    assert 0.0 < model.fit_chance(model_a, model_b) == model.fit_chance(model_b, model_a) <= 1.0


@pytest.mark.parametrize("name", INTERFERENCE_MODELS)
def test_a_pair_known_not_to_fit_has_no_rates(name):
    pair = (named("calm", 128), named("greedy", 128))
    model = INTERFERENCE_MODELS[name](made_table(unfit={pair}), None, None)
    assert model.rates(*pair) is None
    assert model.rates(*pair[::-1]) is None
    assert model.fit_chance(*pair) == 0.0
    assert model.rates(named("calm", 64), named("greedy", 128)) is not None


@pytest.mark.parametrize("name", INTERFERENCE_MODELS)
def test_without_a_measured_pair_nothing_is_said(name):
    with pytest.raises(SettingError, match="measured pairs"):
        INTERFERENCE_MODELS[name](PairTable.of({}, frozenset({("a", "b")})), None, None)


@pytest.mark.parametrize("name", INTERFERENCE_MODELS)
def test_the_order_of_the_table_does_not_matter(name):
    reordered = PairTable.of(dict(reversed(list(TABLE.rates.items()))))
    other = INTERFERENCE_MODELS[name](reordered, None, None)
    for pair in ((named("calm", 16), named("frail", 8)), (named("greedy", 50), "unheard of")):
        assert other.rates(*pair) == forecaster(name).rates(*pair)


# The learned forecaster.


def test_a_measured_pair_is_believed():
    for a, b in list(TABLE.rates)[::7]:
        said = forecaster("pairs").rates(a, b)
        for one, rate in zip(said, TABLE.rates[(a, b)], strict=True):
            assert one.median == pytest.approx(rate, abs=0.01)
            assert one.lower < rate < one.upper
            assert one.upper - one.lower < 0.12


def test_a_measured_pair_that_is_like_no_other_is_believed_all_the_same():
    odd = (named("calm", 16), named("frail", 32))
    rates = {**TABLE.rates, odd: (0.1, 0.95)}
    said = PairInterference(PairTable.of(rates)).rates(*odd)
    assert said[0].median == pytest.approx(0.1, abs=0.03)
    assert said[1].median == pytest.approx(0.95, abs=0.03)


def test_a_batch_that_was_left_out_is_recovered():
    new = named("greedy", 32)
    model = PairInterference(TABLE.without(frozenset({new})))
    for other in TABLE.models:
        own, partner = model.rates(new, other)
        for said, rate in ((own, true_rate(new, other)), (partner, true_rate(other, new))):
            assert said.median == pytest.approx(rate, abs=0.03)
            assert said.lower <= rate <= said.upper


def test_what_is_newer_is_less_certain():
    noise = np.random.default_rng(0).normal(0.0, 0.2, (len(TABLE.rates), 2))
    noisy = to_rate(to_logit(np.array(list(TABLE.rates.values()))) + noise)
    model = PairInterference(PairTable.of(dict(zip(TABLE.rates, noisy.tolist(), strict=True))))
    beside = named("calm", 32)
    asked = {
        Novelty.MEASURED: named("greedy", 32),
        Novelty.NEW_BATCH: named("greedy", 48),
        Novelty.NEW_FAMILY: "unheard of",
    }
    widths = []
    for novelty, name in asked.items():
        assert model.novelty(name, beside) is model.novelty(beside, name) is novelty
        own = model.rates(name, beside)[0]
        widths.append(own.upper - own.lower)
    assert widths == sorted(widths)
    assert widths[2] > 3 * widths[1]
    partial = PairTable.of({pair: both for pair, both in TABLE.rates.items() if pair != TABLE.models[:2]})
    assert PairInterference(partial).novelty(*TABLE.models[:2]) is Novelty.UNMEASURED


def test_the_terms_of_a_rate_sum_to_its_median():
    model = fresh()
    model.observe(named("calm", 8), named("greedy", 32), 2.0, 1.0)
    for pair in ((named("calm", 8), named("greedy", 32)), (named("greedy", 64), "unheard of")):
        terms = model.reasons(*pair)
        assert set(terms) == {"level", "sensitivity", "pressure", "joint", "steps"}
        assert to_rate(np.array([sum(terms.values())]))[0] == pytest.approx(model.rates(*pair)[0].median)
    assert model.reasons(named("calm", 8), named("greedy", 32))["steps"] < 0.0
    pressed = forecaster("pairs").reasons(named("calm", 8), named("greedy", 128))["pressure"]
    assert pressed < forecaster("pairs").reasons(named("calm", 8), named("calm", 8))["pressure"]


def test_profiles_join_families():
    """Of a family never measured, all that is known is that it uses the GPU as the greedy ones do."""
    used = {name: Profile(sm_utilisation=0.9 if "greedy" in name else 0.1) for name in TABLE.models}
    victim = named("calm", 32)
    beside = {
        share: PairInterference(TABLE, used | {"new": Profile(sm_utilisation=share)}).rates(victim, "new")[0]
        for share in (0.1, 0.9)
    }
    blind = PairInterference(TABLE, used).rates(victim, "new")[0]
    assert beside[0.9].median < blind.median - 0.01 < beside[0.1].median - 0.02
    assert beside[0.9].upper - beside[0.9].lower < blind.upper - blind.lower


def test_too_many_pairs_are_refused():
    models = [f"m{k:02}" for k in range(60)]
    pairs = combinations_with_replacement(models, 2)
    with pytest.raises(SettingError, match="at most 1500"):
        PairInterference(PairTable.of(dict.fromkeys(pairs, (0.5, 0.5))))


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_an_absurd_name_is_refused(name):
    with pytest.raises(InputError):
        fresh().rates(name, "x")


@given(st.floats(0.05, 1.0))
def test_the_logit_scale_goes_there_and_back(rate):
    assert to_rate(to_logit(np.array([rate])))[0] == pytest.approx(rate)


@given(
    st.lists(st.integers(1, 100_000), min_size=2, max_size=8),
    st.sampled_from([1.0, 1.5]),
    st.floats(1.0, 20.0),
)
@settings(max_examples=50, deadline=None)
def test_likeness_is_a_kernel(batches, power, reach):
    models = ["x", *(named("calm", batch) for batch in batches), *(named("greedy", b) for b in batches)]
    profiles = {models[0]: Profile(0.5, 3.0, 0.1), models[1]: Profile(sm_utilisation=0.7)}
    alike = Likeness(Shape(reach, power), profiles).between(models, models)
    assert np.allclose(alike, alike.T)
    assert np.linalg.eigvalsh(alike).min() > -1e-8


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ResNet-50 (batch size 64)", ("ResNet-50", 64)),
        ("A3C", ("A3C", None)),
        ("LM (batch size 0)", ("LM (batch size 0)", None)),
        ("LM (batch size 5) v2", ("LM (batch size 5) v2", None)),
        ("(batch size 5)", ("(batch size 5)", None)),
    ],
)
def test_names_hold_the_family_and_the_batch(name, parts):
    assert family_and_batch(name) == parts


@pytest.mark.parametrize(
    "wrong", [{"sm_utilisation": 1.5}, {"memory_gb": 0.0}, {"solo_step_s": math.inf}, {"memory_gb": math.nan}]
)
def test_an_absurd_profile_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Profile(**wrong)


def test_a_rate_forecast_is_ordered_and_positive():
    for wrong in ((0.0, 0.5, 1.0), (0.5, 0.4, 1.0), (0.1, 0.5, 0.4), (0.1, 0.5, math.inf), (math.nan,) * 3):
        with pytest.raises(ValueError, match="lower"):
            RateForecast(*wrong)


# Scores.


def test_the_scores_of_an_exact_law_beat_both_baselines():
    scores = score_interference(made_table(batches=(8, 32, 128)))
    assert (scores["models"], scores["pairs"]) == (9, 45)
    assert scores["mae"] < 0.04 < scores["mae_utilisation"] < scores["mae_mean_rate"]
    assert scores["coverage_80"] >= 0.75
    assert scores["width"] < scores["width_mean_rate"]
    assert scores["worst_model"] in scores["per_model"]
    assert len(scores["per_model"]) == 9
    json.dumps(scores)


def test_what_is_left_out_is_not_learned_from():
    """Whatever a model's own pairs say, its forecasts are the same: only what they are held to differs."""
    liar = named("calm", 16)
    lies = {
        pair: tuple(1.0 - 0.9 * rate for rate in both) if liar in pair else both
        for pair, both in TABLE.rates.items()
    }
    for make in RIVALS.values():
        told, lied = (leave_out(one, frozenset({liar}), make, {}) for one in (TABLE, PairTable.of(lies)))
        assert np.array_equal(told.forecasts, lied.forecasts)
        assert not np.allclose(told.rates, lied.rates)
        assert told.is_own.sum() == len(TABLE.models) + 1


def test_two_models_are_too_few_to_leave_one_out():
    with pytest.raises(SettingError, match="three models"):
        score_interference(PairTable.of({("a", "b"): (0.5, 0.5)}))
