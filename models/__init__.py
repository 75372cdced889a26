"""Predictors. Each is one file and one line in a registry here."""

from collections.abc import Callable
from functools import partial
from typing import Final

from domain.forecasts import LifetimeForecaster
from models.demand.pools import PoolDemand
from models.demand.random_demand import RandomDemand
from models.demand.watched import WatchedDemand
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.limit import RequestedLimits
from models.lifetime.random_lives import RandomLifetimes
from models.lifetime.uncorrected import UncorrectedLifetimes
from models.training import Training

__all__ = ["DEMAND_MODELS", "LIFETIME_MODELS", "Training"]

_DAY_S: Final = 86_400.0


def _empirical(training: Training) -> EmpiricalLifetimes:
    model = EmpiricalLifetimes()
    for job, duration_s in training.whole():
        model.observe(job, duration_s)
    return model


def _hazard(training: Training, kind: type[HazardLifetimes] = HazardLifetimes) -> HazardLifetimes:
    """Trained once, or again every few days; what happened ten days earlier counts half."""
    model = kind(seed=training.seed, retrain_every_s=training.retrain_every_s, half_life_s=10 * _DAY_S)
    model.fit(training.past, training.censored, training.now_s, training.starts, training.cut_off)
    return model


def _unfitted(training: Training, *, count_quiet: bool, scenarios: str = "bootstrap") -> PoolDemand:
    """Without the quantiles per window, which no policy asks for yet: they take most of the training."""
    return PoolDemand(
        training.quotas,
        seed=training.seed,
        retrain_every_s=training.retrain_every_s,
        count_quiet=count_quiet,
        scenarios=scenarios,
        has_quantiles=False,
    )


def _pool_demand(training: Training, *, count_quiet: bool, scenarios: str = "bootstrap") -> PoolDemand:
    model = _unfitted(training, count_quiet=count_quiet, scenarios=scenarios)
    model.fit(training.past, training.censored, training.now_s)
    return model


def _watched_demand(training: Training) -> WatchedDemand:
    model = WatchedDemand(_unfitted(training, count_quiet=True, scenarios="corrected"))
    model.fit(training.past, training.censored, training.now_s)
    return model


def _random_demand(training: Training) -> RandomDemand:
    model = RandomDemand(training.quotas, seed=training.seed)
    model.fit(training.past, training.censored, training.now_s)
    return model


LIFETIME_MODELS: Final[dict[str, Callable[[Training], LifetimeForecaster]]] = {
    "learned": _empirical,
    "hazard": _hazard,
    "uncorrected": partial(_hazard, kind=UncorrectedLifetimes),
    "limit": lambda _training: RequestedLimits(),
    "random": lambda training: RandomLifetimes(training.whole(), seed=training.seed),
}

DEMAND_MODELS: Final[dict[str, Callable[[Training], PoolDemand | RandomDemand | WatchedDemand]]] = {
    "learned": partial(_pool_demand, count_quiet=True),
    "cautious": partial(_pool_demand, count_quiet=False),
    "nearest": partial(_pool_demand, count_quiet=True, scenarios="nearest"),
    "corrected": partial(_pool_demand, count_quiet=True, scenarios="corrected"),
    "watched": _watched_demand,
    "random": _random_demand,
}
