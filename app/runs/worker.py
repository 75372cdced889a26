"""The worker: a process that carries runs out, as many of them beside each other as one likes.

It holds a lease that it renews every second on a thread of its own. If the lease runs out, other workers
take its runs over; a worker that finds its lease gone kills its children and ends. Clocks may jump:
see `app.runs.leases`.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import structlog
from dbos import DBOS
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.clock import Clock, SystemClock, make_clock
from app.runs import durable
from app.runs.client import RunClient
from app.runs.deliveries import Deliverer
from app.runs.kinds import Kind, Queue
from app.runs.schedule import ask_for_due_replans
from app.runs.settings import WorkerSettings
from app.runs.sweep import Sweeper
from app.runs.workflows import Carrier
from app.services import executors, observations
from app.settings import as_variables
from app.store import runs as store
from app.store.engine import make_engine, transaction, upgrade

_EVERY_S: Final = 1.0
_SHARE_OF_LEASE: Final = 0.7
_STOP_LIMIT_S: Final = 10.0
_FORGET_AFTER: Final = timedelta(days=1)

_log = structlog.get_logger(__name__)


def migrate(database_url: str) -> None:
    """Bring all tables up to date, ours and DBOS's: the one place that does."""
    upgrade(database_url)
    durable.migrate(database_url)


def make_worker_id() -> str:
    """Unique among all workers there ever were; says where it runs."""
    return f"{socket.gethostname()[:63]}-{os.getpid()}-{secrets.token_hex(4)}"


class Worker:
    """One worker. A process has one at a time: DBOS is one per process."""

    def __init__(
        self, settings: WorkerSettings, kinds: Mapping[str, Kind], *, clock: Clock | None = None
    ) -> None:
        """Nothing is opened before `run`.

        Args:
            settings: where the database is, and the limits.
            kinds: what it can do, by name.
            clock: of clusters; as the settings say where None. Leases go by the wall clock in any case.
        """
        self.worker_id = make_worker_id()
        self.stopping = threading.Event()
        self._settings = settings
        self._kinds = kinds
        self._clock = clock or make_clock(settings.clock_speed, settings.clock_origin)
        self._lease_clock = SystemClock()
        self._is_lease_lost = False

    def stop(self) -> None:
        """Let `run` return soon; may be called from anywhere, also from a signal handler."""
        self.stopping.set()

    def run(self) -> bool:
        """Work until stopped. Returns whether that was asked for; false if the lease was lost."""
        engine = make_engine(self._settings.database_url)
        client = durable.client(self._settings.database_url)
        carrier = Carrier(
            engine=engine,
            clock=self._clock,
            worker_id=self.worker_id,
            kinds=self._kinds,
            environment=_for_children(self._settings),
            client=client,
            stopping=self.stopping,
        )
        sweeper = Sweeper(
            engine, client, self._kinds, self._clock, self.worker_id, lease_s=self._settings.worker_lease_s
        )
        with transaction(engine) as session:
            now = self._lease_clock.now()
            store.enrol_worker(session, self.worker_id, now, self._settings.worker_lease_s)
        heart = threading.Thread(target=self._renew, args=(engine,), name="lease", daemon=True)
        heart.start()
        deliverer = Deliverer(engine, self._settings, self._clock)
        messenger = threading.Thread(
            target=deliverer.run, args=(self.stopping,), name="webhooks", daemon=True
        )
        messenger.start()
        try:
            self._launch(carrier)
            _log.info("worker is ready", worker=self.worker_id)
            self._loop(engine, sweeper, carrier)
        finally:
            self._shut_down(engine, carrier)
            heart.join()
            messenger.join(_STOP_LIMIT_S)  # a name that is being looked up may take longer
            client.destroy()
            engine.dispose()
        return not self._is_lease_lost

    def _launch(self, carrier: Carrier) -> None:
        for queue in Queue:
            carrier.client.register_queue(
                queue.value,
                partition_concurrency=1,
                worker_concurrency=self._settings.worker_slots,
                polling_interval_sec=self._settings.queue_poll_s,
                application_name=durable.APPLICATION,
            )
        DBOS(config=durable.config(self._settings.database_url, self.worker_id))
        carrier.register()
        DBOS.launch()

    def _loop(self, engine: Engine, sweeper: Sweeper, carrier: Carrier) -> None:
        runs = RunClient(self._settings, engine=engine, clock=self._clock)
        settled_at_s = -_EVERY_S
        while not self.stopping.wait(self._settings.queue_poll_s):
            try:
                sweeper.hand_over_new()
                if time.monotonic() - settled_at_s >= _EVERY_S:
                    settled_at_s = time.monotonic()
                    sweeper.settle(self._lease_clock.now(), carrier.active)
                    ask_for_due_replans(engine, runs, self._clock)
                    observations.ask_for_due(engine, runs, self._clock)
                    executors.sweep(engine, self._clock, runs)
                    sweeper.forget_old(self._lease_clock.now() - _FORGET_AFTER)
            except Exception:  # noqa: BLE001 - the outermost loop: what fails now is tried again
                _log.exception("the worker's round failed; it is tried again", worker=self.worker_id)

    def _renew(self, engine: Engine) -> None:
        """Renew the lease every second; give up before others would take the runs over."""
        lease_s = self._settings.worker_lease_s
        held_at_s = time.monotonic()
        while not self.stopping.wait(min(_EVERY_S, lease_s / 5)):
            began_s = time.monotonic()
            try:
                with transaction(engine) as session:
                    is_ours = store.renew(session, self.worker_id, self._lease_clock.now(), lease_s)
                held_at_s = began_s if is_ours else held_at_s - lease_s
            except SQLAlchemyError as error:
                _log.warning("the lease could not be renewed", worker=self.worker_id, error=str(error))
            if time.monotonic() - held_at_s > _SHARE_OF_LEASE * lease_s:
                _log.error("the lease is lost; the worker ends", worker=self.worker_id)
                self._is_lease_lost = True
                self.stopping.set()

    def _shut_down(self, engine: Engine, carrier: Carrier) -> None:
        """Kill the children, and leave the runs to others at once instead of when the lease runs out."""
        self.stopping.set()
        if not carrier.wait_until_idle(_STOP_LIMIT_S):
            _log.error("runs did not stop in time", worker=self.worker_id)
        carrier.close()
        DBOS.destroy(destroy_registry=True)
        if not self._is_lease_lost:
            with transaction(engine) as session:
                store.release(session, self.worker_id, self._clock.now())
        _log.info("worker has ended", worker=self.worker_id)


def _for_children(settings: WorkerSettings) -> dict[str, str]:
    """Settings that child processes need, as environment variables: a URL may hold a password."""
    origin = settings.clock_origin
    return as_variables(
        {
            "database_url": settings.database_url,
            "clock_speed": settings.clock_speed,
            "clock_origin": origin.isoformat() if origin else None,
            "models_dir": str(settings.models_dir) if settings.models_dir else None,
        }
    )
