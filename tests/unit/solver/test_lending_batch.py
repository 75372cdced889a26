"""Many guests charged at once: the same as one after another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.lending.batch import rises
from solver.lives import Alive, Cohort, Fates
from solver.lookahead import Ahead, Bursts, Guests, LookAhead, Stakes

CELLS, POOLS, SCENARIOS, GUESTS = 4, 3, 10, 40


def ahead_of(rng: np.random.Generator, num_bursts: int) -> Ahead:
    """A cluster of 48 GPUs that is about full, with cohorts, urgencies and bursts of all kinds."""
    falling = np.sort(rng.random((POOLS, CELLS)))[:, ::-1]
    share = np.sort(rng.random(CELLS))[::-1]
    urgency = [rng.random((POOLS, CELLS)) for _ in range(2)]
    spread = 8.0 * share * (1.0 - share)
    return Ahead(
        own=10.0 * falling,
        guest=3.0 * falling,
        requeueable=2.0 * falling,
        backlog=rng.uniform(0.0, 20.0, (POOLS, 1)) * falling,
        alive=Alive(np.zeros((9, CELLS)), spread, (Cohort(5, 1, 3.0, share),), 0.5 * spread),
        fates=Fates(0.4, 0),
        peaks=rng.uniform(0.0, 12.0, (SCENARIOS, POOLS, CELLS)),
        arrivals=rng.uniform(0.0, 5.0, (SCENARIOS, POOLS, CELLS)),
        quota_gpus=np.full(POOLS, 16.0),
        stakes=Stakes(urgency[0], urgency[1], rng.uniform(0.0, 9.0, POOLS), rng.uniform(1.0, 3.0, POOLS)),
        bursts=Bursts(
            rng.integers(0, POOLS, num_bursts),
            rng.uniform(1.0, 30.0, num_bursts),
            rng.uniform(1.0, 9.0, num_bursts),
            rng.uniform(0.0, 0.1, (num_bursts, CELLS)),
        ),
    )


def guests_of(rng: np.random.Generator, number: int) -> Guests:
    """Pools mixed, a few bursts among them; some will be gone for sure and some will never end."""
    fresh = np.sort(rng.random((number, CELLS)))[:, ::-1] * rng.choice([0.0, 0.9, 1.0], (number, 1))
    return Guests(
        rng.integers(0, POOLS, number), rng.integers(1, 4, number), fresh, rng.integers(0, 6, number)
    )


def one_by_one(look: LookAhead, guests: Guests) -> float:
    charge = 0.0
    for pool, width, fresh, cohort in zip(*guests, strict=True):
        trial = look.try_guest(int(pool), int(width), fresh, int(cohort))
        look.add(trial)
        charge += trial.charge
    return charge


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), num_bursts=st.sampled_from([0, 3]), number=st.integers(1, GUESTS))
def test_it_is_the_sum_of_the_single_charges(seed, num_bursts, number):
    rng = np.random.default_rng(seed)
    look, guests = LookAhead(ahead_of(rng, num_bursts), 48), guests_of(rng, number)
    at_once, again = look.charge_of(guests), look.charge_of(guests)
    assert at_once == again, "it adds nobody"
    assert at_once == pytest.approx(one_by_one(look, guests), rel=1e-9, abs=1e-12)


def test_nobody_costs_nothing():
    rng = np.random.default_rng(1)
    assert LookAhead(ahead_of(rng, 3), 48).charge_of(guests_of(rng, 0)) == 0.0


def test_only_rises_count_and_what_rises_again_counts_again():
    """One place: 1, 3, 2, 2, 5 are rises of 2 and 3; the other one falls and stays."""
    need = np.array([[1.0, 4.0], [3.0, 1.0], [2.0, 1.0], [2.0, 1.0], [5.0, 1.0]])
    asked = []

    def shortfall(levels, _variance):
        asked.extend(levels.tolist())
        return levels

    assert rises(need, np.zeros_like(need), shortfall).tolist() == [5.0, 0.0]
    assert asked == [1.0, 3.0, 2.0, 5.0, 4.0, 1.0, 1.0], "where nothing falls nothing is asked"
