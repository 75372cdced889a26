"""Child of a backtest: the recent past replayed under several policies, with the figures of a comparison."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

import pandas as pd

from app.children import main, tell_incumbent, tell_progress
from app.children.fitting import without_impossible
from app.children.what_if import jobs_of
from app.services.compare import Choice, flat, run_each
from app.store.engine import make_engine
from data.history import History, content_hash
from domain.errors import SettingError
from simulator.report import finite
from simulator.what_if.answer import with_requeueable
from simulator.workload import make_workload
from solver.policies import POLICIES

_DAY_S: Final = 86_400.0
_RECORD_DECIDES: Final = "0.5"
"""As in live clusters: a job is requeueable if its record or its pool says so."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Replay the past under each policy.

    Args:
        request: what `app.services.backtests.load` returned.

    Returns:
        rows: of each policy, in the order asked for, the figures of `antecast compare`; window; excluded:
        jobs wider than their pool's quota, left out and counted; and what the answer rests on (`inputs`).

    Raises:
        SettingError: if there are no jobs to replay.
    """
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        frame = with_requeueable(jobs_of(engine, request["cluster"]), request["requeueable_pools"])
    finally:
        engine.dispose()
    return backtest(frame, request)


def backtest(frame: pd.DataFrame, request: Mapping[str, Any]) -> dict[str, Any]:
    """Replay the end of a history; after each policy what is known so far is handed out."""
    if frame.empty:
        raise SettingError("the cluster has no past jobs: import its history first")
    newest_s = float(frame["submit_s"].max())
    from_s = newest_s - request["days"] * _DAY_S
    quotas = {str(pool): int(quota) for pool, quota in request["quotas"]}
    kept, excluded = without_impossible(frame, from_s, [quotas])
    if not (kept["submit_s"] >= from_s).any():
        raise SettingError(f"no job of the last {request['days']:g} days can be replayed: ask for more days")
    workload = make_workload(
        History(kept, (), (), "history"), quotas, train_until_s=from_s, eval_from_s=from_s
    )
    choices = [Choice(one["policy"], _settings(one), one["label"]) for one in request["policies"]]
    said: dict[str, Any] = {
        "rows": [],
        "window": {"from_s": from_s, "to_s": newest_s, "jobs": len(workload.jobs)},
        "jobs_learned_from": len(workload.past),
        "excluded": excluded,
        "inputs": {"jobs_sha256": content_hash(kept), "question_sha256": request["question_sha256"]},
    }
    part = _Parts(len(choices) + 1)
    rows = run_each(
        workload, choices, may_see_truth=False, seed=request["seed"], progress_for=part.progress_for
    )
    for num_done, row in enumerate(rows, start=1):
        said["rows"].append(finite(flat(row)))
        tell_incumbent(said, {"policies": num_done, "of": len(choices)})
    return said


class _Parts:
    """How far it is, over several replays of about the same length."""

    def __init__(self, num_parts: int) -> None:
        self._num_parts = num_parts
        self._begun = -1

    def progress_for(self, label: str) -> Callable[[int, int], None]:
        del label
        self._begun += 1
        part = self._begun

        def tell(done: int, total: int) -> None:
            tell_progress(part * total + done, self._num_parts * total)

        return tell


def _settings(one: Mapping[str, Any]) -> dict[str, str]:
    given = dict(one["settings"])
    if any(each.name == "requeueable" for each in fields(POLICIES[one["policy"]].settings)):
        return {"requeueable": _RECORD_DECIDES, **given}
    return given


if __name__ == "__main__":
    main(answer)
