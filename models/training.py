"""What predictors are trained on before a replay or a plan begins."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from domain.jobs import Job


@dataclass(frozen=True)
class Training:
    """The past, as of an instant.

    Attributes:
        quotas: GPUs of each pool, in the order of the pools.
        past: (job, duration_s) of jobs that had ended by `now_s`, in the order of ending.
        censored: (job, age_s) of jobs that had been submitted but not ended by then.
        now_s: the instant.
        retrain_every_s: models are fitted anew at multiples of this after `now_s`; None: never.
        seed: of everything that is drawn.
        starts: by id, instant at which a job of either began to run, where that is known and not its submit.
        cut_off: ids of those of `past` that would have run longer (`JobState.hides_life`): their GPUs came
            back then, and their lives are of at least that length.
    """

    quotas: Mapping[str, int]
    past: Sequence[tuple[Job, float]]
    censored: Sequence[tuple[Job, float]]
    now_s: float
    retrain_every_s: float | None = None
    seed: int = 0
    starts: Mapping[str, float] = field(default_factory=dict)
    cut_off: frozenset[str] = frozenset()

    def whole(self) -> Iterator[tuple[Job, float]]:
        """Those of `past` whose lives were over."""
        return ((job, duration_s) for job, duration_s in self.past if job.job_id not in self.cut_off)
