"""Questions to a desk that are no decisions: lives, demand, why jobs wait. None of them changes the desk."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.children.state import LiveDesk
from app.services.facts import job_of
from app.services.waiting import rows_of
from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S
from domain.timegrid import default_grid
from solver.explain.answer import explain_waiting
from solver.explain.scene import Scene

Json = dict[str, Any]
Floats = NDArray[np.float64]

_EDGES_S: Final = np.array((0.0, *LIFE_EDGES_S))


def lifetimes(desk: LiveDesk, request: Mapping[str, Any]) -> Json:
    """How long jobs will run, given how long they have run already.

    Between the edges of the forecast (`domain.forecasts.LIFE_EDGES_S`, and 1 at 0) P(life > t) is taken to
    fall in a straight line, so that quantiles do not cross and never fall as a job grows older:
    P(life > t | life > e) = S(t) / S(e).

    Args:
        desk: told up to the instant of the question.
        request: `jobs`, each with the fields of `domain.jobs.Job` and `elapsed_s`; `levels`; `within_s`.

    Returns:
        `jobs`: for each, `total_s` and `remaining_s` by level (null: beyond what the forecast can tell), and
        `ends_within`: the chance to end within so many seconds from now. `model` and `as_of_s`,
        `jobs_learned_from`: what it rests on.
    """
    lives = desk.trained.forecasters.lives
    levels = np.array(request["levels"], dtype=np.float64)
    within_s = np.array(request["within_s"], dtype=np.float64)
    answered = []
    for values in request["jobs"]:
        curve = np.array((1.0, *lives.survival(job_of(values))))
        answered.append(_life(curve, float(values["elapsed_s"]), levels, within_s))
    return {"jobs": answered, **_rests_on(desk)}


def _life(curve: Floats, elapsed_s: float, levels: Floats, within_s: Floats) -> Json:
    alive = float(np.interp(elapsed_s, _EDGES_S, curve))
    if alive <= 0.0:  # older than any life that was seen: nothing is known but that
        return {
            "total_s": [None] * len(levels),
            "remaining_s": [None] * len(levels),
            "ends_within": [None] * len(within_s),
        }
    total_s = [_first_below(curve, alive * (1.0 - level)) for level in levels]
    total_s = [max(one, elapsed_s) for one in total_s]
    later = np.interp(elapsed_s + within_s, _EDGES_S, curve)
    return {
        "total_s": [_finite(one) for one in total_s],
        "remaining_s": [_finite(one - elapsed_s) for one in total_s],
        "ends_within": [round(float(share), 6) for share in 1.0 - later / alive],
    }


def _first_below(curve: Floats, share: float) -> float:
    """The first instant at which no more than a share is alive; infinite where there is none."""
    below = np.flatnonzero(curve <= share)
    if not below.size:
        return math.inf
    k = int(below[0])
    if k == 0:
        return 0.0
    before, after = curve[k - 1], curve[k]
    part = (before - share) / (before - after)
    return float(_EDGES_S[k - 1] + part * (_EDGES_S[k] - _EDGES_S[k - 1]))


def _finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def demand(desk: LiveDesk, request: Mapping[str, Any]) -> Json:
    """What pools will ask for, stretch by stretch of the grid that plans look ahead by.

    Args:
        desk: told up to the instant of the question.
        request: `now_s`, `horizon_s`, `levels`, and `pool` or null for all.

    Returns:
        `pools`: for each, `steps`: `from_s` and `to_s` from now, `peak_gpus` by level and `peak_gpus_mean`
        of GPUs asked for by jobs that are still to come, `jobs` by level and `jobs_mean`; and `bursts` too
        rare for that: GPUs, jobs, and how many a day.

    Raises:
        SettingError: if the cluster's policy forecasts no demand.
    """
    trained = desk.trained
    if trained.choice.arrivals is None:
        raise SettingError(f"policy {desk.epoch.policy} asks for no forecast of demand, so none is trained")
    now_s, levels = float(request["now_s"]), list(request["levels"])
    forecaster = trained.forecasters.demand
    peaks, arrivals = forecaster.peaks(now_s), forecaster.arrivals(now_s)
    cells = [cell for cell, (from_s, _) in enumerate(default_grid()) if from_s < request["horizon_s"]]
    edges_s = default_grid().edges_s
    bursts = forecaster.bursts(now_s)
    found = []
    for k, pool in enumerate(sorted(desk.quotas)):
        if request["pool"] not in (None, pool):
            continue
        steps = [
            {
                "from_s": edges_s[cell],
                "to_s": edges_s[cell + 1],
                **_spread("peak_gpus", peaks[:, k, cell], levels),
                **_spread("jobs", arrivals[:, k, cell], levels),
            }
            for cell in cells
        ]
        rare = [
            {"num_gpus": one.num_gpus, "num_jobs": one.num_jobs, "per_day": round(one.per_s * 86_400.0, 6)}
            for one in bursts
            if one.pool == k
        ]
        found.append({"pool": pool, "quota_gpus": desk.quotas[pool], "steps": steps, "bursts": rare})
    return {"pools": found, **_rests_on(desk)}


def _spread(name: str, drawn: Floats, levels: Sequence[float]) -> Json:
    at = np.quantile(drawn, levels)
    return {name: [round(float(one), 3) for one in at], f"{name}_mean": round(float(drawn.mean()), 3)}


def waits(desk: LiveDesk, request: Mapping[str, Any]) -> Json:
    """Why each job waits that does, as `antecast why` says it; a policy of its own is asked, not the desk's.

    Args:
        desk: told up to the instant of the question.
        request: `now_s`, `idle_gpus`, `is_lending`, and `job_id` or null for all.
    """
    trained = desk.trained
    now_s, idle_gpus = max(desk.now_s, float(request["now_s"])), int(request["idle_gpus"])
    policy, lives = copy.deepcopy((trained.policy, trained.forecasters.lives))
    scene = Scene(
        state=desk.standing(now_s, idle_gpus),
        owes=trained.owes,
        lends=trained.spec.lends,
        started_s=desk.started_s,
        survival=lives.survival,
        is_lending=bool(request["is_lending"]),
    )
    found = explain_waiting(policy, scene)
    chosen = [one for one in found if request["job_id"] in (None, one.job.job_id)]
    return {"at_s": now_s, "num_waiting": len(found), "jobs": rows_of(chosen)}


def _rests_on(desk: LiveDesk) -> Json:
    trained = desk.trained
    return {
        "models": trained.choice.as_settings(),
        "as_of_s": trained.training.now_s,
        "jobs_learned_from": len(trained.training.past),
    }


QUESTIONS: Final[Mapping[str, Callable[[LiveDesk, Mapping[str, Any]], Json]]] = {
    "lifetimes": lifetimes,
    "demand": demand,
    "waits": waits,
}
"""What can be asked. One line per question."""
