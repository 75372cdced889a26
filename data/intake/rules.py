"""The rules of imports, a closed set with stable ids. Each has a page, docs/import-rules/<id>.md."""

from enum import StrEnum
from typing import Self


class Action(StrEnum):
    """What was done about a row."""

    REJECTED = "rejected"
    """It is not in the history."""
    REPAIRED = "repaired"
    """It is, but something of it was left out or read otherwise than it stands there."""
    NOTED = "noted"
    """It is, as it stands; whoever learns from it should know."""


class ImportRule(StrEnum):
    """Ids of all rules; `action` is what is done about a row, `meaning` one line."""

    action: Action
    meaning: str

    def __new__(cls, rule_id: str, action: Action, meaning: str) -> Self:
        """Make a member whose value is the id alone."""
        member = str.__new__(cls, rule_id)
        member._value_ = rule_id
        member.action = action
        member.meaning = meaning
        return member

    # The shape of a row
    NOT_UTF8 = "not-utf8", Action.REPAIRED, "bytes that are not UTF-8 were replaced"
    CONTROL_CHARACTERS = (
        "control-characters",
        Action.REPAIRED,
        "invisible characters were taken out of a text",
    )
    NUL_BYTE = "nul-byte", Action.REJECTED, "the line holds a NUL byte"
    LINE_TOO_LONG = "line-too-long", Action.REJECTED, "the line or object is larger than any honest one"
    FIELD_COUNT = (
        "field-count",
        Action.REJECTED,
        "more or fewer fields than the header, and no way to tell which",
    )
    SURPLUS_DELIMITER = (
        "surplus-delimiter",
        Action.REPAIRED,
        "the delimiter stood in the one free text; rejoined",
    )
    BAD_QUOTING = (
        "bad-quoting",
        Action.REJECTED,
        "a quoted field is not closed, or text follows its closing quote",
    )
    NOT_AN_OBJECT = "not-an-object", Action.REJECTED, "JSON that is broken or is not what a job looks like"
    CUT_SHORT = "cut-short", Action.REJECTED, "the file ends or breaks here; what stood before is kept"
    TRIMMED = "trimmed", Action.REPAIRED, "spaces or a unit glued to a value were taken off"

    # Whose row it is
    NO_JOB_ID = "no-job-id", Action.REJECTED, "the job id is empty"
    BAD_JOB_ID = "bad-job-id", Action.REJECTED, "the job id is none of the format's"
    STEP_ROW = "step-row", Action.REJECTED, "a step of a job (123.batch), whose job has a row of its own"
    ID_FROM_ROW = "id-from-row", Action.NOTED, "the source has no ids; the row's place in it became one"
    SHARED_ID = (
        "shared-id",
        Action.NOTED,
        "an earlier row has the same id and submission and is another job; numbered",
    )
    NOT_A_JOB = "not-a-job", Action.REJECTED, "an object that is no job, node or pod of the format"

    # When
    NO_SUBMIT = "no-submit", Action.REJECTED, "nothing says when it was submitted"
    BAD_TIME = "bad-time", Action.REJECTED, "a time stamp is none, or outside of 1970 to 2100"
    REPEATED_HOUR = (
        "repeated-hour",
        Action.REPAIRED,
        "a clock showed the stamp twice in autumn; one was chosen",
    )
    MISSING_HOUR = (
        "missing-hour",
        Action.REPAIRED,
        "no clock showed the stamp in spring; moved an hour forward",
    )
    BAD_DURATION = "bad-duration", Action.REPAIRED, "a length could not be read; taken as not known"
    DURATION_MISMATCH = (
        "duration-mismatch",
        Action.NOTED,
        "the length given is not end minus start; start and end count",
    )
    END_BEFORE_START = (
        "end-before-start",
        Action.REJECTED,
        "it ends before it starts, or starts before its submission",
    )
    START_WITHOUT_RUN = (
        "start-without-run",
        Action.REPAIRED,
        "a start of something that never ran was taken out",
    )
    EXPECTED_END = (
        "expected-end",
        Action.REPAIRED,
        "an end of something that still runs was taken out: it is an expectation",
    )
    ATTEMPT_DROPPED = (
        "attempt-dropped",
        Action.REPAIRED,
        "an attempt without both its times was left out of its job",
    )
    CLOCK_SKEW = (
        "clock-skew",
        Action.REPAIRED,
        "an instant a little before the one it follows was moved to it",
    )
    BEFORE_RECORD = "before-record", Action.NOTED, "it began before the record does: its life is truncated"
    AT_WINDOW_EDGE = "at-window-edge", Action.NOTED, "it ends where the record does: its life is censored"

    # What it asked for and got
    BAD_LIMIT = "bad-limit", Action.REPAIRED, "a limit could not be read; taken as unknown"
    BAD_GPUS = "bad-gpus", Action.REPAIRED, "a count of GPUs could not be read; taken as unknown"
    BAD_NUMBER = (
        "bad-number",
        Action.REPAIRED,
        "a number could not be read or is out of range; taken as unknown",
    )
    GPUS_DISAGREE = (
        "gpus-disagree",
        Action.REPAIRED,
        "two fields count GPUs differently; the one that was given out counts",
    )
    SHARES_UNSIZED = (
        "shares-unsized",
        Action.NOTED,
        "shares of a GPU whose size is not told; its part is unknown",
    )
    SHARE_OF_MANY = "share-of-many", Action.REJECTED, "a share of a GPU on more than one GPU"
    UNKNOWN_STATE = "unknown-state", Action.REPAIRED, "a state outside the vocabulary; taken as not ended"
    UNKNOWN_WORD = "unknown-word", Action.REJECTED, "a word outside the format's vocabulary"
    IMPOSSIBLE = (
        "impossible",
        Action.REJECTED,
        "what the row says of a job cannot be: a negative amount, no length",
    )
    MISSING_VALUE = "missing-value", Action.REJECTED, "a field that the format needs is empty"
    TASKS_CUT = "tasks-cut", Action.NOTED, "a list of array tasks ends in '...': there are more than counted"

    # Nodes and pools
    TOTAL_DISAGREES = "total-disagrees", Action.NOTED, "a total is not the sum of its pools; the pools count"
    NODE_LIST_MISMATCH = (
        "node-list-mismatch",
        Action.NOTED,
        "a list of nodes names more or fewer than the count beside it; the list counts",
    )

    BAD_NODE_LIST = "bad-node-list", Action.REJECTED, "a list of nodes cannot be read: gpu[01-04,07]"

    # Objects of Kubernetes
    PART_OF_GANG = (
        "part-of-gang",
        Action.NOTED,
        "an object whose job is in the file too: the job's own object counts it",
    )
    WATCH_GAP = (
        "watch-gap",
        Action.NOTED,
        "the watch broke off here: what happened until the next listing is not in the file",
    )
    KILLED_FROM_OUTSIDE = (
        "killed-from-outside",
        Action.NOTED,
        "ended by a signal that nobody accounts for; its life is taken as cut off",
    )
    UNKNOWN_SHARE = (
        "unknown-share",
        Action.NOTED,
        "a share of GPUs whose size in devices nothing tells; its GPUs are taken as not known",
    )
