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

_LOOKED_AT: Final = 4 * MAX_CHARACTERS
"""Characters of longer texts that are looked at: what is remembered has to be bounded too."""

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def cleaned(text: str) -> tuple[str | None, bool]:
    """Text without what cannot be seen, composed (NFC), trimmed and cut; None where nothing is left.

    Returns:
        The text, and whether something invisible was in it (white space at its ends aside).
    """
    return _cleaned(text if len(text) <= _LOOKED_AT else text.lstrip()[:_LOOKED_AT])


@lru_cache(maxsize=2**14)
def _cleaned(text: str) -> tuple[str | None, bool]:
    if text.isascii() and text.isprintable():
        return text.strip()[:MAX_CHARACTERS] or None, False
    trimmed = text.strip()
    kept, times = _INVISIBLE.subn("", trimmed)
    return unicodedata.normalize("NFC", kept).strip()[:MAX_CHARACTERS] or None, times > 0


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
