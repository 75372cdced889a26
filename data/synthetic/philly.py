"""A workload like the Philly trace, generated from its aggregate statistics."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from data.synthetic.draws import (
    BoolArray,
    FloatArray,
    IntArray,
    generator,
    mixed,
    normal_level,
    normal_quantile,
    quantile_values,
    stratified,
    weighted_levels,
)
from data.synthetic.parameters import PhillyLikeParameters, PoolParameters, shipped_parameters
from data.synthetic.profile import Profile
from data.synthetic.workload import PoolJobs, SyntheticWorkload, assemble, recurring_names
from domain.errors import SettingError

_DAY_S: Final = 86_400
_SNAP_LIMIT_S: Final = 6 * 3600.0
_MAX_SIGNAL: Final = 0.95


def philly_like(
    seed: int | np.random.Generator,
    parameters: PhillyLikeParameters | None = None,
    *,
    days: float = 14,
    load: float | None = None,
    num_pools: int | None = None,
) -> SyntheticWorkload:
    """Generate a workload with the statistics of `parameters`.

    Per pool: the number of bursts is Poisson; the times between their first jobs follow the fitted
    quantiles on a clock that runs faster in busy hours, stretched to the span. Burst sizes, gaps inside a
    burst, widths and lives follow their quantiles, lives correlated inside a burst and with width and
    burst size (Gaussian copula). Closed loop: the fitted share of bursts is moved to begin within
    `reaction_s` after the nearest end of a job of the pool's other bursts (if one lies within six
    hours). The generator cannot know when jobs will run, so ends are taken under immediate start:
    submit + duration. Draws are stratified, so that seeds differ in arrangement more than in amount.

    Args:
        seed: number, or a generator that is used and moved on.
        parameters: fitted statistics; None for the shipped ones.
        days: submissions happen in [0, days x 86,400) seconds; second 0 begins hour 0 of weekday 0.
        load: None keeps the fitted quotas, and with them unequal loads; a number sets each pool's quota
            so that its offered load over `days` is about this, never below its widest job (as in SIA's
            evaluation on traces: average load normalised).
        num_pools: None for one pool per fitted pool; fewer takes those with the most jobs; more repeats
            them, with fresh draws, under names with a suffix.

    Raises:
        SettingError: if `days` or `load` is not positive or `num_pools` is below one.
    """
    parameters = shipped_parameters() if parameters is None else parameters
    pools = _choose_pools(parameters, len(parameters.pools) if num_pools is None else num_pools)
    if not (0 < days < math.inf and (load is None or 0 < load < math.inf)):
        raise SettingError(f"days {days} and load {load} must be above 0")
    rng = generator(seed)
    parts = [
        _PoolGenerator(child, parameters, pool, days * _DAY_S).jobs(index)
        for index, (child, pool) in enumerate(zip(rng.spawn(len(pools)), pools, strict=True))
    ]
    quotas = {pool.name: pool.quota_gpus for pool in pools}
    targets = {pool.name: pool.load for pool in pools}
    if load is not None:
        quotas = {part.pool: _quota_for(part, load, days) for part in parts}
        targets = dict.fromkeys(quotas, load)
    return SyntheticWorkload(assemble(rng, parts), quotas, targets, seed if isinstance(seed, int) else None)


def _choose_pools(parameters: PhillyLikeParameters, num_pools: int) -> list[PoolParameters]:
    if num_pools < 1:
        raise SettingError(f"num_pools {num_pools} must be at least 1")
    chosen = []
    for index in range(num_pools):
        lap, place = divmod(index, len(parameters.pools))
        pool = parameters.pools[place]
        chosen.append(replace(pool, name=f"{pool.name}-{lap + 1}") if lap else pool)
    return chosen


def _quota_for(part: PoolJobs, load: float, days: float) -> int:
    work = float(part.num_gpus @ part.duration_s)
    return max(int(part.num_gpus.max(initial=1)), round(work / (load * days * _DAY_S)))


@dataclass(frozen=True, slots=True, eq=False)
class _PoolGenerator:
    """Draws one pool's jobs. Arrays are per burst unless they say per job."""

    rng: np.random.Generator
    parameters: PhillyLikeParameters
    pool: PoolParameters
    span_s: float

    def jobs(self, index: int) -> PoolJobs:
        """The pool's jobs, the ones beyond the span left out."""
        count = max(1, int(self.rng.poisson(self.pool.bursts_per_day * self.span_s / _DAY_S)))
        size_level = stratified(self.rng, count)
        sizes = np.maximum(1, np.rint(self._values("burst_jobs", size_level))).astype(np.int64)
        burst = np.repeat(np.arange(count), sizes)
        width_score = normal_quantile(weighted_levels(self.rng, self.rng.random(count), sizes))
        life_score = self._life_scores(sizes, size_level, width_score)
        life = self._lives(life_score, burst)
        offset = self._offsets(sizes, burst)
        submit = self._starts(sizes, burst, offset, life)[burst] + offset
        user, name = recurring_names(self.rng, index, life_score)
        kept = np.flatnonzero(submit < self.span_s)
        of = burst[kept].tolist()
        return PoolJobs(
            pool=self.pool.name,
            submit_s=submit[kept],
            num_gpus=self._widths(width_score, burst)[kept],
            duration_s=life[kept],
            user=[user[i] for i in of],
            name=[name[i] for i in of],
        )

    def _values(self, table: str, level: FloatArray) -> FloatArray:
        return quantile_values(self.parameters.levels, self.pool.tables()[table], level)

    def _life_scores(self, sizes: IntArray, size_level: FloatArray, width_score: FloatArray) -> FloatArray:
        """Standard normal score of each burst's common life, correlated with its size and width."""
        root = math.sqrt(max(self.pool.life_sibling_corr, 0.05))
        by_width, by_size = self.pool.width_life_corr / root, self.pool.size_life_corr / root
        shrink = min(1.0, _MAX_SIGNAL / max(math.hypot(by_width, by_size), 1e-9))
        by_width, by_size = by_width * shrink, by_size * shrink
        size_score = normal_quantile(weighted_levels(self.rng, size_level, sizes))
        noise = math.sqrt(1 - by_width**2 - by_size**2) * self.rng.standard_normal(len(sizes))
        raw = by_width * width_score + by_size * size_score + noise
        return normal_quantile(weighted_levels(self.rng, raw, sizes))

    def _lives(self, life_score: FloatArray, burst: IntArray) -> IntArray:
        """Seconds per job, at least 1."""
        raw = mixed(self.rng, life_score[burst], math.sqrt(self.pool.life_sibling_corr))
        lives = self._values("life_s", normal_level(raw))
        return np.maximum(1, np.rint(lives)).astype(np.int64)

    def _widths(self, width_score: FloatArray, burst: IntArray) -> IntArray:
        """GPUs per job: its burst's width, or one of its own."""
        allowed = np.array(self.pool.widths) <= self.pool.quota_gpus
        widths = np.array(self.pool.widths)[allowed]
        edges = np.cumsum(np.array(self.pool.width_shares)[allowed])
        common = normal_level(width_score)[burst]
        alike = self.rng.random(len(burst)) < self.pool.common_width_share
        level = np.where(alike, common, self.rng.random(len(burst)))
        place = np.searchsorted(edges[:-1] / edges[-1], level, side="right")
        return widths[place].astype(np.int64)

    def _offsets(self, sizes: IntArray, burst: IntArray) -> IntArray:
        """Seconds from the burst's first job, per job."""
        first = np.cumsum(sizes) - sizes
        gaps = np.rint(self._values("gap_s", stratified(self.rng, len(burst)))).astype(np.int64)
        gaps[first] = 0
        running: IntArray = np.cumsum(gaps)
        from_first: IntArray = running - running[first][burst]
        return from_first

    def _starts(self, sizes: IntArray, burst: IntArray, offset: IntArray, life: IntArray) -> IntArray:
        """Second at which each burst begins."""
        count = len(sizes)
        last = np.cumsum(sizes) - 1
        occupied = offset[last].astype(np.float64) + (self.parameters.gap_limit_s + 1)
        periods = np.cumsum(self._values("period_s", stratified(self.rng, count + 1)) + 1.0)
        busy = self.span_s * periods[:-1] / periods[-1]
        profile = Profile(self.pool.hour_profile, self.pool.weekday_profile)
        starts = _apart(profile.plain_time(busy, self.span_s), occupied)
        closed = self.rng.random(count) < self.pool.closed_share
        ends = np.sort((starts[burst] + offset + life)[~closed[burst]])
        starts = _apart(self._answers(starts, closed, ends), occupied)
        return np.floor(starts).astype(np.int64)

    def _answers(self, starts: FloatArray, closed: BoolArray, ends: FloatArray) -> FloatArray:
        """Starts in which the closed ones have moved to soon after the nearest end."""
        if not len(ends):
            return starts
        delay = self.rng.uniform(0, self.parameters.reaction_s, len(starts))
        after = np.minimum(np.searchsorted(ends, starts), len(ends) - 1)
        before = np.maximum(after - 1, 0)
        nearest = np.where(starts - ends[before] < ends[after] - starts, ends[before], ends[after])
        near = np.abs(nearest + delay - starts) <= _SNAP_LIMIT_S
        return np.where(closed & near, nearest + delay, starts)


def _apart(starts: FloatArray, occupied: FloatArray) -> FloatArray:
    """Delay starts, in their order, until no burst begins before the one before it is over.

    The waiting times of a single server with these arrivals and services, in closed form.
    """
    order = np.argsort(starts, kind="stable")
    busy = np.concatenate(([0.0], np.cumsum(occupied[order])[:-1]))
    moved = np.empty_like(starts)
    moved[order] = busy + np.maximum.accumulate(starts[order] - busy)
    return moved
