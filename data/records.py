"""The canonical record: one attempt of one job, as every reader hands it on and every history keeps it."""

import math
from dataclasses import dataclass
from typing import Final

from domain.attempts import UNKNOWN_LIMIT, EndCause, Limit, Observation

MILLI: Final = 1000
"""GPUs are kept in thousandths: shares of a device are exact, and sums of them too."""

MOST: Final = 2**53
"""Largest number of anything: beyond it doubles skip integers."""

Key = tuple[str, str, float, int]


class RecordError(ValueError):
    """What a row says of a job cannot be."""


@dataclass(slots=True, unsafe_hash=True)  # never changed; frozen ones take three times as long to make
class AttemptRecord:
    """What is known of one attempt. Times are epoch seconds, UTC; None is what the source does not say.

    Attributes:
        cluster: the cluster it ran on. Ids are unique on one cluster only, and only for a while: counters
            wrap around, so the natural key has the submit instant as well.
        raw_id: the job's own id, text; of an array's task the task's, not the array's.
        submit_s: first submission; the same for all attempts of a job.
        shown_id: the id that people see (`123_4`, `123+1`).
        array_id, array_task: the array it belongs to and its place in it.
        het_id, het_offset: the gang of several parts it belongs to, and its place in it: parts start
            together and are one job.
        attempt: its place among the attempts that the source tells of the same submission, from 0 on. Slurm
            gives each attempt a submission of its own instead (`data.shelf.jobs` joins them).
        num_tasks, most_at_once: of a pending array, how many jobs the row stands for, and how many may
            run at once; 1 and 1 for all others.
        pool: partition, queue or virtual cluster.
        account, user, name, qos: as the source has them, cleaned.
        gpus_asked_milli, gpus_given_milli: thousandths of a GPU; None is unknown, never zero.
        gpu_type: where all of its GPUs are of one.
        mig_profile: the slice that each of its GPUs is (`1g.5gb`); None for whole devices and shares.
        gpu_shards: shares of GPUs that it holds where nothing says what part of a device one is; its counts
            of GPUs are unknown then.
        cpus, memory_mib, num_nodes: what else it asked for, of all its nodes together.
        limit: requested time limit.
        eligible_s, start_s, end_s: None where it has not come to that.
        compute_s: time it was running; less than its occupancy where it was suspended.
        cause: why it ended.
        actor: who ended it where a person did, hashed.
        reason: why it waits or went, in the source's words.
        text_hash: of the row's bytes where they were no UTF-8 and what is kept is mended.
        is_before_record: whether it began before the record does, so that `start_s` is not its true one.
        nodes: names of its nodes, as the source writes them.
        source_line: line of the file, for messages; not kept.

    Raises:
        RecordError: if instants are out of order or a number is negative or endless.
    """

    cluster: str
    raw_id: str
    submit_s: float
    shown_id: str | None = None
    array_id: str | None = None
    array_task: int | None = None
    het_id: str | None = None
    het_offset: int | None = None
    attempt: int = 0
    num_tasks: int = 1
    most_at_once: int = 1
    pool: str | None = None
    account: str | None = None
    user: str | None = None
    name: str | None = None
    qos: str | None = None
    gpus_asked_milli: int | None = None
    gpus_given_milli: int | None = None
    gpu_type: str | None = None
    mig_profile: str | None = None
    gpu_shards: int | None = None
    cpus: float | None = None
    memory_mib: float | None = None
    num_nodes: int | None = None
    limit: Limit = UNKNOWN_LIMIT
    eligible_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    compute_s: float | None = None
    cause: EndCause = EndCause.UNKNOWN
    actor: str | None = None
    reason: str | None = None
    text_hash: str | None = None
    is_before_record: bool = False
    nodes: str | None = None
    source_line: int | None = None

    def __post_init__(self) -> None:
        if not self.raw_id or not self.cluster:
            raise RecordError("a record needs a cluster and a job id")
        if not math.isfinite(self.submit_s):
            raise RecordError(f"job {self.raw_id}: submit_s is {self.submit_s}")
        if self.start_s is not None and self.end_s is not None and self.end_s < self.start_s:
            raise RecordError(f"job {self.raw_id} ends {self.start_s - self.end_s:g} s before it starts")
        for amount in (
            self.gpus_asked_milli, self.gpus_given_milli, self.compute_s, self.cpus, self.memory_mib,
            self.num_nodes, self.array_task, self.het_offset, self.num_tasks, self.most_at_once,
        ):  # fmt: skip
            if amount is not None and not 0 <= amount <= MOST:
                raise RecordError(f"job {self.raw_id}: {amount} of something is no amount")

    @property
    def key(self) -> Key:
        """What makes two rows the same attempt: a later one of them updates the other."""
        return (self.cluster, self.raw_id, self.submit_s, self.attempt)

    @property
    def occupancy_s(self) -> float | None:
        """How long it held its GPUs, suspended or not; None while that is not known."""
        if self.start_s is None or self.end_s is None:
            return None
        return self.end_s - self.start_s

    @property
    def observation(self) -> Observation:
        """How much of its life was seen."""
        if self.start_s is None:
            return Observation.NEVER_RAN
        if self.is_before_record:
            return Observation.LEFT_TRUNCATED
        is_full = self.cause.is_natural and self.end_s is not None
        return Observation.FULL if is_full else Observation.RIGHT_CENSORED
