"""Observe: what executors tell of, once each, turned into facts of the cluster's log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlmodel import Session

from app.clock import Clock
from app.services import push, walltime
from app.services.durable import Runs
from app.services.executors import Executor, request_replan, require_session
from app.services.placement_ends import End, Ends, is_over, runs_on
from app.store import executors as store
from app.store.engine import lock_cluster
from app.store.tables import ExecutorEventRow, PlacementRow


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened on a node.

    Attributes:
        event_id: the sender's name for it; told again, it counts once.
        kind: what.
        at: when, on the node's wall clock.
        placement_id, job_id: to which placement of which job; None where it concerns the node.
        data: what else is to be said.
    """

    event_id: str
    kind: str
    at: datetime
    placement_id: str | None = None
    job_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """Its name in the cluster's log."""
        return f"executor:{self.event_id}"


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of the events of one call."""

    accepted: int
    duplicates: int


def take(
    session: Session,
    who: Executor,
    session_number: int,
    events: Sequence[Event],
    *,
    clock: Clock,
    runs: Runs | None,
) -> Taken:
    """Take events in, all or none: those told before are counted and left alone.

    Raises:
        StaleSession: if the session is over.
        NotAllowed: if the executor has been revoked.
    """
    cluster = lock_cluster(session, who.cluster)
    require_session(store.locked_executor(session, who.executor_id), session_number)
    told = store.known_events(session, (event.event_id for event in events))
    placements = store.placements(
        session, who.cluster, who.node, (event.placement_id for event in events if event.placement_id)
    )
    ends = Ends(session, cluster, clock)
    accepted = 0
    for event in events:
        if event.event_id in told:
            continue
        told.add(event.event_id)
        accepted += 1
        session.add(_row(event, who, clock))
        # A placement of another node, or of none, is somebody's mistake: it is kept and changes nothing.
        placement = placements.get(event.placement_id or "")
        handle = _HANDLERS.get(event.kind)
        if placement is not None and handle is not None:
            handle(ends, event, placement)
    session.flush()
    if ends.nodes:
        push.publish(session, who.cluster, clock, nodes=ends.nodes)
    if ends.num_facts:
        request_replan(session, runs, cluster)
    return Taken(accepted, len(events) - accepted)


def _row(event: Event, who: Executor, clock: Clock) -> ExecutorEventRow:
    return ExecutorEventRow(
        event_id=event.event_id,
        executor_id=who.executor_id,
        cluster=who.cluster,
        kind=event.kind,
        at=walltime.on_clock(clock, event.at),
        placement_id=event.placement_id,
        job_id=event.job_id,
        data=dict(event.data),
        recorded_at=clock.now(),
    )


def _runs(ends: Ends, event: Event, placement: PlacementRow) -> None:
    del ends
    if not is_over(placement):
        is_adopted = event.kind == "placement_adopted"
        placement.observed = {"state": "running", **(placement.observed or {}), "adopted": is_adopted}
        runs_on(placement)


def _ended(ends: Ends, event: Event, placement: PlacementRow) -> None:
    data = event.data
    end = End(
        event.at,
        exit_code=data.get("exit_code"),
        signal=data.get("signal"),
        reason=str(data.get("reason") or "exited"),
        duration_s=data.get("duration_s"),
    )
    ends.ended(placement, end, event.uid)


def _lost(ends: Ends, event: Event, placement: PlacementRow) -> None:
    ends.ended(placement, End(event.at, reason=str(event.data.get("reason") or "lost")), event.uid)


def _refused(ends: Ends, event: Event, placement: PlacementRow) -> None:
    words = (event.data.get("reason"), event.data.get("message"))
    ends.refused(placement, ": ".join(str(word) for word in words if word) or "no reason given", event.uid)


_HANDLERS: Final[Mapping[str, Callable[[Ends, Event, PlacementRow], None]]] = {
    "placement_started": _runs,
    "placement_adopted": _runs,
    "placement_ended": _ended,
    "placement_lost": _lost,
    "placement_refused": _refused,
}
