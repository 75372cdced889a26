"""Delivers messages to webhooks, on a thread of the worker: again and again until they are taken or given up.

At least once: a message is put off before it is sent, so if the worker dies it is sent again by another.
Receivers know it by its id. Each receiver has its own few in flight: one that does not answer holds up nobody
but itself.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.clock import Clock, SystemClock
from app.runs.settings import WorkerSettings
from app.services import webhook_secrets
from app.services.webhook_post import TIMEOUT_S, NotDelivered, post, target_of
from app.store import webhooks as store
from app.store.engine import reading, transaction
from app.store.tables import DeliveryStatus, WebhookDeliveryRow
from domain.errors import AntecastError

MAX_ATTEMPTS: Final = 12
"""Then a message is given up; with waits of 5 s, 20 s, ... 4 h that is after some 22 hours."""

KEPT_FOR: Final = timedelta(days=30)
"""The log of deliveries."""

_PER_RECEIVER: Final = 4
_FORGET_EVERY_S: Final = 600.0
_HOLD_S: Final = 3 * TIMEOUT_S
_GROWTH: Final = 4.0
_LONGEST_WAIT_S: Final = 14_400.0
_MAX_ERROR_CHARACTERS: Final = 500
_TAKEN: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Errand:
    """A message, and where it goes."""

    delivery_id: str
    webhook_id: str
    url: str
    nonce: str
    body: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of one attempt; no error: it was taken."""

    answered: int | None
    error: str | None


def wait_s(attempts: int, first_s: float) -> float:
    """How long to wait after so many failed attempts, seconds."""
    return min(first_s * _GROWTH ** (attempts - 1), _LONGEST_WAIT_S)


class Deliverer:
    """One worker's hand in delivering.

    Args:
        engine: the database.
        settings: where the key is, what addresses are allowed, how long to wait.
        clock: ours; signatures bear the wall clock's time.
    """

    def __init__(self, engine: Engine, settings: WorkerSettings, clock: Clock) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._wall_clock = SystemClock()
        self._in_flight: dict[asyncio.Task[None], str] = {}
        self._forgot_at_s = -_FORGET_EVERY_S

    def run(self, stopping: threading.Event) -> None:
        """Deliver until it is time to stop; what is under way then is tried again later."""
        asyncio.run(self._run(stopping))

    async def _run(self, stopping: threading.Event) -> None:
        while not await asyncio.to_thread(stopping.wait, self._settings.queue_poll_s):
            try:
                errands = await asyncio.to_thread(self._claim, set(self._in_flight.values()))
            except Exception:  # noqa: BLE001 - the outermost loop: what fails now is tried again
                _log.exception("deliveries_unreadable")
                continue
            for errand in errands:
                task = asyncio.create_task(self._deliver(errand))
                self._in_flight[task] = errand.webhook_id
                task.add_done_callback(self._in_flight.pop)
        for task in list(self._in_flight):
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    def _claim(self, busy: set[str]) -> list[_Errand]:
        now = self._clock.now()
        self._forget_old(now)
        with reading(self._engine) as session:
            due = [webhook_id for webhook_id in store.due(session, now) if webhook_id not in busy]
        if not due:
            return []
        with transaction(self._engine) as session:
            taken = store.claim(session, due, now, per_receiver=_PER_RECEIVER, hold_s=_HOLD_S)
            receivers = store.receivers(session, {row.webhook_id for row in taken})
            return [
                _Errand(
                    row.delivery_id,
                    row.webhook_id,
                    receivers[row.webhook_id].url,
                    receivers[row.webhook_id].nonce,
                    row.body,
                )
                for row in taken
            ]

    def _forget_old(self, now: datetime) -> None:
        if time.monotonic() - self._forgot_at_s >= _FORGET_EVERY_S:
            self._forgot_at_s = time.monotonic()
            with transaction(self._engine) as session:
                store.forget(session, now - KEPT_FOR)

    async def _deliver(self, errand: _Errand) -> None:
        outcome = await self._attempt(errand)
        try:
            await asyncio.to_thread(self._note, errand, outcome)
        except SQLAlchemyError as error:
            _log.warning("delivery_not_noted", delivery_id=errand.delivery_id, error=str(error))

    async def _attempt(self, errand: _Errand) -> _Outcome:
        allows_private = self._settings.webhook_private
        try:
            target = target_of(errand.url, allows_private=allows_private)
            headers = self._headers(errand)
            body = errand.body.encode()
            status = await post(target, headers, body, allows_private=allows_private)
        except NotDelivered as error:
            return _Outcome(None, str(error))
        except AntecastError as error:
            _log.warning("webhook_cannot_be_served", webhook_id=errand.webhook_id, error=str(error))
            return _Outcome(None, str(error))
        if status in _TAKEN:
            return _Outcome(status, None)
        why = "it redirects, which is not followed" if status in _REDIRECTS else "it did not take the message"
        return _Outcome(status, f"the receiver answered {status}: {why}")

    def _headers(self, errand: _Errand) -> Mapping[str, str]:
        key = webhook_secrets.read_key(self._settings, may_create=False)
        secret = webhook_secrets.secret_of(key, errand.webhook_id, errand.nonce)
        timestamp = int(self._wall_clock.now().timestamp())
        return {
            "Content-Type": "application/json",
            "User-Agent": "antecast-webhooks",
            webhook_secrets.ID: errand.delivery_id,
            webhook_secrets.TIMESTAMP: str(timestamp),
            webhook_secrets.SIGNATURE: webhook_secrets.signature_of(
                secret, errand.delivery_id, timestamp, errand.body
            ),
        }

    def _note(self, errand: _Errand, outcome: _Outcome) -> None:
        with transaction(self._engine) as session:
            row = store.delivery(session, errand.delivery_id)
            if row is None or row.status != DeliveryStatus.PENDING:
                return  # its receiver was removed, or another worker was faster
            row.answered = outcome.answered
            row.error = outcome.error and outcome.error[:_MAX_ERROR_CHARACTERS]
            self._decide(row)

    def _decide(self, row: WebhookDeliveryRow) -> None:
        now = self._clock.now()
        if row.error is None:
            row.status = DeliveryStatus.DELIVERED.value
            row.delivered_at = now
        elif row.attempts >= MAX_ATTEMPTS:
            row.status = DeliveryStatus.GIVEN_UP.value
            _log.warning("delivery_given_up", delivery_id=row.delivery_id, error=row.error)
        else:
            row.next_at = now + timedelta(seconds=wait_s(row.attempts, self._settings.webhook_retry_s))
