"""Demand of the pools as parts that can be stored, and put together again so that nobody can tell."""
# ruff: noqa: SLF001 - the one place outside a model that knows its insides

from dataclasses import fields
from typing import Final

from domain.forecasts import Burst
from domain.jobs import Job
from models.artifacts.parts import Parts
from models.artifacts.store import Store
from models.artifacts.walk import Walk
from models.calibration.adaptive import AdaptiveLevels, _Issued
from models.demand.arrivals import ArrivalForecaster
from models.demand.bins import BinModel
from models.demand.cadence import Cadence, Due
from models.demand.calibrated import CalibratedBins
from models.demand.facts import DemandFacts, KeptRow, LearningRows, _Lives
from models.demand.features import FEATURE_NAMES, PoolFacts, _RecentLoads
from models.demand.pools import PoolDemand
from models.demand.quantiles import WindowForecaster
from models.demand.spans import GapTables, RunningJobs, SpanTables
from models.scenarios.corrected import CorrectedStretches, _Watched
from models.scenarios.nearest import NearestStretches, _Cell
from models.scenarios.stretches import PastStretches, PoolLog

_STRETCHES: Final = (
    "_edges _logs _places _seed _num_scenarios _begin_s _next_s _instants _known _tables _first "
    "_drawn _bursts _unknown"
)
_NEAREST: Final = f"{_STRETCHES} _states _cells _ranked"

WALK: Final = Walk(
    {
        PoolDemand: "pools windows_s quotas _has_quantiles _seed _retrain_every_s _num_scenarios "
        "_make_stretches _count_quiet _now_s _facts _learned_s _stretches _has_ended _rows _keeps_rows "
        "_arrivals _forecasters _standing",
        DemandFacts: "pools _place _quotas _windows_s _lives _gaps _running _anywhere _expected",
        PoolFacts: "quota _since_s _arrivals _gpus _ends _cadence _loads _slots _level",
        Cadence: "_instants _periods _due",
        Due: "",
        _RecentLoads: "_busy _window_s",
        _Lives: "gpus life_s open most_s",
        GapTables: "_tables _last_s _gap_class _curves",
        RunningJobs: "_tables _places _free _curves _numbers _untold",
        SpanTables: "_tables",
        LearningRows: "_every_s _open _kept",
        KeptRow: "",
        ArrivalForecaster: "_window_s _recall _seed _booster _threshold settled_s",
        WindowForecaster: "_quotas _edges _of",
        CalibratedBins: "_num_units _window_s _every_s _seed _model _adaptive settled_s _issued_s",
        BinModel: "_booster",
        AdaptiveLevels: "levels steps _start _read _issued",
        _Issued: "",
        PastStretches: _STRETCHES,
        NearestStretches: _NEAREST,
        _Cell: "",
        CorrectedStretches: f"{_NEAREST} _watched_s _tilts _rates _open",
        _Watched: " ".join(field.name for field in fields(_Watched)),
        Burst: "",
        PoolLog: "submit_s gpus uniform start_s ended_s duration_s stops slower",
        Job: " ".join(field.name for field in fields(Job)),
    }
)
"""What the classes remember. Whoever gives one another attribute says so here."""


def to_parts(model: PoolDemand) -> Parts:
    """Take a model apart."""
    return WALK.to_parts(model)


def from_parts(parts: Parts) -> PoolDemand:
    """Put a model together.

    Raises:
        ArtifactError: if a part is not what it must be.
    """
    model: PoolDemand = WALK.from_parts(parts, PoolDemand)
    return model


def retrain(model: PoolDemand, now_s: float) -> None:
    """Train a model anew at an instant, on what it has been told by then."""
    model._pass_time(now_s)
    model._learn(now_s)


STORE: Final = Store(to_parts, from_parts, retrain, FEATURE_NAMES)
