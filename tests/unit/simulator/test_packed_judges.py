"""Replays in which jobs share GPUs stand before the judges: what is owed, and what is found in a report."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from data.history import from_frame, from_jobs
from data.pairs import PairTable
from domain.cluster import Node
from domain.errors import PlanError
from domain.jobs import Job, JobOutcome
from domain.plans import NOTHING, Placement, Plan, Start
from domain.schedules import Schedule
from domain.sharing import shared_spells
from simulator.checked import options_of
from simulator.replay import Replay, prepare, replay
from simulator.report import describe, reference_of
from simulator.workload import Workload, make_workload
from solver.packing.riding import Riding
from solver.plan_rules import Hosts
from solver.policies import POLICIES
from solver.policies.base import KnowsSlack, Lends, NoSettings, PolicySpec, parse_settings

TABLE = PairTable.of(
    {("big", "big"): (0.6, 0.6), ("big", "small"): (1.2, 0.8), ("small", "small"): (0.9, 0.9)},
    unfit=frozenset({("big", "huge"), ("huge", "huge"), ("huge", "small")}),
)
NODES = (Node("n", 2),)


def workload(**models: str) -> Workload:
    """Jobs of 1,000 s on two GPUs each, one submitted after the other."""
    jobs = [Job(name, "a", float(k), 2, model=model) for k, (name, model) in enumerate(models.items())]
    outcomes = {name: JobOutcome(name, 1_000.0) for name in models}
    made = from_frame(from_jobs(jobs, outcomes), source="test", quotas={"a": 2})
    return make_workload(made, {"a": 2}, train_until_s=0.0, eval_from_s=0.0, nodes=NODES)


def packed(work: Workload, **more: str) -> Replay:
    return replay(work, "packing", more, pairs=TABLE, checks_plans=True)


def faults(work: Workload, done: Replay) -> list[str]:
    found = describe(work, done, reference_of(work))["faults"]
    assert isinstance(found, list)
    return found


def test_what_a_policy_that_packs_owes():
    def rate(_model: str, _beside: str) -> float:
        return 0.5

    spec = POLICIES["packing"]
    owes = options_of(spec, parse_settings("packing", spec.settings, {"liss": "off"}), rate)
    assert (owes.packs, owes.hosts, owes.rates) == (True, Hosts.EVERYONE, rate)
    assert (owes.redistributes, owes.may_suspend, owes.has_own_lanes) == (False, False, False)
    assert options_of(spec, spec.settings(), rate).redistributes
    gandiva = POLICIES["gandiva"]
    assert options_of(gandiva, gandiva.settings(), rate).may_suspend
    fcfs = options_of(POLICIES["fcfs"], NoSettings())
    assert (fcfs.packs, fcfs.rates, fcfs.may_suspend) == (False, None, False)


@dataclass(frozen=True)
class LendingSettings:
    packing: bool = True


@pytest.mark.parametrize("packing", [True, False])
def test_what_a_policy_that_lends_and_packs_owes(packing):
    owes = options_of(POLICIES["anticipatory"], LendingSettings(packing))
    assert (owes.packs, owes.hosts, owes.has_own_lanes) == (packing, Hosts.CONSENTING, True)


def test_a_schedule_by_the_rules_has_no_faults_and_one_that_is_too_fast_has():
    """A job of `small` goes at 0.8 beside one of `big`."""
    work = workload(one="big", two="small")
    done = packed(work)
    assert any(one.rate < 1.0 for one in done.schedule.stretches)
    assert faults(work, done) == []
    faster = [one._replace(rate=0.85) if one.rate == 0.8 else one for one in done.schedule.stretches]
    found = faults(work, replace(done, schedule=Schedule(tuple(faster))))
    assert any("two runs at rate 0.85 from 1.0 s on, 0.8 is what was measured" in one for one in found)
    assert done.rates is not None
    assert done.rates("big", "small") == 1.0, "measured at 1.2: nobody runs faster than alone"


def test_what_shares_may_gain_is_asked_for_where_they_are_set():
    work = workload(one="big", two="small")
    done = packed(work)
    assert done.share_gain is None
    under_shares = packed(work, lgrr="on")
    assert under_shares.share_gain == pytest.approx(0.15)
    assert faults(work, under_shares) == []
    faster = [one._replace(rate=1.0) for one in under_shares.schedule.stretches]
    found = faults(work, replace(under_shares, schedule=Schedule(tuple(faster))))
    assert not any("together they run at" in one for one in found), "2.0 is below 1.15 x 1.8"
    assert not any("is what was measured" in one for one in found)
    rates = {("big", "small"): 0.8, ("small", "big"): 0.8}
    slower = replace(under_shares, schedule=Schedule(tuple(faster)), rates=lambda *both: rates[both])
    assert any("together they run at 2.0, 1.8" in one for one in faults(work, slower))


def test_only_a_policy_that_suspends_may_let_a_job_wait_in_between():
    work = workload(one="big")
    done = packed(work)
    (whole,) = done.schedule.stretches
    cut = Schedule((whole._replace(end_s=400.0), whole._replace(start_s=500.0, end_s=1_100.0)))
    assert any("is interrupted" in one for one in faults(work, replace(done, schedule=cut)))
    assert faults(work, replace(done, schedule=cut, policy="gandiva")) == []


class Asked:
    """Starts all that wait on the same GPUs, and has its own opinion of what these may lose."""

    slack = 0.0

    def __init__(self, *_: object) -> None:
        self._waiting: list[Job] = []

    def submitted(self, job: Job, _now_s: float) -> None:
        self._waiting.append(job)

    def started(self, job: Job, _now_s: float) -> None:
        self._waiting.remove(job)

    def ended(self, job: Job, _now_s: float) -> None:
        pass

    def sent_back(self, job: Job, _now_s: float) -> None:
        pass

    def decide(self, now_s: float, _idle_gpus: int) -> Plan:
        starts = tuple(Start(job, is_guest=now_s > 0.0) for job in self._waiting)
        places = tuple(Placement(job.job_id, NODES[0].gpus()) for job in self._waiting)
        return Plan(starts=starts, placements=places) if starts else NOTHING

    def allowed_loss(self, now_s: float) -> dict[str, float]:
        return {"one": self.slack} if now_s >= 1.0 else {}


@pytest.mark.parametrize(("slack", "is_refused"), [(0.39, True), (0.4, False)])
def test_a_policy_that_lends_says_what_own_jobs_may_lose(monkeypatch, slack, is_refused):
    class Lending(Asked):
        pass

    Lending.slack = slack
    assert isinstance(Lending(), KnowsSlack)
    spec = PolicySpec(build=Lending, settings=NoSettings, lends=Lends.ALL, has_own_lanes=True, packs=True)
    monkeypatch.setitem(POLICIES, "asked", spec)
    consenting = lambda *asked: replace(options_of(*asked), hosts=Hosts.CONSENTING)  # noqa: E731
    monkeypatch.setattr("simulator.replay.options_of", consenting)
    work = workload(one="big", two="big")
    made = prepare(work, "asked", {}, pairs=TABLE, checks_plans=True)
    if is_refused:
        with pytest.raises(PlanError, match=r"would lose 0\.400 of its speed, 0\.390 is its slack"):
            made.engine.run()
    else:
        assert len(made.engine.run().stretches) >= 2


def test_a_pair_that_does_not_fit_is_no_plan(monkeypatch):
    monkeypatch.setitem(POLICIES, "asked", PolicySpec(build=Asked, settings=NoSettings, packs=True))
    made = prepare(workload(one="big", two="huge"), "asked", {}, pairs=TABLE, checks_plans=True)
    with pytest.raises(PlanError, match="pair-does-not-fit"):
        made.engine.run()


def crowded() -> Workload:
    """Two pools that lend to each other, and more jobs than GPUs."""
    draw = np.random.default_rng(11)
    jobs, outcomes = [], {}
    for k in range(30):
        pool, model = str(draw.choice(["a", "b"])), str(draw.choice(["big", "small"]))
        submit_s, width = 60.0 * int(draw.integers(0, 60)), int(draw.choice([1, 1, 2, 4]))
        jobs.append(Job(f"j{k:02}", pool, submit_s, width, model=model))
        outcomes[f"j{k:02}"] = JobOutcome(f"j{k:02}", 300.0 * int(draw.integers(1, 40)))
    quotas = {"a": 4, "b": 4}
    made = from_frame(from_jobs(jobs, outcomes), source="test", quotas=quotas)
    nodes = (Node("n0", 4), Node("n1", 4))
    return make_workload(made, quotas, train_until_s=0.0, eval_from_s=0.0, nodes=nodes)


RIDES = {"packing": "on", "eps": "0.05", "waits": "0", "sigma": "0.5", "lives": "true", "arrivals": "true"}


@pytest.mark.parametrize("policy", ["anticipatory", "planned"])
def test_rides_stand_before_the_judges(policy):
    work = crowded()
    done = replay(work, policy, RIDES, may_see_truth=True, pairs=TABLE, checks_plans=True)
    by_id = {job.job_id: job for job in work.jobs}
    assert len(shared_spells(by_id, done.schedule.stretches)) >= 3
    assert faults(work, done) == []


def test_a_ride_that_its_policy_does_not_answer_for_is_refused(monkeypatch):
    monkeypatch.setattr(Riding, "allowed_loss", lambda *_: {})
    with pytest.raises(PlanError, match="protected-job-shares"):
        replay(crowded(), "anticipatory", RIDES, may_see_truth=True, pairs=TABLE, checks_plans=True)
