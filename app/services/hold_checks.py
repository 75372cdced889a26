"""Holds of the plan in force against what is observed: are the GPUs that were to stay idle really idle?"""

from enum import StrEnum
from typing import Any

from sqlmodel import Session

from app.clock import Clock
from app.services.facts import FactKind
from app.services.times import to_s
from app.store import executors, live, plans
from app.store.tables import ClusterRow, PlanRow

Json = dict[str, Any]


class HoldState(StrEnum):
    """What has become of a hold."""

    KEPT = "kept"
    SERVED = "served"
    OVER = "over"
    VIOLATED = "violated"


def note(session: Session, cluster: ClusterRow, clock: Clock) -> None:
    """Note with the plan in force what its holds have come to; the caller holds the cluster's lock."""
    plan = plans.in_force(session, cluster.name)
    if plan is not None:
        plan.hold_checks = check(session, cluster, plan, to_s(cluster, clock.now()))


def check(session: Session, cluster: ClusterRow, plan: PlanRow, now_s: float) -> list[Json]:
    """Each hold of a plan that is in force, in its order.

    GPUs count as idle if no job has them, by the log, and nothing that was stopped is still on them, by the
    word of the executors. Holds are served from them in their order.

    Returns:
        `state`; `expected_gpus`: as many of the hold as were idle when the plan went out; `idle_gpus`: as
        many as are idle now; `drift_gpus`: what is missing of the expected ones; `at_s`: as of when. A hold
        whose pool has had a start of its own since is `served`, and nothing is missing.
    """
    holds = plan.content.get("holds", [])
    if not holds:
        return []
    left = plan.content.get("idle_after", 0)
    idle = max(live.idle_gpus(session, cluster) - executors.gpus_being_left(session, cluster.name), 0)
    served = _pools_served(session, cluster, plan)
    found: list[Json] = []
    for hold in holds:
        expected = min(left, hold["num_gpus"])
        left -= expected
        until_s = hold.get("until_s")
        if hold["pool"] in served:
            state, here = HoldState.SERVED, 0
        elif until_s is not None and now_s >= until_s:
            state, here = HoldState.OVER, 0
        else:
            here = min(idle, hold["num_gpus"])
            idle -= here
            state = HoldState.VIOLATED if here < expected else HoldState.KEPT
        found.append(
            {
                "state": state.value,
                "expected_gpus": expected,
                "idle_gpus": here,
                "drift_gpus": expected - here if state is HoldState.VIOLATED else 0,
                "at_s": now_s,
            }
        )
    return found


def _pools_served(session: Session, cluster: ClusterRow, plan: PlanRow) -> set[str]:
    """Pools of which an own job has started since the plan went out."""
    since = live.entries(session, cluster.name, plan.seq, cluster.seq)
    own = [
        str(entry.job_id)
        for entry in since
        if entry.kind == FactKind.STARTED and not entry.data.get("is_guest")
    ]
    return {job.pool for job in live.jobs_by_id(session, cluster.name, own).values()}
