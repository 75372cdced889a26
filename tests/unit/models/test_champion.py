"""When a new model replaces the old one: constructed cases on either side of each condition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.artifacts.champion import Margins, Trial, day_of, decide, upper_bound

DAYS = np.repeat(np.arange(10), 20)


def trial(losses, misses: int = 20, name: str = "new") -> Trial:
    """`losses` one for each row or one for all; the first `misses` rows are missed."""
    return Trial(name, np.broadcast_to(np.asarray(losses, float), DAYS.shape), np.arange(len(DAYS)) < misses)


OLD = trial(1.0, name="old")


def test_a_model_that_wins_every_day_is_promoted():
    verdict = decide(trial(0.9), OLD, DAYS)
    assert verdict.is_promoted
    assert (verdict.loss, verdict.champion_loss) == pytest.approx((0.9, 1.0))
    assert verdict.worst_loss_share == pytest.approx(-0.1)
    assert (verdict.num_days, verdict.num_rows) == (10, 200)
    assert "new replaces old" in verdict.why


@pytest.mark.parametrize("losses", [1.0, 1.001, 2.0])
def test_a_model_that_does_not_win_stays_out(losses):
    verdict = decide(trial(losses), OLD, DAYS)
    assert not verdict.is_promoted
    assert "no better" in verdict.why


def test_a_win_on_one_day_out_of_ten_is_luck():
    """Twenty rows of one day are one piece of evidence: row by row this would be a sure win."""
    losses = np.where(DAYS == 0, 0.5, np.where(DAYS % 2 == 0, 0.95, 1.05))
    verdict = decide(trial(losses), OLD, DAYS)
    assert verdict.loss < verdict.champion_loss
    assert not verdict.is_promoted
    assert "not surely enough" in verdict.why
    rows_as_days = decide(trial(losses), OLD, np.arange(len(DAYS)))
    assert rows_as_days.is_promoted


def test_the_margin_of_the_loss_decides_how_sure_is_sure_enough():
    losses = np.where(DAYS % 2 == 0, 0.90, 1.06)
    worst = decide(trial(losses), OLD, DAYS).worst_loss_share
    assert worst > 0.02
    assert decide(trial(losses), OLD, DAYS, Margins(loss_share=worst + 0.001)).is_promoted
    assert not decide(trial(losses), OLD, DAYS, Margins(loss_share=worst - 0.001)).is_promoted


def test_tails_come_before_cleverness():
    """Half the loss, but three more misses in two hundred: 1.5 points, one is allowed."""
    verdict = decide(trial(0.5, misses=23), OLD, DAYS)
    assert not verdict.is_promoted
    assert "tails of new are too short" in verdict.why
    assert decide(trial(0.5, misses=22), OLD, DAYS).is_promoted
    assert decide(trial(0.5, misses=0), OLD, DAYS).is_promoted


def test_too_little_concludes_nothing():
    one_day = decide(trial(0.5), OLD, np.zeros_like(DAYS))
    assert not one_day.is_promoted
    assert "too few" in one_day.why
    few = slice(0, None, 5)
    cut = [Trial(t.name, t.losses[few], t.is_missed[few]) for t in (trial(0.5), OLD)]
    assert not decide(*cut, DAYS[few]).is_promoted
    assert decide(*cut, DAYS[few], Margins(least_rows=40)).is_promoted
    nothing = [Trial(t.name, t.losses[:0], t.is_missed[:0]) for t in (trial(0.5), OLD)]
    assert not decide(*nothing, DAYS[:0]).is_promoted


def test_a_champion_without_loss_cannot_be_beaten():
    assert not decide(trial(0.0), trial(0.0, name="old"), DAYS).is_promoted


def test_the_bound_is_that_of_the_textbook_where_days_are_single_rows():
    """Days of one row: the t bound of a mean. Worked out by hand for 1, 2, 3, 4: mean 2.5, s 1.291."""
    found = upper_bound(np.array([1.0, 2.0, 3.0, 4.0]), np.arange(4), 0.95)
    assert found == pytest.approx(2.5 + 2.3534 * 1.29099 / 2.0, abs=1e-3)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-5, 5), min_size=4, max_size=60),
    st.integers(2, 4),
    st.floats(0.6, 0.99),
)
def test_a_bound_lies_above_the_mean_and_rises_with_the_confidence(differences, number, confidence):
    values, days = np.array(differences), np.arange(len(differences)) % number
    bound = upper_bound(values, days, confidence)
    assert bound >= values.mean() - 1e-12
    assert upper_bound(values, days, confidence + 0.005) >= bound - 1e-12


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(len(DAYS))))
def test_the_order_of_the_rows_is_no_matter(order):
    losses = np.where(DAYS % 3 == 0, 0.7, 1.02)
    shuffled = [Trial(t.name, t.losses[order], t.is_missed[order]) for t in (trial(losses), OLD)]
    one, other = decide(trial(losses), OLD, DAYS), decide(*shuffled, DAYS[order])
    assert other.is_promoted == one.is_promoted
    assert other.worst_loss_share == pytest.approx(one.worst_loss_share)


def test_trials_of_different_forecasts_are_refused():
    with pytest.raises(ValueError, match="same rows"):
        decide(Trial("new", np.zeros(3), np.zeros(3, bool)), OLD, DAYS)
    with pytest.raises(ValueError, match="not finite"):
        decide(trial(np.nan), OLD, DAYS)


@pytest.mark.parametrize(
    "bad", [{"loss_share": -0.1}, {"miss_share": 1.0}, {"confidence": 0.4}, {"least_days": 1}]
)
def test_margins_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match=r"margins|two days"):
        Margins(**bad)


def test_days_begin_at_midnight_of_the_record():
    assert day_of(np.array([0.0, 86_399.9, 86_400.0, -1.0])).tolist() == [0, 0, 1, -1]
