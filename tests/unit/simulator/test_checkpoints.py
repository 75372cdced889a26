"""Guests that save checkpoints: what the engine runs, and what is read off its schedules."""

import pytest

from domain.jobs import Job, JobOutcome
from domain.plans import Plan, Start
from domain.schedules import NOTHING_KEPT_RATE, Schedule, Stretch
from domain.usage import use_integrals
from simulator.engine import Engine
from simulator.report import Lived

GUEST = Job("guest", "a", 0.0, 2, requeue_u=0.0, checkpoint_s=10.0)
QUOTAS = {"a": 2}


class AtInstants:
    """Starts and sends back one job at given instants; jobs of no length, by which those come, at once."""

    def __init__(self, job, starts_s, backs_s):
        self._job, self._starts_s, self._backs_s = job, set(starts_s), set(backs_s)
        self._ticks = []

    def submitted(self, job, _now_s):
        if job is not self._job:
            self._ticks.append(job)

    def nothing(self, _job, _now_s):
        pass

    started = ended = sent_back = nothing

    def decide(self, now_s, _idle_gpus):
        starts = [Start(self._job, True)] if now_s in self._starts_s else []
        starts += [Start(one, False) for one in self._ticks]
        back = (self._job,) if now_s in self._backs_s else ()
        self._starts_s.discard(now_s)
        self._backs_s.discard(now_s)
        self._ticks = []
        return Plan(send_backs=back, starts=tuple(starts))


def lived(job, duration_s, starts_s, backs_s) -> Schedule:
    ticks = [Job(f"tick-{k}", "a", at_s, 1) for k, at_s in enumerate(sorted({*starts_s, *backs_s} - {0.0}))]
    outcomes = {one.job_id: JobOutcome(one.job_id, 0.0) for one in ticks}
    outcomes[job.job_id] = JobOutcome(job.job_id, duration_s)
    policy = AtInstants(job, starts_s, backs_s)
    schedule = Engine(jobs=[job, *ticks], outcomes=outcomes, capacity_gpus=4, policy=policy).run()
    return Schedule(tuple(one for one in schedule.stretches if one.job_id == job.job_id), schedule.events)


def guest(start_s, end_s, **more):
    return Stretch("guest", start_s, end_s, is_guest=True, **more)


def test_what_was_saved_is_kept_and_the_next_attempt_runs_for_the_rest():
    schedule = lived(GUEST, 50.0, [0.0, 40.0], [25.0])
    assert schedule.stretches == (guest(0.0, 25.0, rate=0.8, is_stopped=True), guest(40.0, 70.0))


def test_an_attempt_that_keeps_nothing_is_lost_before_and_counts_for_nothing_after_one_that_did():
    schedule = lived(GUEST, 50.0, [0.0, 10.0, 40.0, 60.0], [5.0, 30.0, 48.0])
    assert schedule.stretches == (
        guest(0.0, 5.0, is_lost=True),
        guest(10.0, 30.0, rate=1.0, is_stopped=True),
        guest(40.0, 48.0, rate=NOTHING_KEPT_RATE, is_stopped=True),
        guest(60.0, 90.0),
    )


def test_without_checkpoints_all_is_lost():
    job = Job("guest", "a", 0.0, 2, requeue_u=0.0)
    schedule = lived(job, 50.0, [0.0, 40.0], [25.0])
    assert schedule.stretches == (guest(0.0, 25.0, is_lost=True), guest(40.0, 90.0))


@pytest.fixture
def schedule() -> Schedule:
    return lived(GUEST, 50.0, [0.0, 40.0, 60.0], [25.0, 45.0])


def test_a_schedule_tells_the_first_start_that_counted_the_last_one_and_the_end(schedule):
    assert schedule.first_starts() == {"guest": 0.0}
    assert schedule.resumed_starts() == {"guest": 60.0}
    assert schedule.last_ends() == {"guest": 90.0}
    assert Lived.of(schedule).final_start_s("guest") == 60.0
    assert [one.was_sent_back for one in schedule.stretches] == [True, True, False]


def test_only_what_was_repeated_is_lost(schedule):
    use = use_integrals([GUEST], schedule.stretches, QUOTAS, (0.0, 90.0))
    assert use.lost_gpu_hours * 3600 == pytest.approx(2 * (5.0 + 5.0))
    assert use.work_gpu_hours * 3600 == pytest.approx(2 * 50.0)
    assert use.allocated_gpu_hours * 3600 == pytest.approx(2 * 60.0)


def test_a_job_waits_between_its_attempts_and_after_its_last_one_was_stopped(schedule):
    use = use_integrals([GUEST], schedule.stretches, QUOTAS, (0.0, 90.0))
    assert use.held_idle_gpu_hours * 3600 == pytest.approx(2 * (15.0 + 15.0))
    unfinished = use_integrals([GUEST], schedule.stretches[:1], QUOTAS, (0.0, 90.0))
    assert unfinished.held_idle_gpu_hours * 3600 == pytest.approx(2 * 65.0)


LOADS = Job("guest", "a", 0.0, 2, requeue_u=0.0, checkpoint_s=10.0, restart_s=6.0)


def test_the_next_attempt_loads_and_runs_for_the_rest():
    """20 s are saved; the last attempt loads for 6 s and works for 30."""
    schedule = lived(LOADS, 50.0, [0.0, 40.0], [25.0])
    assert schedule.stretches == (guest(0.0, 25.0, rate=14.0 / 25.0, is_stopped=True), guest(40.0, 76.0))


def test_one_that_is_sent_back_while_it_loads_has_come_no_further():
    """Of the third attempt 6 s are loading, 10 s are saved and 2 s are not: 20 s of 50 are left then."""
    schedule = lived(LOADS, 50.0, [0.0, 40.0, 50.0, 80.0], [25.0, 45.0, 68.0])
    assert schedule.stretches == (
        guest(0.0, 25.0, rate=14.0 / 25.0, is_stopped=True),
        guest(40.0, 45.0, rate=NOTHING_KEPT_RATE, is_stopped=True),
        guest(50.0, 68.0, rate=10.0 / 18.0, is_stopped=True),
        guest(80.0, 80.0 + 6.0 + 20.0),
    )


def test_one_that_saved_less_than_loading_takes_starts_from_zero():
    job = Job("guest", "a", 0.0, 2, requeue_u=0.0, checkpoint_s=10.0, restart_s=20.0)
    schedule = lived(job, 50.0, [0.0, 40.0], [25.0])
    assert schedule.stretches == (guest(0.0, 25.0, is_lost=True), guest(40.0, 90.0))


def test_loading_is_lost_time_and_no_work():
    schedule = lived(LOADS, 50.0, [0.0, 40.0], [25.0])
    use = use_integrals([LOADS], schedule.stretches, QUOTAS, (0.0, 76.0))
    assert use.lost_gpu_hours * 3600 == pytest.approx(2 * (5.0 + 6.0))
    assert use.work_gpu_hours * 3600 == pytest.approx(2 * 50.0)
