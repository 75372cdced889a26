"""Child that stays: explains decisions of live clusters, at copies of the desks that it keeps."""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Engine

from app.children import explaining
from app.children.decide import serve
from app.children.explaining import Instant, at_decision
from app.children.forked import in_a_copy
from app.children.state import LiveDesk
from simulator.report import finite


class Explanations:
    """The desks of this process, one a cluster, each told up to the decision that was asked about last.

    A decision of another epoch, or one before, is explained at a desk made for it alone.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._desks: dict[str, LiveDesk] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Explain what is `asked` (`waiting`, `job` or `decision`) of the decision of log entry `seq`.

        `done` is what the decision came to, as it is stored; `limit_s` how long the explanation may take.
        """
        seq = int(request["seq"])
        desk = self._before(str(request["cluster"]), int(request["epoch"]), seq)
        asked = _ASKED[request["asked"]]

        def explained() -> dict[str, Any]:
            found: dict[str, Any] = finite(asked(at_decision(desk, seq, request["done"]), request))
            return found

        return in_a_copy(explained, float(request["limit_s"]))

    def _before(self, cluster: str, epoch: int, seq: int) -> LiveDesk:
        desk = self._desks.get(cluster)
        if desk is None or desk.epoch.number != epoch or desk.seq >= seq:
            desk = LiveDesk(self._engine, cluster, epoch)
            known = self._desks.get(cluster)
            if known is None or known.epoch.number < epoch:
                self._desks[cluster] = desk
        desk.catch_up(seq - 1)
        return desk


_ASKED: Final[dict[str, Callable[[Instant, dict[str, Any]], dict[str, Any]]]] = {
    "waiting": lambda instant, _request: explaining.waiting(instant),
    "job": lambda instant, request: explaining.one_job(instant, str(request["job_id"])),
    "decision": lambda instant, _request: explaining.decision(instant),
}


if __name__ == "__main__":
    serve(Explanations)
