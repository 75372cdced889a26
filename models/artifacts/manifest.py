"""What is written beside every stored model: what it is, what it was trained on, the hash of each file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, Self

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.parts import Json, checked, json_bytes, json_value

MANIFEST_FILE: Final = "manifest.json"
FORMAT: Final = "antecast-model"
FORMAT_VERSION: Final = 1

KINDS: Final = ("lifetime", "demand", "interference")
"""Kinds of models."""

_LIBRARIES: Final = ("lightgbm", "numpy", "scipy")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_CREATED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_FIELDS: Final = frozenset(
    (
        *("format", "format_version", "kind", "name", "created", "training", "features"),
        *("settings", "seed", "libraries", "scores", "files"),
    )
)


def library_versions() -> dict[str, str]:
    """Versions of the libraries that training depends on."""
    return {name: version(name) for name in _LIBRARIES}


@dataclass(frozen=True, slots=True)
class Span:
    """What a model was trained on.

    Attributes:
        from_s, until_s: the record's first submit, and the instant as of which it was trained, seconds.
        num_jobs: jobs that had ended by then.
        data_sha256: `data.history.content_hash` of those jobs.
        tail_sha256: the same of those that ended within the last day: by it a later record is known to
            continue this one, also where it begins later.
    """

    from_s: float
    until_s: float
    num_jobs: int
    data_sha256: str
    tail_sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A stored model, described.

    Attributes:
        kind: one of `KINDS`.
        name: of the model in its registry of predictors.
        created: when it was stored, ISO 8601 in UTC, ending in Z.
        training: what it was trained on.
        seed: of the training.
        features: names of what it sees.
        settings: what it was made with.
        scores: of its forecasts of the recent past, by name.
        libraries: versions it was trained with.
    """

    kind: str
    name: str
    created: str
    training: Span
    seed: int = 0
    features: tuple[str, ...] = ()
    settings: Mapping[str, Json] = field(default_factory=dict)
    scores: Mapping[str, float | None] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=library_versions)

    def to_bytes(self, files: Mapping[str, tuple[str, int]]) -> bytes:
        """The manifest file.

        Args:
            files: SHA-256 and length of each other file.

        Raises:
            ArtifactError: if it could not be read again.
        """
        document: dict[str, Json] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "name": self.name,
            "created": self.created,
            "training": {
                "from_s": self.training.from_s,
                "until_s": self.training.until_s,
                "num_jobs": self.training.num_jobs,
                "data_sha256": self.training.data_sha256,
                "tail_sha256": self.training.tail_sha256,
            },
            "features": list(self.features),
            "settings": dict(self.settings),
            "seed": self.seed,
            "libraries": dict(self.libraries),
            "scores": dict(self.scores),
            "files": {name: {"sha256": digest, "bytes": size} for name, (digest, size) in files.items()},
        }
        content = json_bytes(MANIFEST_FILE, document, indent=1)
        self.of_bytes(content)
        return content

    @classmethod
    def of_bytes(cls, content: bytes) -> tuple[Self, dict[str, tuple[str, int]]]:
        """Read a manifest file.

        Returns:
            The manifest, and SHA-256 and length of each other file.

        Raises:
            ArtifactError: if the format or its version is unknown, or a field is not what it must be.
        """
        top = _Fields(json_value(MANIFEST_FILE, content), "")
        if top.get("format", str) != FORMAT or top.get("format_version", int) != FORMAT_VERSION:
            raise ArtifactError(
                MANIFEST_FILE, Rule.FORMAT, f"only {FORMAT} version {FORMAT_VERSION} is read by this program"
            )
        top.refuse_others(_FIELDS)
        span = _Fields(top.get("training", dict), "training.")
        manifest = cls(
            kind=top.one_of("kind", KINDS),
            name=top.matching("name", _NAME),
            created=top.matching("created", _CREATED),
            training=Span(
                span.get("from_s", float),
                span.get("until_s", float),
                span.count("num_jobs"),
                span.matching("data_sha256", _HASH),
                span.matching("tail_sha256", _HASH),
            ),
            seed=top.count("seed"),
            features=tuple(checked(MANIFEST_FILE, "features", one, str) for one in top.get("features", list)),
            settings=top.get("settings", dict),
            scores=top.each("scores", float, type(None)),
            libraries=top.each("libraries", str),
        )
        listed = top.get("files", dict)
        files = {name: _listed(name, _Fields(entry, f"files.{name}.")) for name, entry in listed.items()}
        return manifest, files


def _listed(name: str, entry: "_Fields") -> tuple[str, int]:
    if not name:
        raise ArtifactError(MANIFEST_FILE, Rule.BAD_NAME, "a file has no name")
    return entry.matching("sha256", _HASH), entry.count("bytes")


class _Fields:
    """The members of a JSON object, each checked as it is taken."""

    def __init__(self, value: Any, place: str) -> None:
        self._members: dict[str, Any] = checked(MANIFEST_FILE, place or "the document", value, dict)
        self._place = place

    def get(self, name: str, *kinds: type) -> Any:
        if name not in self._members:
            raise ArtifactError(MANIFEST_FILE, Rule.FIELD, f"{self._place}{name} is missing")
        return checked(MANIFEST_FILE, self._place + name, self._members[name], *kinds)

    def count(self, name: str) -> int:
        number: int = self.get(name, int)
        if number < 0:
            raise self._refused(name, number)
        return number

    def matching(self, name: str, pattern: re.Pattern[str]) -> str:
        text: str = self.get(name, str)
        if pattern.fullmatch(text) is None:
            raise self._refused(name, text)
        return text

    def one_of(self, name: str, known: tuple[str, ...]) -> str:
        text: str = self.get(name, str)
        if text not in known:
            raise self._refused(name, text)
        return text

    def each(self, name: str, *kinds: type) -> dict[str, Any]:
        members: dict[str, Any] = self.get(name, dict)
        return {
            key: checked(MANIFEST_FILE, f"{self._place}{name}.{key}", value, *kinds)
            for key, value in members.items()
        }

    def refuse_others(self, known: frozenset[str]) -> None:
        other = sorted(set(self._members) - known)
        if other:
            raise ArtifactError(MANIFEST_FILE, Rule.FIELD, f"{other[0]!r} is not a field of version 1")

    def _refused(self, name: str, value: object) -> ArtifactError:
        return ArtifactError(MANIFEST_FILE, Rule.FIELD, f"{self._place}{name} may not be {value!r:.80}")
