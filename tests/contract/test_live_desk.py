"""What a desk makes of a log: epochs, decisions in flight, answers nobody heard, schedulers with a will."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from walks import CLUSTER, QUOTAS, Executed, LiveCluster, Scheduled
from worlds import checked_worlds

from app.children.state import LiveDesk
from app.schemas.live import LendingOut
from app.services import clusters
from app.services.facts import Fact, FactKind
from app.services.planning import publish
from app.store import plans
from app.store.engine import reading
from domain.cluster import Gpu
from domain.plans import Hold, Plan, Start
from solver.placement import decision

Kind = type[Executed] | type[Scheduled]
Made = Callable[..., Any]
ALL = {"requeueable": "1"}


@pytest.fixture
def made(sqlite_template: Path, tmp_path: Path) -> Iterator[Made]:
    """Makes clusters; SQLite only, for nothing here is the database's business."""
    with checked_worlds(sqlite_template, tmp_path) as make:
        yield make


def submit(world: LiveCluster, *pools: str, num_gpus: int = 1, shares: bool = False) -> list[str]:
    facts = [world.submission(pool, num_gpus, may_be_sent_back=not shares, shares=shares) for pool in pools]
    world.tell(*facts)
    return [fact.job_id for fact in facts]


def split(world: LiveCluster) -> tuple[set[str], set[str]]:
    """Own jobs and guests that run, as the table has them."""
    running = world.jobs("running")
    return (
        {job.job_id for job in running if job.own_from_s is not None},
        {job.job_id for job in running if job.own_from_s is None},
    )


def lanes_of(world: LiveCluster) -> tuple[set[str], set[str]]:
    """Own jobs and guests that run, as a policy built from the newest epoch has them after a decision."""
    desk = LiveDesk(world.engine, CLUSTER, world.row().epoch)
    desk.catch_up(10**9)
    desk.decide(world.now_s, 0, is_lending=True)
    policy: Any = desk.trained.policy
    lanes = policy._lender.lanes if hasattr(policy, "_lender") else policy._lanes
    inside = {job_id for pool in desk.quotas for job_id in lanes.line(pool).inside}
    return inside - lanes.due.keys(), set(lanes.guests)


@pytest.mark.parametrize("policy", ["reclaim", "anticipatory"])
def test_an_epoch_leaves_own_jobs_own_and_guests_guests(made: Made, policy: str):
    more = {"eps": "1", "finish": "1", "share": "1", "lives": "learned"} if policy == "anticipatory" else {}
    world = made(Executed, policy, ALL | more)
    submit(world, "a", "a", "a", "b", "a")
    world.plan()
    before = split(world)
    assert (len(before[0]), len(before[1])) == (3, 2)
    change = {"settings": {**world.row().settings, "requeueable": "0.9"}}
    clusters.change(world.engine, CLUSTER, change, None, world.clock)
    world.plan()
    assert split(world) == before == lanes_of(world)


def test_own_jobs_drain_when_their_quota_is_cut_and_guests_go_first(made: Made):
    world = made(Executed, "reclaim", ALL)
    own = submit(world, "a", "a")
    (guest,) = submit(world, "b", "b", "b")[2:]
    world.plan()
    world.put({"a": 1, "b": 2, "c": 3})
    world.was_cut = True
    submit(world, "c", "c")
    done = world.plan()
    assert split(world)[0] >= set(own)
    assert (done["num_send_backs"], done["num_dropped"]) == (1, 0)
    assert [job.job_id for job in world.jobs("waiting")] == [guest]
    assert lanes_of(world)[0] >= set(own)


def test_a_conversion_nobody_heard_of_is_said_again(made: Made):
    world = made(Executed, "reclaim", ALL)
    first, _, guest = submit(world, "a", "a", "a")
    world.plan()
    world.tell(Fact(FactKind.ENDED, world.now_s, first, {"state": "completed"}))
    world.begin_plan()
    world.end_plan(-1, is_dropped=True)
    assert guest in split(world)[1]
    world.plan()
    assert guest in split(world)[0]
    assert world.plan()["num_conversions"] == 0


@pytest.mark.parametrize("kind", [Executed, Scheduled])
def test_a_decision_that_an_epoch_has_overtaken_does_nothing(made: Made, kind: Kind):
    world = made(kind, "fcfs")
    submit(world, "a")
    world.meanwhile.append(lambda: world.put({"a": 3, "b": 2, "c": 1}))
    answer = world.decide([])
    assert answer.row.answer == {"starts": [], "send_backs": [], "conversions": [], "holds": []}
    assert answer.ask_again_s == answer.row.at_s
    assert len(world.decide([]).row.answer["starts"]) == 1


def test_what_is_cancelled_with_a_decision_leaves_its_gpus(made: Made):
    world = made(Executed, "fcfs")
    (job_id,) = submit(world, "a")
    world.plan()
    world.decide([Fact(FactKind.CANCELLED, world.now_s, job_id)])
    assert world.wanted() == []


@pytest.mark.parametrize("policy", ["fcfs", "reclaim", "backfill", "maxmin", "sia"])
def test_what_the_scheduler_sends_back_unasked_is_started_again(made: Made, policy: str):
    world = made(Scheduled, policy)
    (job_id,) = submit(world, "a")
    world.decide([])
    world.decide([Fact(FactKind.STARTED, world.now_s, job_id)])
    again = world.decide([Fact(FactKind.SENT_BACK, world.now_s, job_id)])
    assert (again.recorded.accepted, again.row.answer["starts"]) == (
        1,
        [{"job_id": job_id, "is_guest": False}],
    )


@pytest.mark.parametrize("policy", ["anticipatory", "sia", "fcfs"])
def test_facts_older_than_the_epoch_are_taken(made: Made, policy: str):
    world = made(Scheduled, policy)
    fact = world.submission("a", 1, may_be_sent_back=False, shares=False)
    world.tell(Fact(fact.kind, 1.0, fact.job_id, fact.data))
    assert len(world.decide([]).row.answer["starts"]) == 1


def test_whoever_consents_to_share_is_never_sent_back_whatever_the_operator_says(made: Made):
    world = made(Executed, "reclaim", ALL)
    lent = submit(world, *"bbbb")[2:]
    world.plan()
    consenting = submit(world, *"aaaa", shares=True)
    world.plan()
    assert len(world.jobs("running")) == 8
    (own,) = submit(world, "c")
    world.plan()
    assert {job.job_id for job in world.jobs("running")} >= {own, *consenting}
    assert [job.job_id for job in world.jobs("waiting")] == lent[1:]


@pytest.mark.parametrize("policy", ["sia", "maxmin", "ssf", "backfill", "reclaim"])
def test_a_pool_without_quota_stops_nobody(made: Made, policy: str):
    world = made(Scheduled, policy)
    (running,) = submit(world, "a")
    world.decide([])
    world.decide([Fact(FactKind.STARTED, world.now_s, running)])
    world.put({"a": 0, "b": 2, "c": 1})
    world.was_cut = True
    submit(world, "b")
    assert [one["job_id"] for one in world.decide([]).row.answer["starts"]] == ["j002"]
    world.put(QUOTAS)


def test_a_late_plan_does_not_let_a_guest_overtake_an_own_job(made: Made):
    world = made(Executed, "reclaim", ALL)
    submit(world, *"aabb")
    world.plan()
    (wide,) = submit(world, "c")
    world.begin_plan()
    submit(world, "a", "b")
    world.end_plan(-1)
    assert wide in split(world)[0]
    assert len(world.jobs("waiting")) == 2
    world.plan()
    assert len(split(world)[1]) == 1


def test_a_plan_that_breaks_a_rule_never_leaves_and_its_own_starts_do(made: Made, monkeypatch: Any):
    world = made(Executed, "reclaim", ALL)
    own, _, beyond = submit(world, "a", "a", "a")
    desk = LiveDesk(world.engine, CLUSTER, world.row().epoch)
    desk.catch_up(10**9)
    jobs = {job_id: desk._jobs[job_id] for job_id in (own, beyond)}
    rogue = Plan(starts=(Start(jobs[own], False), Start(jobs[beyond], True)), holds=(Hold("a", 2),))
    monkeypatch.setattr(desk.trained.policy, "decide", lambda _now_s, _idle_gpus: rogue)
    answer = desk.decide(world.now_s, 5, is_lending=True)
    assert answer["starts"] == [{"job_id": own, "is_guest": False}]
    assert answer["holds"] == []
    assert [said.split(":")[0] for said in answer["refused"]] == [
        "lent-while-due-job-waits",
        "hold-beyond-quota",
    ]


def test_why_a_plan_was_refused_is_kept_with_it(made: Made):
    world = made(Executed, "reclaim", ALL)
    submit(world, "a")
    world.begin_plan()
    request, answer = world.plans_under_way.pop()
    said = {**answer, "refused": ["star-rule: found by hand"]}
    done = publish(world.engine, CLUSTER, request, said, "run-by-hand", world.clock)
    assert done["num_refused"] == 1


@pytest.mark.parametrize(("policy", "is_planned"), [("planned", True), ("anticipatory", False)])
def test_what_is_known_of_a_lending_plan_comes_with_the_answer_that_it_is_behind(
    made: Made, policy: str, is_planned: bool
):
    world = made(Scheduled, policy)
    submit(world, *"aaaa")
    answer = world.decide([]).row.answer
    assert ("lending" in answer) == is_planned
    if is_planned:
        said = LendingOut.model_validate(answer["lending"])
        assert (said.status, said.fallback, said.is_cut) == ("optimal", "none", False)
        assert said.starts == sum(start["is_guest"] for start in answer["starts"])
        assert said.gap == 0.0


def test_when_a_plan_wants_to_be_asked_again_is_kept_with_it(made: Made):
    world = made(Executed, "reclaim", ALL)
    submit(world, "a")
    world.begin_plan()
    request, answer = world.plans_under_way.pop()
    said = {**answer, "ask_again_s": 1800.0}
    publish(world.engine, CLUSTER, request, said, "run-by-hand", world.clock)
    with reading(world.engine) as session:
        assert plans.ask_again_s(session, CLUSTER, request["epoch"]) == 1800.0
        assert plans.ask_again_s(session, CLUSTER, request["epoch"] + 1) is None


def test_a_place_that_breaks_a_rule_is_not_given(made: Made, monkeypatch: Any):
    world = made(Executed, "fcfs")
    first, second = submit(world, "a", "b")

    def all_on_one(starts: decision.Starts, *_rest: Any) -> decision.Dealt:
        return decision.Dealt({job.job_id: (Gpu("n1", 0),) for job in starts.own}, {})

    monkeypatch.setattr(decision, "place_starts", all_on_one)
    world.plan()
    assert [job.job_id for job in world.jobs("running")] == [first]
    with reading(world.engine) as session:
        plan = plans.latest(session, CLUSTER)
    assert plan is not None
    (dropped,) = plan.content["dropped"]
    assert dropped["job_id"] == second
    assert dropped["why"].startswith("gpu-in-use: ")
