"""Free text of sources made safe: for grouping (NFC), for terminals and pages (nothing invisible)."""

import hashlib
import re
import unicodedata
from functools import lru_cache
from typing import Final

from data.intake.rows import Notes
from data.intake.rules import ImportRule

MAX_CHARACTERS: Final = 500
"""Longest text that is kept; job names with whole command lines are cut there."""

_LONGEST_CACHED: Final = 2 * MAX_CHARACTERS
"""Longer texts are rare and are not remembered: a cache of them would hold the file."""

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def cleaned(text: str) -> tuple[str | None, bool]:
    """Text without what cannot be seen, composed (NFC), trimmed and cut; None where nothing is left.

    Returns:
        The text, and whether something invisible was in it (white space at its ends aside).
    """
    if len(text) <= _LONGEST_CACHED:
        return _cleaned(text)
    return _cleaned.__wrapped__(text)


@lru_cache(maxsize=2**16)
def _cleaned(text: str) -> tuple[str | None, bool]:
    if text.isascii() and text.isprintable():
        return text.strip()[:MAX_CHARACTERS] or None, False
    kept, times = _INVISIBLE.subn("", text.strip())
    cut = kept.strip()[:_LONGEST_CACHED]  # composing a long run of marks takes time by its square
    return unicodedata.normalize("NFC", cut).strip()[:MAX_CHARACTERS] or None, times > 0


def clean(text: str | None, notes: Notes, what: str) -> str | None:
    """`cleaned`, with a note where something was taken out.

    Args:
        text: as the source has it.
        notes: of the row.
        what: name of the field, for the note.
    """
    if text is None:
        return None
    kept, was_changed = cleaned(text)
    if was_changed:
        notes.add(ImportRule.CONTROL_CHARACTERS, f"{what} held characters that cannot be seen")
    return kept


def hashed(text: str) -> str:
    """A short name for somebody whose own name need not be kept: 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
