"""Widths alive ahead."""

import math

import numpy as np
import pytest
from support import job

from domain.forecasts import LIFE_EDGES_S
from solver.lives import Cohorts, Entry, LifeBook, survival_at

EDGES_S = np.array(LIFE_EDGES_S)
OFFSETS_S = np.array([0.0, 600.0, 3600.0])


def exponential(mean_s):
    return np.exp(-EDGES_S / mean_s)


def book_of(num_groups, offsets_s=OFFSETS_S, num_counted=None, kinship=0.0):
    return LifeBook(num_groups, num_groups if num_counted is None else num_counted, kinship, offsets_s)


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
    mean, variance = alive.mean, alive.variance
    share = np.exp(-OFFSETS_S / 20_000.0)
    assert mean[0] == pytest.approx(4 * share, rel=0.03)
    assert variance == pytest.approx(16 * share * (1 - share), abs=0.4)


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
    assert book.alive(10.0).variance.tolist() == [0.0, 0.0, 0.0], "what is certain has no spread"


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
    assert alive.cohort_sd == {}


@pytest.mark.parametrize(("kinship", "variance"), [(0.0, 10 * 0.25), (1.0, 100 * 0.25), (0.5, 55 * 0.25)])
def test_siblings_live_alike_so_the_spread_of_their_sum_is_larger(kinship, variance):
    book = book_of(2, np.array([1000.0]), num_counted=1, kinship=kinship)
    half = np.where(EDGES_S < 100.0, 1.0, 0.5)
    for k in range(10):
        book.add(Entry(f"j{k}", 1, half, 7), 0.0, 0)
    book.add(Entry("not counted", 50, half, 8), 0.0, 1)
    alive = book.alive(0.0)
    assert alive.variance[0] == pytest.approx(variance)
    assert list(alive.cohort_sd) == [7]
    assert alive.cohort_sd[7][0] == pytest.approx(5.0)


def test_strangers_are_independent_whatever_the_kinship():
    book = book_of(1, np.array([1000.0]), kinship=1.0)
    half = np.where(EDGES_S < 100.0, 1.0, 0.5)
    for k in range(10):
        book.add(Entry(f"j{k}", 1, half, k), 0.0, 0)
    assert book.alive(0.0).variance[0] == pytest.approx(10 * 0.25)


def test_a_burst_is_what_comes_alike_within_ten_minutes_of_the_one_before():
    cohorts = Cohorts()
    first = cohorts.of(job("a", 0.0))
    assert cohorts.of(job("b", 600.0)) == first
    assert cohorts.of(job("c", 1100.0)) == first
    assert cohorts.of(job("d", 1100.0, num_gpus=2)) != first
    assert cohorts.of(job("e", 1100.0, pool="b")) != first
    assert cohorts.of(job("f", 1701.0)) != first
