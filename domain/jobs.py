"""A job as it is known at submit, and, apart from it, what became of it.

Policies see `Job`. The true length lives in `JobOutcome`, which only the simulator holds: what a policy
cannot reach it cannot peek at.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """How a job ended, or that it has not."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    CUT_OFF = "cut_off"
    """Its system ended it (preempted, its node lost), or the record did while it ran."""
    UNKNOWN = "unknown"

    @property
    def hides_life(self) -> bool:
        """Whether it would have run longer than was seen: its length is a least one."""
        return self in _HIDING


_HIDING = frozenset({JobState.CANCELLED, JobState.TIMEOUT, JobState.CUT_OFF})


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job the moment it becomes eligible to run.

    Attributes:
        job_id: unique text; ids are never numbers.
        pool: name of the pool it was submitted to.
        submit_s: instant it became eligible, seconds on the replay's clock.
        num_gpus: width of the gang; all of them at once or none.
        user, name, model: features for predictors; None where the record has none.
        gpu_type: type of GPU it asks for; None where any will do or the record does not say.
        array_id: the array or group it was submitted as part of; its siblings have the same one.
        priority: the higher, the sooner, in a world that goes by it; None where the record does not say,
            which counts as 0.
        limit_s: requested time limit, seconds.
        deadline_s: instant by which it should have ended.
        requeue_u: draw in [0, 1): with a share R of requeueable jobs this one is requeueable if
            `requeue_u` < R. None where the record does not say.
        checkpoint_s: it saves its progress every so many seconds of running, counted from the start of each
            attempt; one that is sent back goes on from what it saved last. None: never, so one that is sent
            back starts from zero.

    Raises:
        ValueError: if a width is below one, an instant is not finite or an interval between checkpoints is
            not positive.
    """

    job_id: str
    pool: str
    submit_s: float
    num_gpus: int
    user: str | None = None
    name: str | None = None
    model: str | None = None
    limit_s: float | None = None
    deadline_s: float | None = None
    requeue_u: float | None = None
    gpu_type: str | None = None
    array_id: str | None = None
    priority: float | None = None
    checkpoint_s: float | None = None

    def __post_init__(self) -> None:
        if self.num_gpus < 1:
            raise ValueError(f"job {self.job_id}: num_gpus is {self.num_gpus}, must be at least 1")
        if not math.isfinite(self.submit_s):
            raise ValueError(f"job {self.job_id}: submit_s is {self.submit_s}, must be finite")
        if self.checkpoint_s is not None and not self.checkpoint_s > 0.0:
            raise ValueError(f"job {self.job_id}: checkpoint_s is {self.checkpoint_s}, must be positive")

    def is_requeueable(self, share: float) -> bool:
        """Whether this job may be sent back and run again, when `share` of all jobs may.

        A share of 1 is the operator's word that every job may. Below it the record decides, and a
        record that does not say means no: it is never assumed.
        """
        return share >= 1.0 or (self.requeue_u is not None and self.requeue_u < share)


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job: its length when it runs alone on its own GPUs, and how it ended.

    Raises:
        ValueError: if `duration_s` is negative or not finite.
    """

    job_id: str
    duration_s: float
    state: JobState = JobState.UNKNOWN

    def __post_init__(self) -> None:
        if not (math.isfinite(self.duration_s) and self.duration_s >= 0):
            raise ValueError(f"job {self.job_id}: duration_s is {self.duration_s}, must be >= 0")


def submit_order(job: Job) -> tuple[float, str]:
    """The one order of jobs everywhere: by (submit, id)."""
    return (job.submit_s, job.job_id)
