"""The benchmark of joint placement judges by the rows it says it does."""

import numpy as np

from benchmarks.joint_placement import EXACT, NODE_GPUS, PLANS, filled, free_of, placed, small
from solver.lending.curves import no_risk
from solver.lending.milp import HighsSolver
from solver.lending.problem import LendingProblem, placeability
from solver.placement.cells import place_rows


def test_free_gpus_are_spread_over_nodes():
    rng = np.random.Generator(np.random.PCG64(0))
    for idle in (0, 1, 40, 160):
        free = free_of(rng, 160, idle)
        assert free.size == 20
        assert free.sum() == idle
        assert free.max() <= NODE_GPUS


def test_who_finds_no_cells_is_left_out_and_others_fill_them():
    free = np.array([3, 2])
    asked = LendingProblem(
        pool=np.zeros(2, dtype=np.int64),
        width_gpus=np.array([4, 2]),
        count=np.array([1, 3]),
        value=np.array([9.0, 1.0]),
        alive_gpus=np.zeros((2, 1)),
        is_requeueable=np.zeros(2, dtype=bool),
        idle_gpus=5,
        risk=no_risk(1),
        budget_jobs=1.0,
        placeability=placeability(place_rows([4, 2], free, NODE_GPUS)),
    )
    left = placed(asked, np.array([1, 0]), free)
    assert left.tolist() == [0, 0]
    assert filled(asked, left).tolist() == [0, 2]


def test_no_plan_beats_the_optimum():
    row = small(1, HighsSolver(EXACT, is_isolated=False))
    assert min(row[f"{name} loss %"] for name in PLANS) >= -1e-6
