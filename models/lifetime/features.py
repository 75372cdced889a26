"""What is known of a job the moment it is submitted: its features, from nothing that happens later.

One class is told the facts in their order and says the features of each job as it is submitted. Training
on a table of past jobs tells it the same facts again (`models.lifetime.lives`), so a forecast and a row
of the training table cannot differ in what they see.
"""

import heapq
import math
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from models.lifetime.tables import NUM_BINS, Array, DecayingTables

RECENT_LIVES: Final = 16
"""Lives per key behind means and deviations."""

KEY_KINDS: Final = ("pool-width", "pool", "user", "name", "user-name")
RELATIVE: Final = (
    *(f"{what} {kind}" for kind in KEY_KINDS for what in ("mean", "last", "last but one")),
    "limit",
)
"""ln of lives: the model sees how far a bin's edge lies from each of them."""
PLAIN: Final = (
    "width",
    "since submit",
    "submits 60 s",
    "submits 600 s",
    "running",
    "age of the middle one",
    "age of the oldest",
    *(f"{what} {kind}" for kind in KEY_KINDS for what in ("deviation", "since end")),
)

_FIRST_CROSSING: Final = bisect_left(LIFE_EDGES_S, 512.0)
_CROSSINGS: Final = tuple(range(_FIRST_CROSSING, NUM_BINS, 3))
"""Bins at whose end a running job is credited with what it has passed; shorter lives when they end."""

_BURST_S: Final = (60.0, 600.0)
_UNKNOWN: Final = (math.nan,) * 3
_DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """Features of one job as of its submit.

    Attributes:
        logits: of the hazards in its keys' tables, shape (memories, bins).
        exposures: ln(1 + exposures) behind the most specific of them, shape (bins,).
        relative: values of `RELATIVE`, NaN where unknown.
        plain: values of `PLAIN`, NaN where unknown.
    """

    logits: Array
    exposures: Array
    relative: Array
    plain: Array


class _KeyLives:
    """The last few lives of one key, and when the last of them ended."""

    __slots__ = ("_lives", "_summary", "last_end_s")

    def __init__(self) -> None:
        self._lives: deque[float] = deque(maxlen=RECENT_LIVES)
        self._summary: tuple[float, float, float, float] | None = None
        self.last_end_s = -math.inf

    def add(self, duration_s: float, now_s: float) -> None:
        self._lives.append(math.log(max(duration_s, 1.0)))
        self._summary = None
        self.last_end_s = now_s

    def summary(self) -> tuple[float, float, float, float]:
        """Mean, last, last but one and standard deviation of ln life."""
        if self._summary is None:
            lives = self._lives
            mean = sum(lives) / len(lives)
            deviation = math.sqrt(sum((life - mean) ** 2 for life in lives) / len(lives))
            last_but_one = lives[-2] if len(lives) > 1 else math.nan
            self._summary = (mean, lives[-1], last_but_one, deviation)
        return self._summary


class _PoolSubmits:
    """Submits of one pool within the last minutes."""

    __slots__ = ("last_s", "recent")

    def __init__(self) -> None:
        self.last_s = math.nan
        self.recent: tuple[deque[float], ...] = tuple(deque() for _ in _BURST_S)

    def counts(self, now_s: float) -> tuple[float, ...]:
        for instants, length_s in zip(self.recent, _BURST_S, strict=True):
            while instants and instants[0] <= now_s - length_s:
                instants.popleft()
        return tuple(float(len(instants)) for instants in self.recent)

    def add(self, now_s: float) -> None:
        self.last_s = now_s
        for instants in self.recent:
            instants.append(now_s)


@dataclass(slots=True)
class OpenJob:
    """A job that has been submitted and has not ended.

    Attributes:
        job: the job.
        features: as of its submit.
        keys: of `KEY_KINDS`, None where it has no such key.
        table_keys: of its life tables, from the most general to the most specific.
        started_s: since when it runs, None while it does not.
        reached_s: greatest age at which an earlier run was stopped.
        stopped_s: when that was.
        next_bin: first bin in which it has not been counted yet.
        attempt: how often it was started.
    """

    job: Job
    features: JobFeatures
    keys: tuple[Hashable | None, ...]
    table_keys: tuple[Hashable, ...]
    started_s: float | None = None
    reached_s: float = 0.0
    stopped_s: float = -math.inf
    next_bin: int = 0
    attempt: int = 0

    def age_s(self, now_s: float) -> float:
        """How long it has lived at least."""
        running_s = 0.0 if self.started_s is None else now_s - self.started_s
        return max(self.reached_s, running_s)

    def seen_s(self, now_s: float) -> float:
        """When it had that age."""
        return self.stopped_s if self.age_s(now_s) == self.reached_s else now_s


@dataclass
class FeatureHistory:
    """Told facts in the order of their instants; says the features of each job as of its submit.

    Attributes:
        open_jobs: by id, those that have been submitted and have not ended.
    """

    open_jobs: dict[str, OpenJob] = field(default_factory=dict)
    _tables: DecayingTables = field(default_factory=DecayingTables)
    _lives: dict[Hashable, _KeyLives] = field(default_factory=dict)
    _submits: dict[str, _PoolSubmits] = field(default_factory=dict)
    _running: dict[Hashable, dict[str, float]] = field(default_factory=dict)
    _crossings: list[tuple[float, str, int, int]] = field(default_factory=list)

    def submitted(self, job: Job, now_s: float) -> OpenJob:
        """A job has become eligible; told again, nothing changes."""
        known = self.open_jobs.get(job.job_id)
        if known is not None:
            return known
        self._advance(now_s)
        keys = _keys(job)
        table_keys = _table_keys(job)
        logits, exposures = self._tables.logits(table_keys)
        relative, plain = self._numbers(job, keys, now_s)
        features = JobFeatures(logits, exposures, relative, plain)
        known = self.open_jobs[job.job_id] = OpenJob(job, features, keys, table_keys)
        self._submits.setdefault(job.pool, _PoolSubmits()).add(now_s)
        return known

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, from zero."""
        known = self.submitted(job, now_s)
        known.started_s = now_s
        known.attempt += 1
        self._running.setdefault(known.keys[0], {})[job.job_id] = now_s
        self._await_crossing(known, 0)

    def stopped(self, job: Job, now_s: float) -> None:
        """A job no longer runs and has not ended: it was sent back, or nothing more is heard of it."""
        self._advance(now_s)
        known = self.submitted(job, now_s)
        known.reached_s, known.stopped_s = known.age_s(now_s), known.seen_s(now_s)
        self._forget_run(known)
        self._survived(known, bisect_left(LIFE_EDGES_S, known.reached_s))

    def withdrawn(self, job: Job, now_s: float) -> None:
        """A job was cancelled by its user: it counts up to the age it reached, then it is forgotten."""
        self.stopped(job, now_s)
        del self.open_jobs[job.job_id]

    def ended(self, job: Job, now_s: float, duration_s: float) -> OpenJob:
        """A job has ended after `duration_s` of running alone."""
        self._advance(now_s)
        known = self.submitted(job, now_s)
        self._forget_run(known)
        del self.open_jobs[job.job_id]
        in_bin = bisect_left(LIFE_EDGES_S, duration_s)
        if in_bin < NUM_BINS:
            self._tables.credit(known.table_keys, min(known.next_bin, in_bin), in_bin + 1, has_died=True)
        else:
            self._survived(known, NUM_BINS)
        for key in known.keys:
            if key is not None:
                self._lives.setdefault(key, _KeyLives()).add(duration_s, now_s)
        return known

    def _advance(self, now_s: float) -> None:
        """Count running jobs in the bins they have passed by `now_s`."""
        while self._crossings and self._crossings[0][0] < now_s:
            _, job_id, attempt, place = heapq.heappop(self._crossings)
            known = self.open_jobs.get(job_id)
            if known is None or known.started_s is None or known.attempt != attempt:
                continue
            self._survived(known, _CROSSINGS[place] + 1)
            self._await_crossing(known, place + 1)

    def _survived(self, known: OpenJob, stop: int) -> None:
        """Count a job as having passed the bins before `stop`, those it has been counted in left out."""
        if known.next_bin < stop:
            self._tables.credit(known.table_keys, known.next_bin, stop, has_died=False)
            known.next_bin = stop

    def _await_crossing(self, known: OpenJob, place: int) -> None:
        if place < len(_CROSSINGS) and known.started_s is not None:
            at_s = known.started_s + LIFE_EDGES_S[_CROSSINGS[place]]
            heapq.heappush(self._crossings, (at_s, known.job.job_id, known.attempt, place))

    def _forget_run(self, known: OpenJob) -> None:
        known.started_s = None
        self._running.get(known.keys[0], {}).pop(known.job.job_id, None)

    def _numbers(self, job: Job, keys: tuple[Hashable | None, ...], now_s: float) -> tuple[Array, Array]:
        relative: list[float] = []
        plain = [math.log2(job.num_gpus), *self._burst(job.pool, now_s), *self._siblings(keys[0], now_s)]
        for key in keys:
            lives = None if key is None else self._lives.get(key)
            if lives is None:
                relative += _UNKNOWN
                plain += _UNKNOWN[:2]
            else:
                mean, last, last_but_one, deviation = lives.summary()
                relative += (mean, last, last_but_one)
                plain += (deviation, math.log1p(max(0.0, now_s - lives.last_end_s)))
        has_limit = job.limit_s is not None and job.limit_s > 0
        relative.append(math.log(job.limit_s) if has_limit and job.limit_s else math.nan)
        return np.array(relative, np.float32), np.array(plain, np.float32)

    def _burst(self, pool: str, now_s: float) -> tuple[float, ...]:
        submits = self._submits.get(pool)
        if submits is None:
            return (math.nan, 0.0, 0.0)
        return (math.log1p(max(0.0, now_s - submits.last_s)), *submits.counts(now_s))

    def _siblings(self, key: Hashable, now_s: float) -> tuple[float, ...]:
        """How many of the same pool and width run, ln age of the one in the middle and of the oldest."""
        starts = self._running.get(key)
        if not starts:
            return (0.0, math.nan, math.nan)
        number = len(starts)
        middle = next(islice(starts.values(), number // 2, None))
        oldest = next(iter(starts.values()))
        ages = (math.log1p(max(0.0, now_s - since_s)) for since_s in (middle, oldest))
        return (math.log1p(number), *ages)


def _keys(job: Job) -> tuple[Hashable | None, ...]:
    """Keys in the order of `KEY_KINDS`."""
    template = _template(job)
    user = None if job.user is None else ("user", job.user)
    name = None if template is None else ("name", template)
    both = None if user is None or name is None else ("user-name", job.user, template)
    return (("pool-width", job.pool, job.num_gpus), ("pool", job.pool), user, name, both)


def _table_keys(job: Job) -> tuple[Hashable, ...]:
    """Keys of ever fewer jobs, each among those of the one before, which is what to lean on."""
    keys: list[Hashable] = ["all", ("pool", job.pool), ("width", job.pool, job.num_gpus)]
    template = _template(job)
    if job.user is not None:
        keys.append(("user", job.pool, job.num_gpus, job.user))
    if template is not None:
        keys.append(("name", job.pool, job.num_gpus, job.user, template))
    return tuple(keys)


def _template(job: Job) -> str | None:
    """The job's name without its numbers, which do not tell names apart."""
    return None if job.name is None else _DIGITS.sub("#", job.name)
