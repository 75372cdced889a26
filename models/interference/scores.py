"""How good interference forecasts are for models that were left out of the table, against two baselines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.pairs import Pair, PairTable
from domain.errors import SettingError
from domain.interference import RATE_LEVELS, InterferenceForecaster
from models.interference.field import LOWEST
from models.interference.mean import MeanRate
from models.interference.pairs import PairInterference
from models.interference.profiles import Floats, Profile, family_of
from models.interference.utilisation import UtilisationRule
from models.scores import Bools, covered, pinball_loss

Make = Callable[[PairTable, Mapping[str, Profile]], InterferenceForecaster]

RIVALS: Final[Mapping[str, Make]] = {
    "": PairInterference,
    "_mean_rate": MeanRate,
    "_utilisation": UtilisationRule,
}
"""What is compared, by the suffix of its figures."""

FITS_FROM: Final = 0.75
"""Chance from which a pair counts as said to fit."""


class LeftOut(NamedTuple):
    """Forecasts of pairs of which at least one model was left out: one row per rate, two per pair.

    Attributes:
        models: whose rate it is.
        is_own: whether it is the rate of a model left out, not that of its partner.
        rates: what was measured, at most 1.
        forecasts: lower, median and upper, shape (rows, 3).
        chances: chance of fitting that was given to each measured pair.
        unfit_chances: the same of each pair that does not fit.
    """

    models: tuple[str, ...]
    is_own: Bools
    rates: Floats
    forecasts: Floats
    chances: Floats
    unfit_chances: Floats


def score_interference(table: PairTable, profiles: Mapping[str, Profile] | None = None) -> dict[str, object]:
    """Leave each model out in turn, learn from the rest, forecast both rates of every pair with it.

    Args:
        table: measured pairs of at least three models.
        profiles: what is known of models alone, also of those left out.

    Returns:
        Numbers of models and pairs; for the learned model, and with `_mean_rate` and `_utilisation` appended
        for the baselines: mae (mean absolute error of the rate), mae_own (of the model left out),
        mae_partner, pinball (mean of the three levels), coverage_80 (and _own, _partner), width (mean, of the
        80 % interval); unfit_found and fit_kept (shares of the pairs that do not fit, and that do, that
        were said so); per_model: models, mae and coverage_80 of each model left out; worst_model.

    Raises:
        SettingError: if there are fewer than three models that a pair was measured of.
    """
    groups = [frozenset({name}) for name in measured_models(table)]
    if len(groups) < 3:
        raise SettingError(f"at least three models are needed to leave one out, the table has {len(groups)}")
    scores: dict[str, object] = {"models": len(groups), "pairs": len(table.rates)}
    for suffix, make in RIVALS.items():
        parts = [leave_out(table, group, make, profiles or {}) for group in groups]
        scores |= {key + suffix: value for key, value in figures(parts).items()}
        if not suffix:
            by_model = {min(group): figures([part]) for group, part in zip(groups, parts, strict=True)}
            scores["per_model"] = {
                name: {key: found[key] for key in ("mae", "coverage_80", "width")}
                for name, found in by_model.items()
            }
            scores["worst_model"] = max(by_model, key=lambda name: by_model[name]["mae"] or 0.0)
    return scores


def measured_models(table: PairTable) -> list[str]:
    """Names of the models that a pair was measured of."""
    return sorted({name for pair in table.rates for name in pair})


def families(table: PairTable) -> list[frozenset[str]]:
    """The measured models by family."""
    found: dict[tuple[str, bool], set[str]] = {}
    for name in measured_models(table):
        found.setdefault(family_of(name), set()).add(name)
    return [frozenset(found[family]) for family in sorted(found)]


def leave_out(
    table: PairTable, group: frozenset[str], make: Make, profiles: Mapping[str, Profile]
) -> LeftOut:
    """Learn from the table without the models of `group` and forecast every pair that has one."""
    forecaster = make(table.without(group), profiles)
    pairs = sorted(pair for pair in table.rates if group & set(pair))
    unfit = sorted(pair for pair in table.unfit if group & set(pair))
    return forecast_pairs(forecaster, table, pairs, unfit, group)


def forecast_pairs(
    forecaster: InterferenceForecaster,
    table: PairTable,
    pairs: Sequence[Pair],
    unfit: Sequence[Pair],
    group: frozenset[str],
) -> LeftOut:
    """Ask a forecaster that was not told of them for measured `pairs`, and for `unfit` ones if they fit."""
    models = tuple(name for pair in pairs for name in pair)
    return LeftOut(
        models,
        np.array([name in group for name in models], np.bool_),
        np.minimum([rate for pair in pairs for rate in table.rates[pair]], 1.0),
        np.array([row for pair in pairs for row in _forecasts(forecaster, pair)]),
        np.array([forecaster.fit_chance(*pair) for pair in pairs]),
        np.array([forecaster.fit_chance(*pair) for pair in unfit]),
    )


def figures(parts: Sequence[LeftOut]) -> dict[str, float | None]:
    """The figures of `score_interference` over all parts, each rate counting once; None of nothing."""
    rates, forecasts = (np.concatenate([part[k] for part in parts]) for k in (2, 3))
    is_own = np.concatenate([part.is_own for part in parts])
    errors = np.abs(forecasts[:, 1] - rates)
    inside = covered(rates, forecasts[:, 0], forecasts[:, 2])
    return {
        "mae": float(errors.mean()),
        "mae_own": _mean(errors[is_own]),
        "mae_partner": _mean(errors[~is_own]),
        "pinball": pinball_loss(rates, forecasts, RATE_LEVELS),
        "coverage_80": float(inside.mean()),
        "coverage_80_own": _mean(inside[is_own]),
        "coverage_80_partner": _mean(inside[~is_own]),
        "width": float((forecasts[:, 2] - forecasts[:, 0]).mean()),
        "unfit_found": _mean(np.concatenate([part.unfit_chances for part in parts]) < FITS_FROM),
        "fit_kept": _mean(np.concatenate([part.chances for part in parts]) >= FITS_FROM),
    }


def _forecasts(forecaster: InterferenceForecaster, pair: Pair) -> list[tuple[float, float, float]]:
    """Both forecasts; of a pair that is said not to fit, that its jobs stand still."""
    said = forecaster.rates(*pair)
    if said is None:
        return [(LOWEST, LOWEST, LOWEST)] * 2
    return [(one.lower, one.median, one.upper) for one in said]


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None
