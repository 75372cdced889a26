"""Files that time, disks and people have damaged: a seed, the same damage."""

import random
from collections.abc import Callable, Sequence

Mutation = Callable[[bytearray, random.Random], bytes]

_WORDS: Sequence[bytes] = (
    b"", b"-1", b"0", b"nan", b"NaN", b"inf", b"-inf", b"1e999", b"1e308", b"99999999999999999999",
    b"18446744073709551615", b"9223372036854775808", b"-9223372036854775809", b"4294967294", b"0x10",
    b"1_000", b"1.5", b"-0.0", b"None", b"null", b"Unknown", b"true", b"[]", b"{}", b'""', b'"', b"'", b"\\",
    b"\\ud800",
    b"\xff", b"\xc3\x28", b"\xe2\x80\xae", b"\0", b"\r", b"\n", b"\r\n", b"\t", b",", b"|", b";", b" ", b"%s",
    b"=1+1", b"../../etc/passwd", b"9999-12-31T23:59:59", b"0001-01-01T00:00:00", b"2024-03-31T02:30:00",
    b"2024-10-27T02:30:00", b"1_[1-4000000:2,3]", b"1+1+1", b"365-23:59:59", b"UNLIMITED", b"gres/gpu=-1",
    b"gpu:a100:99999999999", b"\xef\xbb\xbf", b"\xd9\xa3", b"x" * 3000, b"[" * 300, b"{" * 300, b"9" * 5000,
)  # fmt: skip


def _flip(content: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 3, 20))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def _overwrite(content: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 5))):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


def _delete(content: bytearray, rng: random.Random) -> bytes:
    start, size = _span(content, rng)
    return bytes(content[:start] + content[start + size :])


def _duplicate(content: bytearray, rng: random.Random) -> bytes:
    start, size = _span(content, rng)
    return bytes(content[: start + size] + content[start:])


def _swap(content: bytearray, rng: random.Random) -> bytes:
    (a, size), (b, _) = sorted((_span(content, rng), _span(content, rng)))
    size = min(size, b - a)
    one, other = content[a : a + size], content[b : b + size]
    content[a : a + len(one)], content[b : b + size] = other, one
    return bytes(content)


def _truncate(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content[: rng.randrange(len(content))])


def _behead(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content[rng.randrange(1, min(len(content), 50)) :])


def _insert(content: bytearray, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return bytes(content[:place] + rng.choice(_WORDS) + content[place:])


def _drop_line(content: bytearray, rng: random.Random) -> bytes:
    lines = bytes(content).split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _repeat_lines(content: bytearray, rng: random.Random) -> bytes:
    lines = bytes(content).split(b"\n")
    place = rng.randrange(len(lines))
    return b"\n".join([*lines[:place], *[lines[place]] * rng.randrange(2, 30), *lines[place:]])


def _shuffle_lines(content: bytearray, rng: random.Random) -> bytes:
    lines = bytes(content).split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def _replace_word(content: bytearray, rng: random.Random) -> bytes:
    """Something else in place of what stands between two delimiters: the shape stays, the value is odd."""
    whole = bytes(content)
    marks = [place for place, one in enumerate(whole) if one in b' ,|\t\n":;=']
    if len(marks) < 2:
        return _insert(content, rng)
    for _ in range(rng.choice((1, 1, 4))):
        at = rng.randrange(len(marks) - 1)
        word = rng.choice(_WORDS)
        shift = len(word) - (marks[at + 1] - marks[at] - 1)
        whole = whole[: marks[at] + 1] + word + whole[marks[at + 1] :]
        marks = [*marks[: at + 1], *(mark + shift for mark in marks[at + 1 :])]
    return whole


def _other_ends(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content).replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\0\n", b"\xc2\x85", b" \n")))


def _other_encoding(content: bytearray, rng: random.Random) -> bytes:
    text = bytes(content).decode("latin-1")
    return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-8-sig", "utf-32", "utf-8")))


MUTATIONS: Sequence[Mutation] = (
    _flip, _overwrite, _delete, _duplicate, _swap, _truncate, _behead, _insert, _drop_line, _repeat_lines,
    _shuffle_lines, _replace_word, _replace_word, _replace_word, _other_ends, _other_encoding,
)  # fmt: skip


def mutated(content: bytes, seed: int) -> bytes:
    """Content with one to three kinds of damage."""
    rng = random.Random(seed)  # noqa: S311 - damage, not secrets
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if content:
            content = rng.choice(MUTATIONS)(bytearray(content), rng)
    return content


def _span(content: bytearray, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(content))
    return start, rng.randrange(1, rng.choice((2, 10, 200)) + 1)
