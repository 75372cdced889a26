"""What the executor knows of one placement; the journal keeps it."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from antecast_executor import conditions
from antecast_executor.conditions import Condition
from antecast_executor.document import Calibrate, OnDisconnect, Placement, Role, Wanted
from antecast_executor.interfaces import Exit, ProcessId


class RunState(StrEnum):
    """Where a placement stands."""

    LAUNCHING = "launching"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"
    LOST = "lost"


OVER = frozenset({RunState.ENDED, RunState.LOST})


class Rung(StrEnum):
    """The rungs of the stop ladder, in order."""

    ASKED = "asked"
    DETACHED = "detached"
    KILLED = "killed"


@dataclass(slots=True)
class Record:
    """One placement from acceptance until the control plane no longer names it.

    Attributes:
        placement: as wanted by the last accepted document that names it.
        state: where it stands.
        process: its supervisor; None before it is started.
        is_under_mps: whether it was started as a client of its GPU's MPS daemon.
        started_share_pct: the share it was started with, which a live MPS client keeps.
        share_pct: the share that was asked of the node last; None if that is not known (after a crash).
        is_throttled: whether it runs in time slices now.
        is_hold_known: False after a crash in the middle of a pause or resume: it may stand or run.
        is_adopted: whether this executor found it running when it started.
        intent: primitive that was begun and not yet seen to its end.
        rung, rung_at_s: how far the stop ladder has come, and since when (monotonic clock of this boot).
        end, end_reason: how it ended, and why: exited, stopped, vanished, launch_failed, reboot.
    """

    placement: Placement
    state: RunState = RunState.LAUNCHING
    process: ProcessId | None = None
    started_s: float | None = None
    is_under_mps: bool = False
    started_share_pct: float | None = None
    share_pct: float | None = None
    is_throttled: bool = False
    is_hold_known: bool = True
    is_adopted: bool = False
    intent: str | None = None
    rung: Rung | None = None
    rung_at_s: float = 0.0
    end: Exit | None = None
    end_reason: str = ""
    conditions: dict[str, Condition] = field(default_factory=dict)

    @property
    def placement_id(self) -> str:
        """Of its placement."""
        return self.placement.placement_id

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.state in OVER


def to_json(record: Record) -> dict[str, Any]:
    """As the journal keeps it."""
    body = {
        name: getattr(record, name)
        for name in Record.__slots__
        if name not in {"placement", "process", "end", "conditions"}
    }
    return {
        **body,
        "placement": asdict(record.placement),
        "process": None if record.process is None else asdict(record.process),
        "end": None if record.end is None else asdict(record.end),
        "conditions": [conditions.to_json(item) for item in record.conditions.values()],
    }


def from_json(body: dict[str, Any]) -> Record:
    """The inverse of `to_json`."""
    kept = [conditions.from_json(item) for item in body["conditions"]]
    plain = {
        name: body[name]
        for name in Record.__slots__
        if name not in {"placement", "state", "process", "rung", "end", "conditions"}
    }
    return Record(
        placement=_placement(body["placement"]),
        state=RunState(body["state"]),
        process=None if body["process"] is None else ProcessId(**body["process"]),
        rung=None if body["rung"] is None else Rung(body["rung"]),
        end=None if body["end"] is None else Exit(**body["end"]),
        conditions={item.primitive: item for item in kept},
        **plain,
    )


def _placement(body: dict[str, Any]) -> Placement:
    calibrate = body.get("calibrate")  # a journal of an earlier version has none
    words = {
        "calibrate": None if calibrate is None else Calibrate(**calibrate),
        "argv": tuple(body["argv"]),
        "gpus": tuple(body["gpus"]),
        "state": Wanted(body["state"]),
        "on_disconnect": OnDisconnect(body["on_disconnect"]),
        "role": Role(body["role"]),
    }
    return Placement(**(body | words))
