"""The event engine: the order of things, attempts sent back, and runs that get stuck."""

import pytest
from support import job

from domain.errors import PlanError, StalledError
from domain.jobs import JobOutcome
from domain.observers import Observer
from domain.plans import NOTHING, Plan, Start
from domain.schedules import Schedule, Stretch
from simulator.engine import Engine


class Scripted:
    """Does at each instant what a script says, and writes down what it is told and asked."""

    def __init__(self, *plans):
        self._plans = list(plans)
        self.log = []

    def submitted(self, job, _now_s):
        self.log.append(("submitted", job.job_id))

    def started(self, job, now_s):
        self.log.append(("started", job.job_id, now_s))

    def ended(self, job, _now_s):
        self.log.append(("ended", job.job_id))

    def sent_back(self, job, _now_s):
        self.log.append(("sent back", job.job_id))

    def decide(self, now_s, idle_gpus):
        self.log.append(("decide", now_s, idle_gpus))
        return self._plans.pop(0) if self._plans else NOTHING


class Greedy(Scripted):
    """Starts all that waits."""

    def __init__(self):
        super().__init__()
        self._waiting = []

    def submitted(self, job, now_s):
        super().submitted(job, now_s)
        self._waiting.append(job)

    def decide(self, now_s, idle_gpus):
        super().decide(now_s, idle_gpus)
        starts, self._waiting = [Start(one, False) for one in self._waiting], []
        return Plan(starts=tuple(starts))


def engine(policy, durations_s, capacity_gpus=4, **more):
    """`durations_s` maps jobs to lengths."""
    outcomes = {one.job_id: JobOutcome(one.job_id, length) for one, length in durations_s}
    jobs = [one for one, _ in durations_s]
    return Engine(jobs=jobs, outcomes=outcomes, capacity_gpus=capacity_gpus, policy=policy, **more)


def decisions(policy):
    return [entry[1] for entry in policy.log if entry[0] == "decide"]


def starts(*jobs, is_guest=False):
    return tuple(Start(one, is_guest) for one in jobs)


def test_at_an_instant_endings_come_first_then_arrivals_in_order_then_one_decision():
    policy = Greedy()
    later_b, later_a, first = job("b", 3.0), job("a", 3.0), job("z", 0.0)
    engine(policy, [(later_b, 1.0), (first, 3.0), (later_a, 1.0)]).run()
    assert policy.log == [
        ("submitted", "z"),
        ("decide", 0.0, 4),
        ("started", "z", 0.0),
        ("ended", "z"),
        ("submitted", "a"),
        ("submitted", "b"),
        ("decide", 3.0, 4),
        ("started", "a", 3.0),
        ("started", "b", 3.0),
        ("ended", "a"),
        ("ended", "b"),
        ("decide", 4.0, 4),
    ]


def test_a_job_of_no_length_ends_at_the_instant_it_starts_and_all_is_gone_through_again():
    policy = Greedy()
    schedule = engine(policy, [(job("one", 2.0), 0.0)]).run()
    assert policy.log == [
        ("submitted", "one"),
        ("decide", 2.0, 4),
        ("started", "one", 2.0),
        ("ended", "one"),
        ("decide", 2.0, 4),
    ]
    assert schedule.stretches == (Stretch("one", 2.0, 2.0, own_from_s=2.0),)


def test_a_plan_is_carried_out_in_the_order_send_backs_conversions_starts():
    guest, other, wide = job("guest", 0.0, 2), job("other", 0.0, 1), job("wide", 1.0, 3)
    policy = Scripted(
        Plan(starts=starts(guest, other, is_guest=True)),
        Plan(send_backs=(guest,), conversions=(other,), starts=starts(wide)),
        Plan(starts=starts(guest)),
    )
    schedule = engine(policy, [(guest, 9.0), (other, 9.0), (wide, 1.0)]).run()
    assert schedule.stretches == (
        Stretch("guest", 0.0, 1.0, is_guest=True, is_lost=True),
        Stretch("wide", 1.0, 2.0, own_from_s=1.0),
        Stretch("other", 0.0, 9.0, is_guest=True, own_from_s=1.0),
        Stretch("guest", 2.0, 11.0, own_from_s=2.0),
    )
    assert schedule.events == 7, "three arrivals, three endings, one send-back"


def test_an_attempt_sent_back_does_not_end_later():
    guest, tick = job("guest"), job("tick", 5.0)
    policy = Scripted(
        Plan(starts=starts(guest, is_guest=True)),
        Plan(send_backs=(guest,), starts=starts(tick)),
        Plan(starts=starts(guest)),
    )
    schedule = engine(policy, [(guest, 10.0), (tick, 2.0)]).run()
    assert schedule.last_ends() == {"tick": 7.0, "guest": 17.0}
    assert [entry for entry in policy.log if entry[0] == "ended"] == [("ended", "tick"), ("ended", "guest")]
    assert schedule.stretches[0] == Stretch("guest", 0.0, 5.0, is_guest=True, is_lost=True)
    assert decisions(policy) == [0.0, 5.0, 7.0, 17.0], "at 10 s, when it would have ended, nobody is asked"


def test_a_guest_sent_back_and_started_at_once_starts_from_zero():
    guest, tick = job("guest"), job("tick", 5.0)
    policy = Scripted(
        Plan(starts=starts(guest, is_guest=True)),
        Plan(send_backs=(guest,), starts=starts(tick, guest)),
    )
    schedule = engine(policy, [(guest, 10.0), (tick, 1.0)]).run()
    assert schedule.last_ends()["guest"] == 15.0


def test_a_plan_that_cannot_be_is_refused():
    one, two = job("one", 0.0, 3), job("two", 0.0, 2)
    with pytest.raises(PlanError, match=r"two is to start at 0.0 s on 2 GPUs, 1 are idle"):
        engine(Scripted(Plan(starts=starts(one, two))), [(one, 1.0), (two, 1.0)]).run()
    with pytest.raises(PlanError, match="not pending"):
        engine(Scripted(Plan(starts=starts(two, two))), [(two, 1.0)]).run()


def test_jobs_that_nobody_starts_are_reported():
    late, early = job("late", 7.0), job("early", 1.0, 2, "b")
    with pytest.raises(StalledError, match=r"2 jobs never start, the first one early \(2 GPUs, pool b\)"):
        engine(Scripted(), [(late, 1.0), (early, 1.0)]).run()


def test_without_jobs_nothing_happens_and_nobody_is_asked():
    policy = Scripted()
    assert engine(policy, []).run() == Schedule((), 0)
    assert policy.log == []


class Endings(Observer):
    """Notes (job, instant, length) of each job that ends."""

    def __init__(self):
        self.seen = []

    def ended(self, job, now_s, duration_s):
        self.seen.append((job.job_id, now_s, duration_s))


def test_endings_are_observed_in_their_order_with_the_true_lengths():
    endings = Endings()
    jobs = [(job("long"), 9.0), (job("short", 1.0), 2.0), (job("middle", 0.0), 5.0), (job("none", 3.0), 0.0)]
    engine(Greedy(), jobs, observers=[endings]).run()
    assert endings.seen == [
        ("short", 3.0, 2.0),
        ("none", 3.0, 0.0),
        ("middle", 5.0, 5.0),
        ("long", 9.0, 9.0),
    ]


def test_what_ends_together_is_observed_in_the_order_of_the_starts_and_only_once():
    endings = Endings()
    guest, tick = job("guest"), job("tick", 4.0)
    policy = Scripted(
        Plan(starts=starts(guest, is_guest=True)),
        Plan(send_backs=(guest,), starts=starts(tick, guest)),
    )
    engine(policy, [(guest, 6.0), (tick, 6.0)], observers=[endings]).run()
    assert endings.seen == [("tick", 10.0, 6.0), ("guest", 10.0, 6.0)]


def test_progress_is_told_now_and_then_and_at_the_end():
    told = []
    jobs = [(job(f"j{k:04}", float(k)), 0.5) for k in range(2500)]
    engine(Greedy(), jobs, progress=lambda ended, of: told.append((ended, of))).run()
    assert told[-1] == (2500, 2500)
    assert len(told) == 3, "twice on the way, after 2,048 and 4,096 of 5,000 events"
    assert told == sorted(told)
    assert 1000 <= told[0][0] <= 1050
    assert all(of == 2500 for _, of in told)


class Watching(Observer):
    """Writes into the same log as the policy."""

    def __init__(self, log):
        self._log = log

    def submitted(self, job, now_s):
        self._log.append(("observed submitted", job.job_id, now_s))

    def started(self, job, now_s):
        self._log.append(("observed started", job.job_id, now_s))

    def sent_back(self, job, now_s):
        self._log.append(("observed sent back", job.job_id, now_s))

    def ended(self, job, now_s, duration_s):
        self._log.append(("observed ended", job.job_id, now_s, duration_s))


def test_observers_are_told_each_fact_as_it_happens_and_before_the_policy():
    guest, tick = job("guest"), job("tick", 5.0)
    policy = Scripted(
        Plan(starts=starts(guest, is_guest=True)),
        Plan(send_backs=(guest,), starts=starts(tick)),
        Plan(starts=starts(guest)),
    )
    engine(policy, [(guest, 10.0), (tick, 2.0)], observers=[Watching(policy.log)]).run()
    assert policy.log == [
        *(("observed submitted", "guest", 0.0), ("submitted", "guest"), ("decide", 0.0, 4)),
        *(("observed started", "guest", 0.0), ("started", "guest", 0.0)),
        *(("observed submitted", "tick", 5.0), ("submitted", "tick"), ("decide", 5.0, 3)),
        *(("observed sent back", "guest", 5.0), ("sent back", "guest")),
        *(("observed started", "tick", 5.0), ("started", "tick", 5.0)),
        *(("observed ended", "tick", 7.0, 2.0), ("ended", "tick"), ("decide", 7.0, 4)),
        *(("observed started", "guest", 7.0), ("started", "guest", 7.0)),
        *(("observed ended", "guest", 17.0, 10.0), ("ended", "guest"), ("decide", 17.0, 4)),
    ]


def test_while_jobs_wait_and_something_is_to_come_it_also_decides_at_every_tick():
    runner, waiting = job("runner"), job("waiting", 70.0)
    policy = Scripted(Plan(starts=starts(runner)), NOTHING, NOTHING, Plan(starts=starts(waiting)))
    schedule = engine(policy, [(runner, 300.0), (waiting, 10.0)], tick_s=60.0).run()
    assert decisions(policy) == [0.0, 70.0, 120.0, 180.0, 190.0, 300.0]
    assert schedule.first_starts() == {"runner": 0.0, "waiting": 180.0}


def test_a_tick_that_falls_on_an_event_is_the_same_instant():
    runner, waiting = job("runner"), job("waiting", 30.0)
    policy = Scripted(Plan(starts=starts(runner)), NOTHING, Plan(starts=starts(waiting)))
    engine(policy, [(runner, 60.0), (waiting, 10.0)], tick_s=60.0).run()
    assert decisions(policy) == [0.0, 30.0, 60.0, 70.0]


def test_ticks_alone_do_not_keep_a_replay_going():
    with pytest.raises(StalledError, match="1 jobs never start"):
        engine(Scripted(), [(job("one"), 1.0)], tick_s=60.0).run()


def test_gpus_of_a_guest_that_was_sent_back_are_idle_only_after_the_time_that_takes():
    guest, owner = job("guest", 0.0, 3, requeue_u=0.0), job("owner", 10.0, 4)
    policy = Scripted(
        Plan(starts=(Start(guest, True),)),
        Plan(send_backs=(guest,)),
        Plan(starts=(Start(owner, False),)),
        Plan(starts=(Start(guest, False),)),
    )
    stretches = engine(policy, [(guest, 50.0), (owner, 5.0)], reclaim_s=7.5).run().stretches
    asked = [one for one in policy.log if one[0] == "decide"]
    assert asked[:4] == [("decide", 0.0, 4), ("decide", 10.0, 1), ("decide", 17.5, 4), ("decide", 22.5, 4)]
    assert [(one.job_id, one.start_s, one.end_s) for one in stretches] == [
        ("guest", 0.0, 10.0),
        ("owner", 17.5, 22.5),
        ("guest", 22.5, 72.5),
    ]


def test_gpus_that_are_not_free_yet_can_be_given_to_nobody():
    guest, owner = job("guest", 0.0, 3, requeue_u=0.0), job("owner", 10.0, 4)
    policy = Scripted(
        Plan(starts=(Start(guest, True),)), Plan(send_backs=(guest,), starts=(Start(owner, False),))
    )
    with pytest.raises(PlanError, match=r"owner is to start at 10\.0 s on 4 GPUs, 1 are idle"):
        engine(policy, [(guest, 50.0), (owner, 5.0)], reclaim_s=7.5).run()
