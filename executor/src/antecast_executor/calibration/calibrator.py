"""From what is asked of workers to what is done: which mechanism carries out a plan."""

from dataclasses import replace

from antecast_executor.calibration import lgrr, liss
from antecast_executor.calibration.words import Limits, Measurement, PackedSet, Plan, Setting, Verb


def first_setting(packed: PackedSet, share_pct: int = 100) -> Setting:
    """All workers at one share, and each job's samples shared out evenly, as far as memory allows."""
    return Setting(
        tuple((share_pct,) * item.width for item in packed.members),
        tuple(
            () if item.batch is None else liss.split(item.batch, [1.0] * item.width, item.most_local)
            for item in packed.members
        ),
    )


def calibrate(
    packed: PackedSet,
    setting: Setting,
    plan: Plan,
    *,
    limits: Limits,
    measured: Measurement | None = None,
    has_lgrr: bool = True,
    has_liss: bool = True,
) -> Setting:
    """The setting that carries a plan out, job by job.

    - A job with squeezes only, or swells only: their shares change (LGRR). Stragglers that this makes inside
      the job show in the next measurement; `rebalanced` then removes them.
    - A job with both: its samples move from slow to fast workers (LISS), and no share changes. Where samples
      cannot be moved, shares change in both directions.

    Args:
        packed: the set.
        setting: as it is now.
        plan: what is asked of its workers.
        limits: of the shares.
        measured: what was measured at `setting`; None if nothing was, so that no samples can be moved.
        has_lgrr: whether shares can be changed.
        has_liss: whether samples can be moved.
    """
    for place, item in enumerate(packed.members):
        calls = tuple(call for call in plan if call.worker.job_id == item.job_id)
        verbs = {call.verb for call in calls}
        if verbs == {Verb.SQUEEZE, Verb.SWELL} and has_liss and _can_steal(setting, measured, place):
            setting = _rebalanced(packed, setting, measured, place)
        elif calls and has_lgrr:
            shares, _ = lgrr.move(packed, setting.shares, calls, limits)
            setting = replace(setting, shares=shares)
    return setting


def rebalanced(packed: PackedSet, setting: Setting, measured: Measurement) -> Setting:
    """The setting after each job with stragglers has moved samples off them; no share changes."""
    for place in range(len(packed.members)):
        if _can_steal(setting, measured, place) and liss.slow_workers(measured.forwards[place]):
            setting = _rebalanced(packed, setting, measured, place)
    return setting


def _can_steal(setting: Setting, measured: Measurement | None, place: int) -> bool:
    known = measured is not None and bool(measured.forwards) and bool(measured.forwards[place])
    return known and bool(setting.batches[place])


def _rebalanced(packed: PackedSet, setting: Setting, measured: Measurement | None, place: int) -> Setting:
    if measured is None:
        return setting
    rows = list(setting.batches)
    rows[place] = liss.steal(rows[place], measured.forwards[place], packed.members[place].most_local)
    return replace(setting, batches=tuple(rows))
