"""What each kind of change does, by hand."""

from datetime import UTC, datetime

import pytest

from domain.changes import ChangeError, Span, Submitted, World, read_patch
from domain.changes.base import Calendar, QuietTime
from domain.cluster import Node
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome

DAY_S = 86_400.0
SPAN = Span(0.0, DAY_S, 4 * DAY_S, 3)
MONDAY = Calendar(datetime(2026, 11, 2, tzinfo=UTC))
BARE = World({"a": 10, "b": 5, "c": 0}, "planned", {"eps": "0.001", "fairness": "none"})
NODES = World({"a": 4, "b": 4}, "fcfs", {}, (Node("n1", 4, pool="a"), Node("n2", 4), Node("n3", 4)))


def one(job_id, submit_s, width=1, pool="a", life_s=10.0):
    return Submitted(Job(job_id, pool, submit_s, width), JobOutcome(job_id, life_s), job_id)


def world(entry, before=BARE):
    return read_patch([entry], MONDAY).on_world(before)


def jobs(entry, before, on=BARE, span=SPAN):
    patch = read_patch([entry], MONDAY)
    return patch.on_jobs(before, patch.on_world(on), span)


@pytest.mark.parametrize(
    ("entry", "quotas"),
    [
        ({"gpus": 7}, [7, 5, 0]),
        ({"by_gpus": -3}, [7, 5, 0]),
        ({"by_pct": 25}, [13, 5, 0]),
        ({"by_pct": -25}, [7, 5, 0]),
        ({"by_gpus": 2, "from": "b"}, [12, 3, 0]),
        ({"by_gpus": -2, "from": "b"}, [8, 7, 0]),
        ({"by_gpus": 2, "from": "others"}, [12, 3, 0]),
        ({"by_gpus": -2, "from": "others"}, [8, 7, 0]),
    ],
)
def test_a_quota(entry, quotas):
    assert list(world({"kind": "quota", "pool": "a", **entry}).quotas.values()) == quotas


def test_others_give_and_get_in_proportion():
    before = World({"a": 1, "b": 6, "c": 3, "d": 0}, "fcfs")
    for more, quotas in ((5, [6, 3, 1, 0]), (-1, [0, 7, 3, 0])):
        entry = {"kind": "quota", "pool": "a", "by_gpus": more, "from": "others"}
        assert list(world(entry, before).quotas.values()) == quotas


def test_quotas_never_promise_more_than_there_is():
    with pytest.raises(ChangeError, match="too-few-gpus: quotas add up to 13 GPUs, the cluster has 12"):
        world({"kind": "quota", "pool": "a", "gpus": 9}, NODES)
    with pytest.raises(ChangeError, match="too-few-gpus: quotas add up to 16 GPUs, the cluster has 15"):
        world({"kind": "quotas", "gpus": {"a": 11}})
    with pytest.raises(ChangeError, match="must be >= 0"):
        world({"kind": "quota", "pool": "a", "by_gpus": 6, "from": "b"})
    assert list(world({"kind": "quotas", "gpus": {"a": 9, "c": 1}}).quotas.values()) == [9, 5, 1]


def test_nodes_come_and_go():
    more = world({"kind": "add_nodes", "num_gpus": 8, "count": 2, "pool": "b"}, NODES)
    assert [node.name for node in more.nodes[3:]] == ["added-1", "added-2"]
    assert (more.quotas, more.capacity_gpus, more.is_placed) == ({"a": 4, "b": 20}, 28, True)
    idle = world({"kind": "add_nodes", "num_gpus": 8}, NODES)
    assert (idle.quotas, idle.capacity_gpus) == ({"a": 4, "b": 4}, 20)
    fewer = world({"kind": "remove_nodes", "nodes": ["n2"]}, NODES)
    assert (fewer.quotas, fewer.capacity_gpus) == ({"a": 4, "b": 4}, 8)  # nobody was promised the third one
    least = world({"kind": "remove_nodes", "nodes": ["n2", "n1"]}, NODES)
    assert (least.quotas, least.capacity_gpus) == ({"a": 0, "b": 4}, 4)
    for entry, rule in (
        ({"kind": "remove_nodes", "nodes": ["nix"]}, "unknown-node"),
        ({"kind": "remove_nodes", "nodes": ["n1", "n2", "n3"]}, "too-few-gpus"),
        ({"kind": "add_nodes", "num_gpus": 1, "name": "n", "count": 1}, "node-exists"),
    ):
        with pytest.raises(ChangeError, match=rule):
            world(
                entry,
                World({"a": 1}, "fcfs", {}, (*NODES.nodes, Node("n-1", 1))) if "name" in entry else NODES,
            )
    assert world({"kind": "add_nodes", "num_gpus": 2, "pool": "a"}).quotas["a"] == 12
    with pytest.raises(ChangeError, match="no-nodes-known"):
        world({"kind": "add_nodes", "num_gpus": 2})


def test_settings_stay_with_the_policy_and_go_with_it():
    assert world({"kind": "settings", "set": {"eps": 0.005}}).settings == {"eps": "0.005", "fairness": "none"}
    other = world({"kind": "policy", "policy": "reclaim", "set": {"requeueable": 1}})
    assert (other.policy, other.settings) == ("reclaim", {"requeueable": "1"})
    patch = read_patch([{"kind": "quota", "pool": "a", "gpus": 1}, {"kind": "settings", "set": {"x": True}}])

    def check(changed):
        if "x" in changed.settings:
            raise SettingError(f"x is {changed.settings['x']}")

    with pytest.raises(ChangeError, match=r"changes\[1\] \(settings\): refused: x is on"):
        patch.on_world(BARE, check)


def test_times_without_lending():
    (once,) = world({"kind": "no_lending", "from": "2026-11-02T10:00", "to": 40_000}).quiet
    assert once == QuietTime(36_000.0, 40_000.0)
    assert [once.holds(at) for at in (35_999.0, 36_000.0, 40_000.0)] == [False, True, False]
    entry = {"kind": "no_lending", "from": "22:00", "to": "06:00", "every": "day"}
    for calendar, begin_s in (
        (MONDAY, 79_200.0),
        (Calendar(datetime(2026, 11, 2, 23, tzinfo=UTC)), 82_800.0),
    ):
        (night,) = read_patch([entry], calendar).on_world(BARE).quiet
        assert night == QuietTime(begin_s, begin_s + 28_800.0, DAY_S)
    night = QuietTime(79_200.0, 108_000.0, DAY_S)
    assert [night.holds(at) for at in (0.0, 21_600.0, 79_200.0, 5 * DAY_S)] == [True, False, True, True]
    assert night.next_end_s(0.0) == 21_600.0
    for broken in ({"to": "2026-11-01"}, {"from": "+2h"}, {"to": "soon"}, {"every": "week"}):
        entry = {"kind": "no_lending", "from": 10, "to": 20, **broken}
        with pytest.raises(ChangeError, match="wrong-value"):
            world(entry)


def test_gangs_come_when_they_are_said_to():
    before = [one("x", 5.0, 3, life_s=77.0), one("gang-a-4-1", 9.0, 1, "b")]
    (_, _, gang) = jobs({"kind": "gang", "pool": "a", "gpus": 4, "at": "2026-11-03T01:00Z"}, before)
    assert (gang.job.submit_s, gang.job.num_gpus, gang.outcome.duration_s) == (90_000.0, 4, 77.0)
    assert gang.job.job_id == "gang-a-4-1+"
    entry = {"kind": "gang", "pool": "c", "gpus": 4, "at": "+1h", "duration": "2d", "count": 2}
    more = jobs(entry, [], World({"c": 4}, "fcfs"))
    assert [made.job.submit_s for made in more] == [DAY_S + 3600.0] * 2
    assert [made.outcome.duration_s for made in more] == [2 * DAY_S] * 2
    with pytest.raises(ChangeError, match="wider-than-quota: 11 GPUs in pool a, whose quota is 10"):
        jobs({"kind": "gang", "pool": "a", "gpus": 11, "at": 0}, before)
    with pytest.raises(ChangeError, match="outside-the-span"):
        jobs({"kind": "gang", "pool": "a", "gpus": 1, "at": "+9d"}, before)
    with pytest.raises(ChangeError, match="nobody said what instant second 0 is"):
        read_patch([{"kind": "gang", "pool": "a", "gpus": 1, "at": "2026-11-03"}])


def test_jobs_are_left_out_that_fulfil_all_that_is_said():
    before = [one("x", 1.0, 1), one("y", 2.0, 4), one("z", 3.0, 4, "b")]
    copy = Submitted(Job("y~2", "a", 9.0, 4), JobOutcome("y~2", 1.0), "y")
    assert jobs({"kind": "leave_out", "min_gpus": 2, "pool": "a"}, before) == [before[0], before[2]]
    assert jobs({"kind": "leave_out", "jobs": ["y"]}, [*before, copy]) == [before[0], before[2]]
    with pytest.raises(ChangeError, match="no-such-jobs"):
        jobs({"kind": "leave_out", "jobs": ["nix"]}, before)


def test_more_and_fewer_arrivals():
    before = [one(f"j{k}", k * 10_000.0, 1 + k % 2, "ab"[k % 5 == 0]) for k in range(30)]
    own = [job for job in before if job.job.pool == "a"]
    few = jobs({"kind": "arrivals", "pool": "a", "times": 0.3}, before)
    half = jobs({"kind": "arrivals", "pool": "a", "times": 0.6}, before)
    assert set(few) < set(half) < set(before)
    assert [job for job in few if job.job.pool == "b"] == [job for job in before if job.job.pool == "b"]
    twice = jobs({"kind": "arrivals", "pool": "a", "times": 2}, before)
    copies = [job for job in twice if job.job.job_id.endswith("+1")]
    assert [job for job in twice if job not in copies] == before
    assert sorted(job.outcome.duration_s * job.job.num_gpus for job in copies) == sorted(
        job.outcome.duration_s * job.job.num_gpus for job in own
    )
    by_source = {job.job.job_id: job.job.submit_s for job in own}
    shifts = {(job.job.submit_s - by_source[job.source_id]) % (4 * DAY_S) for job in copies}
    assert len(shifts) == 1
    assert shifts.pop() in {DAY_S, 2 * DAY_S, 3 * DAY_S}
    assert jobs({"kind": "arrivals", "pool": "a", "times": 0}, before) == [
        job for job in before if job.job.pool == "b"
    ]


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([{}], "changes[0]: unknown-kind: kinds of change are: quota"),
        ([{"kind": "nix"}], "'nix' is none"),
        ([{"kind": "quota", "pool": "a", "gpus": 1, "by_pct": 2}], "found gpus and by_pct"),
        ([{"kind": "quota", "pool": "a", "gpus": True}], "gpus is True, must be a whole number"),
        ([{"kind": "quota", "pool": "a", "by_gpus": 1, "from": "a"}], "the pool itself"),
        ([{"kind": "arrivals", "pool": "a", "times": float("nan")}], "must be a number from 0 to 10"),
        ([{"kind": "settings", "set": {"eps": [1]}}], "set.eps is [1], must be a text"),
        ([{"kind": "leave_out", "jobs": [""]}], "jobs"),
        ([{"kind": "quota", "pool": "a", "gpus": 1}] * 65, "at most 64 changes"),
    ],
)
def test_entries_that_cannot_be_read(entries, words):
    with pytest.raises(ChangeError) as caught:
        read_patch(entries)
    assert words in str(caught.value)
