"""Lifetime models: each by its own rule, and all of them by what every forecaster owes."""

import functools
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.observers import Observer
from models import LIFETIME_MODELS, Training
from models.lifetime.empirical import LEAST_JOBS, WINDOW_JOBS, EmpiricalLifetimes
from models.lifetime.limit import RequestedLimits

HOUR_S = 3600.0


def a_job(user="u", name="n", pool="a", num_gpus=1, limit_s=HOUR_S):
    return Job("j", pool, 0.0, num_gpus, user=user, name=name, limit_s=limit_s)


def told(*lives):
    """An empirical model that was told of (job, duration, how often)."""
    model = EmpiricalLifetimes()
    for one, duration_s, times in lives:
        for _ in range(times):
            model.observe(one, duration_s)
    return model


# Empirical quantiles.


def test_while_nothing_is_known_a_life_is_an_hour():
    model = EmpiricalLifetimes()
    assert model.quantile_s(a_job(), 0.1) == model.quantile_s(a_job(user=None, name=None), 0.9) == HOUR_S
    assert model.survival(a_job()) == tuple(float(edge < HOUR_S) for edge in LIFE_EDGES_S)


def test_quantiles_are_linear_between_the_lives():
    model = told(*((a_job(), duration_s, 1) for duration_s in (30.0, 10.0, 20.0, 50.0, 40.0)))
    assert [model.quantile_s(a_job(), level) for level in (0.25, 0.5, 0.625, 0.75)] == [
        20.0,
        30.0,
        35.0,
        40.0,
    ]


LADDER = [
    a_job(user="u", name="n"),
    a_job(user="other", name="n"),
    a_job(user="u", name="other"),
    a_job(user="x", name="y"),
    a_job(user="x", name="y", num_gpus=2),
    a_job(user="x", name="y", num_gpus=2, pool="b"),
]
"""Jobs that share less and less with the first: user and name; name; user, pool and width; pool and
width; pool; nothing."""


@pytest.mark.parametrize("known", range(len(LADDER)))
def test_the_most_specific_key_that_has_enough_lives_is_believed(known):
    """Of jobs that share much to jobs that share little, those of `known` are the first with five lives."""
    model = told(
        *((one, 1000.0 * (9 - place), LEAST_JOBS) for place, one in enumerate(LADDER) if place >= known)
    )
    assert {model.quantile_s(LADDER[0], level) for level in (0.01, 0.99)} == {1000.0 * (9 - known)}


def test_a_key_with_four_lives_is_not_believed_and_with_five_it_is():
    model = told((a_job(name="other", user="other"), 100.0, 50), (a_job(), 7.0, LEAST_JOBS - 1))
    assert model.quantile_s(a_job(), 0.5) == 100.0
    model.observe(a_job(), 7.0)
    assert model.quantile_s(a_job(), 0.5) == 7.0


def test_where_no_key_has_enough_the_most_general_one_speaks():
    model = told((a_job(), 7.0, 1), (a_job(user="x", name="y", pool="b"), 99.0, 2))
    assert model.quantile_s(a_job(), 0.5) == 99.0


def test_jobs_without_a_name_or_a_user_go_by_what_they_have():
    model = told((a_job(), 10.0, 9), (a_job(name=None), 20.0, 9), (a_job(name=None, user=None), 30.0, 20))
    assert model.quantile_s(a_job(), 0.5) == 10.0
    assert model.quantile_s(a_job(name=None), 0.1) == 10.0, "user, pool and width, of both"
    assert model.quantile_s(a_job(name=None, user=None), 0.9) == 30.0, "pool and width, of all"
    assert model.quantile_s(a_job(user=None), 0.5) == 10.0, "the name alone"


def test_the_window_forgets():
    model = told((a_job(), 1000.0, WINDOW_JOBS))
    for number in range(WINDOW_JOBS):
        assert model.quantile_s(a_job(), 0.999) > 900.0, number
        model.observe(a_job(), 1.0)
    assert model.quantile_s(a_job(), 0.999) == 1.0


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1e6), min_size=LEAST_JOBS, max_size=3 * WINDOW_JOBS), st.floats(0.001, 0.999))
def test_what_is_remembered_are_the_last_lives(lives, level):
    model = told(*((a_job(), duration_s, 1) for duration_s in lives))
    fresh = told(*((a_job(), duration_s, 1) for duration_s in lives[-WINDOW_JOBS:]))
    assert model.quantile_s(a_job(), level) == fresh.quantile_s(a_job(), level)
    assert model.survival(a_job()) == fresh.survival(a_job())


def test_survival_counts_the_lives_that_are_longer():
    edge = LIFE_EDGES_S[10]
    model = told((a_job(), edge, 3), (a_job(), edge + 1.0, 1), (a_job(), edge - 1.0, 4))
    survival = model.survival(a_job())
    assert survival[9:12] == (1.0, 0.125, 0.0)


# Requested limits.


def test_every_level_of_a_life_is_its_limit():
    model = RequestedLimits()
    assert {model.quantile_s(a_job(limit_s=90.0), level) for level in (0.01, 0.5, 0.99)} == {90.0}
    assert model.survival(a_job(limit_s=90.0)) == tuple(float(edge < 90.0) for edge in LIFE_EDGES_S)


@pytest.mark.parametrize(
    "ask", [lambda m: m.quantile_s(a_job(limit_s=None), 0.5), lambda m: m.survival(a_job(limit_s=None))]
)
def test_a_job_without_a_limit_is_named(ask):
    with pytest.raises(SettingError, match="job j has no limit_s"):
        ask(RequestedLimits())


# What every model owes.

every_model = pytest.mark.parametrize("name", sorted(LIFETIME_MODELS))
fixed = settings(max_examples=60, deadline=None, derandomize=True)

kinds = st.builds(
    a_job,
    user=st.sampled_from(("u", "v", None)),
    name=st.sampled_from(("n", "m", None)),
    pool=st.sampled_from("ab"),
    num_gpus=st.integers(1, 2),
    limit_s=st.floats(1.0, 1e6),
)
lives = st.lists(st.tuples(kinds, st.floats(1.0, 1e6)), max_size=60)
levels = st.floats(0.001, 0.999)


def numbered(prefix, jobs):
    """The same jobs under ids of their own."""
    return [replace(one, job_id=f"{prefix}{k}") for k, one in enumerate(jobs)]


def taught(name, seen):
    """A model trained on lives that began at 0 s."""
    past = list(zip(numbered("past", [one for one, _ in seen]), [life_s for _, life_s in seen], strict=True))
    past.sort(key=lambda lived: lived[1])
    now_s = past[-1][1] if past else 0.0
    return LIFETIME_MODELS[name](Training({"a": 8, "b": 8}, past, (), now_s))


@functools.cache
def well_taught(name):
    """A model trained on so many lives that it leaves nothing untrained."""
    rng = np.random.default_rng(3)
    users, names = rng.choice(["u", "v"], 900), rng.choice(["n", "m"], 900)
    widths, lengths_s = rng.integers(1, 3, 900), rng.exponential(4_000.0, 900) + 1.0
    return taught(
        name,
        [
            (a_job(str(user), str(called), num_gpus=int(width)), float(length_s))
            for user, called, width, length_s in zip(users, names, widths, lengths_s, strict=True)
        ],
    )


@every_model
@fixed
@given(lives, kinds, levels, levels)
def test_lives_are_positive_and_finite_and_do_not_shrink_with_the_level(name, seen, one, low, high):
    low, high = sorted((low, high))
    model = taught(name, seen)
    assert 0.0 < model.quantile_s(one, low) <= model.quantile_s(one, high) < math.inf


@every_model
@fixed
@given(lives, kinds)
def test_survival_lies_between_one_and_nothing_and_never_rises(name, seen, one):
    survival = taught(name, seen).survival(one)
    assert len(survival) == len(LIFE_EDGES_S)
    assert all(1.0 >= a >= b >= 0.0 for a, b in pairwise(survival))


@every_model
@fixed
@given(kinds, levels, levels, st.integers(0, 10**9))
def test_so_it_is_when_much_has_been_learned(name, kind, low, high, number):
    one, model = replace(kind, job_id=f"asked{number}"), well_taught(name)
    low, high = sorted((low, high))
    assert 0.0 < model.quantile_s(one, low) <= model.quantile_s(one, high) < math.inf
    survival = model.survival(one)
    assert all(1.0 >= a >= b >= 0.0 for a, b in pairwise(survival))


@every_model
@fixed
@given(lives, st.lists(kinds, min_size=1, max_size=8), levels)
def test_asking_changes_nothing(name, seen, asked, level):
    """Only what it is told does: as long as that lies in the past, the model does too."""
    models = [taught(name, seen) for _ in range(2)]
    asked = numbered("asked", asked)
    for model in models:
        for one in asked if isinstance(model, Observer) else ():
            model.submitted(one, 1e7)
    for one in reversed(asked):
        models[0].quantile_s(one, 1.0 - level)
        models[0].survival(one)
    for one in asked:
        assert models[0].quantile_s(one, level) == models[1].quantile_s(one, level)
        assert models[0].survival(one) == models[1].survival(one)


@every_model
def test_a_model_that_learns_is_told_endings_and_goes_by_them(name):
    model = taught(name, [])
    one = a_job()
    if not isinstance(model, Observer):
        assert model.quantile_s(one, 0.5) == one.limit_s
        return
    for k, other in enumerate(numbered("told", [one] * 30)):
        model.submitted(other, 100.0 * k)
        model.started(other, 100.0 * k)
        model.ended(other, 100.0 * k + 60.0, 60.0)
    model.submitted(one, 3_000.0)
    assert 30.0 < model.quantile_s(one, 0.5) < 120.0


@every_model
def test_models_share_no_memory(name):
    before = taught(name, []).quantile_s(a_job(), 0.5)
    taught(name, [(a_job(), 5.0)] * 20)
    assert taught(name, []).quantile_s(a_job(), 0.5) == before


@every_model
@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_level_outside_zero_to_one_is_refused_or_means_nothing(name, level):
    """A model for which all levels are the same says so."""
    model = taught(name, [(a_job(), float(k)) for k in range(1, 20)])
    if "every level" in (type(model).__doc__ or "").lower():
        assert model.quantile_s(a_job(), level) == model.quantile_s(a_job(), 0.5)
    else:
        with pytest.raises(ValueError, match=r"must lie in \(0, 1\)"):
            model.quantile_s(a_job(), level)


@every_model
def test_no_model_reads_the_truth(name):
    assert not taught(name, []).is_clairvoyant
