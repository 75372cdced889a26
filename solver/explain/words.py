"""Why a job waits, as a closed set of reasons, with what was found and what would change it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from domain.jobs import Job

_DIGITS: Final = (3, 4, 6, 9)


class Why(StrEnum):
    """The reason that binds; `docs/explain-waiting.md` says what each of them means."""

    NO_IDLE_GPU = "no-idle-gpu"
    WIDER_THAN_IDLE = "wider-than-idle"
    NO_NODE_FITS = "no-node-fits"
    STAR_RULE = "star-rule"
    MEMORY = "memory"
    BEHIND_DUE_JOB = "behind-due-job"
    HELD_FOR_POOL = "held-for-pool"
    HELD_FOR_BURST = "held-for-burst"
    WOULD_OVERRUN = "would-overrun"
    TOO_LIKELY_SENT_BACK = "too-likely-sent-back"
    BUDGET_SPENT = "budget-spent"
    NOT_WORTH_ITS_PRICE = "not-worth-its-price"
    LENDING_OFF = "lending-off"
    NOT_REQUEUEABLE = "not-requeueable"
    NOT_CONSIDERED = "not-considered"
    HELD_BY_POLICY = "held-by-policy"
    WAITS_IN_OWN_LANE = "waits-in-own-lane"
    NO_PROMISE = "no-promise"


class Lever(StrEnum):
    """What could be otherwise."""

    FREE_GPUS = "free-gpus"
    SHORTER_LIFE = "shorter-life"
    LARGER_ALLOWANCE = "larger-allowance"
    LARGER_BUDGET = "larger-budget"
    HIGHER_FINISH = "higher-finish"
    REQUEUEABLE = "requeueable"
    DUE_JOB_SERVED = "due-job-served"
    EARLIER_GONE = "earlier-gone"
    LONGER_WAIT = "longer-wait"
    LANE_FREED = "lane-freed"
    LENDING_ON = "lending-on"
    HIGHER_QUOTA = "higher-quota"
    NODE_FREED = "node-freed"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class Change:
    """What would let the job start now, all else being as it is. Found by trying it.

    A text that does not begin with "starts at once" says what is known instead.

    Attributes:
        lever: what would have to be otherwise.
        value: how much of it; in the unit of `text`. None where there is no amount.
        text: the same for people.
    """

    lever: Lever
    value: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why one job waits.

    Attributes:
        job: which.
        why: the reason that binds.
        text: one sentence.
        evidence: the numbers behind it, by name; seconds, GPUs, chances, jobs.
        changes: what would let it start now; empty where nothing was found that would.
        earliest_s, latest_s: the interval in which its start is expected; None: not worked out, an infinite
            end: never by what is known.
    """

    job: Job
    why: Why
    text: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    earliest_s: float | None = None
    latest_s: float | None = None


@runtime_checkable
class Explains(Protocol):
    """A policy that can say itself why jobs wait."""

    def waiting(self, now_s: float, idle_gpus: int) -> Sequence[Waiting]:
        """Why each job waits that does, right after a decision of this instant was carried out.

        Changes nothing that decisions depend on.
        """
        ...


def life_text(life_s: float) -> str:
    """A span of time for people."""
    for unit_s, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if life_s >= unit_s:
            return f"{life_s / unit_s:.3g} {unit}"
    return f"{life_s:.3g} s"


def apart(less: float, more: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart."""
    pairs = [(f"{less:.{digits}g}", f"{more:.{digits}g}") for digits in _DIGITS]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
