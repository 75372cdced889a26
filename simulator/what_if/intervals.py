"""How sure a difference is: units (days, or futures) drawn anew, the same in both worlds."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from simulator.what_if.figures import Floats, Ints, Scope, figures_of

RESAMPLES: Final = 500
CONFIDENCE_PCT: Final = 95
RANGE_PCT: Final = 80


def draws_of(num_units: int, seed: int) -> Ints:
    """So many resamples of the units, with replacement; each row adds up to their number."""
    rng = np.random.default_rng([seed, num_units])
    return rng.multinomial(num_units, np.full(num_units, 1.0 / num_units), size=RESAMPLES).astype(np.int64)


def rank_of(num_units: int) -> int:
    """The how manieth least and greatest of so many values span the range."""
    return max(1, math.floor((num_units + 1) * (100 - RANGE_PCT) / 200 + 1e-9))


def range_level(num_units: int) -> float:
    """Chance, per cent, that one more value that is like the others lies in their range.

    (n + 1 - 2 k) / (n + 1) for the k-th least to the k-th greatest of n exchangeable values: exact, whatever
    they are distributed like (Wilks 1941).
    """
    return 100.0 * max(0, num_units + 1 - 2 * rank_of(num_units)) / (num_units + 1)


def compared(base: Scope, changed: Scope, seed: int) -> dict[str, Any]:
    """Figures of both worlds, their difference, and how sure it is.

    Returns:
        baseline, changed, difference: by figure. intervals, by figure: `low` and `high`, the percentile
        interval of the difference at `CONFIDENCE_PCT` over resamples that draw the same units in both worlds
        (paired block bootstrap); `range_low` and `range_high`, between which the difference in a single unit
        lies (`range_level`). None with less than two units, or where a figure is not finite.
    """
    num_units = len(base.sums)
    once = np.ones((1, num_units), dtype=np.int64)
    first, second = figures_of(base, once), figures_of(changed, once)
    values = [{name: float(value[0]) for name, value in one.items()} for one in (first, second)]
    difference = {name: _minus(values[1][name], values[0][name]) for name in first}
    if num_units < 2:
        none = dict.fromkeys(("low", "high", "range_low", "range_high"))
        intervals: dict[str, Any] = {name: dict(none) for name in difference}
    else:
        intervals = _intervals(base, changed, draws_of(num_units, seed))
    return {"baseline": values[0], "changed": values[1], "difference": difference, "intervals": intervals}


def _intervals(base: Scope, changed: Scope, draws: Ints) -> dict[str, dict[str, float | None]]:
    drawn = _differences(figures_of(base, draws), figures_of(changed, draws))
    each = np.eye(len(base.sums), dtype=np.int64)
    single = _differences(figures_of(base, each), figures_of(changed, each))
    tail = (100 - CONFIDENCE_PCT) / 200
    found: dict[str, dict[str, float | None]] = {}
    for name, resampled in drawn.items():
        values = resampled[np.isfinite(resampled)]
        alone = np.sort(single[name][np.isfinite(single[name])])
        low, high = np.quantile(values, [tail, 1.0 - tail]).tolist() if len(values) else (None, None)
        rank = rank_of(len(alone))
        is_range = 2 * rank <= len(alone)
        found[name] = {
            "low": low,
            "high": high,
            "range_low": float(alone[rank - 1]) if is_range else None,
            "range_high": float(alone[-rank]) if is_range else None,
        }
    return found


def _differences(base: Mapping[str, Floats], changed: Mapping[str, Floats]) -> dict[str, Floats]:
    with np.errstate(invalid="ignore"):
        return {name: changed[name] - base[name] for name in base}


def _minus(second: float, first: float) -> float | None:
    return second - first if math.isfinite(second) and math.isfinite(first) else None
