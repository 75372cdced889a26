"""The jobs view: attempts as the history keeps them become jobs, each with one life and all that it cost.

Rows with the same id are attempts of one job where the earlier one ended in a way that lets it come back
(requeued, preempted, its node lost) or never ended, the user is the same and the later submission follows
within `MOST_GAP_S`. Otherwise they are different jobs: counters of ids wrap around. Parts of a gang of
several (`het_id`) start together and are one job; their GPUs add up.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from domain.attempts import EndCause, Observation

MOST_GAP_S: Final = 30 * 86_400.0
"""Longest time from the end of an attempt to the submission of the next: a requeue follows at once."""

_COMES_BACK: Final = frozenset(
    cause.value for cause in EndCause if cause.is_end_of_attempt and not cause.is_end_of_job
)
_OPEN: Final = frozenset({EndCause.NOT_ENDED.value, EndCause.UNKNOWN.value})
_WHOLE: Final = frozenset({cause.value for cause in EndCause if cause.is_natural} | {EndCause.UNKNOWN.value})
"""Why a life that has an end is taken as seen in full: also where nobody says why it ended."""

_SUMS: Final = ("gpus_asked_milli", "gpus_given_milli", "cpus", "memory_mib", "num_nodes")
_TOLD: Final = (
    "shown_id", "array_id", "array_task", "het_id", "pool", "account", "user", "name", "qos", "gpu_type",
    "mig_profile", "cpus", "memory_mib", "num_nodes", "limit_s", "num_tasks", "most_at_once",
)  # fmt: skip
"""What the last attempt that says it says of the job."""

COLUMNS: Final = (
    "cluster", "raw_id", "submit_s", "attempt", "het_offset", "gpus_asked_milli", "gpus_given_milli",
    "start_s", "end_s", "compute_s", "is_before_record", "limit_kind", "cause", *_TOLD,
)  # fmt: skip
"""Columns of the history that the view is made of."""


@dataclass(frozen=True)
class JobsView:
    """Jobs of one cluster and their attempts.

    Attributes:
        jobs: one row per job, by (submit_s, raw_id). `submit_s` is that of the first attempt, `start_s` its
            first start, `wait_s` the time between them. Of the last attempt that ran: `last_start_s`,
            `end_s`, `lived_s` (how long it held its GPUs, as far as was seen), `compute_s` and
            `observation`. `cause` is that of the last attempt, `gpu_hours` the sum over all, `rewait_s` the
            waiting between them. `gpus_milli` is what it was given, else what it asked for. The rest is as
            the last attempt says it.
        attempts: one row per attempt, in the order of jobs and time; `job` is the row of its job, `number`
            counts from 0, and `wait_s`, `lived_s`, `observation`, `gpu_hours` are its own.
        edge_s: last instant that the record knows of; what still runs was seen until then.
    """

    jobs: pd.DataFrame
    attempts: pd.DataFrame
    edge_s: float


def jobs_view(table: pa.Table) -> JobsView:
    """The jobs of a cluster.

    Args:
        table: attempts of one cluster, with `COLUMNS` at least.
    """
    frame = table.select(list(COLUMNS)).to_pandas()
    edge_s = edge_of(frame)
    frame = _chained(_gangs(frame))
    frame = _measured(frame, edge_s)
    jobs = _jobs(frame)
    order = jobs.sort_values(["submit_s", "raw_id"], kind="stable").index.to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    attempts = frame.assign(job=place[frame["job"].to_numpy()] if len(frame) else frame["job"])
    attempts = attempts.sort_values(["job", "number"], kind="stable", ignore_index=True)
    return JobsView(jobs.loc[order].reset_index(drop=True), attempts, edge_s)


def edge_of(frame: pd.DataFrame) -> float:
    """The last instant that any row knows of; minus infinity where there is no row."""
    instants = frame[["submit_s", "start_s", "end_s"]].max().max()
    return float(instants) if len(frame) else float("-inf")


def find(jobs: pd.DataFrame, job_id: str) -> tuple[pd.Series, int] | None:
    """The newest job of an id, as accounting or as people write it, and how many older ones have the same.

    Counters of ids wrap around: an id alone names no job.
    """
    same = jobs[(jobs["raw_id"] == job_id) | (jobs["shown_id"] == job_id) | (jobs["het_id"] == job_id)]
    if same.empty:
        return None
    return same.sort_values("submit_s", kind="stable").iloc[-1], len(same) - 1


def _gangs(frame: pd.DataFrame) -> pd.DataFrame:
    """Parts of one gang as one row: that of its first part, with sums, the first start and the last end."""
    frame = frame.assign(num_parts=1)
    is_part = frame["het_id"].notna()
    if not is_part.any():
        return frame
    key = ["het_id", "submit_s", "attempt"]
    parts = frame[is_part].sort_values([*key, "het_offset", "raw_id"], kind="stable")
    groups = parts.groupby(key, sort=False)
    gang = parts.drop_duplicates(key).set_index(key)
    sizes = groups.size()
    for name in _SUMS:
        gang[name] = groups[name].sum().where(groups[name].count() == sizes)
    is_open = parts["cause"].eq(EndCause.NOT_ENDED.value).groupby([parts[name] for name in key]).any()
    gang["start_s"] = groups["start_s"].min()
    gang["end_s"] = groups["end_s"].max().where(~is_open.reindex(gang.index))
    gang["cause"] = gang["cause"].where(~is_open.reindex(gang.index), EndCause.NOT_ENDED.value)
    gang["num_parts"] = sizes
    return pd.concat([frame[~is_part], gang.reset_index()[frame.columns]], ignore_index=True)


def _chained(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by job and time: `job` is the same number for attempts of one, `number` counts them."""
    frame = frame.sort_values(["raw_id", "submit_s", "attempt"], kind="stable", ignore_index=True)
    before = frame.shift(1)
    same_id = frame["raw_id"] == before["raw_id"]
    same_user = (frame["user"] == before["user"]) | (frame["user"].isna() & before["user"].isna())
    left_s = before[["submit_s", "start_s", "end_s"]].max(axis=1)
    follows = (frame["submit_s"] - left_s) <= MOST_GAP_S
    may_return = before["cause"].isin(_COMES_BACK | {EndCause.NOT_ENDED.value})
    is_same_submission = frame["submit_s"] == before["submit_s"]
    is_next = same_id & (is_same_submission | (may_return & same_user & follows))
    job = (~is_next.fillna(False).astype(bool)).cumsum() - 1
    return frame.assign(job=job, number=frame.groupby(job).cumcount())


def _measured(frame: pd.DataFrame, edge_s: float) -> pd.DataFrame:
    """How long each attempt waited, lived as far as was seen, and what it cost."""
    has_next = frame["job"].eq(frame["job"].shift(-1))
    next_submit_s = frame["submit_s"].shift(-1).where(has_next)
    has_previous = frame["job"].eq(frame["job"].shift(1))
    back_s = frame["end_s"].shift(1).where(has_previous & frame["submit_s"].eq(frame["submit_s"].shift(1)))
    started, ended = frame["start_s"].notna(), frame["end_s"].notna()
    is_open = started & ~ended & frame["cause"].isin(_OPEN)
    seen_until_s = next_submit_s.fillna(edge_s).where(is_open, frame["end_s"])
    lived_s = (seen_until_s - frame["start_s"]).clip(lower=0.0)
    gpus = frame["gpus_given_milli"].fillna(frame["gpus_asked_milli"]).astype(np.float64)
    queued_s = np.maximum(frame["submit_s"], back_s.fillna(-np.inf))
    return frame.assign(
        queued_s=queued_s,
        wait_s=(frame["start_s"] - queued_s).clip(lower=0.0),
        lived_s=lived_s,
        gpus_milli=gpus,
        gpu_hours=(gpus / 1000.0 * lived_s / 3600.0).where(started, 0.0),
        observation=_observations(frame),
    )


def _observations(frame: pd.DataFrame) -> pd.Series:
    conditions: list[Any] = [
        frame["start_s"].isna(),
        frame["is_before_record"].fillna(False).astype(bool),
        frame["end_s"].notna() & frame["cause"].isin(_WHOLE),
    ]
    words = [Observation.NEVER_RAN.value, Observation.LEFT_TRUNCATED.value, Observation.FULL.value]
    found = np.select(conditions, words, Observation.RIGHT_CENSORED.value)
    return pd.Series(found, index=frame.index, dtype="str")


def _jobs(frame: pd.DataFrame) -> pd.DataFrame:
    groups = frame.groupby("job", sort=True)
    told = groups[list(_TOLD)].last()
    first = frame.drop_duplicates("job").set_index("job")
    last = frame.drop_duplicates("job", keep="last").set_index("job")
    ran = frame[frame["start_s"].notna()].drop_duplicates("job", keep="last").set_index("job")
    of_run = ran.reindex(first.index)
    waits = frame["wait_s"].where(frame["number"] > 0)
    return told.assign(
        cluster=first["cluster"],
        raw_id=first["raw_id"],
        submit_s=first["submit_s"],
        start_s=groups["start_s"].min(),
        wait_s=groups["start_s"].min() - first["submit_s"],
        rewait_s=waits.groupby(frame["job"]).sum(),
        num_attempts=groups.size(),
        num_parts=groups["num_parts"].max(),
        last_start_s=of_run["start_s"],
        end_s=of_run["end_s"],
        lived_s=of_run["lived_s"],
        compute_s=of_run["compute_s"],
        observation=of_run["observation"].fillna(Observation.NEVER_RAN.value),
        life_cause=of_run["cause"],
        cause=last["cause"],
        limit_kind=last["limit_kind"],
        gpus_milli=of_run["gpus_milli"].fillna(last["gpus_milli"]),
        gpu_hours=groups["gpu_hours"].sum(min_count=1).where(groups["gpu_hours"].count() == groups.size()),
    )
