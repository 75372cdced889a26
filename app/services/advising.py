"""The way to ask for forecasts and explanations: warm processes beside those that decide.

They follow the log on their own, so that no question of theirs keeps a decision waiting, and no decision
depends on what was asked.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.services.warm import WarmChildren

FORECASTS: Final = "app.children.forecasts"
EXPLANATIONS: Final = "app.children.explain"

_OF_THE_LIMIT: Final = 0.9
"""Part of the time that whoever asks waits which a single explanation may take."""


class Advisers:
    """The warm processes of this service, for each cluster one that forecasts and one that explains.

    Args:
        database_url: where they read the log.
        wait_s: how long whoever asks waits for an answer; the first one of an epoch trains the models.
        limit_s: a process that works longer on one answer is killed.
    """

    def __init__(self, database_url: str, *, wait_s: float, limit_s: float) -> None:
        self._wait_s = wait_s
        self._limit_s = limit_s
        self._children = {name: WarmChildren(name, database_url) for name in (FORECASTS, EXPLANATIONS)}

    def forecast(self, cluster: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer of `app.children.forecasts`.

        Raises:
            DecisionUnavailable: if there is none in time; asking again later helps.
        """
        return self._ask(FORECASTS, cluster, request)

    def explain(self, cluster: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer of `app.children.explain`.

        Raises:
            DecisionUnavailable: if there is none in time; asking again later helps.
        """
        limit_s = self._wait_s * _OF_THE_LIMIT
        return self._ask(EXPLANATIONS, cluster, {**request, "limit_s": limit_s})

    def close(self) -> None:
        """End all processes."""
        for children in self._children.values():
            children.close()

    def _ask(self, which: str, cluster: str, request: Mapping[str, Any]) -> dict[str, Any]:
        asked = {**request, "cluster": cluster}
        return self._children[which].ask(cluster, asked, wait_s=self._wait_s, limit_s=self._limit_s)
