"""From a real trace to the aggregate statistics of `PhillyLikeParameters`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from data.synthetic.draws import BoolArray, FloatArray, IntArray, normal_quantile, table_mean
from data.synthetic.parameters import PhillyLikeParameters, PoolParameters
from data.synthetic.profile import Profile

GAP_LIMIT_S: Final = 300.0
REACTION_S: Final = 600.0
LEVELS: Final = (
    *(0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75),
    *(0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0),
)

_DAY_S: Final = 86_400
_NEEDED: Final = ("job_id", "pool", "submit_s", "num_gpus", "duration_s")


def fit(
    frame: pd.DataFrame, quotas: Mapping[str, int], *, span_s: float | None = None, source: str = ""
) -> PhillyLikeParameters:
    """Aggregate statistics of a trace.

    Ends of jobs are taken under immediate start (submit + duration): the trace's own queueing is not part
    of it, and a generator cannot know it.

    Args:
        frame: columns job_id, pool, submit_s (from 0 on), num_gpus, duration_s.
        quotas: GPUs of each pool that occurs in the frame.
        span_s: length of the recording, seconds; None: until the last submission.
        source: attribution to carry along.

    Returns:
        The parameters, all numbers rounded to four significant digits.

    Raises:
        ValueError: if a column or a quota is missing, the frame is empty, or a job is wider than its
            pool's quota or submitted outside [0, span_s].
    """
    _check(frame, quotas)
    span = float(frame["submit_s"].max()) + 1 if span_s is None else float(span_s)
    if not frame["submit_s"].between(0, span).all():
        raise ValueError(f"submissions must lie in [0, {span:g}] s")
    ordered = frame.sort_values(["submit_s", "job_id"], kind="stable")
    traces = [_Trace.of(str(pool), jobs, span) for pool, jobs in ordered.groupby("pool")]
    traces.sort(key=lambda trace: (-len(trace.submit_s), trace.pool))
    return PhillyLikeParameters(
        source=source,
        gap_limit_s=GAP_LIMIT_S,
        reaction_s=REACTION_S,
        levels=LEVELS,
        pools=tuple(_fit_pool(trace, quotas[trace.pool]) for trace in traces),
    )


def _check(frame: pd.DataFrame, quotas: Mapping[str, int]) -> None:
    missing = [column for column in _NEEDED if column not in frame.columns]
    if missing:
        raise ValueError(f"columns are missing: {', '.join(missing)}")
    if frame.empty:
        raise ValueError("no jobs to fit")
    unknown = sorted(set(frame["pool"]) - set(quotas))
    if unknown:
        raise ValueError(f"no quota for pool {', '.join(unknown)}")
    wide = frame[frame["num_gpus"] > frame["pool"].map(quotas).astype("float64")]
    if len(wide):
        raise ValueError(f"job {wide['job_id'].iloc[0]} is wider than its pool's quota")


@dataclass(frozen=True, slots=True, eq=False)
class _Trace:
    """One pool's jobs in the order of submission, cut into bursts; `burst` numbers them from 0."""

    pool: str
    span_s: float
    submit_s: FloatArray
    num_gpus: IntArray
    duration_s: FloatArray
    burst: IntArray

    @classmethod
    def of(cls, pool: str, jobs: pd.DataFrame, span_s: float) -> "_Trace":
        submit = jobs["submit_s"].to_numpy(np.float64)
        burst = np.cumsum(np.diff(submit, prepend=submit[0]) > GAP_LIMIT_S).astype(np.int64)
        width, life = jobs["num_gpus"].to_numpy(np.int64), jobs["duration_s"].to_numpy(np.float64)
        return cls(pool, span_s, submit, width, np.maximum(life, 1.0), burst)

    def starts(self) -> FloatArray:
        """Submission of each burst's first job, seconds."""
        return self.submit_s[np.flatnonzero(np.diff(self.burst, prepend=-1))]

    def siblings(self) -> IntArray:
        """Index of every job whose predecessor belongs to the same burst."""
        return np.flatnonzero(np.diff(self.burst, prepend=-1) == 0)


def _fit_pool(trace: _Trace, quota: int) -> PoolParameters:
    days = trace.span_s / _DAY_S
    starts, later = trace.starts(), trace.siblings()
    sizes = np.bincount(trace.burst)
    widths, counts = np.unique(trace.num_gpus, return_counts=True)
    profile = Profile.of_starts(starts, trace.span_s)
    periods = np.diff(profile.busy_time(starts, trace.span_s))
    return PoolParameters(
        name=trace.pool,
        quota_gpus=int(quota),
        load=_digits(float(trace.num_gpus @ trace.duration_s) / (trace.span_s * quota)),
        jobs_per_day=_digits(len(trace.submit_s) / days),
        bursts_per_day=_digits(len(starts) / days),
        widths=tuple(widths.tolist()),
        width_shares=tuple(_digits(count / len(trace.submit_s)) for count in counts),
        life_s=_mean_kept(trace.duration_s),
        burst_jobs=_mean_kept(sizes.astype(np.float64)),
        period_s=_quantiles(periods if len(periods) else np.array([trace.span_s])),
        gap_s=_quantiles((trace.submit_s[later] - trace.submit_s[later - 1]) if len(later) else np.zeros(1)),
        life_sibling_corr=_digits(_sibling_correlation(trace)),
        common_width_share=_digits(_common_width_share(trace)),
        width_life_corr=_digits(_tie_free_correlation(trace.num_gpus, trace.duration_s)),
        size_life_corr=_digits(_tie_free_correlation(sizes[trace.burst], trace.duration_s)),
        closed_share=_digits(_closed_share(trace, profile)),
        hour_profile=profile.hours,
        weekday_profile=profile.weekdays,
    )


def _quantiles(values: FloatArray) -> tuple[float, ...]:
    return _table(np.quantile(np.log1p(values), LEVELS, method="hazen"))


def _mean_kept(values: FloatArray) -> tuple[float, ...]:
    """Quantiles whose part above the median is stretched or squeezed until the table has the data's mean.

    A few levels cannot follow a heavy tail, and loads are means: what is lost between levels is put back.
    """
    logs = np.quantile(np.log1p(values), LEVELS, method="hazen")
    above = np.maximum(logs - logs[LEVELS.index(0.5)], 0.0)
    low, high = -0.9, 1.0
    for _ in range(40):
        stretch = (low + high) / 2
        if table_mean(LEVELS, np.expm1(logs + stretch * above)) < values.mean():
            low = stretch
        else:
            high = stretch
    return _table(logs + (low + high) / 2 * above)


def _table(logs: FloatArray) -> tuple[float, ...]:
    return tuple(_digits(value) for value in np.expm1(logs))


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def _scores(values: FloatArray | IntArray) -> FloatArray:
    """Normal scores; tied values share the mean of the normal over the levels they take up together."""
    _, kind, counts = np.unique(values, return_inverse=True, return_counts=True)
    edges = normal_quantile(np.concatenate(([0.0], np.cumsum(counts) / len(values))))
    density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(((density[:-1] - density[1:]) * len(values) / counts)[kind], dtype=np.float64)


def _tie_free_correlation(tied: FloatArray | IntArray, other: FloatArray) -> float:
    """Correlation of the normals behind two columns of which the first has many ties (polyserial)."""
    first, second = _scores(tied), _scores(other)
    power = float(first @ first)
    return float(np.clip(first @ second / power, -1, 1)) if power > 0 and np.ptp(first) > 0 else 0.0


def _common_width_share(trace: _Trace) -> float:
    """The share s for which neighbours in a burst have equal widths as often as seen.

    Two jobs both take the common width with probability s^2; otherwise they are equal by chance.
    """
    later = trace.siblings()
    _, counts = np.unique(trace.num_gpus, return_counts=True)
    chance = float(((counts / counts.sum()) ** 2).sum())
    if not len(later) or chance == 1:
        return 1.0
    seen = float((trace.num_gpus[later] == trace.num_gpus[later - 1]).mean())
    return float(np.sqrt(np.clip((seen - chance) / (1 - chance), 0, 1)))


def _sibling_correlation(trace: _Trace) -> float:
    """Mean product of normal scores over pairs of one burst, each job counting once; at least 0."""
    score = _scores(trace.duration_s)
    size = np.bincount(trace.burst)[trace.burst]
    total = np.bincount(trace.burst, weights=score)[trace.burst]
    many = size > 1
    if not many.any():
        return 0.0
    products = score[many] * (total[many] - score[many]) / (size[many] - 1)
    return float(np.clip(products.mean(), 0, 1))


def _closed_share(trace: _Trace, profile: Profile) -> float:
    """Share of bursts that begin soon after an end, freed of chance: (seen - chance) / (1 - chance).

    Chance is the share of instants soon after an end, instants of busy hours counting more.
    """
    ends = np.sort(trace.submit_s + trace.duration_s)
    seen = float(_soon_after(trace.starts(), ends).mean())
    instants = profile.plain_time(np.arange(0, trace.span_s, 60.0), trace.span_s)
    chance = float(_soon_after(instants, ends).mean())
    return max(0.0, (seen - chance) / (1 - chance)) if chance < 1 else 0.0


def _soon_after(instants: FloatArray, ends: FloatArray) -> BoolArray:
    last = np.searchsorted(ends, instants, side="right") - 1
    return np.asarray((last >= 0) & (instants - ends[np.maximum(last, 0)] <= REACTION_S), dtype=np.bool_)
