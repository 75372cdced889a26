"""Widths alive ahead."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from support import job

from domain.forecasts import LIFE_EDGES_S
from solver.lives import Cohorts, Entry, Fates, LifeBook, fated, survival_at

EDGES_S = np.array(LIFE_EDGES_S)
OFFSETS_S = np.array([0.0, 600.0, 3600.0])


def exponential(mean_s):
    return np.exp(-EDGES_S / mean_s)


def book_of(num_groups, offsets_s=OFFSETS_S, num_counted=None):
    return LifeBook(num_groups, num_groups if num_counted is None else num_counted, offsets_s)


def test_survival_meets_the_curve_at_its_edges_and_lies_between_them():
    curve = exponential(5000.0)[None, :]
    assert survival_at(curve, EDGES_S[None, :])[0] == pytest.approx(curve[0])
    times_s = np.geomspace(10.0, 1e6, 50)[None, :]
    found = survival_at(curve, times_s)[0]
    assert np.all(np.diff(found) <= 0)
    assert found == pytest.approx(np.exp(-times_s[0] / 5000.0), abs=0.02)


def test_before_the_first_edge_survival_falls_from_one():
    curve = np.full((1, EDGES_S.size), 0.5)
    assert survival_at(curve, np.array([[0.0, 4.0, 8.0, 1e9]]))[0].tolist() == [1.0, 0.75, 0.5, 0.5]


def test_exponential_lives_do_not_age():
    book = book_of(1, OFFSETS_S)
    book.add(Entry("old", 4, exponential(20_000.0), 0), -30_000.0, 0)
    alive = book.alive(0.0)
    mean, spread = alive.mean, alive.spread
    share = np.exp(-OFFSETS_S / 20_000.0)
    assert mean[0] == pytest.approx(4 * share, rel=0.03)
    assert spread == pytest.approx(16 * share * (1 - share), abs=0.4)


def test_groups_are_kept_apart_and_jobs_move_and_leave():
    book = book_of(3, OFFSETS_S)
    forever = np.ones(EDGES_S.size)
    book.add(Entry("a", 2, forever, 0), 0.0, 0)
    book.add(Entry("b", 3, forever, 0), 0.0, 2)
    assert book.alive(10.0).mean[:, 0].tolist() == [2.0, 0.0, 3.0]
    book.move("a", 1)
    book.remove("b")
    book.remove("nobody")
    assert book.alive(10.0).mean[:, 0].tolist() == [0.0, 2.0, 0.0]
    assert "a" in book
    assert "b" not in book
    assert book.alive(10.0).spread.tolist() == [0.0, 0.0, 0.0], "what is certain has no spread"


def test_a_job_that_has_outlived_its_curve_halves_its_chances_with_every_doubling_of_its_age():
    book = book_of(1, np.array([0.0, 1000.0]))
    book.add(Entry("surprise", 1, (EDGES_S < 100.0).astype(float), 0), 0.0, 0)
    assert book.alive(999.0).mean[0].tolist() == [1.0, 0.5]


def test_many_jobs_in_and_out_are_those_that_are_in():
    book = book_of(1, np.array([0.0]))
    forever = np.ones(EDGES_S.size)
    for k in range(500):
        book.add(Entry(f"j{k}", 1, forever, 0), 0.0, 0)
        if k % 3:
            book.remove(f"j{k}")
    assert book.alive(5.0).mean[0, 0] == math.ceil(500 / 3)


def test_nobody_runs():
    alive = book_of(2, OFFSETS_S).alive(0.0)
    assert alive.mean.shape == (2, 3)
    assert not alive.mean.any()
    assert alive.cohorts == ()
    assert not alive.spread.any()
    assert not alive.common.any()


HALF = np.where(EDGES_S < 100.0, 1.0, 0.5)
"""Alive at 1000 s with chance 1/2."""


def test_jobs_of_a_burst_in_one_group_are_a_cohort():
    book = book_of(2, np.array([1000.0]), num_counted=1)
    for k in range(10):
        book.add(Entry(f"j{k}", 2, HALF, 7), 0.0, 0)
    book.add(Entry("sure", 20, np.ones(EDGES_S.size), 7), 0.0, 0)
    book.add(Entry("stranger", 1, HALF, 8), 0.0, 0)
    book.add(Entry("not counted", 50, HALF, 7), 0.0, 1)
    alive = book.alive(0.0)
    assert alive.spread.tolist() == [10 * 4 * 0.25 + 0.25]
    assert alive.common.tolist() == alive.spread.tolist()
    kin, stranger = alive.cohorts
    assert kin[:3] == (7, 0, 40.0)
    assert kin.share.tolist() == [30.0 / 40.0], "by width: ten of 2 GPUs at one half, 20 GPUs for certain"
    assert stranger[:3] == (8, 0, 1.0)
    assert stranger.share.tolist() == [0.5]


def test_a_burst_in_two_groups_is_two_cohorts_of_one_number():
    book = book_of(2, np.array([1000.0]))
    book.add(Entry("a", 1, HALF, 7), 0.0, 0)
    book.add(Entry("b", 1, HALF, 7), 0.0, 1)
    assert [(one.number, one.group) for one in book.alive(0.0).cohorts] == [(7, 0), (7, 1)]


def test_only_the_widest_cohorts_are_told_apart():
    book = book_of(1, np.array([1000.0]))
    for k in range(70):
        book.add(Entry(f"j{k}", 1 + k, HALF, k), 0.0, 0)
    alive = book.alive(0.0)
    assert [one.number for one in alive.cohorts] == list(range(6, 70))
    wide = sum((1 + k) ** 2 * 0.25 for k in range(6, 70))
    assert alive.common.tolist() == [wide]
    assert alive.spread.tolist() == [wide + sum((1 + k) ** 2 * 0.25 for k in range(6))]


# Fates: how a cohort fares, scenario by scenario.


@pytest.mark.parametrize(("kinship", "common"), [(0.0, 0), (0.3, 60), (1.0, 200)])
def test_a_cohort_has_one_fate_in_exactly_its_share_of_the_scenarios(kinship, common):
    fates = Fates(kinship, 3)
    for number in range(5):
        drawn = fates.of(number, 200)
        assert np.count_nonzero(~np.isnan(drawn)) == common == fates.num_common(200)


def test_in_a_single_scenario_there_is_no_common_fate():
    assert np.isnan(Fates(1.0, 0).of(7, 1)).all()


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_the_chance_to_be_alive_stays_what_it_is(share):
    alive = fated(Fates(0.3, 3).of(7, 200), np.array([share]))
    assert alive.mean() == pytest.approx(share)
    common = alive[~np.isnan(Fates(0.3, 3).of(7, 200)), 0]
    assert common.mean() == share
    assert set(common) <= {0.0, 1.0}


def test_whoever_is_alive_later_is_alive_before():
    alive = fated(Fates(0.5, 0).of(1, 100), np.array([0.9, 0.6, 0.6, 0.1]))
    assert np.all(np.diff(alive, axis=1) <= 0)


@pytest.mark.parametrize("kinship", [0.0, 0.3, 1.0])
def test_the_lives_of_two_siblings_correlate_by_kinship_and_those_of_strangers_do_not(kinship):
    """Given the scenario two jobs are independent: E[both] is the mean of the product of their chances."""
    fates, share = Fates(kinship, 3), np.array([0.25])

    def correlation(one, other):
        first, second = (fated(fates.of(number, 4000), share)[:, 0] for number in (one, other))
        return (np.mean(first * second) - 0.25**2) / (0.25 * 0.75)

    assert correlation(7, 7) == pytest.approx(kinship)
    assert correlation(7, 8) == pytest.approx(0.0, abs=0.05)


def test_that_all_of_a_burst_stay_is_far_likelier_than_a_normal_sum_of_the_same_variance_has_it():
    """40 jobs, each alive with chance 1/2: all are with 0.3 / 2, by a normal sum with less than 0.04."""
    alive = 40 * fated(Fates(0.3, 3).of(7, 200), np.array([0.5]))[:, 0]
    variance = alive.var() + 0.7 * 40 * 0.25
    assert variance == pytest.approx(0.3 * 40**2 * 0.25 + 0.7 * 40 * 0.25)
    assert np.mean(alive == 40) == pytest.approx(0.15)
    assert norm.sf(40, loc=20, scale=math.sqrt(variance)) < 0.04


def test_fates_are_those_of_the_seed_whoever_is_asked_for_first():
    one, other, apart = Fates(0.5, 1), Fates(0.5, 1), Fates(0.5, 2)
    one.of(3, 100)
    assert np.array_equal(one.of(4, 100), other.of(4, 100), equal_nan=True)
    assert not np.array_equal(one.of(4, 100), apart.of(4, 100), equal_nan=True)
    assert not np.array_equal(one.of(4, 100), one.of(3, 100), equal_nan=True)


def test_a_burst_is_what_comes_alike_within_ten_minutes_of_the_one_before():
    cohorts = Cohorts()
    first = cohorts.of(job("a", 0.0))
    assert cohorts.of(job("b", 600.0)) == first
    assert cohorts.of(job("c", 1100.0)) == first
    assert cohorts.of(job("d", 1100.0, num_gpus=2)) != first
    assert cohorts.of(job("e", 1100.0, pool="b")) != first
    assert cohorts.of(job("f", 1701.0)) != first


# Rates, and riders.


def test_a_job_is_as_old_as_its_work_and_lives_longer_at_a_lower_rate():
    """At 10,000 s it has done 6,000 s of work, and does half of the time ahead."""
    curve, offsets_s = exponential(5000.0) ** 0.5, np.array([0.0, 1000.0, 8000.0])
    slow, alone = book_of(1, offsets_s), book_of(1, offsets_s / 2)
    slow.add(Entry("j", 2, curve, 0), 0.0, 0)
    slow.rate_changed("j", 2000.0, 0.5)
    alone.add(Entry("j", 2, curve, 0), 0.0, 0)
    assert np.array_equal(slow.alive(10_000.0).mean, alone.alive(6000.0).mean)
    assert np.array_equal(slow.alive(10_000.0).spread, alone.alive(6000.0).spread)
    slow.rate_changed("j", 10_000.0, 1.0)
    whole = book_of(1, offsets_s)
    whole.add(Entry("j", 2, curve, 0), 4000.0, 0)
    assert slow.alive(11_000.0).mean == pytest.approx(whole.alive(11_000.0).mean)


def test_at_rate_1_nothing_changes_bit_by_bit():
    told, untold = book_of(2), book_of(2)
    for k in range(20):
        for book in (told, untold):
            book.add(Entry(f"j{k}", 1 + k % 3, exponential(900.0 * (k + 1)), k % 4), 13.7 * k, k % 2)
        told.rate_changed(f"j{k}", 300.0, 1.0)
    for now_s in (300.0, 1234.5):
        one, other = told.alive(now_s), untold.alive(now_s)
        assert np.array_equal(one.mean, other.mean)
        assert np.array_equal(one.spread, other.spread)


def test_a_job_added_again_runs_alone():
    book = book_of(1)
    for _ in range(2):
        book.add(Entry("j", 1, exponential(5000.0), 0), 0.0, 0)
        found = book.alive(1000.0).mean
        book.rate_changed("j", 1000.0, 0.1)
        book.remove("j")
    assert found == pytest.approx(np.exp(-OFFSETS_S / 5000.0)[None], rel=0.1)


def held(offset_s, *jobs):
    """Expected GPUs that are held, over all combinations of who is alive: (width, mean, host's index)."""
    total = 0.0
    for alive in np.ndindex(*(2,) * len(jobs)):
        chance, gpus = 1.0, 0
        for is_alive, (width, mean_s, host) in zip(alive, jobs, strict=True):
            share = float(survival_at(exponential(mean_s)[None], np.array([[offset_s]]))[0, 0])
            chance *= share if is_alive else 1.0 - share
            # a rider alone keeps its part of its host's GPUs
            gpus += width if is_alive and (host is None or not alive[host]) else 0
        total += chance * gpus
    return total


def test_gpus_that_two_jobs_share_are_held_until_both_have_ended():
    """By all combinations of who is alive: a host of 4 GPUs, riders of 1 and 2, and a stranger of 3."""
    jobs = [(4, 3000.0, None), (1, 9000.0, 0), (2, 500.0, 0), (3, 2000.0, None)]
    book = book_of(3)
    for k, (width, mean_s, _) in enumerate(jobs):
        book.add(Entry(f"j{k}", width, exponential(mean_s), k), 0.0, min(k, 2))
    book.rides("j1", "j0")
    book.rides("j2", "j0")
    alive = book.alive(0.0)
    assert alive.mean.sum(axis=0) == pytest.approx([held(offset_s, *jobs) for offset_s in OFFSETS_S])
    assert alive.mean[:, 0].tolist() == [4.0, 0.0, 3.0], "what is shared is the host's group's"
    assert [cohort[:3] for cohort in alive.cohorts] == [(0, 0, 4.0), (3, 2, 3.0)], "and its cohort's"
    lives = book.lives(0.0)
    assert lives.width.sum() == 7.0
    assert (lives.width[:, None] * lives.share).sum(axis=0) == pytest.approx(alive.mean.sum(axis=0))
    riding = book.riding(0.0)
    assert riding[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert riding[1] == pytest.approx(survival_at(exponential(9000.0)[None], OFFSETS_S[None])[0])


def test_riders_count_again_when_their_host_or_the_ride_ends():
    book = book_of(2)
    forever = np.ones(EDGES_S.size)
    for name, width, group in (("host", 4, 0), ("one", 1, 1), ("two", 2, 1)):
        book.add(Entry(name, width, forever, 0), 0.0, group)
    for name in ("one", "two"):
        book.rides(name, "host")
    assert book.alive(0.0).mean[:, 0].tolist() == [4.0, 0.0]
    book.alone("one")
    book.alone("one")
    assert book.alive(0.0).mean[:, 0].tolist() == [4.0, 1.0]
    book.remove("host")
    assert book.alive(0.0).mean[:, 0].tolist() == [0.0, 3.0]
    assert not book.riding(0.0).any()
    book.rides("one", "two")
    book.remove("one")
    assert book.alive(0.0).mean[:, 0].tolist() == [0.0, 2.0]
