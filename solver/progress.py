"""What is left of a job that has kept a part of its work: its forecast life, given that much of it."""

from typing import Final

import numpy as np

from domain.checkpoints import reload_s
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from solver.lives import FloatArray, alive_given_age, survival_at

_LEAST_SURVIVAL: Final = 1e-3
"""Below this the quantiles of a forecast say nothing: the job has outlived it."""


def left_alive(curve: FloatArray, kept_s: float, offsets_s: FloatArray, reload_s: float = 0.0) -> FloatArray:
    """(offsets,) chance that a job that starts now runs at each offset, given what is kept of it.

    It is P(life > done + (offset - reload)) / P(life > done), each bracket at least 0, done = kept + reload:
    while it loads what it had saved it comes no further.

    Args:
        curve: survival at the edges of `LIFE_EDGES_S`.
        kept_s: work that it need not run for (`domain.checkpoints.KeptWork.kept_s`), seconds.
        offsets_s: from now, seconds, at least 0.
        reload_s: how long it loads, seconds.
    """
    done_s = np.array([[kept_s + reload_s]])
    return np.asarray(alive_given_age(curve[None, :], done_s, np.maximum(offsets_s - reload_s, 0.0))[0])


def left_quantile_s(lives: LifetimeForecaster, job: Job, level: float, kept_s: float) -> float:
    """Quantile of how long a job still has to run when so much is kept, seconds.

    It loads what it had saved, and then does what is left: the smallest t with S(done + t) / S(done) <=
    1 - level, done being what it had saved. One that has outlived its forecast is taken to halve its chances
    with every doubling of its age.
    """
    if kept_s <= 0.0:
        return lives.quantile_s(job, level)
    loads_s = reload_s(job, kept_s)
    done_s = kept_s + loads_s
    alive = survival_at(np.asarray(lives.survival(job))[None, :], np.array([[done_s]]))
    share = float(alive[0, 0])
    if share < _LEAST_SURVIVAL:
        return loads_s + done_s * level / (1.0 - level)
    return loads_s + max(0.0, lives.quantile_s(job, 1.0 - (1.0 - level) * share) - done_s)


def repeated_share(job: Job, median_left_s: float) -> float:
    """Share of a job's run that sending it back would cost it, at most, in (0, 1].

    One without checkpoints repeats all of its work; one with checkpoints at most an interval of what is left,
    and it loads what it had saved.

    Args:
        job: that would be sent back.
        median_left_s: forecast median of how long it still has to run, seconds.
    """
    if job.checkpoint_s is None:
        return 1.0
    costs_s = job.checkpoint_s + (job.restart_s or 0.0)
    return 1.0 if costs_s >= median_left_s else costs_s / median_left_s
