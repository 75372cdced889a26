"""How long jobs run, with those that were cut off counted as at least so long (Kaplan and Meier, 1958)."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import CensoredData, ecdf

from domain.attempts import Observation

LEVELS: Final = (0.1, 0.25, 0.5, 0.75, 0.9)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lives:
    """A distribution of lives.

    Attributes:
        whole, cut_off, truncated: jobs by how much of their lives was seen; truncated ones are not in it.
        times_s, survival: share that lives longer, from each time on.
        naive_median_s: what the median would be if each life had ended where it was cut off; to compare.
    """

    whole: int
    cut_off: int
    truncated: int
    times_s: Floats
    survival: Floats
    naive_median_s: float | None

    def quantile_s(self, level: float) -> float | None:
        """Time by which a share `level` has ended; None where too many were cut off before."""
        reached = np.flatnonzero(self.survival <= 1.0 - level + 1e-12)
        return float(self.times_s[reached[0]]) if len(reached) else None

    def as_json(self) -> dict[str, Any]:
        """Numbers of it, without the curve."""
        return {
            "whole": self.whole,
            "cut_off": self.cut_off,
            "truncated": self.truncated,
            "quantiles_s": {f"{level:g}": self.quantile_s(level) for level in LEVELS},
            "naive_median_s": self.naive_median_s,
        }


def lives_of(jobs: pd.DataFrame) -> Lives:
    """Lives of jobs.

    Args:
        jobs: rows of a `JobsView`.
    """
    known = jobs[jobs["lived_s"].notna()]
    lived_s = known["lived_s"].to_numpy(np.float64)
    is_whole = known["observation"].eq(Observation.FULL.value).to_numpy(np.bool_)
    is_cut = known["observation"].eq(Observation.RIGHT_CENSORED.value).to_numpy(np.bool_)
    whole, cut = lived_s[is_whole], lived_s[is_cut]
    truncated = int(jobs["observation"].eq(Observation.LEFT_TRUNCATED.value).sum())
    times_s, survival = _survival(whole, cut)
    seen = np.concatenate((whole, cut))
    naive = float(np.median(seen)) if len(seen) else None
    return Lives(len(whole), len(cut), truncated, times_s, survival, naive)


def _survival(whole: Floats, cut: Floats) -> tuple[Floats, Floats]:
    if not len(whole):
        return np.zeros(0), np.zeros(0)
    found = ecdf(CensoredData(uncensored=whole, right=cut)).sf
    return np.asarray(found.quantiles, np.float64), np.asarray(found.probabilities, np.float64)
