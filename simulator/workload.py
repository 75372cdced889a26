"""What a replay needs, cut out of a history in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from data.history import History, to_jobs
from data.splits import ended_before, hides_life, split, started_s
from domain.cluster import Cluster, Node, Pool
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome


@dataclass(frozen=True)
class Workload:
    """Who is submitted, what becomes of them, and what may be learned beforehand.

    Attributes:
        cluster: pools with their quotas.
        jobs: to replay, by (submit, id).
        outcomes: the truth of each of them.
        past: (job, duration) of what had ended before the replay begins, in the order of ending.
        unended: (job, age) of what had been submitted but not ended by then; censored, and never replayed.
        train_until_s: instant at which the replay begins.
        eval_from_s: jobs submitted from here on are measured.
        starts: by id, when jobs of the past and those not ended began to run, where the record says it.
        cut_off: ids of those of the past that would have run longer (`JobState.hides_life`).
    """

    cluster: Cluster
    jobs: tuple[Job, ...]
    outcomes: Mapping[str, JobOutcome]
    past: tuple[tuple[Job, float], ...]
    unended: tuple[tuple[Job, float], ...]
    train_until_s: float
    eval_from_s: float
    starts: Mapping[str, float] = field(default_factory=dict)
    cut_off: frozenset[str] = frozenset()

    def durations_s(self) -> dict[str, float]:
        """True length of each replayed job."""
        return {job_id: outcome.duration_s for job_id, outcome in self.outcomes.items()}


def make_workload(
    history: History,
    quotas: Mapping[str, int],
    *,
    train_until_s: float,
    eval_from_s: float,
    earlier: History | None = None,
    nodes: Sequence[Node] = (),
) -> Workload:
    """Cut a history in time.

    Pools and nodes are taken in the order of their names, so the order of rows in a file decides nothing.

    Args:
        history: jobs to replay (from `train_until_s` on) and to learn from (ended by then).
        quotas: GPUs of each pool.
        train_until_s: instant at which the replay begins, on an empty cluster.
        eval_from_s: jobs submitted from here on are measured.
        earlier: more jobs to learn from; those submitted later are left out, those that had not ended by
            `train_until_s` count as not ended.
        nodes: where jobs run; empty: GPUs are only counted.

    Raises:
        SettingError: if the instants are in the wrong order or nothing is left to replay or measure.
    """
    parts = split(history.frame, train_until_s=train_until_s, eval_from_s=eval_from_s)
    if not parts.evaluated:
        raise SettingError(
            f"no job is submitted at or after eval-from = {eval_from_s:g} s: nothing to measure"
        )
    past, unended = before(history.frame, train_until_s)
    starts = starts_before(history.frame, train_until_s)
    cut_off = cut_off_before(history.frame, train_until_s)
    if earlier is not None:
        starts |= starts_before(earlier.frame, train_until_s)
        cut_off |= cut_off_before(earlier.frame, train_until_s)
        more_past, more_unended = before(earlier.frame, train_until_s)
        past, unended = sorted(past + more_past, key=_end_order), unended + more_unended
    jobs, outcomes = to_jobs(parts.replay)
    cluster = Cluster(
        tuple(Pool(name, quotas[name]) for name in sorted(quotas)),
        tuple(sorted(nodes, key=lambda node: node.name)),
    )
    return Workload(
        cluster,
        tuple(jobs),
        outcomes,
        tuple(past),
        tuple(unended),
        train_until_s,
        eval_from_s,
        starts,
        cut_off,
    )


def before(frame: pd.DataFrame, cut_s: float) -> tuple[list[tuple[Job, float]], list[tuple[Job, float]]]:
    """What had ended by the cut, with durations in the order of ending, and what had not, with ages."""
    submitted = frame[frame["submit_s"] < cut_s].reset_index(drop=True)
    ended = ended_before(submitted, cut_s)
    jobs, outcomes = to_jobs(ended)
    past = sorted(((job, outcomes[job.job_id].duration_s) for job in jobs), key=_end_order)
    running = submitted[~submitted["job_id"].isin(ended["job_id"])]
    open_jobs, _ = to_jobs(running)
    ages_s = (cut_s - started_s(running)).clip(lower=0.0).tolist()
    return past, list(zip(open_jobs, ages_s, strict=True))


def cut_off_before(frame: pd.DataFrame, cut_s: float) -> frozenset[str]:
    """Ids of the jobs submitted by the cut whose state says that they would have run longer."""
    return frozenset(frame.loc[hides_life(frame) & (frame["submit_s"] < cut_s), "job_id"].tolist())


def starts_before(frame: pd.DataFrame, cut_s: float) -> dict[str, float]:
    """By id, when the jobs that began to run by the cut did so, where the record says it."""
    if "start_s" not in frame:
        return {}
    known = frame[(frame["submit_s"] < cut_s) & (frame["start_s"] <= cut_s)]
    return dict(zip(known["job_id"].tolist(), known["start_s"].tolist(), strict=True))


def _end_order(lived: tuple[Job, float]) -> tuple[float, str]:
    job, duration_s = lived
    return (job.submit_s + duration_s, job.job_id)
