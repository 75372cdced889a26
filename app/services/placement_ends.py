"""Placements that end, and what follows for their jobs: a job has ended once all ranks of it have."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog
from sqlmodel import Session

from app.clock import Clock
from app.services import observe, walltime
from app.services.facts import Fact, FactKind
from app.services.times import to_s
from app.store import executors as store
from app.store.tables import ClusterRow, JobRow, LiveState, PlacementRow

SOURCE: Final = "executors"
_END: Final = "end"
_STARTED: Final = ("running", "paused", "stopping")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class End:
    """How a placement ended.

    Attributes:
        at: when, on the wall clock of its node.
        exit_code: its status; None if a signal ended it, or nobody saw it.
        signal: that ended it, if any.
        reason: exited, stopped, vanished, lost, ...
        duration_s: how long it ran, seconds of the wall clock; None if it is not known.
    """

    at: datetime
    exit_code: int | None = None
    signal: int | None = None
    reason: str = "exited"
    duration_s: float | None = None


class Ends:
    """Ends of one cluster's placements within one transaction, under the cluster's lock.

    Attributes:
        nodes: those whose document has to be made anew.
        num_facts: how many facts were recorded.
    """

    def __init__(self, session: Session, cluster: ClusterRow, clock: Clock) -> None:
        self.nodes: set[str] = set()
        self.num_facts = 0
        self._session = session
        self._cluster = cluster
        self._clock = clock

    def ended(self, row: PlacementRow, end: End, uid: str | None) -> None:
        """A placement has ended: of its own accord if it was wanted, else because we stopped it.

        Args:
            row: the placement.
            end: how.
            uid: the sender's name for this.
        """
        if is_over(row):
            return
        is_own_end = row.is_wanted
        row.observed = {
            **(row.observed or {}),
            "state": "ended",
            _END: {
                "exit_code": end.exit_code,
                "signal": end.signal,
                "reason": end.reason,
                "duration_s": end.duration_s,
                "is_own": is_own_end,
            },
        }
        self._close(row, min(walltime.on_clock(self._clock, end.at), self._clock.now()))
        ranks = self._ranks_with(row)
        if is_own_end and end.exit_code != 0:
            self._stop(ranks)
        self._settle(ranks, uid)

    def refused(self, row: PlacementRow, reason: str, uid: str | None) -> None:
        """A node cannot run a placement: a guest is given back, an own job ends as failed.

        Args:
            row: the placement.
            reason: why, for people.
            uid: the sender's name for this.
        """
        if is_over(row) or not row.is_wanted:
            return
        ranks = self._ranks_with(row)
        self._stop(ranks)
        if (row.observed or {}).get("state") not in _STARTED:
            row.observed = {**(row.observed or {}), "state": "refused"}
            self._close(row, self._clock.now())
        job = self._running_job(row)
        if job is None or not ranks:
            return
        now_s = to_s(self._cluster, self._clock.now())
        data: dict[str, Any] = {"reason": f"node {row.node} refused it: {reason}"}
        kind = FactKind.SENT_BACK
        if job.own_from_s is not None:
            kind = FactKind.ENDED
            data |= {"state": "failed", "duration_s": 0.0}
        self._record(Fact(kind, now_s, row.job_id, data, uid))

    def gone(self, row: PlacementRow) -> None:
        """A placement that is no longer wanted does not run, whether it ever did or not."""
        if row.ended_at is None and not row.is_wanted:
            row.observed = {**(row.observed or {}), "state": "ended"}
            self._close(row, self._clock.now())
            self._settle(self._ranks_with(row), None)

    def note_adopted(self, node: str, ids: Collection[str]) -> None:
        """A node has begun anew with these placements running; others that were to stop are gone."""
        adopted = store.placements(self._session, self._cluster.name, node, ids)
        for row in adopted.values():
            if not is_over(row):
                row.observed = {**(row.observed or {}), "adopted": True}
                runs_on(row)
        for row in store.open_on(self._session, self._cluster.name, node):
            if row.placement_id not in adopted:
                self.gone(row)

    def _close(self, row: PlacementRow, at: datetime) -> None:
        row.ended_at = at
        row.is_wanted = False
        self.nodes.add(row.node)
        self._session.flush()

    def _stop(self, ranks: Sequence[PlacementRow]) -> None:
        for rank in ranks:
            if rank.is_wanted:
                rank.is_wanted = False
                self.nodes.add(rank.node)
        self._session.flush()

    def _ranks_with(self, row: PlacementRow) -> Sequence[PlacementRow]:
        """All ranks of the placement's attempt; none if it is not the last one."""
        ranks = store.last_attempt(self._session, self._cluster.name, row.job_id)
        return ranks if any(rank.placement_id == row.placement_id for rank in ranks) else ()

    def _running_job(self, row: PlacementRow) -> JobRow | None:
        job = store.job(self._session, self._cluster.name, row.job_id)
        return job if job is not None and job.state == LiveState.RUNNING else None

    def _settle(self, ranks: Sequence[PlacementRow], uid: str | None) -> None:
        instants = [rank.ended_at for rank in ranks if rank.ended_at is not None]
        ends = [(rank.observed or {}).get(_END) or {} for rank in ranks]
        if not ranks or len(instants) < len(ranks) or not any(end.get("is_own") for end in ends):
            return
        job = self._running_job(ranks[0])
        if job is None:
            return
        started_s = job.started_s or 0.0
        at_s = max(to_s(self._cluster, max(instants)), started_s)
        data: dict[str, Any] = {"state": "completed", "exit_codes": [end.get("exit_code") for end in ends]}
        if any(end.get("exit_code") != 0 for end in ends):
            data |= {"state": "failed", "reason": _reason(ends)}
        spans = [float(end["duration_s"]) for end in ends if end.get("duration_s") is not None]
        if spans:
            data["duration_s"] = min(walltime.seconds_on_clock(self._clock, max(spans)), at_s - started_s)
        self._record(Fact(FactKind.ENDED, at_s, job.job_id, data, uid))

    def _record(self, fact: Fact) -> None:
        told = observe.record(self._session, self._cluster, [fact], source=SOURCE, clock=self._clock)
        self.num_facts += told.accepted
        for rejection in told.rejected:
            _log.error("fact_rejected", cluster=self._cluster.name, job=fact.job_id, reason=rejection.reason)
        self._session.flush()


def is_over(row: PlacementRow) -> bool:
    """Whether its executor has told how it ended."""
    return row.ended_at is not None and _END in (row.observed or {})


def runs_on(row: PlacementRow) -> None:
    """A placement that was given up together with its node runs still: it has to end yet."""
    if row.ended_at is not None and not is_over(row):
        row.ended_at = None


def _reason(ends: Sequence[dict[str, Any]]) -> str:
    """Of the rank that failed by itself; those that were stopped because of it come second."""
    failed = [end for end in ends if end and end.get("exit_code") != 0]
    first = next((end for end in failed if end.get("is_own")), failed[0] if failed else {})
    if first.get("signal") is not None:
        return f"signal {first['signal']}"
    if first.get("exit_code") is not None:
        return f"exit code {first['exit_code']}"
    return str(first.get("reason") or "unknown")
