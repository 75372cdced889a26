"""Whom to send back: shared by the policies that may."""

from collections.abc import Iterable

from domain.checkpoints import KeptWork
from domain.jobs import Job


def least_lost_first(youngest_first: Iterable[Job], kept: KeptWork, now_s: float) -> list[Job]:
    """Guests in the order of the running time they would lose now: since the last checkpoint, or the start.

    Where nobody has checkpoints that is youngest first. Ties stay as they come.
    """
    found = list(youngest_first)
    if any(job.checkpoint_s is not None for job in found):
        found.sort(key=lambda job: kept.at_risk_s(job, now_s))
    return found


def fewest(candidates: Iterable[Job], missing_gpus: int) -> list[Job]:
    """The first candidates that give up `missing_gpus` together, or all there are.

    None of them could be spared: what is left over is narrower than each of them.
    """
    chosen: list[Job] = []
    spare = -missing_gpus
    for job in candidates if spare < 0 else ():
        chosen.append(job)
        spare += job.num_gpus
        if spare >= 0:
            break
    for job in list(chosen):
        if job.num_gpus <= spare:
            chosen.remove(job)
            spare -= job.num_gpus
    return chosen
