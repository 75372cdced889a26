"""When keys were last used: noted in memory, written once a minute, so that no request waits for it."""

import threading
from datetime import datetime
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.clock import Clock
from app.store import keys
from app.store.engine import transaction

WRITTEN_EVERY_S: Final = 60.0

_log = structlog.get_logger(__name__)


class KeyUse:
    """Notes of this process. A process that dies loses the last minute of them, and nothing else."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last_at: dict[str, datetime] = {}
        self._engine: Engine | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, engine: Engine) -> None:
        """Write to this database from now on, on a thread of its own."""
        self._engine = engine
        self._ending.clear()
        self._thread = threading.Thread(target=self._write_now_and_then, name="key-use", daemon=True)
        self._thread.start()

    def note(self, key_id: str) -> None:
        """A key is used now."""
        with self._lock:
            self._last_at[key_id] = self._clock.now()

    def write(self) -> None:
        """Write what has been noted; if the database is away it is kept for the next time."""
        with self._lock:
            noted, self._last_at = self._last_at, {}
        if not noted or self._engine is None:
            return
        try:
            with transaction(self._engine) as session:
                keys.used(session, noted)
        except SQLAlchemyError as error:
            _log.warning("last uses of keys could not be written", error=str(error))
            with self._lock:
                self._last_at = noted | self._last_at

    def close(self) -> None:
        """Write the rest, and end."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write_now_and_then(self) -> None:
        while not self._ending.wait(WRITTEN_EVERY_S):
            self.write()
        self.write()
