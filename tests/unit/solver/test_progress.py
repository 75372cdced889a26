"""Forecasts of what is left, and who is sent back first."""

from dataclasses import replace

import numpy as np
import pytest

from domain.checkpoints import KeptWork
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from solver.lives import Entry, LifeBook, survival_at
from solver.policies.victims import least_lost_first
from solver.progress import left_alive, left_quantile_s, repeated_share

JOB = Job("x", "a", 0.0, 1, checkpoint_s=100.0)
MEAN_S = 5000.0


class Exponential:
    """Lives without memory: what is left is as long as all of it was."""

    is_clairvoyant = False

    def quantile_s(self, _job, level):
        return -MEAN_S * np.log(1.0 - level)

    def survival(self, _job):
        return tuple(np.exp(-np.array(LIFE_EDGES_S) / MEAN_S))


class Always:
    """One length, known."""

    is_clairvoyant = True

    def quantile_s(self, _job, _level):
        return 6000.0

    def survival(self, _job):
        return tuple(float(edge < 6000.0) for edge in LIFE_EDGES_S)


@pytest.mark.parametrize("kept_s", [0.0, 100.0, 4000.0])
def test_a_life_without_memory_is_as_long_as_before(kept_s):
    lives = Exponential()
    median_s = left_quantile_s(lives, JOB, 0.5, kept_s)
    assert median_s == pytest.approx(MEAN_S * np.log(2.0), rel=0.03)


def test_of_a_known_length_the_rest_is_left():
    assert left_quantile_s(Always(), JOB, 0.5, 0.0) == 6000.0
    assert left_quantile_s(Always(), JOB, 0.9, 1000.0) == 5000.0


def test_one_that_has_outlived_its_forecast_halves_its_chances_with_every_doubling():
    assert left_quantile_s(Always(), JOB, 0.5, 20_000.0) == 20_000.0


def test_chances_are_given_what_is_kept():
    curve, offsets_s = np.array(Exponential().survival(JOB)), np.array([0.0, 600.0, 7200.0])
    found = left_alive(curve, 1000.0, offsets_s)
    whole = survival_at(curve[None, :], 1000.0 + offsets_s[None, :])[0]
    assert found == pytest.approx(whole / whole[0])
    assert found[0] == 1.0


def test_while_it_loads_it_runs_and_comes_no_further():
    curve, offsets_s = np.array(Exponential().survival(JOB)), np.array([0.0, 60.0, 90.0, 690.0, 7290.0])
    found = left_alive(curve, 910.0, offsets_s, 90.0)
    assert found[:3] == pytest.approx([1.0, 1.0, 1.0])
    assert found[3:] == pytest.approx(left_alive(curve, 1000.0, np.array([600.0, 7200.0])))


def test_loading_is_a_part_of_what_is_left():
    loads = replace(JOB, restart_s=90.0)
    assert left_quantile_s(Always(), loads, 0.5, 910.0) == 90.0 + 5000.0
    assert left_quantile_s(Always(), loads, 0.5, 0.0) == 6000.0
    assert left_quantile_s(Always(), loads, 0.5, 19_910.0) == 90.0 + 20_000.0
    median_s = left_quantile_s(Exponential(), loads, 0.5, 910.0)
    assert median_s == pytest.approx(90.0 + left_quantile_s(Exponential(), JOB, 0.5, 1000.0))


def test_a_running_job_that_loads_is_as_alive_as_it_was_forecast_to_be_when_it_waited():
    curve, offsets_s = np.array(Exponential().survival(JOB)), np.array([0.0, 60.0, 600.0, 7200.0])
    book = LifeBook(1, 1, offsets_s)
    book.add(Entry("x", 4, curve, 1), 10_000.0 - 910.0, 0, 1000.0)
    assert book.alive(10_000.0).mean[0] == pytest.approx(4 * left_alive(curve, 910.0, offsets_s, 90.0))
    half = book.alive(10_040.0).mean[0]
    assert half == pytest.approx(4 * left_alive(curve, 950.0, offsets_s, 50.0))
    later = book.alive(10_190.0).mean[0]
    assert later == pytest.approx(4 * left_alive(curve, 1100.0, offsets_s))


def test_being_back_costs_beside_the_interval():
    job = Job("x", "a", 0.0, 1, checkpoint_s=100.0, restart_s=60.0)
    assert repeated_share(job, 400.0) == 0.4
    assert repeated_share(job, 160.0) == 1.0
    assert repeated_share(replace(job, checkpoint_s=None), 400.0) == 1.0


@pytest.mark.parametrize(
    ("checkpoint_s", "median_s", "share"),
    [(None, 10.0, 1.0), (100.0, 400.0, 0.25), (100.0, 50.0, 1.0), (100.0, 0.0, 1.0)],
)
def test_at_most_an_interval_is_repeated(checkpoint_s, median_s, share):
    assert repeated_share(Job("x", "a", 0.0, 1, checkpoint_s=checkpoint_s), median_s) == share


def test_whoever_loses_least_goes_first_and_equals_stay_youngest_first():
    old, saves, young = (
        Job("old", "a", 0.0, 1),
        Job("saves", "a", 0.0, 1, checkpoint_s=10.0),
        Job("y", "a", 0.0, 1),
    )
    twin = Job("twin", "a", 0.0, 1)
    kept = KeptWork()
    for job, start_s in ((old, 0.0), (saves, 1.0), (twin, 40.0), (young, 40.0)):
        kept.started(job, start_s)
    order = [young, twin, saves, old]
    assert least_lost_first(order, kept, 45.0) == [saves, young, twin, old]
    assert least_lost_first([young, twin, old], kept, 45.0) == [young, twin, old]
