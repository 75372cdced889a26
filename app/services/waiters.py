"""Executors that wait for news. One task looks for all of them: a wait costs neither a thread nor a query.

Whoever publishes may be another process; the database is what they share. While anybody waits, one query a
tick asks for documents with a generation that has not been seen. Generations of a cluster are numbered in
the order of their commits (`app.services.push`), so none is missed between two looks.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.services.executors import require_session
from app.store import executors as store
from app.store.engine import reading
from app.store.executors import Waiting

TICK_S: Final = 0.075
_RETRY_S: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Poll:
    """Who waits, in which session, and for what is newer than which generation."""

    executor_id: str
    cluster: str
    node: str
    session: int
    after: int


@dataclass(slots=True)
class _Waiter:
    poll: Poll
    news: asyncio.Future[Waiting | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def tell(self, what: Waiting | None) -> None:
        if not self.news.done():
            self.news.set_result(what)


class Waiters:
    """The executors that wait in this process. All but the queries happens on the event loop."""

    def __init__(
        self, engine: Engine, *, tick_s: float = TICK_S, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """Nobody waits yet.

        Args:
            engine: of the database.
            tick_s: between two looks.
            is_stopping: whether the process is about to end, so that all waits have to.
        """
        self._engine = engine
        self._is_stopping = is_stopping
        self._tick_s = tick_s
        self._waiters: dict[str, _Waiter] = {}
        self._seen: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    async def wait(
        self, poll: Poll, limit_s: float, *, gone: asyncio.Future[None]
    ) -> dict[str, object] | None:
        """Wait until there is something newer.

        Args:
            poll: who waits; if the same executor waits already, that wait ends empty-handed.
            limit_s: for how long at most.
            gone: is done once nobody is interested in the answer any more.

        Returns:
            The document; None if there was none in time.

        Raises:
            StaleSession: if the session is over.
            NotAllowed: if the executor has been revoked.
        """
        waiter = self._enter(poll)
        try:
            # First in the list, then a look: what is published in between is seen twice rather than never.
            for now in await asyncio.to_thread(self._read, [poll.executor_id]):
                require_session(now, poll.session)
                self._deliver([now])
            if not waiter.news.done():
                await _first_of(waiter.news, gone, limit_s)
            news = waiter.news.result() if waiter.news.done() else None
            if news is None:
                return None
            require_session(news, poll.session)
            return news.document
        finally:
            if self._waiters.get(poll.executor_id) is waiter:
                del self._waiters[poll.executor_id]

    def _enter(self, poll: Poll) -> _Waiter:
        older = self._waiters.get(poll.executor_id)
        if older is not None:
            older.tell(None)
        waiter = self._waiters[poll.executor_id] = _Waiter(poll)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return waiter

    async def _look(self) -> None:
        while self._waiters:
            if self._is_stopping():
                self._send_all_away()
            try:
                await self._look_once()
            except SQLAlchemyError as error:
                # Waiting goes on: whoever gets no news in time asks again and hears of the fault then.
                _log.warning("desired_not_read", error=type(error).__name__)
                await asyncio.sleep(_RETRY_S)
            await asyncio.sleep(self._tick_s)

    def _send_all_away(self) -> None:
        for waiter in self._waiters.values():
            waiter.tell(None)

    async def _look_once(self) -> None:
        clusters = {waiter.poll.cluster for waiter in self._waiters.values()}
        seen = {cluster: self._seen.get(cluster, -1) for cluster in clusters}
        changes = await asyncio.to_thread(self._changes, seen)
        if not changes:
            return
        newest = {(cluster, node): generation for cluster, node, generation in changes}
        woken = [
            executor_id
            for executor_id, waiter in self._waiters.items()
            if newest.get((waiter.poll.cluster, waiter.poll.node), -1) > waiter.poll.after
        ]
        if woken:
            self._deliver(await asyncio.to_thread(self._read, woken))
        for cluster, _, generation in changes:
            self._seen[cluster] = max(self._seen.get(cluster, -1), generation)

    def _changes(self, seen: dict[str, int]) -> list[tuple[str, str, int]]:
        with reading(self._engine) as session:
            return store.changes(session, seen)

    def _read(self, executor_ids: Sequence[str]) -> list[Waiting]:
        with reading(self._engine) as session:
            return store.waiting(session, executor_ids)

    def _deliver(self, news: Sequence[Waiting]) -> None:
        for what in news:
            waiter = self._waiters.get(what.executor_id)
            if waiter is not None and what.generation > waiter.poll.after:
                waiter.tell(what)


async def _first_of(news: asyncio.Future[Waiting | None], gone: asyncio.Future[None], limit_s: float) -> None:
    either: set[asyncio.Future[Any]] = {news, gone}
    await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
