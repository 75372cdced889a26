"""Hands runs to DBOS, and takes up what gone workers and cancellations have left behind.

Our row says what is wanted of a run, DBOS says where its workflow is, and this brings the two together. All
of it may be done by several workers at once and any number of times: handing over goes by the run's id, and
a workflow is resumed while its run's row is locked and only if its executor is gone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Final

import structlog
from dbos import DBOSClient, EnqueueOptions, WorkflowStatus
from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.runs.durable import APPLICATION, RUNNING, WAITING
from app.runs.kinds import Kind
from app.runs.leases import LeaseWatch
from app.store import runs as store
from app.store.engine import reading, transaction
from app.store.tables import RunRow, RunStatus

_FORGOTTEN_AT_ONCE: Final = 100
_ENDED_ELSEWHERE: Final = "the workflow was ended from outside; ask for the run again"

_log = structlog.get_logger(__name__)


class Sweeper:
    """One worker's hand in keeping rows and workflows together."""

    def __init__(
        self,
        engine: Engine,
        client: DBOSClient,
        kinds: Mapping[str, Kind],
        clock: Clock,
        worker_id: str,
        *,
        lease_s: float,
    ) -> None:
        self._engine = engine
        self._client = client
        self._kinds = kinds
        self._clock = clock
        self._worker_id = worker_id
        self._version = version(APPLICATION)
        self._handed: set[str] = set()
        self._watch = LeaseWatch(lease_s)

    def hand_over_new(self) -> None:
        """Hand over queued runs that have not been seen before."""
        with reading(self._engine) as session:
            waiting = self._known(store.queued(session))
        new = [run for run in waiting if run.run_id not in self._handed]
        self._hand_over(new)
        self._handed = {run.run_id for run in waiting}

    def settle(self, now: datetime, active: Callable[[], set[str]]) -> None:
        """Take up what gone workers have left behind and end what was cancelled.

        Args:
            now: on the clock of the workers' leases.
            active: which runs this worker is carrying out.
        """
        self._requeue_dropped(active)
        self._release_lost(now)
        with reading(self._engine) as session:
            waiting = self._known(store.queued(session))
        self._hand_over(waiting)
        self._end_cancelled()

    def forget_old(self, before: datetime) -> None:
        """Remove workflows that ended long ago; runs themselves stay."""
        old = self._client.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED"],
            completed_before=before.isoformat(),
            load_input=False,
            load_output=False,
            limit=_FORGOTTEN_AT_ONCE,
        )
        if old:
            self._client.delete_workflows([workflow.workflow_id for workflow in old])

    def _requeue_dropped(self, active: Callable[[], set[str]]) -> None:
        """Runs that are said to be ours and that nothing here works on: their end could not be written."""
        with reading(self._engine) as session:
            said = store.held_by(session, self._worker_id)
        dropped = said - active()  # looked at second: what has begun since is in neither
        if dropped:
            with transaction(self._engine) as session:
                num_queued = store.let_go(session, dropped, self._worker_id, self._clock.now())
            _log.warning("runs were dropped", worker=self._worker_id, runs=num_queued)

    def _release_lost(self, now: datetime) -> None:
        with reading(self._engine) as session:
            silent = self._watch.silent(store.leases(session), now)
        with transaction(self._engine) as session:
            for worker_id in {*store.lapsed_among(session, silent), *store.orphaned(session)}:
                released = store.release(session, worker_id, self._clock.now())
                _log.warning("worker is gone", worker=worker_id, runs=released)

    def _known(self, waiting: Sequence[RunRow]) -> list[RunRow]:
        return [run for run in waiting if run.kind in self._kinds]

    def _hand_over(self, waiting: Sequence[RunRow]) -> None:
        if not waiting:
            return
        workflows = self._workflows([run.run_id for run in waiting])
        with reading(self._engine) as session:
            alive = store.live_workers(session)
        if self._worker_id not in alive:
            return  # given up by the others: it is not for us any more
        for run in waiting:
            workflow = workflows.get(run.run_id)
            if workflow is None:
                self._enqueue(run)
            elif not self._is_under_way(workflow, alive):
                self._take_up(run.run_id)

    def _take_up(self, run_id: str) -> None:
        """Go on with a run whose workflow stands still; looked at again now that nobody else can do so."""
        with transaction(self._engine) as session:
            run = store.lock(session, run_id)
            if run is None or run.status != RunStatus.QUEUED:
                return
            workflow = self._workflows([run_id]).get(run_id)
            if workflow is None or self._is_under_way(workflow, store.live_workers(session)):
                return
            if workflow.status in (WAITING, RUNNING):
                self._resume(run, workflow)
            else:
                self._adopt(session, run, workflow)

    def _resume(self, run: RunRow, workflow: WorkflowStatus) -> None:
        _log.info("run is taken up", run_id=run.run_id, left_by=workflow.executor_id)
        if workflow.app_version in (None, self._version):
            self._client.resume_workflow(run.run_id, queue_name=self._kinds[run.kind].queue.value)
        else:  # begun by another version, whose steps need not be ours: from the start
            self._client.delete_workflow(run.run_id)
            self._enqueue(run)

    def _adopt(self, session: Session, run: RunRow, workflow: WorkflowStatus) -> None:
        """The workflow is over, its worker did not come to say so."""
        error = None if workflow.status == "SUCCESS" else str(workflow.error or _ENDED_ELSEWHERE)
        store.adopt(session, run, error, self._clock.now())

    def _is_under_way(self, workflow: WorkflowStatus, alive: Collection[str]) -> bool:
        """Whether it will go on by itself: it waits in a queue for our version, or a live worker has it."""
        if workflow.status == WAITING:
            return workflow.app_version in (None, self._version)
        return workflow.status == RUNNING and workflow.executor_id in alive

    def _enqueue(self, run: RunRow) -> None:
        """Into the run's queue: of one kind and cluster one at a time where that is asked for."""
        kind = self._kinds[run.kind]
        options: EnqueueOptions = {
            "workflow_name": run.kind,
            "workflow_id": run.run_id,
            "queue_name": kind.queue.value,
            "queue_partition_key": f"{run.kind}/{run.cluster if kind.is_alone else run.run_id}",
        }
        self._client.enqueue(options, run.run_id)

    def _end_cancelled(self) -> None:
        """Cancel the workflows of cancelled runs, but for those that a live worker is about to end itself."""
        open_ones = self._client.list_workflows(
            status=[WAITING, RUNNING], load_input=False, load_output=False, limit=store.MAX_QUEUED_AT_ONCE
        )
        if not open_ones:
            return
        with reading(self._engine) as session:
            alive = store.live_workers(session)
            cancelled = store.cancelled_among(session, [workflow.workflow_id for workflow in open_ones])
        for workflow in open_ones:
            is_carried_out = workflow.status == RUNNING and workflow.executor_id in alive
            if workflow.workflow_id in cancelled and not is_carried_out:
                self._client.cancel_workflow(workflow.workflow_id)

    def _workflows(self, run_ids: list[str]) -> dict[str, WorkflowStatus]:
        found = self._client.list_workflows(workflow_ids=run_ids, load_input=False)
        return {workflow.workflow_id: workflow for workflow in found}
