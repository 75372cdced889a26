"""The registry of trained models: versions in folders, one champion per data and kind, and why it is that.

    ROOT/.lock                         held by whoever changes anything
    ROOT/<data>/<kind>/000001/         a version, see `models.artifacts.folder`
    ROOT/<data>/<kind>/line.json       the champion, and the history of decisions

Readers take no lock: a version appears whole, and line.json is replaced whole. A crash leaves at most a
folder or file whose name begins with `.tmp-`, which is never read and goes with the next change.
"""

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from models.artifacts import folder as folders
from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.folder import TEMPORARY, Stored
from models.artifacts.manifest import KINDS, Manifest
from models.artifacts.parts import Parts, checked, json_bytes, json_value

LINE_FILE: Final = "line.json"
_LINE_VERSION: Final = 1
_MAX_LINE_BYTES: Final = 16 * 2**20
_DATA_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_FOLDER_NAME: Final = re.compile(r"\d{6,9}")


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about a version.

    Attributes:
        version: the challenger.
        against: the champion of that moment, None if there was none.
        at: when, ISO 8601 in UTC.
        is_promoted: whether it became the champion.
        why: one sentence.
    """

    version: int
    against: int | None
    at: str
    is_promoted: bool
    why: str


@dataclass(frozen=True, slots=True)
class Line:
    """The models of one kind for one cluster or data set.

    Attributes:
        champion: version in use, None while there is none.
        decisions: in the order in which they were made.
        last: highest number ever given to a version; numbers are never used again.
    """

    champion: int | None = None
    decisions: tuple[Decision, ...] = ()
    last: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """One version: its number, and what it is, or why that cannot be read."""

    number: int
    manifest: Manifest | None
    fault: str | None = None


class ChampionChanged(ArtifactError):  # noqa: N818 - it is no fault of anybody's
    """Somebody else has promoted another version since the comparison."""


class Registry:
    """Stored models under one folder; safe with several writers at once.

    Args:
        root: the folder; made with the first version.
    """

    def __init__(self, root: Path) -> None:
        self.root: Final = root

    def lines(self) -> list[tuple[str, str]]:
        """(data, kind) of everything there is, sorted."""
        return sorted(
            (place.parent.name, kind)
            for kind in KINDS
            for place in self.root.glob(f"*/{kind}")
            if _DATA_NAME.fullmatch(place.parent.name) and place.is_dir()
        )

    def line(self, data: str, kind: str) -> Line:
        """Champion and decisions; an empty line where nothing was stored yet.

        Raises:
            ArtifactError: if the file that says so is damaged.
        """
        path = self._place(data, kind) / LINE_FILE
        try:
            content = _read_line(path)
        except FileNotFoundError:
            return Line()
        return _line_of(path, json_value(str(path), content))

    def versions(self, data: str, kind: str) -> list[Version]:
        """All versions, oldest first; a damaged one is listed with its fault."""
        return [self._described(data, kind, number) for number in self._numbers(data, kind)]

    def load(self, data: str, kind: str, version: int | None = None) -> Stored:
        """Read a version, by default the champion.

        Raises:
            ArtifactError: if there is none, or it is damaged: a damaged champion is not silently replaced.
        """
        if version is None:
            version = self.line(data, kind).champion
        if version is None:
            raise ArtifactError(self._place(data, kind), Rule.MISSING, "there is no champion yet")
        place = self._folder(data, kind, version)
        stored = folders.read(place)
        if stored.manifest.kind != kind:
            raise ArtifactError(place, Rule.FIELD, f"is a {stored.manifest.kind} model where {kind} belongs")
        return stored

    def add(self, data: str, manifest: Manifest, parts: Parts) -> int:
        """Store a version under the next number; it is not in use before `decide` says so.

        Returns:
            Its number.

        Raises:
            ArtifactError: if it may not be stored.
        """
        place = self._place(data, manifest.kind)
        with self._locked():
            _make_folders(self.root, place)
            _sweep(place)
            line = self.line(data, manifest.kind)
            number = max([line.last, *self._numbers(data, manifest.kind)]) + 1
            _write_line(place, replace(line, last=number))
            folders.write(self._folder(data, manifest.kind, number), manifest, parts)
        return number

    def decide(self, data: str, kind: str, decision: Decision) -> None:
        """Note a decision; if it promotes, the version is the champion from now on.

        Raises:
            ChampionChanged: if the champion is no longer the one it was compared with.
            ArtifactError: if the version cannot be read.
        """
        place = self._place(data, kind)
        with self._locked():
            folders.read_manifest(self._folder(data, kind, decision.version))
            line = self.line(data, kind)
            if line.champion != decision.against:
                raise ChampionChanged(
                    place,
                    Rule.EXISTS,
                    f"version {decision.version} was compared with {decision.against}, but the champion is "
                    f"{line.champion} by now: train again",
                )
            champion = decision.version if decision.is_promoted else line.champion
            _write_line(place, replace(line, champion=champion, decisions=(*line.decisions, decision)))

    def prune(self, data: str, kind: str, keep: int) -> list[int]:
        """Delete old versions, but never the champion or the newest `keep`.

        Returns:
            The numbers deleted. Decisions about them stay in the history.

        Raises:
            ValueError: if `keep` is negative.
        """
        if keep < 0:
            raise ValueError(f"keep is {keep}, must be at least 0")
        place = self._place(data, kind)
        if not place.is_dir():
            return []
        with self._locked():
            _sweep(place)
            champion = self.line(data, kind).champion
            numbers = self._numbers(data, kind)
            kept = set(numbers[max(0, len(numbers) - keep) :]) | {champion}
            doomed = [number for number in numbers if number not in kept]
            for number in doomed:
                folders.remove(self._folder(data, kind, number))
        return doomed

    def _numbers(self, data: str, kind: str) -> list[int]:
        place = self._place(data, kind)
        if not place.is_dir():
            return []
        return sorted(int(entry.name) for entry in place.iterdir() if _FOLDER_NAME.fullmatch(entry.name))

    def _described(self, data: str, kind: str, number: int) -> Version:
        try:
            return Version(number, folders.read_manifest(self._folder(data, kind, number)))
        except ArtifactError as error:
            return Version(number, None, str(error))

    def _place(self, data: str, kind: str) -> Path:
        if _DATA_NAME.fullmatch(data) is None:
            raise ArtifactError(repr(data[:80]), Rule.BAD_NAME, "data names are a-z, 0-9, '.', '_' and '-'")
        if kind not in KINDS:
            raise ArtifactError(repr(kind[:80]), Rule.BAD_NAME, f"kinds are {', '.join(KINDS)}")
        return self.root / data / kind

    def _folder(self, data: str, kind: str, number: int) -> Path:
        return self._place(data, kind) / f"{number:06d}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among all who change the registry; a lock dies with the process that holds it."""
        _make_folders(self.root)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(self.root / ".lock", flags, 0o600)
        except OSError as error:
            raise ArtifactError(self.root / ".lock", Rule.UNREADABLE, str(error.strerror)) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _make_folders(*places: Path) -> None:
    """Make folders that only their owner can enter, and all that they lie in."""
    for place in places:
        for one in reversed((place, *place.parents)):
            try:
                one.mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError as error:
                raise ArtifactError(one, Rule.UNREADABLE, str(error.strerror)) from error


def _sweep(place: Path) -> None:
    """Delete what a crash has left half done; whoever calls this holds the lock."""
    for entry in place.glob(f"{TEMPORARY}*"):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _read_line(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArtifactError(path, Rule.NOT_REGULAR, str(error.strerror)) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ArtifactError(path, Rule.NOT_REGULAR, "only regular files are read")
        if found.st_size > _MAX_LINE_BYTES:
            raise ArtifactError(path, Rule.TOO_LARGE, f"more than {_MAX_LINE_BYTES} bytes")
        return file.read(_MAX_LINE_BYTES)


def _write_line(place: Path, line: Line) -> None:
    document = {
        "format_version": _LINE_VERSION,
        "champion": line.champion,
        "last": line.last,
        "decisions": [asdict(decision) for decision in line.decisions],
    }
    unfinished = place / f"{TEMPORARY}{secrets.token_hex(8)}"
    folders.write_file(unfinished, json_bytes(LINE_FILE, document, indent=1))
    unfinished.replace(place / LINE_FILE)
    folders.sync_folder(place)


def _line_of(path: Path, value: Any) -> Line:
    file = str(path)

    def take(source: Any, name: str, *kinds: type) -> Any:
        members = checked(file, "an entry", source, dict)
        if name not in members:
            raise ArtifactError(path, Rule.FIELD, f"{name} is missing")
        return checked(file, name, members[name], *kinds)

    if take(value, "format_version", int) != _LINE_VERSION:
        raise ArtifactError(path, Rule.FORMAT, f"only version {_LINE_VERSION} is read by this program")
    none = type(None)
    decisions = tuple(
        Decision(
            take(one, "version", int),
            take(one, "against", int, none),
            take(one, "at", str),
            take(one, "is_promoted", bool),
            take(one, "why", str),
        )
        for one in take(value, "decisions", list)
    )
    return Line(take(value, "champion", int, none), decisions, take(value, "last", int))
