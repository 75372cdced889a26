"""Lists of hosts in Slurm's words: `gpu[01-04,07],login1`, `rack[1-2]n[01-16]`."""

import re
from functools import lru_cache
from itertools import product
from typing import Final

MAX_HOSTS: Final = 65_536
"""Most hosts of one list."""

MAX_CHARACTERS: Final = 2**16

_PIECE: Final = re.compile(r"[^\[\],]+|\[[0-9,\-]+\]", re.ASCII)
_RANGE: Final = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.ASCII)


@lru_cache(maxsize=2**4)
def expand_hosts(text: str) -> tuple[str, ...]:
    """The hosts of a list, in its order, each once.

    Raises:
        ValueError: if brackets do not match, a range runs backwards, or there are more than `MAX_HOSTS`.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"a list of hosts has no more than {MAX_CHARACTERS} characters")
    hosts: dict[str, None] = {}
    for word in _words(text):
        if "[" not in word and "]" not in word:
            hosts[word] = None
            continue
        parts = _PIECE.findall(word)
        if "".join(parts) != word:
            raise ValueError(f"{text!r} is no list of hosts")
        choices = [_numbers(part, text) if part.startswith("[") else [part] for part in parts]
        total = 1
        for choice in choices:
            total *= len(choice)
            if total + len(hosts) > MAX_HOSTS:
                raise ValueError(f"{text!r} names more than {MAX_HOSTS} hosts")
        hosts.update(dict.fromkeys(map("".join, product(*choices))))
    return tuple(hosts)


def _words(text: str) -> list[str]:
    """The list cut at commas outside of brackets."""
    words, depth, word = [], 0, ""
    for sign in text.strip():
        depth += (sign == "[") - (sign == "]")
        if not 0 <= depth <= 1:
            raise ValueError(f"{text!r} has brackets that do not match")
        if sign == "," and not depth:
            words.append(word)
            word = ""
        else:
            word += sign
    if depth:
        raise ValueError(f"{text!r} has brackets that do not match")
    return list(filter(None, map(str.strip, [*words, word])))


def _numbers(part: str, text: str) -> list[str]:
    found: list[str] = []
    for one in part[1:-1].split(","):
        match = _RANGE.fullmatch(one)
        if match is None:
            raise ValueError(f"{text!r}: {one!r} is no range of hosts")
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if last < first or last - first >= MAX_HOSTS:
            raise ValueError(f"{text!r}: {one!r} names no host, or more than {MAX_HOSTS}")
        width = len(match["first"])
        found.extend(f"{number:0{width}d}" for number in range(first, last + 1))
    return found
