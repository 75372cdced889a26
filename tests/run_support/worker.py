"""A worker process whose runs are carried out by the child of this folder."""

import json
import os
import signal
import sys
from pathlib import Path

from app.runs.client import RunClient
from app.runs.kinds import Kind, Queue
from app.runs.settings import WorkerSettings
from app.runs.worker import Worker


def load(assignment):
    if assignment.arguments.get("do") == "fail to load":
        raise ZeroDivisionError("no such luck")
    unasked = json.loads(os.environ.get("ANTECAST_TEST_REQUEST", "{}"))
    return {"cluster": assignment.cluster, **unasked, **assignment.arguments}


def publish(assignment, request, answer):
    if request.get("then") == "cancel":
        RunClient(WorkerSettings(), engine=assignment.engine).cancel(assignment.run_id)
    if "folder" in request:
        with (Path(request["folder"]) / "published").open("a") as file:
            file.write(assignment.run_id + "\n")
    return {"cluster": answer["echo"]["cluster"]}


def kinds():
    common = {"child": "test", "load": load, "publish": publish, "module": "run_support.child"}
    return {
        "replan": Kind(**common, limit_s=60, queue=Queue.REPLANS),
        "what_if": Kind(**common, limit_s=60),
        "backtest": Kind(**common, limit_s=60, keep=publish),
        "import": Kind(**common, limit_s=2),
    }


if __name__ == "__main__":
    worker = Worker(WorkerSettings(), kinds())
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    sys.exit(0 if worker.run() else 1)
