"""`planned` where somebody waits: a solver that does not answer is ended, and greed decides."""

import sys

import pytest
from support import job

from domain.jobs import JobOutcome
from simulator.truth import TrueLives
from solver.lending import child
from solver.lending.solve import Limits
from solver.policies import planned
from solver.policies.base import KeepsNotes, PolicyContext

JOBS = [job("own", 0.0, 4), *(job(f"x{k}", 0.0, 1, requeue_u=None) for k in range(8))]
LIVES = {"own": 9e4} | {f"x{k}": 600.0 for k in range(8)}


def decided(*, is_live):
    outcomes = {job_id: JobOutcome(job_id, duration_s) for job_id, duration_s in LIVES.items()}
    context = PolicyContext({"a": 4, "b": 6}, TrueLives(outcomes), is_live=is_live)
    policy = planned.Planned(context, planned.PlannedSettings())
    for one in JOBS:
        policy.submitted(one, 0.0)
    starts = policy.decide(0.0, 10).starts
    assert isinstance(policy, KeepsNotes)
    return sorted(start.job.job_id for start in starts), policy.notes()["plans"]


def test_live_and_replayed_it_decides_the_same(monkeypatch):
    monkeypatch.setattr(planned, "_LIMITS", Limits(nodes=500, wall_s=60.0))  # whatever its process takes
    starts, plans = decided(is_live=True)
    assert (starts, plans) == decided(is_live=False)
    assert (len(starts), plans["proven_pct"], plans["cut_by_wall_clock"]) == (7, 100.0, 0)


@pytest.fixture
def mute(monkeypatch):
    ready = "import sys; sys.stdout.buffer.write(bytes([5] + 7 * [0]) + b'ready'); sys.stdout.flush()"
    monkeypatch.setattr(child, "_COMMAND", (sys.executable, "-Sc", f"{ready}\nwhile True: pass"))
    monkeypatch.setattr(planned, "_LIMITS", Limits(wall_s=1.0))


@pytest.mark.usefixtures("mute")
def test_live_a_solver_that_does_not_answer_is_replaced_by_greed():
    starts, plans = decided(is_live=True)
    assert len(starts) == 7
    assert (plans["by_fallback"]["killed"], plans["cut_by_wall_clock"], plans["without_bound"]) == (1, 1, 1)


@pytest.mark.usefixtures("mute")
def test_in_a_replay_no_other_process_is_asked():
    assert decided(is_live=False)[1]["proven_pct"] == 100.0
