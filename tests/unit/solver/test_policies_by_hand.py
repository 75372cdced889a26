"""Each policy on instances small enough to be worked out by hand."""

import pytest
from hypothesis import given, settings
from support import instances, job, run

from data.history import from_frame, from_jobs
from domain.jobs import Job, JobOutcome, submit_order
from domain.plans import NOTHING
from domain.schedules import Stretch
from simulator.replay import replay
from simulator.truth import TrueLives
from simulator.workload import make_workload
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings
from solver.reference import fcfs_starts


def lived(policy, jobs_and_durations, quotas, **chosen):
    """Replay (job, duration) pairs under a policy that is given true lives."""
    jobs = [one for one, _ in jobs_and_durations]
    durations = {one.job_id: float(duration_s) for one, duration_s in jobs_and_durations}
    return run(policy, jobs, durations, quotas, **chosen)


def starts(*args, **kwargs):
    """First start of each job's attempt that counted."""
    return lived(*args, **kwargs).first_starts()


def replayed(policy, rows, quotas, **chosen):
    """Starts by job, of a replay with learned lives (or limits) of rows (job, duration); what was
    submitted before 100 s is the past."""
    outcomes = {one.job_id: JobOutcome(one.job_id, float(duration_s)) for one, duration_s in rows}
    history = from_frame(from_jobs([one for one, _ in rows], outcomes), source="test", quotas=quotas)
    workload = make_workload(history, quotas, train_until_s=100.0, eval_from_s=100.0)
    return replay(workload, policy, chosen).schedule.first_starts()


def policy_with(policy, quotas, **chosen):
    """A policy to be told facts one by one."""
    spec = POLICIES[policy]
    lives = TrueLives({name: JobOutcome(name, 9.0) for name in ("a1", "a2", "a3", "b1")})
    return spec.build(PolicyContext(quotas, lives), parse_settings(policy, spec.settings, chosen))


def planned(policy, now_s, idle_gpus):
    return [start.job.job_id for start in policy.decide(now_s, idle_gpus).starts]


# First come, first served.


def test_fcfs_serves_each_pool_in_order_and_lets_nobody_pass():
    jobs = [
        (job("x", 0.0, 2), 10),
        (job("wide", 1.0, 3), 5),
        (job("narrow", 2.0, 1), 5),
        (job("other", 2.0, 1, "b"), 5),
    ]
    assert starts("fcfs", jobs, {"a": 3, "b": 4}) == {"x": 0.0, "wide": 10.0, "narrow": 15.0, "other": 2.0}


def test_fcfs_breaks_ties_by_the_id():
    jobs = [(job(name, 0.0), 3) for name in ("c", "a", "b")]
    assert starts("fcfs", jobs, {"a": 1}) == {"a": 0.0, "b": 3.0, "c": 6.0}


def test_fcfs_plans_in_the_order_of_submit_over_all_pools():
    policy = policy_with("fcfs", {"a": 1, "b": 1})
    for one in (job("b1", 0.0, pool="b"), job("a1", 0.0)):
        policy.submitted(one, 0.0)
    assert planned(policy, 0.0, 2) == ["a1", "b1"]


# EASY backfilling.

RUNNER_AND_HEAD = [(job("runner", 0.0, 3), 10), (job("head", 1.0, 4), 5)]
"""On four GPUs the head is reserved all of them from 10 s on; one is idle until then."""


@pytest.mark.parametrize(("duration_s", "start_s"), [(8, 2.0), (9, 15.0)])
def test_backfill_lets_pass_who_ends_by_the_reservation(duration_s, start_s):
    jobs = [*RUNNER_AND_HEAD, (job("small", 2.0), duration_s)]
    assert starts("backfill", jobs, {"a": 4}) == {"runner": 0.0, "head": 10.0, "small": start_s}


def test_backfill_lets_long_ones_pass_only_on_gpus_the_reservation_leaves_over():
    jobs = [*RUNNER_AND_HEAD, (job("long", 2.0), 100), (job("second", 2.0), 100), (job("short", 4.0), 6)]
    assert starts("backfill", jobs, {"a": 5}) == {
        "runner": 0.0,
        "head": 10.0,
        "long": 2.0,
        "second": 15.0,
        "short": 4.0,
    }


def test_backfill_passes_over_what_does_not_fit_and_tries_the_next():
    jobs = [*RUNNER_AND_HEAD, (job("x", 2.0, 2), 1), (job("y", 2.0, 1), 1)]
    assert starts("backfill", jobs, {"a": 4})["y"] == 2.0


def test_backfill_counts_what_it_starts_in_the_same_breath():
    """`first` is not running yet when the head is reserved what it gives back at 8 s."""
    jobs = [(job("first", 0.0, 3), 8), (job("head", 0.0, 4), 5), (job("p", 0.0), 9), (job("q", 0.0), 8)]
    assert starts("backfill", jobs, {"a": 4}) == {"first": 0.0, "head": 8.0, "p": 13.0, "q": 0.0}


def test_backfill_stays_inside_the_pool():
    jobs = [(job("x", 0.0, 2), 10), (job("y", 0.0, 1), 1), (job("z", 0.0, 1, "b"), 20)]
    assert starts("backfill", jobs, {"a": 2, "b": 4}) == {"x": 0.0, "y": 10.0, "z": 0.0}


def test_backfill_takes_a_job_that_outlives_its_estimate_to_need_as_long_again():
    """The runner was to end at 5 s. Seen from 6 s it is to end at 10 s, seen from 10 s at 20 s."""

    def limited(job_id, submit_s, width, limit_s):
        return Job(job_id, "a", 100.0 + submit_s, width, limit_s=limit_s)

    rows = [
        (limited("runner", 0.0, 3, 5.0), 30),
        (limited("head", 6.0, 4, 5.0), 5),
        (limited("long", 6.0, 1, 5.0), 5),
        (limited("small", 6.0, 1, 4.0), 4),
    ]
    assert replayed("backfill", rows, {"a": 4}, lives="limit") == {
        "runner": 100.0,
        "small": 106.0,
        "long": 110.0,
        "head": 130.0,
    }


@settings(max_examples=200, deadline=None, derandomize=True)
@given(instances(min_duration_s=1))
def test_backfill_never_delays_the_first_who_waits_if_estimates_are_exact(instance):
    """The first of each pool to wait starts when it would without backfilling; so nobody waits for ever."""
    jobs, durations, quotas = instance
    reference = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    outcome = run("backfill", jobs, durations, quotas).first_starts()
    for pool in quotas:
        for one in sorted((one for one in jobs if one.pool == pool), key=submit_order):
            assert outcome[one.job_id] == reference[one.job_id]
            if reference[one.job_id] > one.submit_s:
                break


# Shortest service first.


def test_ssf_orders_by_gpus_times_life_and_passes_over_what_does_not_fit():
    jobs = [
        (job("runner", 0.0, 2), 10),
        (job("wide", 1.0, 2), 3),
        (job("thin", 2.0, 1), 5),
        (job("thinner", 3.0, 1), 7),
    ]
    assert starts("ssf", jobs, {"a": 2}) == {"runner": 0.0, "thin": 10.0, "thinner": 10.0, "wide": 17.0}


def test_ssf_breaks_ties_by_submit_and_then_by_the_id():
    jobs = [
        (job("runner", 0.0, 2), 10),
        (job("c", 1.0, 2), 3),
        (job("b", 2.0, 2), 3),
        (job("a", 2.0, 2), 3),
    ]
    assert starts("ssf", jobs, {"a": 2}) == {"runner": 0.0, "c": 10.0, "a": 13.0, "b": 16.0}


POOLED = [
    (job("a1", 0.0), 9),
    (job("a2", 0.0), 4),
    (job("b1", 0.0, 2, "b"), 3),
    (job("b2", 0.0, 2, "b"), 1),
]


def test_ssf_stays_inside_the_pool_and_gssf_does_not():
    assert starts("ssf", POOLED, {"a": 1, "b": 2}) == {"a2": 0.0, "a1": 4.0, "b2": 0.0, "b1": 1.0}
    assert starts("gssf", POOLED, {"a": 1, "b": 2}) == {"b2": 0.0, "a2": 0.0, "b1": 1.0, "a1": 4.0}


def test_gssf_lets_quotas_protect_nobody():
    """Three short jobs of one pool take the GPUs of both; the owner waits."""
    jobs = [*((job(f"a{k}", 0.0), 5) for k in range(3)), (job("b", 0.0, 2, "b"), 8)]
    assert starts("gssf", jobs, {"a": 1, "b": 2}) == {"a0": 0.0, "a1": 0.0, "a2": 0.0, "b": 5.0}


def named_past(**lives):
    """Jobs of the past, five or more of each name."""
    return [
        (Job(f"{name}-{k}", "a", 0.0, 1, name=name), duration_s)
        for name, durations_s in lives.items()
        for k, duration_s in enumerate(durations_s)
    ]


@pytest.mark.parametrize(
    ("level", "first", "second"), [("0.5", "moody", "steady"), ("0.95", "steady", "moody")]
)
def test_ssf_takes_lives_at_the_level_that_is_set(level, first, second):
    """Half of the moody ones are shorter than the steady ones, one in six is much longer."""
    rows = named_past(moody=[10, 10, 10, 10, 100], steady=[50] * 5)
    rows += [
        (Job("runner", "a", 100.0, 1, name="x"), 20),
        (Job("moody", "a", 101.0, 1, name="moody"), 7),
        (Job("steady", "a", 101.0, 1, name="steady"), 7),
    ]
    outcome = replayed("ssf", rows, {"a": 1}, level=level)
    assert outcome == {"runner": 100.0, first: 120.0, second: 127.0}


@pytest.mark.parametrize(("level", "start_s"), [("0.5", 102.0), ("0.95", 155.0)])
def test_backfill_takes_lives_at_the_level_that_is_set(level, start_s):
    rows = named_past(moody=[10, 10, 10, 10, 100], steady=[50] * 5)
    rows += [
        (Job("runner", "a", 100.0, 3, name="steady"), 50),
        (Job("head", "a", 101.0, 4, name="steady"), 5),
        (Job("small", "a", 102.0, 1, name="moody"), 10),
    ]
    assert replayed("backfill", rows, {"a": 4}, level=level) == {
        "runner": 100.0,
        "head": 150.0,
        "small": start_s,
    }


# Max-min fair sharing.


def test_maxmin_serves_the_pool_with_the_lowest_use_of_its_quota_ties_to_the_pool_listed_first():
    jobs = [*((job(f"a{k}"), 5) for k in range(6)), *((job(f"b{k}", pool="b"), 5) for k in range(6))]

    def order(quotas):
        stretches = lived("maxmin", jobs, quotas).stretches
        return [stretch.job_id for stretch in stretches if stretch.start_s == 0.0]

    assert order({"a": 4, "b": 2}) == ["a0", "b0", "a1", "a2", "b1", "a3"]
    assert order({"b": 2, "a": 4}) == ["b0", "a0", "a1", "b1", "a2", "a3"]


def test_maxmin_counts_what_runs_and_forgets_what_has_ended():
    """At 5 s the two GPUs that come free go to whoever uses less: a has 2 of 4, b has 2 of 2."""
    jobs = [
        *((job(f"a{k}"), duration_s) for k, duration_s in enumerate((5, 5, 9, 9))),
        *((job(f"b{k}", 0.0, 1, "b"), 9) for k in range(2)),
        (job("b2", 1.0, 1, "b"), 9),
        *((job(f"a{k}", 2.0), 9) for k in (4, 5, 6)),
    ]
    outcome = starts("maxmin", jobs, {"a": 4, "b": 2})
    assert {name: outcome[name] for name in ("a4", "a5", "a6", "b2")} == {
        "a4": 5.0,
        "a5": 5.0,
        "a6": 9.0,
        "b2": 9.0,
    }


def test_maxmin_serves_a_wide_head_before_a_narrow_one_of_a_pool_that_uses_more():
    jobs = [
        (job("a-runs", 0.0, 1), 30),
        (job("b-runs", 0.0, 3, "b"), 10),
        (job("a-thin", 1.0, 1), 5),
        (job("b-wide", 1.0, 3, "b"), 5),
    ]
    assert starts("maxmin", jobs, {"a": 1, "b": 3}) == {
        "a-runs": 0.0,
        "b-runs": 0.0,
        "b-wide": 10.0,
        "a-thin": 15.0,
    }


def test_maxmin_passes_over_a_head_that_does_not_fit_together_with_its_pool():
    """The wide job of a starves, and the narrow one behind it with it, while b goes beyond its quota."""
    jobs = [
        (job("a-runs", 0.0, 1), 10),
        (job("b-runs", 0.0, 2, "b"), 10),
        (job("a-wide", 1.0, 4), 5),
        (job("a-thin", 2.0, 1), 5),
        *((job(f"b{k}", 1.0, 1, "b"), 20) for k in range(3)),
    ]
    assert starts("maxmin", jobs, {"a": 4, "b": 2}) == {
        "a-runs": 0.0,
        "b-runs": 0.0,
        "b0": 1.0,
        "b1": 1.0,
        "b2": 1.0,
        "a-wide": 21.0,
        "a-thin": 21.0,
    }


# Own lane, lending and reclaim.


def test_reclaim_lends_and_sends_back_when_the_owner_comes():
    jobs = [(job("a1", 0.0, 2), 10), (job("a2", 0.0, 2), 20), (job("b1", 5.0, 2, "b"), 8)]
    assert lived("reclaim", jobs, {"a": 2, "b": 2}).stretches == (
        Stretch("a2", 0.0, 5.0, is_guest=True, is_lost=True),
        Stretch("a1", 0.0, 10.0, own_from_s=0.0),
        Stretch("b1", 5.0, 13.0, own_from_s=5.0),
        Stretch("a2", 10.0, 30.0, own_from_s=10.0),
    )


def test_reclaim_converts_a_guest_that_the_lane_reaches_without_moving_it():
    """From 4 s on it is its pool's own, and the owner that comes at 5 s gets the other GPUs."""
    jobs = [(job("a1", 0.0, 2), 4), (job("a2", 0.0, 2), 20), (job("b1", 5.0, 2, "b"), 8)]
    assert lived("reclaim", jobs, {"a": 2, "b": 2}).stretches == (
        Stretch("a1", 0.0, 4.0, own_from_s=0.0),
        Stretch("b1", 5.0, 13.0, own_from_s=5.0),
        Stretch("a2", 0.0, 20.0, is_guest=True, own_from_s=4.0),
    )


def sent_back(jobs, quotas, **chosen):
    stretches = lived("reclaim", jobs, quotas, **chosen).stretches
    return [(stretch.job_id, stretch.end_s) for stretch in stretches if stretch.is_lost]


@pytest.mark.parametrize(
    ("older", "younger", "victims"),
    [
        (1, 2, {"youngest": "younger", "oldest": "older", "least-work": "older"}),
        (2, 1, {"youngest": "younger", "oldest": "older", "least-work": "younger"}),
        (1, 1, {"youngest": "younger", "oldest": "older", "least-work": "younger"}),
    ],
)
@pytest.mark.parametrize("victim", ["youngest", "oldest", "least-work"])
def test_reclaim_sends_back_in_the_order_that_is_set(older, younger, victims, victim):
    """Guests since 0 s and since 1 s; at 5 s an owner wants one GPU more than is idle.

    The work thrown away is width x time.
    """
    jobs = [
        (job("a-runs", 0.0, 2), 50),
        (job("older", 0.0, older), 40),
        (job("younger", 1.0, younger), 40),
        (job("owner", 5.0, 4 - older - younger, "b"), 40),
    ]
    assert sent_back(jobs, {"a": 2, "b": 3}, victim=victim) == [(victims[victim], 5.0)]


def test_reclaim_spares_who_turns_out_not_to_be_needed():
    """The youngest is too narrow; with the next one it is not needed any more."""
    jobs = [
        (job("a-runs", 0.0, 3), 50),
        (job("wide", 0.0, 3), 40),
        (job("young", 1.0, 1), 40),
        (job("owner", 5.0, 3, "b"), 40),
    ]
    assert sent_back(jobs, {"a": 3, "b": 4}) == [("wide", 5.0)]


def test_reclaim_spares_only_as_many_as_can_be_spared():
    """The owner wants four: the two youngest give two, the wide one three, so one of the two is spared."""
    jobs = [
        (job("a-runs", 0.0, 3), 50),
        (job("wide", 0.0, 3), 40),
        (job("young", 1.0, 1), 40),
        (job("younger", 2.0, 1), 40),
        (job("owner", 5.0, 4, "b"), 40),
    ]
    assert sent_back(jobs, {"a": 3, "b": 5}) == [("young", 5.0), ("wide", 5.0)]


def test_reclaim_sends_back_as_many_as_it_takes_and_no_more():
    jobs = [
        (job("a-runs", 0.0, 1), 50),
        *((job(f"guest{k}", float(k), 1), 40) for k in range(1, 5)),
        (job("owner", 9.0, 2, "b"), 1),
    ]
    assert sent_back(jobs, {"a": 1, "b": 4}) == [("guest4", 9.0), ("guest3", 9.0)]


def test_reclaim_uses_idle_gpus_before_it_sends_anybody_back():
    jobs = [(job("a-runs", 0.0, 1), 50), (job("guest", 0.0, 1), 40), (job("owner", 5.0, 2, "b"), 1)]
    assert sent_back(jobs, {"a": 1, "b": 3}) == []


def test_reclaim_may_lend_to_a_guest_it_has_sent_back_again():
    jobs = [(job("a-runs", 0.0, 1), 50), (job("guest", 0.0, 1), 40), (job("owner", 5.0, 2, "b"), 3)]
    schedule = lived("reclaim", jobs, {"a": 1, "b": 2})
    assert schedule.stretches[0] == Stretch("guest", 0.0, 5.0, is_guest=True, is_lost=True)
    assert schedule.first_starts()["guest"] == 8.0
    assert schedule.stretches[2] == Stretch("guest", 8.0, 48.0, is_guest=True)


@pytest.mark.parametrize(
    ("order", "first", "second"), [("fifo", "long", "quick"), ("shortest", "quick", "long")]
)
def test_reclaim_lends_in_the_order_that_is_set(order, first, second):
    jobs = [
        (job("a-runs", 0.0), 50),
        (job("b-runs", 0.0, 1, "b"), 5),
        (job("long", 1.0), 30),
        (job("quick", 2.0), 3),
    ]
    outcome = starts("reclaim", jobs, {"a": 1, "b": 1}, order=order)
    assert outcome[first] == 5.0
    assert outcome[second] > 5.0


def test_reclaim_breaks_ties_between_lives_by_submit_and_then_by_the_id():
    jobs = [
        (job("a-runs", 0.0), 90),
        (job("b-runs", 0.0, 1, "b"), 5),
        *((job(name, submit_s), 10) for name, submit_s in (("z", 1.0), ("y", 2.0), ("x", 2.0))),
    ]
    outcome = starts("reclaim", jobs, {"a": 1, "b": 1}, order="shortest")
    assert [outcome[name] for name in "zxy"] == [5.0, 15.0, 25.0]


def test_reclaim_lends_to_the_first_that_fits_so_narrow_ones_pass():
    jobs = [
        (job("a-runs", 0.0, 2), 50),
        (job("b-runs", 0.0, 1, "b"), 40),
        (job("wide", 1.0, 2), 3),
        (job("thin", 2.0), 3),
    ]
    assert starts("reclaim", jobs, {"a": 2, "b": 2}) == {
        "a-runs": 0.0,
        "b-runs": 0.0,
        "thin": 2.0,
        "wide": 40.0,
    }


@pytest.mark.parametrize(
    ("requeue_u", "share", "start_s"),
    [(0.49, "0.5", 1.0), (0.5, "0.5", 50.0), (None, "0.5", 50.0), (0.0, "0", 50.0), (None, "1", 1.0)],
)
def test_reclaim_lends_only_to_those_who_may_be_sent_back(requeue_u, share, start_s):
    jobs = [(job("a-runs", 0.0), 50), (job("guest", 1.0, requeue_u=requeue_u), 5)]
    assert starts("reclaim", jobs, {"a": 1, "b": 1}, requeueable=share)["guest"] == start_s


def test_reclaim_sends_back_nobody_who_may_not_be_and_lends_nothing_while_an_owner_waits():
    """Somebody else has started `a2` on lent GPUs, which may not be sent back. `a3` would fit."""
    own, opaque = job("a1"), job("a2", 1.0, requeue_u=0.9)
    willing, owner = job("a3", 2.0, requeue_u=0.1), job("b1", 3.0, 2, "b")
    policy = policy_with("reclaim", {"a": 1, "b": 2}, requeueable="0.5")
    policy.submitted(own, 0.0)
    policy.decide(0.0, 3)
    policy.started(own, 0.0)
    policy.submitted(opaque, 1.0)
    policy.started(opaque, 1.0)
    policy.submitted(willing, 2.0)
    policy.submitted(owner, 3.0)
    assert policy.decide(3.0, 1) == NOTHING
    policy.ended(opaque, 9.0)
    assert planned(policy, 9.0, 2) == ["b1"]


def test_maxmin_forgets_a_job_that_was_cancelled_after_its_start_was_planned():
    policy = policy_with("maxmin", {"a": 1, "b": 1})
    policy.submitted(job("a1"), 0.0)
    assert planned(policy, 0.0, 2) == ["a1"]
    policy.ended(job("a1"), 0.0)
    policy.submitted(job("b1", 1.0, pool="b"), 1.0)
    policy.submitted(job("a2", 1.0), 1.0)
    assert planned(policy, 1.0, 2) == ["a2", "b1"]


def test_maxmin_looks_at_the_next_job_when_the_first_is_cancelled():
    policy = policy_with("maxmin", {"a": 2, "b": 1})
    policy.submitted(job("a1"), 0.0)
    policy.submitted(job("a2", num_gpus=2), 0.0)
    policy.ended(job("a1"), 0.0)
    assert planned(policy, 0.0, 1) == []
    assert planned(policy, 0.0, 2) == ["a2"]
    policy.ended(job("a2", num_gpus=2), 0.0)
    assert planned(policy, 0.0, 2) == []


def test_maxmin_plans_anew_when_fewer_gpus_are_idle_than_the_last_time():
    policy = policy_with("maxmin", {"a": 1, "b": 1})
    policy.submitted(job("a1"), 0.0)
    policy.submitted(job("b1", pool="b"), 0.0)
    assert planned(policy, 0.0, 2) == ["a1", "b1"]
    assert planned(policy, 0.0, 1) == ["a1"]
    assert planned(policy, 0.0, 2) == ["a1", "b1"]
