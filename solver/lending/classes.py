"""Waiting jobs in classes of jobs that are alike: same pool and width, like lives and like worth."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.lending.curves import FloatArray, RiskLines
from solver.lending.problem import BoolArray, IntArray, LendingProblem

DEFAULT_CLASSES: Final = 2000
_COARSER: Final = ((1.0, 2.0), (1.0, 1.0), (2.0, 1.0), (2.0, 0.5), (4.0, 0.5), (4.0, 0.25), (64.0, 0.0))
"""Doublings of life per class, and classes of worth per doubling: as fine as the number of classes allows."""
_LONGEST_S: Final = 2.0**40


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Jobs that wait and could start now, in any order.

    Attributes:
        job_ids: unique.
        submit_s: (jobs,).
        pool: (jobs,) rank of the pool.
        width_gpus: (jobs,).
        median_s, tail_s: (jobs,) quantiles of the forecast life at 0.5 and at a high level, seconds; may be
            infinite.
        value: (jobs,) worth of starting now, at least 0.
        alive_gpus: (jobs, cells) what it would add to the need of each cell.
        is_requeueable: (jobs,).
        kind: (jobs,) number of the kind of GPUs it asks for; None where all are alike.
        repeats: (jobs,) share of its run that being sent back costs it, one of few; None: all of it.
    """

    job_ids: tuple[str, ...]
    submit_s: FloatArray
    pool: IntArray
    width_gpus: IntArray
    median_s: FloatArray
    tail_s: FloatArray
    value: FloatArray
    alive_gpus: FloatArray
    is_requeueable: BoolArray
    kind: IntArray | None = None
    repeats: FloatArray | None = None

    def shares(self) -> FloatArray:
        """(jobs,) share of its run that being sent back costs each; 1 of those that never are."""
        if self.repeats is None:
            return np.ones(len(self.job_ids))
        return np.where(self.is_requeueable, self.repeats, 1.0)

    def kinds(self) -> IntArray:
        """(jobs,) kind of GPUs of each."""
        return np.zeros(len(self.job_ids), dtype=np.int64) if self.kind is None else self.kind

    def __post_init__(self) -> None:
        columns = (self.submit_s, self.pool, self.width_gpus, self.median_s, self.tail_s, self.value)
        if any(column.shape != (len(self.job_ids),) for column in (*columns, self.is_requeueable)):
            raise ValueError("candidates have one entry per job in every column")
        if self.kind is not None and self.kind.shape != (len(self.job_ids),):
            raise ValueError("kind has one entry per job")
        if self.repeats is not None and self.repeats.shape != (len(self.job_ids),):
            raise ValueError("repeats has one entry per job")
        if self.alive_gpus.ndim != 2 or self.alive_gpus.shape[0] != len(self.job_ids):
            raise ValueError("alive_gpus has one row per job")


@dataclass(frozen=True, slots=True, eq=False)
class JobClasses:
    """Classes, ordered by pool, width, lives and worth, so that the order of the jobs changes nothing.

    Attributes:
        pool, width_gpus, count, value, is_requeueable: (classes,); value is the mean of one job.
        alive_gpus: (classes, cells) mean of one job.
        kind: (classes,) kind of GPUs that they ask for.
        repeats: (classes,) share of its run that being sent back costs a job.
        members: ids of each class's jobs, dearest first, then by (submit, id): the order in which they
            start.
    """

    pool: IntArray
    width_gpus: IntArray
    count: IntArray
    value: FloatArray
    alive_gpus: FloatArray
    is_requeueable: BoolArray
    kind: IntArray
    repeats: FloatArray
    members: tuple[tuple[str, ...], ...]

    def problem(
        self,
        *,
        idle_gpus: int,
        risk: RiskLines,
        budget_jobs: float,
        factor: FloatArray | None = None,
        **more: Any,
    ) -> LendingProblem:
        """The lending problem of these classes.

        Args:
            idle_gpus: that may be lent.
            risk: lines of the risk.
            budget_jobs: that may be slowed.
            factor: (pools,) on the value of each pool's jobs (`value.PoolTerms`); None for 1.
            **more: the other fields of `LendingProblem`.
        """
        return LendingProblem(
            pool=self.pool,
            width_gpus=self.width_gpus,
            count=self.count,
            value=self.value if factor is None else self.value * factor[self.pool],
            alive_gpus=self.alive_gpus,
            is_requeueable=self.is_requeueable,
            repeats=self.repeats,
            idle_gpus=idle_gpus,
            risk=risk,
            budget_jobs=budget_jobs,
            **more,
        )


def group(candidates: Candidates, max_classes: int = DEFAULT_CLASSES) -> JobClasses:
    """Put jobs that are alike together.

    A class is a pool, a width, whether its jobs can be sent back and what share they then repeat, the kind
    of GPUs they ask for, the doubling of the median and of the tail of the forecast life, and a step of
    worth. If that makes too many, lives and worth are told apart less finely; all else always is.

    Args:
        candidates: jobs that wait.
        max_classes: aim; pools x widths may be more.
    """
    order = _canonical_order(candidates)
    for octaves, steps in _COARSER:
        keys = _keys(candidates, octaves, steps)[order]
        distinct, place = np.unique(keys, axis=0, return_inverse=True)
        if len(distinct) <= max_classes:
            break
    return _classes(candidates, order, distinct, place.reshape(-1))


def each_its_own(candidates: Candidates) -> JobClasses:
    """One class per job: nothing is averaged, so the problem, with binary counts, is the exact one."""
    order = _canonical_order(candidates)
    distinct = np.stack(
        [
            candidates.pool[order],
            candidates.width_gpus[order],
            candidates.is_requeueable[order],
            candidates.kinds()[order],
            _price_ranks(candidates)[order],
        ],
        axis=1,
    ).astype(np.int64)
    return _classes(candidates, order, distinct, np.arange(order.size))


def _canonical_order(candidates: Candidates) -> NDArray[np.intp]:
    ids = np.array(candidates.job_ids, dtype=np.str_)
    return np.lexsort((ids, candidates.submit_s, -candidates.value))


def _keys(candidates: Candidates, octaves: float, steps: float) -> IntArray:
    """(jobs, parts of the key) integers; pool, width, requeueable, kind and price come first."""
    median, tail = (
        np.floor(np.log2(np.clip(life_s, 1.0, _LONGEST_S)) / octaves)
        for life_s in (candidates.median_s, candidates.tail_s)
    )
    worth = np.floor(np.log2(np.maximum(candidates.value, 1e-12)) * steps)
    known = (candidates.pool, candidates.width_gpus, candidates.is_requeueable, candidates.kinds())
    prices = _price_ranks(candidates)
    return np.stack((*known, prices, median, tail, worth), axis=1).astype(np.int64)


def _price_ranks(candidates: Candidates) -> IntArray:
    """(jobs,) rank of the share that it costs each to be sent back."""
    return np.unique(candidates.shares(), return_inverse=True)[1].astype(np.int64)


def _classes(
    candidates: Candidates, order: NDArray[np.intp], distinct: IntArray, place: NDArray[np.intp]
) -> JobClasses:
    size = len(distinct)
    count = np.bincount(place, minlength=size)
    alive = np.zeros((size, candidates.alive_gpus.shape[1]))
    np.add.at(alive, place, candidates.alive_gpus[order])
    value = np.bincount(place, weights=candidates.value[order], minlength=size)
    repeats = np.zeros(size)
    np.maximum.at(repeats, place, candidates.shares()[order])
    members: list[list[str]] = [[] for _ in range(size)]
    for row, job in zip(place.tolist(), order.tolist(), strict=True):
        members[row].append(candidates.job_ids[job])
    return JobClasses(
        pool=distinct[:, 0],
        width_gpus=distinct[:, 1],
        count=count.astype(np.int64),
        value=value / np.maximum(count, 1),
        alive_gpus=alive / np.maximum(count, 1)[:, None],
        is_requeueable=distinct[:, 2].astype(bool),
        kind=distinct[:, 3],
        repeats=repeats,
        members=tuple(tuple(ids) for ids in members),
    )
