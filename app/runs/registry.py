"""The kinds of runs that workers carry out."""

from collections.abc import Mapping

from app.runs.client import RunClient
from app.runs.kinds import Assignment, Kind, Queue, RunKind
from app.runs.settings import WorkerSettings
from app.services import deciding, import_history, planning, replan, what_if
from app.store.engine import transaction
from app.store.tables import Json


def kinds(settings: WorkerSettings) -> Mapping[str, Kind]:
    """All kinds, with their limits."""
    runs = RunClient(settings)

    def publish_plan(assignment: Assignment, request: Json, answer: Json) -> Json:
        result = planning.publish(
            assignment.engine,
            assignment.cluster,
            request,
            answer,
            assignment.run_id,
            assignment.clock,
        )
        if result.get("is_stale"):
            with transaction(assignment.engine) as session:
                result["made_again_by"] = replan.request(session, runs, assignment.cluster).run_id
        return result

    return {
        RunKind.REPLAN.value: Kind(
            child="plan",
            load=lambda it: planning.load(it.engine, it.cluster, it.clock),
            publish=publish_plan,
            limit_s=settings.plan_limit_s,
            queue=Queue.REPLANS,
            warm_module=deciding.MODULE,
        ),
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
