"""Measured rates under shares replace the share model where they are, and only there."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.packing.share_model import ShareModel
from solver.packing.shared_rates import SharedRates

FREE = {("a", "b"): (0.6, 0.7), ("b", "a"): (0.7, 0.6), ("a", "a"): (0.5, 0.5)}
MEASURED = {("a", "b"): {(100.0, 60.0): (0.7, 0.5), (100.0, 30.0): (0.9, 0.3)}}
RATES = SharedRates(lambda a, b: FREE.get((a, b)), MEASURED)


def test_measured_settings_are_believed_in_either_order() -> None:
    assert RATES.rates("a", "b", (100.0, 60.0)) == pytest.approx((0.7, 0.5))
    assert RATES.rates("b", "a", (30.0, 100.0)) == pytest.approx((0.3, 0.9))
    assert RATES.rates("a", "b", (100.0, 100.0)) == (0.6, 0.7)


def test_between_measured_settings_rates_lie_between_them() -> None:
    between = RATES.rates("a", "b", (100.0, 45.0))
    assert between is not None
    assert 0.7 < between[0] < 0.9
    assert 0.3 < between[1] < 0.5


def test_elsewhere_the_model_is_scaled_towards_what_was_measured() -> None:
    modelled = ShareModel().rates((0.6, 0.7), (90.0, 60.0))
    found = RATES.rates("a", "b", (90.0, 60.0))
    assert found is not None
    assert found[1] < modelled[1]


def test_pairs_without_measured_shares_follow_the_model_and_unfit_ones_have_no_rates() -> None:
    assert RATES.rates("a", "a", (60.0, 40.0)) == ShareModel().rates((0.5, 0.5), (60.0, 40.0))
    assert RATES.rates("a", "z", (60.0, 40.0)) is None


def test_a_model_beside_itself_is_measured_both_ways() -> None:
    rates = SharedRates(lambda _a, _b: (0.5, 0.5), {("a", "a"): {(40.0, 80.0): (0.35, 0.65)}})
    assert rates.rates("a", "a", (80.0, 40.0)) == pytest.approx((0.65, 0.35))
    assert rates.is_measured("a", "a", (80.0, 40.0))
    assert not rates.is_measured("a", "a", (80.0, 50.0))


def test_contradicting_measurements_are_met_in_the_middle() -> None:
    points = {(100.0, 50.0): (0.7, 0.5), (100.0, 60.0): (0.72, 0.45)}  # b is slower with more, and a faster
    rates = SharedRates(lambda _a, _b: (0.6, 0.7), {("a", "b"): points})
    assert rates.rates("a", "b", (100.0, 50.0)) == pytest.approx((0.71, 0.475))
    assert rates.rates("a", "b", (100.0, 60.0)) == pytest.approx((0.71, 0.475))


@pytest.mark.parametrize("shares_pct", [(0.0, 50.0), (50.0, 101.0), (float("nan"), 50.0)])
def test_shares_that_cannot_be_are_refused(shares_pct: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="a share lies"):
        RATES.rates("a", "b", shares_pct)


SHARES = st.integers(1, 100).map(float)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.tuples(SHARES, SHARES),
        st.tuples(st.floats(0.05, 1.0), st.floats(0.05, 1.0)),
        min_size=1,
        max_size=4,
    ),
    SHARES,
)
def test_whatever_was_measured_more_for_one_never_slows_it_nor_speeds_the_other(
    points: dict[tuple[float, float], tuple[float, float]], fixed_pct: float
) -> None:
    points.pop((100.0, 100.0), None)
    rates = SharedRates(lambda _a, _b: (0.6, 0.7), {("a", "b"): points})
    line = [rates.rates("a", "b", (float(pct), fixed_pct)) for pct in range(1, 100, 3)]
    for before, after in pairwise(line):
        assert before is not None
        assert after is not None
        assert 0.0 < before[0] <= after[0] + 1e-9 <= 1.0 + 1e-9
        assert after[1] <= before[1] + 1e-9
