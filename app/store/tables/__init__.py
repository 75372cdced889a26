"""The tables. `..._s` columns are seconds since the cluster's clock origin; `..._at` are instants in UTC."""

from app.store.tables.base import NAMING, Json
from app.store.tables.clusters import Approval, ClusterRow, EnforcedBy, EpochRow, Mode, NodeRow, PoolRow
from app.store.tables.executors import DesiredRow, ExecutorEventRow, ExecutorRow, JoinTokenRow, PlacementRow
from app.store.tables.history import HistoryChunkRow, HistoryImportRow, HistoryJobRow, ImportStatus
from app.store.tables.keys import ApiKeyRow
from app.store.tables.live import DecisionRow, JobRow, LiveState, LogRow
from app.store.tables.modes import ActionKind, ActionRow, ActionStatus, ObservationRow
from app.store.tables.plans import PlanRow, PlanStatus
from app.store.tables.run_events import RunEventKind, RunEventRow
from app.store.tables.runs import RunRow, RunStatus, WorkerRow
from app.store.tables.webhooks import DeliveryStatus, WebhookDeliveryRow, WebhookRow
from app.store.tables.what_ifs import SweepRow, WhatIfFigureRow, WhatIfRow

__all__ = [
    "NAMING",
    "ActionKind",
    "ActionRow",
    "ActionStatus",
    "ApiKeyRow",
    "Approval",
    "ClusterRow",
    "DecisionRow",
    "DeliveryStatus",
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
    "Mode",
    "NodeRow",
    "ObservationRow",
    "PlacementRow",
    "PlanRow",
    "PlanStatus",
    "PoolRow",
    "RunEventKind",
    "RunEventRow",
    "RunRow",
    "RunStatus",
    "SweepRow",
    "WebhookDeliveryRow",
    "WebhookRow",
    "WhatIfFigureRow",
    "WhatIfRow",
    "WorkerRow",
]
