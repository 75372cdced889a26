"""No policy that is not clairvoyant decides by anything that had not happened yet."""

from functools import cache

import causality
import numpy as np
import pytest
from causality import changed_by, history_rewritten_after, rewritten_after, seen_by, settings_choices
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SINGLY

from data.history import from_frame, from_jobs
from data.synthetic import philly_like
from domain.cluster import Gpu
from domain.jobs import Job, JobOutcome
from domain.plans import Plan, Start
from domain.schedules import Schedule, Stretch
from models import DEMAND_MODELS, LIFETIME_MODELS
from simulator.replay import replay
from simulator.truth import TrueLives
from simulator.workload import Workload, make_workload
from solver.policies import POLICIES
from solver.policies.base import NoSettings, PolicyContext, PolicySpec

CASES = [
    pytest.param(policy, chosen, id="-".join([policy, *chosen.values()]))
    for policy, spec in SINGLY.items()
    if not (spec.is_clairvoyant or policy == "ablated")  # whose every setting has a test of its own
    for chosen in settings_choices(policy)
]
MODELS = [
    pytest.param(policy, {name: model, "retrain_days": "0.3"}, id=f"{policy}-{name}-{model}")
    for policy, name, models in (("ssf", "lives", LIFETIME_MODELS), ("sia", "arrivals", DEMAND_MODELS))
    for model in models
    if model != "limit"
]
"""Every forecaster, trained anew on the way, behind a policy that goes by what it says."""

TRAIN_UNTIL_S = 20.0
SLOW = {"planned"}
"""It shares its forecasts with `anticipatory`, and solves a program besides: one cut is enough, as it is for
each further forecaster."""
DAY_S = 86_400.0
CUTS_S = (1.25 * DAY_S, 1.35 * DAY_S)
"""An instant at which forecast arrivals matter, and one at which many jobs run and many wait."""
LAST_S = 1.38 * DAY_S
"""Jobs go on being submitted for a while after the last cut."""


def workload_of(frame, quotas, train_until_s):
    history = from_frame(frame, source="test", quotas=quotas)
    return make_workload(history, quotas, train_until_s=train_until_s, eval_from_s=train_until_s)


@st.composite
def histories(draw):
    """A table of jobs, and quotas: some to learn from, the others, one at least, to replay. Few names,
    widths and instants, so that lives are learned and ties are common."""
    quotas = {f"p{k}": draw(st.integers(1, 4)) for k in range(draw(st.integers(1, 3)))}
    submits = [*draw(st.lists(st.integers(0, 50), max_size=30)), draw(st.integers(20, 50))]
    jobs, outcomes = [], {}
    for k, submit_s in enumerate(submits):
        pool = draw(st.sampled_from(sorted(quotas)))
        width = draw(st.integers(1, quotas[pool]))
        user, name = draw(st.sampled_from("uv")), draw(st.sampled_from("mn"))
        requeue_u = draw(st.integers(0, 9)) / 10
        saves = {"requeue_u": requeue_u, "checkpoint_s": draw(st.sampled_from((None, None, 2.0, 5.0)))}
        saves["restart_s"] = draw(st.sampled_from((None, 1.0, 4.0)))
        jobs.append(Job(f"j{k:03}", pool, float(submit_s), width, user, name, **saves))
        outcomes[f"j{k:03}"] = JobOutcome(f"j{k:03}", float(draw(st.integers(0, 20))))
    return from_jobs(jobs, outcomes), quotas


@cache
def large() -> tuple:
    made = philly_like(12, days=1.5, load=1.5, num_pools=3)
    frame = made.frame[made.frame["submit_s"] <= LAST_S]
    return frame, made.quotas, workload_of(frame, made.quotas, DAY_S)


@pytest.mark.parametrize(("policy", "chosen"), CASES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(histories(), st.integers(20, 80), st.integers(0, 2**32 - 1))
def test_what_happens_later_changes_no_decision(policy, chosen, history, cut_s, seed):
    workload = workload_of(*history, TRAIN_UNTIL_S)
    assert changed_by(workload, policy, chosen, cuts_s=[cut_s], seed=seed) == []


@pytest.mark.parametrize(("policy", "chosen"), [*CASES, *MODELS])
def test_what_happens_later_changes_no_decision_on_a_larger_workload(policy, chosen):
    cuts_s = CUTS_S[1:] if policy in SLOW or "retrain_days" in chosen else CUTS_S
    assert changed_by(large()[2], policy, chosen, cuts_s=cuts_s, seed=5) == []


@pytest.mark.parametrize(("policy", "chosen"), CASES)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(histories(), st.integers(0, 2**32 - 1))
def test_jobs_of_the_past_that_end_later_teach_nothing(policy, chosen, history, seed):
    frame, quotas = history
    other = history_rewritten_after(frame, TRAIN_UNTIL_S, np.random.default_rng(seed))
    schedules = [
        replay(workload_of(rows, quotas, TRAIN_UNTIL_S), policy, chosen).schedule for rows in (frame, other)
    ]
    assert schedules[0] == schedules[1]


@pytest.mark.parametrize(("policy", "chosen"), MODELS)
def test_jobs_of_the_past_that_end_later_teach_nothing_on_a_larger_workload(policy, chosen):
    frame, quotas, workload = large()
    other = history_rewritten_after(frame, DAY_S, np.random.default_rng(6))
    assert not frame.equals(other)
    again = replay(workload_of(other, quotas, DAY_S), policy, chosen).schedule
    assert again == replay(workload, policy, chosen).schedule


def test_what_had_ended_by_then_does_teach():
    """The history matters at all, so that the two tests above mean something."""
    frame, quotas, workload = large()
    had_ended = frame["submit_s"] + frame["duration_s"] <= DAY_S
    other = frame.assign(duration_s=frame["duration_s"].where(~had_ended, 1))
    again = replay(workload_of(other, quotas, DAY_S), "ssf", {}).schedule
    assert again != replay(workload, "ssf", {}).schedule


def test_a_job_that_goes_on_at_another_rate_or_was_suspended_has_not_ended():
    """Of 10 s it did 4 + 3 by 10 s, then it waited: what is rewritten is longer than what was seen."""
    here, there = (Gpu("n", 0),), (Gpu("n", 1),)
    stretches = (
        Stretch("x", 0.0, 4.0, gpus=here),
        Stretch("x", 4.0, 10.0, rate=0.5, gpus=here),
        Stretch("x", 20.0, 23.0, gpus=there),
    )
    workload = workload_of(from_jobs([Job("x", "p0", 0.0, 1)], {"x": JobOutcome("x", 10.0)}), {"p0": 1}, 0.0)
    schedule = Schedule(stretches)
    for cut_s, least_s in ((5.0, 4.5), (15.0, 7.0), (21.0, 8.0)):
        others = [rewritten_after(workload, schedule, cut_s, np.random.default_rng(k)) for k in range(20)]
        lengths_s = {other.outcomes["x"].duration_s for other in others}
        assert len(lengths_s) > 10
        assert min(lengths_s) > least_s
    ended = rewritten_after(workload, schedule, 23.0, np.random.default_rng(1))
    assert ended.outcomes["x"] == workload.outcomes["x"]
    assert {what for at_s, _, what in seen_by(schedule, 15.0) if at_s == 4.0} == {"begins a stretch"}
    assert (10.0, "x", "stops") in seen_by(schedule, 15.0)


def test_rewriting_leaves_the_past_alone_and_little_else():
    workload = large()[2]
    cut_s = CUTS_S[1]
    schedule = replay(workload, "reclaim", {}).schedule
    other = rewritten_after(workload, schedule, cut_s, np.random.default_rng(1))
    arrived = [job for job in workload.jobs if job.submit_s <= cut_s]
    assert [job for job in other.jobs if job.submit_s <= cut_s] == arrived
    ended = {job_id for job_id, end_s in schedule.last_ends().items() if end_s <= cut_s}
    assert all(other.outcomes[job_id] == workload.outcomes[job_id] for job_id in ended)
    going_on = [job.job_id for job in arrived if job.job_id not in ended]
    assert len(going_on) > 20
    assert all(other.outcomes[job_id] != workload.outcomes[job_id] for job_id in going_on)
    assert len(seen_by(schedule, cut_s)) > 500


# The check itself: leaks must be caught.


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [case for case in CASES if POLICIES[case.values[0]].uses_lives and case.values[0] not in SLOW],
)
def test_true_lives_are_caught_wherever_they_are_looked_at(policy, chosen):
    workload, asking = large()[2], {**chosen, "lives": "true"}
    is_looked_at = replay(workload, policy, asking, may_see_truth=True).saw_truth
    changes = changed_by(workload, policy, asking, cuts_s=CUTS_S, seed=5, may_see_truth=True)
    assert bool(changes) == is_looked_at


def test_true_arrivals_are_caught():
    asking = {"arrivals": "true"}
    assert changed_by(large()[2], "sia", asking, cuts_s=CUTS_S, seed=5, may_see_truth=True) != []


class ShortestFirst:
    """Starts the shortest waiting job that fits; how long it is, it knows from whom it was given."""

    def __init__(self, lives: TrueLives) -> None:
        self._lives = lives
        self._waiting: dict[str, Job] = {}

    def submitted(self, job: Job, _now_s: float) -> None:
        self._waiting[job.job_id] = job

    def started(self, job: Job, _now_s: float) -> None:
        del self._waiting[job.job_id]

    def ended(self, job: Job, now_s: float) -> None:
        pass

    def sent_back(self, job: Job, now_s: float) -> None:
        pass

    def decide(self, _now_s: float, idle_gpus: int) -> Plan:
        starts = []
        for job in sorted(self._waiting.values(), key=lambda job: self._lives.quantile_s(job, 0.5)):
            if job.num_gpus <= idle_gpus:
                starts.append(Start(job, False))
                idle_gpus -= job.num_gpus
        return Plan(starts=tuple(starts))


def test_a_policy_that_peeks_in_secret_is_caught(monkeypatch):
    """It asks for no lives, but has found a way to the truth."""
    truth: dict[str, JobOutcome] = {}

    def build(_context: PolicyContext, _settings: NoSettings) -> ShortestFirst:
        return ShortestFirst(TrueLives(truth))

    def watched(workload: Workload, *args, **kwargs):
        truth.clear()
        truth.update(workload.outcomes)
        return replay(workload, *args, **kwargs)

    monkeypatch.setitem(POLICIES, "peeking", PolicySpec(build=build, settings=NoSettings))
    monkeypatch.setattr(causality, "replay", watched)
    assert changed_by(large()[2], "peeking", {}, cuts_s=CUTS_S, seed=5) != []
