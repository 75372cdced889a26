"""The synthetic yardstick of the anticipatory-sharing paper, a few small pools with large bursts.

"Anticipatory Resource Allocation for ML Training" (SIA), SoCC 2023, doi 10.1145/3620678.3624669.
"""

from typing import Final

import numpy as np

from data.synthetic.draws import FloatArray, IntArray, generator, normal_quantile
from data.synthetic.workload import PoolJobs, SyntheticWorkload, assemble, recurring_names
from domain.errors import SettingError

WIDTHS: Final = (1, 2, 4, 8)
WIDTH_SHARES: Final = (0.70, 0.10, 0.15, 0.05)
SHORT_SHARE: Final = 0.8
SHORT_MIN: Final = (10.0**0.5, 100.0)
LONG_MIN: Final = (100.0, 1000.0)
LOAD_RANGE: Final = (0.6, 0.95)

_TILT_ROUNDS: Final = 400
_TILT_TOLERANCE: Final = 1e-5


def sia_workload(
    seed: int | np.random.Generator,
    *,
    num_pools: int = 4,
    gpus_per_pool: int = 8,
    days: float = 3,
    load_scale: float = 1.0,
) -> SyntheticWorkload:
    """Generate the paper's yardstick workload.

    Lives: 80 % uniform in [sqrt(10), 100] minutes, 20 % uniform in [100, 1000] minutes. Widths 1, 2, 4, 8
    with shares 0.70, 0.10, 0.15, 0.05; in pools of fewer GPUs the widths above the quota are left out and
    the others scaled up. Jobs come in bursts, all at one instant; a burst's total width is uniform in
    {1, ..., quota}. How a burst is cut into jobs is not published: here the cut keeps the total exact and
    the shares of widths as published (see `cut_shares`).

    Gaps between bursts are exponential. A burst carries on average E[total width] x E[life] GPU-seconds =
    (quota + 1) / 2 x 9,075.9 s; a pool of load rho takes rho x quota GPU-seconds each second; so the mean
    gap is (quota + 1) / 2 x 9,075.9 s / (rho x quota). The target rho is uniform in [0.6, 0.95) per pool,
    times `load_scale`. It holds on average: a pool's few dozen bursts in three days scatter around it.

    Args:
        seed: number, or a generator that is used and moved on.
        num_pools: number of pools, named pool-00, pool-01, ...
        gpus_per_pool: quota of each pool, GPUs.
        days: submissions happen in [0, days x 86,400) seconds.
        load_scale: factor on every target load.

    Raises:
        SettingError: if a size is below one, or days or load_scale is not positive.
    """
    if num_pools < 1 or gpus_per_pool < 1 or not (days > 0 and load_scale > 0):
        raise SettingError(
            f"num_pools {num_pools} and gpus_per_pool {gpus_per_pool} must be at least 1, "
            f"days {days} and load_scale {load_scale} above 0"
        )
    rng = generator(seed)
    shares = cut_shares(gpus_per_pool)
    parts: list[PoolJobs] = []
    targets: dict[str, float] = {}
    for index, pool_rng in enumerate(rng.spawn(num_pools)):
        target = pool_rng.uniform(*LOAD_RANGE) * load_scale
        starts = _burst_starts(pool_rng, days * 86_400, mean_gap_s(target, gpus_per_pool))
        part = _pool_jobs(pool_rng, index, starts, gpus_per_pool, shares)
        targets[part.pool] = target
        parts.append(part)
    quotas = dict.fromkeys(targets, gpus_per_pool)
    return SyntheticWorkload(assemble(rng, parts), quotas, targets, seed if isinstance(seed, int) else None)


def mean_life_s() -> float:
    """Mean duration by definition, seconds: 9,075.9."""
    return 60 * (SHORT_SHARE * sum(SHORT_MIN) / 2 + (1 - SHORT_SHARE) * sum(LONG_MIN) / 2)


def mean_gap_s(load: float, quota: int) -> float:
    """Mean gap between bursts, seconds, at which a pool's expected load is `load`."""
    return (quota + 1) / 2 * mean_life_s() / (load * quota)


def width_shares(quota: int) -> FloatArray:
    """Share of jobs of each of `WIDTHS` in a pool of `quota` GPUs; 0 above the quota; they sum to 1."""
    shares = np.where(np.array(WIDTHS) <= quota, WIDTH_SHARES, 0.0)
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def cut_shares(quota: int) -> FloatArray:
    """With how much probability the next job of a burst has each width, by the GPUs left to hand out.

    Drawing widths as published and leaving out those that no longer fit would make wide jobs too rare (an
    8-wide job fits only a full burst of a pool of 8). So the published shares are tilted by one factor per
    width until the expected shares over all jobs are the published ones (iterative proportional fitting).

    Returns:
        Array of shape (quota + 1, 4); rows from 1 on sum to 1.
    """
    wanted = width_shares(quota)
    tilt = wanted.copy()
    for _ in range(_TILT_ROUNDS):
        got = _expected_counts(_restricted(tilt, quota))
        got /= got.sum()
        if np.abs(got - wanted).max() < _TILT_TOLERANCE:
            break
        tilt *= np.divide(wanted, got, out=np.zeros_like(got), where=got > 0)
        tilt /= tilt.sum()
    return _restricted(tilt, quota)


def _restricted(tilt: FloatArray, quota: int) -> FloatArray:
    fits = np.array(WIDTHS)[None, :] <= np.arange(quota + 1)[:, None]
    shares = np.where(fits, tilt[None, :], 0.0)
    shares[1:] /= shares[1:].sum(axis=1, keepdims=True)
    return shares


def _expected_counts(shares: FloatArray) -> FloatArray:
    """Expected jobs of each width in a burst whose total is uniform in {1, ..., quota}."""
    counts = np.zeros_like(shares)
    for left in range(1, len(shares)):
        for k, width in enumerate(WIDTHS):
            if width <= left:
                counts[left] += shares[left, k] * counts[left - width]
        counts[left] += shares[left]
    return np.asarray(counts[1:].mean(axis=0), dtype=np.float64)


def _burst_starts(rng: np.random.Generator, span_s: float, gap_s: float) -> IntArray:
    count = rng.poisson(span_s / gap_s)
    return np.sort(rng.uniform(0, span_s, count)).astype(np.int64)


def _pool_jobs(
    rng: np.random.Generator, index: int, starts: IntArray, quota: int, shares: FloatArray
) -> PoolJobs:
    burst, width = _cut_bursts(rng, rng.integers(1, quota + 1, len(starts)), shares)
    u = rng.random(len(burst))
    minutes = np.where(
        u < SHORT_SHARE,
        np.interp(u / SHORT_SHARE, (0, 1), SHORT_MIN),
        np.interp((u - SHORT_SHARE) / (1 - SHORT_SHARE), (0, 1), LONG_MIN),
    )
    user, name = recurring_names(rng, index, normal_quantile(u))
    duration = np.rint(60 * minutes).astype(np.int64)
    return PoolJobs(f"pool-{index:02d}", starts[burst], width, duration, user, name)


def _cut_bursts(rng: np.random.Generator, totals: IntArray, shares: FloatArray) -> tuple[IntArray, IntArray]:
    """Cut each burst's total width into jobs; returns (burst, width) per job, burst by burst."""
    left = totals.copy()
    cumulative = np.cumsum(shares, axis=1)
    cumulative[cumulative > 1 - 1e-9] = 1.0  # rounding must never pick a width that does not fit
    bursts: list[IntArray] = [np.zeros(0, np.int64)]
    widths: list[IntArray] = [np.zeros(0, np.int64)]
    while (open_bursts := np.flatnonzero(left > 0)).size:
        pick = (rng.random(len(open_bursts))[:, None] >= cumulative[left[open_bursts]]).sum(axis=1)
        width = np.array(WIDTHS)[pick]
        left[open_bursts] -= width
        bursts.append(open_bursts)
        widths.append(width)
    burst, width = np.concatenate(bursts), np.concatenate(widths)
    order = np.argsort(burst, kind="stable")
    return burst[order], width[order]
