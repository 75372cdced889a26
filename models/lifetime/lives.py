"""Lives to train a hazard model on, and their expansion into one row per job and bin at risk.

The person-period table of Singer and Willett (J. Educ. Stat. 18:2, 1993): a job contributes a row for every
bin it has entered, with outcome 1 in the one it ended in. One that still runs contributes the bins it has
passed, all with outcome 0, which is what "at least" means.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from domain.jobs import Job
from models.lifetime.features import FeatureHistory
from models.lifetime.sampling import Life, LifeSample
from models.lifetime.tables import EDGES_S, NUM_BINS

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

SURVIVORS_PER_BIN: Final = 4_000
"""Survivors of a bin from twice as many of which on only a part is kept: bounds the time training takes."""

_BURST_S: Final = 600.0
_END, _SUBMIT, _START, _END_AT_ONCE = range(4)
_Fact = tuple[float, int, str, Job, float]
_LOWER_EDGES_S: Final = np.concatenate(([0.0], EDGES_S[:-1]))


@dataclass(frozen=True, slots=True)
class Rows:
    """One row per life and bin at risk.

    Attributes:
        life: index of the life.
        bin: index of the bin.
        has_died: 1.0 where the life ended in the bin.
        weight: see `expand`.
    """

    life: Indices
    bin: Indices
    has_died: Floats
    weight: Floats

    def only(self, is_kept: npt.NDArray[np.bool_]) -> Self:
        """The rows for which `is_kept` holds."""
        parts = (self.life, self.bin, self.has_died, self.weight)
        return type(self)(*(part[is_kept] for part in parts))  # type: ignore[arg-type]


def sweep(
    past: Sequence[tuple[Job, float]],
    censored: Sequence[tuple[Job, float]],
    now_s: float,
    starts: Mapping[str, float] | None = None,
    cut_off: Collection[str] = frozenset(),
) -> tuple[FeatureHistory, LifeSample]:
    """Tell a new history everything in the order it happened.

    A job began to run when `starts` says. Where it does not, one that has ended counts as started at submit,
    and one that still runs as started at its age before `now_s`. What happens at one instant: ends, then
    submits, then starts, by id.

    Args:
        past: (job, duration_s) of jobs that had ended by `now_s`.
        censored: (job, age_s) of jobs that had not; nothing more of them is assumed after `now_s`.
        now_s: the instant until which facts are known.
        starts: instants by job id.
        cut_off: ids of those of the past that were gone before their lives were over.

    Returns:
        The history as of `now_s`, and a sample of the lives that had ended or were cut off.
    """
    facts = _facts(past, censored, now_s, {} if starts is None else starts)
    history, sample = FeatureHistory(), LifeSample()
    for at_s, kind, _, job, lived_s in facts:
        if kind in (_END, _END_AT_ONCE) and job.job_id in cut_off:
            known = history.submitted(job, at_s)
            history.withdrawn(job, at_s)
            sample.add(Life(job, known.features, lived_s, False, at_s))
        elif kind in (_END, _END_AT_ONCE):
            known = history.ended(job, at_s, lived_s)
            sample.add(Life(job, known.features, lived_s, True, at_s))
        elif kind == _SUBMIT:
            history.submitted(job, at_s)
        else:
            history.started(job, at_s)
    for job, _ in censored:
        history.stopped(job, now_s)
    return history, sample


def _facts(
    past: Sequence[tuple[Job, float]],
    censored: Sequence[tuple[Job, float]],
    now_s: float,
    starts: Mapping[str, float],
) -> list[_Fact]:
    facts: list[_Fact] = [(job.submit_s, _SUBMIT, job.job_id, job, 0.0) for job, _ in (*past, *censored)]
    for job, lived_s in past:
        start_s = starts.get(job.job_id, job.submit_s)
        facts.append((start_s, _START, job.job_id, job, 0.0))
        end_s = start_s + lived_s
        facts.append((end_s, _END if end_s > start_s else _END_AT_ONCE, job.job_id, job, lived_s))
    facts += [
        (starts.get(job.job_id, now_s - age_s), _START, job.job_id, job, 0.0)
        for job, age_s in censored
        if age_s > 0
    ]
    facts.sort(key=itemgetter(0, 1, 2))
    return facts


def running_lives(history: FeatureHistory, now_s: float) -> list[Life]:
    """Jobs that have not ended, as lives of at least their age."""
    return [
        Life(known.job, known.features, known.age_s(now_s), False, known.seen_s(now_s))
        for known in history.open_jobs.values()
        if known.age_s(now_s) > 0
    ]


def expand(
    lives: Sequence[Life], now_s: float, *, since_s: float = -math.inf, half_life_s: float | None = None
) -> Rows:
    """Person-period rows, sorted by life and bin.

    A row lies at the instant its life entered the bin. Window and half-life go by that instant and not by
    the end of the job: "ended lately" would prefer long lives among the old and short ones among the new.
    A row weighs 2^(-age of the instant / half-life), over the square root of the number of lives in its burst
    (same pool, width and ten minutes): twins submitted together are far from independent.

    Args:
        lives: to learn from.
        now_s: instant of training.
        since_s: rows that lie before it are left out (the life then enters late).
        half_life_s: age at which a row weighs half; None for no forgetting.
    """
    age_s = np.array([life.age_s for life in lives])
    has_ended = np.array([life.has_ended for life in lives], bool)
    entered_s = np.array([life.last_seen_s for life in lives]) - age_s
    in_bin = np.searchsorted(EDGES_S, age_s, side="left")
    num_rows = np.where(has_ended, np.minimum(in_bin + 1, NUM_BINS), in_bin)
    life = np.repeat(np.arange(len(lives)), num_rows)
    bins = np.arange(len(life)) - np.repeat(np.cumsum(num_rows) - num_rows, num_rows)
    has_died = (has_ended[life] & (bins == in_bin[life])).astype(np.float64)
    at_s = entered_s[life] + _LOWER_EDGES_S[bins]
    weight = _burst_weights(lives)[life]
    if half_life_s is not None:
        weight = weight * 2.0 ** (-(now_s - at_s) / half_life_s)
    rows = Rows(life, bins, has_died, weight).only(at_s >= since_s)
    return _thinned(rows)


def _thinned(rows: Rows) -> Rows:
    """Keep every f-th of a bin's survivors at f times the weight, where there are very many of them."""
    is_survivor = rows.has_died == 0
    order = np.argsort(rows.bin[is_survivor], kind="stable")
    number = np.bincount(rows.bin[is_survivor], minlength=NUM_BINS)
    factor = np.maximum(1, number // SURVIVORS_PER_BIN)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order)) - np.repeat(np.cumsum(number) - number, number)
    each = np.ones(len(rows.bin), np.intp)
    each[is_survivor] = factor[rows.bin[is_survivor]]
    is_kept = np.ones(len(rows.bin), bool)
    is_kept[is_survivor] = place % each[is_survivor] == 0
    return Rows(rows.life, rows.bin, rows.has_died, rows.weight * each).only(is_kept)


def _burst_weights(lives: Sequence[Life]) -> Floats:
    bursts = [(life.job.pool, life.job.num_gpus, life.job.submit_s // _BURST_S) for life in lives]
    size = Counter(bursts)
    return np.array([size[burst] for burst in bursts], np.float64) ** -0.5
