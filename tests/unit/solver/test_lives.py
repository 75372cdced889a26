"""Widths alive ahead."""

import math

import numpy as np
import pytest

from domain.forecasts import LIFE_EDGES_S
from solver.lives import LifeBook, survival_at

EDGES_S = np.array(LIFE_EDGES_S)
OFFSETS_S = np.array([0.0, 600.0, 3600.0])


def exponential(mean_s):
    return np.exp(-EDGES_S / mean_s)


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
    book = LifeBook(1, OFFSETS_S)
    book.add("old", 4, exponential(20_000.0), -30_000.0, 0)
    mean, variance = book.alive(0.0)
    share = np.exp(-OFFSETS_S / 20_000.0)
    assert mean[0] == pytest.approx(4 * share, rel=0.03)
    assert variance[0] == pytest.approx(16 * share * (1 - share), abs=0.4)


def test_groups_are_kept_apart_and_jobs_move_and_leave():
    book = LifeBook(3, OFFSETS_S)
    forever = np.ones(EDGES_S.size)
    book.add("a", 2, forever, 0.0, 0)
    book.add("b", 3, forever, 0.0, 2)
    assert book.alive(10.0)[0][:, 0].tolist() == [2.0, 0.0, 3.0]
    book.move("a", 1)
    book.remove("b")
    book.remove("nobody")
    assert book.alive(10.0)[0][:, 0].tolist() == [0.0, 2.0, 0.0]
    assert "a" in book
    assert "b" not in book
    assert book.alive(10.0)[1].tolist() == np.zeros((3, 3)).tolist(), "what is certain has no spread"


def test_a_job_that_has_outlived_its_curve_halves_its_chances_with_every_doubling_of_its_age():
    book = LifeBook(1, np.array([0.0, 1000.0]))
    book.add("surprise", 1, (EDGES_S < 100.0).astype(float), 0.0, 0)
    mean, _ = book.alive(999.0)
    assert mean[0].tolist() == [1.0, 0.5]


def test_many_jobs_in_and_out_are_those_that_are_in():
    book = LifeBook(1, np.array([0.0]))
    forever = np.ones(EDGES_S.size)
    for k in range(500):
        book.add(f"j{k}", 1, forever, 0.0, 0)
        if k % 3:
            book.remove(f"j{k}")
    assert book.alive(5.0)[0][0, 0] == math.ceil(500 / 3)


def test_nobody_runs():
    mean, variance = LifeBook(2, OFFSETS_S).alive(0.0)
    assert mean.shape == variance.shape == (2, 3)
    assert not mean.any()
