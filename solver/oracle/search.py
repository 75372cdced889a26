"""Good schedules, found by search: a start for the exact solvers, and a plan where those give up.

All GPUs that jobs will need are entered in one timeline from the beginning: those of a job that has not
been placed yet at its latest start. Placing a job earlier moves its entry; as long as the timeline never
exceeds the cluster, every job can still start by its latest start. So no step of the search can slow a job.
"""

import heapq
import math
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.oracle.instance import Grid, Instance, IntArray
from solver.oracle.timeline import Timeline

FloatArray = NDArray[np.float64]

_MOST_NEIGHBOURS: Final = 8
_ACCURACY_S: Final = 1e-6
_SHUFFLED_SHARE: Final = 0.5
_NOISE: Final = (0.5, 2.0)
_TIDY_EVERY: Final = 200
_COLD_FROM: Final = 0.9


def search(instance: Instance, *, moves: int, seed: int = 0, heat: float = 0.0) -> dict[str, float] | None:
    """Start of each job: least work first as time goes on, then improved move by move.

    A move takes out a job that waits and up to eight jobs that hold GPUs while it waits or runs, and puts
    them back one by one, each at its earliest, in a random order or by work (GPUs x life) times noise. It
    stands if they wait no longer together than before; with heat also if they wait somewhat longer, ever
    less often and by less (simulated annealing), and the best schedule on the way is returned.

    Args:
        instance: where latest starts are those of the reference there always is a schedule.
        moves: how many are tried for each job that waits at first.
        seed: of the moves.
        heat: how much longer a move may let jobs wait at first, on average, as a share of the mean wait of
            a job that waits. Pays with hundreds of moves per job.

    Returns:
        Starts, seconds; each is the job's submit or the end of another job. None if all jobs together at
        their latest starts exceed the capacity: then there is nothing to begin with.
    """
    jobs = instance.jobs
    places = _Places(
        np.array([job.submit_s for job in jobs]),
        np.array([instance.durations_s[job.job_id] for job in jobs]),
        np.array([instance.latest_s[job.job_id] for job in jobs]),
        np.array([job.num_gpus for job in jobs], dtype=np.int64),
        instance.capacity_gpus,
    )
    if places.peak_gpus() > instance.capacity_gpus:
        return None
    places.go_forward()
    if moves:
        _improve(places, moves, heat, random.Random(seed))  # noqa: S311 - not for secrets
    places.compact()
    return {job.job_id: start_s for job, start_s in zip(jobs, places.start_s, strict=True)}


def in_order(grid: Grid, capacity_gpus: int, order: Sequence[int]) -> IntArray | None:
    """The schedule that gives each job in turn its earliest place; those with a single start come first.

    Args:
        grid: the jobs.
        capacity_gpus: GPUs of the cluster.
        order: in which the jobs are placed.

    Returns:
        (jobs,) starts in steps; None if a job finds no place by its latest start.
    """
    timeline = Timeline()
    starts = np.empty(grid.submit.size, dtype=np.int64)
    is_fixed = grid.submit == grid.latest
    for k in sorted(order, key=lambda k: not is_fixed[k]):
        width, length = int(grid.width[k]), float(grid.length[k])
        start = timeline.earliest(float(grid.submit[k]), float(grid.latest[k]), length, capacity_gpus - width)
        if start is None:
            return None
        timeline.add(start, start + length, width)
        starts[k] = round(start)
    return starts


class _Places:
    """Where in time each job stands, seconds. What is asked one by one is kept in lists, which is faster."""

    def __init__(
        self, submit: FloatArray, length: FloatArray, latest: FloatArray, width: IntArray, capacity_gpus: int
    ) -> None:
        self.capacity_gpus = capacity_gpus
        self.submit_s: list[float] = submit.tolist()
        self.length_s: list[float] = length.tolist()
        self.latest_s: list[float] = latest.tolist()
        self.width: list[int] = width.tolist()
        self.start_s = list(self.latest_s)
        self._submits_s = submit
        self._starts_s = np.zeros(submit.size)
        self._ends_s = np.zeros(submit.size)
        self._timeline = Timeline()
        self._changes = 0
        for k, latest_s in enumerate(self.latest_s):
            self.put(k, latest_s)

    def peak_gpus(self) -> int:
        """Most GPUs in use at any time."""
        return self._timeline.peak(-math.inf, math.inf)

    def work(self) -> list[float]:
        """GPU-seconds of each job."""
        return [length_s * width for length_s, width in zip(self.length_s, self.width, strict=True)]

    def take(self, k: int) -> None:
        """Take a job's GPUs out."""
        start_s = self.start_s[k]
        self._timeline.add(start_s, start_s + self.length_s[k], -self.width[k])
        self._changes += 1
        if self._changes % _TIDY_EVERY == 0:
            self._timeline.tidy()

    def put(self, k: int, start_s: float) -> None:
        """Let a job that was taken out start at an instant."""
        end_s = start_s + self.length_s[k]
        self.start_s[k] = self._starts_s[k] = start_s
        self._ends_s[k] = end_s
        self._timeline.add(start_s, end_s, self.width[k])

    def earliest(self, k: int) -> float | None:
        """Where a job that was taken out may start at the earliest."""
        limit_gpus = self.capacity_gpus - self.width[k]
        return self._timeline.earliest(self.submit_s[k], self.latest_s[k], self.length_s[k], limit_gpus)

    def waiting(self) -> list[int]:
        """Jobs that do not start as they come."""
        return list(np.flatnonzero(self._starts_s > self._submits_s).tolist())

    def neighbours(self, k: int) -> list[int]:
        """Other jobs that hold GPUs while this one waits or runs."""
        near = (self._starts_s < self._ends_s[k]) & (self._ends_s > self.submit_s[k])
        near[k] = False
        return list(np.flatnonzero(near).tolist())

    def go_forward(self) -> None:
        """At every arrival and ending, the pending jobs of least work start that nobody's entry forbids.

        What is pending is tried again until nothing moves: who starts gives up its entry further on. So
        nobody is left whose latest start comes before the next arrival or ending.
        """
        work = self.work()
        arrivals = np.argsort(self._submits_s, kind="stable").tolist()
        events = np.unique(self._submits_s).tolist()
        pending: list[tuple[float, int]] = []
        k = 0
        while events:
            now_s = heapq.heappop(events)
            while k < len(arrivals) and self.submit_s[arrivals[k]] <= now_s:
                pending.append((work[arrivals[k]], arrivals[k]))
                k += 1
            pending.sort()
            while pending and (started := [place for _, place in pending if self._starts(place, now_s)]):
                gone = set(started)
                pending = [entry for entry in pending if entry[1] not in gone]
                for place in started:
                    heapq.heappush(events, float(self._ends_s[place]))

    def _starts(self, k: int, now_s: float) -> bool:
        """Start a pending job if its latest start has come or its GPUs are free until then."""
        latest_s = self.latest_s[k]
        if latest_s > now_s:
            until_s = min(now_s + self.length_s[k], latest_s)
            if self._timeline.peak(now_s, until_s) + self.width[k] > self.capacity_gpus:
                return False
            self.take(k)
            self.put(k, now_s)
        return True

    def compact(self) -> None:
        """Move everybody to the earliest place there is, until nobody moves."""
        is_moving = True
        while is_moving:
            is_moving = False
            for k in np.argsort(self._starts_s, kind="stable").tolist():
                is_moving = self.move_up(k) or is_moving

    def move_up(self, k: int) -> bool:
        """Move a job to the earliest place there is; whether that is earlier than where it was."""
        start_s = self.start_s[k]
        if start_s <= self.submit_s[k]:
            return False
        self.take(k)
        earliest_s = self.earliest(k)
        self.put(k, start_s if earliest_s is None else earliest_s)
        is_earlier: bool = self.start_s[k] < start_s
        return is_earlier

    def go_back(self, starts_s: list[float]) -> None:
        """Stand as before."""
        moved = [k for k, start_s in enumerate(self.start_s) if start_s != starts_s[k]]
        for k in moved:
            self.take(k)
        for k in moved:
            self.put(k, starts_s[k])

    def put_back(self, order: list[int], limit_s: float) -> bool:
        """Put jobs that were taken out back, each at its earliest, unless that takes longer than a limit.

        Args:
            order: the jobs.
            limit_s: most the sum of their starts may be.

        Returns:
            Whether it worked; if not, they are all out again.
        """
        total_s = 0.0
        for done, k in enumerate(order):
            earliest_s = self.earliest(k)
            total_s += math.inf if earliest_s is None else earliest_s
            if earliest_s is None or total_s > limit_s:
                for placed in order[:done]:
                    self.take(placed)
                return False
            self.put(k, earliest_s)
        return True


def _improve(places: _Places, moves: int, heat: float, rng: random.Random) -> None:
    work = places.work()
    first = places.waiting()
    count = moves * len(first)
    heat_s = heat * fmean(places.start_s[k] - places.submit_s[k] for k in first) if first else 0.0
    gained_s, most_s, best_s = 0.0, 0.0, list(places.start_s)
    for done in range(count):
        waiting = places.waiting()
        if not waiting:
            return
        chosen = rng.choice(waiting)
        near = places.neighbours(chosen)
        order = [chosen, *rng.sample(near, min(len(near), rng.randint(1, _MOST_NEIGHBOURS)))]
        before = [(k, places.start_s[k]) for k in order]
        for k in order:
            places.take(k)
        if rng.random() < _SHUFFLED_SHARE:
            rng.shuffle(order)
        else:
            order.sort(key=lambda k: work[k] * rng.uniform(*_NOISE))
        limit_s = math.fsum(start_s for _, start_s in before)
        longer_s = max(0.0, 1.0 - done / (_COLD_FROM * count)) * heat_s
        if longer_s:
            longer_s *= rng.expovariate(1.0)
        if not places.put_back(order, limit_s + longer_s + _ACCURACY_S):
            for k, start_s in before:
                places.put(k, start_s)
            continue
        gained_s += limit_s - math.fsum(places.start_s[k] for k in order)
        if heat_s and gained_s > most_s + _ACCURACY_S:
            most_s, best_s = gained_s, list(places.start_s)
    if heat_s and gained_s < most_s - _ACCURACY_S:
        places.go_back(best_s)
