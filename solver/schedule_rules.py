"""The words of the judge of schedules: which rules there are, what a schedule may do, what is found."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from domain.schedules import Stretch

TIME_S: Final = 1e-6
"""Forgiven where instants come from different sums of floats."""
WORK_S: Final = 1e-3
WORK_SHARE: Final = 1e-6
"""Forgiven of the work of a job: `WORK_S` and this share of its duration."""
RATE: Final = 1e-9
"""Forgiven of a rate."""


class Rule(StrEnum):
    """What a schedule must keep to."""

    UNKNOWN_JOB = "unknown-job"
    MALFORMED_STRETCH = "malformed-stretch"
    NEVER_RAN = "never-ran"
    STARTS_BEFORE_SUBMIT = "starts-before-submit"
    RUNS_TWICE_AT_ONCE = "runs-twice-at-once"
    ENDS_BEFORE_WORK_IS_DONE = "ends-before-work-is-done"
    RUNS_ON_AFTER_WORK_IS_DONE = "runs-on-after-work-is-done"
    INTERRUPTED = "interrupted"
    LOST_BUT_NOT_REQUEUEABLE = "lost-but-not-requeueable"
    LOST_AFTER_FINAL_START = "lost-after-final-start"
    OWN_ATTEMPT_LOST = "own-attempt-lost"
    KEPT_WHAT_WAS_NOT_SAVED = "kept-what-was-not-saved"
    MORE_GPUS_THAN_CLUSTER = "more-gpus-than-cluster"
    OWN_GPUS_BEYOND_QUOTA = "own-gpus-beyond-quota"
    WIDER_THAN_QUOTA = "wider-than-quota"
    PROMISE_BROKEN = "promise-broken"


class PackedRule(StrEnum):
    """What a schedule must keep to where jobs run on named GPUs; `docs/plan-checks.md` has all of it."""

    GANG_NOT_WHOLE = "gang-not-whole"
    UNKNOWN_GPU = "unknown-gpu"
    MORE_NODES_THAN_NEEDED = "more-nodes-than-needed"
    MOVED = "moved"
    MORE_THAN_TWO_WORKERS = "more-than-two-workers"
    STAR_RULE = "star-rule"
    PACKED_SET_TOO_LARGE = "packed-set-too-large"
    SPANS_A_CHANGE = "spans-a-change"
    PAIR_DOES_NOT_FIT = "pair-does-not-fit"
    RATE_ABOVE_MEASURED = "rate-above-measured"
    MORE_MEMORY_THAN_GPU = "more-memory-than-gpu"


@dataclass(frozen=True, slots=True)
class ScheduleFault:
    """One broken rule.

    Attributes:
        rule: which one.
        job_id: the job that broke it; None where no single one did.
        at_s: the instant at which it was broken, seconds.
        message: job, instant and what was found, for people.
    """

    rule: Rule | PackedRule
    job_id: str | None
    at_s: float
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


Finding = tuple[float, str] | None
"""The instant of a fault and what was found there, put after the name of the job."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What a schedule is allowed to do.

    Attributes:
        is_preemption_allowed: whether a job may pause and go on without losing work.
        requeueable_share: share of jobs that may be sent back (`Job.is_requeueable`).
        has_own_lanes: whether `is_guest` and `own_from_s` mean something: then own widths fit their
            quota and no attempt that had become own is sent back. False for policies without own lanes.
        must_keep_promise: whether a slowed job is a fault.
        capacity_steps: (instant, GPUs of the cluster from then on), where it changes; up to the first
            one it is the sum of the quotas.
        reclaim_s: for how long nobody may have the GPUs of a guest that was sent back, seconds.
        is_packed: whether jobs may share GPUs. GPUs in use are then counted one by one where stretches name
            them, and an attempt may be several stretches that follow each other, one per change of its rate.
    """

    is_preemption_allowed: bool = False
    requeueable_share: float = 0.0
    has_own_lanes: bool = True
    must_keep_promise: bool = False
    capacity_steps: tuple[tuple[float, int], ...] = ()
    reclaim_s: float = 0.0
    is_packed: bool = False


STRICT: Final = CheckOptions()
"""Nothing is preempted, nothing is requeued, lanes mean something, slowed jobs are only counted."""


def is_span(stretch: Stretch) -> bool:
    """Whether a stretch is one of time: finite, and no end before its start."""
    return math.isfinite(stretch.start_s) and stretch.start_s <= stretch.end_s < math.inf


def own_from_s(stretch: Stretch) -> float:
    """Instant from which a stretch counts as its pool's own; infinite if never."""
    if not stretch.is_guest:
        return stretch.start_s
    return math.inf if stretch.own_from_s is None else max(stretch.start_s, stretch.own_from_s)
