"""Predictors. A lifetime model is one file and one line here."""

from collections.abc import Callable

from domain.forecasts import LifetimeForecaster
from models.lifetime_empirical import EmpiricalLifetimes
from models.lifetime_limit import RequestedLimits

LIFETIME_MODELS: dict[str, Callable[[], LifetimeForecaster]] = {
    "learned": EmpiricalLifetimes,
    "limit": RequestedLimits,
}
