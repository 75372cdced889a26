"""Objects of Kubernetes as tests need them, and files read through the real driver and formats."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.formats import FORMATS
from data.intake.driver import import_file, recognise
from data.intake.format import Reading, ReadOptions
from data.intake.report import FileReport
from data.intake.rows import Row
from data.shelf.store import HistoryStore
from data.stamps import parse_stamp, zone

DAY = "2026-03-02T"


def at(clock: str) -> float:
    """The instant of a time of the tests' day."""
    return parse_stamp(f"{DAY}{clock}Z", None).epoch_s


def stamp(clock: str) -> str:
    return f"{DAY}{clock}Z"


def condition(kind: str, clock: str, *, is_true: bool = True, reason: str = "") -> dict[str, Any]:
    status = "True" if is_true else "False"
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": stamp(clock)}


def meta(
    name: str, uid: str, created: str = "08:00:00", owner: tuple[str, str, str] | None = None, **more: Any
):
    found: dict[str, Any] = {"name": name, "namespace": "ml", "uid": uid, "creationTimestamp": stamp(created)}
    if owner is not None:
        kind, owner_name, owner_uid = owner
        found["ownerReferences"] = [{"kind": kind, "name": owner_name, "uid": owner_uid, "controller": True}]
    return {**found, **more}


def template(resource: str = "nvidia.com/gpu", amount: Any = 1, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": {resource: amount}}}], **spec}}


def ended(code: int, reason: str, start: str = "08:01:00", end: str = "09:00:00") -> dict[str, Any]:
    terminated = {
        "exitCode": code,
        "reason": reason,
        "startedAt": stamp(start),
        "finishedAt": stamp(end),
    }
    return {"containerStatuses": [{"restartCount": 0, "state": {"terminated": terminated}}]}


def running(start: str = "08:01:00") -> dict[str, Any]:
    return {
        "phase": "Running",
        "startTime": stamp(start),
        "containerStatuses": [{"restartCount": 0, "state": {"running": {"startedAt": stamp(start)}}}],
    }


def pod(metadata: dict[str, Any], status: dict[str, Any], **asked: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **template(**asked), "status": status}


def job(
    metadata: dict[str, Any],
    pods: int,
    gpus: int,
    conditions: list[dict[str, Any]] | None = None,
    **spec: Any,
):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": pods, "completions": pods, "template": template(amount=gpus), **spec},
        "status": {"startTime": stamp("08:00:30"), "conditions": conditions or []},
    }


def workload(metadata: dict[str, Any], pods: int, gpus: int, conditions: list[dict[str, Any]], **status: Any):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"queueName": "team", "podSets": [{"count": pods, "template": template(amount=gpus)}]},
        "status": {"conditions": conditions, **status},
    }


def written(path: Path, found: Sequence[Any]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(one) + "\n" for one in found))
    return path


def read(path: Path, file_format: str | None = None, tz: str | None = None) -> list[Row]:
    """Rows of a file, in the format that is recognised unless one is named."""
    chosen = recognise(path)[0] if file_format is None else FORMATS[file_format]
    return list(chosen.rows(Reading(path, ReadOptions("c", zone(tz) if tz else None))))


def records(rows: Sequence[Row]) -> list[Any]:
    return [record for row in rows for record in row.records]


def rules(rows: Sequence[Row]) -> list[str]:
    return [note.rule.value for row in rows for note in row.notes]


def imported(path: Path, folder: Path, tz: str | None = None) -> tuple[FileReport, HistoryStore]:
    """A file brought into a history."""
    store = HistoryStore(folder)
    with store.importing() as into:
        report = import_file(path, "auto", ReadOptions("c", zone(tz) if tz else None), into)
    assert report.fault is None, report.fault
    assert report.read == report.accepted + report.repaired + report.rejected
    return report, store
