"""Random histories of live clusters: what may never happen does not, whatever comes in which order."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walks import (
    CLUSTER,
    NODES,
    QUOTAS,
    Executed,
    LiveCluster,
    Scheduled,
    check_decisions,
    check_tables,
    copy,
    template,
)

from app.services import clusters
from app.services.facts import Fact, FactKind
from domain.jobs import Job
from solver.policies import POLICIES
from solver.reference import fcfs_starts

POLICIES_LIVE = sorted(name for name, spec in POLICIES.items() if not (spec.is_clairvoyant or spec.packs))
SETTINGS = {
    "reclaim": {"requeueable": "1"},
    "anticipatory": {"eps": "1", "finish": "1", "share": "1", "lives": "learned"},
}
OTHER_QUOTAS = [QUOTAS, {"a": 3, "b": 2, "c": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 0, "c": 1}]
NODE_NAMES = list(NODES)
PROFILE = settings(max_examples=4, deadline=None, derandomize=True)

Step = tuple[str, int, int, int]


def steps(*kinds: str) -> st.SearchStrategy[list[Step]]:
    one = st.tuples(st.sampled_from(kinds), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
    return st.lists(one, min_size=10, max_size=30)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    folder = tmp_path_factory.mktemp("walks")
    made = template(folder)
    numbers = itertools.count()
    return lambda: copy(made, folder, next(numbers))


def submit(world: LiveCluster, pool: int, width: int, traits: int) -> Fact:
    return world.submission(
        list(QUOTAS)[pool % 3],
        1 + width % 3 if traits < 4 else 1,
        may_be_sent_back=traits % 2 == 0,
        shares=traits >= 4,
    )


def change_quotas(world: LiveCluster, which: int) -> None:
    quotas = OTHER_QUOTAS[which % len(OTHER_QUOTAS)]
    world.was_cut = True
    world.put(quotas)


def switch(world: LiveCluster, which: int) -> None:
    clusters.change(world.engine, CLUSTER, {"is_lending": which % 2 == 0}, None, world.clock)


class ExecutedWalk:
    """Steps of a cluster that executors enforce."""

    KINDS = (
        *("submit",) * 3,
        *("burst",) * 3,
        *("plan",) * 4,
        *("settle",) * 3,
        "begin_plan",
        "end_plan",
        "drop_plan",
        "look",
        "deliver",
        *("end",) * 2,
        "refuse",
        "cancel",
        "word",
        "ask",
        "lose",
        *("back",) * 2,
        "quotas",
        "lending",
        "wait",
    )

    def __init__(self, world: Executed) -> None:
        self.world = world

    def take(self, step: Step) -> None:
        kind, *rest = step
        getattr(self, kind)(*rest)

    def submit(self, pool: int, width: int, traits: int) -> None:
        self.world.tell(submit(self.world, pool, width, traits))

    def burst(self, pool: int, width: int, traits: int) -> None:
        self.world.tell(*(submit(self.world, pool, width // 4, traits) for _ in range(3)))

    def plan(self, *_: int) -> None:
        self.world.plan()

    def ask(self, which: int, *_: int) -> None:
        """A decision at once, with a cancellation."""
        jobs = self.world.jobs("running")
        facts = [Fact(FactKind.CANCELLED, self.world.now_s, jobs[which % len(jobs)].job_id)] if jobs else []
        self.world.decide(facts)

    def settle(self, *_: int) -> None:
        self.world.settle()

    def begin_plan(self, *_: int) -> None:
        self.world.begin_plan()

    def end_plan(self, which: int, *_: int) -> None:
        if self.world.plans_under_way:
            self.world.end_plan(which % len(self.world.plans_under_way))

    def drop_plan(self, which: int, *_: int) -> None:
        if self.world.plans_under_way:
            self.world.end_plan(which % len(self.world.plans_under_way), is_dropped=True)

    def look(self, node: int, *_: int) -> None:
        self.world.look(NODE_NAMES[node % len(NODE_NAMES)])

    def deliver(self, node: int, *_: int) -> None:
        self.world.deliver(NODE_NAMES[node % len(NODE_NAMES)])

    def end(self, node: int, which: int, code: int) -> None:
        name = NODE_NAMES[node % len(NODE_NAMES)]
        running = sorted(self.world.nodes[name].running)
        if running:
            self.world.end(name, running[which % len(running)], exit_code=code // 4)

    def refuse(self, which: int, *_: int) -> None:
        wanted = [
            row
            for row in self.world.wanted()
            if row.placement_id not in self.world.nodes[row.node].running | self.world.nodes[row.node].ended
        ]
        if wanted:
            row = wanted[which % len(wanted)]
            self.world.refuse(row.node, row.placement_id)

    def cancel(self, which: int, *_: int) -> None:
        self._tell_of("waiting", which, FactKind.CANCELLED)
        self._tell_of("running", which, FactKind.CANCELLED)

    def word(self, which: int, *_: int) -> None:
        self._tell_of("running", which, FactKind.ENDED)

    def lose(self, node: int, *_: int) -> None:
        if not any(map(self.world.is_lost, NODE_NAMES)):
            self.world.lose(NODE_NAMES[node % len(NODE_NAMES)])

    def back(self, node: int, rebooted: int, _: int) -> None:
        lost = [name for name in NODE_NAMES if self.world.is_lost(name)] or NODE_NAMES
        self.world.bring_back(lost[node % len(lost)], has_rebooted=rebooted % 2 == 0)

    def quotas(self, which: int, *_: int) -> None:
        change_quotas(self.world, which)

    def lending(self, which: int, *_: int) -> None:
        switch(self.world, which)

    def wait(self, how_long: int, *_: int) -> None:
        self.world.clock.advance(0.1 * 7.0**how_long)

    def _tell_of(self, state: str, which: int, kind: FactKind) -> None:
        jobs = self.world.jobs(state)
        if jobs:
            job_id = jobs[which % len(jobs)].job_id
            self.world.tell(Fact(kind, self.world.now_s, job_id, {"state": "completed"}))

    def drain(self) -> None:
        """Everything comes back, everybody ends: nobody waits for ever."""
        world = self.world
        world.plans_under_way.clear()
        for node in NODE_NAMES:
            if world.is_lost(node):
                world.bring_back(node, has_rebooted=True)
        world.put(QUOTAS)
        for _ in range(3 * world.num_jobs + 3):
            if not world.jobs("waiting", "running"):
                return
            world.plan()
            world.settle()
            world.clock.advance(60.0)
            for node in NODE_NAMES:
                for placement_id in sorted(world.nodes[node].running):
                    world.end(node, placement_id, exit_code=0)
            world.settle()
        stuck = [job for job in world.jobs("waiting", "running") if job.num_gpus <= QUOTAS[job.pool]]
        assert not stuck, [(job.job_id, job.state) for job in stuck]


class ScheduledWalk:
    """Steps of a cluster whose scheduler asks, does part of what it is told, and does things unasked."""

    KINDS = (
        *("submit",) * 4,
        *("burst",) * 3,
        *("turn",) * 5,
        "decide",
        "follow",
        "ignore",
        "start",
        *("end",) * 2,
        "cancel",
        "requeue",
        "late",
        "again",
        "quotas",
        "lending",
        "meanwhile",
        "epoch",
        "wait",
    )

    def __init__(self, world: Scheduled) -> None:
        self.world = world
        self.answer: dict[str, Any] = {"starts": [], "send_backs": []}
        self.waiting: list[str] = []
        self.running: list[str] = []
        self.width: dict[str, int] = {}

    def take(self, step: Step) -> None:
        kind, *rest = step
        getattr(self, kind)(*rest)

    def submit(self, pool: int, width: int, traits: int) -> None:
        fact = submit(self.world, pool, width, traits)
        with_quota = fact.data["num_gpus"] <= QUOTAS[fact.data["pool"]]
        self.world.untold.append(fact)
        if with_quota:
            self.waiting.append(fact.job_id)
            self.width[fact.job_id] = fact.data["num_gpus"]

    def burst(self, pool: int, width: int, traits: int) -> None:
        for _ in range(3):
            self.submit(pool, width // 4, traits)

    def turn(self, counts: int, *_: int) -> None:
        """Ask, and do as told."""
        self.decide(counts)
        self.follow()

    @property
    def idle(self) -> int:
        return sum(NODES.values()) - sum(self.width[job_id] for job_id in self.running)

    def decide(self, counts: int = 0, *_: int) -> None:
        made = self.world.ask_again(idle_gpus=max(self.idle, 0) if counts % 2 else None)
        self.answer = made.row.answer

    def follow(self, *_: int) -> None:
        """Do as told, as far as that is still possible."""
        for job_id in self.answer["send_backs"]:
            if job_id in self.running:
                self._wait_again(job_id)
        for start in self.answer["starts"]:
            if start["job_id"] in self.waiting and self.width[start["job_id"]] <= self.idle:
                self._start(start["job_id"], is_guest=start["is_guest"])
        self.answer = {"starts": [], "send_backs": []}

    def ignore(self, *_: int) -> None:
        self.answer = {"starts": [], "send_backs": []}

    def start(self, which: int, *_: int) -> None:
        """A start of the scheduler's own."""
        if self.waiting:
            job_id = self.waiting[which % len(self.waiting)]
            if self.width[job_id] <= self.idle:
                self.world.was_cut = True
                self._start(job_id, is_guest=False)

    def end(self, which: int, told: int, _: int) -> None:
        if self.running:
            job_id = self.running.pop(which % len(self.running))
            duration = {} if told % 2 else {"duration_s": float(10**told)}
            self.world.note(FactKind.ENDED, job_id, state="completed", **duration)

    def cancel(self, which: int, *_: int) -> None:
        for jobs in (self.waiting, self.running):
            if jobs:
                self.world.note(FactKind.CANCELLED, jobs.pop(which % len(jobs)))

    def requeue(self, which: int, *_: int) -> None:
        """The scheduler sends a job back unasked, guest or not."""
        if self.running:
            self._wait_again(self.running[which % len(self.running)])

    def late(self, *_: int) -> None:
        """Facts arrive in another order than they happened."""
        self.world.untold.reverse()

    def again(self, which: int, *_: int) -> None:
        if self.world.untold:
            self.world.untold.append(self.world.untold[which % len(self.world.untold)])

    def quotas(self, which: int, *_: int) -> None:
        change_quotas(self.world, which)

    def lending(self, which: int, *_: int) -> None:
        switch(self.world, which)

    def meanwhile(self, which: int, *_: int) -> None:
        """An epoch begins while the next decision is in flight."""
        self.world.was_cut = True
        self.world.meanwhile.append(lambda: self.world.put(OTHER_QUOTAS[which % len(OTHER_QUOTAS)]))

    def epoch(self, *_: int) -> None:
        policy = self.world.row().settings
        flipped = {} if policy else {**SETTINGS.get(self.world.row().policy, {})}
        clusters.change(self.world.engine, CLUSTER, {"settings": flipped}, None, self.world.clock)

    def wait(self, how_long: int, *_: int) -> None:
        self.world.clock.advance(0.1 * 7.0**how_long)

    def _start(self, job_id: str, *, is_guest: bool) -> None:
        self.waiting.remove(job_id)
        self.running.append(job_id)
        self.world.note(FactKind.STARTED, job_id, is_guest=is_guest)

    def _wait_again(self, job_id: str) -> None:
        self.running.remove(job_id)
        self.waiting.append(job_id)
        self.world.note(FactKind.SENT_BACK, job_id)

    def drain(self) -> None:
        """A scheduler that does as it is told gets everybody served; it tells again what was refused."""
        world = self.world
        world.meanwhile.clear()
        world.put(QUOTAS)
        world.ask_again()
        self._resume()
        for _ in range(3 * world.num_jobs + 3):
            if not world.jobs("waiting", "running"):
                return
            self.decide()
            self.follow()
            world.clock.advance(60.0)
            for job_id in list(self.running):
                self.running.remove(job_id)
                world.note(FactKind.ENDED, job_id, state="completed")
        world.ask_again()
        stuck = [job for job in world.jobs("waiting", "running") if job.num_gpus <= QUOTAS[job.pool]]
        assert not stuck, [(job.job_id, job.state) for job in stuck]

    def _resume(self) -> None:
        """Facts told in a wrong order may have been rejected: go on from what the service believes."""
        self.waiting = [job.job_id for job in self.world.jobs("waiting")]
        self.running = [job.job_id for job in self.world.jobs("running")]
        self.width |= {job.job_id: job.num_gpus for job in self.world.jobs()}


def walk(path: ExecutedWalk | ScheduledWalk, history: list[Step]) -> None:
    try:
        for step in history:
            path.take(step)
            check_tables(path.world)
        path.drain()
        check_tables(path.world)
        check_decisions(path.world)
    finally:
        path.world.close()


@pytest.mark.parametrize("policy", ["reclaim", "anticipatory", "fcfs", "maxmin", "sia"])
def test_a_cluster_enforced_by_executors_keeps_its_books(fresh: Callable[[], Path], policy: str):
    @PROFILE
    @given(steps(*ExecutedWalk.KINDS))
    def run(history: list[Step]) -> None:
        walk(ExecutedWalk(Executed(fresh(), policy, SETTINGS.get(policy, {}))), history)

    run()


@pytest.mark.parametrize("policy", POLICIES_LIVE)
def test_a_cluster_enforced_by_a_scheduler_keeps_its_books(fresh: Callable[[], Path], policy: str):
    @PROFILE
    @given(steps(*ScheduledWalk.KINDS))
    def run(history: list[Step]) -> None:
        walk(ScheduledWalk(Scheduled(fresh(), policy, SETTINGS.get(policy, {}))), history)

    run()


Life = tuple[int, int, int, int]


@PROFILE
@given(st.lists(st.tuples(*(st.integers(0, 5),) * 4), min_size=3, max_size=14))
def test_with_requeueable_guests_and_plans_at_once_nobody_is_late(
    fresh: Callable[[], Path], lives: list[Life]
):
    """The absolute promise: arrivals at random, all guests requeueable, every plan applied at once."""
    world = Executed(fresh(), "reclaim", SETTINGS["reclaim"])
    pools = list(QUOTAS)
    arrivals: list[tuple[float, Fact, float]] = []
    at_s = world.now_s
    for gap, pool, width, length in lives:
        at_s += 40.0 * gap
        name = pools[pool % 3]
        fact = world.submission(name, 1 + width % QUOTAS[name], may_be_sent_back=True, shares=False)
        arrivals.append((at_s, replace(fact, at_s=at_s), 30.0 * 3.0**length))
    durations = {fact.job_id: duration for _, fact, duration in arrivals}
    jobs = [Job(fact.job_id, fact.data["pool"], at_s, fact.data["num_gpus"]) for at_s, fact, _ in arrivals]
    reference = fcfs_starts(jobs, durations, QUOTAS)
    try:
        _replay(world, [(at_s, fact) for at_s, fact, _ in arrivals], durations)
        for job in world.jobs():
            assert job.state == "ended"
            assert job.ended_s is not None
            assert job.ended_s <= reference[job.job_id] + durations[job.job_id] + 60.0
        check_tables(world)
        check_decisions(world)
    finally:
        world.close()


def _replay(world: Executed, arrivals: list[tuple[float, Fact]], durations: dict[str, float]) -> None:
    """Let jobs arrive and end at their instants, with a plan after each."""
    coming = list(arrivals)
    while coming or world.jobs("waiting", "running"):
        running = world.jobs("running")
        instants = [(job.started_s or 0.0) + durations[job.job_id] for job in running]
        now_s = min([*instants, *(at_s for at_s, _ in coming[:1])])
        world.clock.advance(max(now_s - world.now_s, 0.0))
        for job in running:
            if (job.started_s or 0.0) + durations[job.job_id] <= now_s + 1e-3:
                for row in world.wanted():
                    if row.job_id == job.job_id:
                        world.end(row.node, row.placement_id, exit_code=0)
        world.settle()
        while coming and coming[0][0] <= now_s + 1e-3:
            world.tell(coming.pop(0)[1])
        world.plan()
        world.settle()
        check_tables(world)
