"""What kinds of runs there are: how each is prepared, who works on it, and what becomes of the answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Engine

from app.clock import Clock
from app.store.tables import Json


class RunKind(StrEnum):
    """What a run does."""

    REPLAN = "replan"
    IMPORT = "import"
    WHAT_IF = "what_if"
    TRAIN = "train"
    BACKTEST = "backtest"
    OBSERVE = "observe"


class Queue(StrEnum):
    """Where runs wait. Those of one kind and cluster are carried out one at a time (`Kind.is_alone`)."""

    REPLANS = "replans"
    WHAT_IFS = "what-ifs"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One run as its steps see it.

    Attributes:
        engine: the database.
        clock: ours.
        run_id: the run's id.
        cluster: whose run it is.
        arguments: what it was asked for with.
    """

    engine: Engine
    clock: Clock
    run_id: str
    cluster: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run.

    Attributes:
        child: name of the module in `app.children`.
        load: makes the child's request. Small: it is kept with the workflow, so what is large the child
            reads from the database itself.
        publish: takes in the child's answer and makes the run's result. Once or twice makes no difference:
            it is called again if the worker dies before that is noted.
        limit_s: the child is killed after so many seconds.
        queue: where such runs wait.
        module: full name of the child's module, where it is not in `app.children`.
        keep: takes in an answer that the child handed out before a cancelled run was stopped, and makes the
            run's result of it; None where it came to nothing. Called instead of `publish`, or after it. A
            kind without it keeps nothing of such a run.
        is_alone: whether of one cluster only one such run is carried out at a time, across all workers.
        warm_module: full name of a module of children that stay (`app.services.warm`); they are asked instead
            where the request names an entry of the log to answer for (`decided_seq`).
    """

    child: str
    load: Callable[[Assignment], Json]
    publish: Callable[[Assignment, Json, Json], Json]
    limit_s: float
    queue: Queue = Queue.OTHERS
    is_alone: bool = True
    module: str | None = None
    keep: Callable[[Assignment, Json, Json], Json | None] | None = None
    warm_module: str | None = None
