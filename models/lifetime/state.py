"""Hazard lifetimes as parts that can be stored, and put together again so that nobody can tell."""
# ruff: noqa: SLF001 - the one place outside a model that knows its insides

from dataclasses import fields
from typing import Final

from domain.jobs import Job
from domain.work import WorkDone
from models.artifacts.parts import Parts
from models.artifacts.store import Store
from models.artifacts.walk import Walk
from models.lifetime.boosted import Columns, HazardModel
from models.lifetime.features import PLAIN, RELATIVE, FeatureHistory, JobFeatures, OpenJob
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.keys import JobKeys
from models.lifetime.limit_use import LimitUse
from models.lifetime.names import SimilarNames
from models.lifetime.queue import QueueState
from models.lifetime.recalibration import Recalibration
from models.lifetime.recent import KeyLives, RecentLives
from models.lifetime.sampling import Life, LifeSample
from models.lifetime.siblings import Family, Siblings
from models.lifetime.tables import DecayingTables

WALK: Final = Walk(
    {
        HazardLifetimes: "_seed _retrain_every_s _window_s _half_life_s _history _sample _model "
        "_recalibration _raw _judged _forecasts _now_s _retrain_at_s _lives_from_s",
        HazardModel: "stack trust columns booster",
        Columns: "logits relative plain",
        Recalibration: "ended alive balance since_refresh",
        LifeSample: "_most lives share first_seen_s",
        Life: "job features age_s has_ended last_seen_s",
        FeatureHistory: "open_jobs tables lives names queue siblings use running crossings",
        OpenJob: "job features keys kin family run reached_s stopped_s next_bin attempt",
        JobFeatures: "logits exposures relative plain atoms",
        JobKeys: "lives chains tables use pool_width",
        DecayingTables: "_most _places _tables",
        RecentLives: "_most by_key",
        KeyLives: "lives last_end_s last_submit_s _summary",
        LimitUse: "by_user mean reached",
        SimilarNames: "_groups _similar",
        QueueState: "counts last_submit_s submits",
        Siblings: "families",
        Family: "submitted running ended sum_start_s lost_rate lost_from_s sum_ln_life last_ln_life "
        "last_submit_s number",
        WorkDone: "work_s rate since_s",
        Job: " ".join(field.name for field in fields(Job)),
    }
)
"""What the classes remember. Whoever gives one another attribute says so here."""


def to_parts(model: HazardLifetimes) -> Parts:
    """Take a model apart."""
    return WALK.to_parts(model)


def from_parts(parts: Parts) -> HazardLifetimes:
    """Put a model together.

    Raises:
        ArtifactError: if a part is not what it must be.
    """
    model: HazardLifetimes = WALK.from_parts(parts, HazardLifetimes)
    return model


def retrain(model: HazardLifetimes, now_s: float) -> None:
    """Train a model anew at an instant, on what it has been told by then."""
    model._now_s = max(model._now_s, now_s)
    model._train()


STORE: Final = Store(to_parts, from_parts, retrain, (*RELATIVE, *PLAIN))
