"""Fields of a document: typed access, and what is said of one that is wrong."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


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


def bad(message: str, placement_id: str | None = None) -> DocumentError:
    """A refusal of the whole document because one of its parts is wrong."""
    return DocumentError(Refusal(placement_id, "bad_document", message))


class Fields:
    """Typed access to one JSON object; every fault names the field."""

    def __init__(self, body: Mapping[str, Any], placement_id: str | None) -> None:
        self._body = body
        self._id = placement_id

    def _get(self, name: str, is_good: Callable[[Any], bool], what: str) -> Any:
        value = self._body.get(name)
        if not is_good(value):
            raise bad(f"{name}: {str(value)[:80]!r} is not {what}", self._id)
        return value

    def text(self, name: str) -> str:
        """A text that is neither empty nor long."""
        value: str = self._get(
            name, lambda v: _is_text(v) and 0 < len(v) <= 256, "a text of 1 to 256 letters"
        )
        return value

    def whole(self, name: str, low: int, high: int = 2**53) -> int:
        """A whole number within bounds."""
        value: int = self._get(name, lambda v: _is_whole(v, low, high), f"a whole number in [{low}, {high}]")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """A number within bounds."""
        return float(self._get(name, lambda v: _is_number(v, low, high), f"a number in [{low:g}, {high:g}]"))

    def word(self, name: str, words: Iterable[str]) -> str:
        """One of these words."""
        known = [str(word) for word in words]
        value: str = self._get(
            name, lambda v: isinstance(v, str) and v in known, f"one of {', '.join(known)}"
        )
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Texts, the first not empty."""
        return tuple(
            self._get(name, lambda v: _is_list(v) and bool(v[0]), "a list of texts, the first not empty")
        )

    def gpus(self, name: str) -> tuple[str, ...]:
        """UUIDs, no two alike."""
        return tuple(
            self._get(
                name,
                lambda v: _is_list(v) and len(set(v)) == len(v) and all(0 < len(uuid) <= 128 for uuid in v),
                "a list of different GPU UUIDs",
            )
        )

    def environment(self, name: str) -> Mapping[str, str]:
        """Environment variables."""
        return dict(self._get(name, _is_environment, "an object of environment variables"))

    def instant(self, name: str) -> float:
        """An instant of RFC 3339, as seconds since 1970, UTC."""
        return datetime.fromisoformat(self._get(name, _is_instant, "an instant with its offset")).timestamp()


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


def _is_instant(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False
