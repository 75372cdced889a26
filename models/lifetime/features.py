"""What is known of a job the moment it is submitted: its features, from nothing that happens later.

One class is told the facts in their order and says the features of each job as it is submitted. Training
on a table of past jobs tells it the same facts again (`models.lifetime.lives`), so a forecast and a row
of the training table cannot differ in what they see.
"""

import heapq
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.work import WorkDone, started_at
from models.lifetime.keys import KEY_KINDS, SPECIFIC_FIRST, JobKeys, Key, keys_of
from models.lifetime.limit_use import PLAIN_USE, RELATIVE_USE, LimitUse
from models.lifetime.names import SimilarNames
from models.lifetime.queue import BURST_FEATURES, QUEUE_FEATURES, QueueState
from models.lifetime.recent import KeyLives, RecentLives
from models.lifetime.siblings import (
    PLAIN_SIBLINGS,
    RELATIVE_SIBLINGS,
    Family,
    Kin,
    Siblings,
    plain_of,
    relative_of,
)
from models.lifetime.tables import NUM_BINS, Array, DecayingTables, logit

RELATIVE: Final = (
    *(f"{what} {kind}" for kind in KEY_KINDS for what in ("mean", "last", "last but one")),
    *RELATIVE_USE,
    *RELATIVE_SIBLINGS,
    "age of the middle one",
    "age of the oldest",
)
"""ln of lives: the model sees how far a bin's edge lies from each of them."""
PLAIN: Final = (
    "width",
    "hour",
    "weekday",
    *BURST_FEATURES,
    *QUEUE_FEATURES,
    "running",
    *PLAIN_USE,
    *PLAIN_SIBLINGS,
    *(f"{what} {kind}" for kind in KEY_KINDS for what in ("deviation", "since end", "since submit")),
)

CLOCK: Final = ("hour", "weekday")
"""Of `PLAIN`, what tells the time: of a short history it marks single bursts."""

MOST_ATOMS: Final = 32
"""Recent lives that say where within a bin a life lies."""

MOST_OPEN: Final = 200_000
"""Jobs that may be open at once; beyond, the one submitted first is forgotten."""

_FIRST_CROSSING: Final = bisect_left(LIFE_EDGES_S, 512.0)
_CROSSINGS: Final = tuple(range(_FIRST_CROSSING, NUM_BINS, 3))
"""Bins at whose end a running job is credited with what it has passed; shorter lives when they end."""

_CROSSED_S: Final = tuple(LIFE_EDGES_S[place] for place in _CROSSINGS)

_SIMILAR: Final = KEY_KINDS.index("similar name")
"""Its lives are those of another name: a job adds nothing to them."""
_HOUR_S: Final = 3600.0
_DAY_S: Final = 86_400.0
_UNKNOWN: Final = (math.nan, math.nan, math.nan)

Half = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """Features of one job as of its submit, in half precision: there are many of them.

    Attributes:
        logits: of the hazards by chain and memory, shape (chains x memories, bins).
        exposures: ln(1 + exposures) behind the most specific of them, shape (bins,).
        relative: values of `RELATIVE`, NaN where unknown.
        plain: values of `PLAIN`, NaN where unknown.
        atoms: ln lives of the last jobs most like it, the most alike ones first, at most `MOST_ATOMS`.
    """

    logits: Half
    exposures: Half
    relative: Half
    plain: Half
    atoms: Array


@dataclass(slots=True)
class OpenJob:
    """A job that has been submitted and has not ended.

    Attributes:
        job: the job.
        features: as of its submit.
        keys: what it is grouped by.
        kin, family: its siblings.
        run: what it has done since it was started, None while it does not run.
        reached_s: greatest age at which an earlier run was stopped.
        stopped_s: when that was.
        next_bin: first bin in which it has not been counted yet.
        attempt: how often it was started, or went on at another rate.
    """

    job: Job
    features: JobFeatures
    keys: JobKeys
    kin: Kin
    family: int
    run: WorkDone | None = None
    reached_s: float = 0.0
    stopped_s: float = -math.inf
    next_bin: int = 0
    attempt: int = 0

    def age_s(self, now_s: float) -> float:
        """How long it has lived at least, seconds of work."""
        return max(self.reached_s, self.ran_s(now_s))

    def ran_s(self, now_s: float) -> float:
        """Work done since it was started, seconds; 0 while it does not run."""
        return 0.0 if self.run is None else self.run.work_at(now_s)

    def seen_s(self, now_s: float) -> float:
        """When it had that age."""
        return self.stopped_s if self.age_s(now_s) == self.reached_s else now_s


@dataclass
class FeatureHistory:
    """Told facts in the order of their instants; says the features of each job as of its submit.

    Attributes:
        open_jobs: by id, those that have been submitted and have not ended.
        tables, lives, names, queue, siblings, use: what has been learned of keys.
        running: by pool and width, the starts of what runs, by id.
        crossings: heap of (instant, id, attempt, place in the list of crossings).
    """

    open_jobs: dict[str, OpenJob] = field(default_factory=dict)
    tables: DecayingTables = field(default_factory=DecayingTables)
    lives: RecentLives = field(default_factory=RecentLives)
    names: SimilarNames = field(default_factory=SimilarNames)
    queue: QueueState = field(default_factory=QueueState)
    siblings: Siblings = field(default_factory=Siblings)
    use: LimitUse = field(default_factory=LimitUse)
    running: dict[Key, dict[str, float]] = field(default_factory=dict)
    crossings: list[tuple[float, str, int, int]] = field(default_factory=list)

    def submitted(self, job: Job, now_s: float) -> OpenJob:
        """A job has become eligible; told again, nothing changes."""
        known = self.open_jobs.get(job.job_id)
        if known is not None:
            return known
        self._advance(now_s)
        if len(self.open_jobs) >= MOST_OPEN:
            self.withdrawn(next(iter(self.open_jobs.values())).job, now_s)
        keys = keys_of(job, self.names)
        kin, family = self.siblings.family_of(job, now_s)
        features = self._features(job, keys, family, now_s)
        for place, key in enumerate(keys.lives):
            if key is not None:
                lives = self.lives.used(key)
                lives.last_submit_s = lives.last_submit_s if place == _SIMILAR else now_s
        known = self.open_jobs[job.job_id] = OpenJob(job, features, keys, kin, family.number)
        self.queue.submitted(job, now_s)
        self.siblings.submitted(family, now_s)
        return known

    def foreseen(self, job: Job, now_s: float) -> JobFeatures:
        """Features that a job would have if it were submitted now: it is not, and only time passes."""
        self._advance(now_s)
        keys = keys_of(job, self.names, is_submitted=False)
        return self._features(job, keys, self.siblings.family_for(job, now_s), now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs, from zero."""
        known = self.submitted(job, now_s)
        if known.run is not None:
            self._forget_run(known)
        known.run = started_at(now_s)
        known.attempt += 1
        self.running.setdefault(known.keys.pool_width, {})[job.job_id] = now_s
        self.queue.started(job)
        self.siblings.started(known.kin, known.family, known.run)
        self._await_crossing(known, 0)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate; of one that does not run nothing is kept."""
        known = self.open_jobs.get(job.job_id)
        if known is None or known.run is None or known.run.rate == rate:
            return
        self._advance(now_s)
        self.siblings.stopped(known.kin, known.family, known.run)
        known.run = known.run.at_rate(rate, now_s)
        self.siblings.started(known.kin, known.family, known.run)
        known.attempt += 1
        self._await_crossing(known, bisect_left(_CROSSED_S, known.run.work_s))

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
        self.queue.left(job)

    def ended(self, job: Job, now_s: float, duration_s: float) -> OpenJob:
        """A job has ended after `duration_s` of running alone."""
        self._advance(now_s)
        known = self.submitted(job, now_s)
        self._forget_run(known)
        self.queue.left(job)
        del self.open_jobs[job.job_id]
        in_bin = bisect_left(LIFE_EDGES_S, duration_s)
        if in_bin < NUM_BINS:
            self.tables.credit(known.keys.tables, min(known.next_bin, in_bin), in_bin + 1, has_died=True)
        else:
            self._survived(known, NUM_BINS)
        ln_life = math.log(max(duration_s, 1.0))
        for place, key in enumerate(known.keys.lives):
            if key is not None and place != _SIMILAR:
                self.lives.used(key).add(ln_life, now_s)
        self.use.ended(known.keys.use, job.limit_s, ln_life)
        self.siblings.ended(known.kin, known.family, ln_life)
        return known

    def _advance(self, now_s: float) -> None:
        """Count running jobs in the bins they have passed by `now_s`."""
        while self.crossings and self.crossings[0][0] < now_s:
            _, job_id, attempt, place = heapq.heappop(self.crossings)
            known = self.open_jobs.get(job_id)
            if known is None or known.run is None or known.attempt != attempt:
                continue
            self._survived(known, _CROSSINGS[place] + 1)
            self._await_crossing(known, place + 1)

    def _survived(self, known: OpenJob, stop: int) -> None:
        """Count a job as having passed the bins before `stop`, those it has been counted in left out."""
        if known.next_bin < stop:
            self.tables.credit(known.keys.tables, known.next_bin, stop, has_died=False)
            known.next_bin = stop

    def _await_crossing(self, known: OpenJob, place: int) -> None:
        if place < len(_CROSSINGS) and known.run is not None:
            at_s = known.run.reaches_s(_CROSSED_S[place])
            heapq.heappush(self.crossings, (at_s, known.job.job_id, known.attempt, place))

    def _forget_run(self, known: OpenJob) -> None:
        """From running to waiting, if it runs."""
        run = known.run
        if run is None:
            return
        known.run = None
        first = known.keys.pool_width
        starts = self.running[first]
        del starts[known.job.job_id]
        if not starts:
            del self.running[first]
        self.queue.stopped(known.job)
        self.siblings.stopped(known.kin, known.family, run)

    def _features(self, job: Job, keys: JobKeys, family: Family, now_s: float) -> JobFeatures:
        hazards, exposed = self.tables.hazards(keys.chains)
        means, others, atoms = self._of_keys(keys, now_s)
        relative_use, plain_use = self.use.features(keys.use, job.limit_s)
        relative = (*means, *relative_use, *relative_of(family, now_s), *self._ages(keys, now_s))
        plain = (
            math.log2(job.num_gpus),
            now_s % _DAY_S / _HOUR_S,
            now_s // _DAY_S % 7.0,
            *self.queue.burst(job, now_s),
            *self.queue.features(job),
            math.log1p(len(self.running.get(keys.pool_width, ()))),
            *plain_use,
            *plain_of(family, now_s),
            *others,
        )
        return JobFeatures(
            logit(hazards).reshape(-1, NUM_BINS).astype(np.float16),
            np.log1p(exposed).astype(np.float16),
            np.array(relative, np.float16),
            np.array(plain, np.float16),
            np.array(atoms, np.float32),
        )

    def _of_keys(self, keys: JobKeys, now_s: float) -> tuple[list[float], list[float], list[float]]:
        """Relative and plain values of each key's recent lives, and the atoms."""
        relative: list[float] = []
        plain: list[float] = []
        found = [None if key is None else self.lives.get(key) or KeyLives() for key in keys.lives]
        for lives in found:
            if lives is None:
                relative += _UNKNOWN
                plain += _UNKNOWN
                continue
            mean, last, last_but_one, deviation = lives.summary()
            relative += (mean, last, last_but_one)
            since_end = math.log1p(max(now_s - lives.last_end_s, 0.0))
            since_submit = math.log1p(max(now_s - lives.last_submit_s, 0.0))
            plain += (deviation, since_end, since_submit)
        atoms: list[float] = []
        for place in SPECIFIC_FIRST:
            lives = found[place]
            if lives is not None and len(atoms) < MOST_ATOMS:
                atoms += reversed(lives.lives)
        return relative, plain, atoms[:MOST_ATOMS]

    def _ages(self, keys: JobKeys, now_s: float) -> tuple[float, float]:
        """Ln age of the one in the middle and of the oldest that runs with the same pool and width."""
        starts = self.running.get(keys.pool_width)
        if not starts:
            return (math.nan, math.nan)
        middle = next(islice(starts, len(starts) // 2, None))
        ages_s = (self.open_jobs[job_id].ran_s(now_s) for job_id in (middle, next(iter(starts))))
        middle_s, oldest_s = ages_s
        return (math.log(max(1.0, middle_s)), math.log(max(1.0, oldest_s)))
