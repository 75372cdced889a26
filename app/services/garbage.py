"""What can be no file of job history, told by its first bytes, so that it is refused at once."""

from typing import Final

from app.errors import Invalid

LOOKED_AT_BYTES: Final = 4096
LEAST_BYTES: Final = 512
"""Shorter beginnings are left to whoever reads them."""

_PACKED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"PK", b"BZh", b"\xfd7zXZ")
"""How packed files begin; those that are not read are refused in better words by who reads them."""

_MOST_STRANGE: Final = 0.3
"""Names in a foreign encoding are faults of rows; this is so much more that it is no text at all."""


def refuse_garbage(start: bytes, file_format: str) -> None:
    """Refuse a body that is neither text nor packed.

    Args:
        start: its first bytes, `LOOKED_AT_BYTES` are enough.
        file_format: what it is said to be, for the message.

    Raises:
        Invalid: if more than three of ten characters are none that a text has.
    """
    if len(start) < LEAST_BYTES or start.startswith(_PACKED):
        return
    text = start[:LOOKED_AT_BYTES].decode("utf-8", "replace")
    strange = sum(one == "\ufffd" or (one < " " and one not in "\t\n\r") for one in text)
    if strange > _MOST_STRANGE * len(text):
        raise Invalid(
            f"the body is no text and begins like no packed file: {strange} of its first {len(text)} "
            f"characters are none; is it {file_format}?"
        )
