"""The places that a decision gives jobs, before the independent checker, before anybody hears of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from app.services.facts import job_of
from app.store.tables import JobRow, LiveState
from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from solver.check_places import place_faults
from solver.plan_rules import Known, PlanRule, Standing, state_of

_log = structlog.get_logger(__name__)

_TOLERATED: Final = frozenset({PlanRule.MORE_NODES_THAN_NEEDED})
"""Broken rules that are noted only: a gang spread too far runs slower, one that is refused does not run."""


def refused(
    jobs: Mapping[str, JobRow],
    nodes: Iterable[Node],
    places: Mapping[str, Sequence[Gpu]],
    cells: Iterable[tuple[Job, Sequence[Gpu]]] = (),
) -> dict[str, str]:
    """Jobs whose places break a rule, and what was found.

    Args:
        jobs: unfinished jobs by id, those that are placed among them.
        nodes: those that are there.
        places: of each job that is to start, its GPUs; a rider has those of its host.
        cells: gangs that wait and the GPUs that are kept for them, which are judged as if they started: a
            hold that is no place for its gang is found out, and so is a start that breaks one.
    """
    if not places:
        return {}
    state = state_of(0.0, 0, {}, map(_known, jobs.values()), tuple(nodes))
    gangs = [(job, gpus) for job, gpus in cells]
    gangs += [(state.known[job_id].job, gpus) for job_id, gpus in places.items()]
    plan = Plan(
        starts=tuple(Start(job, True) for job, _ in gangs),
        placements=tuple(Placement(job.job_id, tuple(gpus)) for job, gpus in gangs),
    )
    found: dict[str, str] = {}
    for fault in place_faults(state, plan):
        _log.error("place_breaks_rule", rule=fault.rule.value, job_id=fault.job_id, found=fault.message)
        if fault.rule not in _TOLERATED and fault.job_id is not None:
            found.setdefault(fault.job_id, str(fault))
    return found


def _known(row: JobRow) -> Known:
    standing = Standing.WAITING
    if row.state == LiveState.RUNNING:
        standing = Standing.GUEST if row.own_from_s is None else Standing.OWN
    gpus = tuple(Gpu(str(node), int(index)) for node, index in row.gpus)
    return Known(job_of(row), standing, gpus, bool((row.spec or {}).get("is_shareable")))
