from dataclasses import replace

import numpy as np
import pytest
from support import job

from benchmarks.oracle_sizes import crowded
from solver.oracle import relaxation
from solver.oracle.cuts import cuts
from solver.oracle.instance import Grid, Instance
from solver.oracle.intervals import by_intervals, solve_intervals
from solver.oracle.periods import periods_of, solve_by_periods
from solver.oracle.pulses import pulses
from solver.oracle.question import prepare
from solver.oracle.relaxation import relax
from solver.oracle.result import EndedBy, Limits, Status, checked
from solver.oracle.search import search
from solver.oracle.time_indexed import by_starts, solve_time_indexed

both = pytest.mark.parametrize("solve", [solve_intervals, solve_time_indexed])

JOBS = [job("a1", 0, 2), job("a2", 0, 2), job("b1", 1, 1, pool="b")]
LENGTHS_S = {"a1": 4.0, "a2": 3.0, "b1": 2.0}
QUOTAS = {"a": 2, "b": 1}
FEW_MOVES = Limits(moves=20)


@both
@pytest.mark.parametrize(("tolerance_s", "waiting_s"), [(0.0, 4.0), (3.0, 3.0)])
def test_least_waiting_by_hand(solve, tolerance_s, waiting_s):
    """a1 has to start at once, so a2 waits for it; where a1 may start 3 s later, a2 goes first."""
    result = solve(Instance.of(JOBS, LENGTHS_S, QUOTAS, tolerance_s=tolerance_s), 1.0)
    assert (result.status, result.ended_by, result.reason) == (Status.OPTIMAL, EndedBy.PROOF, "")
    assert result.waiting_s == result.objective_s == result.bound_s == waiting_s
    assert result.gap == 0.0
    assert result.starts_s["b1"] == 1.0


@pytest.mark.parametrize(
    ("seed", "count", "waiting_min"), [(0, 30, 39), (3, 60, 42), (4, 60, 2), (5, 60, 158)]
)
def test_both_prove_the_same_least_waiting(seed, count, waiting_min):
    asked = crowded(seed, count)
    for solve in (solve_intervals, solve_time_indexed):
        result = solve(asked, 60.0, FEW_MOVES)
        assert result.status is Status.OPTIMAL
        assert result.waiting_s == waiting_min * 60


@pytest.mark.parametrize("core", [by_intervals, by_starts])
def test_period_by_period_is_as_good_as_the_whole(core):
    """Two periods with jobs that run from one into the other; small ones are not joined at first."""
    question = prepare(crowded(1, 60), 60.0, FEW_MOVES)
    assert len(periods_of(question.grid, question.first)) > 1
    asked = []

    def counted(part, limits):
        asked.append(part.grid.submit.size)
        return core(part, limits)

    found = solve_by_periods(question, Limits(), counted)
    assert (question.cost(found.starts), found.bound, found.ended_by) == (171, 171, EndedBy.PROOF)
    assert question.fits(found.starts)
    assert min(asked) < 60


def test_the_relaxation_with_its_cuts_is_far_stronger_than_without():
    question = prepare(crowded(5, 60), 60.0, FEW_MOVES)
    relaxed = relax(question, Limits())
    assert relaxed.question.first_cost == 158
    assert relaxed.bound >= 150  # 116 without cuts
    assert relaxed.model.job.size < pulses(question).job.size / 20


def test_a_cut_by_hand():
    """Two wide jobs and a narrow one on 4 GPUs: where the narrow one runs only one wide one fits."""
    running = np.array([[1.0], [0.5], [1.0]])
    (cut,) = cuts(running, np.array([2, 2, 1]), 4)
    assert (cut.at, cut.weights.tolist(), cut.limit) == (0, [1.0, 1.0, 1.0], 2.0)
    assert cut.violation == 0.5
    assert cuts(np.array([[1.0], [1.0], [0.0]]), np.array([2, 2, 1]), 4) == []


def test_stopped_by_its_limit_the_best_so_far_is_returned_with_a_bound(monkeypatch):
    monkeypatch.setattr(relaxation, "_ROUNDS", 1)  # by itself the relaxation proves too much
    asked = crowded(5, 60)
    for solve in (solve_intervals, solve_time_indexed):
        result = solve(asked, 60.0, Limits(work=0.05, nodes=0, moves=0))
        assert result.status is Status.FEASIBLE
        assert result.ended_by is EndedBy.WORK_LIMIT
        assert result.reason == "stopped by the work limit before the proof"
        assert 0.0 <= result.bound_s < result.waiting_s < asked.waiting_s(asked.latest_s)
        assert 0.0 < result.gap <= 1.0
        assert solve(asked, 60.0, Limits(work=0.05, nodes=0, moves=0)) == result


@both
def test_a_result_cut_by_the_wall_clock_says_so(solve):
    result = solve(crowded(5, 60), 60.0, Limits(wall_s=1e-3, moves=0))
    assert result.ended_by is EndedBy.WALL_LIMIT
    assert result.starts_s


@both
def test_without_jobs_the_empty_schedule_is_the_best(solve):
    result = solve(Instance.of([], {}, QUOTAS), 1.0)
    assert (result.status, result.starts_s, result.reason) == (Status.OPTIMAL, {}, "there are no jobs")


@both
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"capacity_gpus": 1}, "job a1 asks for 2 GPUs, the cluster has 1"),
        (
            {"latest_s": {"a1": 0.0, "a2": -1.0, "b1": 1.0}},
            "job a2 would have to start before its submit at 0 s",
        ),
        ({"latest_s": {"a1": 0.0, "a2": 0.0, "b1": 1.0}}, "not every job can start by its latest start"),
    ],
)
def test_where_there_is_no_schedule_the_reason_is_given(solve, change, reason):
    result = solve(replace(Instance.of(JOBS, LENGTHS_S, QUOTAS), **change), 1.0)
    assert (result.status, result.starts_s, result.reason) == (Status.INFEASIBLE, {}, reason)


def test_no_schedule_within_the_limit_is_not_the_same_as_none():
    """Latest starts that leave nothing to begin with, and no time to look."""
    asked = crowded(0, 60)
    tight = {one.job_id: min(asked.latest_s[one.job_id], one.submit_s + 60.0 * 200) for one in asked.jobs}
    result = solve_time_indexed(replace(asked, latest_s=tight), 60.0, Limits(nodes=0, wall_s=0.0))
    assert result.status is Status.UNKNOWN
    assert result.starts_s == {}


@both
def test_what_lies_between_two_steps_is_refused(solve):
    with pytest.raises(ValueError, match="3 s is no whole number of steps of 2 s"):
        solve(Instance.of(JOBS[:2], LENGTHS_S, QUOTAS), 2.0)


def test_a_latest_start_between_two_steps_is_not_passed():
    asked = replace(Instance.of(JOBS[:2], {"a1": 4.0, "a2": 2.0}, QUOTAS), latest_s={"a1": 1.9, "a2": 5.9})
    assert Grid.of(asked, 2.0).latest.tolist() == [0, 2]


def test_fairness_may_cost_waiting():
    """Two jobs of a fit beside each other on the GPUs of b; while fairness counts most, one waits."""
    jobs = [job("a1", 0, 2), job("a2", 0, 2)]
    asked = Instance.of(jobs, {"a1": 4.0, "a2": 4.0}, {"a": 2, "b": 2})
    free, fair = (solve_time_indexed(asked, 1.0, fairness_weight=weight) for weight in (0.0, 5.0))
    assert (free.waiting_s, free.objective_s) == (0.0, 0.0)
    light = solve_time_indexed(asked, 1.0, fairness_weight=0.5)
    assert (light.waiting_s, light.objective_s) == (0.0, 0.5 * 4 * 2)
    assert fair.objective_s == fair.bound_s == 5.0 * 8
    with pytest.raises(ValueError, match="weight of fairness is -1"):
        solve_time_indexed(asked, 1.0, fairness_weight=-1.0)


def test_a_job_wider_than_its_quota_is_left_out():
    asked = Instance.of([job("wide", 0, 5), *JOBS], {"wide": 1.0, **LENGTHS_S}, QUOTAS)
    assert [one.job_id for one in asked.jobs] == ["a1", "a2", "b1"]


def test_a_cluster_is_not_larger_than_its_pools():
    with pytest.raises(ValueError, match="capacity is 4 GPUs, the quotas add up to 3"):
        Instance((), {}, {}, QUOTAS, 4)


@pytest.mark.parametrize(
    ("starts_s", "message"),
    [
        ({"a1": 0.0, "a2": 0.0, "b1": 1.0}, "breaks a rule: 1 GPUs more in use"),
        ({"a1": 0.0, "a2": 4.0, "b1": 2.0}, "starts job b1 at 2 s, later than is allowed"),
    ],
)
def test_a_wrong_schedule_does_not_leave(starts_s, message):
    with pytest.raises(RuntimeError, match=message):
        checked(Instance.of(JOBS, LENGTHS_S, QUOTAS), starts_s, bound_s=0.0, ended_by=EndedBy.PROOF)


def test_moves_repair_what_going_forward_gets_wrong():
    """The narrow job starts as it comes, although wide and short ones are about to need its GPU."""
    jobs = [job("narrow", 0, 1), *(job(f"wide{k}", 1, 2) for k in range(3))]
    lengths_s = {"narrow": 10.0, "wide0": 1.0, "wide1": 1.0, "wide2": 1.0}
    asked = Instance.of(jobs, lengths_s, {"a": 2}, tolerance_s=100.0)
    forward_s, best_s = (asked.waiting_s(search(asked, moves=moves)) for moves in (0, 20))
    assert (forward_s, best_s) == (30.0, 7.0)
    assert solve_intervals(asked, 1.0).waiting_s == best_s
