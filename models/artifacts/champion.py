"""Whether a new model replaces the old one: only if it wins on the recent past, tails before cleverness.

Both forecast the same jobs or windows of a stretch that neither was trained on. Errors come in episodes, so
a forecast is not an independent trial; a day nearly is. The mean difference of the losses is therefore
tested with its days as clusters (Cameron and Miller, J. Human Resources 50:2, 2015, section II: the variance
of a mean from the sums within clusters, and t with one degree of freedom less than there are clusters).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Days = NDArray[np.int64]

_DAY_S: Final = 86_400.0


@dataclass(frozen=True, eq=False)
class Trial:
    """How one model did on the stretch, one row per forecast; rows of two trials are the same forecasts.

    Attributes:
        name: of the model, for the sentence that says why.
        losses: what each forecast cost, shape (rows,).
        is_missed: whether the outcome lay beyond the level that is relied on (a life beyond its .9
            quantile, GPUs beyond their .95 quantile), shape (rows,).
    """

    name: str
    losses: Floats
    is_missed: Bools


@dataclass(frozen=True, slots=True)
class Margins:
    """What a new model may cost.

    Attributes:
        loss_share: by how much the loss may be worse at the confidence asked, as a share of the old loss.
        miss_share: by how much the share of misses may be larger, absolute.
        confidence: of the one-sided bound.
        least_days: days below which nothing is concluded.
        least_rows: forecasts below which nothing is concluded.
    """

    loss_share: float = 0.02
    miss_share: float = 0.01
    confidence: float = 0.95
    least_days: int = 2
    least_rows: int = 50

    def __post_init__(self) -> None:
        if not (0 <= self.loss_share < 1 and 0 <= self.miss_share < 1 and 0.5 <= self.confidence < 1):
            raise ValueError("margins lie in [0, 1), the confidence in [0.5, 1)")
        if self.least_days < 2 or self.least_rows < 1:
            raise ValueError("at least two days and one row are needed to conclude anything")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a comparison.

    Attributes:
        is_promoted: whether the challenger replaces the champion.
        why: one sentence.
        loss, champion_loss: mean losses; NaN where there is no forecast.
        worst_loss_share: bound of (loss - champion's) / champion's at the confidence asked; infinite where
            too little is known.
        miss_share, champion_miss_share: shares of misses.
        num_days, num_rows: what it rests on.
    """

    is_promoted: bool
    why: str
    loss: float
    champion_loss: float
    worst_loss_share: float
    miss_share: float
    champion_miss_share: float
    num_days: int
    num_rows: int


def day_of(instants_s: Floats) -> Days:
    """Number of the day of each instant, on the clock of the record."""
    return np.floor(instants_s / _DAY_S).astype(np.int64)


def decide(challenger: Trial, champion: Trial, days: Days, margins: Margins | None = None) -> Verdict:
    """Whether the challenger replaces the champion.

    It does if its mean loss is lower, the one-sided bound of the difference says that it is not worse by
    more than the margin, and its misses are not more by more than theirs.

    Args:
        challenger: the new model.
        champion: the old one; a baseline where there is none yet.
        days: of each forecast (`day_of`), shape (rows,).
        margins: see `Margins`.

    Raises:
        ValueError: if the trials do not have the same rows, or a loss is not finite.
    """
    margins = margins or Margins()
    _check(challenger, champion, days)
    num_rows, num_days = len(days), len(np.unique(days))
    if num_rows < margins.least_rows or num_days < margins.least_days:
        why = (
            f"{champion.name} stays: {num_rows} forecasts on {num_days} days are too few to conclude "
            f"anything, {margins.least_rows} on {margins.least_days} are needed"
        )
        return Verdict(
            False,
            why,
            *_means(challenger, champion),
            math.inf,
            *_misses(challenger, champion),
            num_days,
            num_rows,
        )
    bound = upper_bound(challenger.losses - champion.losses, days, margins.confidence)
    loss, champion_loss = _means(challenger, champion)
    worst = bound / champion_loss if champion_loss > 0 else (0.0 if bound <= 0 else math.inf)
    miss, champion_miss = _misses(challenger, champion)
    figures = (
        f"loss {loss:.4g} against {champion_loss:.4g}, at worst {100 * worst:+.1f} % at "
        f"{100 * margins.confidence:g} % confidence; missed {100 * miss:.1f} % against "
        f"{100 * champion_miss:.1f} %; {num_rows} forecasts on {num_days} days"
    )
    if not loss < champion_loss:
        is_promoted, why = False, f"{champion.name} stays: {challenger.name} is no better ({figures})"
    elif worst > margins.loss_share:
        is_promoted = False
        why = (
            f"{champion.name} stays: {challenger.name} is better on average, but not surely enough to rule "
            f"out {100 * margins.loss_share:g} % worse ({figures})"
        )
    elif miss > champion_miss + margins.miss_share:
        is_promoted = False
        why = f"{champion.name} stays: the tails of {challenger.name} are too short ({figures})"
    else:
        is_promoted, why = True, f"{challenger.name} replaces {champion.name} ({figures})"
    return Verdict(is_promoted, why, loss, champion_loss, worst, miss, champion_miss, num_days, num_rows)


def upper_bound(differences: Floats, days: Days, confidence: float) -> float:
    """One-sided upper bound of the mean difference, its days being clusters.

    Args:
        differences: of the losses, shape (rows,).
        days: shape (rows,), at least two different ones.
        confidence: of the bound.

    Raises:
        ValueError: if there are fewer than two days.
    """
    _, cluster = np.unique(days, return_inverse=True)
    number = int(cluster.max()) + 1 if len(cluster) else 0
    if number < 2:
        raise ValueError("a bound needs at least two days")
    mean = float(differences.mean())
    strayed = np.bincount(cluster, differences - mean, number)
    spread = math.sqrt(number / (number - 1) * float((strayed**2).sum())) / len(differences)
    return mean + float(stats.t.ppf(confidence, number - 1)) * spread


def _check(challenger: Trial, champion: Trial, days: Days) -> None:
    shapes = {one.shape for trial in (challenger, champion) for one in (trial.losses, trial.is_missed)}
    if shapes != {days.shape} or days.ndim != 1:
        raise ValueError("both models must have forecast the same rows, with a day each")
    for trial in (challenger, champion):
        if not np.isfinite(trial.losses).all():
            raise ValueError(f"a loss of {trial.name} is not finite")


def _means(challenger: Trial, champion: Trial) -> tuple[float, float]:
    return _mean(challenger.losses), _mean(champion.losses)


def _misses(challenger: Trial, champion: Trial) -> tuple[float, float]:
    return _mean(challenger.is_missed), _mean(champion.is_missed)


def _mean(values: Floats | Bools) -> float:
    return float(values.mean()) if len(values) else math.nan
