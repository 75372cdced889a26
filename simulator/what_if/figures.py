"""The figures of a world, pooled over units (days, or futures), and of many draws of units at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.what_if.lived import USES, WorldLived

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MINUTE_S: Final = 60.0


@dataclass(frozen=True)
class Scope:
    """Measured jobs of a world, of all pools or of one, with what each unit adds up to.

    Attributes:
        quota_gpus: GPUs of the quotas.
        units: unit of each job, shape (jobs,).
        jct_s, wait_s: of each job, shape (jobs,).
        sums: by unit, shape (units, sums); the columns are those of `_SUMS`.
        most_late_min: by unit, never below 0, shape (units,).
        is_per_unit: whether what adds up is given for a unit in the mean (futures), else in all (days).
    """

    quota_gpus: int
    units: Ints
    jct_s: Floats
    wait_s: Floats
    sums: Floats
    most_late_min: Floats
    is_per_unit: bool


_SUMS: Final = ("jobs", "jct", "wait", "reference", "log_gain", "slowed", "requeues", *USES)
_AT: Final = {name: place for place, name in enumerate(_SUMS)}


def scope_of(
    lived: Sequence[WorldLived], quotas: Sequence[int], pool: int | None, *, is_per_unit: bool
) -> Scope:
    """The measured jobs of all courses of one world.

    Args:
        lived: by course. Units of later courses come behind those of earlier ones.
        quotas: GPUs of the pools, in their order.
        pool: place of a pool; None for all.
        is_per_unit: see `Scope`.
    """
    units, jct, wait, rows, late = [], [], [], [], []
    first = 0
    for one in lived:
        num_units = one.uses.shape[1]
        mask = np.ones(len(one.jobs), np.bool_) if pool is None else one.pools == pool
        here = one.units[mask]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_gain = np.log(one.gain[mask])
        columns = (
            np.ones(len(here)), one.jct_s[mask], one.wait_s[mask], one.reference_jct_s[mask], log_gain,
            one.is_slowed[mask].astype(np.float64), one.requeues[mask].astype(np.float64),
        )  # fmt: skip
        with np.errstate(invalid="ignore"):
            by_unit = [np.bincount(here, weights=column, minlength=num_units) for column in columns]
        rows.append(np.column_stack([*by_unit, one.uses[-1 if pool is None else pool]]))
        most = np.zeros(num_units)
        np.maximum.at(most, here, one.late_s[mask] / _MINUTE_S)
        late.append(most)
        units.append(here + first)
        jct.append(one.jct_s[mask])
        wait.append(one.wait_s[mask])
        first += num_units
    return Scope(
        sum(quotas) if pool is None else quotas[pool],
        np.concatenate(units),
        np.concatenate(jct),
        np.concatenate(wait),
        np.concatenate(rows),
        np.concatenate(late),
        is_per_unit,
    )


def figures_of(scope: Scope, draws: Ints) -> dict[str, Floats]:
    """The figures for several draws of units.

    Speed-ups and slowed jobs are against the same world without sharing ("walls"). What there are no jobs
    for is not a number.

    Args:
        scope: which jobs.
        draws: how often each unit is in each draw, shape (draws, units).

    Returns:
        Each figure for each draw, shape (draws,).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = _drawn_sums(scope, draws)
        at = {name: sums[:, place] for name, place in _AT.items()}
        count = at["jobs"]
        per = draws.sum(axis=1) if scope.is_per_unit else np.ones(len(draws))
        jct_s = _quantiles(scope.units, scope.jct_s, draws, (0.5, 0.95))
        wait_s = _quantiles(scope.units, scope.wait_s, draws, (0.95, 0.99))
        return {
            "quota_gpus": np.full(len(draws), float(scope.quota_gpus)),
            "jobs": count / per,
            "mean_jct_s": at["jct"] / count,
            "median_jct_s": jct_s[0],
            "p95_jct_s": jct_s[1],
            "mean_queue_delay_s": at["wait"] / count,
            "p95_queue_delay_s": wait_s[0],
            "p99_queue_delay_s": wait_s[1],
            "speedup_ratio_of_means_vs_fcfs": _ratio(at["reference"], at["jct"]),
            "speedup_geomean_vs_fcfs": np.exp(at["log_gain"] / count),
            "slowed_jobs_vs_fcfs": at["slowed"] / per,
            "slowed_pct_vs_fcfs": 100.0 * at["slowed"] / count,
            "slowed_max_min_vs_fcfs": np.where(draws > 0, scope.most_late_min, 0.0).max(axis=1),
            "requeues": at["requeues"] / per,
            "utilisation_pct": 100.0 * at["allocated_gpu_hours"] / at["capacity_gpu_hours"],
            "lent_gpu_hours": at["lent_gpu_hours"] / per,
            "lost_gpu_hours": at["lost_gpu_hours"] / per,
        }


def _drawn_sums(scope: Scope, draws: Ints) -> Floats:
    """Sums over the units of each draw; what is not finite counts only where its unit is drawn."""
    if np.isfinite(scope.sums).all():
        found: Floats = draws @ scope.sums
        return found
    weighted = draws[:, :, None] * scope.sums
    counted: Floats = np.where(draws[:, :, None] > 0, weighted, 0.0).sum(axis=1)
    return counted


def _ratio(above: Floats, below: Floats) -> Floats:
    """As `domain.measures.ratio`: 0 / 0 is 1."""
    return np.where((above == 0.0) & (below == 0.0), 1.0, above / below)


def _quantiles(units: Ints, values: Floats, draws: Ints, levels: Sequence[float]) -> list[Floats]:
    """Quantiles of each draw, linear between order statistics (`domain.measures.quantile`)."""
    order = np.argsort(values, kind="stable")
    ordered, owner = values[order], units[order]
    found = np.full((len(levels), len(draws)), np.nan)
    for row, weights in enumerate(draws):
        reached = np.cumsum(weights[owner])
        if not len(reached) or not reached[-1]:
            continue
        for place, level in enumerate(levels):
            found[place, row] = _between(ordered, reached, level * (reached[-1] - 1))
    return list(found)


def _between(ordered: Floats, reached: Ints, place: float) -> float:
    low_place = int(place)
    low, high = ordered[np.searchsorted(reached, [low_place, min(low_place + 1, reached[-1] - 1)], "right")]
    return float(low + (place - low_place) * (high - low)) if low != high else float(low)
