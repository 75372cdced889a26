"""A record told in the order in which it happened, to models that are asked as they go.

Everything that scores or chooses lifetime models goes through here, so that no two scripts differ in what a
model had been told when it was asked. Tashman (Int. J. Forecasting 16:4, 2000): out of sample, the origin of
the forecasts rolls forward, and a forecast at an origin uses only what had happened by then.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.history import to_jobs
from data.splits import hides_life, started_s
from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S, LifetimeForecaster
from domain.jobs import Job
from domain.observers import Observer
from models.scores import NINE_LEVELS, concordance, covered, too_short_share

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Places = NDArray[np.intp]
Progress = Callable[[int, int], None]
"""Told how many of how many steps are done."""

_ENDS: Final = 0
_SUBMITS: Final = 1
_LATER_STARTS: Final = 2
_TICK_JOBS: Final = 200


class Kind(IntEnum):
    """What befell a job, in the order in which it befalls it."""

    SUBMITTED = 0
    STARTED = 1
    ENDED = 2
    CUT_OFF = 3
    """It went before its life was over (`JobState.hides_life`): it would have run at least so long."""


class Fact(NamedTuple):
    """One thing that happened: when, seconds; what; and to which job, a place in the record."""

    at_s: float
    kind: Kind
    place: int


@dataclass(frozen=True, eq=False)
class Record:
    """What was known at an instant, the cut, of every job submitted before it.

    Attributes:
        jobs: by (submit, id).
        start_s: instant each began to run: as recorded, else its submit; after the cut it is not known
            and infinite. Shape (jobs,).
        lived_s: how long each had run by the cut, or until it ended. Shape (jobs,).
        has_ended: whether `lived_s` is its whole life. Shape (jobs,).
        cut_s: the cut.
        was_cut_off: whether it was gone by the cut before its life was over. Shape (jobs,).
    """

    jobs: tuple[Job, ...]
    start_s: Floats
    lived_s: Floats
    has_ended: Bools
    cut_s: float
    was_cut_off: Bools

    def __len__(self) -> int:
        return len(self.jobs)

    def submit_s(self) -> Floats:
        """Instant of each submit, ascending, shape (jobs,)."""
        return np.array([job.submit_s for job in self.jobs], np.float64)

    def end_s(self) -> Floats:
        """Instant at which each left, its life over or not; infinite where it had not, shape (jobs,)."""
        return np.where(self.has_ended | self.was_cut_off, self.start_s + self.lived_s, np.inf)


class Forecasts(NamedTuple):
    """What a model said of each job as it was submitted.

    Attributes:
        places: of the jobs in the record, ascending, shape (rows,).
        survival: P(life > edge) at `domain.forecasts.LIFE_EDGES_S`, shape (rows, edges).
        quantiles_s: at the levels asked for, shape (rows, levels).
    """

    places: Places
    survival: Floats
    quantiles_s: Floats


@runtime_checkable
class Fitted(Protocol):
    """A model that learns from a whole record at once and is told the rest as it happens."""

    def fit(
        self, past: Sequence[tuple[Job, float]], censored: Sequence[tuple[Job, float]], now_s: float
    ) -> None:
        """Forget everything; learn from (job, duration) of what had ended and (job, age) of what had not."""
        ...


def record_of(frame: pd.DataFrame, cut_s: float) -> Record:
    """Cut a history at an instant: nothing that happened after it is in the record.

    Args:
        frame: rows that obey the schema, sorted by (submit_s, job_id).
        cut_s: the instant, seconds; infinity keeps every row whole.
    """
    submitted = frame[frame["submit_s"] < cut_s]
    jobs, _ = to_jobs(submitted)
    # An end is computed as in `data.splits.ended_before`: the two must agree on what had ended.
    start_s = np.maximum(
        started_s(submitted).to_numpy(np.float64), submitted["submit_s"].to_numpy(np.float64)
    )
    duration_s = submitted["duration_s"].to_numpy(np.float64)
    has_left = start_s + duration_s <= cut_s
    lived_s = np.where(has_left, duration_s, np.maximum(cut_s - start_s, 0.0))
    known_start_s = np.where(has_left | (start_s < cut_s), start_s, np.inf)
    hides = hides_life(submitted).to_numpy(np.bool_)
    return Record(tuple(jobs), known_start_s, lived_s, has_left & ~hides, cut_s, has_left & hides)


def facts(record: Record, from_s: float = -np.inf, until_s: float = np.inf) -> Iterator[Fact]:
    """What happened, in one total order; by (submit, id) where instants are equal.

    At one instant: ends; then submits, each followed by its start if that was at once (and its end, if the
    life had no length); then starts of jobs that had waited (together with their ends, if without length,
    they come with the other ends).

    Args:
        record: what happened.
        from_s: ends at this very instant are left out, submits at it are in.
        until_s: ends at this very instant are in, submits at it are left out: so that the facts until an
            instant and those from it are all the facts.
    """
    submit_s, start_s, end_s = record.submit_s(), record.start_s, record.end_s()
    late_rank = np.where(end_s > start_s, _LATER_STARTS, _ENDS)
    start_rank = np.where(start_s > submit_s, late_rank, _SUBMITS)
    end_rank = np.where(end_s > start_s, _ENDS, start_rank)
    at_s = np.concatenate((submit_s, start_s, end_s))
    rank = np.concatenate((np.full(len(submit_s), _SUBMITS), start_rank, end_rank))
    place = np.tile(np.arange(len(submit_s)), 3)
    kind = np.repeat(np.arange(3), len(submit_s))
    kind[2 * len(submit_s) :] += record.was_cut_off
    is_after = (at_s > from_s) | ((at_s == from_s) & (rank >= _SUBMITS))
    is_before = (at_s < until_s) | ((at_s == until_s) & (rank < _SUBMITS))
    wanted = np.flatnonzero(is_after & is_before & np.isfinite(at_s))
    order = wanted[np.lexsort((kind[wanted], place[wanted], rank[wanted], at_s[wanted]))]
    kinds = tuple(Kind)
    for at, what, whose in zip(
        at_s[order].tolist(), kind[order].tolist(), place[order].tolist(), strict=True
    ):
        yield Fact(at, kinds[what], whose)


def tell(model: object, record: Record, fact: Fact) -> None:
    """Tell a model a fact; one that does not listen (it is no `Observer`) is told nothing."""
    if not isinstance(model, Observer):
        return
    job = record.jobs[fact.place]
    if fact.kind is Kind.SUBMITTED:
        model.submitted(job, fact.at_s)
    elif fact.kind is Kind.STARTED:
        model.started(job, fact.at_s)
    elif fact.kind is Kind.CUT_OFF:
        model.cancelled(job, fact.at_s)
    else:
        model.ended(job, fact.at_s, float(record.lived_s[fact.place]))


def known_at(record: Record, at_s: float) -> tuple[list[tuple[Job, float]], list[tuple[Job, float]]]:
    """What had left by an instant, its life over or not, and what had not: what `Fitted.fit` learns from.

    Returns:
        (job, duration_s) in the order of ending, then by (submit, id), and (job, age_s) by (submit, id) of
        those submitted before the instant, with an age of 0 where a job had not started.
    """
    end_s = record.end_s()
    is_submitted = record.submit_s() < at_s
    is_past = is_submitted & (end_s <= at_s)
    past = np.flatnonzero(is_past)
    past = past[np.lexsort((past, end_s[past]))]
    open_ones = np.flatnonzero(is_submitted & ~is_past)
    ages_s = np.maximum(at_s - record.start_s[open_ones], 0.0)
    jobs = record.jobs
    return (
        [(jobs[k], lived) for k, lived in zip(past.tolist(), record.lived_s[past].tolist(), strict=True)],
        [(jobs[k], age) for k, age in zip(open_ones.tolist(), ages_s.tolist(), strict=True)],
    )


def learn(model: object, record: Record, until_s: float) -> None:
    """Let a model learn from what had happened by an instant: by `fit` where it has one, else fact by fact.

    Submits at `until_s` are left out, ends at it are in: `facts` from `until_s` on are the rest. A `fit`
    that has a parameter `starts` is given the instants at which jobs began to run, by id; one that has a
    parameter `cut_off` the ids of those of the past whose lives were not over.
    """
    if isinstance(model, Fitted):
        past, censored = known_at(record, until_s)
        takes = inspect.signature(model.fit).parameters
        more: dict[str, Any] = {}
        if "starts" in takes:
            known = np.flatnonzero(record.start_s < until_s).tolist()
            more["starts"] = {record.jobs[k].job_id: float(record.start_s[k]) for k in known}
        if "cut_off" in takes:
            hidden = np.flatnonzero(record.was_cut_off & (record.end_s() <= until_s)).tolist()
            more["cut_off"] = frozenset(record.jobs[k].job_id for k in hidden)
        model.fit(past, censored, until_s, **more)
        return
    for fact in facts(record, until_s=until_s):
        tell(model, record, fact)


def forecasts_at_submit(
    model: LifetimeForecaster,
    record: Record,
    from_s: float,
    until_s: float,
    *,
    levels: Sequence[float] = NINE_LEVELS,
    every: int = 1,
    progress: Progress | None = None,
) -> Forecasts:
    """Tell a model what happens from one instant to another and ask it of each job as it is submitted.

    The model has learned until `from_s` (`learn`). It is asked when it has been told of the submit and of
    nothing after it.

    Args:
        model: tell it no more than this afterwards: what it was told is not undone.
        record: what happens.
        from_s: jobs submitted from here on are asked of.
        until_s: and those submitted before this instant.
        levels: of the quantiles, in (0, 1).
        every: ask of every so many jobs only.
        progress: told now and then how many jobs of how many have been asked of.
    """
    first, last = np.searchsorted(record.submit_s(), (from_s, until_s), "left").tolist()
    places = np.arange(first, max(first, last), every)
    survival = np.empty((len(places), len(LIFE_EDGES_S)))
    quantiles_s = np.empty((len(places), len(levels)))
    for fact in facts(record, from_s, until_s):
        tell(model, record, fact)
        row, is_other = divmod(fact.place - first, every)
        if fact.kind is Kind.SUBMITTED and not is_other:
            job = record.jobs[fact.place]
            survival[row] = model.survival(job)
            quantiles_s[row] = [model.quantile_s(job, level) for level in levels]
            if progress is not None and (row % _TICK_JOBS == 0 or row == len(places) - 1):
                progress(row + 1, len(places))
    return Forecasts(places, survival, quantiles_s)


def forecast(
    model: LifetimeForecaster,
    record: Record,
    from_s: float,
    until_s: float,
    *,
    levels: Sequence[float] = NINE_LEVELS,
    progress: Progress | None = None,
) -> Forecasts:
    """`learn` until `from_s`, then `forecasts_at_submit` until `until_s`."""
    learn(model, record, from_s)
    return forecasts_at_submit(model, record, from_s, until_s, levels=levels, progress=progress)


def lived_of(record: Record, made: Forecasts) -> tuple[Floats, Bools]:
    """How long each job that was asked of had lived by the cut, and whether that was all."""
    return record.lived_s[made.places], record.has_ended[made.places]


def life_losses(
    lived_s: Floats, has_ended: Bools, quantiles_s: Floats, levels: Sequence[float] = NINE_LEVELS
) -> Floats:
    """Pinball loss of ln seconds of each forecast, mean over the levels, shape (rows,).

    Of a life that goes on, the part of the loss that is certain already: a quantile below its age costs what
    it would cost if it ended now, a quantile above costs nothing. Where all have ended, the mean of the rows
    is `models.scores.ln_pinball_loss`.
    """
    at = np.asarray(levels)
    missed = np.log(np.maximum(lived_s, 1.0))[:, None] - np.log(np.maximum(quantiles_s, 1.0))
    above = np.where(has_ended[:, None], (at - 1.0) * missed, 0.0)
    losses: Floats = np.maximum(at * missed, above).mean(axis=1)
    return losses


def life_scores(record: Record, made: Forecasts) -> dict[str, float]:
    """Scores of forecasts at the nine levels, by name; NaN where there is nothing to score.

    `pinball` (of ln seconds), `coverage_80` (share within .1 to .9), `beyond_90` (share beyond .9),
    `c_index`, `too_short_at_90` (share whose class is said to be shorter at .9), `num_jobs`, `num_running`.
    """
    lived_s, has_ended = lived_of(record, made)
    count = {"num_jobs": float(len(lived_s)), "num_running": float((~has_ended).sum())}
    if not len(lived_s):
        nothing = ("pinball", "coverage_80", "beyond_90", "c_index", "too_short_at_90")
        return dict.fromkeys(nothing, float("nan")) | count
    low, median, high = (made.quantiles_s[:, NINE_LEVELS.index(level)] for level in (0.1, 0.5, 0.9))
    return {
        "pinball": float(life_losses(lived_s, has_ended, made.quantiles_s).mean()),
        "coverage_80": float(covered(lived_s, low, high).mean()),
        "beyond_90": float((lived_s > high).mean()),
        "c_index": concordance(median, lived_s, has_ended),
        "too_short_at_90": too_short_share(lived_s, high),
    } | count


def origins(from_s: float, until_s: float, every_s: float) -> list[tuple[float, float]]:
    """Stretches [origin, next origin) that cover [from, until), the last one cut short.

    Raises:
        SettingError: if the instants or the distance are not in order.
    """
    if not every_s > 0 or not from_s < until_s:
        raise SettingError(
            f"from {from_s:g} s until {until_s:g} s every {every_s:g} s: the first must lie before the "
            "second, and the distance be above 0"
        )
    number = math.ceil((until_s - from_s) / every_s)
    begins = [from_s + k * every_s for k in range(number)]
    return [
        (begin, min(begin + every_s, until_s)) for begin in begins if begin < min(begin + every_s, until_s)
    ]
