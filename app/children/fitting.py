"""Jobs of the past that a cluster as it is could never have started."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from data.history import in_order


def without_impossible(
    frame: pd.DataFrame, from_s: float, quotas: Iterable[Mapping[str, int]]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table without the jobs of the window that do not fit their pool's quota in one of the worlds."""
    fits = pd.Series(data=True, index=frame.index)
    for one in quotas:
        fits &= frame["num_gpus"] <= frame["pool"].map(one).astype("float64").fillna(0.0)
    is_out = (frame["submit_s"] >= from_s) & ~fits
    counts = frame.loc[is_out, "pool"].value_counts(sort=False)
    by_name = [{"pool": str(pool), "jobs": int(counts[pool])} for pool in sorted(counts.index)]
    return in_order(frame[~is_out]), {"jobs": int(is_out.sum()), "by_pool": by_name}
