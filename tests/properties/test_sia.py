"""Perfect information slows nobody; no lending is first come, first served; random forecasts hurt."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import instances, run

from data.history import from_frame, to_jobs
from data.synthetic import sia_workload
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import JobOutcome, submit_order
from simulator.engine import Engine
from simulator.truth import TrueLives
from solver.policies import POLICIES, sia
from solver.policies.base import PolicyContext
from solver.reference import fcfs_starts


def stretched(instance, scale):
    """The same instance with all times longer, so that lives fall into all of SIA's windows."""
    jobs, durations, quotas = instance
    jobs = [replace(job, submit_s=job.submit_s * scale) for job in jobs]
    return jobs, {job_id: duration * scale for job_id, duration in durations.items()}, quotas


def lateness_s(schedule, jobs, durations, quotas):
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    ends = schedule.last_ends()
    return [ends[job.job_id] - reference[job.job_id] - durations[job.job_id] for job in jobs]


@pytest.mark.parametrize("policy", ["sia-vc", "sia-perfect"])
@settings(max_examples=150, deadline=None)
@given(instances(), st.sampled_from([1, 30, 200, 1500]))
def test_perfect_information_slows_nobody(policy, instance, scale):
    jobs, durations, quotas = stretched(instance, scale)
    schedule = run(policy, jobs, durations, quotas)
    assert max(lateness_s(schedule, jobs, durations, quotas), default=0.0) <= 1e-6


@settings(max_examples=50, deadline=None)
@given(instances())
def test_without_lending_it_is_first_come_first_served(instance):
    """`anticipatory` when nobody may be slowed; `sia` when every pool is expected to need all it has."""
    jobs, durations, quotas = instance
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    assert run("anticipatory", jobs, durations, quotas, eps="0").first_starts() == reference
    outcomes = {job_id: JobOutcome(job_id, duration) for job_id, duration in durations.items()}
    context = PolicyContext(quotas, TrueLives(outcomes), EverythingIsNeeded(quotas))
    policy = sia.SPEC.build(context, sia.SiaSettings())
    engine = Engine(jobs=jobs, outcomes=outcomes, capacity_gpus=sum(quotas.values()), policy=policy)
    assert engine.run().first_starts() == reference


class EverythingIsNeeded:
    """The most cautious forecaster there can be."""

    is_clairvoyant = False

    def __init__(self, quotas):
        self._quotas = quotas

    def new_load_gpus(self, _window_s, _now_s):
        return dict(self._quotas)


@settings(max_examples=100, deadline=None)
@given(instances(), st.sampled_from(["0", "0.3", "1"]))
def test_anticipatory_slows_nobody_where_all_guests_can_be_sent_back(instance, finish):
    jobs, durations, quotas = instance
    schedule = run("anticipatory", jobs, durations, quotas, requeueable="1", finish=finish)
    assert max(lateness_s(schedule, jobs, durations, quotas), default=0.0) <= 0.0


class RandomForecasts:
    """Lives and arrivals drawn out of the air."""

    is_clairvoyant = False

    def __init__(self, seed, pools, gpus):
        self._rng = np.random.default_rng(seed)
        self._pools, self._gpus = pools, gpus

    def quantile_s(self, _job, _level):
        return float(self._rng.choice([100.0, 2000.0, 20_000.0, 100_000.0]))

    def survival(self, job):
        life_s = self.quantile_s(job, 0.5)
        return tuple(float(edge < life_s) for edge in LIFE_EDGES_S)

    def new_load_gpus(self, _window_s, _now_s):
        return {pool: float(self._rng.choice([0, self._gpus])) for pool in self._pools}


def test_random_forecasts_slow_about_as_many_as_max_min_and_perfect_ones_nobody():
    """SIA's ablation (figure 16), on its own workload."""
    shares = {"random": [], "maxmin": [], "sia-perfect": [], "sia-vc": []}
    for seed in range(3):
        made = sia_workload(seed, load_scale=1.05)
        jobs, outcomes = to_jobs(from_frame(made.frame, source="sia", quotas=made.quotas).frame)
        durations = {job_id: outcome.duration_s for job_id, outcome in outcomes.items()}
        forecasts = RandomForecasts(seed, tuple(made.quotas), 8)
        policy = sia.SPEC.build(
            PolicyContext(made.quotas, forecasts, forecasts), sia.SiaSettings(confidence=0.5)
        )
        engine = Engine(jobs=jobs, outcomes=outcomes, capacity_gpus=32, policy=policy, tick_s=sia.SPEC.tick_s)
        late = {"random": lateness_s(engine.run(), jobs, durations, made.quotas)}
        for name in ("maxmin", "sia-perfect", "sia-vc"):
            late[name] = lateness_s(run(name, jobs, durations, made.quotas), jobs, durations, made.quotas)
        for name, values in late.items():
            shares[name].append(np.mean(np.array(values) > 60.0))
    assert max(shares["sia-perfect"]) == max(shares["sia-vc"]) == 0.0
    random, maxmin = np.mean(shares["random"]), np.mean(shares["maxmin"])
    assert maxmin > 0.005
    assert 0.25 * maxmin < random < 4 * maxmin


def test_the_clairvoyant_are_given_the_truth_by_the_simulator_only():
    assert TrueLives({}).is_clairvoyant
    assert {name for name, spec in POLICIES.items() if spec.is_clairvoyant} == {
        "gssf",
        "sia-perfect",
        "sia-vc",
        "anticipatory-perfect",
        "planned-perfect",
    }
