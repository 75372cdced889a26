"""Rates and memory of pairs that nobody measured: coarse, symmetric, and honest about what is not known."""

import pytest

from data.profiles import SHIPPED, ModelProfile, read_profiles
from models.interference.estimate import Need, ProfileEstimate, features, fit_chance

PROFILES = {
    "net (batch size 16)": ModelProfile(0.5, 4096.0),
    "net (batch size 256)": ModelProfile(1.0, 20_000.0),
    "small": ModelProfile(0.1, 1024.0),
}
ESTIMATE = ProfileEstimate(PROFILES, 24_000.0)


def test_two_that_always_compute_get_half_each_and_light_ones_nearly_all() -> None:
    both = ESTIMATE.rates("net (batch size 256)", "net (batch size 256)")
    assert both is not None
    assert both[0].median == both[1].median == pytest.approx(0.5)
    light = ESTIMATE.rates("small", "net (batch size 16)")
    assert light is not None
    assert light[0].median == pytest.approx(1.0 / 1.05)
    assert light == ESTIMATE.rates("net (batch size 16)", "small")


def test_a_model_that_is_not_known_widens_the_interval() -> None:
    known, unknown = (ESTIMATE.rates("net (batch size 16)", other) for other in ("net", "else"))
    assert known is not None
    assert unknown is not None
    assert unknown[0].upper - unknown[0].lower > known[0].upper - known[0].lower


def test_kin_stand_in_by_batch_and_without_one_by_the_largest() -> None:
    assert ESTIMATE.profile("NET (batch size 32)") == PROFILES["net (batch size 16)"]
    assert ESTIMATE.profile("net (batch size 128)") == PROFILES["net (batch size 256)"]
    assert ESTIMATE.profile("net") == PROFILES["net (batch size 256)"]
    assert ESTIMATE.profile("else") is None


def test_memory_that_is_told_is_a_fact_and_estimated_memory_a_chance() -> None:
    assert fit_chance([Need(10.0, True), Need(10.0, True)], 20.0) == 1.0
    assert fit_chance([Need(10.0, True), Need(10.5, True)], 20.0) == 0.0
    assert fit_chance([Need(10.0, False), Need(10.0, False)], 20.0) == pytest.approx(0.5)
    assert fit_chance([Need(10.0, True), Need(5.0, False)], 20.0) > 0.95
    assert fit_chance([Need(20.0, True), Need(5.0, False)], 20.0) == 0.0
    assert ESTIMATE.fit_chance("else", "small") == 1.0


def test_features_are_what_models_of_interference_take() -> None:
    assert features({"x": ModelProfile(0.5, 2.0**20, None)})["x"].memory_gb == pytest.approx(1099.5, abs=0.1)


def test_every_shipped_model_has_rates() -> None:
    shipped = read_profiles(SHIPPED)
    estimate = ProfileEstimate(shipped)
    for model in shipped:
        both = estimate.rates(model, "ResNet-50")
        assert both is not None
        assert 0.5 < both[0].median < 1.0
