"""Files as streams: whatever is in them, a few blocks are in memory and nothing hangs."""

import gzip
import io
import os
import tracemalloc
import zlib

import pyarrow as pa
import pytest

from data.intake.source import (
    FREE_BYTES,
    HEAD_BYTES,
    MAX_LINE_BYTES,
    BrokenFileError,
    head_of,
    lines_of,
    opened,
)
from domain.errors import InputError

TEXT = b"".join(b"line %d with some words in it\n" % k for k in range(20_000))


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


PACKED = {"plain": bytes, "gzip": gzip.compress, "zstd": zstd}


class Endless(io.RawIOBase):
    """As many bytes as asked for, from a pattern, without having them."""

    def __init__(self, pattern: bytes, size: int, end: bytes = b"") -> None:
        super().__init__()
        self._block, self._left, self._end = pattern, size, end

    def read(self, size: int = -1) -> bytes:
        if self._left:
            taken = min(size, self._left)
            self._left -= taken
            return (self._block * (taken // len(self._block) + 1))[:taken]
        end, self._end = self._end[:size], self._end[size:]
        return end


def lines(content: bytes):
    return list(lines_of(io.BytesIO(content)))


def read_all(path) -> bytes:
    with opened(path) as file:
        return b"".join(iter(lambda: file.read(10_000), b""))


def texts(content: bytes):
    return [(line.number, line.text) for line in lines(content)]


@pytest.mark.parametrize("packing", PACKED)
def test_a_file_is_read_whatever_it_is_packed_with_and_called(packing, tmp_path):
    path = tmp_path / "history.png"
    path.write_bytes(PACKED[packing](TEXT))
    assert read_all(path) == TEXT
    assert head_of(path) == TEXT[:HEAD_BYTES]


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_several_archives_one_after_the_other_are_one_file(pack, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pack(TEXT) + pack(b"more\n"))
    assert read_all(path) == TEXT + b"more\n"


def test_zeros_after_a_gzip_archive_are_padding(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(TEXT) + bytes(1000))
    assert read_all(path) == TEXT


@pytest.mark.parametrize(
    ("pack", "damage"),
    [
        (gzip.compress, "cut"),
        (gzip.compress, "garbage"),
        (gzip.compress, "flipped"),  # zstd has a checksum only if asked for
        (zstd, "cut"),
        (zstd, "garbage"),
    ],
)
def test_what_stands_before_a_break_of_an_archive_is_read(pack, damage, tmp_path):
    noise = b"".join(b"%08x\n" % zlib.crc32(b"%d" % k) for k in range(60_000))
    packed = bytearray(pack(noise))
    if damage == "cut":
        packed = packed[: len(packed) // 2]
    elif damage == "garbage":
        packed += b"garbage, not an archive"
    else:
        packed[len(packed) * 3 // 4] ^= 0x55
    path = tmp_path / "file"
    path.write_bytes(packed)
    found: list[bytes] = []
    with opened(path) as file:
        with pytest.raises(BrokenFileError, match="breaks after"):
            found.extend(iter(lambda: file.read(1_000), b""))
        with pytest.raises(BrokenFileError):
            file.read(1)
    if damage != "flipped":  # what a flipped bit makes of the bytes just before is only found out at the end
        assert noise.startswith(b"".join(found))
    assert sum(map(len, found)) > len(noise) // 4


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_an_archive_broken_at_its_very_start_is_refused(pack, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pack(TEXT)[:8])
    with pytest.raises(InputError, match=r"unreadable-file.*breaks after 0 unpacked bytes"):
        head_of(path)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_bomb_is_refused_in_little_memory(packing, tmp_path):
    path = tmp_path / "file"
    if packing == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        content = b"".join(packer.compress(bytes(2**20)) for _ in range(200)) + packer.flush()
    else:
        content = b"".join(zstd(bytes(2**20)) for _ in range(200))
    path.write_bytes(content)
    tracemalloc.start()
    with opened(path) as file, pytest.raises(InputError, match=r"too-large: .*unpacks to more than"):
        sum(len(block) for block in iter(lambda: file.read(2**20), b""))
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()
    assert len(content) * 250 < 200 * 2**20 - FREE_BYTES


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"PK\x03\x04 ../../etc/passwd", "zip archive"),
        (b"\xff\xfeJ\0o\0b\0", "UTF-16"),
        (b"\xfe\xff\0J\0o\0b", "UTF-16"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\0", "xz archive"),
        (b"SQLite format 3\0", "SQLite"),
        (b"\x7fELF", "a program"),
        (b"../../etc/passwd".ljust(257, b"\0") + b"ustar\x0000", "tar archive"),
    ],
)
@pytest.mark.parametrize("packing", PACKED)
def test_what_is_no_table_is_refused_by_what_it_is(start, what, packing, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_bytes(PACKED[packing](start + bytes(1000)))
    with pytest.raises(InputError, match=rf"jobs.csv:1: not-text: .*{what}"):
        head_of(path)


def test_a_column_whose_name_begins_like_an_archive_is_text(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_bytes(b"BZh,JobID\n1,2\n")
    assert head_of(path).startswith(b"BZh")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\n\na\n", ["", "", "a"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbf", []),
        (b"", []),
        (b"a\x0bb\x0cc\x1cd\xe2\x80\xa8e\xc2\x85f\n", ["a\x0bb\x0cc\x1cd\u2028e\x85f"]),
    ],
)
def test_lines_end_in_newlines_only(content, expected):
    assert texts(content) == list(enumerate(expected, 1))


def test_latin_1_is_mended_in_its_line_only_and_named_by_its_bytes():
    found = lines("d\u00e9d\u00e9 job\n".encode() + b"d\xe9d\xe9 job\n\xef\xbf\xbd was there before\nplain\n")
    assert [line.is_mended for line in found] == [False, True, False, False]
    assert found[1].text == "d\ufffdd\ufffd job"
    assert found[1].bytes_hash != lines(b"d\xe8d\xe9 job\n")[0].bytes_hash
    assert found[0].bytes_hash is None
    assert [line.number for line in found] == [1, 2, 3, 4]


def test_a_cut_character_does_not_eat_the_end_of_its_line():
    assert texts(b"a\xe2\x82\nb\n") == [(1, "a\ufffd"), (2, "b")]


@pytest.mark.parametrize("other", [b"", b"\xff\n"])
def test_a_line_with_nul_is_flagged_and_the_others_are_kept(other):
    found = lines(b"a\nb\0c\nd\n" + other)
    assert [(line.text, line.fault) for line in found[:3]] == [("a", None), ("", "nul"), ("d", None)]


def test_a_line_of_2_gib_takes_little_memory_and_costs_itself_only():
    tracemalloc.start()
    file = Endless(bytes(97 for _ in range(2**20)), 2 * 2**30, b"\nafter\nlast")
    found = [(line.number, line.text, line.fault) for line in lines_of(file)]
    assert tracemalloc.get_traced_memory()[1] < 8 * MAX_LINE_BYTES
    tracemalloc.stop()
    assert found == [(1, "", "long"), (2, "after", None), (3, "last", None)]


@pytest.mark.parametrize("block", [b"x" * (MAX_LINE_BYTES - 1), b"x" * MAX_LINE_BYTES])
def test_lines_up_to_the_longest_are_read(block):
    found = lines(b"before\n" + block + b"\nafter\n" + block + b"x" + b"x\nend")
    assert [line.fault for line in found[2:]] == [None, "long", None]
    assert [line.number for line in found] == [1, 2, 3, 4, 5]
    assert found[2].text == "after"
    assert found[1].fault == ("long" if len(block) == MAX_LINE_BYTES else None)


def test_millions_of_empty_lines_are_lines():
    assert sum(1 for _ in lines_of(io.BytesIO(b"\n" * 1_000_000))) == 1_000_000


# What is no file, or no file that may be read


def test_a_directory_a_pipe_and_a_missing_file_are_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, what in [
        (tmp_path, "this is a directory"),
        (pipe, "not a regular file"),
        (tmp_path / "missing", "no such file"),
        (tmp_path / "nul\0", "embedded null"),
        (tmp_path / ("x" * 300), "name too long"),
    ]:
        with pytest.raises(InputError, match=rf"unreadable-file: .*{what}"):
            head_of(path)


def test_links_that_lead_nowhere_or_round_in_circles_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"unreadable-file: .*symbolic links"):
        head_of(tmp_path / "a")
    with pytest.raises(InputError, match="unreadable-file: there is no such file"):
        head_of(tmp_path / "c")


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "secret.csv"
    path.write_text("a,b\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # whoever runs as root may read everything
        monkeypatch.setattr(type(path), "open", lambda *_args, **_kwargs: _deny())
    with pytest.raises(InputError, match=r"secret.csv: unreadable-file: .*Permission denied"):
        head_of(path)


def _deny():
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["plain", "gzip"])
def test_an_empty_file_has_no_bytes(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    if content:
        assert head_of(path) == b""
    else:
        with pytest.raises(InputError, match="empty-file"):
            head_of(path)


def test_a_device_that_breaks_while_it_is_read_is_a_broken_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(TEXT)

    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 100_000:
                raise OSError(5, "Input/output error")
            return super().read(size)

    monkeypatch.setattr(type(path), "open", lambda *_args, **_kwargs: Failing(TEXT[:150_000]))
    with opened(path) as file:
        assert file.read(100_001) == TEXT[:100_001]
        with pytest.raises(BrokenFileError, match=r"breaks after .* Input/output error"):
            file.read(1)
