"""Child: a cluster's forecasters trained for an epoch, tried on the days before it, and kept."""

import math
import os
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from app.children import main, tell_progress
from app.children.state import LiveDesk
from app.children.what_if import jobs_of
from app.services.demand_learner import STORED_DEMAND, DemandLearner
from app.services.kept_models import folder_of, is_kept
from app.services.learners import LIFETIME_STORES, Learner, LifetimeLearner
from app.store.engine import make_engine
from domain.errors import SettingError
from models.backtest import Record, facts, record_of, tell
from simulator.report import finite

_DAY_S: Final = 86_400.0
_MOST_ASKED: Final = 5_000
"""Forecasts that a score rests on at most; evenly spaced where there are more."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Train the forecasters of an epoch.

    Args:
        request: what `app.services.trainings.load` returned.

    Returns:
        epoch; models: which; jobs_learned_from, jobs_unended; as_of_s; is_kept: whether processes that decide
        find them in the folder of models; scores: of each kind of model, and of the baseline that is as
        simple as can be, on the held-out days, for which both were trained as of where these begin;
        `why_no_scores` where there are none.

    Raises:
        SettingError: if the cluster's policy uses no forecasts.
    """
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        desk = LiveDesk(engine, request["cluster"], request["epoch"])
        trained = desk.trained
        tell_progress(1, 3)
        if trained.choice.lives is None and trained.choice.arrivals is None:
            raise SettingError(
                f"policy {desk.epoch.policy} uses no forecasts: there is nothing to train; what would have "
                "been under another one, a backtest says"
            )
        frame = jobs_of(engine, request["cluster"])
        said = {
            "epoch": desk.epoch.number,
            "models": trained.choice.as_settings(),
            "as_of_s": trained.training.now_s,
            "jobs_learned_from": len(trained.training.past),
            "jobs_unended": len(trained.training.censored),
            "is_kept": is_kept(folder_of(os.environ), trained.key),
            "holdout_days": request["holdout_days"],
            **_tried(desk, frame, request["holdout_days"]),
        }
        plain: dict[str, Any] = finite(said)
        return plain
    finally:
        engine.dispose()


def _tried(desk: LiveDesk, frame: pd.DataFrame, holdout_days: float) -> dict[str, Any]:
    """Scores on the last days before the epoch's instant."""
    until_s = desk.trained.training.now_s
    from_s = until_s - holdout_days * _DAY_S
    record = record_of(frame[frame["submit_s"] < until_s], until_s)
    submit_s = record.submit_s()
    if not len(record) or submit_s[0] >= from_s:
        return {"scores": {}, "why_no_scores": "no job was submitted before the held-out days begin"}
    if submit_s[-1] < from_s:
        return {"scores": {}, "why_no_scores": "no job was submitted within the held-out days"}
    scores: dict[str, Any] = {}
    for done, learner in enumerate(_learners(desk)):
        scores[learner.kind] = {
            "model": learner.name,
            "scores": _score(learner, learner.make(submit_s[0]), record, (from_s, until_s), is_trained=True),
            "baseline": _score(
                learner, learner.make_baseline(submit_s[0]), record, (from_s, until_s), is_trained=False
            ),
        }
        tell_progress(done + 2, 3)
    return {"scores": scores}


def _learners(desk: LiveDesk) -> list[Learner]:
    choice, seed = desk.trained.choice, desk.trained.training.seed
    found: list[Learner] = []
    if choice.lives in LIFETIME_STORES:
        found.append(LifetimeLearner(str(choice.lives), desk.quotas, seed))
    if choice.arrivals in STORED_DEMAND:
        found.append(DemandLearner(str(choice.arrivals), desk.quotas, seed))
    return found


def _score(
    learner: Learner, model: Any, record: Record, span: tuple[float, float], *, is_trained: bool
) -> Mapping[str, float]:
    """What a model that knows what happened before a span is worth within it."""
    for fact in facts(record, -math.inf, span[0]):
        tell(model, record, fact)
    if is_trained:
        learner.store.retrain(model, span[0])
    return learner.run(model, record, span, most_asked=_MOST_ASKED).scores


if __name__ == "__main__":
    main(answer)
