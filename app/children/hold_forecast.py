"""By when the GPUs of a plan's holds will be there, by the forecast lives of what runs.

Each running job ends by an instant with the chance that its forecast life, given its age, leaves; lives are
taken as independent, so the GPUs that are free by then are a sum of independent widths, whose law is
convolved exactly. What may yet be submitted is left out, and so is whatever else might take GPUs that become
free: holds are served in their order, and nothing but an own start may have what they keep.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from app.children.state import LiveDesk
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.measures import SLOWED_AFTER_S
from solver.lives import FloatArray, alive_given_age

LIKELY: Final = 0.9
"""Chance by which GPUs count as likely to be there."""

MOST_JOBS: Final = 500
"""So many running jobs are looked at, the longest running first; with more the chances are lower bounds."""


def feasibility(
    desk: LiveDesk, answer: Mapping[str, Any], now_s: float, idle_gpus: int
) -> list[dict[str, Any]]:
    """One entry for each hold of an answer, in its order.

    Returns:
        `by_s`: the deadline, `until_s` where the hold has one, else the instant from which on a job that is
        due now may count as slowed. `charged_to`: the pool in whose quota the GPUs are. `idle_gpus`: those of
        the hold that are idle once the answer is carried out. `probability`: that all are there by the
        deadline. `likely_by_s`: first instant with `LIKELY`; None beyond what lives are forecast for.
        `bound_s`: they are there by then at the latest, by the limits of what runs; None where these do not
        say.
    """
    holds = answer["holds"]
    if not holds:
        return []
    starting, leaving = {one["job_id"] for one in answer["starts"]}, set(answer["send_backs"])
    running = desk.running()
    idle = idle_gpus + sum(job.num_gpus for job, _ in running if job.job_id in leaving)
    idle -= sum(desk.width(job_id) for job_id in starting)
    stays = [(job, since_s) for job, since_s in running if job.job_id not in leaving][:MOST_JOBS]
    deadlines = [_deadline_s(hold, now_s) for hold in holds]
    ahead_s = np.array(sorted({*LIFE_EDGES_S, *(by_s - now_s for by_s in deadlines)}))
    alive = _alive(desk, stays, now_s, ahead_s)
    found, before = [], 0
    for hold, by_s in zip(holds, deadlines, strict=True):
        wanted = before + hold["num_gpus"]
        chances = chance_of(wanted - idle, stays, alive, len(ahead_s))
        likely = np.flatnonzero(chances >= LIKELY)
        latest_s = bound_s(wanted - idle, stays, now_s)
        found.append(
            {
                "by_s": by_s,
                "charged_to": hold["pool"],
                "idle_gpus": int(min(max(idle - before, 0), hold["num_gpus"])),
                "probability": round(float(chances[np.searchsorted(ahead_s, by_s - now_s)]), 6),
                "likely_by_s": _first(likely, ahead_s, now_s, wanted <= idle),
                "bound_s": latest_s if math.isfinite(latest_s) else None,
            }
        )
        before = wanted
    return found


def _deadline_s(hold: Mapping[str, Any], now_s: float) -> float:
    until_s = hold.get("until_s")
    return now_s + SLOWED_AFTER_S if until_s is None else max(float(until_s), now_s)


def _first(likely: Any, ahead_s: FloatArray, now_s: float, is_there: bool) -> float | None:
    if is_there:
        return now_s
    return now_s + float(ahead_s[likely[0]]) if likely.size else None


def _alive(
    desk: LiveDesk, running: Sequence[tuple[Job, float]], now_s: float, ahead_s: FloatArray
) -> FloatArray:
    """(jobs, instants) chance that a job still runs then; none after its limit."""
    if not running:
        return np.zeros((0, len(ahead_s)))
    lives = desk.trained.forecasters.lives
    curves = np.array([list(lives.survival(job)) for job, _ in running], dtype=float)
    ages_s = np.array([[max(now_s - since_s, 0.0)] for _, since_s in running])
    left_s = np.array(
        [[math.inf if job.limit_s is None else since_s + job.limit_s - now_s] for job, since_s in running]
    )
    alive = alive_given_age(curves, ages_s, ahead_s[None, :])
    return np.where(ahead_s[None, :] < left_s, alive, 0.0)


def chance_of(
    missing: int, running: Sequence[tuple[Job, float]], alive: FloatArray, num_instants: int
) -> FloatArray:
    """(instants,) P(jobs as wide as `missing` have ended): the law of the sum, all above it in one bin."""
    if missing <= 0:
        return np.ones(num_instants)
    law = np.zeros((num_instants, missing + 1))
    law[:, 0] = 1.0
    for (job, _), still in zip(running, alive, strict=True):
        width = min(job.num_gpus, missing)
        shifted = np.zeros_like(law)
        shifted[:, width:] = law[:, : missing + 1 - width]
        shifted[:, missing] += law[:, missing + 1 - width :].sum(axis=1)
        law = law * still[:, None] + shifted * (1.0 - still)[:, None]
    return np.minimum(law[:, missing], 1.0)


def bound_s(missing: int, running: Sequence[tuple[Job, float]], now_s: float) -> float:
    """When limits alone have freed so many GPUs; infinite where too few jobs have one."""
    if missing <= 0:
        return now_s
    for end_s, width in sorted(
        (max(since_s + job.limit_s, now_s), job.num_gpus)
        for job, since_s in running
        if job.limit_s is not None
    ):
        missing -= width
        if missing <= 0:
            return end_s
    return math.inf
