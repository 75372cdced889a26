"""Whenever guests are sent back, what they keep and what they run at last is exactly their work."""

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.jobs import Job, JobOutcome, submit_order
from domain.plans import Plan, Start
from simulator.engine import Engine
from solver.check import CheckOptions, check

QUOTAS = {"a": 3, "b": 2}
OPTIONS = CheckOptions(requeueable_share=1.0, is_preemption_allowed=False)


class Restless:
    """Starts guests that fit and sends some of them back, as a draw says; at last all run to their end."""

    def __init__(self, rng, patience):
        self._rng, self._patience = rng, patience
        self._waiting, self._running = {}, {}

    def submitted(self, job, _now_s):
        self._waiting[job.job_id] = job

    def started(self, job, _now_s):
        self._running[job.job_id] = self._waiting.pop(job.job_id)

    def ended(self, job, _now_s):
        self._running.pop(job.job_id)

    def sent_back(self, job, now_s):
        self._running.pop(job.job_id)
        self.submitted(job, now_s)

    def decide(self, _now_s, idle_gpus):
        back = []
        if self._patience > 0:
            back = [job for job in self._running.values() if self._rng.random() < 0.3]
            if len(back) == len(self._running):
                back = back[1:]  # else nothing might happen any more
            self._patience -= len(back)
        idle_gpus += sum(job.num_gpus for job in back)
        starts = []
        for job in sorted(self._waiting.values(), key=submit_order):
            if job.num_gpus <= idle_gpus and (self._patience <= 0 or self._rng.random() < 0.8):
                idle_gpus -= job.num_gpus
                starts.append(Start(job, True))
        if not starts and not self._running:
            starts = [Start(job, True) for job in list(self._waiting.values())[:1]]
        return Plan(send_backs=tuple(back), starts=tuple(starts))


@st.composite
def instances(draw, seconds):
    jobs, durations_s = [], {}
    for k in range(draw(st.integers(1, 6))):
        pool = draw(st.sampled_from(sorted(QUOTAS)))
        width = draw(st.integers(1, QUOTAS[pool]))
        interval_s = draw(st.none() | seconds.filter(lambda some_s: some_s > 0.0))
        saves = {"checkpoint_s": interval_s, "restart_s": draw(st.none() | seconds)}
        jobs.append(Job(f"j{k}", pool, draw(seconds), width, requeue_u=0.0, **saves))
        durations_s[f"j{k}"] = 5.0 * draw(seconds)
    return jobs, durations_s


whole = st.integers(0, 40).map(float)
real = st.floats(0.0, 40.0, allow_subnormal=False).map(lambda some_s: round(some_s, 3))


def lived(instance, rng, patience):
    jobs, durations_s = instance
    outcomes = {job_id: JobOutcome(job_id, length_s) for job_id, length_s in durations_s.items()}
    policy = Restless(rng, patience)
    return Engine(jobs=jobs, outcomes=outcomes, capacity_gpus=5, policy=policy, tick_s=1.0).run().stretches


@settings(max_examples=150, deadline=None, derandomize=True)
@given(instances(whole), st.randoms(use_true_random=False), st.integers(0, 30))
def test_in_whole_seconds_the_kept_work_adds_up_exactly(instance, rng, patience):
    jobs, durations_s = instance
    stretches = lived(instance, rng, patience)
    assert check(jobs, durations_s, QUOTAS, stretches, options=OPTIONS).faults == ()
    for job in jobs:
        mine = [one for one in stretches if one.job_id == job.job_id and not one.is_lost]
        work = sum(Fraction(round(one.rate * (one.end_s - one.start_s))) for one in mine)
        assert work == Fraction(durations_s[job.job_id])
        load_s, ran_s = Fraction(job.restart_s or 0.0), [Fraction(one.end_s - one.start_s) for one in mine]
        kept_s = Fraction(0)
        for one, length_s in zip(mine, ran_s, strict=True):
            worked_s = max(Fraction(0), length_s - (load_s if kept_s else 0))
            if one.is_stopped:
                saved_s = math.floor(worked_s / Fraction(job.checkpoint_s)) * Fraction(job.checkpoint_s)
                more_s = saved_s if kept_s else saved_s - load_s
                assert round(one.rate * float(length_s)) == more_s
                kept_s += more_s
        loads_s = load_s if kept_s else 0
        assert ran_s[-1] == Fraction(durations_s[job.job_id]) - kept_s
        assert ran_s[-1] >= loads_s, "the last one loads, and works for the rest"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(instances(real), st.randoms(use_true_random=False), st.integers(0, 30))
def test_at_any_instants_the_judge_finds_nothing_amiss(instance, rng, patience):
    jobs, durations_s = instance
    stretches = lived(instance, rng, patience)
    assert check(jobs, durations_s, QUOTAS, stretches, options=OPTIONS).faults == ()
