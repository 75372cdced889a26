"""One plan beside another: what was added, is gone or moved, and how much of that is a change of mind."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.errors import UnknownResource
from app.services.clusters import require
from app.services.facts import FactKind
from app.store import live, plans
from app.store.engine import reading
from app.store.tables import PlanRow

Json = dict[str, Any]
_Said = Mapping[str, Json]

_HAPPENED: Final = (FactKind.STARTED, FactKind.SENT_BACK, FactKind.ENDED, FactKind.CANCELLED)


def diff(engine: Engine, cluster: str, plan_id: str, to: str | None) -> Json:
    """A plan beside another one; beside the one before it where `to` is None.

    Raises:
        UnknownCluster: if there is no cluster of that name.
        UnknownResource: if it has not these plans, or there is none before.
    """
    with reading(engine) as session:
        require(session, cluster)
        plan = find(session, cluster, plan_id)
        before = plans.one_before(session, plan) if to is None else find(session, cluster, to)
        if before is None:
            raise UnknownResource(f"there is no plan before {plan.plan_id}")
        found = between(session, before, plan)
        return {**found, "plan_id": plan.plan_id, "to": before.plan_id}


def find(session: Session, cluster: str, plan_id: str) -> PlanRow:
    """A plan; `latest` names the newest.

    Raises:
        UnknownResource: if there is none of that name.
    """
    latest = plan_id == "latest"
    plan = plans.latest(session, cluster) if latest else plans.by_id(session, cluster, plan_id)
    if plan is None:
        raise UnknownResource(f"cluster {cluster} has no plan {plan_id!r}; ask for one: POST .../replans")
    return plan


def between(session: Session, before: PlanRow, after: PlanRow) -> Json:
    """What differs, with what has happened meanwhile told apart: that is no change of mind.

    Returns:
        For starts (riders among them), send-backs and holds: `added`, `gone`, `moved` (before and after),
        `done` (gone, because it has happened) and the number of the `same`; `counts` over all of them;
        `churn`: (added + gone + moved) / (these + same), in [0, 1]; `forecast_changed`, and in which fields.
    """
    jobs, pools = _happened(session, before, after)
    parts = {
        "starts": _part(_starts(before), _starts(after), lambda key, _: key in jobs),
        "send_backs": _part(_send_backs(before), _send_backs(after), lambda key, _: key in jobs),
        "holds": _part(_holds(before), _holds(after), lambda _, said: said["pool"] in pools),
    }
    counts = {
        name: sum(len(part[name]) for part in parts.values()) for name in ("added", "gone", "moved", "done")
    }
    counts["same"] = sum(part["same"] for part in parts.values())
    changed = counts["added"] + counts["gone"] + counts["moved"]
    total = changed + counts["same"]
    fields = _changed_fields(before.content.get("forecast") or {}, after.content.get("forecast") or {})
    return {
        **parts,
        "counts": counts,
        "churn": round(changed / total, 6) if total else 0.0,
        "forecast_changed": bool(fields),
        "forecast_fields": fields,
    }


def _happened(session: Session, before: PlanRow, after: PlanRow) -> tuple[set[str], set[str]]:
    """Jobs to which something happened between the two instants, and pools of which a job started."""
    first, last = sorted((before.seq_seen, after.seq_seen))
    entries = [
        entry for entry in live.entries(session, after.cluster, first, last) if entry.kind in _HAPPENED
    ]
    started = [str(entry.job_id) for entry in entries if entry.kind == FactKind.STARTED]
    pools = {job.pool for job in live.jobs_by_id(session, after.cluster, started).values()}
    return {str(entry.job_id) for entry in entries}, pools


def _part(before: _Said, after: _Said, has_happened: Callable[[str, Json], bool]) -> Json:
    gone = [key for key in before if key not in after]
    both = [key for key in before if key in after]
    moved = [key for key in both if _differ(before[key], after[key])]
    return {
        "added": [after[key] for key in after if key not in before],
        "gone": [before[key] for key in gone if not has_happened(key, before[key])],
        "done": [before[key] for key in gone if has_happened(key, before[key])],
        "moved": [{"before": before[key], "after": after[key]} for key in moved],
        "same": len(both) - len(moved),
    }


def _differ(one: Json, other: Json) -> bool:
    """Whether two entries differ in what both know: a draft does not know GPUs yet."""
    return any(
        one[name] != other[name] for name in one if one[name] is not None and other.get(name) is not None
    )


def _starts(plan: PlanRow) -> _Said:
    said = {
        one["job_id"]: {
            "job_id": one["job_id"],
            "is_guest": one["is_guest"],
            "gpus": one.get("gpus"),
            "host_job_id": None,
        }
        for one in plan.content.get("starts", ())
    }
    for rider in plan.content.get("riders", ()):
        said[rider["job_id"]] = {
            "job_id": rider["job_id"],
            "is_guest": None,
            "gpus": None,
            "host_job_id": rider["host_job_id"],
        }
    return said


def _send_backs(plan: PlanRow) -> _Said:
    return {job_id: {"job_id": job_id} for job_id in plan.content.get("send_backs", ())}


def _holds(plan: PlanRow) -> _Said:
    """Holds by pool and place among its holds."""
    said: dict[str, Json] = {}
    seen: dict[str, int] = {}
    for hold in plan.content.get("holds", ()):
        place = seen[hold["pool"]] = seen.get(hold["pool"], 0) + 1
        said[f"{hold['pool']}\0{place}"] = {"pool": hold["pool"], "num_gpus": hold["num_gpus"]}
    return said


def _changed_fields(before: Mapping[str, Any], after: Mapping[str, Any], within: str = "") -> list[str]:
    """Names, with dots, of the fields that differ; as-of instants alone are no other forecast."""
    found: list[str] = []
    for name in sorted({*before, *after} - {"as_of_s"}):
        one, other = before.get(name), after.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += _changed_fields(one, other, f"{within}{name}.")
        elif one != other:
            found.append(f"{within}{name}")
    return found
