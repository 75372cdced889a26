"""What the service needs of durable work, whoever carries it out."""

from collections.abc import Mapping
from typing import Any, Protocol

from sqlmodel import Session

from app.store.tables import RunRow


class Runs(Protocol):
    """Queues work for the workers."""

    def enqueue(
        self,
        session: Session,
        kind: str,
        cluster: str,
        arguments: Mapping[str, Any],
        requested_by: str,
        dedup: str | None = None,
    ) -> RunRow:
        """Queue a run; one that is queued already under the same `dedup` is returned instead."""
        ...

    def cancel(self, run_id: str) -> None:
        """Stop a run, or never begin it."""
        ...
