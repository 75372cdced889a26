"""The promise's half of the plan checker: who may be served before a due job, and who may be passed over.

Nothing is lent while a due job that could use the GPUs waits, whether or not the plan calls it late. There
is one way around: where GPUs are too few for all who are due, a policy may serve by the reference, in which
jobs beyond a lane take their turn (`PlanOptions.serves_by_reference`). Who they are only lengths could tell
for sure; they belong to a pool that itself has a due job, and stand at the head of what waits behind its
lane.

`late` is an excuse for GPUs that are too few, not for leaving them idle: whoever would fit what the plan
leaves over starts, unless it is kept for somebody who is not late and needs more.
"""

from collections.abc import Iterator

from domain.jobs import Job
from domain.measures import is_slowed
from solver.check_places import has_place_left
from solver.check_scene import Scene, fault
from solver.plan_rules import Known, PlanFault, PlanRule, Standing


def lending(scene: Scene) -> Iterator[PlanFault]:
    """Guests are beyond their lane, and no due job that waits could have used their GPUs."""
    for job, is_guest in scene.plan.starts:
        if not is_guest:
            continue
        if job.job_id in scene.due:
            yield fault(PlanRule.GUEST_INSIDE_ITS_LANE, job, "is to start as a guest, but is due as own")
        waits = _waits_for(scene, job) if scene.gpus_for(job) else None
        if waits is not None:
            yield fault(
                PlanRule.LENT_WHILE_DUE_JOB_WAITS,
                job,
                f"is lent {job.num_gpus} GPUs while job {waits.job_id} of pool {waits.pool} is due",
            )


def lateness(scene: Scene) -> Iterator[PlanFault]:
    """Who is passed over is slowed already, as far as its waiting tells, and finds too few GPUs.

    Only lengths could tell for sure who is late.
    """
    for job in scene.plan.late:
        waited_s = scene.state.now_s - job.submit_s
        if job.job_id not in scene.due or not is_slowed(waited_s):
            yield fault(
                PlanRule.PASSED_OVER_BUT_NOT_LATE,
                job,
                f"is passed over as late, but is not due or has waited for {waited_s:g} s only",
            )
        elif _would_fit(scene, job):
            yield fault(
                PlanRule.PASSED_OVER_BUT_WOULD_FIT,
                job,
                f"is passed over as late, but would fit the {scene.left_gpus} GPUs that are left idle",
            )


def _waits_for(scene: Scene, guest: Job) -> Job | None:
    """A due job that is left waiting and that this guest may not be served before."""
    waits = [one.job for one in (*scene.left.values(), *scene.late.values()) if _could_use(scene, guest, one)]
    if not waits:
        return None
    if not _may_take_its_turn(scene, guest):
        return waits[0]
    # whoever is passed over as late is judged by `lateness`
    return next((job for job in waits if job.job_id in scene.left and _would_fit(scene, job)), None)


def _could_use(scene: Scene, guest: Job, waits: Known) -> bool:
    """Whether GPUs that a guest is lent are of a type that a due job could use."""
    placed = (place for place in scene.plan.placements if place.job_id == guest.job_id)
    types = {gpu.gpu_type for place in placed for gpu in place.gpus}
    if not types and guest.gpu_type is not None:
        types = {guest.gpu_type}
    wanted = waits.job.gpu_type
    return wanted is None or not types or bool(types & {wanted, "any"})


def _would_fit(scene: Scene, job: Job) -> bool:
    """Whether a due job could have had the GPUs that the plan leaves idle: they are kept for nobody."""
    return job.job_id not in scene.started and scene.fits_left(job) and not _is_kept(scene)


def _is_kept(scene: Scene) -> bool:
    """Whether what stays idle may be kept: for one who is not late and for whom it is not enough yet."""
    late = {job.job_id for job in scene.plan.late}
    first = (one.job for job_id, one in scene.due.items() if job_id not in late | scene.started)
    if any(not scene.fits_left(job) for job in first):
        return True
    return scene.options.serves_by_reference and any(
        one.standing is Standing.WAITING
        and job_id not in scene.started
        and not scene.fits_left(one.job)
        and _may_take_its_turn(scene, one.job)
        for pool in {one.job.pool for one in scene.due.values()}
        for job_id, one in scene.state.lines.get(pool, {}).items()
    )


def _may_take_its_turn(scene: Scene, job: Job) -> bool:
    """Whether the reference may have started a job that waits beyond its lane, as far as the state tells.

    First come, first served: whoever stands before it and waits has been started there too. So that one is
    due, starts as well, or is late by now, unless it finds no place on the nodes.
    """
    state, width = scene.state, job.num_gpus
    has_due = any(one.job.pool == job.pool for one in scene.due.values())
    if not (scene.options.serves_by_reference and has_due) or width > state.quotas.get(job.pool, 0):
        return False
    for job_id, one in state.lines.get(job.pool, {}).items():
        if job_id == job.job_id:
            return job_id not in scene.due
        is_served = one.standing is Standing.GUEST or job_id in scene.due or job_id in scene.started
        is_late = is_slowed(state.now_s - one.job.submit_s)
        if not (is_served or is_late) and has_place_left(state, scene.plan, one.job):
            return False
    return False
