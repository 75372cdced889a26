"""Draws against sums that can be done by hand: two pools of 4 GPUs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from solver.lending.verify import Lives, Situation, need_gpus, verify
from solver.lives import Alive, Fates
from solver.lookahead import Ahead, Bursts, LookAhead, Stakes

QUOTA = np.array([4.0, 4.0])


def lives(*jobs, cells=1):
    """Jobs as (pool, width, P(alive) in every cell, cohort)."""
    columns = list(zip(*jobs, strict=True)) if jobs else [()] * 4
    return Lives(
        pool=np.array(columns[0], dtype=np.int64),
        width_gpus=np.array(columns[1], dtype=float),
        alive=np.tile(np.array(columns[2], dtype=float)[:, None], (1, cells)),
        cohort=np.array(columns[3], dtype=np.int64),
    )


def situation(
    own=(), guests=(), requeueable=(), waiting=(), peaks=((0, 0),), arrivals=((0, 10),), kinship=0.0
):
    return Situation(
        own=lives(*own),
        guests=lives(*guests),
        requeueable=lives(*requeueable),
        waiting=lives(*waiting),
        kinship=kinship,
        peaks=np.array(peaks, dtype=float)[:, :, None],
        arrivals=np.array(arrivals, dtype=float)[:, :, None],
        quota_gpus=QUOTA,
        capacity_gpus=8.0,
    )


def everyone(now):
    return np.ones(now.waiting.pool.size, dtype=bool)


def test_a_guest_in_the_way_of_certain_demand_slows_its_share():
    """Pool 0 is full and pool 1 will want all of its own: 2 GPUs are missing if the guest still runs.

    10 jobs come and 1 waits, of which 4 GPUs' worth start: 10 / (1 + 4) a GPU missing.
    """
    now = situation(own=[(0, 4, 1.0, 0)], waiting=[(0, 2, 0.3, 1)], peaks=[(0, 4)])
    found = verify(now, everyone(now), seed=1, draws=20_000)
    assert found.slowed_jobs == pytest.approx(0.3 * 2 * 2, abs=4 * found.standard_error)
    assert found.standard_error < 0.02
    assert found.missing_gpus[:, 0].tolist() == [0.0, 2.0, 2.0]


def test_who_is_not_started_slows_nobody():
    now = situation(own=[(0, 4, 1.0, 0)], waiting=[(0, 2, 1.0, 1)], peaks=[(0, 4)])
    assert verify(now, ~everyone(now), seed=1, draws=10).slowed_jobs == 0.0


def test_a_guest_whom_its_own_lane_would_have_reached_slows_nobody():
    now = situation(own=[(1, 4, 1.0, 0)], waiting=[(0, 4, 1.0, 1)], peaks=[(9, 9)])
    assert verify(now, everyone(now), seed=1, draws=10).slowed_jobs == 0.0


def test_one_that_can_be_sent_back_makes_room():
    full = [(0, 4, 1.0, 0)]
    now = situation(own=full, requeueable=[(0, 2, 1.0, 1)], waiting=[(0, 2, 1.0, 2)], peaks=[(0, 4)])
    kept = situation(own=full, guests=[(0, 2, 1.0, 1)], waiting=[(0, 2, 1.0, 2)], peaks=[(0, 4)])
    for case, missing in ((now, 2.0), (kept, 4.0)):
        assert verify(case, everyone(case), seed=1, draws=10).missing_gpus[0, 0] == missing


def test_siblings_live_alike():
    """Both of two guests alive: P = 1/4 apart, and the normal orthant's probability together."""
    siblings = [(0, 1, 0.5, 7), (0, 1, 0.5, 7)]
    now = situation(
        own=[(0, 4, 1.0, 0)], guests=[(0, 1, 1.0, 9)], waiting=siblings, peaks=[(0, 2)], kinship=0.6
    )
    both = multivariate_normal(cov=[[1.0, 0.6], [0.6, 1.0]]).cdf(np.zeros(2))
    apart = replace(now, kinship=0.0)
    # need is 4 + 1 + (0, 1 or 2) + 2: missing 1 only if both live; 10 jobs come, of which 2 GPUs' worth start
    for case, chance in ((now, both), (apart, 0.25)):
        found = verify(case, everyone(case), seed=3, draws=20_000)
        assert found.slowed_jobs == pytest.approx(chance * 10 / 3, abs=4 * found.standard_error)


def test_whoever_waits_and_whoever_comes_in_a_line_wider_than_its_room_is_slowed_too():
    """Pool 1 has room for 4: 2 wait for one GPU each, the other 2 are left for 6 to come.

    With the guest 2 GPUs are missing of the 4 due: (6 jobs x 6 / 2 + 2 that wait) / (1 + 4) a GPU.
    """
    waiting = [(1, 1, 1.0, 1), (1, 1, 1.0, 2), (0, 2, 1.0, 3)]
    now = situation(own=[(0, 4, 1.0, 0)], waiting=waiting, peaks=[(0, 6)], arrivals=[(0, 6)])
    found = verify(now, np.array([False, False, True]), seed=1, draws=10)
    assert found.slowed_jobs == pytest.approx(2 * (6 * 3 + 2) / 5)


def test_lives_end_once():
    """Alive at the later cell only if alive at the earlier one, whatever the curve."""
    many = [(0, 1, 1.0, k) for k in range(30)]
    now = situation(guests=many)
    alive = np.tile(np.array([0.9, 0.5, 0.1]), (30, 1))
    now = replace(
        now,
        guests=replace(now.guests, alive=alive),
        own=lives(cells=3),
        requeueable=lives(cells=3),
        waiting=lives(cells=3),
        peaks=np.zeros((1, 2, 3)),
        arrivals=np.ones((1, 2, 3)),
        capacity_gpus=0.0 + 1e-9,
    )
    found = verify(now, everyone(now), seed=1, draws=4000, levels=(0.5,))
    assert found.missing_gpus[0] == pytest.approx([27.0, 15.0, 3.0], abs=1.0)


def test_it_agrees_with_the_analytic_risk_on_many_guests():
    rng = np.random.default_rng(5)
    share = rng.uniform(0.2, 0.9, size=60)
    own = [(0, 40, 1.0, 0), (1, 10, 1.0, 1)]
    guests = [(0, 1, one, 10 + k) for k, one in enumerate(share)]
    new = [(0, 8, 0.7, 99)]
    quota = np.array([40.0, 60.0])
    now = situation(
        own=own,
        guests=guests,
        waiting=new,
        peaks=[(0, 10), (0, 25), (0, 40)],
        arrivals=[(0, 3), (0, 5), (0, 9)],
    )
    now = replace(now, quota_gpus=quota, capacity_gpus=100.0)
    ahead = Ahead(
        own=np.array([[40.0], [10.0]]),
        guest=np.array([[share.sum()], [0.0]]),
        requeueable=np.zeros((2, 1)),
        backlog=np.array([[8 * 0.7], [0.0]]),
        alive=Alive(np.zeros((6, 1)), np.array([(share * (1 - share)).sum()]), (), np.zeros(1)),
        fates=Fates(0.0, 0),
        peaks=now.peaks,
        arrivals=now.arrivals,
        quota_gpus=quota,
        stakes=Stakes(np.ones((2, 1)), np.ones((2, 1)), np.array([1.0, 0.0]), np.ones(2)),
        bursts=Bursts(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0), np.zeros((0, 1))),
    )
    charge = LookAhead(ahead, 100).try_guest(0, 8, np.array([0.7]), 99).charge
    found = verify(now, everyone(now), seed=2, draws=8000)
    assert found.slowed_jobs == pytest.approx(charge, rel=0.1)


def test_the_same_seed_counts_the_same_and_scenarios_are_clusters():
    now = situation(
        own=[(0, 4, 1.0, 0)], waiting=[(0, 2, 0.5, 1)], peaks=[(0, 0), (0, 4)], arrivals=[(0, 0), (0, 8)]
    )
    one, same, other = (verify(now, everyone(now), seed=seed, draws=400) for seed in (1, 1, 2))
    assert one.slowed_jobs == same.slowed_jobs != other.slowed_jobs
    assert one.standard_error > 0.2, "two scenarios, and only one of them slows anybody"
    assert verify(now, everyone(now), seed=1, draws=1).standard_error == float("inf")


def test_the_need_of_pools():
    need = need_gpus(
        own=np.array([[3.0], [0.0]]),
        guest=np.array([[2.0], [1.0]]),
        backlog=np.array([[5.0], [1.0]]),
        coming=np.array([[9.0], [9.0]]),
        quota=QUOTA[:, None],
    )
    assert need.tolist() == [3 + 2 + 1 + 0 + 0 + 1 + 1 + 2]
