"""What is known of pairs on one GPU, from files: rates at any shares with intervals, and where from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist
from typing import Final

from data.pairs import Pair, PairTable, read_pairs
from data.profiles import SHIPPED, read_profiles
from domain.interference import InterferenceForecaster, RateForecast
from models.interference import PairInterference
from models.interference.calibration import Novelty
from models.interference.estimate import ProfileEstimate, features
from solver.packing.share_model import PARAMETERS, SETTINGS_PCT, WHOLE_PCT, Rates, ShareModel, Shares
from solver.packing.shared_rates import SharedRates

VARIED: Final = (0.8, 1.2)
"""Factors of each parameter of the share model: their spread is part of the interval of a modelled rate."""

ALL_SETTINGS: Final = tuple((a, b) for a in SETTINGS_PCT for b in SETTINGS_PCT)
FREE: Final = (WHOLE_PCT, WHOLE_PCT)

_NORMAL: Final = NormalDist()
_Z_90: Final = _NORMAL.inv_cdf(0.9)


class Basis(StrEnum):
    """Where rates are from, the surest first."""

    MEASURED = "measured"
    PAIRS = "forecast from measured pairs"
    PROFILES = "estimated from profiles"
    NOTHING = "nothing known of a model"


@dataclass(frozen=True, slots=True)
class Setting:
    """Rates of two jobs at some shares.

    Attributes:
        shares_pct: the shares.
        rates: of both, with their 80 % intervals.
        is_measured: whether the pair was measured at these shares, (100, 100) included.
    """

    shares_pct: Shares
    rates: tuple[RateForecast, RateForecast]
    is_measured: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of two models on one GPU.

    Attributes:
        settings: rates at each pair of shares in steps of 10 %; empty: known not to fit.
        fit_chance: chance that they fit as measured pairs tell; None where they tell nothing.
        basis: where the rates under free competition are from.
    """

    settings: tuple[Setting, ...]
    fit_chance: float | None
    basis: Basis


class PairKnowledge:
    """Rates of pairs: an operator's measurements first, forecasts from these next, estimates last."""

    def __init__(
        self,
        estimate: ProfileEstimate,
        table: PairTable | None = None,
        pairs: PairInterference | None = None,
        *,
        is_complete: bool = False,
    ) -> None:
        """Take what is known.

        Args:
            estimate: rates and memory from profiles.
            table: measured pairs.
            pairs: what was learned from these; None without.
            is_complete: whether the table tells what does not fit, so that it tells how likely others fit.
        """
        self.estimate: Final = estimate
        self._pairs: Final = pairs
        self._is_complete: Final = is_complete
        measured = {} if table is None else table.under_shares
        self._shared: Final = [SharedRates(_nobody, measured, model) for model in _models()]
        self._cache: Final[dict[Pair, Known]] = {}

    def of(self, model_a: str, model_b: str) -> Known:
        """What is known of the two on one GPU."""
        if (model_a, model_b) not in self._cache:
            self._cache[(model_a, model_b)] = self._look(model_a, model_b)
        return self._cache[(model_a, model_b)]

    def _look(self, model_a: str, model_b: str) -> Known:
        basis, forecaster = self._source(model_a, model_b)
        free = forecaster.rates(model_a, model_b)
        if free is None:
            return Known((), 0.0, basis)
        is_telling = basis is Basis.MEASURED or (basis is Basis.PAIRS and self._is_complete)
        chance = forecaster.fit_chance(model_a, model_b) if is_telling else None
        settings = tuple(self._setting(model_a, model_b, free, shares) for shares in ALL_SETTINGS)
        if basis is not Basis.MEASURED:
            settings = tuple(Setting(one.shares_pct, one.rates, is_measured=False) for one in settings)
        return Known(settings, chance, basis)

    def _source(self, model_a: str, model_b: str) -> tuple[Basis, InterferenceForecaster]:
        if self._pairs is not None:
            novelty = self._pairs.novelty(model_a, model_b)
            if novelty is Novelty.MEASURED:
                return Basis.MEASURED, self._pairs
            is_known = novelty is not Novelty.NEW_FAMILY or self._pairs.fit_chance(model_a, model_b) <= 0.0
            if is_known:
                return Basis.PAIRS, self._pairs
        uses = (self.estimate.use(model) for model in (model_a, model_b))
        return (Basis.NOTHING if None in uses else Basis.PROFILES), self.estimate

    def _setting(
        self, model_a: str, model_b: str, free: tuple[RateForecast, RateForecast], shares: Shares
    ) -> Setting:
        """Rates at these shares: what is not sure of free rates, and of the model's parameters, adds up.

        A rate rises with its free rate, so its ends are those of that, beside the other's median.
        """
        if shares == FREE:
            return Setting(shares, free, is_measured=True)
        a, b = free
        found = [self._ends(shared, model_a, model_b, free, shares) for shared in self._shared]
        is_measured = self._shared[0].is_measured(model_a, model_b, shares)
        return Setting(
            shares,
            (_spread([one[0] for one in found], a), _spread([one[1] for one in found], b)),
            is_measured,
        )

    @staticmethod
    def _ends(
        shared: SharedRates,
        model_a: str,
        model_b: str,
        free: tuple[RateForecast, RateForecast],
        shares: Shares,
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lower, median and upper rate of each under one share model."""
        a, b = free
        of_a = (
            shared.rates_from((x, b.median), model_a, model_b, shares)[0]
            for x in (a.lower, a.median, a.upper)
        )
        of_b = (
            shared.rates_from((a.median, y), model_a, model_b, shares)[1]
            for y in (b.lower, b.median, b.upper)
        )
        return tuple(of_a), tuple(of_b)


def load_knowledge(pairs: Path | None, profiles: Path | None, *, is_complete: bool) -> PairKnowledge:
    """Read an operator's files; the shipped estimates serve what these say nothing of.

    Args:
        pairs: measured pairs, None without.
        profiles: models alone, None without.
        is_complete: whether two models of `pairs` that have no row do not fit.

    Raises:
        InputError: with every fault found in a file.
        SettingError: if the pairs cannot be learned from.
    """
    own = {} if profiles is None else dict(read_profiles(profiles))
    table = None if pairs is None else read_pairs(pairs, is_complete=is_complete)
    estimate = ProfileEstimate({**read_profiles(SHIPPED), **own})
    learned = None if table is None else PairInterference(table, features(own))
    return PairKnowledge(estimate, table, learned, is_complete=is_complete)


def chance_below(rate: RateForecast, threshold: float) -> float:
    """Chance that a rate falls below a threshold: a normal for each side of the median, logit scale."""
    if threshold <= 0.0:
        return 0.0
    middle, at = _logit(rate.median), _logit(threshold)
    sd = (middle - _logit(rate.lower) if at < middle else _logit(rate.upper) - middle) / _Z_90
    if sd <= 0.0:
        return 1.0 if rate.median < threshold else 0.0
    return _NORMAL.cdf((at - middle) / sd)


def _spread(ends: Sequence[tuple[float, ...]], free: RateForecast) -> RateForecast:
    """The median of the first share model, the interval over all; as wide as the free one at least (logit).

    What was measured pins the model, but is no surer than what was measured under free competition.
    """
    median = ends[0][1]
    low, high = (
        _rate(_logit(median) + _logit(end) - _logit(free.median)) for end in (free.lower, free.upper)
    )
    lower = min(low, median, *(min(one) for one in ends))
    upper = max(high, median, *(max(one) for one in ends))
    return RateForecast(lower, median, upper)


def _models() -> list[ShareModel]:
    """The share model, then each of its parameters varied alone."""
    return [ShareModel(), *(ShareModel().scaled(name, factor) for name in PARAMETERS for factor in VARIED)]


def _nobody(_model_a: str, _model_b: str) -> Rates | None:
    """Free rates are told with each question."""
    return None


def _rate(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


def _logit(rate: float) -> float:
    rate = min(max(rate, 1e-6), 1.0 - 1e-6)
    return math.log(rate / (1.0 - rate))
