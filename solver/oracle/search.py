"""Good schedules, found by search: a start for the exact solvers, and a plan where those give up.

All GPUs that jobs will need are entered in one timeline from the beginning: those of a job that has not
been placed yet at its latest start. Placing a job earlier moves its entry; as long as the timeline never
exceeds the cluster, every job can still start by its latest start. So no step of the search can slow a job.
"""

import heapq
import math
import random
from typing import Final

import numpy as np

from solver.oracle.instance import Instance
from solver.oracle.timeline import Timeline

_MOST_NEIGHBOURS: Final = 8
_ACCURACY_S: Final = 1e-6
_SHUFFLED_SHARE: Final = 0.5
_NOISE: Final = (0.5, 2.0)
_TIDY_EVERY: Final = 200


def search(instance: Instance, *, moves: int, seed: int = 0) -> dict[str, float] | None:
    """Start of each job: least work first as time goes on, then improved move by move.

    A move takes out a job that waits and up to eight jobs that hold GPUs while it waits or runs, and puts
    them back one by one, each at its earliest, in a random order or by work (GPUs x life) times noise. It
    stands if they wait no longer together than before.

    Args:
        instance: where latest starts are those of the reference there always is a schedule.
        moves: how many are tried for each job that waits at first.
        seed: of the moves.

    Returns:
        Starts, seconds; each is the job's submit or the end of another job. None if all jobs together at
        their latest starts exceed the capacity: then there is nothing to begin with.
    """
    places = _Places(instance)
    if places.peak_gpus() > instance.capacity_gpus:
        return None
    places.go_forward()
    if moves:
        _improve(places, moves, random.Random(seed))  # noqa: S311 - not for secrets
    places.compact()
    return {job.job_id: start_s for job, start_s in zip(instance.jobs, places.start_s, strict=True)}


class _Places:
    """Where in time each job stands. What is asked one by one is kept in lists, which is faster."""

    def __init__(self, instance: Instance) -> None:
        jobs = instance.jobs
        self.capacity_gpus = instance.capacity_gpus
        self.submit_s = [job.submit_s for job in jobs]
        self.length_s = [instance.durations_s[job.job_id] for job in jobs]
        self.latest_s = [instance.latest_s[job.job_id] for job in jobs]
        self.width = [job.num_gpus for job in jobs]
        self.start_s = list(self.latest_s)
        self._submits_s = np.array(self.submit_s)
        self._starts_s = np.zeros(len(jobs))
        self._ends_s = np.zeros(len(jobs))
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
                start_s = self.start_s[k]
                if start_s > self.submit_s[k]:
                    self.take(k)
                    earliest_s = self.earliest(k)
                    self.put(k, start_s if earliest_s is None else earliest_s)
                    is_moving = is_moving or self.start_s[k] < start_s

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


def _improve(places: _Places, moves: int, rng: random.Random) -> None:
    work = places.work()
    for _ in range(moves * len(places.waiting())):
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
        if not places.put_back(order, limit_s + _ACCURACY_S):
            for k, start_s in before:
                places.put(k, start_s)
