"""Why a forecast of a life says what it says."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from models.calibration.life_monitor import LifeMonitor, LifeRecord
from models.explain.attribution import ChanceLonger, Target, TypicalLife, attribute
from models.explain.hazard_parts import LifeParts, parts_of
from models.explain.similar import PastJobs, SimilarJob
from models.explain.words import CALIBRATION, duration_words, effect_words, reason_words
from models.lifetime.hazard import HazardLifetimes

LEAST_SAID: Final = 0.1
"""Contribution, in doublings, from which on a reason is named in the sentence."""

LEAST_ENDED: Final = 20
"""Ended jobs of a group from which on the sentence says how its forecasts have done."""

_LEAST_KEPT: Final = 1e-9
_MOST_SAID: Final = 3


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of a forecast.

    Attributes:
        words: what was known and what it does, a clause.
        group: of features.
        contribution: to the prediction, in its unit.
    """

    words: str
    group: str
    contribution: float

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LifeExplanation:
    """Why a forecast of a life says what it says.

    base + the sum of all contributions = prediction, up to 1e-6.

    Attributes:
        job_id: whose life.
        asked: what is predicted, in words.
        unit: of prediction, base and contributions.
        prediction: log2 of the typical life in seconds, or log2 of a chance.
        base: the same of any job, of which nothing is known.
        predicted: 2^prediction: seconds, or a chance.
        usual: 2^base.
        median_s: forecast median life.
        low_s: its 0.1 quantile.
        high_s: its 0.9 quantile.
        reasons: the largest contribution first.
        similar: past jobs like it, the nearest first.
        records: how forecasts of its pool and its user have done.
        sentence: all of it in a few words.
    """

    job_id: str
    asked: str
    unit: str
    prediction: float
    base: float
    predicted: float
    usual: float
    median_s: float
    low_s: float
    high_s: float
    reasons: tuple[Reason, ...]
    similar: tuple[SimilarJob, ...]
    records: tuple[LifeRecord, ...]
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """Everything by name, nested, as what JSON can hold."""
        return asdict(self)


def explain_life(
    model: LifetimeForecaster,
    job: Job,
    now_s: float,
    *,
    past: PastJobs | None = None,
    longer_than_s: float | None = None,
    most_similar: int = 5,
) -> LifeExplanation:
    """Explain the forecast that `model` has made of a job that has not ended.

    Explained is the typical life (log2 of its geometric mean: smooth in the curve, in doublings, and the
    same for all jobs) or, with `longer_than_s`, log2 of the chance to outlast that. Reasons are known of
    hazard models; of others the forecast is its own base. What a wrapper adds to the model inside is a
    reason of its own.

    Args:
        model: the forecaster; a `LifeMonitor` around it adds how its forecasts have done.
        job: submitted and not ended.
        now_s: the instant; nothing later is shown.
        past: ended jobs to look for similar ones in.
        longer_than_s: a life within the grid; None: explain the typical life.
        most_similar: similar jobs, at most.

    Raises:
        ValueError: if `longer_than_s` lies outside the grid.
    """
    target: Target = TypicalLife() if longer_than_s is None else ChanceLonger(longer_than_s)
    said = target.value(np.asarray(model.survival(job), np.float64))
    base, reasons = _reasons(model, job, target, said, is_life=longer_than_s is None)
    low_s, median_s, high_s = (model.quantile_s(job, level) for level in (0.1, 0.5, 0.9))
    records = model.records(job, now_s) if isinstance(model, LifeMonitor) else []
    similar = [] if past is None else past.similar(job, now_s, most=most_similar)
    if longer_than_s is None:
        asked, unit = "typical life", "doublings of the life"
    else:
        asked, unit = f"chance to run longer than {duration_words(longer_than_s)}", "doublings of the chance"
    return LifeExplanation(
        job.job_id, asked, unit, said, base, 2.0**said, 2.0**base, median_s, low_s, high_s,
        tuple(reasons), tuple(similar), tuple(records),
        _sentence(job, (low_s, median_s, high_s), reasons, similar, records),
    )  # fmt: skip


def _reasons(
    model: LifetimeForecaster, job: Job, target: Target, said: float, *, is_life: bool
) -> tuple[float, list[Reason]]:
    """The base and the reasons, the largest first."""
    inner = model.inner if isinstance(model, LifeMonitor) else model
    if not isinstance(inner, HazardLifetimes):
        return said, []
    parts: LifeParts = parts_of(inner, job)
    base, given = attribute(parts.components, target)
    found = dict(zip(parts.groups, given.tolist(), strict=True))
    rest = said - base - sum(found.values())
    if abs(rest) > 1e-6:
        found[CALIBRATION] = rest
    reasons = [
        Reason(f"{reason_words(group, job, parts.facts)}: {effect_words(much, is_life=is_life)}", group, much)
        for group, much in found.items()
        if abs(much) > _LEAST_KEPT
    ]
    return base, sorted(reasons, key=lambda reason: (-abs(reason.contribution), reason.group))


def _sentence(
    job: Job,
    quantiles_s: tuple[float, float, float],
    reasons: Sequence[Reason],
    similar: Sequence[SimilarJob],
    records: Sequence[LifeRecord],
) -> str:
    low, median, high = map(duration_words, quantiles_s)
    words = [f"Job {job.job_id} will run about {median}, with 80 % confidence {low} to {high}."]
    main = [reason.words for reason in reasons[:_MOST_SAID] if abs(reason.contribution) >= LEAST_SAID]
    if main:
        words.append(f"Mainly because {'; '.join(main)}.")
    elif reasons:
        words.append("Nothing known of it sets it apart from other jobs.")
    if similar:
        nearest = similar[0]
        words.append(f"The nearest past job ({nearest.why}) ran {duration_words(nearest.duration_s)}.")
    known = [record for record in records if record.number_ended >= LEAST_ENDED]
    if known:
        one = known[-1]
        words.append(
            f"Of the last {one.number} lives of {one.group}, {one.within_80:.0%} lay within their 80 %"
            f" interval and {one.longer_than_90:.0%} outlasted the time that 10 % should."
        )
    return " ".join(words)
