"""Questions about a live cluster that decide nothing: lives, demand, why jobs wait.

Warm processes of their own answer (`app.children.ask`), told the log as far as it went when somebody asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import UnknownCluster, UnknownResource
from app.services.facts import JOB_FIELDS
from app.services.planning import require_cluster
from app.services.times import to_s
from app.services.warm import WarmChildren
from app.store import clusters, live, plans
from app.store.engine import reading
from app.store.tables import ClusterRow, DecisionRow, JobRow, LiveState

MODULE: Final = "app.children.ask"

Json = dict[str, Any]


class Askers:
    """The warm processes that answer questions, one a cluster.

    Args:
        database_url: where they read the log.
        wait_s: how long whoever asks waits; the first question of an epoch trains its models.
        limit_s: a process that works longer on one answer is killed.
    """

    def __init__(self, database_url: str, *, wait_s: float, limit_s: float) -> None:
        self._wait_s = wait_s
        self._limit_s = limit_s
        self._children = WarmChildren(MODULE, database_url)

    def ask(self, cluster: ClusterRow, question: str, values: Mapping[str, Any]) -> Json:
        """Ask one of `app.children.questions.QUESTIONS`, as of the log's last entry.

        Raises:
            DecisionUnavailable: if there is no answer in time, or the process says why there is none.
        """
        told = {"cluster": cluster.name, "epoch": cluster.epoch, "seq": cluster.seq, "question": question}
        return self._children.ask(
            cluster.name, {**told, **values}, wait_s=self._wait_s, limit_s=self._limit_s
        )

    def close(self) -> None:
        """End all processes."""
        self._children.close()


def require(engine: Engine, cluster: str) -> ClusterRow:
    """A cluster that can be asked.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if it has no inventory yet.
    """
    with reading(engine) as session:
        return _cluster(session, cluster)


@dataclass(frozen=True)
class Asked:
    """A job whose life is asked for: one that is live, by its id, or any, by its fields.

    Attributes:
        job_id: of a live job, or a name for the answer.
        job: its fields; None for a live job.
        elapsed_s: how long it has run; what is known of the live job where None.
    """

    job_id: str
    job: Mapping[str, Any] | None
    elapsed_s: float | None


def lifetimes(
    engine: Engine,
    askers: Askers,
    clock: Clock,
    cluster: str,
    jobs: Sequence[Asked],
    levels: Sequence[float],
    within_s: Sequence[float],
) -> tuple[ClusterRow, Json]:
    """Forecasts of lives, in the order of the jobs.

    Raises:
        UnknownResource: if there is no such cluster, or no such live job.
        Conflict: if the cluster has no inventory yet.
        DecisionUnavailable: if there is no answer in time.
    """
    with reading(engine) as session:
        row = _cluster(session, cluster)
        now_s = to_s(row, clock.now())
        known = live.jobs_by_id(session, cluster, [one.job_id for one in jobs if one.job is None])
        pools = {pool.name for pool in clusters.pools(session, cluster)}
    asked = [_as_asked(one, known, pools, cluster, now_s) for one in jobs]
    answer = askers.ask(row, "lifetimes", {"jobs": asked, "levels": list(levels), "within_s": list(within_s)})
    for one, said in zip(asked, answer["jobs"], strict=True):
        said |= {"job_id": one["job_id"], "elapsed_s": one["elapsed_s"]}
    return row, answer


def _as_asked(one: Asked, known: Mapping[str, JobRow], pools: set[str], cluster: str, now_s: float) -> Json:
    if one.job is not None:
        pool = one.job["pool"]
        if pool not in pools:
            raise UnknownResource(
                f"cluster {cluster} has no pool {pool!r}; it has: {', '.join(sorted(pools))}"
            )
        fields = {"submit_s": now_s, **one.job, "job_id": one.job_id}
        return {**fields, "elapsed_s": one.elapsed_s or 0.0}
    row = known.get(one.job_id)
    if row is None:
        raise UnknownResource(
            f"cluster {cluster} has no job {one.job_id!r}; give its fields as `job` instead"
        )
    ran_s = 0.0 if row.started_s is None else max((row.ended_s or now_s) - row.started_s, 0.0)
    elapsed_s = ran_s if one.elapsed_s is None else one.elapsed_s
    return row.model_dump(include=set(JOB_FIELDS)) | {"elapsed_s": round(elapsed_s, 3)}


def demand(
    engine: Engine,
    askers: Askers,
    clock: Clock,
    cluster: str,
    *,
    pool: str | None,
    horizon_s: float,
    levels: Sequence[float],
) -> tuple[ClusterRow, float, Json]:
    """What pools will ask for; the instant of the question, seconds on the cluster's clock.

    Raises:
        UnknownResource: if there is no such cluster, or it has no such pool.
        Conflict: if the cluster has no inventory yet.
        DecisionUnavailable: if there is no answer in time, or its policy forecasts no demand.
    """
    with reading(engine) as session:
        row = _cluster(session, cluster)
        pools = {one.name for one in clusters.pools(session, cluster)}
        now_s = _now_s(session, row, clock)
    if pool is not None and pool not in pools:
        raise UnknownResource(f"cluster {cluster} has no pool {pool!r}; it has: {', '.join(sorted(pools))}")
    values = {"now_s": now_s, "horizon_s": horizon_s, "levels": list(levels), "pool": pool}
    return row, now_s, askers.ask(row, "demand", values)


@dataclass(frozen=True)
class Explanations:
    """Why jobs wait.

    Attributes:
        cluster: as it was asked.
        at_s: instant, seconds on its clock.
        num_waiting: how many wait in all.
        jobs: those asked for, as `app.services.waiting.rows_of`.
        decision: the last one; None if there is none yet.
    """

    cluster: ClusterRow
    at_s: float
    num_waiting: int
    jobs: Sequence[Mapping[str, Any]]
    decision: DecisionRow | None


def waits(engine: Engine, askers: Askers, clock: Clock, cluster: str, job_id: str | None) -> Explanations:
    """Why jobs wait, right after the last decision.

    What the last decision said of a job that it could not place (`dropped`) stands for what the policy says
    of it: a policy counts GPUs, and knows no nodes.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no inventory yet.
        DecisionUnavailable: if there is no answer in time.
    """
    with reading(engine) as session:
        row = _cluster(session, cluster)
        now_s = _now_s(session, row, clock)
        idle = live.idle_gpus(session, row)
        decision = plans.latest_decision(session, cluster)
    values = {"now_s": now_s, "idle_gpus": idle, "is_lending": row.is_lending, "job_id": job_id}
    answer = askers.ask(row, "waits", values)
    said = [] if decision is None else decision.answer.get("dropped", [])
    dropped = {one["job_id"]: one["why"] for one in said}
    jobs = [_with_dropped(one, dropped) for one in answer["jobs"]]
    return Explanations(row, float(answer["at_s"]), int(answer["num_waiting"]), jobs, decision)


def _with_dropped(one: Mapping[str, Any], dropped: Mapping[str, str]) -> Mapping[str, Any]:
    why, sign, text = dropped.get(one["job_id"], "").partition(": ")
    return {**one, "why": why, "text": text, "evidence": {}, "changes": []} if sign else one


def explain_job(
    engine: Engine, askers: Askers, clock: Clock, cluster: str, job_id: str
) -> tuple[JobRow, Explanations | None]:
    """A job, and why it waits if it does.

    Raises:
        UnknownResource: if there is no such cluster or job.
        Conflict: if the cluster has no inventory yet.
        DecisionUnavailable: if there is no answer in time.
    """
    with reading(engine) as session:
        _cluster(session, cluster)
        job = live.job(session, cluster, job_id)
    if job is None:
        raise UnknownResource(f"cluster {cluster} has no job {job_id!r}")
    if job.state != LiveState.WAITING:
        return job, None
    return job, waits(engine, askers, clock, cluster, job_id)


def _cluster(session: Session, name: str) -> ClusterRow:
    row = clusters.get(session, name)
    if row is None:
        raise UnknownCluster(name)
    return require_cluster(row, name)


def _now_s(session: Session, row: ClusterRow, clock: Clock) -> float:
    """Now, but not before the last fact."""
    last_s, now_s = live.last_at_s(session, row), to_s(row, clock.now())
    return now_s if last_s is None else max(now_s, last_s)
