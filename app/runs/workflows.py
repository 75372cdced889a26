"""How a run is carried out: load -> child -> publish, each surviving the death of the worker.

The workflow's state holds the run's id and the small request only. Runs are rows of ours; what is written
to one is written only as long as it is this worker's, so a worker that was given up for dead and comes back
changes nothing.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from dbos import DBOS, DBOSClient
from dbos import error as dbos_errors
from sqlalchemy import Engine

from app.clock import Clock
from app.runs.children import run_child
from app.runs.errors import RunCancelledError, RunStoppedError, WorkerStoppingError
from app.runs.kinds import Assignment, Kind
from app.services.warm import DATABASE_URL, WarmChildren
from app.store import runs as store
from app.store.engine import reading, transaction
from app.store.tables import Json, RunStatus
from domain.errors import AntecastError

_PROGRESS_EVERY_S: Final = 1.0
_PROGRESS_STEPS: Final = 100
"""So often at most a run says how far it is: its events stay few however long it takes."""
_LOOK_EVERY_S: Final = 0.25
_MAX_ERROR_CHARACTERS: Final = 4_000

_log = structlog.get_logger(__name__)


@dataclass
class Carrier:
    """Carries runs out on behalf of one worker.

    Attributes:
        engine: the database.
        clock: ours.
        worker_id: the worker, which is also DBOS's executor.
        kinds: what it can do, by name.
        environment: variables for child processes.
        client: for cancelling a workflow from inside it.
        stopping: set when the worker is about to end: children are killed, their runs left to others.
    """

    engine: Engine
    clock: Clock
    worker_id: str
    kinds: Mapping[str, Kind]
    environment: Mapping[str, str] = field(repr=False)
    client: DBOSClient
    stopping: threading.Event = field(default_factory=threading.Event)
    _active: set[str] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _warm_children: dict[str, WarmChildren] = field(default_factory=dict)

    def register(self) -> None:
        """Tell DBOS of one workflow per kind; before its launch."""
        for name in self.kinds:
            DBOS.workflow(name=name)(self._workflow())

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is being carried out; says whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._active, timeout_s)

    def active(self) -> set[str]:
        """Runs that are being carried out here."""
        with self._changed:
            return set(self._active)

    def close(self) -> None:
        """End the children that stay."""
        for children in self._warm_children.values():
            children.close()

    def _warm(self, module: str) -> WarmChildren:
        with self._changed:
            if module not in self._warm_children:
                self._warm_children[module] = WarmChildren(module, self.environment[DATABASE_URL])
            return self._warm_children[module]

    def _workflow(self) -> Callable[[str], None]:
        def carry_out(run_id: str) -> None:
            with self._counted(run_id), structlog.contextvars.bound_contextvars(run_id=run_id):
                self._carry_out(run_id)

        return carry_out

    def _carry_out(self, run_id: str) -> None:
        best = Best()
        try:
            assignment, kind = self._begin(run_id)
            if kind is None:
                return
            request: Json = DBOS.run_step({"name": "load"}, kind.load, assignment)
            self._check(run_id)
            DBOS.run_step({"name": "work"}, self._work, kind, assignment, request, best)
        except RunCancelledError as error:
            with transaction(self.engine) as session:
                store.wind_up(session, run_id, self.worker_id, best.result, self.clock.now())
            self.client.cancel_workflow(run_id)
            raise dbos_errors.DBOSWorkflowCancelledError(f"run {run_id} was cancelled") from error
        except Exception as error:
            _log.warning("run failed", error=str(error), exc_info=not _is_expected(error))
            with transaction(self.engine) as session:
                if not store.fail(session, run_id, self.worker_id, _tell(error), self.clock.now()):
                    store.wind_up(session, run_id, self.worker_id, None, self.clock.now())
            raise
        with transaction(self.engine) as session:
            if not store.succeed(session, run_id, self.worker_id, self.clock.now()):
                store.wind_up(session, run_id, self.worker_id, best.result, self.clock.now())

    def _begin(self, run_id: str) -> tuple[Assignment, Kind | None]:
        """Make the run ours. No kind: there is nothing left to do."""
        if self.stopping.is_set():
            raise WorkerStoppingError
        with transaction(self.engine) as session:
            run = store.lock(session, run_id)
            if run is None or run.status == RunStatus.CANCELLED:
                raise RunCancelledError
            assignment = Assignment(self.engine, self.clock, run_id, run.cluster, run.arguments)
            if store.is_over(run):
                return assignment, None
            if self.worker_id not in store.live_workers(session):
                raise WorkerStoppingError  # given up by the others, who are about to take the run over
            store.begin(session, run, self.worker_id, self.clock.now())
            _log.info("run begins", kind=run.kind, cluster=run.cluster)
            return assignment, self.kinds[run.kind]

    def _work(self, kind: Kind, assignment: Assignment, request: Json, best: "Best") -> None:
        """Child and publication: one step, so that the answer is never kept with the workflow."""
        run_id = assignment.run_id
        try:
            answer = self._answer(kind, assignment, request, best)
            self._check(run_id)
            result = kind.publish(assignment, request, answer)
            best.answer = answer
            self._keep(run_id, result)
        except RunCancelledError:
            self._keep_best(kind, assignment, request, best)
            raise
        if kind.keep is not None:  # it may be cancelled before it is said to be over
            best.result = {"kept": best.about, **result}

    def _keep_best(self, kind: Kind, assignment: Assignment, request: Json, best: "Best") -> None:
        if kind.keep is not None and best.answer is not None:
            kept = kind.keep(assignment, request, best.answer)
            best.result = None if kept is None else {"kept": best.about, **kept}

    def _answer(self, kind: Kind, assignment: Assignment, request: Json, best: "Best") -> Json:
        run_id = assignment.run_id
        check = _no_more_than_every(_LOOK_EVERY_S, lambda: self._check(run_id))
        if kind.warm_module is not None and request.get("decided_seq") is not None:
            return self._warm(kind.warm_module).ask(
                assignment.cluster, request, wait_s=kind.limit_s, limit_s=kind.limit_s, check=check
            )

        def take(answer: Json, about: Json) -> None:
            best.answer, best.about = answer, about
            with transaction(self.engine) as session:
                store.tell_incumbent(session, run_id, self.worker_id, self.clock.now(), about)

        return run_child(
            kind.child,
            request,
            kind.limit_s,
            check,
            environment=self.environment,
            module=kind.module,
            progress=self._teller(run_id),
            incumbent=None if kind.keep is None else take,
        )

    def _check(self, run_id: str) -> None:
        """Raises if the run is not to go on here."""
        if self.stopping.is_set():
            raise WorkerStoppingError
        with reading(self.engine) as session:
            status = store.status_of(session, run_id)
        if status is None or status == RunStatus.CANCELLED:
            raise RunCancelledError

    def _teller(self, run_id: str) -> Callable[[float, float], None]:
        told_at_s, told_step = -_PROGRESS_EVERY_S, -1

        def tell(done: float, total: float) -> None:
            nonlocal told_at_s, told_step
            step = int(_PROGRESS_STEPS * done / total) if total > 0 else 0
            if step > told_step and time.monotonic() - told_at_s >= _PROGRESS_EVERY_S:
                told_at_s, told_step = time.monotonic(), step
                with transaction(self.engine) as session:
                    is_told = store.tell_progress(
                        session, run_id, self.worker_id, self.clock.now(), done=done, total=total
                    )
                self._require(run_id, is_kept=is_told)

        return tell

    def _keep(self, run_id: str, result: Json) -> None:
        with transaction(self.engine) as session:
            is_kept = store.keep_result(session, run_id, self.worker_id, result)
        self._require(run_id, is_kept=is_kept)

    def _require(self, run_id: str, *, is_kept: bool) -> None:
        if not is_kept:
            self._check(run_id)
            raise RunStoppedError(f"run {run_id} is another worker's by now")

    @contextmanager
    def _counted(self, run_id: str) -> Iterator[None]:
        with self._changed:
            self._active.add(run_id)
        try:
            yield
        finally:
            with self._changed:
                self._active.discard(run_id)
                self._changed.notify_all()


@dataclass
class Best:
    """What a run that is stopped could end with.

    Attributes:
        answer: the last that its child has handed out, or its whole answer; None before there is one.
        about: what it is.
        result: what was made of it once the run was cancelled.
    """

    answer: Json | None = None
    about: Json = field(default_factory=dict)
    result: Json | None = None


def _no_more_than_every(seconds: float, look: Callable[[], None]) -> Callable[[], None]:
    """`look`, called at most every so many seconds however often it is asked for."""
    looked_at_s = time.monotonic()

    def look_now_and_then() -> None:
        nonlocal looked_at_s
        if time.monotonic() - looked_at_s >= seconds:
            looked_at_s = time.monotonic()
            look()

    return look_now_and_then


def _is_expected(error: Exception) -> bool:
    return isinstance(error, AntecastError)


def _tell(error: Exception) -> str:
    """What to say to whoever asked for the run."""
    if _is_expected(error):
        return str(error)[:_MAX_ERROR_CHARACTERS]
    name: Any = getattr(error, "name", None) or type(error).__name__
    text = f"{name}: {error}; the worker's log has the details; ask for the run again once that is mended"
    return text[:_MAX_ERROR_CHARACTERS]
