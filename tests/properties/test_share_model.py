"""Properties of the share model, over free rates, shares and parameters within +-20 %."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.packing.share_model import PARAMETERS, ShareModel

RATES = st.floats(0.01, 1.0)
SHARES = st.floats(1.0, 100.0)
MODELS = st.builds(
    lambda name, factor: ShareModel().scaled(name, factor),
    st.sampled_from(PARAMETERS),
    st.sampled_from((0.8, 1.0, 1.2)),
)
TINY = 1e-9


@settings(max_examples=200)
@given(MODELS, st.tuples(RATES, RATES), st.tuples(SHARES, SHARES))
def test_rates_are_possible_and_their_sum_is_bounded(
    model: ShareModel, free: tuple[float, float], shares_pct: tuple[float, float]
) -> None:
    rates = model.rates(free, shares_pct)
    assert all(0.0 < rate <= 1.0 for rate in rates)
    assert sum(rates) <= (1.0 + model.most_gain) * max(1.0, sum(free)) + TINY
    alone = model.rates((1.0, 1.0), (shares_pct[0], 1.0))[0]
    assert rates[0] <= alone + TINY


@settings(max_examples=200)
@given(MODELS, st.tuples(RATES, RATES), st.tuples(SHARES, SHARES), SHARES)
def test_more_for_one_never_slows_it_nor_speeds_the_other(
    model: ShareModel, free: tuple[float, float], shares_pct: tuple[float, float], other_pct: float
) -> None:
    less, more = sorted((shares_pct[0], other_pct))
    before = model.rates(free, (less, shares_pct[1]))
    after = model.rates(free, (more, shares_pct[1]))
    assert after[0] >= before[0] - TINY
    assert after[1] <= before[1] + TINY


@settings(max_examples=100)
@given(MODELS, st.tuples(RATES, RATES), SHARES)
def test_rates_and_their_sum_are_concave_in_one_share(
    model: ShareModel, free: tuple[float, float], fixed_pct: float
) -> None:
    unlimited = ShareModel(model.least_parallel, model.use_per_loss, model.lasting, most_gain=10.0)
    points = [unlimited.rates(free, (float(pct), fixed_pct)) for pct in range(1, 101)]
    for line in ([a for a, _ in points], [b for _, b in points], [a + b for a, b in points]):
        slopes = [after - before for before, after in pairwise(line)]
        assert all(later <= earlier + TINY for earlier, later in pairwise(slopes))


@settings(max_examples=100)
@given(st.tuples(RATES, RATES))
def test_it_approaches_free_competition_without_a_jump(free: tuple[float, float]) -> None:
    near = ShareModel().rates(free, (100.0 - 1e-9, 100.0 - 1e-9))
    assert all(abs(a - b) < 1e-6 for a, b in zip(near, free, strict=True))
