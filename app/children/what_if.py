"""The child that answers a what-if: the recent past replayed in two worlds, the same jobs in both."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import pandas as pd
from sqlalchemy import Engine

from app.children import main, tell_progress
from app.store import history, live
from app.store.engine import make_engine, reading
from app.store.tables import JobRow, LiveState
from data.history import History, content_hash, in_order
from data.schema import COLUMNS
from domain.errors import SettingError
from domain.jobs import Job
from simulator.replay import Replay, replay
from simulator.report import Lived, describe, evaluated_jobs, finite, reference_of
from simulator.workload import Workload, make_workload
from solver.policies import POLICIES

_DAY_S: Final = 86_400.0
_RECORD_DECIDES: Final = "0.5"
"""As in live clusters: a job is requeueable if its record or its pool says so."""

_FIGURES: Final = (
    "mean_jct_s",
    "median_jct_s",
    "p95_jct_s",
    "mean_queue_delay_s",
    "p99_queue_delay_s",
    "requeues",
)
_AGAINST_FCFS: Final = ("speedup_ratio_of_means", "slowed_jobs", "slowed_pct", "slowed_max_min")
_USE: Final = ("utilisation_pct", "lent_gpu_hours", "lost_gpu_hours")


@dataclass(frozen=True)
class Answered:
    """One world replayed."""

    workload: Workload
    done: Replay
    report: Mapping[str, Any]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a what-if.

    Args:
        request: what `app.services.what_if.load` returned.

    Returns:
        baseline and changed: figures of the two worlds; difference: changed - baseline; pools: mean
        completion time and queue delay of each, in both; excluded: jobs that are wider than their pool's
        quota in either world, left out of both; window; and what the answer rests on (`inputs`).

    Raises:
        SettingError: if there are no jobs to replay.
    """
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        frame = jobs_of(engine, request["cluster"], set(request["requeueable_pools"]))
    finally:
        engine.dispose()
    return compare(frame, request)


def compare(frame: pd.DataFrame, request: Mapping[str, Any]) -> dict[str, Any]:
    """Replay the end of a history in both worlds."""
    if frame.empty:
        raise SettingError("the cluster has no past jobs: import its history first")
    newest_s = float(frame["submit_s"].max())
    from_s = newest_s - request["days"] * _DAY_S
    worlds = [request["baseline"], request["changed"]]
    kept, excluded = without_impossible(frame, from_s, [dict(world["quotas"]) for world in worlds])
    if not (kept["submit_s"] >= from_s).any():
        raise SettingError(f"no job of the last {request['days']:g} days can be replayed: ask for more days")
    before, after = (
        run_world(kept, from_s, world, request["seed"], _half_of_progress(half))
        for half, world in enumerate(worlds)
    )
    first, second = figures(before), figures(after)
    answered = {
        "window": {"from_s": from_s, "to_s": newest_s, "jobs": len(before.workload.jobs)},
        "jobs_learned_from": len(before.workload.past),
        "baseline": first,
        "changed": second,
        "difference": {name: _minus(second[name], first[name]) for name in first},
        "pools": by_pool(before, after),
        "excluded": excluded,
        "inputs": {"jobs_sha256": content_hash(kept), "question_sha256": request["question_sha256"]},
    }
    plain: dict[str, Any] = finite(answered)
    return plain


def jobs_of(engine: Engine, cluster: str, requeueable_pools: set[str]) -> pd.DataFrame:
    """Imported jobs and live ones that have ended, as the table of `data.schema`."""
    with reading(engine) as session:
        rows: list[Sequence[Any]] = list(history.rows(session, cluster))
        known = {row[0] for row in rows}
        rows += [
            table_row(job)
            for job in live.all_jobs(session, cluster)
            if job.state == LiveState.ENDED and job.job_id not in known
        ]
    raw = pd.DataFrame(rows, columns=[column.name for column in COLUMNS])
    frame = in_order(raw.astype({column.name: column.kind.dtype for column in COLUMNS}))
    says_nothing = frame["requeue_u"].isna() & frame["pool"].isin(list(requeueable_pools))
    frame.loc[says_nothing, "requeue_u"] = 0.0
    return frame


def without_impossible(
    frame: pd.DataFrame, from_s: float, quotas: Iterable[Mapping[str, int]]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table without the jobs of the window that do not fit their pool's quota in one of the worlds."""
    fits = pd.Series(data=True, index=frame.index)
    for one in quotas:
        fits &= frame["num_gpus"] <= frame["pool"].map(one).astype("float64").fillna(0.0)
    is_out = (frame["submit_s"] >= from_s) & ~fits
    counts = frame.loc[is_out, "pool"].value_counts(sort=False)
    by_name = [{"pool": str(pool), "jobs": int(counts[pool])} for pool in sorted(counts.index)]
    return in_order(frame[~is_out]), {"jobs": int(is_out.sum()), "by_pool": by_name}


def run_world(
    frame: pd.DataFrame,
    from_s: float,
    world: Mapping[str, Any],
    seed: int,
    progress: Callable[[int, int], None],
) -> Answered:
    """Replay the window in one world."""
    workload = make_workload(
        History(frame, (), (), "history"), dict(world["quotas"]), train_until_s=from_s, eval_from_s=from_s
    )
    settings = dict(world["settings"])
    if any(one.name == "requeueable" for one in fields(POLICIES[world["policy"]].settings)):
        settings = {"requeueable": _RECORD_DECIDES, **settings}
    done = replay(workload, world["policy"], settings, seed=seed, progress=progress)
    return Answered(workload, done, describe(workload, done, reference_of(workload)))


def figures(answered: Answered) -> dict[str, Any]:
    """The numbers of one world that its answer is about."""
    report = answered.report
    return {
        "quota_gpus": report["cluster_gpus"],
        **{name: report[name] for name in _FIGURES},
        **{f"{name}_vs_fcfs": report["against_fcfs"][name] for name in _AGAINST_FCFS},
        **{name: report["use"][name] for name in _USE},
    }


def by_pool(before: Answered, after: Answered) -> list[dict[str, Any]]:
    """Completion times and queue delays of each pool, in both worlds."""
    first, second = _pool_figures(before), _pool_figures(after)
    return [{"pool": pool, "baseline": first[pool], "changed": second[pool]} for pool in first]


def _pool_figures(answered: Answered) -> dict[str, dict[str, Any]]:
    lived = Lived.of(answered.done.schedule)
    quotas = answered.workload.cluster.quotas()
    jobs: dict[str, list[Job]] = {pool: [] for pool in quotas}
    for job in evaluated_jobs(answered.workload):
        jobs[job.pool].append(job)
    return {
        pool: {
            "quota_gpus": quotas[pool],
            "jobs": len(here),
            "mean_jct_s": _mean(lived.end_s[job.job_id] - job.submit_s for job in here),
            "mean_queue_delay_s": _mean(lived.start_s[job.job_id] - job.submit_s for job in here),
        }
        for pool, here in jobs.items()
    }


def table_row(job: JobRow) -> list[Any]:
    """A live job's row of the table."""
    ended_s = job.ended_s if job.ended_s is not None else job.submit_s
    started_s = job.started_s if job.started_s is not None else job.submit_s
    own: dict[str, Any] = {"duration_s": max(ended_s - started_s, 0.0), "state": job.end_state}
    own["start_s"] = job.started_s
    own["checkpoint_s"] = own["restart_s"] = None  # the live service does not know of checkpoints
    return [own[column.name] if column.name in own else getattr(job, column.name) for column in COLUMNS]


def _half_of_progress(half: int) -> Callable[[int, int], None]:
    def tell(done: int, total: int) -> None:
        tell_progress(half * total + done, 2 * total)

    return tell


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _minus(second: Any, first: Any) -> float | None:
    return second - first if math.isfinite(second) and math.isfinite(first) else None


if __name__ == "__main__":
    main(answer)
