"""What is in a history: arrivals, widths, lives, waits, states and recurrence, of all and by pool."""

from typing import Any, Final

import numpy as np
import pandas as pd

from data.insight.evidence import DAY_S, Evidence
from data.insight.finding import supports
from data.insight.findings import findings
from data.insight.lives import Lives, lives_of
from data.intake.format import Clock
from data.intake.report import day_text
from data.records import MILLI

HOURS_OF_WEEK: Final = 168
MOST_POOLS: Final = 30
"""Pools that are told one by one, by GPU-hours; the rest is one line."""

WIDTHS: Final = ("no GPU", "a share", "1", "2", "3-4", "5-8", "9-16", "17-64", "more", "not known")
_EDGES: Final = (1, 2, 4, 8, 16, 64)
_WAIT_LEVELS: Final = (0.5, 0.9, 0.99)
_EPOCH_WEEKDAY: Final = 3
"""The first of January 1970 was a Thursday; Monday is 0."""

_NO_POOL: Final = "(no pool)"
_REST: Final = "(other pools)"


def describe(evidence: Evidence) -> dict[str, Any]:
    """A history as one JSON object: counts, distributions, findings and what it supports."""
    jobs = evidence.jobs
    found = findings(evidence)
    return {
        "jobs": len(jobs),
        "attempts": len(evidence.attempts),
        "clock": evidence.clock.value,
        "first_submit_s": _or_none(jobs["submit_s"].min()) if len(jobs) else None,
        "edge_s": evidence.view.edge_s if len(jobs) else None,
        "arrivals": arrivals(evidence),
        "hours_of_week": hours_of_week(evidence),
        "widths": widths(jobs),
        "lives": lives_of(jobs).as_json(),
        "waits": waits(jobs),
        "states": states(jobs),
        "recurrence": recurrence(jobs),
        "pools": by_pool(jobs),
        "inventory": {
            "nodes": len(evidence.inventory.latest_nodes()),
            "gpus": sum(node.num_gpus for node in evidence.inventory.latest_nodes()),
            "pools": len({one.pool for one in evidence.inventory.pools}),
        },
        "findings": [one.as_json() for one in found],
        "supports": supports(found),
    }


def arrivals(evidence: Evidence) -> list[dict[str, Any]]:
    """Jobs and GPUs asked for by day of submission; days without any are there with 0."""
    jobs = evidence.jobs
    if jobs.empty:
        return []
    day = (jobs["submit_s"] // DAY_S).astype("int64")
    gpus = (jobs["gpus_milli"].fillna(0.0) * jobs["num_tasks"] / MILLI).groupby(day).sum()
    tasks = jobs["num_tasks"].groupby(day).sum()
    days = range(int(day.min()), int(day.max()) + 1)
    is_dated = evidence.clock is Clock.UTC
    return [
        {
            "day": day_text(one) if is_dated else str(one),
            "jobs": int(tasks.get(one, 0)),
            "gpus": round(float(gpus.get(one, 0.0)), 3),
        }
        for one in days
    ]


def hours_of_week(evidence: Evidence) -> list[int] | None:
    """Jobs by hour of the week, UTC, from Monday midnight on; None where no hour is true."""
    if evidence.clock is not Clock.UTC or evidence.says("gaps_not_times") or evidence.jobs.empty:
        return None
    hour = evidence.jobs["submit_s"].to_numpy(np.float64) // 3600.0 + 24 * _EPOCH_WEEKDAY
    counts = np.bincount((hour % HOURS_OF_WEEK).astype(np.int64), minlength=HOURS_OF_WEEK)
    return [int(count) for count in counts]


def widths(jobs: pd.DataFrame) -> dict[str, int]:
    """Jobs by GPUs."""
    milli = jobs["gpus_milli"].to_numpy(np.float64)
    place = 2 + np.searchsorted(_EDGES, np.nan_to_num(milli) / MILLI)
    place[(milli > 0) & (milli < MILLI)] = 1
    place[milli == 0] = 0
    place[np.isnan(milli)] = len(WIDTHS) - 1
    counts = np.bincount(place, minlength=len(WIDTHS))
    return {name: int(count) for name, count in zip(WIDTHS, counts.tolist(), strict=True)}


def waits(jobs: pd.DataFrame) -> dict[str, Any]:
    """How long jobs waited for their first start."""
    known = jobs["wait_s"].dropna()
    return {
        "jobs": len(known),
        "zero_share": float(known.le(0.0).mean()) if len(known) else None,
        "quantiles_s": {
            f"{level:g}": float(known.quantile(level)) if len(known) else None for level in _WAIT_LEVELS
        },
    }


def states(jobs: pd.DataFrame) -> dict[str, int]:
    """Jobs by how their last attempt ended."""
    return {str(cause): int(count) for cause, count in jobs["cause"].value_counts().items()}


def recurrence(jobs: pd.DataFrame) -> dict[str, Any]:
    """How many jobs are like an earlier one: of the same user, of the same user and name."""
    users = jobs["user"].dropna()
    keyed = jobs[["user", "name"]].dropna()
    return {
        "users": int(users.nunique()),
        "with_user": len(users),
        "names_of_users": int((~keyed.duplicated()).sum()),
        "with_user_and_name": len(keyed),
        "user_again_share": float(users.duplicated().mean()) if len(users) else None,
        "user_and_name_again_share": float(keyed.duplicated().mean()) if len(keyed) else None,
    }


def by_pool(jobs: pd.DataFrame) -> list[dict[str, Any]]:
    """The same of each pool, in the order of GPU-hours, then of jobs."""
    if jobs.empty:
        return []
    pools = jobs["pool"].fillna(_NO_POOL)
    sizes = pd.DataFrame(
        {"hours": jobs["gpu_hours"].groupby(pools).sum(), "jobs": pools.groupby(pools).size()}
    )
    sizes = (
        sizes.rename_axis("pool")
        .reset_index()
        .sort_values(["hours", "jobs", "pool"], ascending=[False, False, True])
    )
    names = sizes["pool"].tolist()
    told = names[:MOST_POOLS]
    rows = [_pool(name, jobs[pools == name]) for name in told]
    if len(names) > len(told):
        rows.append(_pool(f"{_REST[:-1]}: {len(names) - len(told)})", jobs[~pools.isin(told)]))
    return rows


def _pool(name: str, jobs: pd.DataFrame) -> dict[str, Any]:
    lives = lives_of(jobs)
    return {
        "pool": name,
        "jobs": len(jobs),
        "gpu_hours": _or_none(jobs["gpu_hours"].sum(min_count=1)),
        "users": int(jobs["user"].nunique()),
        "median_life_s": lives.quantile_s(0.5),
        "cut_off_share": _share(lives),
        "median_wait_s": _or_none(jobs["wait_s"].median()) if jobs["wait_s"].notna().any() else None,
        "widths": {width: count for width, count in widths(jobs).items() if count},
        "states": states(jobs),
        "recurrence": recurrence(jobs),
    }


def _share(lives: Lives) -> float | None:
    seen = lives.whole + lives.cut_off
    return lives.cut_off / seen if seen else None


def _or_none(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
