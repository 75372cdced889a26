"""What is left of a job that has kept a part of its work: its forecast life, given that much of it."""

from typing import Final

import numpy as np

from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from solver.lives import FloatArray, alive_given_age, survival_at

_LEAST_SURVIVAL: Final = 1e-3
"""Below this the quantiles of a forecast say nothing: the job has outlived it."""


def left_alive(curve: FloatArray, kept_s: float, offsets_s: FloatArray) -> FloatArray:
    """(offsets,) P(life > kept + offset | life > kept) of a curve at the edges of `LIFE_EDGES_S`."""
    return np.asarray(alive_given_age(curve[None, :], np.array([[kept_s]]), offsets_s)[0])


def left_quantile_s(lives: LifetimeForecaster, job: Job, level: float, kept_s: float) -> float:
    """Quantile of the work that is left of a job when so much is kept, seconds.

    The smallest t with S(kept + t) / S(kept) <= 1 - level. One that has outlived its forecast is taken to
    halve its chances with every doubling of its age.
    """
    if kept_s <= 0.0:
        return lives.quantile_s(job, level)
    alive = survival_at(np.asarray(lives.survival(job))[None, :], np.array([[kept_s]]))
    share = float(alive[0, 0])
    if share < _LEAST_SURVIVAL:
        return kept_s * level / (1.0 - level)
    return max(0.0, lives.quantile_s(job, 1.0 - (1.0 - level) * share) - kept_s)


def repeated_share(job: Job, median_left_s: float) -> float:
    """Share of a job's work that sending it back would make it repeat, at most, in (0, 1].

    One without checkpoints repeats all of it; one with checkpoints at most an interval of what is left.

    Args:
        job: that would be sent back.
        median_left_s: forecast median of the work that is left of it, seconds.
    """
    if job.checkpoint_s is None or job.checkpoint_s >= median_left_s:
        return 1.0
    return job.checkpoint_s / median_left_s
