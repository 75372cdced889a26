"""The own part of a plan put on a board: who gets GPUs, who is sent back for them, who has to wait."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from domain.cluster import Gpu
from domain.jobs import Job
from solver.placement.board import Board, Tenant


@dataclass(slots=True)
class Settled:
    """What becomes of jobs that are due.

    Attributes:
        send_backs: guests that were sent back.
        placed: GPUs of those that start, by job id.
        blocked: those that found no place.
        barred: nodes kept for these.
    """

    send_backs: list[Job] = field(default_factory=list)
    placed: dict[str, tuple[Gpu, ...]] = field(default_factory=dict)
    blocked: list[Job] = field(default_factory=list)
    barred: set[str] = field(default_factory=set)


def settle(
    board: Board, due: Iterable[Job], now_s: float, until_s: Callable[[Job], float], drains: int
) -> Settled:
    """Put own jobs on a board, the widest first; guests that may go make room where nothing else does.

    Args:
        board: who is where; changed.
        due: own jobs that are to start.
        now_s: the instant.
        until_s: instant by which a job is expected to have ended.
        drains: for a job that finds no place, so many sets of nodes are kept as they become free.
    """
    done = Settled()
    for job in sorted(due, key=lambda job: -job.num_gpus):
        gpus = _place_due(board, job, until_s(job), done)
        if gpus is None:
            done.blocked.append(job)
            done.barred |= _draining(board, job, now_s, done.barred, drains)
        else:
            done.placed[job.job_id] = gpus
    return done


def _place_due(board: Board, job: Job, until_s: float, done: Settled) -> tuple[Gpu, ...] | None:
    """GPUs of an own job, on nodes that are kept for others only if there are no others."""
    gpus = board.find(job, until_s, done.barred) or board.find(job, until_s)
    if gpus is None:
        victims = board.vacate(job)
        if victims is None:
            return None
        for victim in victims:
            board.remove(victim.job_id)
        done.send_backs += victims
        gpus = board.find(job, until_s)
    if gpus is not None:
        board.put(Tenant(job, gpus, until_s))
    return gpus


def _draining(board: Board, job: Job, now_s: float, barred: set[str], drains: int) -> set[str]:
    """Nodes kept for an own job that found no place."""
    kept: set[str] = set()
    for _ in range(drains):
        kept |= set(board.drain(job, now_s, barred | kept))
    return kept
