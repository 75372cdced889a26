"""Lending plans whose choices have to fit on nodes: known optima, both solvers, and greed."""

import numpy as np
import pytest
from lending_cases import best_by_trying, problem, random_problem

from solver.lending.classes import Candidates, each_its_own, group
from solver.lending.cpsat import CpSatSolver
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver
from solver.lending.plan import plan_lending
from solver.lending.problem import LendingProblem, placeability
from solver.lending.solve import LendingSolver, Limits
from solver.placement.cells import place_rows

EXACT = Limits(gap=0.0)
SOLVERS: list[LendingSolver] = [HighsSolver(EXACT, is_isolated=False), CpSatSolver(EXACT)]


def placed(classes, free, held=(), **more) -> LendingProblem:
    """A problem on nodes of 8 with so many free GPUs each."""
    widths = [width for width, *_ in classes]
    rows = placeability(place_rows(widths, free, 8, held))
    return problem(classes, idle_gpus=sum(free), placeability=rows, **more)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_wide_gang_needs_a_node_and_not_a_sum(solver):
    """Nine GPUs are idle, on no node more than three: of four-wide ones there is none, however dear."""
    classes = [(4, 2, 9.0, 60.0), (2, 4, 2.0, 60.0), (1, 9, 0.9, 60.0)]
    plan = plan_lending(placed(classes, [3, 3, 3]), solver)
    assert plan.counts.tolist() == [0, 3, 3]
    assert plan.objective == pytest.approx(8.7)
    assert plan.gap <= 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
def test_cells_that_are_held_stay(solver):
    """A whole node is held: the gang of eight is not lent to, and narrow ones get the other node only."""
    classes = [(8, 1, 20.0, 60.0), (4, 3, 4.0, 60.0), (1, 12, 0.5, 60.0)]
    assert plan_lending(placed(classes, [8, 6]), solver).counts.tolist() == [1, 1, 2]
    assert plan_lending(placed(classes, [8, 6], held=[8]), solver).counts.tolist() == [0, 1, 2]
    assert plan_lending(placed(classes, [8, 6], held=[2]), solver).counts.tolist() == [1, 1, 0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_narrow_ones_are_chosen_so_that_a_wide_one_still_fits(solver):
    """Seven GPUs of five and two: four and three singles, or three pairs and a single."""
    classes = [(4, 1, 5.0, 60.0), (2, 3, 2.2, 60.0), (1, 7, 0.1, 60.0)]
    plan = plan_lending(placed(classes, [5, 2]), solver)
    assert plan.counts.tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(8))
def test_both_solvers_find_the_best_of_all_choices_that_fit(seed):
    rng = np.random.default_rng(seed)
    drawn = random_problem(seed, classes=4, max_count=2, gpus=14)
    free = rng.multinomial(drawn.idle_gpus, [0.4, 0.3, 0.3]).clip(max=8)
    rows = placeability(place_rows(drawn.width_gpus.tolist(), free, 8, held=[2]))
    asked = random_problem(seed, classes=4, max_count=2, gpus=14, placeability=rows)
    best = best_by_trying(asked)
    for solver in SOLVERS:
        plan = plan_lending(asked, solver)
        assert plan.objective == pytest.approx(best, abs=1e-4)
        assert asked.violations(plan.counts) == ()
    assert asked.violations(greedy_counts(asked)) == ()


def test_too_little_for_what_is_held_lets_nobody_in():
    rows = placeability(place_rows([1, 8], [4, 3], 8, held=[8]))
    assert rows.available.min() == 0.0
    assert rows.available.shape == (4,)


def test_jobs_that_ask_for_other_gpus_are_of_another_class():
    jobs = Candidates(
        job_ids=("x", "y", "z"),
        submit_s=np.zeros(3),
        pool=np.zeros(3, dtype=np.int64),
        width_gpus=np.ones(3, dtype=np.int64),
        median_s=np.full(3, 60.0),
        tail_s=np.full(3, 60.0),
        value=np.ones(3),
        alive_gpus=np.zeros((3, 1)),
        is_requeueable=np.zeros(3, dtype=bool),
        kind=np.array([0, 1, 0]),
    )
    classes = group(jobs)
    assert classes.members == (("x", "z"), ("y",))
    assert classes.kind.tolist() == [0, 1]
    assert each_its_own(jobs).kind.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="kind"):
        Candidates(**{name: getattr(jobs, name) for name in Candidates.__slots__} | {"kind": np.zeros(2)})
