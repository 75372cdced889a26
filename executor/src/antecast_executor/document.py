"""The desired document: read, check against this node, and refuse whole with reasons."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_BYTES = 1 << 20
MAX_PLACEMENTS = 1024
MIN_SHARE_PCT = 10.0
MAX_SHARE_PCT = 100.0
MAX_GRACE_S = 3600.0
MAX_VALID_FOR_S = 366 * 86400.0
PLACEMENT_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
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
class Refusal:
    """Why a document, or one of its placements, cannot be accepted."""

    placement_id: str | None
    reason: str
    message: str


class DocumentError(Exception):
    """The document is refused, and these are the reasons."""

    def __init__(self, *refusals: Refusal) -> None:
        super().__init__("; ".join(refusal.message for refusal in refusals))
        self.refusals = refusals


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
        raise _bad(f"missing: {', '.join(missing)}")
    try:
        expected = digest(body)
    except (ValueError, RecursionError) as error:
        raise _bad(f"cannot be hashed: {error}") from error
    if body["hash"] != expected:
        raise DocumentError(Refusal(None, "bad_hash", f"hash is {str(body['hash'])[:64]!r}, not {expected}"))
    if body["actions"] != []:
        raise DocumentError(Refusal(None, "unsupported", "one-shot actions are not known to this version"))
    return _document(body)


def _bad(message: str, placement_id: str | None = None) -> DocumentError:
    return DocumentError(Refusal(placement_id, "bad_document", message))


def _load(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise _bad(f"larger than {MAX_BYTES} bytes")
    try:
        body = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _bad(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise _bad("not a JSON object")
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _document(body: Mapping[str, Any]) -> Document:
    read = _Fields(body, None)
    entries = body["placements"]
    if not isinstance(entries, list) or len(entries) > MAX_PLACEMENTS:
        raise _bad(f"placements: not a list of at most {MAX_PLACEMENTS}")
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
        raise _bad("placements: an entry is not an object")
    name = entry.get("placement_id")
    if not isinstance(name, str) or PLACEMENT_ID.fullmatch(name) is None:
        raise _bad(f"placement_id: {str(name)[:140]!r} does not match {PLACEMENT_ID.pattern}")
    read = _Fields(entry, name)
    num_ranks = read.whole("num_ranks", 1)
    return Placement(
        placement_id=name,
        job_id=read.text("job_id"),
        rank=read.whole("rank", 0, num_ranks - 1),
        num_ranks=num_ranks,
        argv=read.texts("argv"),
        env=read.environment("env"),
        gpus=read.gpus("gpus"),
        share_pct=read.number("share_pct", MIN_SHARE_PCT, MAX_SHARE_PCT),
        memory_mib=None if entry.get("memory_mib") is None else read.whole("memory_mib", 1),
        priority=read.whole("priority", 0, 1),
        state=Wanted(read.word("state", Wanted)),
        grace_s=read.number("grace_s", 0.0, MAX_GRACE_S),
        on_disconnect=OnDisconnect(read.word("on_disconnect", OnDisconnect)),
        role=Role(read.word("role", Role)),
    )


class _Fields:
    """Typed access to one JSON object; every fault names the field."""

    def __init__(self, body: Mapping[str, Any], placement_id: str | None) -> None:
        self._body = body
        self._id = placement_id

    def _get(self, name: str, is_good: Callable[[Any], bool], what: str) -> Any:
        value = self._body.get(name)
        if not is_good(value):
            raise _bad(f"{name}: {str(value)[:80]!r} is not {what}", self._id)
        return value

    def text(self, name: str) -> str:
        value: str = self._get(
            name, lambda v: _is_text(v) and 0 < len(v) <= 256, "a text of 1 to 256 letters"
        )
        return value

    def whole(self, name: str, low: int, high: int = 2**53) -> int:
        value: int = self._get(name, lambda v: _is_whole(v, low, high), f"a whole number in [{low}, {high}]")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        return float(self._get(name, lambda v: _is_number(v, low, high), f"a number in [{low:g}, {high:g}]"))

    def word(self, name: str, words: type[StrEnum]) -> str:
        known = [word.value for word in words]
        value: str = self._get(
            name, lambda v: isinstance(v, str) and v in known, f"one of {', '.join(known)}"
        )
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(
            self._get(name, lambda v: _is_list(v) and bool(v[0]), "a list of texts, the first not empty")
        )

    def gpus(self, name: str) -> tuple[str, ...]:
        return tuple(
            self._get(
                name,
                lambda v: _is_list(v) and len(set(v)) == len(v) and all(0 < len(uuid) <= 128 for uuid in v),
                "a list of different GPU UUIDs",
            )
        )

    def environment(self, name: str) -> Mapping[str, str]:
        return dict(self._get(name, _is_environment, "an object of environment variables"))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(item) for item in value)


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: object, low: float, high: float) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value) and low <= value <= high  # type: ignore[arg-type,operator]


def _is_environment(value: object) -> bool:
    return isinstance(value, dict) and all(
        _ENV_NAME.fullmatch(name) is not None and _is_text(text) for name, text in value.items()
    )


def shares(placements: Sequence[Placement]) -> dict[str, list[Placement]]:
    """The placements by GPU."""
    by_gpu: dict[str, list[Placement]] = {}
    for placement in placements:
        for uuid in placement.gpus:
            by_gpu.setdefault(uuid, []).append(placement)
    return by_gpu
