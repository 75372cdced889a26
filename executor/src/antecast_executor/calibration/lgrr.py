"""Restricting a worker's part of the GPU: the MPS share, in steps of 10 % (Gimbal's LGRR)."""

from antecast_executor.calibration.words import Call, Limits, PackedSet, Plan, Setting, Verb

STEP_PCT = 10
SWITCH_S = 3.6
"""How long a job stands still while its workers change to another share, all at the same time.

Gimbal's mean over its models (a second CUDA context is made and the first one let go).
"""

Shares = tuple[tuple[int, ...], ...]


def move(packed: PackedSet, shares: Shares, plan: Plan, limits: Limits) -> tuple[Shares, Plan]:
    """The shares after a plan, and those of its calls that changed something.

    A share moves by a whole step or not at all, so that the opposite call leads back to where it was. The
    share of a worker that is alone on its GPU stays: to cap it would help nobody.
    """
    rows = [list(row) for row in shares]
    done: list[Call] = []
    for call in plan:
        place, index = packed.place_of(call.worker.job_id), call.worker.index
        step = -STEP_PCT if call.verb is Verb.SQUEEZE else STEP_PCT
        wanted = rows[place][index] + step
        if packed.shared[place][index] and limits.least[place][index] <= wanted <= limits.most[place][index]:
            rows[place][index] = wanted
            done.append(call)
    return tuple(map(tuple, rows)), tuple(done)


def switched(before: Setting, after: Setting) -> tuple[bool, ...]:
    """For each job whether it has to switch: to stand still for SWITCH_S once. Moving samples is free."""
    return tuple(old != new for old, new in zip(before.shares, after.shares, strict=True))


def switches(before: Setting, after: Setting) -> int:
    """How many jobs have to switch."""
    return sum(switched(before, after))
