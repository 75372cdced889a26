"""A waiting job rides with a guest that started early, seen through a whole replay."""

import pytest

from data.history import from_frame, from_jobs
from data.pairs import PairTable
from domain.cluster import Node
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome
from domain.schedules import Stretch
from simulator.replay import replay
from simulator.workload import Workload, make_workload

HOUR_S = 3600.0
NODES = (Node("n0", 4), Node("n1", 4))
QUOTAS = {"a": 4, "b": 4}
PAIRS = PairTable.of({("m", "m"): (0.8, 0.8)})
KNOWN = {"lives": "true", "arrivals": "true", "waits": "0", "eps": "0.5"}
JOBS = {
    # pool a's lane is full for ten hours; its next job is lent pool b's GPUs, and then two single jobs wait
    "own": ("a", 0.0, 4, 10.0),
    "guest": ("a", 1.0, 4, 6.0),
    "rider": ("a", 2.0, 1, 1.0),
    "later": ("a", 3.0, 1, 1.0),
}


def workload(nodes: tuple[Node, ...] = NODES) -> Workload:
    jobs = [Job(name, pool, at_s, width, model="m") for name, (pool, at_s, width, _) in JOBS.items()]
    outcomes = {name: JobOutcome(name, hours * HOUR_S) for name, (*_, hours) in JOBS.items()}
    made = from_frame(from_jobs(jobs, outcomes), source="test", quotas=QUOTAS)
    return make_workload(made, QUOTAS, train_until_s=0.0, eval_from_s=0.0, nodes=nodes)


def ran(**more: str) -> dict[str, list[Stretch]]:
    asked = {**KNOWN, "packing": "on", **more}
    done = replay(workload(), "anticipatory", asked, may_see_truth=True, pairs=PAIRS)
    found: dict[str, list[Stretch]] = {}
    for one in sorted(done.schedule.stretches, key=lambda one: one.start_s):
        found.setdefault(one.job_id, []).append(one)
    return found


def test_two_ride_with_a_guest_and_it_still_ends_before_its_reference():
    found = ran()
    assert found["guest"][0].is_guest
    for name, at_s in (("rider", 2.0), ("later", 3.0)):
        (one,) = found[name]
        assert (one.start_s, one.rate) == (at_s, 0.8)
        assert one.end_s == pytest.approx(at_s + HOUR_S / 0.8)
        assert set(one.gpus) < set(found["guest"][0].gpus)
    assert [one.rate for one in found["own"]] == [1.0]
    # two of four workers lose 0.2 for 1.25 h, and go on alone
    assert found["guest"][-1].end_s == pytest.approx(1.0 + (6.0 + 0.125) * HOUR_S, abs=1.0)
    assert found["guest"][-1].end_s < 16 * HOUR_S


def test_where_workers_wait_for_each_other_one_rider_slows_all_four_and_does_not_pay():
    found = ran(liss="off")
    assert {one.rate for life in found.values() for one in life} == {1.0}
    assert found["rider"][0].start_s >= 6 * HOUR_S


def test_without_it_they_wait():
    found = ran(packing="off")
    assert found["rider"][0].start_s >= 6 * HOUR_S


def test_it_needs_nodes_and_pairs():
    with pytest.raises(SettingError, match="pairs"):
        replay(workload(), "anticipatory", {"packing": "on"})
    with pytest.raises(SettingError, match="nodes"):
        replay(workload(()), "planned", {"packing": "on"}, pairs=PAIRS)
    with pytest.raises(SettingError, match="waits is -1"):
        replay(workload(), "planned", {"packing": "on", "waits": "-1"}, pairs=PAIRS)


@pytest.mark.parametrize("policy", ["anticipatory", "planned"])
def test_asked_again_it_answers_the_same(policy: str):
    asked = {**KNOWN, "packing": "on"}
    done, again = (
        replay(workload(), policy, asked, may_see_truth=True, pairs=PAIRS).schedule for _ in range(2)
    )
    assert done == again
    assert any(one.rate < 1.0 for one in done.stretches)
