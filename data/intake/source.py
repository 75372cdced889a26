"""Files as bounded streams: plain, gzip or zstd, as lines or as bytes, whatever is in them.

Nothing here holds more than a few blocks of a file, however long its lines are and however much a small file
unpacks to.
"""

import gzip
import hashlib
import io
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import pyarrow as pa

from data.rules import Rule
from domain.errors import Fault, InputError

MAX_LINE_BYTES: Final = 4 * 2**20
"""Longest line and largest JSON object that is read; an object of etcd has at most 1.5 MiB."""

MAX_RATIO: Final = 250
"""Most bytes that a byte of a compressed file may unpack to, beyond the first `FREE_BYTES`."""

FREE_BYTES: Final = 64 * 2**20

HEAD_BYTES: Final = 2**18
"""What formats are told apart by."""

_BLOCK_BYTES: Final = 2**20
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_REFUSED: Final = {
    b"\x89PNG": "a PNG image",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or export it as CSV",
    b"%PDF": "a PDF document",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
    b"BZh": "a bzip2 archive: unpack it, or use gzip or zstd",
    b"\xfd7zXZ": "an xz archive: unpack it, or use gzip or zstd",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3": "an SQLite database: export its table as CSV",
    b"\x7fELF": "a program",
}
PARQUET_MAGIC: Final = b"PAR1"


class Line(NamedTuple):
    """One line of a text.

    Attributes:
        number: from 1 on.
        text: without its end. Empty where it is flagged as unreadable.
        is_mended: whether bytes that are not UTF-8 were replaced.
        fault: why it cannot be read: `nul` or `long`; None where it can.
        bytes_hash: of its bytes as they were, where some were replaced.
    """

    number: int
    text: str
    is_mended: bool = False
    fault: str | None = None
    bytes_hash: str | None = None


class BrokenFileError(Exception):
    """The file ends or breaks in the middle; what was read before is good."""


def refuse(path: Path, rule: Rule, message: str, line: int | None = None) -> InputError:
    """The error of a file nothing of which can be read."""
    return InputError([Fault(str(path), line, rule, message)])


def size_of(path: Path) -> int:
    """Bytes of the file as it lies there.

    Raises:
        InputError: if there is no such file, it is no regular one, it may not be read or it is empty.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise refuse(path, Rule.UNREADABLE_FILE, "this is a directory, a file is expected")
        if not stat.S_ISREG(status.st_mode):
            raise refuse(path, Rule.UNREADABLE_FILE, "this is not a regular file")
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise refuse(path, Rule.UNREADABLE_FILE, "there is no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(path, Rule.UNREADABLE_FILE, f"the file cannot be read: {reason}") from error
    if not status.st_size:
        raise refuse(path, Rule.EMPTY_FILE, "the file is empty")
    return status.st_size


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a file; what it is packed with is told by its first bytes, not by its name.

    Reading raises BrokenFileError where packed bytes are broken or cut short, and InputError where they
    unpack to too many.

    Raises:
        InputError: if the file cannot be read or is an archive or image.
    """
    size = size_of(path)
    with path.open("rb") as raw:
        magic = raw.read(128)
        raw.seek(0)
        for start, what in _REFUSED.items():
            if magic.startswith(start):
                is_arrays = start.startswith(b"PK") and b".npy" in magic
                found = "NumPy arrays (npz), which are no history" if is_arrays else what
                raise refuse(path, Rule.NOT_TEXT, f"the file looks like {found}", 1)
        if magic.startswith(_GZIP):
            yield cast("IO[bytes]", _Guarded(gzip.GzipFile(fileobj=raw), path, size))
        elif magic.startswith(_ZSTD):
            with pa.input_stream(raw, compression="zstd") as unpacked:
                yield cast("IO[bytes]", _Guarded(unpacked, path, size))
        else:
            yield raw


class _Guarded(io.RawIOBase):
    """Unpacked bytes, as long as there are not too many of them for the size of the file."""

    def __init__(self, inner: Any, path: Path, packed_bytes: int) -> None:
        super().__init__()
        self._inner = inner
        self._path = path
        self._most = FREE_BYTES + MAX_RATIO * packed_bytes
        self._seen = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        wanted = _BLOCK_BYTES if size < 0 else min(size, _BLOCK_BYTES)
        try:
            block = self._inner.read(wanted)
        except (EOFError, OSError, zlib.error, pa.ArrowException) as error:
            raise BrokenFileError(
                f"the packed file breaks after {self._seen} unpacked bytes: {error}"
            ) from error
        self._seen += len(block)
        if self._seen > self._most:
            found = f"the file unpacks to more than {MAX_RATIO} times its size; unpack it yourself first"
            raise refuse(self._path, Rule.TOO_LARGE, found)
        return bytes(block)


def head_of(path: Path) -> bytes:
    """The first unpacked bytes of a file.

    Raises:
        InputError: as `opened`; also if the packed file breaks before.
    """
    parts: list[bytes] = []
    left = HEAD_BYTES
    try:
        with opened(path) as file:
            while left > 0 and (block := file.read(left)):
                parts.append(block)
                left -= len(block)
    except BrokenFileError as error:
        if not parts:
            raise refuse(path, Rule.UNREADABLE_FILE, str(error)) from error
    return b"".join(parts)


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    r"""Lines of a text, by \n or \r\n; those that are too long or hold NUL are flagged, not kept.

    A byte order mark is left out. Bytes that are not UTF-8 become U+FFFD.
    """
    number = 0
    for whole in _whole_lines(file):
        if whole is None:
            number += 1
            yield Line(number, "", fault="long")
            continue
        block = whole.removeprefix(b"\xef\xbb\xbf") if number == 0 else whole
        for line in _lines(block, number + 1):
            number += 1
            yield line


def _whole_lines(file: IO[bytes]) -> Iterator[bytes | None]:
    """Blocks that end where a line does, and None for each line that is too long."""
    rest = b""
    is_skipping = False
    while block := file.read(_BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if is_skipping:
            start = block.find(b"\n") + 1
            if not start:
                continue
            is_skipping = False
            if end > start:
                yield block[start:end]
            rest = block[end:]
        elif end:
            first = block.find(b"\n") + 1
            if len(rest) + first > MAX_LINE_BYTES:
                yield None
                if end > first:
                    yield block[first:end]
            else:
                yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
        if len(rest) > MAX_LINE_BYTES:
            yield None
            rest, is_skipping = b"", True
    if rest:
        yield rest


def _lines(block: bytes, first: int) -> Iterable[Line]:
    """Lines of a block that ends where a line does; the first has the number `first`."""
    if b"\0" in block:
        return _odd_lines(block, first)
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return _odd_lines(block, first)
    lines = text.replace("\r\n", "\n").removesuffix("\n").removesuffix("\r").split("\n")
    return map(Line, range(first, first + len(lines)), lines)


def _odd_lines(block: bytes, first: int) -> Iterator[Line]:
    for number, ended in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
        line = ended.removesuffix(b"\r")
        if b"\0" in line:
            yield Line(number, "", fault="nul")
            continue
        try:
            yield Line(number, line.decode())
        except UnicodeDecodeError:
            mended = line.decode("utf-8", "replace")
            yield Line(number, mended, is_mended=True, bytes_hash=hashlib.sha256(line).hexdigest()[:16])
