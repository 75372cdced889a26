"""Actions of lending that somebody reviews: proposed, accepted or rejected, done or withdrawn.

In a cluster whose mode is advise a decision gives out what needs no review (own starts), and of lending
what has been accepted. What is accepted is written into the log with the question, so the decision can be
derived again from the log alone (`app.children.review`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict, UnknownResource
from app.services.clusters import require
from app.store import live
from app.store import modes as store
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ActionKind, ActionRow, ActionStatus, ClusterRow, JobRow, LiveState, Mode

Json = dict[str, Any]
_Key = tuple[str, str, int]

_OVER: Final = (LiveState.ENDED, LiveState.CANCELLED)


def accepted(session: Session, cluster: ClusterRow) -> Json | None:
    """What a decision may give out of lending; None where nobody reviews."""
    if cluster.mode != Mode.ADVISE:
        return None
    found = [row for row in store.open_actions(session, cluster.name) if row.status == ActionStatus.ACCEPTED]
    return {
        "starts": [row.job_id for row in found if row.kind == ActionKind.START],
        "send_backs": [row.job_id for row in found if row.kind == ActionKind.SEND_BACK],
        "holds": [[row.pool, row.num_gpus] for row in found if row.kind == ActionKind.HOLD],
    }


def note(
    session: Session, cluster: ClusterRow, proposed: Sequence[Mapping[str, Any]], seq: int, clock: Clock
) -> None:
    """Note what a decision proposes; the caller holds the cluster's lock.

    What was open and is proposed again stays one row. What is not proposed any more is done, where it was
    accepted and reality says so, and else withdrawn. What was rejected comes as a new row.

    Args:
        session: an open transaction.
        cluster: the locked row.
        proposed: as `app.children.review` says it.
        seq: the decision's entry in the log.
        clock: ours.
    """
    now = clock.now()
    known = {_key_of(row): row for row in store.open_actions(session, cluster.name)}
    number = store.next_action_number(session, cluster.name)
    for one in proposed:
        key = _key(one)
        row = known.pop(key, None)
        if row is None:
            row = ActionRow(
                cluster=cluster.name,
                number=number,
                kind=one["kind"],
                job_id=one["job_id"],
                pool=one["pool"],
                num_gpus=one["num_gpus"],
                seq=seq,
                last_seq=seq,
                proposed_at=now,
            )
            number += 1
            session.add(row)
            continue
        row.last_seq, row.times = seq, row.times + 1
        if row.status == ActionStatus.ACCEPTED and one["is_given_out"] and row.answered_seq is None:
            row.answered_seq = seq
    _close(session, cluster, list(known.values()), clock)
    session.flush()


def _close(session: Session, cluster: ClusterRow, rows: Sequence[ActionRow], clock: Clock) -> None:
    jobs = live.jobs_by_id(session, cluster.name, (row.job_id for row in rows if row.job_id is not None))
    for row in rows:
        is_done = row.answered_seq is not None and _has_happened(row, jobs.get(row.job_id or ""))
        row.status = (ActionStatus.DONE if is_done else ActionStatus.WITHDRAWN).value
        row.closed_at = clock.now()


def _has_happened(row: ActionRow, job: JobRow | None) -> bool:
    if row.kind == ActionKind.HOLD:
        return True  # it was kept as long as it was wanted
    if job is None:
        return False
    if row.kind == ActionKind.START:
        return job.was_guest
    return job.state == LiveState.WAITING or job.state in _OVER


def review(
    engine: Engine, name: str, number: int, *, is_accepted: bool, reviewer: str, clock: Clock
) -> ActionRow:
    """Accept or reject an action. It is given out by the next decision that still proposes it.

    Raises:
        UnknownCluster: if there is no cluster of that name.
        UnknownResource: if it has no such action.
        Conflict: if the action waits for nobody's word (any more).
    """
    with transaction(engine) as session:
        cluster = lock_cluster(session, name)
        row = store.action(session, name, number)
        if row is None:
            raise UnknownResource(f"cluster {name} has no action {number}")
        if row.status != ActionStatus.PROPOSED:
            raise Conflict(f"action {number} of cluster {name} is {row.status}: there is nothing to review")
        if cluster.mode != Mode.ADVISE:
            raise Conflict(f"cluster {name} is in mode {cluster.mode}: nobody reviews its actions")
        row.status = (ActionStatus.ACCEPTED if is_accepted else ActionStatus.REJECTED).value
        row.reviewed_by, row.reviewed_at = reviewer[:255], clock.now()
        if not is_accepted:
            row.closed_at = clock.now()
        return row


def page(engine: Engine, name: str, *, status: str | None, after: int, limit: int) -> Sequence[ActionRow]:
    """Actions by number, those after `after`.

    Raises:
        UnknownCluster: if there is no cluster of that name.
    """
    with reading(engine) as session:
        require(session, name)
        return store.actions(session, name, status=status, after=after, limit=limit)


def get(engine: Engine, name: str, number: int) -> ActionRow:
    """An action.

    Raises:
        UnknownResource: if there is none of that number.
    """
    with reading(engine) as session:
        require(session, name)
        row = store.action(session, name, number)
    if row is None:
        raise UnknownResource(f"cluster {name} has no action {number}")
    return row


def _key(one: Mapping[str, Any]) -> _Key:
    if one["job_id"] is not None:
        return one["kind"], one["job_id"], 0
    return one["kind"], one["pool"], int(one["num_gpus"])


def _key_of(row: ActionRow) -> _Key:
    return _key({"kind": row.kind, "job_id": row.job_id, "pool": row.pool, "num_gpus": row.num_gpus})
