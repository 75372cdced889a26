"""Between the agent and the control plane: one thread asks what is wanted, one tells how things stand.

The agent does without either. Whatever goes wrong here is logged and tried again after a while.
"""

import json
import logging
import random
import threading
from collections.abc import Callable
from typing import Any

from antecast_executor.agent import Agent
from antecast_executor.client import (
    Client,
    ControlPlaneError,
    Credentials,
    Problem,
    Session,
    StaleSession,
    Unauthorised,
)
from antecast_executor.journal import Journal

BACK_OFF_MIN_S = 1.0
BACK_OFF_MAX_S = 30.0
MAX_EVENT_BYTES = 512 << 10
_BAD_REQUEST = frozenset({400, 413, 422})
_log = logging.getLogger(__name__)


class BackOff:
    """Waits with full jitter: up to 1 s after the first failure, up to 30 s in the end."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0

    def reset(self) -> None:
        """It worked."""
        self._failures = 0

    def next_s(self) -> float:
        """It did not work: how long to wait."""
        limit_s = min(BACK_OFF_MAX_S, BACK_OFF_MIN_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        return self._rng.uniform(0.0, limit_s)


class Link:
    """Keeps a session open, brings documents to the agent and takes its reports and events away."""

    def __init__(
        self,
        client: Client,
        agent: Agent,
        journal: Journal,
        credentials: Callable[[], Credentials],
        *,
        rng: random.Random | None = None,
    ) -> None:
        """Prepare it.

        Args:
            client: to call with.
            agent: to speak for.
            journal: whose outbox is to be emptied.
            credentials: gives them, enrolling first where that has not been done.
            rng: for jitter.
        """
        self._client = client
        self._agent = agent
        self._journal = journal
        self._credentials = credentials
        # Jitter is no secret.
        self._rng = rng or random.Random()  # noqa: S311
        self._lock = threading.Lock()
        self._who: Credentials | None = None
        self._session: Session | None = None
        self._stop = threading.Event()
        self._news = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(work, wait), name=name, daemon=True)
            for name, work, wait in (("desired", self._ask, False), ("report", self._tell, True))
        ]

    def start(self) -> None:
        """Begin."""
        self._agent.on_change = self._news.set
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float = 2.0) -> None:
        """End, cutting off what is under way."""
        self._stop.set()
        self._news.set()
        self._client.close()
        for thread in self._threads:
            thread.join(wait_s)

    def _loop(self, work: Callable[[Credentials, Session], bool], is_periodic: bool) -> None:
        back_off = BackOff(self._rng)
        while not self._stop.is_set():
            try:
                who, session = self._open()
                if work(who, session):
                    back_off.reset()
                    if is_periodic:
                        self._news.wait(session.status_every_s * self._rng.uniform(0.8, 1.2))
                    continue
            except ControlPlaneError as error:
                self._note(error)
            except Exception:  # noqa: BLE001 - the outermost loop of this thread
                if not self._stop.is_set():
                    _log.exception("%s", threading.current_thread().name)
            self._stop.wait(back_off.next_s())

    def _note(self, error: Exception) -> None:
        if self._stop.is_set():
            return
        if isinstance(error, Unauthorised):
            _log.error(
                "the control plane does not accept this executor; what is in force stays so: %s", error
            )
        else:
            _log.warning("%s: %s", type(error).__name__, error)

    def _open(self) -> tuple[Credentials, Session]:
        with self._lock:
            if self._who is None:
                self._who = self._credentials()
            if self._session is None:
                self._session = self._client.open_session(self._who, self._agent.introduction())
                _log.info("session %d is open", self._session.number)
                self._news.set()
            return self._who, self._session

    def _drop(self, session: Session) -> None:
        with self._lock:
            if self._session is session:
                _log.warning("session %d is stale", session.number)
                self._session = None

    def _ask(self, who: Credentials, session: Session) -> bool:
        """Wait for a document; whether all went well."""
        try:
            raw = self._client.desired(
                who, session.number, after=self._agent.after, wait_s=session.poll_wait_s
            )
        except StaleSession:
            self._drop(session)
            raise
        self._agent.contact()
        return raw is None or self._agent.offer(raw)

    def _tell(self, who: Credentials, session: Session) -> bool:
        """Send the events there are and one status; whether all went well."""
        self._news.clear()
        try:
            while batch := _cut(self._journal.pending()):
                self._deliver(who, session, batch)
            report = self._agent.report()
            self._client.status(who, {"session": session.number, **report})
        except StaleSession:
            self._drop(session)
            raise
        self._agent.contact()
        self._agent.reported(report)
        return True

    def _deliver(self, who: Credentials, session: Session, batch: list[dict[str, Any]]) -> None:
        """Send events; what was taken leaves the outbox, what can never be taken must not block it."""
        try:
            self._client.events(who, {"session": session.number, "events": batch})
        except Problem as error:
            if error.status not in _BAD_REQUEST:
                raise
            if len(batch) > 1:
                for event in batch:
                    self._deliver(who, session, [event])
                return
            _log.error("the control plane refuses this event for good (%s): %s", error, json.dumps(batch[0]))
        self._journal.delivered([str(event["event_id"]) for event in batch])


def _cut(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of the first events as make a body of a decent size, at least one."""
    size = 0
    for number, event in enumerate(batch):
        size += len(json.dumps(event))
        if size > MAX_EVENT_BYTES and number > 0:
            return batch[:number]
    return batch
