"""The answer for all waiting jobs: the policy's own reasons or those of the state, tried out, and when."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from domain.jobs import Job
from solver.explain.places import Places
from solver.explain.scene import Scene, explain_by_state, no_host, no_promise
from solver.explain.starts import LEVEL, expected_starts, lives_left
from solver.explain.waits import behind_due
from solver.explain.words import Change, Explains, Lever, Waiting, Why, life_text
from solver.policies.base import Policy

_SHORT: frozenset[Why] = frozenset({Why.NO_IDLE_GPU, Why.WIDER_THAN_IDLE})
_UNTOLD: frozenset[Why] = frozenset({Why.NOT_CONSIDERED, Why.HELD_BY_POLICY})
"""Reasons that do not say for whom GPUs are kept: one of the nodes says more."""


def explain_waiting(policy: Policy, scene: Scene, level: float = LEVEL) -> list[Waiting]:
    """Why each job waits, by (submit, id).

    The policy is asked what it would do with more GPUs, so it is not to be used after this.

    Args:
        policy: told all facts up to the instant, its last plan carried out.
        scene: the cluster then.
        level: of the lives behind the latest expected start; those behind the earliest are at 1 - level.
    """
    state = scene.state
    if isinstance(policy, Explains):
        found = list(policy.waiting(state.now_s, state.idle_gpus))
    else:
        found = explain_by_state(scene)
    told = _Told(scene, Places(state), scene.due(), _gpus_needed(policy, scene))
    explained = (_completed(told, one) for one in found)
    return _with_intervals(scene, explained, level)


@dataclass(frozen=True, slots=True)
class _Told:
    """What reasons are completed with.

    Attributes:
        scene: the cluster.
        places: its nodes.
        due: own jobs that wait, in their order.
        needs: by id, with how many idle GPUs the policy would start a job now.
    """

    scene: Scene
    places: Places
    due: Sequence[Job]
    needs: Mapping[str, int]

    def is_due(self, job: Job) -> bool:
        """Whether a job is its pool's own and waits."""
        return any(one.job_id == job.job_id for one in self.due)

    def would_start(self, job: Job) -> bool:
        """Whether the policy, which counts GPUs only, would start a job now."""
        return self.needs.get(job.job_id, math.inf) <= self.scene.state.idle_gpus


def _completed(told: _Told, one: Waiting) -> Waiting:
    """The reason, or a stronger one that the policy knows nothing of; and how many GPUs would do."""
    job, scene = one.job, told.scene
    quota, idle_gpus = scene.state.quotas.get(job.pool, 0), scene.state.idle_gpus
    if scene.owes.has_own_lanes and job.num_gpus > quota:
        one = no_promise(job, quota)
    elif one.why in _SHORT and job.num_gpus > idle_gpus:
        one = no_host(scene, job) or one
    elif told.would_start(job) or told.is_due(job) or one.why in _UNTOLD:
        would_start = told.would_start(job)
        one = told.places.no_node_fits(job, would_start=would_start) or _kept_for_due(told, job) or one
    if not (scene.is_lending or told.is_due(job) or one.why is Why.NO_PROMISE):
        return _switched_off(scene, job, would_start=told.would_start(job))
    if not told.places.hold(job):
        # being sent back gives no place on the nodes
        one = replace(one, changes=tuple(two for two in one.changes if two.lever is not Lever.REQUEUEABLE))
    gpus = told.needs.get(job.job_id)
    is_told = any(change.lever is Lever.FREE_GPUS for change in one.changes)
    if gpus is None or gpus <= idle_gpus or is_told:
        return one
    change = Change(Lever.FREE_GPUS, gpus, f"starts at once if {gpus} GPUs were idle ({idle_gpus} are)")
    return replace(one, changes=(change, *one.changes))


def _kept_for_due(told: _Told, job: Job) -> Waiting | None:
    """That the nodes that would hold a job are kept for due ones that fit none yet; None if not so."""
    if not told.would_start(job):
        return None
    unfit = [one for one in told.due if one.job_id != job.job_id and not told.places.hold(one)]
    found = behind_due(job, unfit, told.scene.state.idle_gpus)
    if found is None:
        return None
    first = unfit[0]
    text = (
        f"job {first.job_id} of pool {first.pool} is due and fits no node yet: "
        "the nodes that would hold this job are kept for it"
    )
    return replace(found, text=text)


def _switched_off(scene: Scene, job: Job, *, would_start: bool) -> Waiting:
    since_s = scene.off_since_s
    since = "" if since_s is None else f" since {life_text(scene.state.now_s - since_s)}"
    text = f"lending is switched off for all pools{since}: it waits for its own lane"
    quota, own = scene.state.quotas.get(job.pool, 0), scene.state.own_gpus.get(job.pool, 0)
    evidence: dict[str, float | str] = {
        "off_for": "all pools",
        "idle_gpus": scene.state.idle_gpus,
        "width_gpus": job.num_gpus,
        "quota_gpus": quota,
        "own_gpus": own,
    }
    if since_s is not None:
        evidence["off_since_s"] = since_s
    change = Change(Lever.LENDING_ON, None, "starts at once if lending were switched on")
    return Waiting(job, Why.LENDING_OFF, text, evidence, (change,) if would_start else ())


def _gpus_needed(policy: Policy, scene: Scene) -> dict[str, int]:
    """By id, with how many idle GPUs the policy would start a job now; those found by asking it."""
    state = scene.state
    capacity = sum(state.quotas.values())
    needs: dict[str, int] = {}
    for gpus in _tried(state.idle_gpus, capacity):
        for start in policy.decide(state.now_s, gpus).starts:
            needs.setdefault(start.job.job_id, gpus)
    return needs


def _tried(idle_gpus: int, capacity_gpus: int) -> list[int]:
    """Numbers of idle GPUs to ask about: one by one at first, then in ever larger steps."""
    more = [*range(17), *(2**k for k in range(5, 31))]
    return sorted({min(idle_gpus + one, capacity_gpus) for one in more if idle_gpus <= capacity_gpus})


def _with_intervals(scene: Scene, found: Iterable[Waiting], level: float) -> list[Waiting]:
    state = scene.state
    curves = {job_id: scene.survival(one.job) for job_id, one in state.known.items()}
    ages_s = {job_id: state.now_s - since_s for job_id, since_s in scene.started_s.items()}
    lendable = [job.job_id for job in scene.waiting() if scene.may_lend_to(job)]
    starts = expected_starts(state, lives_left(curves, ages_s, level), lends_to=lendable)
    complete = []
    for one in sorted(found, key=lambda one: (one.job.submit_s, one.job.job_id)):
        earliest_s, latest_s = starts[one.job.job_id]
        complete.append(replace(one, earliest_s=earliest_s, latest_s=latest_s))
    return complete
