"""What can be wrong with a stored model."""

from enum import StrEnum
from pathlib import Path

from domain.errors import AntecastError, Fault


class Rule(StrEnum):
    """Rules that a stored model must obey to be read."""

    MISSING = "missing-file"
    NOT_REGULAR = "not-a-regular-file"
    NOT_A_FOLDER = "not-a-folder"
    BAD_NAME = "bad-name"
    UNLISTED = "unlisted-file"
    TOO_LARGE = "too-large"
    SIZE = "wrong-size"
    HASH = "wrong-hash"
    NOT_JSON = "not-json"
    NOT_TEXT = "not-text"
    NOT_AN_ARRAY = "not-an-array"
    FORMAT = "unknown-format"
    FIELD = "bad-field"
    DTYPE = "wrong-dtype"
    SHAPE = "wrong-shape"
    NOT_FINITE = "not-finite"
    OUT_OF_RANGE = "out-of-range"
    EXISTS = "exists-already"
    UNREADABLE = "unreadable"


class ArtifactError(AntecastError):
    """A stored model, or the registry of them, is not what it should be; it is not used.

    Attributes:
        fault: which file, which rule, and what was found.
    """

    def __init__(self, file: Path | str, rule: Rule, message: str) -> None:
        self.fault = Fault(str(file), None, rule.value, message)
        super().__init__(str(self.fault))
