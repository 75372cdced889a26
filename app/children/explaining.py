"""Why jobs wait, run as guests, or were sent back, by a desk brought to one decision of its log.

Everything here changes the desk: it is to be a copy (`app.children.forked`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from app.children.state import LiveDesk
from app.services.waiting import as_row, by_reason
from domain.jobs import Job
from solver.explain.answer import explain_waiting
from solver.explain.scene import Scene, no_promise
from solver.explain.words import Waiting, life_text
from solver.plan_rules import Known, Standing

_NAMED: Final = 20
"""Jobs that are listed of those ahead."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Instant:
    """A decision, and what was known right before it.

    Attributes:
        desk: has decided, and nothing is carried out.
        done: what the decision came to, as it is stored.
        before: the unfinished jobs by id, as they stood before it.
        idle_gpus: before it.
        is_lending: whether it might lend.
    """

    desk: LiveDesk
    done: Mapping[str, Any]
    before: Mapping[str, Known]
    idle_gpus: int
    is_lending: bool

    def idle_after(self) -> int:
        """GPUs that are idle once it is carried out; riders take none."""
        freed = sum(self.before[job_id].job.num_gpus for job_id in self.done["send_backs"])
        taken = sum(self.before[start["job_id"]].job.num_gpus for start in self.done["starts"])
        return self.idle_gpus + freed - taken


def at_decision(desk: LiveDesk, seq: int, done: Mapping[str, Any]) -> Instant:
    """Bring a desk to a decision of its log.

    Args:
        desk: has been told of no later entry than the one before it.
        seq: the decision's entry.
        done: what it came to, as it is stored.
    """
    desk.catch_up(seq - 1)
    before = dict(desk.counts(0).known)
    desk.answer(seq)
    idle_gpus, is_lending = desk.decided or (0, False)
    return Instant(desk, done, before, idle_gpus, is_lending)


def waiting(instant: Instant) -> Json:
    """Why each job waits once the decision is carried out, in the words of `app.services.waiting`."""
    scene, found = _explained(instant)
    desk = instant.desk
    return {
        "policy": desk.epoch.policy,
        "settings": dict(desk.trained.settings),
        "saw_truth": False,
        "at_s": desk.now_s,
        "idle_gpus": scene.state.idle_gpus,
        "running": sum(one.standing is not Standing.WAITING for one in scene.state.known.values()),
        "waiting": len(found),
        "by_reason": by_reason(found),
        "jobs": [as_row(one) for one in found],
    }


def one_job(instant: Instant, job_id: str) -> Json:
    """About one job; `kind` is `unknown` if the decision knew nothing of it.

    `waits`: with a reason, evidence, changes and when it starts; `starts`: the decision starts it; `guest`
    and `own`: it runs. `ahead`: who stands before it in its line.
    """
    starting = {start["job_id"]: start["is_guest"] for start in instant.done["starts"]}
    starting |= {rider["job_id"]: True for rider in instant.done.get("riders", ())}
    job = instant.desk.job(job_id)
    if job is None:
        return {"kind": "unknown"}
    scene, found = _explained(instant)
    said: Json = {"at_s": instant.desk.now_s, "ahead": _ahead(scene, job)}
    row = next((one for one in found if one.job.job_id == job_id), None)
    if row is not None:
        return {"kind": "waits", **as_row(row), **said}
    known = scene.state.known[job_id]
    kind = "starts" if job_id in starting else "guest" if known.standing is Standing.GUEST else "own"
    text, evidence = _of_running(scene, known, is_starting=kind == "starts")
    return {"kind": kind, "why": None, "text": text, "evidence": evidence, **said}


def decision(instant: Instant) -> Json:
    """Why the decision holds GPUs and sends guests back."""
    desk, before = instant.desk, instant.before
    started_s = dict(desk.started_s)
    own_starts = [before[one["job_id"]].job for one in instant.done["starts"] if not one["is_guest"]]
    scene = _carried_out(instant)
    due = scene.due()
    return {
        "at_s": desk.now_s,
        "idle_gpus": instant.idle_gpus,
        "idle_after_gpus": scene.state.idle_gpus,
        "holds": [_hold(hold, due, scene.state.idle_gpus) for hold in instant.done["holds"]],
        "send_backs": _send_backs(instant, started_s, own_starts, due),
    }


def _carried_out(instant: Instant) -> Scene:
    idle_gpus, desk = instant.idle_after(), instant.desk
    desk.carry_out(instant.done)
    return Scene(
        state=desk.state(idle_gpus),
        owes=desk.trained.owes,
        lends=desk.trained.spec.lends,
        started_s=desk.started_s,
        survival=desk.trained.forecasters.lives.survival,
        is_lending=instant.is_lending,
    )


def _explained(instant: Instant) -> tuple[Scene, list[Waiting]]:
    scene = _carried_out(instant)
    found = explain_waiting(instant.desk.trained.policy, scene)
    quotas = scene.state.quotas
    found += [no_promise(job, quotas.get(job.pool, 0)) for job in instant.desk.without_promise()]
    return scene, sorted(found, key=lambda one: (one.job.submit_s, one.job.job_id))


def _ahead(scene: Scene, job: Job) -> Json:
    """Who stands before a job in its line, and what its pool's own jobs use."""
    line = scene.state.lines.get(job.pool, {})
    before = list(takewhile(lambda one: one.job.job_id != job.job_id, line.values()))
    is_in_line = job.job_id in line
    before = before if is_in_line else []
    return {
        "total": len(before),
        "gpus": sum(one.job.num_gpus for one in before),
        "own_gpus": scene.state.own_gpus.get(job.pool, 0),
        "quota_gpus": scene.state.quotas.get(job.pool, 0),
        "jobs": [
            {"job_id": one.job.job_id, "num_gpus": one.job.num_gpus, "standing": one.standing.value}
            for one in before[:_NAMED]
        ],
    }


def _of_running(scene: Scene, known: Known, *, is_starting: bool) -> tuple[str, Json]:
    job, ahead = known.job, _ahead(scene, known.job)
    evidence: Json = {
        "width_gpus": job.num_gpus,
        "own_gpus": ahead["own_gpus"],
        "quota_gpus": ahead["quota_gpus"],
        "before_gpus": ahead["gpus"],
        "can_be_sent_back": float(
            known.standing is Standing.GUEST
            and scene.owes.may_send_back
            and job.is_requeueable(scene.owes.requeueable_share)
        ),
    }
    says = "the decision starts it" if is_starting else "it runs"
    if known.standing is Standing.OWN:
        return f"{says} as its pool's own: its lane has reached it", evidence
    evidence["missing_gpus"] = max(ahead["own_gpus"] + ahead["gpus"] + job.num_gpus - ahead["quota_gpus"], 0)
    text = (
        f"{says} as a guest on GPUs that are lent: pool {job.pool} uses {ahead['own_gpus']} of its "
        f"{ahead['quota_gpus']} GPUs and {ahead['gpus']} GPUs stand before it, so its own lane has no "
        "room yet"
    )
    return text, evidence


def _hold(hold: Mapping[str, Any], due: Sequence[Job], idle_gpus: int) -> Json:
    """For whom GPUs are kept: the pool's own jobs that wait although their lane has reached them."""
    jobs = [job for job in due if job.pool == hold["pool"]]
    wanted = sum(job.num_gpus for job in jobs)
    named = ", ".join(job.job_id for job in jobs[:_NAMED]) or "whoever of it comes next"
    text = (
        f"{hold['num_gpus']} GPUs are kept for pool {hold['pool']} until {named} has been served: its "
        f"lane has reached {wanted} GPUs that wait, and {idle_gpus} are idle"
    )
    return {
        "pool": hold["pool"],
        "num_gpus": hold["num_gpus"],
        "until_s": hold.get("until_s"),
        "jobs": [job.job_id for job in jobs[:_NAMED]],
        "text": text,
        "evidence": {"due_gpus": wanted, "due_jobs": len(jobs), "idle_gpus": idle_gpus},
    }


def _send_backs(
    instant: Instant, started_s: Mapping[str, float], own_starts: Sequence[Job], due: Sequence[Job]
) -> list[Json]:
    """Why each guest goes: what own jobs need beyond what is idle, and how it stands among the guests."""
    desk, gone = instant.desk, list(instant.done["send_backs"])
    owed = sum(job.num_gpus for job in (*own_starts, *due))
    freed = sum(instant.before[job_id].job.num_gpus for job_id in gone)
    owes = desk.trained.owes
    may_go = {
        job_id: desk.now_s - started_s.get(job_id, desk.now_s)
        for job_id, one in instant.before.items()
        if one.standing is Standing.GUEST and one.job.is_requeueable(owes.requeueable_share)
    }
    named = ", ".join(job.job_id for job in (*own_starts, *due)[:_NAMED])
    rows = []
    for job_id in gone:
        ran_s = desk.now_s - started_s.get(job_id, desk.now_s)
        spared = sum(other not in gone and other_s < ran_s for other, other_s in may_go.items())
        evidence = {
            "width_gpus": instant.before[job_id].job.num_gpus,
            "idle_gpus": instant.idle_gpus,
            "owed_gpus": owed,
            "missing_gpus": max(owed - instant.idle_gpus, 0),
            "freed_gpus": freed,
            "ran_s": ran_s,
            "guests_that_may_go": len(may_go),
            "spared_that_ran_less": spared,
        }
        text = (
            f"own jobs ({named}) need {owed} GPUs and {instant.idle_gpus} are idle; of {len(may_go)} guests "
            f"that may be sent back {len(gone)} go, and it has run for {life_text(max(ran_s, 0.0))}"
        )
        for_jobs = [job.job_id for job in (*own_starts, *due)[:_NAMED]]
        rows.append({"job_id": job_id, "text": text, "jobs": for_jobs, "evidence": evidence})
    return rows
