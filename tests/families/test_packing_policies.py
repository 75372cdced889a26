"""What every policy owes that lets two jobs share a GPU."""

import inspect
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from causality import settings_choices
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_worlds import (
    World,
    build,
    faults,
    judged,
    make_nodes,
    rewritten_after,
    run,
    seen_by,
    worlds,
)

from domain.jobs import Job, JobOutcome
from domain.plans import NOTHING, Plan
from domain.schedules import Schedule, Stretch
from simulator.truth import TrueLives
from solver.policies import POLICIES
from solver.policies.base import Policy

PACKING = sorted(name for name, spec in POLICIES.items() if spec.packs)
every_policy = pytest.mark.parametrize("policy", PACKING)
every_choice = pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        pytest.param(policy, chosen, id="-".join([policy, *chosen.values()]))
        for policy in PACKING
        for chosen in settings_choices(policy)
    ],
)


def fixed(max_examples):
    return settings(max_examples=max_examples, deadline=None, derandomize=True)


@every_choice
@fixed(24)
@given(worlds())
def test_its_schedules_keep_every_rule_and_run_every_job(policy, chosen, world):
    schedule = run(policy, world, checks_plans=True, **chosen)
    assert faults(world, schedule) == []
    assert judged(policy, world, schedule, **chosen) == []


@every_policy
@fixed(12)
@given(worlds(), st.data())
def test_neither_another_run_nor_the_order_of_the_input_matters(policy, world, data):
    once = run(policy, world).stretches
    shuffled = world._replace(jobs=tuple(data.draw(st.permutations(world.jobs))))
    assert run(policy, shuffled).stretches == once


class Reluctant:
    """Asks a policy twice, which must not matter, and now and then does not do what it says."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self._policy = policy
        self._draw = np.random.default_rng(seed)
        self._running = 0
        self.ignored = 0

    def __getattr__(self, name: str):
        return getattr(self._policy, name)

    def submitted(self, job: Job, now_s: float) -> None:
        self._policy.submitted(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        self._running += 1
        self._policy.started(job, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        self._running -= 1
        self._policy.ended(job, now_s)

    def sent_back(self, job: Job, now_s: float) -> None:
        self._running -= 1
        self._policy.sent_back(job, now_s)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        plan, again = (self._policy.decide(now_s, idle_gpus) for _ in range(2))
        assert plan == again
        if plan != NOTHING and self._running and self._draw.random() < 0.5:
            self.ignored += 1
            return NOTHING
        return plan


@every_policy
@fixed(20)
@given(worlds(), st.integers(0, 99))
def test_a_plan_may_be_ignored(policy, world, seed):
    rule = Reluctant(build(policy, world.nodes), seed)
    assert faults(world, run(policy, world, rule)) == []


@every_choice
@fixed(20)
@given(worlds(), st.integers(0, 3_000), st.integers(0, 99))
def test_what_happens_later_changes_no_decision(policy, chosen, world, cut_s, seed):
    one = run(policy, world, **chosen)
    other_world = rewritten_after(world, one, cut_s, np.random.default_rng(seed))
    other = run(policy, other_world, **chosen)
    assert seen_by(one, cut_s) == seen_by(other, cut_s)


@every_policy
def test_it_says_what_its_rule_is(policy):
    """Order, skipping and ties, where a reader of the class or of the module will look for them."""
    built = type(build(policy, make_nodes(2, 2)))
    written = " ".join((inspect.getdoc(built) or "").split())
    assert len(written) > 150
    assert "Ties" in written or "(submit, id)" in written
    assert len(inspect.getdoc(inspect.getmodule(POLICIES[policy].build)) or "") > 30


# The helpers themselves.


def test_true_lives_are_caught():
    """Rewriting what happens later shows a look into it: here the shorter of two jobs goes first."""
    jobs = tuple(Job(name, "all", 0.0, 4, model="huge") for name in ("a", "b", "c"))
    world = World(make_nodes(2, 2), jobs, {"a": 900.0, "b": 500.0, "c": 700.0})

    def replayed(one: World) -> Schedule:
        outcomes = {job_id: JobOutcome(job_id, length) for job_id, length in one.durations_s.items()}
        return run("lucid", one, build("lucid", one.nodes, lives=TrueLives(outcomes)))

    truthful = replayed(world)
    assert truthful.first_starts() == {"b": 0.0, "c": 500.0, "a": 1_200.0}
    others = [rewritten_after(world, truthful, 10.0, np.random.default_rng(seed)) for seed in range(5)]
    assert any(seen_by(replayed(other), 10.0) != seen_by(truthful, 10.0) for other in others)


def test_the_worlds_are_full_enough():
    """Jobs share, and policies that may stop jobs do."""
    seen = Counter[str]()

    @fixed(20)
    @given(worlds())
    def look(world):
        for policy in ("gandiva", "gavel-makespan"):
            spans = [one for one in run(policy, world).stretches if one.end_s > one.start_s]
            seen[f"{policy} shares"] += sum(one.rate < 1.0 for one in spans)
            seen[f"{policy} stops"] += _waits_in_between(spans)

    look()
    assert seen["gandiva shares"] >= 20
    assert seen["gavel-makespan shares"] >= 20
    assert seen["gavel-makespan stops"] >= 20


def _waits_in_between(stretches: list[Stretch]) -> int:
    """How often a job runs, waits and runs again."""
    ordered = sorted(stretches)
    return sum(one.job_id == other.job_id and other.start_s > one.end_s for one, other in pairwise(ordered))


def test_the_checker_sees_what_is_wrong():
    nodes = make_nodes(2, 2)
    first, second = nodes[0].gpus()
    third = nodes[1].gpus()[0]
    models = {"a": "calm", "b": "calm", "c": "huge", "d": "even"}
    jobs = tuple(Job(name, "all", 0.0, 1, model=model) for name, model in models.items())
    pair = Job("p", "all", 0.0, 2, model="calm")
    world = World(nodes, (*jobs, pair), {"a": 10.0, "b": 10.0, "c": 10.0, "d": 10.0, "p": 10.0})

    def found(*stretches: Stretch) -> str:
        return " | ".join(faults(world, Schedule(stretches, 0)))

    def on(job_id: str, *gpus, end_s: float = 10.0) -> Stretch:
        return Stretch(job_id, 0.0, end_s, gpus=gpus)

    assert "share a GPU" in found(on("a", first), on("b", first), on("d", first))
    assert "c and d do not fit" in found(on("c", first), on("d", first)).replace("d and c", "c and d")
    assert "p is on 2 GPUs of 2 nodes" in found(on("p", first, third))
    assert "a does 4.0 s of 10.0 s" in found(on("a", first, end_s=4.0))
    assert "b does 0 s" in found(on("a", first))
    assert found(on("p", first, second), on("a", first), on("b", second), on("c", third)) == (
        "d does 0 s of 10.0 s"
    )
    narrow = world._replace(jobs=(*jobs, Job("p", "all", 0.0, 1, model="calm")))
    star = [on("a", first), on("p", first, second), on("b", second)]
    assert "p breaks the star rule" not in " ".join(faults(world, Schedule(tuple(star), 0)))
    assert "p is on 2 GPUs" in " ".join(faults(narrow, Schedule(tuple(star), 0)))
