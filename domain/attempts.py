"""What a cluster's accounting says of one attempt of a job, in words that do not depend on who wrote it down.

A record and a job differ: a job that was requeued has several attempts, and only the last of them can say
how it ended. A life that was cut off is not a short life; `Observation` keeps the two apart.
"""

from dataclasses import dataclass
from enum import StrEnum


class EndCause(StrEnum):
    """Why an attempt ended, or that it has not."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    NODE_FAIL = "node_fail"
    BOOT_FAIL = "boot_fail"
    REVOKED = "revoked"
    NOT_ENDED = "not_ended"
    UNKNOWN = "unknown"

    @property
    def is_end_of_attempt(self) -> bool:
        """Whether the attempt is over."""
        return self is not EndCause.NOT_ENDED and self is not EndCause.UNKNOWN

    @property
    def is_end_of_job(self) -> bool:
        """Whether no further attempt is to be expected of such an end by itself.

        One that was preempted, requeued or lost its node may come back; only the absence of a newer attempt
        says that it did not.
        """
        return self.is_end_of_attempt and self not in _MAY_COME_BACK

    @property
    def is_natural(self) -> bool:
        """Whether the job ended by itself, so that its life was seen in full."""
        return self in _NATURAL


_NATURAL = frozenset({EndCause.COMPLETED, EndCause.FAILED, EndCause.OUT_OF_MEMORY})
_MAY_COME_BACK = frozenset({EndCause.PREEMPTED, EndCause.REQUEUED, EndCause.NODE_FAIL, EndCause.BOOT_FAIL})


class Observation(StrEnum):
    """How much of an attempt's life was seen."""

    FULL = "full"
    """From its start to an end of its own."""
    RIGHT_CENSORED = "right_censored"
    """Cut off: it would have run longer than was seen."""
    LEFT_TRUNCATED = "left_truncated"
    """It ran before the record begins: its true start is not known."""
    NEVER_RAN = "never_ran"
    """It has no life; its waiting was seen."""


class LimitKind(StrEnum):
    """What is known of a requested time limit."""

    FINITE = "finite"
    UNLIMITED = "unlimited"
    INHERITED = "inherited"
    """That of the partition, whatever it is."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Limit:
    """A requested time limit.

    Attributes:
        kind: what is known.
        limit_s: seconds; None unless finite.

    Raises:
        ValueError: if the two do not belong together.
    """

    kind: LimitKind
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if (self.kind is LimitKind.FINITE) != (self.limit_s is not None):
            raise ValueError(f"a limit is {self.kind} with {self.limit_s} seconds")

    def resolved(self, partition_max_s: float | None) -> "Limit":
        """The limit where an inherited one becomes the partition's; unknown where that is not known."""
        if self.kind is not LimitKind.INHERITED:
            return self
        return UNKNOWN_LIMIT if partition_max_s is None else Limit(LimitKind.FINITE, partition_max_s)


UNLIMITED = Limit(LimitKind.UNLIMITED)
INHERITED_LIMIT = Limit(LimitKind.INHERITED)
UNKNOWN_LIMIT = Limit(LimitKind.UNKNOWN)
