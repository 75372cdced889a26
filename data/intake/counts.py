"""Whole counts and sizes as tables of inventories have them, with the units that are glued to them."""

import re
from functools import lru_cache
from typing import Final

from data.intake.rows import Notes, quoted
from data.intake.rules import ImportRule
from data.slurm.durations import is_null

_COUNT: Final = re.compile(r"\d{1,12}(?:\.0{1,6})?", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGTP]?)(i?B)?", re.ASCII | re.IGNORECASE)
_LONGEST: Final = 40
_MIB_OF: Final = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}


def whole(text: str, what: str, notes: Notes) -> int | None:
    """A count; None where the text stands for nothing, or (with a note) is no whole count."""
    word = text.strip()
    if is_null(word):
        return None
    if _COUNT.fullmatch(word) is None:
        notes.add(ImportRule.BAD_NUMBER, f"{what} is {quoted(text)}, a whole number is expected")
        return None
    return int(float(word))


def memory_mib(text: str, what: str, notes: Notes) -> float | None:
    """A size of memory in MiB, of `24GB`, `24 GiB`, `24576`; a bare number is MiB.

    Makers and accounting mean powers of two by GB, so GB and GiB are the same here.

    Returns:
        None where the text stands for nothing, or (with a note) is no size.
    """
    if is_null(text):
        return None
    word = text.strip()
    size = _size_mib(word) if len(word) < _LONGEST else None
    if size is None:
        notes.add(ImportRule.BAD_NUMBER, f"{what} is {quoted(text)}, a size such as 24GB is expected")
    return size


@lru_cache(maxsize=2**12)
def _size_mib(word: str) -> float | None:
    found = _SIZE.fullmatch(word)
    if found is None:
        return None
    return float(found[1]) * _MIB_OF[(found[2] or "M").upper()]
