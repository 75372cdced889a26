"""A history replayed under one policy: the data, the forecaster and the policy put together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pandas as pd

from data.history import History, to_jobs
from data.splits import ended_before, split
from domain.cluster import Cluster, Pool
from domain.errors import ClairvoyanceError, SettingError
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job, JobOutcome
from domain.schedules import Schedule
from models import LIFETIME_MODELS
from simulator.engine import Engine, Progress
from simulator.truth import TrueLives
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, PolicySpec, parse_settings

LIVES_CHOICES: Final = ("auto", "true", *LIFETIME_MODELS)
"""Values of the setting `lives`: true lives where they are allowed and learned ones elsewhere, or fixed."""


@dataclass(frozen=True)
class Workload:
    """What a replay needs: who is submitted, what becomes of them, and what may be learned beforehand.

    Attributes:
        cluster: pools with their quotas.
        jobs: to replay, by (submit, id).
        outcomes: the truth of each of them.
        past: (job, duration) of what had ended before the replay begins, in the order of ending.
        train_until_s: instant at which the replay begins.
        eval_from_s: jobs submitted from here on are measured.
    """

    cluster: Cluster
    jobs: tuple[Job, ...]
    outcomes: Mapping[str, JobOutcome]
    past: tuple[tuple[Job, float], ...]
    train_until_s: float
    eval_from_s: float

    def durations_s(self) -> dict[str, float]:
        """True length of each replayed job."""
        return {job_id: outcome.duration_s for job_id, outcome in self.outcomes.items()}


@dataclass(frozen=True)
class Replay:
    """One replay: what was asked for and what happened.

    Attributes:
        policy: name in the registry.
        settings: the policy's settings in force, defaults included.
        lives: which lives the policy was given (`true`, `learned`, ...); None if it asks for none.
        saw_truth: whether it looked at true lives; then its figures are starred.
        schedule: what happened.
    """

    policy: str
    settings: Mapping[str, Any]
    lives: str | None
    saw_truth: bool
    schedule: Schedule


def make_workload(
    history: History,
    quotas: Mapping[str, int],
    *,
    train_until_s: float,
    eval_from_s: float,
    earlier: History | None = None,
) -> Workload:
    """Cut a history in time.

    Args:
        history: jobs to replay (from `train_until_s` on) and to learn from (ended by then).
        quotas: GPUs of each pool.
        train_until_s: instant at which the replay begins, on an empty cluster.
        eval_from_s: jobs submitted from here on are measured.
        earlier: more jobs to learn from; those that had not ended by `train_until_s` are left out.

    Raises:
        SettingError: if the instants are in the wrong order or nothing is left to replay or measure.
    """
    parts = split(history.frame, train_until_s=train_until_s, eval_from_s=eval_from_s)
    if not parts.evaluated:
        raise SettingError(
            f"no job is submitted at or after eval-from = {eval_from_s:g} s: nothing to measure"
        )
    past = _by_end(parts.train)
    if earlier is not None:
        past = sorted(past + _by_end(ended_before(earlier.frame, train_until_s)), key=_end_order)
    jobs, outcomes = to_jobs(parts.replay)
    cluster = Cluster(tuple(Pool(name, quota) for name, quota in quotas.items()))
    return Workload(cluster, tuple(jobs), outcomes, tuple(past), train_until_s, eval_from_s)


def replay(
    workload: Workload,
    policy: str,
    settings: Mapping[str, str],
    *,
    may_see_truth: bool = False,
    progress: Progress | None = None,
) -> Replay:
    """Replay a workload under a policy.

    Args:
        workload: what happens.
        policy: name in the registry.
        settings: `key=value` texts; besides the policy's own, `lives` for policies that ask for lives.
        may_see_truth: whether a clairvoyant policy, or `lives=true`, is allowed.
        progress: told now and then how far it is.

    Raises:
        SettingError: for an unknown policy or setting.
        ClairvoyanceError: if the truth is needed but not allowed.
    """
    spec = _spec(policy)
    own = dict(settings)
    lives = _choose_lives(policy, spec, own.pop("lives", "auto"), may_see_truth=may_see_truth)
    built = parse_settings(policy, spec.settings, own)
    forecaster = _forecaster(lives, workload)
    engine = Engine(
        jobs=workload.jobs,
        outcomes=workload.outcomes,
        capacity_gpus=workload.cluster.capacity_gpus,
        policy=spec.build(PolicyContext(workload.cluster.quotas(), forecaster), built),
        observe=forecaster.observe if lives is not None else None,
        progress=progress,
    )
    schedule = engine.run()
    in_force = {field.name: getattr(built, field.name) for field in fields(built)}
    return Replay(policy, in_force, lives, _saw_truth(forecaster), schedule)


def _spec(policy: str) -> PolicySpec:
    if policy not in POLICIES:
        raise SettingError(f"unknown policy {policy!r}; there are: {', '.join(POLICIES)}")
    return POLICIES[policy]


def _choose_lives(policy: str, spec: PolicySpec, asked: str, *, may_see_truth: bool) -> str | None:
    if not spec.uses_lives:
        if asked != "auto":
            raise SettingError(f"policy {policy} asks for no lives: there is no setting 'lives'")
        return None
    if asked not in LIVES_CHOICES:
        raise SettingError(f"lives={asked} is unknown; there are: {', '.join(LIVES_CHOICES)}")
    if asked == "auto":
        asked = "true" if may_see_truth or spec.is_clairvoyant else "learned"
    if asked == "true" and not may_see_truth:
        raise ClairvoyanceError(f"policy {policy} needs the true lives of jobs: allow it with --clairvoyant")
    if spec.is_clairvoyant and asked != "true":
        raise ClairvoyanceError(f"policy {policy} is clairvoyant by definition: lives={asked} makes no sense")
    return asked


def _forecaster(lives: str | None, workload: Workload) -> LifetimeForecaster:
    if lives == "true":
        return TrueLives(workload.outcomes)
    make: Callable[[], LifetimeForecaster] = LIFETIME_MODELS["learned" if lives is None else lives]
    forecaster = make()
    if lives is not None:
        for job, duration_s in workload.past:
            forecaster.observe(job, duration_s)
    return forecaster


def _saw_truth(forecaster: LifetimeForecaster) -> bool:
    return isinstance(forecaster, TrueLives) and forecaster.was_asked


def _by_end(frame: pd.DataFrame) -> list[tuple[Job, float]]:
    jobs, outcomes = to_jobs(frame)
    return sorted(((job, outcomes[job.job_id].duration_s) for job in jobs), key=_end_order)


def _end_order(lived: tuple[Job, float]) -> tuple[float, str]:
    job, duration_s = lived
    return (job.submit_s + duration_s, job.job_id)
