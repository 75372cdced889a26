"""What policies that lend owe where they also let jobs ride on GPUs of others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_worlds import GUESSED, TABLE, World, faults, rewritten_after, seen_by, shared_gpus, worlds

from domain.jobs import Job, JobOutcome
from domain.schedules import Schedule
from simulator.engine import Engine
from simulator.packed import pace_of
from simulator.placed import PlacedPlans
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings

RIDING = {"packing": "on", "eps": "0.5", "sigma": "0.5"}
POLICY_CHOICES = pytest.mark.parametrize("policy", ["anticipatory", "planned"])


def in_pools(world: World) -> World:
    """The same jobs in two pools: whoever is as wide as a half is in the first one, all others by turns."""
    half = world.capacity_gpus // 2

    def pooled(place: int, job: Job) -> Job:
        pool = "a" if place % 3 else "b"
        return replace(job, pool=pool, num_gpus=min(job.num_gpus, half))

    return world._replace(jobs=tuple(pooled(place, job) for place, job in enumerate(world.jobs)))


def ride(policy: str, world: World) -> Schedule:
    spec = POLICIES[policy]
    in_force = parse_settings(policy, spec.settings, RIDING)
    half = world.capacity_gpus // 2
    quotas = {"a": half, "b": world.capacity_gpus - half}
    placer = PlacedPlans(world.nodes, quotas, GUESSED)
    pairs = shared_gpus()
    context = PolicyContext(
        quotas, GUESSED, nodes=placer, hosts=world.nodes, pairs=pairs.forecaster, models=TABLE.models
    )
    rule = spec.build(context, in_force)
    return Engine(
        jobs=world.jobs,
        outcomes={job_id: JobOutcome(job_id, length) for job_id, length in world.durations_s.items()},
        capacity_gpus=world.capacity_gpus,
        policy=rule,
        tick_s=spec.tick_s,
        placer=placer,
        pace=pace_of(world.nodes, pairs, in_force, GUESSED),
    ).run()


@POLICY_CHOICES
@settings(max_examples=10, deadline=None, derandomize=True)
@given(worlds())
def test_its_schedules_keep_every_rule_and_run_every_job(policy, world):
    pooled = in_pools(world)
    assert faults(pooled, ride(policy, pooled)) == []


@POLICY_CHOICES
@settings(max_examples=12, deadline=None, derandomize=True)
@given(worlds(), st.integers(0, 3_000), st.integers(0, 99))
def test_what_happens_later_changes_no_decision(policy, world, cut_s, seed):
    pooled = in_pools(world)
    one = ride(policy, pooled)
    other = rewritten_after(pooled, one, cut_s, np.random.default_rng(seed))
    known = {job.job_id for job in pooled.jobs}
    other = other._replace(
        jobs=tuple(job if job.job_id in known else replace(job, pool="a") for job in other.jobs)
    )
    assert seen_by(one, cut_s) == seen_by(ride(policy, other), cut_s)


def test_the_worlds_are_full_enough():
    rides = 0

    @settings(max_examples=20, deadline=None, derandomize=True, database=None)
    @given(worlds())
    def look(world):
        nonlocal rides
        rides += sum(one.rate < 1.0 for one in ride("anticipatory", in_pools(world)).stretches)

    look()
    assert rides >= 8
