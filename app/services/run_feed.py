"""Events of runs for many who watch: one of them, or a thousand, cost the database the same.

Who watches holds neither a connection nor a thread. One task looks for news of all runs that are watched, a
few times a second, in one reading; each watcher waits for it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog
from anyio import to_thread
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.errors import TooManyRequests
from app.store import run_events
from app.store.engine import reading
from app.store.tables import RunEventKind, RunEventRow

MAX_WATCHERS: Final = 2_000
"""Of one process."""

_LOOK_EVERY_S: Final = 0.2
_RETRY_AFTER_S: Final = 10

_log = structlog.get_logger(__name__)


@dataclass
class _Watched:
    """A run that somebody watches: all its events so far, read once for all."""

    events: list[RunEventRow] = field(default_factory=list)
    num_watchers: int = 0


class RunFeed:
    """News of runs, in one process.

    Args:
        engine: the database.
        look_every_s: how often it is asked while somebody watches.
    """

    def __init__(self, engine: Engine, look_every_s: float = _LOOK_EVERY_S) -> None:
        self._engine = engine
        self._look_every_s = look_every_s
        self._runs: dict[str, _Watched] = {}
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._num_watchers = 0

    def require_room(self) -> None:
        """Refuse one watcher more than can be served.

        Raises:
            TooManyRequests: if so many watch already.
        """
        if self._num_watchers >= MAX_WATCHERS:
            raise TooManyRequests(f"{MAX_WATCHERS} watch already; ask now and then instead", _RETRY_AFTER_S)

    async def watch(
        self, run_id: str, after: int, *, quiet_s: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> AsyncGenerator[RunEventRow | None]:
        """Events of a run behind a number, as they come, until the last one.

        Args:
            run_id: the run; it exists.
            after: the number of the last one seen; 0 for all.
            quiet_s: where nothing comes for so long, None does.
            is_stopping: whether the process is about to end; then there is no next one.
        """
        watched = self._runs.setdefault(run_id, _Watched())
        watched.num_watchers += 1
        self._num_watchers += 1
        try:
            self._begin()
            loop = asyncio.get_running_loop()
            said_at_s = loop.time()
            while not is_stopping():
                for event in watched.events[after:]:
                    yield event
                    after, said_at_s = event.number, loop.time()
                    if event.kind == RunEventKind.FINISHED:
                        return
                await self._wait(lambda: len(watched.events) > after)  # noqa: B023 - asked before it changes
                if loop.time() - said_at_s >= quiet_s:
                    said_at_s = loop.time()
                    yield None
        finally:
            self._num_watchers -= 1
            watched.num_watchers -= 1
            if not watched.num_watchers:
                self._runs.pop(run_id, None)

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_again_and_again(), name="run events")

    async def _wait(self, is_news: Callable[[], bool]) -> None:
        """Until there is news, or the next look is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0), self._news:
                await self._news.wait_for(is_news)

    async def _look_again_and_again(self) -> None:
        while self._runs:
            seen = {run_id: len(watched.events) for run_id, watched in self._runs.items()}
            try:
                found = await to_thread.run_sync(self._look, seen)
            except SQLAlchemyError as error:
                _log.warning("run_events_unreadable", error=str(error))
                found = ()
            for event in found:
                watched = self._runs.get(event.run_id)
                if watched is not None and event.number == len(watched.events) + 1:
                    watched.events.append(event)
            if found:
                async with self._news:
                    self._news.notify_all()
            await asyncio.sleep(self._look_every_s)

    def _look(self, seen: dict[str, int]) -> Sequence[RunEventRow]:
        with reading(self._engine) as session:
            return list(run_events.after_each(session, seen))
