"""Why jobs are said to arrive, or not: reasons that sum to the log-odds of WillJobsArrive."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from models.explain.words import OTHER

_COLUMNS: Final = tuple(
    (re.compile(pattern), group)
    for pattern, group in (
        (r"^cadence", "cadence"),
        (r"anywhere|_soon$", "elsewhere"),
        (r"ago$|_ago_|on_other_days|^days_|^slots_|^hour|^weekday|^periodic", "habits"),
        (r"arrival", "arrivals"),
        (r"end|finish|completion", "ends"),
        (r"running", "running"),
        (r"quota|load|level|^anchor|peak", "load"),
    )
)

GROUP_WORDS: Final = {
    "arrivals": "when jobs came to this pool lately",
    "ends": "jobs of this pool that ended lately or are expected to",
    "habits": "when jobs come to this pool at this hour and on other days",
    "cadence": "jobs of this pool that come at regular intervals",
    "running": "how much of this pool runs",
    "load": "what this pool asked for lately, and its quota",
    "elsewhere": "what came to the other pools, and jobs expected to submit the next",
    OTHER: "everything else",
}
"""What each group of columns is, in words."""


@dataclass(frozen=True, slots=True)
class ArrivalReason:
    """One reason of an answer.

    Attributes:
        words: what was looked at, and what it does.
        group: of columns.
        contribution: to the log-odds.
        column: of the group the one that adds most.
        value: of that column; None where unknown.
    """

    words: str
    group: str
    contribution: float
    column: str
    value: float | None


@dataclass(frozen=True, slots=True)
class ArrivalExplanation:
    """Why jobs are said to arrive in a pool within a window.

    base + the sum of all contributions = prediction.

    Attributes:
        will_arrive: the answer: prediction >= threshold.
        prediction: log-odds that the trees say.
        threshold: log-odds from which on the answer is yes.
        base: log-odds that they expect of any pool at any instant.
        chance: that jobs arrive, by the trees.
        reasons: the largest contribution first.
    """

    will_arrive: bool
    prediction: float
    threshold: float
    base: float
    chance: float
    reasons: tuple[ArrivalReason, ...]

    def to_dict(self) -> dict[str, object]:
        """Everything by name, nested, as what JSON can hold."""
        return asdict(self)


def arrival_group(column: str) -> str:
    """Group that a column of the demand features belongs to."""
    return next((group for pattern, group in _COLUMNS if pattern.search(column)), OTHER)


def explain_arrival(
    booster: Any, features: ArrayLike, names: Sequence[str], threshold: float
) -> ArrivalExplanation:
    """Explain one answer of WillJobsArrive.

    The trees' score is a sum of contributions of columns (Lundberg et al., Nature Machine Intelligence 2:1,
    2020; LightGBM's `pred_contrib`), which are added up by group.

    Args:
        booster: of LightGBM, binary.
        features: one row, shape (columns,).
        names: of the columns.
        threshold: log-odds from which on the answer is yes.

    Raises:
        ValueError: if there are not as many names as columns.
    """
    row = np.asarray(features, np.float64).reshape(1, -1)
    if row.shape[1] != len(names):
        raise ValueError(f"there are {len(names)} names for {row.shape[1]} columns")
    given = np.asarray(booster.predict(row, pred_contrib=True, num_threads=1), np.float64)[0]
    members: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        members.setdefault(arrival_group(name), []).append(place)
    reasons = [_reason(group, places, given, row[0], names) for group, places in members.items()]
    prediction, base = float(given.sum()), float(given[-1])
    kept = [reason for reason in reasons if reason.contribution != 0.0]
    return ArrivalExplanation(
        prediction >= threshold,
        prediction,
        threshold,
        base,
        1.0 / (1.0 + math.exp(-prediction)),
        tuple(sorted(kept, key=lambda reason: (-abs(reason.contribution), reason.group))),
    )


def _reason(
    group: str, places: Sequence[int], given: np.ndarray, row: np.ndarray, names: Sequence[str]
) -> ArrivalReason:
    contribution = math.fsum(given[place] for place in places)
    strongest = max(places, key=lambda place: (abs(given[place]), -place))
    value = float(row[strongest])
    effect = "likelier" if contribution > 0 else "less likely"
    words = f"{GROUP_WORDS[group]}: {effect}, {contribution:+.2f} in log-odds"
    return ArrivalReason(
        words, group, contribution, names[strongest], value if math.isfinite(value) else None
    )
