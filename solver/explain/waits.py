"""Reasons that any policy with lanes may have: guests have the GPUs, others are due, too few are idle."""

from collections.abc import Sequence

from domain.jobs import Job
from solver.explain.words import Change, Lever, Waiting, Why


def explain_due(due: Sequence[Job], idle_gpus: int) -> list[Waiting]:
    """Why own jobs wait although their lanes have reached them: guests have their GPUs still."""
    found: list[Waiting] = []
    before_gpus = 0
    for job in due:
        before_gpus += job.num_gpus
        if found and job.num_gpus <= idle_gpus:
            first = found[0].job
            why = Why.BEHIND_DUE_JOB
            text = f"its lane has reached it, but job {first.job_id} of pool {first.pool} is due before it"
        else:
            why, text = _short(job, idle_gpus)
            text = f"its lane has reached it, but guests have its GPUs still: {text}"
        more = before_gpus - idle_gpus
        change = Change(Lever.FREE_GPUS, before_gpus, f"starts at once if {more} more GPUs were idle")
        evidence = {"idle_gpus": idle_gpus, "due_gpus": before_gpus}
        found.append(Waiting(job, why, text, evidence, (change,)))
    return found


def behind_due(job: Job, due: Sequence[Job], idle_gpus: int) -> Waiting | None:
    """That nothing is lent while an own job waits; None if none does."""
    if not due:
        return None
    first, wanted = due[0], sum(one.num_gpus for one in due)
    text = (
        f"job {first.job_id} of pool {first.pool} is due and waits for {first.num_gpus} GPUs: "
        "what comes free is kept for it"
    )
    evidence: dict[str, float | str] = {
        "due_job": first.job_id,
        "due_pool": first.pool,
        "due_gpus": wanted,
        "idle_gpus": idle_gpus,
    }
    change = Change(
        Lever.DUE_JOB_SERVED, wanted, f"may be lent to once the {len(due)} due job(s) have started"
    )
    return Waiting(job, Why.BEHIND_DUE_JOB, text, evidence, (change,))


def short_of_gpus(job: Job, idle_gpus: int) -> Waiting | None:
    """That there are too few idle GPUs; None if there are enough."""
    if job.num_gpus <= idle_gpus:
        return None
    why, text = _short(job, idle_gpus)
    return Waiting(job, why, text, {"idle_gpus": idle_gpus, "width_gpus": job.num_gpus})


def _short(job: Job, idle_gpus: int) -> tuple[Why, str]:
    if idle_gpus <= 0:
        return Why.NO_IDLE_GPU, "no GPU is idle"
    return Why.WIDER_THAN_IDLE, f"it asks for {job.num_gpus} GPUs, {idle_gpus} are idle"
