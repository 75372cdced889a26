"""A chosen plan, checked on thousands of fresh draws.

Lines, normal spreads and means stand behind a plan. Here nothing is integrated: in each draw every job that
runs or starts lives one life (a job is alive in a cell iff its u in (0, 1) is below P(alive there)), jobs of
one burst draw correlated ones (Gaussian copula), arrivals are one scenario that the plan has not seen, and
the need is counted pool by pool, with own width o, guests g, waiting b and peak of arrivals a:

    need = o + g + min(b, quota - o) + min(a, quota - o - b - g)        each bracket at least 0

(of each quota, what its own jobs take that ride with others is left out too),
once with the chosen jobs among those that wait and once among the guests, on the same lives. What is missing
more in a cell slows as many as in `solver.lookahead`, but counted on the lives drawn: per GPU

    (jobs to come x max(1, a / (quota - o - b - g)) + jobs that wait x min(1, GPUs due)) / (1 + all GPUs due)

where lane starts, GPUs and jobs alike, count by their urgency, and jobs by what one of their pool counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import ndtri

from solver.lending.curves import FloatArray
from solver.lending.problem import BoolArray, IntArray

DEFAULT_DRAWS: Final = 2000
_ALL: Final = np.ones((1, 1))
LEVELS: Final = (0.5, 0.9, 0.99)
_CHUNK_LIVES: Final = 1_500_000
"""Lives drawn at a time: as many as stay in the processor's cache are no gain, many more cost memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Jobs of one kind, and how long they stay.

    Attributes:
        pool: (jobs,) rank of the pool.
        width_gpus: (jobs,).
        alive: (jobs, cells) P(still alive when the cell begins), given that it runs now, or starts now.
        cohort: (jobs,) number of its burst; the same number is the same burst in all kinds.
    """

    pool: IntArray
    width_gpus: FloatArray
    alive: FloatArray
    cohort: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """All that a draw needs.

    Attributes:
        own, guests, requeueable: jobs that run.
        waiting: jobs that wait, those that are to start included; if they started now.
        kinship: correlation of lives inside a burst, in [0, 1).
        peaks: (scenarios, pools, cells) GPUs asked for by jobs still to come.
        arrivals: (scenarios, pools, cells) their number.
        quota_gpus: (pools,).
        capacity_gpus: of the cluster.
        backlog_urgency, arrivals_urgency: (pools, cells) chance that a delay in the cell slows a job that
            waits now, or one that is still to come.
        weight: (pools, 1) what one job slowed counts.
        riding: (pools, cells) mean width of own jobs that ride with others: room in their lane, no GPUs.
    """

    own: Lives
    guests: Lives
    requeueable: Lives
    waiting: Lives
    kinship: float
    peaks: FloatArray
    arrivals: FloatArray
    quota_gpus: FloatArray
    capacity_gpus: float
    backlog_urgency: FloatArray = field(default_factory=lambda: _ALL)
    arrivals_urgency: FloatArray = field(default_factory=lambda: _ALL)
    weight: FloatArray = field(default_factory=lambda: _ALL)
    riding: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """What the draws say.

    Attributes:
        slowed_jobs: mean number of jobs newly slowed by the chosen ones.
        standard_error: of that mean; draws of one scenario count as one where there are several scenarios.
        missing_gpus: (levels, cells) quantiles of the GPUs missing, with the chosen ones.
        levels: theirs.
        draws: how many.
    """

    slowed_jobs: float
    standard_error: float
    missing_gpus: FloatArray
    levels: tuple[float, ...]
    draws: int


def verify(
    situation: Situation,
    starts: BoolArray,
    seed: int,
    draws: int = DEFAULT_DRAWS,
    levels: Sequence[float] = LEVELS,
) -> Verified:
    """Draw futures and count.

    Args:
        situation: who runs, who waits and what may come.
        starts: (waiting,) those that start now and must run to their end. One that can be sent back is, to
            a lane, a job that waits, and not among them.
        seed: of the draws.
        draws: how many; scenarios are taken in turn.
        levels: of the quantiles.
    """
    sampler = _Sampler(situation, starts)
    rng = np.random.Generator(np.random.SFC64(seed))
    size = max(1, _CHUNK_LIVES // max(sampler.num_jobs, 1))
    slowed, missing = np.zeros(draws), np.zeros((draws, sampler.num_cells), dtype=np.float32)
    for begin in range(0, draws, size):
        which = np.arange(begin, min(begin + size, draws))
        slowed[which], missing[which] = _count(situation, sampler.widths(rng, which.size), which)
    return Verified(
        slowed_jobs=float(slowed.mean()),
        standard_error=_standard_error(slowed, situation.peaks.shape[0]),
        missing_gpus=np.quantile(missing, levels, axis=0),
        levels=tuple(levels),
        draws=draws,
    )


def need_gpus(
    own: FloatArray,
    guest: FloatArray,
    backlog: FloatArray,
    coming: FloatArray,
    quota: FloatArray,
    urgency: tuple[FloatArray, FloatArray] = (_ALL, _ALL),
) -> FloatArray:
    """(..., cells) need over all pools; arguments (..., pools, cells), quota (pools, 1) or (pools, cells).

    Lane starts count by their urgency, of jobs that wait and of jobs to come, (pools, cells) each.
    """
    due, arriving, _ = lane_starts(own, guest, backlog, coming, quota)
    return np.asarray((own + guest + urgency[0] * due + urgency[1] * arriving).sum(axis=-2))


def lane_starts(
    own: FloatArray, guest: FloatArray, backlog: FloatArray, coming: FloatArray, quota: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(..., pools, cells) GPUs of lane starts: of jobs that wait, of those to come, and room for these."""
    room = np.maximum(quota - own, 0.0)
    left = np.maximum(room - backlog - guest, 0.0)
    return np.minimum(backlog, room), np.minimum(coming, left), left


_OWN, _GUEST, _BACKLOG, _START = range(4)


class _Sampler:
    """Draws lives and adds up who is alive where: (draws, kinds, pools, cells)."""

    def __init__(self, situation: Situation, starts: BoolArray) -> None:
        parts = (situation.own, situation.guests, situation.requeueable, situation.waiting)
        kinds = (_OWN, _GUEST, _BACKLOG, _BACKLOG)
        kind = np.concatenate([np.full(part.pool.size, k) for part, k in zip(parts, kinds, strict=True)])
        kind[kind.size - starts.size :][starts] = _START
        self._num_pools = situation.quota_gpus.size
        self._group = kind * self._num_pools + np.concatenate([part.pool for part in parts])
        self._width = np.concatenate([part.width_gpus for part in parts]).astype(float)
        alive = np.minimum.accumulate(np.concatenate([part.alive for part in parts]), axis=1)
        with np.errstate(divide="ignore"):
            self._thresholds = ndtri(np.clip(alive, 0.0, 1.0)).astype(np.float32)
        cohort = np.concatenate([part.cohort for part in parts])
        _, place, sizes = np.unique(cohort, return_inverse=True, return_counts=True)
        together = sizes[place] > 1
        self._kin = np.flatnonzero(together)
        _, self._cohort = np.unique(place[together], return_inverse=True)
        self._kinship = situation.kinship
        self.num_jobs, self.num_cells = alive.shape

    def widths(self, rng: np.random.Generator, draws: int) -> FloatArray:
        """(draws, kinds, pools, cells) GPUs held."""
        z = rng.standard_normal((draws, self.num_jobs), dtype=np.float32)
        if self._kin.size and self._kinship > 0.0:
            shared = rng.standard_normal((draws, int(self._cohort.max()) + 1), dtype=np.float32)
            own_part, shared_part = math.sqrt(1.0 - self._kinship), math.sqrt(self._kinship)
            z[:, self._kin] = own_part * z[:, self._kin] + shared_part * shared[:, self._cohort]
        # alive shares fall along the cells, so a life is the number of cells it reaches
        reached = np.zeros(z.shape, dtype=np.uint8)
        for cell in range(self.num_cells):
            reached += z < self._thresholds[:, cell]
        groups, steps = 4 * self._num_pools, self.num_cells + 1
        place = (np.arange(draws)[:, None] * groups + self._group) * steps + reached
        weights = np.broadcast_to(self._width, place.shape)
        ended = np.bincount(place.ravel(), weights=weights.ravel(), minlength=draws * groups * steps)
        ended = ended.reshape(draws, 4, self._num_pools, steps)
        return np.asarray(ended[..., ::-1].cumsum(axis=-1)[..., -2::-1])


def _count(situation: Situation, widths: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
    """(draws,) jobs newly slowed and (draws, cells) GPUs missing with the chosen ones."""
    scenario = which % situation.peaks.shape[0]
    shape = widths[:, 0].shape
    coming = np.broadcast_to(situation.peaks[scenario], shape)
    own, guests, backlog, started = (widths[:, kind] for kind in (_OWN, _GUEST, _BACKLOG, _START))
    quota, capacity = situation.quota_gpus[:, None] - situation.riding, situation.capacity_gpus
    urgency = soon, later = situation.backlog_urgency, situation.arrivals_urgency
    without = need_gpus(own, guests, backlog + started, coming, quota, urgency)
    missing = need_gpus(own, guests + started, backlog, coming, quota, urgency)
    without, missing = np.maximum(without - capacity, 0.0), np.maximum(missing - capacity, 0.0)
    due, arriving, left = lane_starts(own, guests, backlog + started, coming, quota)
    queues = np.maximum(1.0, coming / np.maximum(left, 1.0))
    waiting = np.bincount(situation.waiting.pool, minlength=len(quota))[:, None] * np.minimum(1.0, due)
    to_come = situation.arrivals[which % situation.arrivals.shape[0]] * queues
    jobs = situation.weight * (later * to_come + soon * waiting)
    hit = jobs.sum(axis=1) / (1.0 + (soon * due + later * arriving).sum(axis=1))
    slowed = (np.maximum(missing - without, 0.0) * hit).sum(axis=1)
    return slowed, missing


def _standard_error(slowed: FloatArray, scenarios: int) -> float:
    """Of the mean over draws, of which every `scenarios`-th has the same arrivals."""
    if slowed.size < 2:
        return math.inf
    if 1 < scenarios < slowed.size:
        scenario = np.arange(slowed.size) % scenarios
        slowed = np.bincount(scenario, weights=slowed) / np.bincount(scenario)
    return float(slowed.std(ddof=1) / math.sqrt(slowed.size))
