"""Rows as bodies: seconds become instants."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.schemas import live as schemas
from app.services.decide import Decision
from app.services.facts import Fact, FactKind
from app.services.observe import Recorded
from app.services.times import to_instant, to_s
from app.store.tables import ClusterRow, EpochRow, JobRow


def fact_of(cluster: ClusterRow, event: schemas.EventIn, now: datetime) -> Fact:
    """An event as a fact on the cluster's clock."""
    data: dict[str, Any] = {}
    match event.kind:
        case "submitted":
            data = _submission(cluster, event)
        case "started":
            data = {"is_guest": event.is_guest}
        case "ended":
            data = {"state": event.state, "duration_s": event.duration_s}
        case _:
            pass
    if event.reason is not None:
        data["reason"] = event.reason
    return Fact(FactKind(event.kind), to_s(cluster, event.at or now), event.job_id, data, event.uid)


def _submission(cluster: ClusterRow, event: schemas.EventIn) -> dict[str, Any]:
    if event.job is None:
        return {}
    data = event.job.model_dump(exclude={"deadline"})
    data["deadline_s"] = None if event.job.deadline is None else to_s(cluster, event.job.deadline)
    return data


def recorded(result: Recorded) -> schemas.EventsOut:
    """What became of the facts of a call."""
    return schemas.EventsOut(
        accepted=result.accepted,
        duplicates=result.duplicates,
        rejected=[
            schemas.RejectedOut(index=one.index, job_id=one.job_id, reason=one.reason)
            for one in result.rejected
        ],
    )


def answer(cluster: ClusterRow, made: Mapping[str, Any]) -> dict[str, Any]:
    """A stored answer as the fields of `AnswerOut`."""
    fields = {name: made.get(name, []) for name in schemas.AnswerOut.model_fields}
    fields["lending"] = made.get("lending")
    fields["holds"] = [
        schemas.HoldOut(
            pool=hold["pool"], num_gpus=hold["num_gpus"], until=instant(cluster, hold.get("until_s"))
        )
        for hold in made.get("holds", [])
    ]
    return fields


def decision(made: Decision) -> schemas.DecisionOut:
    """A decision."""
    cluster = made.cluster
    return schemas.DecisionOut(
        **answer(cluster, made.row.answer),
        **made.row.model_dump(include={"seq", "epoch", "idle_gpus", "took_ms"}),
        at=to_instant(cluster, made.row.at_s),
        ask_again_at=instant(cluster, made.ask_again_s),
        waits=None if made.waits is None else waits(cluster, made.waits),
        events=recorded(made.recorded),
    )


def waits(cluster: ClusterRow, said: Mapping[str, Any]) -> schemas.WaitsOut:
    """Who waits after a decision."""
    jobs = [
        schemas.WaitOut(job_id=one["job_id"], why=one["why"], until=instant(cluster, one["until_s"]))
        for one in said["jobs"]
    ]
    return schemas.WaitsOut(total=said["total"], jobs=jobs)


def job(cluster: ClusterRow, row: JobRow) -> schemas.JobOut:
    """A live job."""
    same = {
        "job_id",
        "pool",
        "num_gpus",
        "user",
        "name",
        "state",
        "end_state",
        "is_guest",
        "was_guest",
        "attempts",
        "lost_s",
        "gpus",
        "share_pct",
        "host_job_id",
    }
    return schemas.JobOut(
        **row.model_dump(include=same),
        submit=to_instant(cluster, row.submit_s),
        first_start=instant(cluster, row.first_started_s),
        start=instant(cluster, row.started_s),
        end=instant(cluster, row.ended_s),
    )


def epoch(cluster: ClusterRow, row: EpochRow) -> schemas.EpochOut:
    """An epoch."""
    return schemas.EpochOut(
        **row.model_dump(include={"number", "from_seq", "reason", "capacity_gpus", "policy", "settings"}),
        as_of=to_instant(cluster, row.at_s),
        quotas={str(pool): int(quota) for pool, quota in row.quotas},
    )


def instant(cluster: ClusterRow, seconds: float | None) -> datetime | None:
    """An instant, where there is one."""
    return None if seconds is None else to_instant(cluster, seconds)
