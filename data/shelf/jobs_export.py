"""Jobs of a history in the schema that models and replays read; what does not fit into it is counted."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from data.records import MILLI
from data.schema import MAX_GPUS
from data.shelf.jobs import JobsView
from domain.attempts import EndCause, LimitKind, Observation
from domain.jobs import JobState

NO_POOL: Final = "no-pool"
"""Pool of jobs of which none is told."""

EXTRA_COLUMNS: Final = (
    "cause", "observation", "first_start_s", "gpus_milli", "num_attempts", "gpu_hours"
)  # fmt: skip
"""What the history knows beside the schema; readers keep it and do not use it."""

STATES: Final = {
    EndCause.COMPLETED: JobState.COMPLETED,
    EndCause.FAILED: JobState.FAILED,
    EndCause.OUT_OF_MEMORY: JobState.FAILED,
    EndCause.CANCELLED: JobState.CANCELLED,
    EndCause.TIMEOUT: JobState.TIMEOUT,
    EndCause.DEADLINE: JobState.TIMEOUT,
    EndCause.PREEMPTED: JobState.CUT_OFF,
    EndCause.REQUEUED: JobState.CUT_OFF,
    EndCause.NODE_FAIL: JobState.CUT_OFF,
    EndCause.BOOT_FAIL: JobState.CUT_OFF,
    EndCause.REVOKED: JobState.CUT_OFF,
    EndCause.NOT_ENDED: JobState.CUT_OFF,
    EndCause.UNKNOWN: JobState.UNKNOWN,
}


@dataclass
class Exported:
    """Jobs (or attempts) in the schema, and what became of the others.

    Attributes:
        frame: by (submit_s, job_id); the columns of the schema that a history knows, then `EXTRA_COLUMNS`.
        left_out: why and how many, in the order in which it was asked.
        told: what was changed or should be known of those that are in, and how many.
        edge_s: last instant that the record knows of.
    """

    frame: pd.DataFrame
    left_out: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    edge_s: float = 0.0


def export_jobs(
    view: JobsView,
    *,
    as_attempts: bool = False,
    since_s: float = -np.inf,
    until_s: float = np.inf,
    pool: str | None = None,
) -> Exported:
    """Jobs that ran on GPUs, as models and replays read them.

    `duration_s` is how long the last attempt held its GPUs and `start_s` when it began; lives that were cut
    off have a state that says so (`JobState.hides_life`), and models count them as lives of at least that
    length.

    Args:
        view: the jobs.
        as_attempts: one row for each attempt instead of each job; each was submitted when it began to wait.
        since_s: only what was submitted from here on.
        until_s: and before.
        pool: only this pool.
    """
    rows = _attempt_rows(view) if as_attempts else _job_rows(view)
    made = Exported(rows, edge_s=view.edge_s)
    _leave_out(made, "outside of --since and --until", ~rows["submit_s"].between(since_s, until_s, "left"))
    if pool is not None:
        _leave_out(made, "in other pools", made.frame["pool"].ne(pool).fillna(True).astype(bool))
    waits = made.frame["start_s"].isna() & made.frame["cause"].eq(EndCause.NOT_ENDED.value)
    _leave_out(made, "still waiting", waits)
    _leave_out(made, "never ran", made.frame["start_s"].isna())
    _leave_out(made, "GPUs not known", made.frame["gpus_milli"].isna())
    _leave_out(made, "without GPUs", made.frame["gpus_milli"].le(0))
    _leave_out(made, "length not known", made.frame["duration_s"].isna())
    _leave_out(
        made, "began before the record", made.frame["observation"].eq(Observation.LEFT_TRUNCATED.value)
    )
    made.frame = _in_schema(made)
    return made


def _job_rows(view: JobsView) -> pd.DataFrame:
    jobs = view.jobs
    return jobs.assign(
        job_id=_unique(jobs["raw_id"], jobs["submit_s"]),
        duration_s=jobs["lived_s"],
        first_start_s=jobs["start_s"],
        start_s=jobs["last_start_s"],
        state_cause=jobs["life_cause"].fillna(jobs["cause"]),
    )


def _attempt_rows(view: JobsView) -> pd.DataFrame:
    attempts, jobs = view.attempts, view.jobs
    if attempts.empty:
        return attempts.assign(job_id="", duration_s=0.0, first_start_s=0.0, state_cause="", num_attempts=0)
    ids = _unique(jobs["raw_id"], jobs["submit_s"]).to_numpy()[attempts["job"].to_numpy()]
    number = attempts["number"]
    suffix = np.where(number.to_numpy() > 0, "#" + (number + 1).astype(str).to_numpy(dtype=object), "")
    return attempts.assign(
        job_id=pd.Series(ids.astype(object) + suffix, index=attempts.index, dtype="str"),
        submit_s=attempts["queued_s"],
        duration_s=attempts["lived_s"],
        first_start_s=attempts["start_s"],
        state_cause=attempts["cause"],
        num_attempts=1,
    )


def _unique(raw_id: pd.Series, submit_s: pd.Series) -> pd.Series:
    """Ids as they are; of jobs whose id was used before, with the instant of their submission."""
    again = raw_id.duplicated()
    stamp = submit_s.map("@{:.12g}".format) if again.any() else ""
    return raw_id.where(~again, raw_id + stamp)


def _leave_out(made: Exported, why: str, is_out: pd.Series) -> None:
    number = int(is_out.sum())
    if number:
        made.left_out[why] = number
        made.frame = made.frame[~is_out]


def _in_schema(made: Exported) -> pd.DataFrame:
    rows = made.frame
    states = rows["state_cause"].map({cause.value: STATES[cause].value for cause in EndCause})
    hidden = {state.value for state in JobState if state.hides_life}
    whole = np.ceil(rows["gpus_milli"] / MILLI).clip(upper=MAX_GPUS)
    limit_s = rows["limit_s"].where(rows["limit_kind"].eq(LimitKind.FINITE.value))
    for what, is_so in (
        ("shares of GPUs rounded up to whole ones", rows["gpus_milli"] % MILLI != 0),
        (f"without a pool: in pool {NO_POOL}", rows["pool"].isna()),
        ("lives cut off: of at least that length", states.isin(hidden)),
        ("ends of which nobody says how", states.eq(JobState.UNKNOWN.value)),
    ):
        if number := int(is_so.sum()):
            made.told[what] = number
    found = pd.DataFrame(
        {
            "job_id": rows["job_id"],
            "pool": rows["pool"].fillna(NO_POOL),
            "submit_s": rows["submit_s"],
            "num_gpus": whole.astype(np.int64),
            "duration_s": rows["duration_s"],
            "user": rows["user"],
            "name": rows["name"],
            "limit_s": limit_s.where(limit_s >= 1.0),
            "state": states,
            "gpu_type": rows["gpu_type"],
            "array_id": rows["array_id"],
            "start_s": rows["start_s"],
            **{name: rows[name] for name in EXTRA_COLUMNS},
        }
    )
    return found.sort_values(["submit_s", "job_id"], kind="stable", ignore_index=True)


def quotas_needed(frame: pd.DataFrame) -> list[tuple[str, int, int]]:
    """Of each pool its most GPUs in use at once and its widest job: what a table of pools has to allow.

    Args:
        frame: as exported.
    """
    found: list[tuple[str, int, int]] = []
    for pool, rows in frame.groupby("pool", sort=True):
        found.append((str(pool), most_at_once(rows), int(rows["num_gpus"].max())))
    return found


def most_at_once(rows: pd.DataFrame) -> int:
    """The most GPUs that were in use at one instant; what ends at it no longer counts."""
    start_s, gpus = rows["start_s"].to_numpy(np.float64), rows["num_gpus"].to_numpy(np.int64)
    end_s = start_s + rows["duration_s"].to_numpy(np.float64)
    at_s = np.concatenate((start_s, end_s))
    change = np.concatenate((gpus, -gpus))
    order = np.lexsort((change, at_s))
    return int(np.cumsum(change[order]).max(initial=0))
