"""The solvers against each other, and how they are stopped."""

import ctypes
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from lending_cases import problem, random_problem
from ortools.math_opt.python import mathopt

from solver.lending import child as child_module
from solver.lending.child import ChildProcess, Request, run_request
from solver.lending.cpsat import CpSatSolver
from solver.lending.curves import RiskLines, no_risk
from solver.lending.decomposed import DecomposedSolver, pool_groups
from solver.lending.greedy import greedy_counts
from solver.lending.milp import HighsSolver, model_proto
from solver.lending.plan import plan_lending
from solver.lending.problem import Fallback, LendingProblem, Placeability, PlanStatus, Utility
from solver.lending.program import program_of
from solver.lending.send_backs import one_level
from solver.lending.solve import Limits

EXACT = Limits(gap=0.0)


@pytest.fixture(scope="module")
def highs():
    return HighsSolver(EXACT, is_isolated=False)


def hard_problem(classes=60, rows=6) -> LendingProblem:
    """A knapsack with many tight rows of unrelated numbers: proving its optimum takes for ever."""
    rng = np.random.default_rng(3)
    units = rng.integers(100, 1000, size=(rows, classes)).astype(float)
    width = rng.integers(20, 60, size=classes)
    return LendingProblem(
        pool=np.zeros(classes, dtype=np.int64),
        width_gpus=width,
        count=np.ones(classes, dtype=np.int64),
        value=width + rng.uniform(0.0, 1.0, size=classes),
        alive_gpus=np.zeros((classes, 1)),
        is_requeueable=np.zeros(classes, dtype=bool),
        idle_gpus=int(width.sum() // 2),
        risk=no_risk(1),
        budget_jobs=1.0,
        placeability=Placeability(units, np.floor(units.sum(axis=1) / 2)),
    )


@pytest.mark.parametrize("seed", range(12))
def test_both_solvers_find_the_same_optimum(highs, seed):
    asked = random_problem(seed, classes=20, max_count=4, gpus=40)
    one, other = plan_lending(asked, highs), plan_lending(asked, CpSatSolver(EXACT))
    assert one.status is other.status is PlanStatus.OPTIMAL
    assert one.objective == pytest.approx(other.objective, rel=1e-4)
    assert other.bound == pytest.approx(one.bound, rel=1e-4)


def test_cp_sat_stops_at_its_deterministic_limit_and_says_so():
    limits = Limits(gap=0.0, work=0.05, wall_s=60.0)
    plan, again = (plan_lending(hard_problem(), CpSatSolver(limits)) for _ in range(2))
    assert plan.status is PlanStatus.FEASIBLE
    assert plan.reason == ""
    assert (plan.counts.tolist(), plan.bound, plan.work) == (again.counts.tolist(), again.bound, again.work)


def test_highs_stops_at_its_nodes_and_says_so():
    limits = Limits(gap=0.0, nodes=20, wall_s=60.0)
    plan = plan_lending(hard_problem(), HighsSolver(limits, is_isolated=False))
    assert plan.status is PlanStatus.FEASIBLE
    assert 0.0 < plan.gap < 0.1
    assert plan.reason == ""


def test_a_plan_cut_by_the_wall_clock_says_so():
    solver = HighsSolver(Limits(gap=0.0, nodes=10**7, wall_s=0.1))
    try:
        solver.solve(problem(), wall_s=60.0)  # its process is there from here on
        plan = plan_lending(hard_problem(), solver)
    finally:
        solver.close()
    assert plan.status is PlanStatus.FEASIBLE
    assert plan.objective > 0.0
    assert plan.reason or plan.fallback is Fallback.KILLED


def test_a_solver_that_does_not_stop_is_ended_and_the_next_question_is_answered():
    program = program_of(hard_problem())
    endless = Request(
        model_proto(program).SerializeToString(),
        program.num_chosen,
        gap=0.0,
        nodes=10**7,
        seed=1,
        wall_s=600.0,
    )
    small = program_of(problem())
    easy = replace(endless, model=model_proto(small).SerializeToString(), num_values=1)
    child = ChildProcess()
    try:
        assert child.ask(easy, limit_s=60.0) is not None
        assert child.ask(endless, limit_s=0.2) is None
        reply = child.ask(easy, limit_s=60.0)
    finally:
        child.close()
    assert reply is not None
    assert reply.values == (3.0,)


@pytest.fixture
def endless(monkeypatch):
    """In place of the solver, a process that says it is ready and then does nothing but go on."""
    loop = "import sys; sys.stdout.buffer.write(bytes([5] + 7 * [0]) + b'ready'); sys.stdout.flush()"
    monkeypatch.setattr(child_module, "_COMMAND", (sys.executable, "-Sc", f"{loop}\nwhile True: pass"))


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("classes", [2, 1500])
def test_of_a_solver_that_never_answers_the_greedy_plan_is_left(classes):
    """It reads nothing either, so a model that is more than a pipe holds must not wait for it."""
    asked = random_problem(4, classes=classes)
    solver = HighsSolver(Limits(wall_s=1.0))
    try:
        plan = plan_lending(asked, solver)
        by_groups = plan_lending(asked, DecomposedSolver(solver, classes_per_group=1, whole_up_to=1))
    finally:
        solver.close()
    assert plan.counts.tolist() == greedy_counts(asked).tolist()
    assert not asked.violations(plan.counts)
    assert (plan.fallback, plan.is_cut) == (Fallback.KILLED, True)
    assert "was ended" in plan.reason
    assert by_groups.counts.tolist() == plan.counts.tolist()
    assert by_groups.is_cut
    assert by_groups.fallback is Fallback.KILLED


READY = "import os, signal, sys; sys.stdout.buffer.write(bytes([5] + 7 * [0]) + b'ready'); sys.stdout.flush()"
DIES = "sys.stdin.buffer.read(8); os.kill(os.getpid(), signal.SIGKILL)"
NONSENSE = "sys.stdout.buffer.write(bytes([1] + 7 * [0]) + b'?'); sys.stdout.flush()"
BROKEN = {
    "no such program": (("/nonexistent/solver",), "does not start: [Errno 2]"),
    "exits at once": (("/bin/false",), "does not start: exit status 1"),
    "is killed in a solve": ((sys.executable, "-Sc", f"{READY}; {DIES}"), "died: ended by SIGKILL"),
    "exits in a solve": ((sys.executable, "-Sc", f"{READY}; sys.exit(7)"), "died: exit status 7"),
    "talks nonsense": (
        (
            sys.executable,
            "-Sc",
            f"{READY}; sys.stdin.buffer.read(8); {NONSENSE}; sys.stdin.read()",
        ),
        "does not answer in its own words",
    ),
}


@pytest.mark.parametrize(("command", "found"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("by_groups", [False, True])
def test_a_process_that_does_not_start_or_dies_is_no_answer_and_says_how(
    monkeypatch, command, found, by_groups
):
    monkeypatch.setattr(child_module, "_COMMAND", command)
    asked = random_problem(4, classes=12)
    highs = HighsSolver(Limits(wall_s=30.0))
    solver = DecomposedSolver(highs, classes_per_group=1, whole_up_to=1) if by_groups else highs
    try:
        plan = plan_lending(asked, solver, asked.risk_jobs)
    finally:
        highs.close()
    assert plan.counts.tolist() == greedy_counts(asked).tolist()
    assert (plan.status, plan.fallback) == (PlanStatus.GREEDY, Fallback.GREEDY_NO_ANSWER)
    assert found in plan.reason
    assert "did not stop" not in plan.reason
    assert not plan.is_cut


def test_a_start_that_hangs_takes_no_longer_than_the_limit_and_goes_on_for_the_next_question(
    monkeypatch, tmp_path
):
    """It waits to be let go before it says that it is ready; what it is then is the solver."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waits = f"open({str(gate)!r}).close()\n"
    solver_itself = "import runpy; runpy.run_module('solver.lending.child', run_name='__main__')"
    monkeypatch.setattr(child_module, "_COMMAND", (sys.executable, "-c", waits + solver_itself))
    solver = HighsSolver(Limits(wall_s=0.01))
    try:
        plan = plan_lending(problem(), solver)
        gate.write_text("")  # waits for it to have come so far
        later = solver.solve(problem(), wall_s=60.0)
    finally:
        solver.close()
    assert (plan.status, plan.fallback) == (PlanStatus.GREEDY, Fallback.GREEDY_NO_ANSWER)
    assert "was not ready before the limit" in plan.reason
    assert plan.is_cut
    assert (later.counts.tolist(), later.failure) == ([3], "")


def test_a_start_that_hangs_for_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(child_module, "_COMMAND", (sys.executable, "-Sc", "while True: pass"))
    monkeypatch.setattr(child_module, "_START_S", 0.0)
    solver = HighsSolver(Limits(wall_s=0.01))
    try:
        assert "was not ready" in plan_lending(problem(), solver).reason
        monkeypatch.undo()
        assert solver.solve(problem(), wall_s=60.0).counts.tolist() == [3]
    finally:
        solver.close()


@pytest.mark.parametrize("seed", range(8))
def test_groups_of_pools_lose_little_and_keep_to_every_row(highs, seed):
    units = np.random.default_rng(seed).integers(0, 3, size=(2, 40)).astype(float)
    bonus = Utility(np.tile([0.3, 0.0], (3, 1)), np.tile([0.0, 2.0], (3, 1)))
    asked = random_problem(
        seed,
        classes=40,
        max_count=4,
        gpus=60,
        placeability=Placeability(units, np.full(2, 40.0)),
        utility=bonus,
    )
    parts = DecomposedSolver(highs, classes_per_group=14, whole_up_to=20)
    plan, whole = plan_lending(asked, parts), plan_lending(asked, highs)
    assert not asked.violations(plan.counts)
    assert plan.objective >= 0.95 * whole.objective
    assert plan.bound >= whole.objective - 1e-4
    assert plan.status is PlanStatus.FEASIBLE


def test_small_problems_are_solved_whole(highs):
    asked = random_problem(1)
    assert plan_lending(asked, DecomposedSolver(highs)).status is PlanStatus.OPTIMAL


def test_a_group_is_whole_pools():
    asked = random_problem(2, classes=30)
    groups = pool_groups(asked, 12)
    assert sorted(np.concatenate(groups).tolist()) == list(range(30))
    pools = [set(asked.pool[members].tolist()) for members in groups]
    assert sum(len(one) for one in pools) == len(set().union(*pools))


def test_a_solver_that_breaks_is_no_answer_and_says_why(highs):
    """Coefficients of 1e96 are more than HiGHS takes; units keep them out, but who knows what else does."""
    program = program_of(problem())
    broken = replace(program, entries=program.entries * 1e96)
    model = model_proto(broken).SerializeToString()
    reply = run_request(Request(model, 1, gap=0.0, nodes=10, seed=1, wall_s=10.0))
    assert reply.values == ()
    assert "HighsStatus" in reply.failure
    plan = plan_lending(problem(), highs)
    assert plan.counts.tolist() == [3]


def test_what_the_solver_prints_stays_off_standard_output(highs, monkeypatch, capfd):
    c_library = ctypes.CDLL(None)
    solve = mathopt.solve

    def chatty(*asked, **how):
        c_library.puts(b"HiGHS was here")
        return solve(*asked, **how)

    monkeypatch.setattr(mathopt, "solve", chatty)
    assert plan_lending(problem(), highs).counts.tolist() == [3]
    c_library.fflush(None)
    said = capfd.readouterr()
    assert said.out == ""
    assert "HiGHS was here" in said.err


def test_risks_as_small_as_the_tail_of_a_normal_are_none(highs):
    tiny = RiskLines(np.full((4, 1), 1e-90), np.zeros((4, 1)), np.zeros(4))
    asked = problem(risk=tiny, budget_jobs=1e-80, send_back=one_level(tiny), send_back_price=1.0)
    assert np.abs(program_of(asked).entries).max() <= 8.0
    assert plan_lending(asked, highs).counts.tolist() == [3]


def test_limits_are_positive():
    with pytest.raises(ValueError, match="limits"):
        Limits(wall_s=0.0)


def test_a_problem_of_nobody_is_a_program_all_the_same():
    assert program_of(problem([(1, 0, 0.0, 60.0)])).high.tolist() == [0.0]
