"""What an early start is worth, and how pools are treated: a small family of rules.

A rule of fairness is one function and one line of `FAIRNESS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from solver.lending.curves import FloatArray
from solver.lending.problem import Utility

_LEAST_LIFE_S: Final = 60.0
"""Below a minute nobody cares which job is shorter."""
_BETA_POINTS: Final = np.array([0.0, 0.05, 0.15, 0.35, 0.65, 1.0])
"""Where, as shares of what a pool could get, a tangent touches its utility."""


@dataclass(frozen=True, slots=True)
class ValueSettings:
    """How jobs are weighed against each other.

    Attributes:
        stretch: exponent of 1 + waiting so far / expected life: who has waited long for little.
        shortness: exponent of 1 / expected life.
        patience_s: waiting after which width counts half. A job that has just come is worth the same at any
            width, so narrow ones win the idle GPUs; one that waits on is worth ever more nearly its width,
            so that wide ones are not starved.
        beta: of beta-fairness; 0 does not care, 1 is proportional fairness, large is max-min.
        weight: of fairness between pools, as a share of the median value per GPU of the jobs that wait.
    """

    stretch: float = 0.5
    shortness: float = 0.5
    patience_s: float = 4 * 3600.0
    beta: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.patience_s <= 0.0 or min(self.stretch, self.shortness, self.beta, self.weight) < 0.0:
            raise ValueError("patience is positive, exponents and weight at least 0")


def job_values(
    wait_s: FloatArray, life_s: FloatArray, width_gpus: FloatArray, settings: ValueSettings
) -> FloatArray:
    """Worth of starting each job now.

        (1 + wait / life)^stretch x (1 min / life)^shortness x width^(wait / (wait + patience))

    Args:
        wait_s: (jobs,) waited so far.
        life_s: (jobs,) expected or median life; may be infinite.
        width_gpus: (jobs,).
        settings: the exponents.

    Returns:
        (jobs,) positive numbers, 0 where the life is infinite.
    """
    life = np.maximum(life_s, _LEAST_LIFE_S)
    wait = np.maximum(wait_s, 0.0)
    short = (_LEAST_LIFE_S / life) ** settings.shortness
    return np.asarray(
        (1.0 + wait / life) ** settings.stretch * short * width_gpus ** (wait / (wait + settings.patience_s))
    )


@dataclass(frozen=True, slots=True, eq=False)
class PoolsNow:
    """Pools at this instant.

    Attributes:
        quota_gpus, used_gpus: (pools,).
        asked_gpus: (pools,) width of the jobs that wait.
        idle_gpus: GPUs that may be lent.
    """

    quota_gpus: FloatArray
    used_gpus: FloatArray
    asked_gpus: FloatArray
    idle_gpus: float


@dataclass(frozen=True, slots=True, eq=False)
class PoolTerms:
    """What fairness adds: a factor on the values of a pool's jobs, and a gain from GPUs granted."""

    factor: FloatArray
    utility: Utility | None = None


Fairness = Callable[[PoolsNow, ValueSettings, float], PoolTerms]
"""From the pools, the settings and the median value per GPU."""


def indifferent(pools: PoolsNow, _settings: ValueSettings, _value_per_gpu: float) -> PoolTerms:
    """Pools do not matter."""
    return PoolTerms(np.ones(pools.quota_gpus.size))


def lowest_use(pools: PoolsNow, settings: ValueSettings, _value_per_gpu: float) -> PoolTerms:
    """Pools lowest in use / quota first: values are divided by (1 + use / quota)^weight."""
    use = pools.used_gpus / np.maximum(pools.quota_gpus, 1.0)
    return PoolTerms((1.0 + use) ** -settings.weight)


def maxmin(pools: PoolsNow, settings: ValueSettings, value_per_gpu: float) -> PoolTerms:
    """Max-min fairness: each GPU up to a pool's max-min fair grant earns a bonus.

    The fair grants raise the lowest use / quota first, until the idle GPUs or the pool's own jobs are
    used up. As a bonus, and not as a row, they cannot keep GPUs idle that a pool is not able to use.
    """
    bonus = settings.weight * value_per_gpu
    grants = fair_grants(pools)
    slope = np.tile(np.array([bonus, 0.0]), (grants.size, 1))
    intercept = np.stack([np.zeros_like(grants), bonus * grants], axis=1)
    return PoolTerms(np.ones(grants.size), Utility(slope, intercept))


def beta_fair(pools: PoolsNow, settings: ValueSettings, value_per_gpu: float) -> PoolTerms:
    """Beta-fairness (Mo and Walrand, 2000): a GPU more is worth (use / quota)^-beta, use after the grant.

    The concave utility is the least of some tangents. One GPU is added to use and quota, so that the
    first GPU of a pool that has none is not worth everything.
    """
    most = np.minimum(pools.asked_gpus, pools.idle_gpus)
    at = most[:, None] * _BETA_POINTS
    share = (pools.used_gpus[:, None] + at + 1.0) / (pools.quota_gpus[:, None] + 1.0)
    slope = settings.weight * value_per_gpu * share**-settings.beta
    # where two tangents meet is not known before; a sum of slopes up to each point is close, and concave
    gain = np.concatenate(
        [np.zeros((most.size, 1)), np.cumsum(0.5 * (slope[:, 1:] + slope[:, :-1]) * np.diff(at), axis=1)],
        axis=1,
    )
    return PoolTerms(np.ones(most.size), Utility(slope, gain - slope * at))


FAIRNESS: Final[dict[str, Fairness]] = {
    "none": indifferent,
    "lowest-use": lowest_use,
    "maxmin": maxmin,
    "beta": beta_fair,
}


def fair_grants(pools: PoolsNow) -> FloatArray:
    """(pools,) GPUs each pool gets when the lowest use / quota is raised first.

    With level t pool p gets clip(t x quota - used, 0, asked); t is as high as the idle GPUs allow. The sum
    is piecewise linear in t, so t lies between two of its corners.
    """
    quota, used, asked = np.maximum(pools.quota_gpus, 1e-9), pools.used_gpus, pools.asked_gpus

    def grants(level: FloatArray | float) -> FloatArray:
        return np.asarray(np.clip(np.asarray(level)[..., None] * quota - used, 0.0, asked))

    corners = np.unique(np.concatenate([used / quota, (used + asked) / quota]))
    totals = grants(corners).sum(axis=1)
    place = int(np.searchsorted(totals, pools.idle_gpus, side="right"))
    if place == corners.size:
        return grants(float(corners[-1]))
    if place == 0:
        return grants(float(corners[0]))
    rise = totals[place] - totals[place - 1]
    share = (pools.idle_gpus - totals[place - 1]) / rise
    return grants(float(corners[place - 1] + share * (corners[place] - corners[place - 1])))
