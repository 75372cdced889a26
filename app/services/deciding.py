"""The way to ask for a decision: warm processes that follow the log (`app.children.decide`)."""

from typing import Any, Final

from app.services.warm import WarmChildren

MODULE: Final = "app.children.decide"
"""Answers for log entries that stand for decisions. A policy holds models, so it never lives in the API."""


class Deciders:
    """The warm processes of this service, one a cluster.

    Args:
        database_url: where the children read the log.
        wait_s: how long whoever asks waits for an answer; the first one of a cluster trains its models.
        limit_s: a process that works longer on one answer is killed.
    """

    def __init__(self, database_url: str, *, wait_s: float, limit_s: float) -> None:
        self._wait_s = wait_s
        self._limit_s = limit_s
        self._children = WarmChildren(MODULE, database_url)

    def ask(self, cluster: str, epoch: int, seq: int, *, explain: bool | None = None) -> dict[str, Any]:
        """The decision that log entry `seq` stands for.

        Args:
            cluster: name.
            epoch: number of the entry's epoch.
            seq: number of the entry.
            explain: whether to say who waits and why (`app.children.waits`); where None, if they are few.

        Raises:
            DecisionUnavailable: if there is none in time. The entry stays in the log, so asking
                again is safe.
        """
        request = {"cluster": cluster, "epoch": epoch, "decided_seq": seq, "explain": explain}
        return self._children.ask(cluster, request, wait_s=self._wait_s, limit_s=self._limit_s)

    def close(self) -> None:
        """End all processes."""
        self._children.close()
