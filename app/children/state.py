"""A live cluster's policy as its log has made it: built from an epoch's snapshot, then told entry by entry.

Deterministic: every process that reads the same log comes to the same state and the same decisions. Only
children import this; it loads the models.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import structlog
from sqlalchemy import Engine, Row

from app.children import material
from app.children.material import Material
from app.children.review import reviewed
from app.errors import UnknownResource
from app.services.facts import FactKind, job_of
from app.services.kept_models import folder_of, kept_or_made, key_of
from app.store import live
from app.store.engine import reading
from app.store.tables import EpochRow, LiveState
from domain.cluster import Node
from domain.jobs import Job
from domain.plans import Hold, Plan, Start
from models import Training
from simulator.checked import options_of
from simulator.forecasting import ForecastChoice, Forecasters, build, choose, split_settings
from solver.check_plan import check_plan, lawful_part
from solver.desk import Desk
from solver.placement.keeper import Keeper
from solver.placement.room import NodeKeeper
from solver.plan_books import PlanBooks
from solver.plan_rules import PlanOptions, PlanState, Standing, state_of
from solver.policies import POLICIES
from solver.policies.base import PlansLending, Policy, PolicyContext, PolicySpec, parse_settings

_log = structlog.get_logger(__name__)

_REFERENCE: Final = "fcfs"
"""The policy that lends nothing: the promise is measured against it."""

_KEPT_ANSWERS: Final = 1024
"""Decisions remembered, for those who ask after a later one was made."""


@dataclass(frozen=True)
class Trained:
    """What a policy of an epoch was built from.

    Attributes:
        running: jobs that ran when the epoch began, and whether as their pool's own.
        all_requeueable: the operator's word is that every job may be sent back.
        owes: what its plans are checked for.
        settings: in force, defaults and those of the forecasts included.
        key: under which its forecasters are kept; empty where they are not.
    """

    policy: Policy
    spec: PolicySpec
    choice: ForecastChoice
    forecasters: Forecasters
    training: Training
    running: Mapping[str, bool]
    all_requeueable: bool
    owes: PlanOptions
    settings: Mapping[str, Any]
    key: str = ""


class LiveDesk:
    """The desk of one epoch of a cluster.

    Args:
        engine: the database.
        cluster: name.
        epoch: number.
        is_reference: the desk of the same epoch that lends nothing; it needs no forecasts, so no training.

    Attributes:
        epoch: its row.
        seq: entry of the log up to which it has been told.
        now_s: instant of what it was told last.
        started_s: by id, since when each job runs.
        decided: idle GPUs at the last decision, and whether it might lend; None before the first.

    Raises:
        UnknownResource: if there is no such epoch.
        SettingError: if the policy's settings no longer hold.
    """

    def __init__(self, engine: Engine, cluster: str, epoch: int, *, is_reference: bool = False) -> None:
        self._engine = engine
        self.cluster = cluster
        known = material.read(engine, cluster, epoch, with_history=not is_reference)
        if is_reference:
            row = EpochRow(**known.epoch.model_dump() | {"policy": _REFERENCE, "settings": {}})
            known = replace(known, epoch=row)
        self.epoch = row = known.epoch
        self.seq = row.from_seq
        self.quotas = {str(pool): int(quota) for pool, quota in row.quotas}
        self.now_s = row.at_s
        nodes = [Node(str(name), int(num_gpus), str(gpu_type)) for name, num_gpus, gpu_type in row.nodes]
        self._nodes = Keeper(nodes, self._may_go) if nodes else None
        self.trained = _train(known, self.quotas, self._nodes)
        self._desk = Desk(self.trained.policy, self.trained.forecasters.observers)
        own = [job_id for job_id, is_own in self.trained.running.items() if is_own]
        self._books = PlanBooks(self.quotas, converts=self.trained.owes.converts, own=own)
        self._jobs: dict[str, Job] = {}
        self._without_promise: dict[str, Job] = {}
        self._waiting: set[str] = set()
        self._converted: dict[str, None] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self.started_s: dict[str, float] = {}
        self.decided: tuple[int, bool] | None = None
        self._adopt(row.snapshot, row.at_s)

    def catch_up(self, until_seq: int) -> None:
        """Tell the policy what the log holds up to an entry."""
        while self.seq < until_seq:
            with reading(self._engine) as session:
                entries = live.told(session, self.cluster, self.seq, until_seq)
            if not entries:
                return
            for entry in entries:
                self._tell(entry)
                self.seq = entry.seq

    def answer(self, seq: int) -> dict[str, Any]:
        """The decision that log entry `seq` stands for.

        Raises:
            UnknownResource: if the entry is no decision of this epoch, or one long past.
        """
        self.catch_up(seq)
        if seq not in self._answers:
            raise UnknownResource(f"entry {seq} of cluster {self.cluster} is no decision that is kept")
        return self._answers[seq]

    def decide(
        self, now_s: float, idle_gpus: int, *, is_lending: bool, accepted: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Decide now, as a plain answer: job ids instead of jobs, and nothing beyond what is idle.

        A conversion is said again until the log has it: who was to hear of it may be gone. A plan that
        breaks a rule is refused (`refused` says why): what is left are its lawful own starts. Where somebody
        reviews (`accepted`), the answer has of lending what was accepted, and `proposed` all of it.
        """
        now_s = self.now_s = max(self.now_s, now_s)
        self.decided = (idle_gpus, is_lending)
        planned = self._desk.decide(now_s, idle_gpus)
        arranged = planned if self._nodes is None else self._nodes.by_node(planned)
        fitted = fitting(arranged, idle_gpus, is_lending=is_lending)
        plan, refused = self._checked(fitted, now_s, idle_gpus)
        self._books.decided(planned)
        self._converted.update((job.job_id, None) for job in plan.conversions)
        proposed = None
        if accepted is not None:
            plan, proposed = reviewed(plan, idle_gpus, accepted)
        answer = as_answer(plan)
        if proposed is not None:
            answer["proposed"] = proposed
        if refused:
            answer["refused"] = refused
        behind = self.trained.policy.plan_behind() if isinstance(self.trained.policy, PlansLending) else None
        if behind is not None:
            answer["lending"] = dict(behind)
        answer["conversions"] = list(self._converted)
        tick_s = self.trained.spec.tick_s
        asks_again = tick_s is not None and len(self._waiting) > len(answer["starts"])
        answer["ask_again_s"] = (now_s // tick_s + 1.0) * tick_s if asks_again and tick_s else None
        return answer

    def width(self, job_id: str) -> int:
        """GPUs of an unfinished job; 0 for one that is not known."""
        job = self._jobs.get(job_id)
        return 0 if job is None else job.num_gpus

    def running(self) -> list[tuple[Job, float]]:
        """Jobs that run, and since when, the longest first."""
        return sorted(
            ((self._jobs[job_id], since_s) for job_id, since_s in self.started_s.items()),
            key=lambda one: (one[1], one[0].job_id),
        )

    def counts(self, idle_gpus: int) -> PlanState:
        """Who waits and who runs, as of what was told; to be looked at before anything else is told."""
        return self._books.state(self.now_s, idle_gpus)

    def state(self, idle_gpus: int) -> PlanState:
        """The same, and who is on which GPU where that is known."""
        known = self.counts(idle_gpus)
        if self._nodes is None:
            return known
        placed = [replace(one, gpus=self._nodes.gpus_of(job_id)) for job_id, one in known.known.items()]
        nodes = tuple(Node(str(name), int(num), str(kind)) for name, num, kind in self.epoch.nodes)
        by_node = state_of(self.now_s, idle_gpus, known.quotas, placed, nodes)
        return replace(by_node, lines=known.lines, own_gpus=known.own_gpus)

    def job(self, job_id: str) -> Job | None:
        """An unfinished job that has been told of."""
        return self._jobs.get(job_id) or self._without_promise.get(job_id)

    def without_promise(self) -> list[Job]:
        """Jobs that no decision looks at: wider than their pool's quota."""
        return list(self._without_promise.values())

    def num_waiting(self) -> int:
        """Jobs that wait, those without a promise included."""
        return len(self._waiting) + len(self._without_promise)

    def carry_out(self, done: Mapping[str, Any]) -> None:
        """Take what a decision came to as told: the log need not hold it. Such a desk decides no more.

        Args:
            done: `send_backs`, `starts` (with `gpus` where they are known) and `riders`, as they are stored.
        """
        nodes = self._nodes
        for job_id in done["send_backs"]:
            self._tell_of(self._jobs[job_id], FactKind.SENT_BACK, {}, self.now_s)
            if nodes is not None:
                nodes.left(job_id)
        places = {start["job_id"]: start.get("gpus") or () for start in done["starts"]}
        for job_id in [*places, *(rider["job_id"] for rider in done.get("riders", ()))]:
            self._tell_of(self._jobs[job_id], FactKind.STARTED, {}, self.now_s)
            if nodes is not None and job_id in places:
                nodes.started(self._jobs[job_id], places[job_id])

    def _checked(self, plan: Plan, now_s: float, idle_gpus: int) -> tuple[Plan, list[str]]:
        """The plan, or what may be done of it, and the rules it breaks."""
        state, owes = self._books.state(now_s, idle_gpus), self.trained.owes
        faults = check_plan(state, plan, owes)
        if not faults:
            return plan, []
        said = [str(fault) for fault in faults]
        _log.error("plan_refused", cluster=self.cluster, epoch=self.epoch.number, at_s=now_s, faults=said)
        return lawful_part(state, plan, owes), said

    def _tell(self, entry: Row[Any]) -> None:
        """Take over an entry, at no instant before one that has been told: an epoch may learn up to later."""
        now_s = self.now_s = max(self.now_s, entry.at_s)
        if entry.kind == FactKind.DECIDED:
            self._answers[entry.seq] = self.decide(
                now_s,
                entry.data["idle_gpus"],
                is_lending=entry.data["is_lending"],
                accepted=entry.data.get("accepted"),
            )
            if len(self._answers) > _KEPT_ANSWERS:
                del self._answers[next(iter(self._answers))]
            return
        job_id = str(entry.job_id)
        if entry.kind == FactKind.SUBMITTED:
            self._submit(self._job({**entry.data, "job_id": job_id}), now_s)
            return
        if self._nodes is not None:
            self._tell_nodes(self._nodes, job_id, entry)
        if job_id in self._jobs:
            self._tell_of(self._jobs[job_id], FactKind(entry.kind), entry.data, now_s)

    def _tell_nodes(self, nodes: Keeper, job_id: str, entry: Row[Any]) -> None:
        """A job has taken GPUs, or left those that it had."""
        job = self._jobs.get(job_id) or self._without_promise.get(job_id)
        if entry.kind == FactKind.STARTED and job is not None:
            nodes.started(job, entry.data["gpus"])
        elif entry.kind != FactKind.CONVERTED:
            nodes.left(job_id)

    def _may_go(self, job: Job) -> bool:
        """Whether a running job is a guest that may be sent back."""
        known, owes = self._books.state(self.now_s, 0).known.get(job.job_id), self.trained.owes
        is_guest = known is not None and known.standing is Standing.GUEST
        return is_guest and owes.may_send_back and job.is_requeueable(owes.requeueable_share)

    def _job(self, values: Mapping[str, Any]) -> Job:
        """A job as the policy sees it: whoever consented to share is never sent back."""
        job = job_of(values)
        if not self.trained.all_requeueable:
            return job
        return replace(job, requeue_u=None if values.get("is_shareable") else 0.0)

    def _submit(self, job: Job, now_s: float) -> None:
        if job.num_gpus > self.quotas.get(job.pool, 0):
            self._without_promise[job.job_id] = job
            return
        self._jobs[job.job_id] = job
        self._waiting.add(job.job_id)
        self._books.submitted(job)
        self._desk.submitted(job, now_s)

    def _tell_of(self, job: Job, kind: FactKind, data: Mapping[str, Any], now_s: float) -> None:
        if kind != FactKind.STARTED:
            self._converted.pop(job.job_id, None)
        if kind in (FactKind.ENDED, FactKind.CANCELLED, FactKind.SENT_BACK):
            self.started_s.pop(job.job_id, None)
        match kind:
            case FactKind.STARTED:
                self.started_s[job.job_id] = now_s
                self._waiting.discard(job.job_id)
                self._books.started(job)
                self._desk.started(job, now_s)
            case FactKind.ENDED:
                self._forget(job)
                self._desk.ended(job, now_s, data["duration_s"])
            case FactKind.CANCELLED:
                self._forget(job)
                self._desk.cancelled(job, now_s)
            case FactKind.SENT_BACK:
                self._send_back(job, now_s)
            case _:
                pass  # a restart begins an epoch by itself; the others are no news to the policy

    def _send_back(self, job: Job, now_s: float) -> None:
        """A job waits again, at its place; one that no longer fits its quota leaves its line."""
        if job.num_gpus > self.quotas[job.pool]:
            self._without_promise[job.job_id] = job
            self._forget(job)
            self._desk.cancelled(job, now_s)
        else:
            self._waiting.add(job.job_id)
            self._books.sent_back(job)
            self._desk.sent_back(job, now_s)

    def _forget(self, job: Job) -> None:
        self._waiting.discard(job.job_id)
        self._books.ended(job)
        del self._jobs[job.job_id]

    def _adopt(self, snapshot: Sequence[Mapping[str, Any]], at_s: float) -> None:
        """Tell of the unfinished jobs: the policy at the instants it happened, the forecasters as of now."""
        facts: list[tuple[float, int, str, Job]] = []
        until: dict[str, float] = {}
        for place, row in reversed(list(enumerate(snapshot))):
            job = self._job(row)
            drains = job.pool in self.quotas and self.trained.running.get(job.job_id, False)
            if job.num_gpus > self.quotas.get(job.pool, 0) and not drains:
                self._without_promise[job.job_id] = job
                continue
            self._jobs[job.job_id] = job
            submitted_s = until[job.pool] = min(job.submit_s, at_s, until.get(job.pool, math.inf))
            facts.append((submitted_s, place, FactKind.SUBMITTED, job))
            if row["state"] == LiveState.RUNNING:
                started_s = min(max(row["started_s"], submitted_s), at_s)
                facts.append((started_s, len(snapshot) + place, FactKind.STARTED, job))
                self.started_s[job.job_id] = min(row["started_s"], at_s)
            else:
                self._waiting.add(job.job_id)
        self._adopt_places(snapshot)
        policy, observers = self.trained.policy, self.trained.forecasters.observers
        for instant_s, _, kind, job in sorted(facts, key=lambda fact: fact[:2]):
            if kind == FactKind.SUBMITTED:
                for observer in observers:
                    observer.submitted(job, at_s)
                self._books.submitted(job)
                policy.submitted(job, instant_s)
            else:
                for observer in observers:
                    observer.started(job, at_s)
                self._books.started(job)
                policy.started(job, instant_s)

    def _adopt_places(self, snapshot: Iterable[Mapping[str, Any]]) -> None:
        """Tell where jobs run, riders after the others."""
        if self._nodes is None:
            return
        running = (row for row in snapshot if row["state"] == LiveState.RUNNING)
        for row in sorted(running, key=lambda row: row["host_job_id"] is not None):
            self._nodes.started(self._job(row), row["gpus"])


def fitting(plan: Plan, idle_gpus: int, *, is_lending: bool) -> Plan:
    """A plan cut down to what the idle GPUs hold.

    Args:
        plan: what the policy decided.
        idle_gpus: GPUs that are idle before guests are sent back.
        is_lending: False drops starts of guests: the operator's kill switch.
    """
    room = idle_gpus + sum(job.num_gpus for job in plan.send_backs)
    starts: list[Start] = []
    for start in plan.starts:
        if start.is_guest and not is_lending:
            continue
        if start.job.num_gpus > room:
            break  # what comes after a job that has to wait must not overtake it
        room -= start.job.num_gpus
        starts.append(start)
    fitted = replace(plan, starts=tuple(starts))
    own = sum(not start.is_guest for start in plan.starts)
    return fitted if is_lending or len(starts) < own else _without_turns(fitted, room)


def _without_turns(plan: Plan, room: int) -> Plan:
    """A plan that lends nothing, whose late jobs take the GPUs of guests that came before them.

    Where more jobs wait than are late, the others are waited for: GPUs are kept for them.
    """
    if not plan.late or len(plan.holds) > len(plan.late):
        return plan
    late, holds, starts = list(plan.late), list(plan.holds), list(plan.starts)
    for job in plan.late:
        if job.num_gpus <= room:
            room -= job.num_gpus
            starts.append(Start(job, False))
            late.remove(job)
            hold = Hold(job.pool, job.num_gpus)
            if hold in holds:
                holds.remove(hold)
    return replace(plan, starts=tuple(starts), late=tuple(late), holds=tuple(holds))


def as_answer(plan: Plan) -> dict[str, Any]:
    """A plan as plain data: ids instead of jobs."""
    return {
        "starts": [{"job_id": job.job_id, "is_guest": is_guest} for job, is_guest in plan.starts],
        "send_backs": [job.job_id for job in plan.send_backs],
        "conversions": [job.job_id for job in plan.conversions],
        "holds": [
            {"pool": hold.pool, "num_gpus": hold.num_gpus, "until_s": hold.until_s} for hold in plan.holds
        ],
    }


def _train(known: Material, quotas: dict[str, int], nodes: NodeKeeper | None) -> Trained:
    row = known.epoch
    quotas = dict(sorted(quotas.items()))  # as in a replay: in which order pools were named decides nothing
    spec = POLICIES[row.policy]
    common, own = split_settings(row.settings)
    choice = choose(row.policy, spec, common, may_see_truth=False)
    all_requeueable = False
    if any(one.name == "requeueable" for one in fields(spec.settings)):
        own = {"requeueable": RECORD_DECIDES, **own}
        all_requeueable = parse_settings(row.policy, spec.settings, own).requeueable >= 1.0
        if all_requeueable:
            own["requeueable"] = RECORD_DECIDES  # what the record says is then replaced, see `LiveDesk`
    training = material.training_of(known, quotas, choice.retrain_every_s)
    folder = folder_of(os.environ)
    key = "" if folder is None else key_of(choice, training, known.frame, known.ended)
    forecasters = kept_or_made(folder, key, choice, training, lambda: build(choice, training))
    running = {
        str(job["job_id"]): job["own_from_s"] is not None
        for job in row.snapshot
        if job["state"] == LiveState.RUNNING
    }
    context = PolicyContext(
        quotas, forecasters.lives, forecasters.demand, running=running, nodes=nodes, is_live=True
    )
    in_force = parse_settings(row.policy, spec.settings, own)
    policy, owes = spec.build(context, in_force), options_of(spec, in_force)
    settings = {one.name: getattr(in_force, one.name) for one in fields(in_force)} | choice.as_settings()
    return Trained(policy, spec, choice, forecasters, training, running, all_requeueable, owes, settings, key)


RECORD_DECIDES: Final = "0.5"
"""Live, a job is requeueable if its record or its pool says so (`requeue_u` 0), else it is not."""
