"""Own jobs that wait for GPUs which are free only a while after their guests were sent back; by hand."""

from dataclasses import replace

import pytest
from support import job, run

from domain.errors import SettingError
from domain.schedules import Stretch
from solver.check import CheckOptions, Rule, check
from solver.policies import POLICIES
from solver.policies.base import parse_settings
from solver.reclaim_time import ReclaimQueue

QUOTAS = {"a": 2, "b": 2}
FREELY = {"requeueable": "1", "eps": "0", "finish": "1"}
LENDERS = {"anticipatory": FREELY, "planned": FREELY, "reclaim": {}}


def lived(policy, jobs, durations_s, reclaim_s):
    chosen = LENDERS[policy] | {"reclaim_s": str(reclaim_s)}
    return run(policy, jobs, durations_s, QUOTAS, checks_plans=True, **chosen).stretches


def of(stretches, job_id):
    return [(one.start_s, one.end_s, one.was_sent_back) for one in stretches if one.job_id == job_id]


@pytest.mark.parametrize("policy", LENDERS)
def test_an_owner_starts_when_the_guests_gpus_are_free_and_nobody_has_them_before(policy):
    jobs = [job("a-own", 0.0, 2), job("guest", 0.0, 2), job("owner", 10.0, 2, "b"), job("third", 11.0, 1)]
    durations_s = {"a-own": 500.0, "guest": 100.0, "owner": 50.0, "third": 5.0}
    assert of(lived(policy, jobs, durations_s, 0.0), "owner") == [(10.0, 60.0, False)]
    stretches = lived(policy, jobs, durations_s, 25.0)
    assert of(stretches, "guest")[0] == (0.0, 10.0, True)
    assert of(stretches, "owner") == [(35.0, 85.0, False)]
    assert of(stretches, "third")[0][0] >= 85.0, "while its owner waits nothing is lent"


CHAIN = [
    job("a-own", 0.0, 2),
    job("first", 1.0, 1, "b"),
    job("wide", 2.0, 2, "b"),
    job("second", 150.0, 1, "b"),
    job("wide-2", 151.0, 2, "b"),
    *(job(f"guest-{k}", 5.0 + k, 1) for k in range(4)),
]
LENGTHS_S = {"a-own": 5000.0, "first": 100.0, "wide": 100.0, "second": 100.0, "wide-2": 100.0}
LENGTHS_S |= {f"guest-{k}": 1000.0 for k in range(4)}


@pytest.mark.parametrize("policy", LENDERS)
def test_a_pool_that_cannot_afford_to_wait_once_more_has_its_quota_kept_for_it(policy):
    """Beside a narrow job of pool b a GPU is lent, so the wide one after it waits: once, if that is 40 s."""
    stretches = lived(policy, CHAIN, LENGTHS_S, 40.0)
    assert of(stretches, "wide") == [(141.0, 241.0, False)], "it waits once"
    assert of(stretches, "second") == [(241.0, 341.0, False)]
    during = [one for one in stretches if one.job_id.startswith("guest") and 241.0 <= one.start_s < 341.0]
    assert during == [], "beside the second one nothing is lent: its GPU is kept"
    assert of(stretches, "wide-2") == [(341.0, 441.0, False)], "it waits for nobody"
    stretches = lived(policy, CHAIN, LENGTHS_S, 20.0)
    assert of(stretches, "second") == [(221.0, 321.0, False)]
    assert of(stretches, "wide-2") == [(341.0, 441.0, False)], "two waits of 20 s can be afforded"


def test_whoever_needed_gpus_first_gets_them_first():
    queue = ReclaimQueue({"a": 4, "b": 4}, 30.0, lambda _job, _now_s: 0.0)
    wide, narrow = job("wide", 5.0, 3), job("narrow", 0.0, 1, "b")
    turn = queue.serve(10.0, 1, [wide])
    assert (turn.starts, turn.waits, turn.missing_gpus) == ([], [wide], 2)
    queue.sent_back(job("guest", 0.0, 2), 10.0)
    turn = queue.serve(20.0, 1, [narrow, wide])
    assert (turn.starts, turn.waits) == ([], [wide, narrow])
    assert turn.missing_gpus == 1, "what is idle or on its way is the first one's"
    queue.sent_back(job("other", 0.0, 1), 20.0)
    turn = queue.serve(40.0, 3, [narrow, wide])
    assert (turn.starts, turn.waits, turn.missing_gpus) == ([wide], [narrow], 0)


def test_what_the_reference_says_clears_a_pool():
    late_s = {"early": 40.0, "next": 0.0}
    queue = ReclaimQueue({"a": 4}, 40.0, lambda one, _now_s: late_s.get(one.job_id, 40.0))
    early, after = job("early", 0.0, 2), job("next", 1.0, 2)
    queue.serve(0.0, 0, [early])
    queue.started(early, 40.0)
    assert queue.serve(40.0, 3, []).lendable_gpus == 1, (
        "two are kept: it is 40 s late, and 40 more are too many"
    )
    queue.ended(early, 50.0)
    queue.serve(50.0, 4, [after])
    queue.started(after, 50.0)
    assert queue.serve(50.0, 2, []).lendable_gpus == 2, "the reference has not started the next one yet"


def test_the_judge_refuses_gpus_that_are_not_free_yet():
    jobs = [job("guest", 0.0, 2), job("owner", 10.0, 2, "b"), job("a-own", 0.0, 2)]
    lengths_s = {"guest": 20.0, "owner": 50.0, "a-own": 500.0}
    schedule = [
        Stretch("a-own", 0.0, 500.0),
        Stretch("guest", 0.0, 10.0, is_guest=True, is_lost=True),
        Stretch("owner", 10.0, 60.0),
        Stretch("guest", 85.0, 105.0, is_guest=True),
    ]

    def rules(start_s, reclaim_s):
        told = [
            one._replace(start_s=start_s, end_s=start_s + 50.0) if one.job_id == "owner" else one
            for one in schedule
        ]
        options = CheckOptions(requeueable_share=1.0, reclaim_s=reclaim_s)
        return [one.rule for one in check(jobs, lengths_s, QUOTAS, told, options=options).faults]

    assert rules(10.0, 0.0) == rules(35.0, 25.0) == []
    assert rules(10.0, 25.0) == rules(34.0, 25.0) == [Rule.MORE_GPUS_THAN_CLUSTER]


def test_beyond_what_the_promise_tolerates_guests_are_lent_to_as_those_that_run_to_their_end():
    jobs = [job("a-own", 0.0, 2), job("guest", 0.0, 2)]
    durations_s = {"a-own": 500.0, "guest": 100.0}
    assert of(lived("anticipatory", jobs, durations_s, 60.0), "guest") == [(0.0, 100.0, False)]
    assert of(lived("anticipatory", jobs, durations_s, 61.0), "guest") == [(500.0, 600.0, False)]


@pytest.mark.parametrize(
    ("policy", "reclaim_s"), [("anticipatory", "-1"), ("planned", "inf"), ("reclaim", "61")]
)
def test_times_that_make_no_sense_are_refused(policy, reclaim_s):
    with pytest.raises(SettingError, match="reclaim_s"):
        parse_settings(policy, POLICIES[policy].settings, {"reclaim_s": reclaim_s})


@pytest.mark.parametrize("policy", LENDERS)
def test_without_such_a_time_nothing_differs(policy):
    saves = [replace(one, checkpoint_s=30.0) for one in CHAIN]
    plain = run(policy, saves, LENGTHS_S, QUOTAS, **LENDERS[policy])
    assert lived(policy, saves, LENGTHS_S, 0.0) == plain.stretches


def test_an_own_job_that_is_slower_than_alone_gets_late_and_strains_its_pool():
    """It ends 45 s late: whoever its lane starts then cannot afford to wait 20 s for a guest."""
    queue = ReclaimQueue({"a": 4}, 20.0, lambda _job, _now_s: 1000.0)
    slow = job("slow", 0.0, 2)
    queue.serve(0.0, 2, [slow])
    queue.started(slow, 0.0)
    queue.rate_changed(slow, 0.0, 0.5)
    assert queue.serve(80.0, 2, []).lendable_gpus == 2, "40 s are lost"
    queue.rate_changed(slow, 90.0, 1.0)
    assert queue.serve(500.0, 2, []).lendable_gpus == 0, "45 s are, and 20 more are too many"
    queue.ended(slow, 500.0)
    assert queue.serve(500.0, 4, [job("next", 500.0, 2)]).lendable_gpus == 0


def test_gpus_that_a_guest_shared_do_not_come_free():
    queue = ReclaimQueue({"a": 4}, 30.0, lambda _job, _now_s: 0.0)
    own = job("own", 0.0, 3)
    assert queue.serve(0.0, 0, [own]).missing_gpus == 3
    queue.sent_back(job("guest", 0.0, 3), 0.0, shared_gpus=1)
    assert queue.serve(1.0, 0, [own]).missing_gpus == 1
