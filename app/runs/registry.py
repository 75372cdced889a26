"""The kinds of runs that workers carry out."""

from collections.abc import Mapping

from app.runs.client import RunClient
from app.runs.kinds import Assignment, Kind, Queue, RunKind
from app.runs.settings import WorkerSettings
from app.services import (
    backtests,
    deciding,
    import_history,
    observations,
    planning,
    replan,
    trainings,
    what_if,
)
from app.store.engine import transaction
from app.store.tables import Json


def kinds(settings: WorkerSettings) -> Mapping[str, Kind]:
    """All kinds, with their limits."""
    runs = RunClient(settings)
    return {
        RunKind.REPLAN.value: _replan(settings, runs),
        RunKind.WHAT_IF.value: Kind(
            child="what_if",
            load=lambda it: what_if.load(it.engine, it.cluster, it.arguments),
            publish=lambda it, _request, answer: what_if.publish(
                it.engine, it.clock, it.run_id, it.arguments, answer
            ),
            limit_s=settings.what_if_limit_s,
            queue=Queue.WHAT_IFS,
            is_alone=False,
        ),
        RunKind.TRAIN.value: Kind(
            child="train",
            load=lambda it: trainings.load(it.engine, it.cluster, it.arguments, it.run_id, it.clock),
            publish=lambda it, request, answer: trainings.publish(
                it.engine, runs, it.cluster, request, answer
            ),
            limit_s=settings.train_limit_s,
        ),
        RunKind.BACKTEST.value: Kind(
            child="backtest",
            load=lambda it: backtests.load(it.engine, it.cluster, it.arguments),
            publish=lambda _it, _request, answer: answer,
            keep=lambda _it, _request, answer: answer,
            limit_s=settings.backtest_limit_s,
        ),
        RunKind.OBSERVE.value: Kind(
            child="observation",
            load=lambda it: observations.load(it.engine, it.cluster, it.arguments, it.clock),
            publish=lambda it, request, answer: observations.publish(
                it.engine, it.cluster, request, answer, it.run_id, it.clock
            ),
            limit_s=settings.what_if_limit_s,
        ),
        RunKind.IMPORT.value: Kind(
            child="import_history",
            load=lambda it: import_history.load(it.cluster, dict(it.arguments)),
            publish=lambda it, _request, answer: {
                "import_id": it.arguments["import_id"],
                **{name: value for name, value in answer.items() if name != "faults"},
            },
            limit_s=settings.import_limit_s,
        ),
    }


def _replan(settings: WorkerSettings, runs: RunClient) -> Kind:
    def publish(it: Assignment, request: Json, answer: Json) -> Json:
        result = planning.publish(it.engine, it.cluster, request, answer, it.run_id, it.clock)
        if result.get("is_stale"):
            with transaction(it.engine) as session:
                result["made_again_by"] = replan.request(session, runs, it.cluster).run_id
        return result

    def keep(it: Assignment, request: Json, answer: Json) -> Json | None:
        result = planning.publish(it.engine, it.cluster, request, answer, it.run_id, it.clock)
        return result if "plan_id" in result else None

    return Kind(
        child="plan",
        load=lambda it: planning.load(it.engine, it.cluster, it.clock),
        publish=publish,
        keep=keep,
        limit_s=settings.plan_limit_s,
        queue=Queue.REPLANS,
        warm_module=deciding.MODULE,
    )
