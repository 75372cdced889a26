import numpy as np
import pytest
from scipy.stats import norm

from solver.lending.curves import RiskLines, no_risk, risk_lines


def slowed(x, need, hit, sd, capacity):
    """The curve itself, one cell, one number at a time."""

    def missing(at):
        short = np.asarray(need) + at - capacity
        return sd * norm.pdf(short / sd) + short * norm.cdf(short / sd)

    return float(np.mean(np.asarray(hit) * (missing(x) - missing(0.0))))


NEED = np.array([[90.0, 60.0], [105.0, 70.0], [97.0, 80.0]])
HIT = np.array([[0.2, 1.0], [1.5, 1.0], [0.1, 1.0]])


def test_lines_lie_above_the_curve_and_keep_their_bound():
    lines = risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 50.0, points=8)
    for cell, sd in enumerate((4.0, 2.0)):
        for x in np.linspace(0.0, 50.0, 201):
            truth = slowed(x, NEED[:, cell], HIT[:, cell], sd, 100.0)
            over = lines.at(np.full(2, x))[cell] - truth
            assert -1e-9 <= over <= lines.error_jobs[cell] + 1e-9


def test_beyond_the_reach_they_still_lie_above():
    lines = risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 10.0, points=4)
    for x in (10.0, 20.0, 80.0):
        assert lines.at(np.full(2, x))[0] >= slowed(x, NEED[:, 0], HIT[:, 0], 4.0, 100.0) - 1e-9


def test_more_points_bring_them_closer():
    errors = [
        risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 50.0, points=points).error_jobs.sum()
        for points in (2, 4, 8, 16)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02 * errors[0]


def test_where_little_is_accepted_they_are_close_there_and_above_everywhere():
    """Far up each GPU slows 0.6 jobs in the first cell; a hundredth of a job is accepted."""
    far, near = (
        risk_lines(NEED - 60.0, HIT, np.array([4.0, 2.0]), 100.0, 500.0, points=6, most_jobs=most)
        for most in (np.inf, 0.01)
    )
    ends = []
    for cell, sd in enumerate((4.0, 2.0)):
        truth = [slowed(x, NEED[:, cell] - 60.0, HIT[:, cell], sd, 100.0) for x in range(500)]
        over = np.array([near.at(np.full(2, float(x)))[cell] for x in range(500)]) - truth
        ends.append(float(np.searchsorted(truth, 0.01)) - 1.0)
        assert over.min() >= -1e-9
        assert over[: int(ends[-1]) + 1].max() <= 0.003
    assert (far.at(np.array(ends)) > 0.1).all(), "spread over the whole reach they see many times as much"


def test_nothing_is_accepted_where_the_budget_is_used_up():
    lines = risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 50.0, most_jobs=0.0)
    assert (lines.at(np.full(2, 3.0)) > 0.0).all()


def test_nothing_lent_slows_nobody():
    lines = risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 50.0)
    assert lines.at(np.zeros(2)) == pytest.approx([0.0, 0.0], abs=1e-12)


def test_shifted_lines_count_on_from_what_is_lent():
    lines = risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 50.0)
    lent = np.array([7.0, 30.0])
    more = np.array([5.0, 3.0])
    assert lines.shifted(lent).at(more) == pytest.approx(lines.at(lent + more) - lines.at(lent))


def test_stretched_lines_take_guests_for_larger_than_they_are():
    lines = risk_lines(NEED, HIT, np.array([4.0, 2.0]), 100.0, 50.0)
    lent = np.array([7.0, 30.0])
    assert lines.stretched(1.5).at(lent) == pytest.approx(lines.at(1.5 * lent))


def test_one_scenario_of_arrivals_stands_for_all():
    one = risk_lines(NEED, np.full((1, 2), 0.5), np.array([4.0, 2.0]), 100.0, 50.0)
    same = risk_lines(NEED, np.full((3, 2), 0.5), np.array([4.0, 2.0]), 100.0, 50.0)
    assert one.slope == pytest.approx(same.slope)


def test_a_curve_with_a_corner_is_found():
    """Without spread the curve is 0 up to 10 GPUs and then rises with the hit: two lines are exact."""
    lines = risk_lines(np.array([[90.0]]), np.array([[2.0]]), np.zeros(1), 100.0, 40.0, points=12)
    assert lines.at(np.array([9.0]))[0] < 1e-3
    assert lines.at(np.array([25.0]))[0] == pytest.approx(30.0, rel=1e-3)


@pytest.mark.parametrize(
    ("slope", "intercept"),
    [
        (np.ones((2, 3)), np.ones((2, 2))),
        (np.full((2, 3), -1.0), np.zeros((2, 3))),
        (np.full((2, 3), np.nan), np.zeros((2, 3))),
        (np.ones(3), np.zeros(3)),
    ],
)
def test_lines_that_are_none_are_refused(slope, intercept):
    with pytest.raises(ValueError, match=r"differ|falls|finite"):
        RiskLines(slope, intercept, np.zeros(2))


def test_one_point_makes_no_chord():
    with pytest.raises(ValueError, match="no chord"):
        risk_lines(NEED, HIT, np.ones(2), 100.0, 50.0, points=1)


def test_no_risk_is_none():
    assert no_risk(3).at(np.full(3, 1e6)).sum() == 0.0
