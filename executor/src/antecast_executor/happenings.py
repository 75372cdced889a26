"""What the control plane is told: events, conditions and records as JSON of the protocol."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from antecast_executor.clock import to_text
from antecast_executor.conditions import Condition
from antecast_executor.interfaces import Capability, Device
from antecast_executor.journal import Event
from antecast_executor.record import Record

# What is told once a primitive has been applied.
KIND_OF = {
    "launch": "placement_started",
    "squeeze": "squeezed",
    "swell": "swelled",
    "pause": "paused",
    "resume": "resumed",
}


def of_record(kind: str, record: Record, at_s: float, data: dict[str, Any]) -> Event:
    """Something that happened to a placement."""
    return Event(kind, to_text(at_s), record.placement_id, record.placement.job_id, data)


def of_device(kind: str, device: Device, at_s: float) -> Event:
    """Something that happened to a GPU."""
    return Event(kind, to_text(at_s), None, None, {"uuid": device.uuid, "reason": device.reason})


def of_calibration(data: dict[str, Any], at_s: float) -> Event:
    """A search for the shares of a packed set has ended."""
    return Event("calibrated", to_text(at_s), None, None, data)


def of_end(record: Record, at_s: float) -> Event:
    """A placement's end."""
    end = record.end
    ended_s = at_s if end is None else end.ended_s
    data = {
        "exit_code": None if end is None else end.exit_code,
        "signal": None if end is None else end.signal,
        "reason": record.end_reason,
        "duration_s": None if record.started_s is None else max(0.0, ended_s - record.started_s),
    }
    return of_record("placement_ended", record, ended_s, data)


def condition(item: Condition) -> dict[str, Any]:
    """A condition of the protocol."""
    return {
        "primitive": item.primitive,
        "state": item.state,
        "enforcement": item.enforcement,
        "effective_at": item.effective_at,
        "requested": item.requested,
        "in_force": item.in_force,
        "reason": item.reason,
        "since": to_text(item.since_s),
    }


def placement(record: Record) -> dict[str, Any]:
    """A placement's part of the status."""
    end = record.end
    return {
        "placement_id": record.placement_id,
        "job_id": record.placement.job_id,
        "state": record.state,
        "pid": None if record.process is None else record.process.pid,
        "started_at": None if record.started_s is None else to_text(record.started_s),
        "ended_at": None if end is None else to_text(end.ended_s),
        "exit_code": None if end is None else end.exit_code,
        "signal": None if end is None else end.signal,
        "adopted": record.is_adopted,
        "conditions": [condition(item) for item in record.conditions.values()],
    }


def devices(items: Iterable[Device]) -> list[dict[str, Any]]:
    """The GPUs, in the order of their indices."""
    return [asdict(item) for item in sorted(items, key=lambda item: item.index)]


def capabilities(items: Iterable[Capability]) -> list[dict[str, Any]]:
    """What the node can do."""
    return [asdict(item) for item in items]
