"""A workload replayed under one policy: the forecasters, the policy and the engine put together."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from domain.errors import SettingError
from domain.schedules import Schedule
from simulator.engine import Engine, Progress
from simulator.forecasting import build, choose, split_settings, training_of
from simulator.workload import Workload
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, PolicySpec, parse_settings


@dataclass(frozen=True)
class Replay:
    """One replay: what was asked for and what happened.

    Attributes:
        policy: name in the registry.
        settings: the policy's settings in force, defaults and forecasts included.
        saw_truth: whether it looked at the truth; then its figures are starred.
        schedule: what happened.
    """

    policy: str
    settings: Mapping[str, Any]
    saw_truth: bool
    schedule: Schedule


def replay(
    workload: Workload,
    policy: str,
    settings: Mapping[str, str],
    *,
    may_see_truth: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Replay:
    """Replay a workload under a policy.

    Args:
        workload: what happens.
        policy: name in the registry.
        settings: `key=value` texts; besides the policy's own those of its forecasts
            (`simulator.forecasting.COMMON_SETTINGS`).
        may_see_truth: whether a clairvoyant policy, or `lives=true`, is allowed.
        seed: of everything that is drawn.
        progress: told now and then how far it is.

    Raises:
        SettingError: for an unknown policy or setting.
        ClairvoyanceError: if the truth is needed but not allowed.
    """
    spec = _spec(policy)
    common, own = split_settings(settings)
    choice = choose(policy, spec, common, may_see_truth=may_see_truth)
    built = parse_settings(policy, spec.settings, own)
    forecasters = build(choice, training_of(workload, choice, seed), workload)
    context = PolicyContext(
        quotas=workload.cluster.quotas(),
        lives=forecasters.lives,
        demand=forecasters.demand,
        future=workload.jobs if spec.is_clairvoyant else (),
    )
    engine = Engine(
        jobs=workload.jobs,
        outcomes=workload.outcomes,
        capacity_gpus=workload.cluster.capacity_gpus,
        policy=spec.build(context, built),
        observers=forecasters.observers,
        tick_s=spec.tick_s,
        progress=progress,
    )
    schedule = engine.run()
    in_force = {field.name: getattr(built, field.name) for field in fields(built)}
    return Replay(policy, in_force | choice.as_settings(), forecasters.saw_truth(), schedule)


def _spec(policy: str) -> PolicySpec:
    if policy not in POLICIES:
        raise SettingError(f"unknown policy {policy!r}; there are: {', '.join(POLICIES)}")
    return POLICIES[policy]
