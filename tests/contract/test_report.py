"""What the report says of small histories whose answer is known by hand."""

from typing import Any

import pytest
from databases import Database
from nodes import ORIGIN, StandingClock

from app.services import clusters, epochs, observe, report
from app.services.facts import Fact, FactKind
from app.store.engine import lock_cluster, transaction
from app.store.tables import DecisionRow, NodeRow, PoolRow

HOUR = 3_600.0


class Told:
    """A cluster of two pools with two GPUs each, told of hours."""

    def __init__(self, database: Database, enforced_by: str = "scheduler") -> None:
        self.engine = database.engine
        self.clock = StandingClock()
        self.clock.advance(1_000 * HOUR)
        clusters.create(
            self.engine, clusters.NewCluster("c", enforced_by, "fcfs", {}, clock_origin=ORIGIN), self.clock
        )
        self.put({"a": 2, "b": 2})

    def put(self, quotas: dict[str, int]) -> None:
        pools = [
            PoolRow(cluster="c", name=p, position=k, quota_gpus=q) for k, (p, q) in enumerate(quotas.items())
        ]
        nodes = [NodeRow(cluster="c", name=n, position=k, num_gpus=2) for k, n in enumerate(("n1", "n2"))]
        clusters.put_inventory(self.engine, "c", pools, nodes, None, self.clock)

    def tell(self, kind: str, job_id: str, hour: float, **data: Any) -> None:
        with transaction(self.engine) as session:
            row = lock_cluster(session, "c")
            fact = Fact(FactKind(kind), hour * HOUR, job_id, data)
            done = observe.record(session, row, [fact], source="test", clock=self.clock)
        assert done.accepted == 1, done

    def submit(self, job_id: str, pool: str, hour: float, num_gpus: int = 1, **spec: Any) -> None:
        self.tell("submitted", job_id, hour, pool=pool, num_gpus=num_gpus, spec={"argv": ["x"], **spec})

    def report(self) -> dict[str, Any]:
        return report.report(self.engine, "c")


@pytest.fixture
def told(database: Database) -> Told:
    return Told(database)


def values(said: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(said[name] for name in names)


def blocked(told: Told) -> None:
    """`own` fills pool b from hour 0 to 4; `guest` starts at 1 on lent GPUs, not at 4."""
    told.submit("own", "b", 0, num_gpus=2)
    told.tell("started", "own", 0)
    told.submit("guest", "b", 1)
    told.tell("started", "guest", 1, is_guest=True)


def test_nothing_has_happened_yet(told: Told):
    said = told.report()
    assert (
        values(said, "jobs", "started_early", "slowed", "unresolved", "holds", "held_gpus_most") == (0,) * 6
    )
    assert [pool["mean_wait_s"] for pool in said["pools"]] == [None, None]


def test_a_guest_starts_early_and_what_it_is_lent_is_counted_until_it_ends(told: Told):
    blocked(told)
    told.tell("ended", "guest", 3)
    told.tell("ended", "own", 4)
    said = told.report()
    assert values(said, "jobs", "ended", "guests", "lent_gpu_hours") == (2, 2, 1, 2.0)
    assert values(said, "started_early", "hours_earlier", "slowed", "unresolved") == (1, 3.0, 0, 0)
    assert [pool["started_early"] for pool in said["pools"]] == [0, 1]


def test_what_became_own_is_lent_no_longer(told: Told):
    blocked(told)
    told.tell("ended", "own", 4)
    told.tell("converted", "guest", 4)
    assert told.report()["lent_gpu_hours"] == 3.0
    told.submit("later", "a", 9)
    assert told.report()["lent_gpu_hours"] == 3.0
    told.tell("ended", "guest", 10)
    assert told.report()["lent_gpu_hours"] == 3.0


def test_a_running_guest_is_lent_its_gpus_until_the_last_fact(told: Told):
    blocked(told)
    told.submit("None", "a", 2.5)
    assert told.report()["lent_gpu_hours"] == 1.5


def test_a_guest_sent_back_repeats_its_work_and_waits_as_it_would_have(told: Told):
    blocked(told)
    told.tell("sent_back", "guest", 3)
    told.tell("ended", "own", 4)
    told.tell("started", "guest", 4)
    told.tell("ended", "guest", 5)
    said = told.report()
    assert values(said, "sent_back", "repeated_gpu_hours", "lent_gpu_hours") == (1, 2.0, 2.0)
    assert values(said, "started_early", "slowed", "unresolved") == (0, 0, 0)


def test_who_starts_late_is_slowed_by_as_much(told: Told):
    told.submit("late", "a", 0)
    told.tell("started", "late", 2)
    told.tell("ended", "late", 3)
    said = told.report()
    assert values(said, "slowed", "slowed_most_s", "consenting_slowed") == (1, 2 * HOUR, 0)
    assert [pool["slowed"] for pool in said["pools"]] == [1, 0]
    assert said["pools"][0]["mean_wait_s"] == 2 * HOUR


def test_a_minute_is_forgiven(told: Told):
    told.submit("x", "a", 0)
    told.tell("started", "x", 60 / HOUR)
    told.tell("ended", "x", 1)
    assert told.report()["slowed"] == 0


def test_an_end_without_sharing_may_not_be_known_yet(told: Told):
    """`guest` has ended, but would only start once `own` has, which runs still."""
    blocked(told)
    told.tell("ended", "guest", 2)
    assert values(told.report(), "unresolved", "slowed", "started_early") == (1, 0, 0)


def test_cancelled_jobs_are_neither_ended_nor_slowed(told: Told):
    blocked(told)
    told.submit("waits", "b", 1)
    told.tell("cancelled", "waits", 2)
    told.tell("cancelled", "guest", 3)
    told.tell("ended", "own", 4)
    said = told.report()
    assert values(said, "jobs", "ended", "waiting", "running") == (3, 1, 0, 0)
    assert values(said, "slowed", "unresolved", "lent_gpu_hours") == (0, 0, 2.0)


def test_riders_are_squeezed_and_take_nothing(told: Told):
    told.submit("host", "a", 0, is_shareable=True, memory_mib=1)
    told.submit("rider", "a", 0, is_shareable=True, memory_mib=1)
    told.tell("started", "host", 0, gpus=[["n1", 0]])
    told.tell("started", "rider", 0, is_guest=True, host_job_id="host", share_pct=40.0, gpus=[["n1", 0]])
    told.tell("ended", "host", 1)
    told.tell("ended", "rider", 2)
    assert values(told.report(), "squeezed", "lent_gpu_hours", "slowed") == (2, 0.0, 0)


def test_one_who_consented_and_is_late_is_counted_apart(told: Told):
    told.submit("late", "a", 0, is_shareable=True, memory_mib=1)
    told.tell("started", "late", 2)
    told.tell("ended", "late", 3)
    assert values(told.report(), "slowed", "consenting_slowed") == (1, 1)


def test_held_gpus_are_those_of_the_decisions(told: Told):
    holds = [{"pool": "a", "num_gpus": 2, "until_s": None}, {"pool": "b", "num_gpus": 1, "until_s": None}]
    with transaction(told.engine) as session:
        for seq, answer in enumerate(({"holds": holds}, {"holds": holds[:1]}, {"holds": []}), start=1):
            row = DecisionRow(
                cluster="c", seq=seq, epoch=1, at_s=0.0, idle_gpus=0, answer=answer, took_ms=1.0,
                decided_at=told.clock.now(),
            )  # fmt: skip
            session.add(row)
    assert values(told.report(), "holds", "held_gpus_most") == (2, 3)


def lose_n1(told: Told) -> None:
    with transaction(told.engine) as session:
        epochs.nodes_changed(session, lock_cluster(session, "c"), lost=["n1"], back=[], clock=told.clock)


def test_a_restart_after_a_lost_node_is_a_new_job_to_the_reference(told: Told):
    told.submit("x", "a", 0)
    told.tell("started", "x", 0, gpus=[["n1", 0]])
    told.clock.at = ORIGIN
    told.clock.advance(2 * HOUR)
    lose_n1(told)
    told.clock.advance(100 * HOUR)
    told.tell("started", "x", 3, gpus=[["n2", 0]])
    told.tell("ended", "x", 5)
    said = told.report()
    assert values(said, "repeated_gpu_hours", "sent_back", "unresolved") == (2.0, 0, 0)
    assert values(said, "slowed", "slowed_most_s") == (1, HOUR)


def test_a_restart_wider_than_a_cut_quota_has_no_promise_any_more(told: Told):
    told.submit("wide", "a", 0, num_gpus=2)
    told.tell("started", "wide", 0, gpus=[["n1", 0], ["n1", 1]])
    told.put({"a": 1, "b": 2})
    lose_n1(told)
    said = told.report()
    assert values(said, "jobs", "waiting", "slowed") == (1, 1, 0)


def test_facts_older_than_the_cluster_are_measured_at_their_own_instants(told: Told):
    """The first epoch is as of now, hour 1,001; a scheduler tells what happened long before."""
    told.submit("x", "a", 0)
    told.tell("started", "x", 0)
    told.tell("ended", "x", 1)
    assert values(told.report(), "started_early", "slowed") == (0, 0)


def test_a_pool_that_is_gone_still_counts(told: Told):
    told.submit("x", "a", 0)
    told.tell("started", "x", 2)
    told.tell("ended", "x", 3)
    told.put({"b": 2})
    said = told.report()
    assert [pool["pool"] for pool in said["pools"]] == ["a", "b"]
    assert values(said, "jobs", "slowed") == (1, 1)
