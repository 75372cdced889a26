"""A cluster of two nodes with executors, and plans handed to it as a planner would."""

from collections.abc import Mapping, Sequence
from typing import Any

from databases import Database
from nodes import Enrolled, StandingClock, make_cluster

from app.services import observe, planning
from app.services.facts import Fact, FactKind
from app.store import live, plans
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import DesiredRow, JobRow

AT = 3_600.0


class Planned:
    """A cluster of two nodes with executors, and plans handed to it as a planner would."""

    def __init__(self, database: Database) -> None:
        self.engine = database.engine
        self.clock = StandingClock()
        make_cluster(self.engine, self.clock, {"n1": 2, "n2": 2}, quotas={"a": 2, "b": 2})
        self.nodes = {node: Enrolled.on(self.engine, self.clock, node, 2) for node in ("n1", "n2")}
        self.runs = 0

    def tell(self, *facts: Fact) -> None:
        with transaction(self.engine) as session:
            row = lock_cluster(session, "c")
            done = observe.record(session, row, facts, source="test", clock=self.clock)
        assert done.accepted == len(facts), done

    def submit(self, *names: str, pool: str = "b", num_gpus: int = 1, **spec: Any) -> None:
        data = {"pool": pool, "num_gpus": num_gpus, "spec": {"argv": ["/bin/true"], **spec}}
        self.tell(*(Fact(FactKind.SUBMITTED, AT, name, data) for name in names))

    def load(self) -> dict[str, Any]:
        return planning.load(self.engine, "c", self.clock)

    def publish(
        self, request: Mapping[str, Any] | None = None, run_id: str | None = None, **answer: Any
    ) -> dict[str, Any]:
        self.runs += 1
        return planning.publish(
            self.engine,
            "c",
            dict(request or self.load()),
            plan_of(**answer),
            run_id or f"run-{self.runs}",
            self.clock,
        )

    def job(self, job_id: str) -> JobRow:
        with reading(self.engine) as session:
            row = live.job(session, "c", job_id)
        assert row is not None
        return row

    def placements(self) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
        with reading(self.engine) as session:
            rows = live.wanted_placements(session, "c")
        found: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        for row in rows:
            found.setdefault(row.job_id, []).append((row.node, tuple(row.gpu_indices)))
        return found

    def wanted_on(self, node: str) -> list[dict[str, Any]]:
        with reading(self.engine) as session:
            row = session.get(DesiredRow, ("c", node))
        return [] if row is None else row.document["placements"]

    def content(self, run_id: str) -> dict[str, Any]:
        with reading(self.engine) as session:
            plan = plans.by_run(session, run_id)
        assert plan is not None
        return plan.content


def plan_of(
    starts: Sequence[str] = (),
    guests: Sequence[str] = (),
    send_backs: Sequence[str] = (),
    conversions: Sequence[str] = (),
    holds: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    return {
        "starts": [{"job_id": name, "is_guest": False} for name in starts]
        + [{"job_id": name, "is_guest": True} for name in guests],
        "send_backs": list(send_backs),
        "conversions": list(conversions),
        "holds": list(holds),
        "forecast": {},
        "took_ms": 1.0,
    }
