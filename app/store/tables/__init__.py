"""The tables. `..._s` columns are seconds since the cluster's clock origin; `..._at` are instants in UTC."""

from app.store.tables.base import NAMING, Json
from app.store.tables.clusters import ClusterRow, EnforcedBy, EpochRow, NodeRow, PoolRow
from app.store.tables.executors import DesiredRow, ExecutorEventRow, ExecutorRow, JoinTokenRow, PlacementRow
from app.store.tables.history import HistoryChunkRow, HistoryImportRow, HistoryJobRow, ImportStatus
from app.store.tables.keys import ApiKeyRow
from app.store.tables.live import DecisionRow, JobRow, LiveState, LogRow
from app.store.tables.plans import PlanRow, PlanStatus
from app.store.tables.runs import RunRow, RunStatus, WorkerRow
from app.store.tables.what_ifs import SweepRow, WhatIfFigureRow, WhatIfRow

__all__ = [
    "NAMING",
    "ApiKeyRow",
    "ClusterRow",
    "DecisionRow",
    "DesiredRow",
    "EnforcedBy",
    "EpochRow",
    "ExecutorEventRow",
    "ExecutorRow",
    "HistoryChunkRow",
    "HistoryImportRow",
    "HistoryJobRow",
    "ImportStatus",
    "JobRow",
    "JoinTokenRow",
    "Json",
    "LiveState",
    "LogRow",
    "NodeRow",
    "PlacementRow",
    "PlanRow",
    "PlanStatus",
    "PoolRow",
    "RunRow",
    "RunStatus",
    "SweepRow",
    "WhatIfFigureRow",
    "WhatIfRow",
    "WorkerRow",
]
