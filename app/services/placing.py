"""Where the starts of a decision go, on the nodes of a cluster that our executors enforce."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from app.services import places
from app.services.facts import job_of
from app.store.tables import JobRow, LiveState
from domain.cluster import Gpu, Node
from domain.jobs import Job

_log = structlog.get_logger(__name__)

NOT_THERE: Final = "its GPUs are not there yet"
"""Why a start is dropped whose GPUs have been taken since, or that has to wait for one that is."""


@dataclass(frozen=True)
class Placed:
    """What becomes of the starts of a decision.

    Attributes:
        gpus: of each that starts, by job id.
        dropped: why each of the others waits, by job id.
    """

    gpus: dict[str, Sequence[Gpu]]
    dropped: dict[str, str]


def place_wanted(
    jobs: Mapping[str, JobRow],
    there: Sequence[Node],
    wanted: Sequence[JobRow],
    guests: Mapping[str, bool],
    holds: Iterable[Mapping[str, Any]],
) -> Placed:
    """GPUs of those that get some.

    Too few GPUs: what comes after an own job that has to wait must not overtake it. Enough GPUs, but on the
    wrong nodes: it waits with that reason, nodes are kept for it, and the others go on.

    Args:
        jobs: unfinished jobs by id, in the order of their lines.
        there: nodes that are there.
        wanted: jobs to start, in the order of the decision.
        guests: whether each of them starts as a guest.
        holds: GPUs that the decision keeps for pools.
    """
    idle = _idle(jobs, there)
    fitting, short = _by_sum(wanted, guests, sum(map(len, idle.values())))
    if not fitting:
        return Placed({}, dict.fromkeys((job.job_id for job in short), NOT_THERE))
    from solver.placement.decision import Starts, place_starts  # noqa: PLC0415 - numpy; most never place

    held = _held(jobs, wanted, holds)
    starts = Starts(
        own=[job_of(job) for job in fitting if not guests[job.job_id]],
        held=held,
        guests=[job_of(job) for job in fitting if guests[job.job_id]],
    )
    dealt = place_starts(starts, idle, there, [job.num_gpus for job in jobs.values()])
    for job_id, reason in dealt.unplaced.items():
        _log.info("start_has_no_place", job_id=job_id, why=reason.why.value, found=reason.text)
    cells = [
        (job, dealt.kept[job.job_id]) for job in held if len(dealt.kept.get(job.job_id, ())) == job.num_gpus
    ]
    refused = places.refused(jobs, there, dealt.places, cells)
    dropped = {job_id: str(reason) for job_id, reason in dealt.unplaced.items()} | refused
    return _without_refused(fitting, short, guests, Placed(dict(dealt.places), dropped), refused)


def _without_refused(
    fitting: Sequence[JobRow],
    short: Sequence[JobRow],
    guests: Mapping[str, bool],
    placed: Placed,
    refused: Mapping[str, str],
) -> Placed:
    """What is left of the places once the checker has refused some: nobody overtakes a refused own job."""
    gpus: dict[str, Sequence[Gpu]] = {}
    dropped = dict(placed.dropped)
    is_blocked = False
    for job in fitting:
        if job.job_id in refused:
            is_blocked = is_blocked or not guests[job.job_id]
        elif is_blocked:
            dropped.setdefault(job.job_id, NOT_THERE)
        elif job.job_id in placed.gpus:
            gpus[job.job_id] = placed.gpus[job.job_id]
    for job in short:
        dropped[job.job_id] = NOT_THERE
    return Placed(gpus, dropped)


def _by_sum(
    wanted: Sequence[JobRow], guests: Mapping[str, bool], idle_gpus: int
) -> tuple[list[JobRow], list[JobRow]]:
    """Jobs for which idle GPUs suffice in sum, and the others."""
    fitting: list[JobRow] = []
    short: list[JobRow] = []
    is_blocked = False
    for job in wanted:
        if is_blocked or job.num_gpus > idle_gpus:
            is_blocked = is_blocked or not guests[job.job_id]
            short.append(job)
        else:
            idle_gpus -= job.num_gpus
            fitting.append(job)
    return fitting, short


def _held(
    jobs: Mapping[str, JobRow], wanted: Iterable[JobRow], holds: Iterable[Mapping[str, Any]]
) -> list[Job]:
    """The gangs that GPUs are held for: the first of pool and width that waits, else any of that width."""
    waiting = [job for job in jobs.values() if job.state == LiveState.WAITING]
    gone = {job.job_id for job in wanted}
    held: list[Job] = []
    for number, hold in enumerate(holds):
        pool, num_gpus = str(hold["pool"]), int(hold["num_gpus"])
        fits = (
            job for job in waiting if job.job_id not in gone and (job.pool, job.num_gpus) == (pool, num_gpus)
        )
        found = next(fits, None)
        held.append(Job(_no_job(number, jobs), pool, 0.0, num_gpus) if found is None else job_of(found))
        gone.add(held[-1].job_id)
    return held


def _no_job(number: int, jobs: Mapping[str, JobRow]) -> str:
    """A name for a hold that is for no job in particular, and no job's."""
    return next(name for k in itertools.count(number, 1_000) if (name := f"hold {k}") not in jobs)


def _idle(jobs: Mapping[str, JobRow], there: Sequence[Node]) -> dict[str, list[Gpu]]:
    """Idle GPUs of each node that is there."""
    taken = {(str(node), int(index)) for job in jobs.values() for node, index in job.gpus}
    return {node.name: [gpu for gpu in node.gpus() if (node.name, gpu.index) not in taken] for node in there}
