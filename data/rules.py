"""The rules that input can break, and a bounded record of where it broke them."""

from enum import StrEnum
from typing import Final, Self

from domain.errors import Fault

MAX_FAULTS: Final = 10_000
"""Faults of one input that are remembered; the rest is counted."""

MAX_MESSAGE_CHARACTERS: Final = 600
_SHOWN_CHARACTERS: Final = 60


class Rule(StrEnum):
    """Ids of all rules, a closed set; `meaning` says in one line what breaks the rule."""

    meaning: str

    def __new__(cls, rule_id: str, meaning: str) -> Self:
        """Make a member whose value is the id alone."""
        member = str.__new__(cls, rule_id)
        member._value_ = rule_id
        member.meaning = meaning
        return member

    UNREADABLE_FILE = "unreadable-file", "the file is missing, not a regular file or may not be read"
    TOO_LARGE = "too-large", "the file is larger than what is read into memory"
    EMPTY_FILE = "empty-file", "the file holds nothing but white space"
    NOT_TEXT = "not-text", "bytes that are not UTF-8 text, or a number where text belongs"
    NOT_CSV = "not-csv", "the first line is not a header of comma-separated column names"
    BAD_QUOTING = "bad-quoting", "a quoted field is not closed, or text follows its closing quote"
    FIELD_TOO_LONG = "field-too-long", "a field is longer than any honest value"
    MISSING_COLUMN = "missing-column", "a required column is not in the header"
    DUPLICATE_COLUMN = "duplicate-column", "a column is in the header twice, perhaps under an alias"
    UNNAMED_COLUMN = "unnamed-column", "a column of the header has no name"
    NO_ROWS = "no-rows", "there is no row, or no good row is left"
    FIELD_COUNT = "field-count", "a row has more or fewer fields than the header"
    MISSING_VALUE = "missing-value", "a required field is empty"
    NOT_A_NUMBER = "not-a-number", "a numeric field holds something else"
    NOT_AN_INTEGER = "not-an-integer", "a field that counts holds a fraction"
    NOT_FINITE = "not-finite", "a numeric field is infinite or NaN"
    OUT_OF_RANGE = "out-of-range", "a number lies outside the range of its column"
    NEGATIVE_DURATION = "negative-duration", "a job lasts less than nothing"
    WIDTH_BELOW_ONE = "width-below-one", "a job asks for no GPU"
    WIDTH_ABOVE_QUOTA = "width-above-quota", "a job is wider than the quota of its own pool"
    UNKNOWN_POOL = "unknown-pool", "a job names a pool that has no quota"
    UNKNOWN_STATE = "unknown-state", "a state that is not in the vocabulary"
    DUPLICATE_ID = "duplicate-id", "an earlier good row has the same job_id"
    DUPLICATE_POOL = "duplicate-pool", "an earlier good row has the same pool"
    DUPLICATE_NODE = "duplicate-node", "an earlier good row has the same node"
    DUPLICATE_PAIR = "duplicate-pair", "an earlier good row has the same two models, in either order"
    NO_FREE_RATES = "no-free-rates", "a pair is measured under MPS shares, and not without"
    DUPLICATE_MODEL = "duplicate-model", "an earlier good row has the same model and batch size"
    BATCH_SIZE_TWICE = (
        "batch-size-twice",
        "the batch size is in the name of the model and, another, in its column",
    )
    NEGATIVE_QUOTA = "negative-quota", "a quota is below zero"
    QUOTAS_ABOVE_NODES = "quotas-above-nodes", "the quotas promise more GPUs than the nodes have"
    UNKNOWN_GPU_TYPE = "unknown-gpu-type", "a job to replay asks for a type of GPU that no node has"
    FITS_NO_NODES = "fits-no-nodes", "a job to replay is wider than what nodes of one type can ever hold"
    NOT_GPUS = "not-gpus", "GPUs are not written as node/index;node/index-index"
    UNKNOWN_GPU = "unknown-gpu", "a GPU is named that no node has"
    GPU_NAMED_TWICE = "gpu-named-twice", "a GPU is named twice in a row, or is an earlier good row's"
    GANG_NOT_WHOLE = "gang-not-whole", "a gang is not on as many GPUs as it is wide"
    GPU_OF_WRONG_TYPE = (
        "gpu-of-wrong-type",
        "a gang is on GPUs of a type that it does not ask for, or of several",
    )
    NO_SHARE = "no-share", "a job asks for GPUs and for nothing of each"
    SHARES_OF_SEVERAL = "shares-of-several", "a job asks for a part of each of several GPUs"
    SLICE_AND_SHARE = "slice-and-share", "a MIG slice is asked for beside gpu_milli, or on other than one GPU"
    UNKNOWN_PROFILE = "unknown-profile", "a MIG slice that no GPU we know has"
    NO_MIG_MODE = (
        "no-mig-mode",
        "more GPUs are partitioned than a node has, or of a type that has no MIG mode",
    )
    NOT_A_PLAN = "not-a-plan", "the file holds no plan that `antecast place` has written"
    UNKNOWN_FORMAT = (
        "unknown-format",
        "the file is of none of the formats that are read, or not clearly of one",
    )
    NO_TIME_ZONE = "no-time-zone", "stamps have no offset and the cluster's zone is not given"
    NOT_TELEMETRY = (
        "not-telemetry",
        "the file is no answer of Prometheus to a range query, breaks in the middle, or tells of no GPU",
    )
    NOTHING_TO_LEARN = (
        "nothing-to-learn",
        "the file holds no jobs and no inventory, or lacks what would make it one",
    )
    BAD_MAPPING = "bad-mapping", "a mapping says what it cannot: an unknown key, field, unit or word"
    NO_GPU_COUNTS = "no-gpu-counts", "the accounting does not count GPUs at all"
    TOO_MANY_FAULTS = "too-many-faults", "more faults were found than are listed"


def shown(value: object, most_characters: int = _SHOWN_CHARACTERS) -> str:
    """`value` as it may stand in a message: printable characters only, and no more of them than that."""
    text = str(value)
    if len(text) <= most_characters and text.isprintable():
        return text
    clean = printable(text[:most_characters])
    return clean if len(text) <= most_characters else clean[:-3] + "..."


def message_of(text: str) -> str:
    """A whole message as it may be told, whatever of a source found its way into it."""
    return shown(text, MAX_MESSAGE_CHARACTERS)


def printable(text: str) -> str:
    """`text` without characters that a terminal would obey instead of printing them."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class FaultLog:
    """Faults of one input: the first `MAX_FAULTS` by line are kept, the rest is counted."""

    def __init__(self, source: str) -> None:
        self.source: Final = source
        self._faults: list[Fault] = []
        self._num_dropped = 0

    def __len__(self) -> int:
        return len(self._faults) + self._num_dropped

    @property
    def kept(self) -> tuple[Fault, ...]:
        """The faults that are not merely counted."""
        return tuple(self._faults)

    def add(self, line: int | None, rule: Rule, message: str) -> None:
        """Record a fault; faults are added in the order of their lines."""
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(self.source, line, rule, message))
        else:
            self._num_dropped += 1

    def count(self, num_faults: int) -> None:
        """Count faults that come too late to be kept."""
        self._num_dropped += num_faults

    def absorb(self, other: "FaultLog") -> None:
        """Take over the faults of another log, in the order of the lines."""
        total = len(self) + len(other)
        merged = sorted([*self._faults, *other.kept], key=lambda fault: fault.line or 0)
        self._faults = merged[:MAX_FAULTS]
        self._num_dropped = total - len(self._faults)

    def listed(self) -> list[Fault]:
        """The faults kept, in the order of their lines; a last one says how many are not listed."""
        if not self._num_dropped:
            return list(self._faults)
        message = f"{self._num_dropped} more faults were found, only the first {MAX_FAULTS} are listed"
        return [*self._faults, Fault(self.source, None, Rule.TOO_MANY_FAULTS, message)]
