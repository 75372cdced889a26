"""Past jobs that were like this one: the nearest first, and only those that had ended."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from domain.jobs import Job
from domain.observers import Observer
from models.lifetime.names import template_of

Key = tuple[str | int | None, ...]


@dataclass(frozen=True, slots=True)
class SimilarJob:
    """A past job, and why it is shown.

    Attributes:
        job_id: which.
        duration_s: how long it ran.
        ended_s: when it ended.
        why: what it has in common, in words.
    """

    job_id: str
    duration_s: float
    ended_s: float
    why: str

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Past:
    job_id: str
    duration_s: float
    ended_s: float


class PastJobs(Observer):
    """The last few ended jobs of each kind, to be told of ends as they happen, in their order.

    Args:
        most_jobs: remembered per kind.
        most_keys: kinds that are remembered, the ones used last.

    Raises:
        ValueError: if one of them is not positive.
    """

    def __init__(self, *, most_jobs: int = 16, most_keys: int = 50_000) -> None:
        if min(most_jobs, most_keys) < 1:
            raise ValueError("most_jobs and most_keys must be positive")
        self._most_jobs, self._most_keys = most_jobs, most_keys
        self._past: OrderedDict[Key, deque[_Past]] = OrderedDict()

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone."""
        past = _Past(job.job_id, duration_s, now_s)
        for key, _ in _keys(job):
            self._past.setdefault(key, deque(maxlen=self._most_jobs)).append(past)
            self._past.move_to_end(key)
        while len(self._past) > self._most_keys:
            self._past.popitem(last=False)

    def similar(self, job: Job, now_s: float, *, most: int = 5) -> list[SimilarJob]:
        """Jobs like this one that had ended by `now_s`.

        Args:
            job: to compare with.
            now_s: what ended later is left out.
            most: as many at most.

        Returns:
            Those with the same user and name template first, then the same template, the same user and
            width, the same pool and width; within each, those that ended last. No job twice, nor itself.
        """
        found: dict[str, SimilarJob] = {}
        for key, why in _keys(job):
            for past in reversed(self._past.get(key, ())):
                if len(found) == most:
                    return list(found.values())
                if past.ended_s <= now_s and past.job_id != job.job_id and past.job_id not in found:
                    found[past.job_id] = SimilarJob(past.job_id, past.duration_s, past.ended_s, why)
        return list(found.values())


def _keys(job: Job) -> Iterator[tuple[Key, str]]:
    """Kinds of a job from the most alike on, and what the jobs of a kind have in common."""
    if job.name is not None:
        template = template_of(job.name)
        if job.user is not None:
            yield ("user-name", job.user, template), f"same user and name ({template})"
        yield ("name", template), f"same name ({template})"
    gpus = f"{job.num_gpus} GPU" if job.num_gpus == 1 else f"{job.num_gpus} GPUs"
    if job.user is not None:
        yield ("user-width", job.user, job.num_gpus), f"same user, also {gpus}"
    yield ("pool-width", job.pool, job.num_gpus), f"same pool, also {gpus}"
