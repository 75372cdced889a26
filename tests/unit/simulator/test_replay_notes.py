"""What a policy writes down about its own work reaches the report, and what is said of it."""

import json
from pathlib import Path

import pytest

from app.console import tell_replay
from data.history import from_frame, from_jobs
from domain.jobs import Job, JobOutcome
from simulator.replay import replay
from simulator.report import describe, finite, reference_of
from simulator.workload import Workload, make_workload

QUOTAS = {"a": 2, "b": 4}


def workload() -> Workload:
    """Pool a asks for more than it has while b has nobody, so its jobs are planned for."""
    jobs = [Job(f"j{k:02}", "a", 100.0 + 120.0 * k, 1 + k % 2) for k in range(12)]
    outcomes = {job.job_id: JobOutcome(job.job_id, 900.0) for job in jobs}
    history = from_frame(from_jobs(jobs, outcomes), source="test", quotas=QUOTAS)
    return make_workload(history, QUOTAS, train_until_s=0.0, eval_from_s=0.0)


@pytest.fixture(scope="module")
def report():
    work = workload()
    done = replay(work, "planned", {"lives": "true", "arrivals": "true"}, may_see_truth=True)
    return describe(work, done, reference_of(work))


def test_of_a_policy_that_plans_the_report_says_how_good_its_plans_were(report):
    plans = json.loads(json.dumps(finite(report), allow_nan=False))["plans"]
    assert plans["plans"] > 0
    assert plans["cut_by_wall_clock"] == 0
    assert plans["proven_pct"] == 100.0
    assert plans["gap_worst_pct"] <= 0.1
    assert "wall" not in " ".join(key for key in plans if key != "cut_by_wall_clock")


def test_of_others_it_says_nothing():
    work = workload()
    assert "plans" not in describe(work, replay(work, "fcfs", {}), reference_of(work))


def test_the_command_line_says_so_in_a_sentence(report, capsys):
    tell_replay(report, Path("out"))
    said = capsys.readouterr().out
    assert "100.0 % of the others proven" in said
    assert "cut by the wall clock: 0; fallbacks:" in said
