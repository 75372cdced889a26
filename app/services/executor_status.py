"""Observe: what an executor says of its node now. It keeps the node's lease, and shows what really runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlmodel import Session

from app.clock import Clock
from app.services import push, walltime
from app.services.durable import Runs
from app.services.executors import Executor, StaleSession, request_replan, require_session
from app.services.placement_ends import Ends, is_over, runs_on
from app.store import executors as store
from app.store.engine import lock_cluster
from app.store.tables import ExecutorRow, PlacementRow

_LIVE: Final = ("launching", "running", "paused", "stopping")


@dataclass(frozen=True, slots=True)
class Status:
    """What an executor says.

    Attributes:
        session: in which it says so.
        epoch, generation: of the document that it has seen last.
        is_accepted: whether that document is in force on the node.
        refusals: else, why not; each has `placement_id`, `reason` and `message`.
        placements: what runs or ended there; each has `placement_id` and `state`.
        devices, capabilities: the GPUs and what can be enforced.
    """

    session: int
    epoch: int
    generation: int
    is_accepted: bool
    refusals: Sequence[Mapping[str, Any]]
    placements: Sequence[Mapping[str, Any]]
    devices: Sequence[Mapping[str, Any]]
    capabilities: Sequence[Mapping[str, Any]]


def take(
    session: Session, who: Executor, status: Status, *, lease_s: float, clock: Clock, runs: Runs | None
) -> None:
    """Keep what an executor says, and its node's lease.

    What changes nothing for any placement leaves the cluster unlocked: a thousand nodes say so every few
    seconds, and decisions should not have to wait for them.

    Raises:
        StaleSession: if the session is over, or the node is another by now.
        NotAllowed: if the executor has been revoked.
    """
    cluster = None
    if _Comparison(session, who, status).says_something:
        cluster = lock_cluster(session, who.cluster)
    row = store.locked_executor(session, who.executor_id)
    require_session(row, status.session)
    node = store.node(session, who.cluster, who.node)
    if node is None or not node.gpu_uuids:
        raise StaleSession  # the inventory has changed under it: what it found has to be compared again
    if row is not None:
        _keep(row, status)
        row.lease_until = walltime.later(clock, lease_s)
        row.status_at = clock.now()
    session.flush()
    if cluster is None:
        return
    comparison = _Comparison(session, who, status)
    comparison.note()
    session.flush()
    ends = Ends(session, cluster, clock)
    for placement in comparison.gone:
        ends.gone(placement)
    for placement, reason in comparison.refused:
        ends.refused(placement, reason, None)
    if ends.nodes:
        push.publish(session, who.cluster, clock, nodes=ends.nodes)
    if ends.num_facts:
        request_replan(session, runs, cluster)


def _keep(row: ExecutorRow, status: Status) -> None:
    row.observed_epoch, row.observed_generation = status.epoch, status.generation
    row.devices = [dict(item) for item in status.devices]
    row.capabilities = [dict(item) for item in status.capabilities]
    row.refusals = [dict(item) for item in status.refusals]


class _Comparison:
    """A status beside what we know.

    Attributes:
        news: placements of which it says something new, and what.
        gone: placements that are no longer wanted and that it knows of no more.
        refused: placements that keep the whole document from being accepted, and why.
    """

    def __init__(self, session: Session, who: Executor, status: Status) -> None:
        told = {str(item["placement_id"]): item for item in status.placements}
        rows = {row.placement_id: row for row in store.open_on(session, who.cluster, who.node)}
        rows |= store.placements(session, who.cluster, who.node, told)
        self.news = [
            (row, observed)
            for name, row in rows.items()
            if name in told and (observed := _observed(row, told[name])) is not None
        ]
        alive = {name for name, item in told.items() if item["state"] in _LIVE}
        current = store.generation(session, who.cluster, who.node)
        is_current = current is not None and status.generation >= current
        # Only an executor that has our last word in force can be taken at its word that nothing is left.
        self.gone = [
            row
            for name, row in rows.items()
            if is_current
            and status.is_accepted
            and not row.is_wanted
            and row.ended_at is None
            and name not in alive
        ]
        # What runs already is not given back because of something new beside it.
        self.refused = [
            (rows[name], reason)
            for name, reason in _reasons(status)
            if is_current and name in rows and rows[name].is_wanted and name not in alive
        ]

    @property
    def says_something(self) -> bool:
        """Whether it changes anything for any placement."""
        return bool(self.news or self.gone or self.refused)

    def note(self) -> None:
        """Keep what is new."""
        for row, observed in self.news:
            row.observed = observed
            if observed["state"] in _LIVE:
                runs_on(row)


def _observed(row: PlacementRow, told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is to be kept of a placement; None if that is known already, or it has ended."""
    if is_over(row):
        return None
    before = row.observed or {}
    now = {name: value for name, value in told.items() if name not in ("placement_id", "job_id")}
    is_known = before == now and not (row.ended_at is not None and now["state"] in _LIVE)
    return None if is_known else now


def _reasons(status: Status) -> list[tuple[str, str]]:
    if status.is_accepted:
        return []
    return [
        (str(item["placement_id"]), f"{item['reason']}: {item['message']}")
        for item in status.refusals
        if item["placement_id"] is not None
    ]
