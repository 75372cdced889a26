"""Facts of a live cluster: what schedulers, users and executors report, before and after it is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from app.store.tables import JobRow
from domain.jobs import Job


class FactKind(StrEnum):
    """What a log entry says. All but `DECIDED` are facts about one job."""

    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"
    CANCELLED = "cancelled"
    SENT_BACK = "sent_back"
    RESTARTED = "restarted"
    CONVERTED = "converted"
    DECIDED = "decided"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened.

    Attributes:
        kind: what.
        at_s: when, seconds on the cluster's clock.
        job_id: to which job.
        data: `submitted`: the fields of `domain.jobs.Job` (pool, num_gpus, ...), `submit_s` where the job
            became eligible earlier than it is reported, and `spec`, what an executor needs to launch it.
            `started`: `is_guest`, `gpus`, `host_job_id`. `ended`: `state`, `duration_s` where the sender
            measured it. `sent_back`, `cancelled`, `restarted`: `reason`. `converted`: nothing; a guest has
            become its pool's own, by a decision that was carried out.
        uid: the sender's name for this fact; told twice, it counts once.
    """

    kind: FactKind
    at_s: float
    job_id: str
    data: Mapping[str, Any] = field(default_factory=dict)
    uid: str | None = None


JOB_FIELDS: Final = (
    "job_id",
    "pool",
    "submit_s",
    "num_gpus",
    "user",
    "name",
    "model",
    "limit_s",
    "deadline_s",
    "requeue_u",
    "gpu_type",
    "array_id",
    "priority",
)


def job_of(source: Mapping[str, Any] | JobRow) -> Job:
    """A job as policies see it.

    Raises:
        ValueError: if a width or an instant is out of its range.
    """
    values = source if isinstance(source, Mapping) else source.model_dump(include=set(JOB_FIELDS))
    return Job(**{name: values.get(name) for name in JOB_FIELDS})  # type: ignore[arg-type]
