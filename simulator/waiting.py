"""Why jobs wait at one instant of a replay."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.checked import plan_state
from simulator.engine import Progress
from simulator.replay import prepare
from simulator.workload import Workload
from solver.explain.answer import explain_waiting
from solver.explain.scene import Scene
from solver.explain.words import Waiting


@dataclass(frozen=True)
class Explained:
    """The jobs that wait at an instant.

    Attributes:
        at_s: the instant.
        policy: name in the registry.
        settings: in force, those of the forecasts included.
        saw_truth: whether the policy, or the expected starts, rest on true lives.
        idle_gpus: GPUs that are idle then.
        running: jobs that run then.
        waiting: why each of the others waits, by (submit, id).
    """

    at_s: float
    policy: str
    settings: Mapping[str, Any]
    saw_truth: bool
    idle_gpus: int
    running: int
    waiting: tuple[Waiting, ...]


def explain_at(  # noqa: PLR0913 - named, and each a part of the question
    workload: Workload,
    policy: str,
    settings: Mapping[str, str],
    at_s: float,
    *,
    may_see_truth: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    checks_plans: bool = False,
) -> Explained:
    """Replay up to an instant, decide there, and explain who still waits.

    Args:
        workload: what happens.
        policy: name in the registry.
        settings: `key=value` texts, as of `simulator.replay.replay`.
        at_s: the instant.
        may_see_truth: whether a clairvoyant policy, or `lives=true`, is allowed.
        seed: of everything that is drawn.
        progress: told now and then how far it is.
        checks_plans: whether the independent checker looks at every plan before it is carried out.

    Raises:
        PlanError: with `checks_plans`, if a plan breaks a rule (`solver.check_plan`).
        SettingError: for an unknown policy or setting.
        ClairvoyanceError: if the truth is needed but not allowed.
    """
    made = prepare(
        workload,
        policy,
        settings,
        may_see_truth=may_see_truth,
        seed=seed,
        progress=progress,
        checks_plans=checks_plans,
    )
    made.engine.run(until_s=at_s)
    state = made.engine.state
    scene = Scene(
        state=plan_state(state, workload.cluster.quotas(), at_s, workload.cluster.nodes),
        owes=made.owes,
        lends=made.spec.lends,
        started_s={job_id: attempt.start_s for job_id, attempt in state.running.items()},
        survival=made.forecasters.lives.survival,
    )
    found = explain_waiting(made.policy, scene)
    return Explained(
        at_s,
        policy,
        made.settings,
        made.forecasters.saw_truth(),
        state.idle_gpus,
        len(state.running),
        tuple(found),
    )
