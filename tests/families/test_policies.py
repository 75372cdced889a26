"""What every registered policy owes, whatever its rule."""

import heapq
import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from enum import Enum
from typing import get_type_hints

import pytest
from causality import settings_choices
from hypothesis import given, settings
from hypothesis import strategies as st
from support import REPOSITORY, SINGLY, all_knowing, instances, run

from domain.errors import SettingError
from domain.jobs import Job, JobOutcome
from domain.plans import Plan
from domain.schedules import Schedule, Stretch
from solver.check import CheckOptions, check
from solver.policies import POLICIES
from solver.policies.base import Policy, parse_settings

TIES_GO_BY_POOL = {"maxmin", "sia", "sia-perfect"}
"""Policies in which the order of the pools decides between equals; for all others it means nothing."""

KEEP_THEIR_OWN_COUNT = {"fcfs", "backfill", "sjf", "ssf", "gssf"}
"""Policies that go by what they know to run, and not by how many GPUs they are told are idle."""

every_policy = pytest.mark.parametrize("policy", sorted(SINGLY))
every_choice = pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        pytest.param(policy, chosen, id="-".join([policy, *chosen.values()]))
        for policy in sorted(SINGLY)
        for chosen in settings_choices(policy)
    ],
)
shares = st.sampled_from(("0", "0.3", "0.6", "1"))


def fixed(max_examples):
    return settings(max_examples=max_examples, deadline=None, derandomize=True)


def with_share(policy: str, chosen: dict[str, str], share: str) -> dict[str, str]:
    """The settings, with this share of requeueable jobs where the policy asks for one."""
    names = {field.name for field in fields(POLICIES[policy].settings)}
    return {**chosen, "requeueable": share} if "requeueable" in names else chosen


def build(policy: str, instance, chosen: dict[str, str]) -> Policy:
    jobs, durations, quotas = instance
    outcomes = {job_id: JobOutcome(job_id, duration_s) for job_id, duration_s in durations.items()}
    spec = POLICIES[policy]
    return spec.build(
        all_knowing(spec, jobs, outcomes, quotas), parse_settings(policy, spec.settings, chosen)
    )


def options_for(policy: str, chosen: dict[str, str]) -> CheckOptions:
    """What the policy's schedules may contain."""
    spec = POLICIES[policy]
    in_force = parse_settings(policy, spec.settings, chosen)
    share = getattr(in_force, "requeueable", 0.0) if spec.may_send_back else 0.0
    return CheckOptions(requeueable_share=share, has_own_lanes=spec.has_own_lanes)


# (a) Schedules keep every rule.


@every_choice
@fixed(18)
@given(instances(), shares)
def test_its_schedules_keep_every_rule_and_run_every_job(policy, chosen, instance, share):
    jobs, durations, quotas = instance
    chosen = with_share(policy, chosen, share)
    schedule = run(policy, jobs, durations, quotas, **chosen)
    report = check(jobs, durations, quotas, schedule.stretches, options=options_for(policy, chosen))
    assert report.faults == ()
    assert schedule.last_ends().keys() == durations.keys()


@every_choice
@fixed(15)
@given(instances(), shares)
def test_every_plan_passes_the_independent_checker(policy, chosen, instance, share):
    jobs, durations, quotas = instance
    run(policy, jobs, durations, quotas, checks_plans=True, **with_share(policy, chosen, share))


@pytest.mark.parametrize("policy", sorted(set(SINGLY) - KEEP_THEIR_OWN_COUNT))
@fixed(40)
@given(instances(), shares, st.data())
def test_every_plan_passes_the_checker_where_gpus_are_lost(policy, instance, share, data):
    """Fewer GPUs than the quotas add up to, for jobs of minutes: own jobs wait, and some are late."""
    jobs, lengths_s, quotas = instance
    jobs = [replace(job, submit_s=30.0 * job.submit_s) for job in jobs]
    widest = max((job.num_gpus for job in jobs), default=1)
    run(
        policy,
        jobs,
        {job_id: 40.0 * length_s for job_id, length_s in lengths_s.items()},
        quotas,
        checks_plans=True,
        capacity_gpus=data.draw(st.integers(widest, sum(quotas.values()))),
        **with_share(policy, {}, share),
    )


@every_choice
@fixed(18)
@given(instances(), shares)
def test_it_sends_back_only_if_it_says_so(policy, chosen, instance, share):
    jobs, durations, quotas = instance
    schedule = run(policy, jobs, durations, quotas, **with_share(policy, chosen, share))
    spec = POLICIES[policy]
    assert spec.may_send_back or not any(stretch.was_sent_back for stretch in schedule.stretches)
    assert spec.has_own_lanes or not spec.may_send_back, "own jobs are never sent back"


def test_own_lanes_are_told_of_where_there_are_any():
    """Schedules of these two are judged by the rules of the own lane."""
    assert POLICIES["fcfs"].has_own_lanes
    assert POLICIES["reclaim"].has_own_lanes


# (b) and (c) The same input, the same schedule.


@every_choice
@fixed(18)
@given(instances(), shares, st.data())
def test_neither_another_run_nor_the_order_of_the_input_matters(policy, chosen, instance, share, data):
    jobs, durations, quotas = instance
    chosen = with_share(policy, chosen, share)
    once = run(policy, jobs, durations, quotas, **chosen).stretches
    assert run(policy, jobs, durations, quotas, **chosen).stretches == once
    shuffled = data.draw(st.permutations(jobs))
    lengths = {job.job_id: durations[job.job_id] for job in shuffled}
    assert run(policy, shuffled, lengths, quotas, **chosen).stretches == once


@pytest.mark.parametrize("policy", sorted(set(SINGLY) - TIES_GO_BY_POOL))
@fixed(18)
@given(instances(), shares, st.data())
def test_the_order_of_the_pools_does_not_matter(policy, instance, share, data):
    jobs, durations, quotas = instance
    chosen = with_share(policy, {}, share)
    reordered = {pool: quotas[pool] for pool in data.draw(st.permutations(sorted(quotas)))}
    schedules = [run(policy, jobs, durations, pools, **chosen) for pools in (quotas, reordered)]
    assert set(schedules[0].stretches) == set(schedules[1].stretches)


IN_A_PROCESS_OF_ITS_OWN = """
import hashlib, random
from domain.jobs import Job
from support import SINGLY, run

draw = random.Random(7)
quotas = {"north": 5, "south": 3, "west": 4}
jobs = [
    Job(f"job-{k}", pool, float(draw.randint(0, 60)), draw.randint(1, quotas[pool]), requeue_u=draw.random(),
        checkpoint_s=draw.choice([None, 5.0]), restart_s=draw.choice([None, 3.0]))
    for k in range(150)
    for pool in [draw.choice(sorted(quotas))]
]
durations = {job.job_id: float(draw.randint(0, 40)) for job in jobs}
for policy in SINGLY:
    stretches = run(policy, jobs, durations, quotas).stretches
    print(policy, len(stretches), hashlib.sha256(repr(stretches).encode()).hexdigest())
"""


def test_no_policy_depends_on_how_texts_are_hashed():
    """Python salts the hashes of texts anew in each process, and with them the order of sets."""

    def printed(salt: str) -> str:
        paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])
        environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": paths}
        command = [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    assert printed("1") == printed("2")


# (d) Plans are proposals: what is observed counts.


class Cluster:
    """Carries out what a policy plans, or only a part of it; it shares no code with the engine.

    Conversions move nothing and are told once, so they always count.
    """

    def __init__(self, instance, policy: str, chosen: dict[str, str]) -> None:
        jobs, self.durations, quotas = instance
        self.policy = build(policy, instance, chosen)
        self.looks_at_idle_gpus = policy not in KEEP_THEIR_OWN_COUNT
        self.idle_gpus = sum(quotas.values())
        self.arrivals = sorted(jobs, key=lambda job: (job.submit_s, job.job_id), reverse=True)
        self.waiting: dict[str, Job] = {}
        self.running: dict[str, Stretch] = {}
        self.jobs = {job.job_id: job for job in jobs}
        self.endings: list[tuple[float, int, str]] = []
        self.looks_again_s: list[float] = []
        self.stretches: list[Stretch] = []
        self.kept_s: dict[str, float] = {}
        self.cancelled: set[str] = set()
        self.attempt_of: dict[str, int] = {}
        self.attempts = 0

    def next_instant(self) -> float | None:
        """When something happens again."""
        instants = list(self.looks_again_s)
        instants += [self.endings[0][0]] if self.endings else []
        instants += [self.arrivals[-1].submit_s] if self.arrivals else []
        return min(instants, default=None)

    def go_to(self, now_s: float) -> None:
        """Let happen what happens by itself: endings, then arrivals."""
        self.looks_again_s = [at_s for at_s in self.looks_again_s if at_s > now_s]
        while self.endings and self.endings[0][0] <= now_s:
            _, attempt, job_id = heapq.heappop(self.endings)
            if self.attempt_of.get(job_id) == attempt:
                self.policy.ended(self.stop(job_id, now_s, is_sent_back=False), now_s)
        while self.arrivals and self.arrivals[-1].submit_s <= now_s:
            job = self.arrivals.pop()
            self.waiting[job.job_id] = job
            self.policy.submitted(job, now_s)

    def asked(self, now_s: float, rng) -> Plan:
        """The policy's plan, which must be the same however often it is asked for, and whatever it has
        been asked in between."""
        plans = [self.policy.decide(now_s, self.idle_gpus) for _ in range(2)]
        fewer_gpus = rng.randint(0, self.idle_gpus)
        for_fewer = self.policy.decide(now_s, fewer_gpus)
        plans.append(self.policy.decide(now_s, self.idle_gpus))
        for job in itertools.chain(for_fewer.conversions, *(plan.conversions for plan in plans)):
            self.running[job.job_id] = self.running[job.job_id]._replace(own_from_s=now_s)
        assert plans[0].starts == plans[1].starts == plans[2].starts
        assert plans[0].send_backs == plans[1].send_backs == plans[2].send_backs
        if self.looks_at_idle_gpus:
            given_back = sum(job.num_gpus for job in for_fewer.send_backs)
            assert sum(start.job.num_gpus for start in for_fewer.starts) <= fewer_gpus + given_back
        return plans[0]

    def carry_out(self, plan: Plan, now_s: float) -> None:
        """All of a plan; it must be possible."""
        assert self.carry_out_where(plan, now_s, lambda: True), "the plan uses GPUs that are not idle"

    def carry_out_where(self, plan: Plan, now_s: float, is_obeyed: Callable[[], bool]) -> bool:
        """Those decisions of a plan that are obeyed; whether all of them were possible."""
        is_possible = True
        for job in plan.send_backs:
            if is_obeyed():
                self.send_back(job, now_s)
        for job, is_guest in plan.starts:
            if job.num_gpus > self.idle_gpus:
                is_possible = False
            elif is_obeyed():
                self.start(job, now_s, is_guest=is_guest)
        return is_possible

    def start(self, job: Job, now_s: float, *, is_guest: bool) -> None:
        """A waiting job runs."""
        assert job.job_id in self.waiting, "the plan starts what does not wait"
        del self.waiting[job.job_id]
        self.idle_gpus -= job.num_gpus
        self.attempts += 1
        own_from_s = None if is_guest else now_s
        self.attempt_of[job.job_id] = self.attempts
        self.running[job.job_id] = Stretch(job.job_id, now_s, now_s, is_guest, own_from_s=own_from_s)
        left_s = self.durations[job.job_id] - self.kept_s.get(job.job_id, 0.0)
        heapq.heappush(self.endings, (now_s + left_s, self.attempts, job.job_id))
        self.policy.started(job, now_s)

    def send_back(self, job: Job, now_s: float) -> None:
        """A guest is stopped and waits again."""
        assert self.running[job.job_id].own_from_s is None, "the plan sends back an own job"
        self.waiting[job.job_id] = self.stop(job.job_id, now_s, is_sent_back=True)
        self.policy.sent_back(job, now_s)

    def stop(self, job_id: str, now_s: float, *, is_sent_back: bool) -> Job:
        """A running job runs no more."""
        begun = self.running.pop(job_id)
        del self.attempt_of[job_id]
        self.idle_gpus += self.jobs[job_id].num_gpus
        rate, is_lost = self.written_down(job_id, now_s - begun.start_s) if is_sent_back else (1.0, False)
        is_stopped = is_sent_back and not is_lost
        self.stretches.append(begun._replace(end_s=now_s, is_lost=is_lost, rate=rate, is_stopped=is_stopped))
        return self.jobs[job_id]

    def written_down(self, job_id: str, ran_s: float) -> tuple[float, bool]:
        """Rate of an attempt that is sent back, and whether it is lost; its job keeps what it has saved."""
        interval_s, had_kept, saved_s = self.jobs[job_id].checkpoint_s, job_id in self.kept_s, 0.0
        load_s = self.jobs[job_id].restart_s or 0.0
        if had_kept:  # the attempt began by loading
            ran_s, length_s = ran_s - load_s, ran_s
        else:
            length_s = ran_s
        while interval_s is not None and saved_s + interval_s <= ran_s:
            saved_s += interval_s
        if not had_kept:  # the next one will
            saved_s = max(0.0, saved_s - load_s)
        if saved_s:
            self.kept_s[job_id] = self.kept_s.get(job_id, 0.0) + saved_s
            return saved_s / length_s, False
        return (1e-9, False) if had_kept else (1.0, True)

    def cancel_one_that_waits(self, now_s: float, rng) -> None:
        """Its user has thought better of it."""
        if self.waiting:
            job = self.waiting.pop(rng.choice(sorted(self.waiting)))
            self.cancelled.add(job.job_id)
            self.policy.ended(job, now_s)

    def start_one_unplanned(self, now_s: float, rng) -> None:
        """Whoever really starts jobs has another opinion."""
        fitting = [job_id for job_id, job in self.waiting.items() if job.num_gpus <= self.idle_gpus]
        if fitting:
            self.start(self.waiting[rng.choice(sorted(fitting))], now_s, is_guest=True)


def drive(cluster: Cluster, rng, *, cancels: bool = False, starts_unplanned: bool = False) -> Schedule:
    """Go on to the end, and up to twenty times ignore a part of a plan: ask again at once, or look again
    a little later."""
    patience = 20
    while (now_s := cluster.next_instant()) is not None:
        cluster.go_to(now_s)
        if cancels and rng.random() < 0.2:
            cluster.cancel_one_that_waits(now_s, rng)
        plan = cluster.asked(now_s, rng)
        if patience and rng.random() < 0.5:
            patience -= 1
            cluster.carry_out_where(plan, now_s, lambda: rng.random() < 0.5)
            if cancels and rng.random() < 0.5:
                cluster.cancel_one_that_waits(now_s, rng)
            if starts_unplanned and rng.random() < 0.5:
                cluster.start_one_unplanned(now_s, rng)
            if rng.random() < 0.5:
                cluster.looks_again_s.append(now_s + 0.5)
                continue
            plan = cluster.asked(now_s, rng)
        if starts_unplanned:
            cluster.carry_out_where(plan, now_s, lambda: True)
        else:
            cluster.carry_out(plan, now_s)
    return Schedule(tuple(cluster.stretches))


@every_choice
@fixed(18)
@given(instances(), shares, st.randoms(use_true_random=False))
def test_a_plan_may_be_ignored_and_is_made_again(policy, chosen, instance, share, rng):
    jobs, durations, quotas = instance
    chosen = with_share(policy, chosen, share)
    schedule = drive(Cluster(instance, policy, chosen), rng)
    report = check(jobs, durations, quotas, schedule.stretches, options=options_for(policy, chosen))
    assert report.faults == ()
    assert schedule.last_ends().keys() == durations.keys()


@every_choice
@fixed(18)
@given(instances(), shares, st.randoms(use_true_random=False))
def test_a_cancelled_job_is_forgotten(policy, chosen, instance, share, rng):
    jobs, durations, quotas = instance
    chosen = with_share(policy, chosen, share)
    cluster = Cluster(instance, policy, chosen)
    schedule = drive(cluster, rng, cancels=True)
    left = [job for job in jobs if job.job_id not in cluster.cancelled]
    stretches = [stretch for stretch in schedule.stretches if stretch.job_id not in cluster.cancelled]
    report = check(left, durations, quotas, stretches, options=options_for(policy, chosen))
    assert report.faults == ()
    assert schedule.last_ends().keys() == durations.keys() - cluster.cancelled


@every_choice
@fixed(18)
@given(instances(), shares, st.randoms(use_true_random=False))
def test_what_runs_unplanned_is_taken_as_it_is(policy, chosen, instance, share, rng):
    """It still counts as what it is: nobody is sent back who may not be."""
    jobs, durations, quotas = instance
    chosen = with_share(policy, chosen, share)
    schedule = drive(Cluster(instance, policy, chosen), rng, starts_unplanned=True)
    share_in_force = options_for(policy, chosen).requeueable_share
    options = CheckOptions(requeueable_share=share_in_force, has_own_lanes=False)
    assert check(jobs, durations, quotas, schedule.stretches, options=options).faults == ()
    assert schedule.last_ends().keys() == durations.keys()


# (e) Nothing to do.


@every_choice
def test_an_empty_workload_is_no_trouble(policy, chosen):
    schedule = run(policy, [], {}, {"a": 2, "b": 1}, **chosen)
    assert schedule.stretches == ()
    assert schedule.events == 0


@every_policy
def test_without_jobs_it_plans_nothing(policy):
    built = build(policy, ([], {}, {"a": 2, "b": 1}), {})
    assert built.decide(0.0, 3) == Plan()
    assert built.decide(1.0, 3) == Plan()


# (f) Settings.


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_unknown_setting_is_refused_with_those_there_are(policy):
    spec = POLICIES[policy]
    with pytest.raises(SettingError, match=f"policy {policy} has no setting 'colour'") as refused:
        parse_settings(policy, spec.settings, {"colour": "red"})
    names = [field.name for field in fields(spec.settings)] or ["nothing"]
    assert all(name in str(refused.value) for name in names)


NONSENSE = {float: "many", int: "1.5", bool: "perhaps"}


@pytest.mark.parametrize(
    ("policy", "name", "kind"),
    [
        (policy, name, kind)
        for policy in sorted(POLICIES)
        for name, kind in get_type_hints(POLICIES[policy].settings).items()
        if kind in NONSENSE or issubclass(kind, Enum)
    ],
)
def test_a_malformed_value_is_refused(policy, name, kind):
    nonsense = NONSENSE.get(kind, "whatever")
    with pytest.raises(SettingError, match=f"policy {policy}.*{nonsense}"):
        parse_settings(policy, POLICIES[policy].settings, {name: nonsense})


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (policy, name)
        for policy in sorted(POLICIES)
        for name, kind in get_type_hints(POLICIES[policy].settings).items()
        if kind is float
    ],
)
def test_what_is_no_number_is_refused(policy, name):
    with pytest.raises(SettingError, match=f"policy {policy}: {name} is nan"):
        parse_settings(policy, POLICIES[policy].settings, {name: "nan"})


# (g) Rules are written down.


@every_policy
def test_it_says_what_its_rule_is(policy):
    """Order, skipping and ties, where a reader of the class or of the module will look for them."""
    built = type(build(policy, ([], {}, {"a": 2}), {}))
    written = " ".join((inspect.getdoc(built) or "").split())
    assert len(written) > 150
    assert "Ties" in written or "(submit, id)" in written
    module = inspect.getmodule(POLICIES[policy].build)
    assert module is not None
    assert len(inspect.getdoc(module) or "") > 30
