"""Who waits after a decision, until when and why, in a word each: what goes with the answer to it.

It asks neither policy nor forecasters: those must not be asked at other instants than in a replay.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.children.state import LiveDesk
from solver.explain.codes import Waits, starts_by_limits
from solver.explain.words import Explains, Why

MOST: Final = 100
"""Jobs that are named."""

FEW: Final = 64
"""Unfinished jobs up to which they are named though nobody has said whether they should be."""


def waits_of(
    desk: LiveDesk, answer: Mapping[str, Any], seq: int, *, is_wanted: bool | None
) -> dict[str, Any] | None:
    """How many wait once an answer is carried out and, where it is wanted, the first of them.

    Args:
        desk: has just made the decision; it is not changed.
        answer: of the desk.
        seq: the decision's entry of the log.
        is_wanted: whether to name them; where None, only if few jobs are unfinished.

    Returns:
        `total` and `jobs`, each with `job_id`, `why` and `until_s`; None if the desk has moved on since.
    """
    if desk.seq > seq:
        return None
    starting = {start["job_id"] for start in answer["starts"]}
    said: dict[str, Any] = {
        "total": desk.num_waiting() - len(starting) + len(answer["send_backs"]),
        "jobs": [],
    }
    decided = desk.decided
    if is_wanted is False or decided is None:
        return said
    idle_gpus, is_lending = decided
    gone = [desk.job(job_id) for job_id in answer["send_backs"]]
    idle_gpus += sum(job.num_gpus for job in gone if job is not None)
    starts = [desk.job(job_id) for job_id in sorted(starting)]
    idle_gpus -= sum(job.num_gpus for job in starts if job is not None)
    state = desk.counts(idle_gpus)
    if is_wanted is None and len(state.known) > FEW:
        return said
    trained = desk.trained
    waits = Waits(
        state=state,
        owes=trained.owes,
        lends=trained.spec.lends,
        is_lending=is_lending,
        explains=isinstance(trained.policy, Explains),
        starting=starting,
        stopping=set(answer["send_backs"]),
    )
    found = waits.first(MOST)
    found += [(job, Why.NO_PROMISE) for job in desk.without_promise()[: MOST - len(found)]]
    until_s = starts_by_limits(state, desk.started_s, {job.pool for job, _ in found})
    said["jobs"] = [
        {"job_id": job.job_id, "why": why.value, "until_s": until_s.get(job.job_id)} for job, why in found
    ]
    return said
