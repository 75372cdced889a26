"""Explanations: why jobs wait, why GPUs are held, why guests are sent back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from app.api.auth import require
from app.api.clusters import ClusterPath
from app.api.deps import EngineDep
from app.api.forecasts import AdvisersDep
from app.schemas import explanations as schemas
from app.schemas.base import MAX_NAME, MAX_NUMBER
from app.services import explanations
from app.services.explanations import JobExplained
from app.services.times import to_instant
from app.store.tables import ClusterRow

router = APIRouter(
    prefix="/v1/clusters/{cluster}", tags=["explanations"], dependencies=[Depends(require("read"))]
)

JobPath = Annotated[str, Path(min_length=1, max_length=MAX_NAME)]


@router.get("/jobs/{job_id}/explanation", summary="Why a job waits, or runs as it does")
def explain_job(
    cluster: ClusterPath, job_id: JobPath, engine: EngineDep, advisers: AdvisersDep
) -> schemas.JobExplanationOut:
    """One reason, its evidence, and what would change it, as of the latest decision and as if that were done.

    Each change is found by trying it. `latest` is when its own lane reaches it.
    """
    found = explanations.of_job(engine, advisers, cluster, job_id)
    row, said = found.cluster, found.said
    kind: Any = said["kind"] if said["kind"] != "unknown" else "not-decided-yet"
    none = "it has come after the latest decision: ask for another, then it is explained"
    return schemas.JobExplanationOut(
        job_id=job_id,
        pool=found.job.pool,
        num_gpus=found.job.num_gpus,
        kind=kind,
        why=said.get("why"),
        text=said.get("text", none),
        evidence=said.get("evidence", {}),
        ahead=said.get("ahead"),
        changes=said.get("changes", []),
        earliest=_instant(row, said.get("earliest_s")),
        latest=_instant(row, said.get("latest_s")),
        dropped=found.dropped,
        sent_back=_sent_back(found),
        seq=found.decision.seq,
        epoch=found.decision.epoch,
        at=to_instant(row, found.decision.at_s),
    )


@router.get("/explanations", summary="Why jobs wait")
def explain_waiting(
    cluster: ClusterPath,
    engine: EngineDep,
    advisers: AdvisersDep,
    after: Annotated[str, Query(max_length=MAX_NAME, description="the page before's `next_after`")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> schemas.ExplanationsOut:
    """All that wait, by (submit, id), as of the latest decision, as if it had been carried out."""
    found = explanations.of_waiting(engine, advisers, cluster)
    row, said, decision = found.cluster, found.said, found.decision
    ids = [one["job_id"] for one in said["jobs"]]
    first = ids.index(after) + 1 if after in ids else 0
    page = said["jobs"][first : first + limit]
    same = ("policy", "settings", "idle_gpus", "running", "waiting", "by_reason")
    return schemas.ExplanationsOut(
        seq=decision.seq,
        epoch=decision.epoch,
        at=to_instant(row, decision.at_s),
        **{name: said[name] for name in same},
        items=[_waiting(row, one) for one in page],
        next_after=ids[first + limit - 1] if first + limit < len(ids) else None,
    )


@router.get("/decisions/{seq}/explanation", summary="Why a decision holds GPUs and sends guests back")
def explain_decision(
    cluster: ClusterPath,
    seq: Annotated[int, Path(ge=1, le=MAX_NUMBER)],
    engine: EngineDep,
    advisers: AdvisersDep,
) -> schemas.DecisionExplanationOut:
    """For whom, with numbers that can be worked out from the log. One long past takes as long as training."""
    found = explanations.of_decision(engine, advisers, cluster, seq)
    row, said = found.cluster, found.said
    return schemas.DecisionExplanationOut(
        seq=seq,
        epoch=found.decision.epoch,
        at=to_instant(row, found.decision.at_s),
        idle_gpus=said["idle_gpus"],
        idle_after_gpus=said["idle_after_gpus"],
        holds=[
            schemas.HoldExplanationOut(until=_instant(row, one["until_s"]), **_without(one, "until_s"))
            for one in said["holds"]
        ],
        send_backs=[schemas.SendBackExplanationOut(**one) for one in said["send_backs"]],
    )


def _waiting(cluster: ClusterRow, said: Mapping[str, Any]) -> schemas.WaitingOut:
    return schemas.WaitingOut(
        submit=to_instant(cluster, said["submit_s"]),
        earliest=_instant(cluster, said["earliest_s"]),
        latest=_instant(cluster, said["latest_s"]),
        **_without(said, "submit_s", "earliest_s", "latest_s"),
    )


def _sent_back(found: JobExplained) -> schemas.SentBackOut | None:
    if found.sent_back is None:
        return None
    return schemas.SentBackOut(
        at=to_instant(found.cluster, found.sent_back.at_s),
        decision_seq=found.sent_back.decision_seq,
        reason=found.sent_back.reason,
        lost_s=found.job.lost_s,
    )


def _without(said: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in names}


def _instant(cluster: ClusterRow, seconds: float | None) -> datetime | None:
    return None if seconds is None else to_instant(cluster, seconds)
