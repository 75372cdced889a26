"""The desired document: read, check against this node, and refuse whole with reasons."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from antecast_executor.calibration import OBJECTIVES, STEP_PCT
from antecast_executor.fields import DocumentError, Fields, Refusal, bad

__all__ = [
    "Calibrate",
    "Document",
    "DocumentError",
    "OnDisconnect",
    "Placement",
    "Refusal",
    "Role",
    "Wanted",
    "digest",
    "parse",
    "shares",
]

MAX_BYTES = 1 << 20
MAX_PLACEMENTS = 1024
MIN_SHARE_PCT = 10.0
MAX_SHARE_PCT = 100.0
MAX_GRACE_S = 3600.0
MAX_VALID_FOR_S = 366 * 86400.0
MAX_STEPS = 2.0**53
PLACEMENT_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HASHED = ("epoch", "generation", "valid_for_s", "plan_id", "placements", "actions")


class Wanted(StrEnum):
    """What a placement is to do."""

    RUNNING = "running"
    PAUSED = "paused"


class OnDisconnect(StrEnum):
    """What becomes of a placement once the control plane has been away for longer than the document holds."""

    HOLD = "hold"
    PAUSE = "pause"
    STOP = "stop"


class Role(StrEnum):
    """Why it runs here: its pool's own job, a guest on lent GPUs, the rider or the host of a packed pair."""

    OWN = "own"
    GUEST = "guest"
    RIDER = "rider"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Calibrate:
    """That the share of a placement is to be found by measuring, how far it may go, and what for.

    Attributes:
        objective: name of one of the objectives of calibration.
        least_pct, most_pct: limits of the share, in steps of 10.
        steps: training steps that the job still has before it.
        utilisation: of its GPUs when the job runs alone, in [0, 1]; None if that is not known.
        lowest_rate: steps per second that the job must not fall below; None if nothing was promised.
        deadline_s, promised_s: its deadline, and by when it has to end because of a promise: seconds since
            1970, UTC; None without one.
    """

    objective: str
    least_pct: float
    most_pct: float
    steps: float
    utilisation: float | None = None
    lowest_rate: float | None = None
    deadline_s: float | None = None
    promised_s: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """One command that is to run on GPUs of this node. Its id names one run: it is started at most once."""

    placement_id: str
    job_id: str
    rank: int
    num_ranks: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    gpus: tuple[str, ...]
    share_pct: float
    memory_mib: int | None
    priority: int
    state: Wanted
    grace_s: float
    on_disconnect: OnDisconnect
    role: Role
    calibrate: Calibrate | None = None

    @property
    def highest_pct(self) -> float:
        """The highest share that it may come to have."""
        return self.share_pct if self.calibrate is None else self.calibrate.most_pct

    def command(self) -> tuple[object, ...]:
        """What must not change under one placement id."""
        return (self.job_id, self.rank, self.num_ranks, self.argv, dict(self.env), self.gpus, self.memory_mib)


@dataclass(frozen=True, slots=True)
class Document:
    """All that is to run on this node. What is not in it is to be stopped."""

    epoch: int
    generation: int
    hash: str
    valid_for_s: float
    plan_id: str | None
    placements: tuple[Placement, ...] = field(default=())

    @property
    def version(self) -> tuple[int, int]:
        """By which documents are ordered."""
        return (self.epoch, self.generation)


def digest(body: Mapping[str, Any]) -> str:
    """Hash of a document's content, as the control plane writes it into `hash`."""
    content = {name: body[name] for name in _HASHED}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def parse(raw: bytes) -> Document:
    """Read a document as it came over the wire.

    Raises:
        DocumentError: `bad_document`, `bad_hash` or `unsupported`, with all the faults that were found.
    """
    body = _load(raw)
    missing = [name for name in (*_HASHED, "hash") if name not in body]
    if missing:
        raise bad(f"missing: {', '.join(missing)}")
    try:
        expected = digest(body)
    except (ValueError, RecursionError) as error:
        raise bad(f"cannot be hashed: {error}") from error
    if body["hash"] != expected:
        raise DocumentError(Refusal(None, "bad_hash", f"hash is {str(body['hash'])[:64]!r}, not {expected}"))
    if body["actions"] != []:
        raise DocumentError(Refusal(None, "unsupported", "one-shot actions are not known to this version"))
    return _document(body)


def _load(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise bad(f"larger than {MAX_BYTES} bytes")
    try:
        body = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise bad(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise bad("not a JSON object")
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _document(body: Mapping[str, Any]) -> Document:
    read = Fields(body, None)
    entries = body["placements"]
    if not isinstance(entries, list) or len(entries) > MAX_PLACEMENTS:
        raise bad(f"placements: not a list of at most {MAX_PLACEMENTS}")
    placements: list[Placement] = []
    refusals: list[Refusal] = []
    for entry in entries:
        try:
            placements.append(_placement(entry))
        except DocumentError as error:
            refusals.extend(error.refusals)
    seen: set[str] = set()
    for placement in placements:
        if placement.placement_id in seen:
            refusals.append(Refusal(placement.placement_id, "bad_document", "placement_id is there twice"))
        seen.add(placement.placement_id)
    if refusals:
        raise DocumentError(*refusals)
    return Document(
        epoch=read.whole("epoch", 0),
        generation=read.whole("generation", 0),
        hash=str(body["hash"]),
        valid_for_s=read.number("valid_for_s", 0.0, MAX_VALID_FOR_S),
        plan_id=None if body["plan_id"] is None else read.text("plan_id"),
        placements=tuple(placements),
    )


def _placement(entry: object) -> Placement:
    if not isinstance(entry, dict):
        raise bad("placements: an entry is not an object")
    name = entry.get("placement_id")
    if not isinstance(name, str) or PLACEMENT_ID.fullmatch(name) is None:
        raise bad(f"placement_id: {str(name)[:140]!r} does not match {PLACEMENT_ID.pattern}")
    read = Fields(entry, name)
    num_ranks = read.whole("num_ranks", 1)
    share_pct = read.number("share_pct", MIN_SHARE_PCT, MAX_SHARE_PCT)
    return Placement(
        placement_id=name,
        job_id=read.text("job_id"),
        rank=read.whole("rank", 0, num_ranks - 1),
        num_ranks=num_ranks,
        argv=read.texts("argv"),
        env=read.environment("env"),
        gpus=read.gpus("gpus"),
        share_pct=share_pct,
        memory_mib=None if entry.get("memory_mib") is None else read.whole("memory_mib", 1),
        priority=read.whole("priority", 0, 1),
        state=Wanted(read.word("state", Wanted)),
        grace_s=read.number("grace_s", 0.0, MAX_GRACE_S),
        on_disconnect=OnDisconnect(read.word("on_disconnect", OnDisconnect)),
        role=Role(read.word("role", Role)),
        calibrate=_calibrate(entry.get("calibrate"), name, share_pct),
    )


def _calibrate(entry: object, name: str, share_pct: float) -> Calibrate | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise bad("calibrate: not an object", name)
    read = Fields(entry, name)
    least_pct = read.number("least_pct", MIN_SHARE_PCT, MAX_SHARE_PCT)
    most_pct = read.number("most_pct", MIN_SHARE_PCT, MAX_SHARE_PCT)
    if not least_pct <= share_pct <= most_pct:
        raise bad(f"calibrate: share_pct {share_pct:g} is not in [{least_pct:g}, {most_pct:g}]", name)
    if any(pct % STEP_PCT for pct in (least_pct, share_pct, most_pct)):
        raise bad(f"calibrate: least_pct, share_pct and most_pct go in steps of {STEP_PCT}", name)
    has = {key for key, value in entry.items() if value is not None}
    return Calibrate(
        objective=read.word("objective", OBJECTIVES),
        least_pct=least_pct,
        most_pct=most_pct,
        steps=read.number("steps", 0.0, MAX_STEPS),
        utilisation=read.number("utilisation", 0.0, 1.0) if "utilisation" in has else None,
        lowest_rate=read.number("lowest_rate", 0.0, MAX_STEPS) if "lowest_rate" in has else None,
        deadline_s=read.instant("deadline") if "deadline" in has else None,
        promised_s=read.instant("promised_by") if "promised_by" in has else None,
    )


def shares(placements: Sequence[Placement]) -> dict[str, list[Placement]]:
    """The placements by GPU."""
    by_gpu: dict[str, list[Placement]] = {}
    for placement in placements:
        for uuid in placement.gpus:
            by_gpu.setdefault(uuid, []).append(placement)
    return by_gpu
