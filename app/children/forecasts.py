"""Child that stays: answers forecasts of live clusters; it decides nothing."""

from typing import Any

from sqlalchemy import Engine

from app.children.decide import serve
from app.children.listener import Listener, Scores
from domain.errors import SettingError


class Forecasts:
    """The listeners of this process, one a cluster; a new epoch gets a new one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: dict[str, tuple[Listener, Scores]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What is `asked` (`lifetimes` or `demand`) of epoch `epoch` of cluster `cluster`, as of entry `seq`.

        Beside the answer: what it rests on, and how such forecasts have done. Where the request makes no
        sense here, `invalid` says why, and nothing else is there.
        """
        cluster, epoch = str(request["cluster"]), int(request["epoch"])
        listener, scores = self._of(cluster, epoch)
        listener.catch_up(int(request["seq"]))
        asked = {"lifetimes": listener.lifetimes, "demand": listener.demand}[request["asked"]]
        try:
            said = asked(request)
        except (SettingError, ValueError) as error:
            return {"invalid": str(error)}
        return {
            **said,
            "rests_on": {**listener.foresight.rests_on(), "epoch": epoch},
            "held_out": scores.look(),
        }

    def _of(self, cluster: str, epoch: int) -> tuple[Listener, Scores]:
        known = self._listeners.get(cluster)
        if known is None or known[0].epoch.number != epoch:
            if known is not None:
                known[1].close()
            known = self._listeners[cluster] = (
                Listener(self._engine, cluster, epoch),
                Scores(cluster, epoch),
            )
        return known


if __name__ == "__main__":
    serve(Forecasts)
