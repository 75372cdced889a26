"""Whom to send back: shared by the policies that may."""

from collections.abc import Iterable

from domain.jobs import Job


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
