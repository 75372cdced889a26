"""When a waiting job can be expected to start: between what could come free and what its own lane holds.

The latest instant is that of its own lane: its pool served first come, first served, every life at a high
level. The promise is that it starts no later, so only lives that run longer than that level can make it
wrong. The earliest is when enough GPUs of the cluster may be idle, every life at a low level, or when its
own lane may reach it at that level, whichever comes first.
"""

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S
from solver.lives import survival_at
from solver.plan_rules import PlanState, Standing

FloatArray = NDArray[np.float64]

LEVEL: Final = 0.95
"""Level of the lives behind the latest instant; those behind the earliest are at 1 - LEVEL."""

_EDGES_S: Final = np.array(LIFE_EDGES_S)
_LEAST_SURVIVAL: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Lives:
    """How long each unfinished job still runs, or will run once it starts, seconds.

    Attributes:
        low_s, high_s: at the low and at the high level, by id.
    """

    low_s: Mapping[str, float]
    high_s: Mapping[str, float]


def lives_left(
    curves: Mapping[str, Sequence[float]], ages_s: Mapping[str, float], level: float = LEVEL
) -> Lives:
    """Remaining lives at two levels, given what each job has lived.

    Args:
        curves: survival of each job at `LIFE_EDGES_S`.
        ages_s: how long each has run; 0 for one that waits.
        level: the high level; the low one is 1 - level.
    """
    if not curves:
        return Lives({}, {})
    names = list(curves)
    table = np.array([curves[name] for name in names], dtype=float)
    ages = np.array([max(ages_s.get(name, 0.0), 0.0) for name in names])
    low, high = _left_s(table, ages, 1.0 - level), _left_s(table, ages, level)
    return Lives(dict(zip(names, low.tolist(), strict=True)), dict(zip(names, high.tolist(), strict=True)))


def expected_starts(
    state: PlanState, lives: Lives, *, lends_to: Iterable[str]
) -> dict[str, tuple[float, float]]:
    """Earliest and latest expected start of each waiting job, by id.

    Args:
        state: the cluster, after the decision of its instant.
        lives: how long jobs still run.
        lends_to: ids of the jobs that may start beyond their lanes.
    """
    lendable = set(lends_to)
    latest = lane_starts(state, lives.high_s)
    earliest = lane_starts(state, lives.low_s)
    free_at_s = _free_at_s(state, lives.low_s)
    found: dict[str, tuple[float, float]] = {}
    for one in state.known.values():
        job = one.job
        if one.standing is not Standing.WAITING:
            continue
        first_s = earliest.get(job.job_id, math.inf)
        if job.job_id in lendable:
            first_s = min(first_s, _first_with(free_at_s, job.num_gpus))
        last_s = latest.get(job.job_id, math.inf)
        found[job.job_id] = (min(first_s, last_s), last_s)
    return found


def _left_s(curves: FloatArray, ages_s: FloatArray, level: float) -> FloatArray:
    """(jobs,) the time within which a share `level` of such jobs ends; straight between the edges."""
    now_alive = survival_at(curves, ages_s[:, None])
    ahead = survival_at(curves, ages_s[:, None] + _EDGES_S)
    known = now_alive[:, 0] >= _LEAST_SURVIVAL
    gone = 1.0 - np.where(known[:, None], ahead / np.where(known[:, None], now_alive, 1.0), 0.0)
    reached = gone >= level
    place = np.where(reached.any(axis=1), reached.argmax(axis=1), _EDGES_S.size - 1)
    rows = np.arange(curves.shape[0])
    before_s = np.where(place > 0, _EDGES_S[place - 1], 0.0)
    gone_before = np.where(place > 0, gone[rows, place - 1], 0.0)
    step = np.maximum(gone[rows, place] - gone_before, 1e-12)
    share = np.clip((level - gone_before) / step, 0.0, 1.0)
    left = before_s + share * (_EDGES_S[place] - before_s)
    # one that has outlived its curve halves its chances with every doubling of its age
    return np.where(known, left, (ages_s + 1.0) * level / (1.0 - level))


def lane_starts(
    state: PlanState, left_s: Mapping[str, float], pools: Collection[str] | None = None
) -> dict[str, float]:
    """When each lane reaches each waiting job, if lives are these and nobody is lent anything any more.

    Args:
        state: the cluster.
        left_s: by id, how long each job of these pools still runs, or will.
        pools: those asked about; all where None.
    """
    starts: dict[str, float] = {}
    own: dict[str, list[tuple[float, int]]] = {}
    for one in state.known.values():
        if one.standing is Standing.OWN and (pools is None or one.job.pool in pools):
            end_s = state.now_s + left_s[one.job.job_id]
            own.setdefault(one.job.pool, []).append((end_s, one.job.num_gpus))
    for pool, line in state.lines.items():
        if pools is not None and pool not in pools:
            continue
        ends = own.get(pool, [])
        heapq.heapify(ends)
        room, at_s = state.quotas.get(pool, 0) - state.own_gpus.get(pool, 0), state.now_s
        for job_id, one in line.items():
            job = one.job
            guest_until_s = state.now_s + left_s[job_id] if one.standing is Standing.GUEST else math.inf
            if job.num_gpus > state.quotas.get(pool, 0):
                continue
            while job.num_gpus > room and ends and at_s < guest_until_s:
                end_s, width = heapq.heappop(ends)
                at_s, room = max(at_s, end_s), room + width
            if job.num_gpus > room or at_s >= guest_until_s:
                continue  # a guest that has ended before its lane reached it
            room -= job.num_gpus
            if one.standing is Standing.WAITING:
                starts[job_id] = at_s
                heapq.heappush(ends, (at_s + left_s[job_id], job.num_gpus))
            else:
                heapq.heappush(ends, (guest_until_s, job.num_gpus))
    return starts


def _free_at_s(state: PlanState, left_s: Mapping[str, float]) -> list[tuple[float, int]]:
    """Instants at which GPUs come free, and how many are idle from then on, nobody taking any."""
    running = [one.job for one in state.known.values() if one.standing is not Standing.WAITING]
    idle, steps = state.idle_gpus, [(state.now_s, state.idle_gpus)]
    for job in sorted(running, key=lambda job: (left_s[job.job_id], job.job_id)):
        idle += job.num_gpus
        steps.append((state.now_s + left_s[job.job_id], idle))
    return steps


def _first_with(free_at_s: Sequence[tuple[float, int]], gpus: int) -> float:
    return next((at_s for at_s, idle in free_at_s if idle >= gpus), math.inf)
