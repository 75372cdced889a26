"""The share model: what it says exactly, what it refuses, and the published figures it was fitted to."""

from itertools import combinations_with_replacement, product
from statistics import fmean

import pytest

from solver.packing.share_model import PARAMETERS, SETTINGS_PCT, ShareModel

MODEL = ShareModel()


@pytest.mark.parametrize("free", [(0.5, 0.5), (0.1 + 0.2, 0.7), (1.0, 1.0), (1.02, 0.003)])
def test_no_limit_is_free_competition(free: tuple[float, float]) -> None:
    assert MODEL.rates(free, (100.0, 100.0)) == free


def test_a_capped_job_gives_way_to_the_other_by_the_written_formula() -> None:
    # p_b = 0.4 (it costs a 0.4), alone(0.6) = 0.6 / (0.6 + 0.4 * 0.4); a is contested on 0.6 of its share.
    rate_a, rate_b = MODEL.rates((0.6, 0.7), (100.0, 60.0))
    assert rate_a == pytest.approx(1.0 - 0.4 * (0.5 * 0.6 + 0.5 * 0.6))
    assert rate_b == pytest.approx(0.6 / 0.76 * (1.0 - 0.3))


def test_disjoint_shares_keep_the_lasting_part_of_the_loss() -> None:
    rate_a, rate_b = MODEL.rates((0.6, 0.6), (50.0, 50.0))
    alone = 0.5 / (0.5 + 0.4 * 0.5)
    assert rate_a == rate_b == pytest.approx(alone * (1.0 - 0.4 * 0.5 * 0.5))


def test_swapping_the_jobs_swaps_the_rates() -> None:
    assert MODEL.rates((0.4, 0.9), (70.0, 30.0)) == MODEL.rates((0.9, 0.4), (30.0, 70.0))[::-1]


def test_the_sum_is_scaled_down_to_the_most_that_was_published() -> None:
    generous = ShareModel(lasting=0.0, use_per_loss=0.0)
    rate_a, rate_b = generous.rates((0.5, 0.5), (50.0, 50.0))
    assert rate_a + rate_b == pytest.approx(1.15)
    assert rate_a == pytest.approx(rate_b)


def test_a_free_rate_above_one_bounds_the_rate() -> None:
    rate_a, _ = MODEL.rates((1.04, 0.8), (100.0, 10.0))
    assert rate_a == pytest.approx(1.04)


@pytest.mark.parametrize(
    ("free", "shares_pct"),
    [
        ((0.0, 0.5), (100.0, 100.0)),
        ((0.5, float("nan")), (50.0, 50.0)),
        ((0.5, 0.5), (0.0, 50.0)),
        ((0.5, 0.5), (50.0, 100.1)),
        ((0.5, 0.5), (float("nan"), 50.0)),
    ],
)
def test_what_cannot_be_is_refused(free: tuple[float, float], shares_pct: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"a share lies|a rate under"):
        MODEL.rates(free, shares_pct)


@pytest.mark.parametrize(
    "change",
    [{"least_parallel": 1.1}, {"lasting": -0.1}, {"most_gain": float("nan")}, {"use_per_loss": -1.0}],
)
def test_parameters_stay_in_their_range(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        ShareModel(**change)


def test_each_parameter_can_be_varied_alone() -> None:
    for name in PARAMETERS:
        for factor in (0.8, 1.2):
            varied = MODEL.scaled(name, factor)
            assert getattr(varied, name) == pytest.approx(getattr(MODEL, name) * factor)
            assert all(
                getattr(varied, other) == getattr(MODEL, other) for other in PARAMETERS if other != name
            )
    assert ShareModel(lasting=0.9).scaled("lasting", 1.2).lasting == 1.0
    with pytest.raises(ValueError, match="none of least_parallel"):
        MODEL.scaled("gain", 1.2)


def test_limiting_one_job_to_60_pct_lifts_heavy_pairs_over_serial_execution() -> None:
    # Gimbal: of five pairs two beat serial execution under free competition, four once one is limited so.
    for free in ((0.42, 0.5), (0.45, 0.5), (0.47, 0.5)):
        assert sum(free) < 1.0 < sum(MODEL.rates(free, (100.0, 60.0)))
    assert max(sum(MODEL.rates((0.35, 0.5), shares)) for shares in ((100.0, 60.0), (60.0, 100.0))) < 1.0


def test_the_best_limit_gains_no_more_than_was_published_for_pairs_that_compete() -> None:
    # LGRR adds 8 % to LISS in mean JCT; here: mean gain in the sum of rates over pairs that compete.
    levels = [k / 20 for k in range(8, 20)]
    competing = [pair for pair in combinations_with_replacement(levels, 2) if 1.0 <= sum(pair) < 1.4]
    gains = [
        max(sum(MODEL.rates(free, shares)) for shares in product(SETTINGS_PCT, repeat=2)) / sum(free) - 1.0
        for free in competing
    ]
    assert 0.03 <= fmean(gains) <= 0.08
    assert max(gains) <= 0.15 + 1e-9


def test_it_is_as_concave_as_a_measured_job_alone() -> None:
    # DenseNet-121 alone on 10, 20 and 90 % of a GPU: docs/models/share-model.md.
    measured = {10.0: 0.0141 / 0.0576, 20.0: 0.0141 / 0.0308}
    for share_pct, rate in measured.items():
        rate_a, _ = MODEL.rates((1.0, 1.0), (share_pct, 1.0))
        assert rate_a == pytest.approx(rate, abs=0.03)
