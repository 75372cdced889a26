"""Whose GPUs were used by whom, and which stood idle while somebody waited: integrals over a schedule.

Schedules are taken as valid (`solver.check` says whether one is). Where stretches name their GPUs, a GPU
that two jobs share is one GPU in use: the first one's, and the other's once that has left. Else GPUs count as
used by one job each. A job waits from its submit until its last stretch ends, except while it runs; one
whose last stretch was sent back, or who has none, waits on.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

from domain.jobs import Job
from domain.schedules import Stretch, as_attempts
from domain.sharing import SharedSpell, shared_spells

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class UseIntegrals:
    """GPU-hours of one window of a schedule.

    Attributes:
        capacity_gpu_hours: what the cluster offered.
        allocated_gpu_hours: what jobs held, lost attempts included; a shared GPU once.
        work_gpu_hours: width x rate over the stretches that counted: equal to what was allocated to
            them where nothing is packed and no attempt was sent back with a part of its work.
        lost_gpu_hours: held by attempts that were thrown away; of attempts that were sent back and kept a
            part of their work, the other part. By jobs: one that shares its GPUs lost them whole.
        lent_gpu_hours: integral of the sum over pools of max(0, GPUs in use - quota).
        lent_by_donor: the same, laid at each instant on the pools with idle quota in proportion to it;
            adds up to less where pools use GPUs beyond all quotas.
        held_idle_gpu_hours: integral of the idle GPUs while some waiting job is narrow enough for them.
    """

    capacity_gpu_hours: float
    allocated_gpu_hours: float
    work_gpu_hours: float
    lost_gpu_hours: float
    lent_gpu_hours: float
    lent_by_donor: Mapping[str, float]
    held_idle_gpu_hours: float

    @property
    def utilisation(self) -> float:
        """Allocated GPU-hours / capacity, in [0, 1]; 0 where there is no capacity."""
        return self.allocated_gpu_hours / self.capacity_gpu_hours if self.capacity_gpu_hours else 0.0

    @property
    def effective_utilisation(self) -> float:
        """Work done / capacity: repeated work and packing losses do not count.

        In [0, 1] where nobody shares; two jobs on a GPU may together do more than one alone.
        """
        return self.work_gpu_hours / self.capacity_gpu_hours if self.capacity_gpu_hours else 0.0


def use_integrals(
    jobs: Iterable[Job],
    stretches: Iterable[Stretch],
    quotas: Mapping[str, int],
    window: tuple[float, float],
    capacity_gpus: int | None = None,
) -> UseIntegrals:
    """Integrate who used what over a window, in one sweep of O(n log n).

    Args:
        jobs: every job that ran or waited.
        stretches: all of the schedule's, also those outside the window.
        quotas: GPUs of each pool.
        window: [from, to], seconds on the schedule's clock.
        capacity_gpus: GPUs of the cluster; the sum of the quotas where None.

    Raises:
        ValueError: if the window is not finite or reversed, or a stretch or pool is of nobody known.
    """
    from_s, to_s = window
    if not (math.isfinite(from_s) and math.isfinite(to_s) and from_s <= to_s):
        raise ValueError(f"the window [{from_s}, {to_s}] is not one")
    by_id = {job.job_id: job for job in jobs}
    all_stretches = tuple(stretches)
    capacity = sum(quotas.values()) if capacity_gpus is None else capacity_gpus
    sweep = _Sweep(tuple(quotas.values()), capacity, from_s, to_s)
    _require_known(by_id, all_stretches, quotas)
    shared = shared_spells(by_id, all_stretches)
    for event in _events(by_id, all_stretches, quotas, shared):
        sweep.advance(event.at_s)
        sweep.apply(event)
    sweep.finish()

    def gpu_hours(stretch: Stretch) -> float:
        inside_s = max(0.0, min(stretch.end_s, to_s) - max(stretch.start_s, from_s))
        return by_id[stretch.job_id].num_gpus * inside_s / _HOUR_S

    allocated = work = lost = 0.0
    for stretch in all_stretches:
        allocated += gpu_hours(stretch)
        work += 0.0 if stretch.is_lost else gpu_hours(stretch) * stretch.rate
    for attempt in as_attempts(all_stretches):
        lost += gpu_hours(attempt) * attempt.lost_share
    return UseIntegrals(
        capacity_gpu_hours=capacity * (to_s - from_s) / _HOUR_S,
        allocated_gpu_hours=allocated - math.fsum(spell.inside_s(window) for spell in shared) / _HOUR_S,
        work_gpu_hours=work,
        lost_gpu_hours=lost,
        lent_gpu_hours=sweep.lent_gpu_s / _HOUR_S,
        lent_by_donor={
            pool: gpu_s / _HOUR_S for pool, gpu_s in zip(quotas, sweep.donated_gpu_s, strict=True)
        },
        held_idle_gpu_hours=sweep.held_idle_gpu_s / _HOUR_S,
    )


def lending_spells(
    jobs: Iterable[Job], stretches: Iterable[Stretch], quotas: Mapping[str, int]
) -> dict[str, tuple[tuple[float, float], ...]]:
    """When each pool lent: the instants at which it has idle quota while another pool uses more than its own.

    Returns:
        For each pool its spells [start, end), ordered and disjoint, seconds.

    Raises:
        ValueError: if a stretch or a pool is of nobody known.
    """
    pools = tuple(quotas)
    ledger = _Ledger(tuple(quotas.values()))
    spells: dict[str, list[tuple[float, float]]] = {pool: [] for pool in pools}
    since: list[float | None] = [None] * len(pools)
    by_id, all_stretches = {job.job_id: job for job in jobs}, tuple(stretches)
    _require_known(by_id, all_stretches, quotas)
    shared = shared_spells(by_id, all_stretches)
    events = [event for event in _events(by_id, all_stretches, quotas, shared) if event.gpus]
    for place, event in enumerate(events):
        ledger.use(event.pool, event.gpus)
        if place + 1 < len(events) and events[place + 1].at_s == event.at_s:
            continue
        for index, pool in enumerate(pools):
            is_lending = ledger.lent > 0 and ledger.left[index] > 0
            begun_s = since[index]
            if is_lending and begun_s is None:
                since[index] = event.at_s
            elif begun_s is not None and not is_lending:
                spells[pool].append((begun_s, event.at_s))
                since[index] = None
    return {pool: tuple(found) for pool, found in spells.items()}


class _Event(NamedTuple):
    """One change at one instant: GPUs taken (+) or given back (-), and who waits on (+1) or no more (-1)."""

    at_s: float
    pool: int
    width: int
    gpus: int
    waiting: int


def _require_known(by_id: Mapping[str, Job], stretches: Iterable[Stretch], quotas: Mapping[str, int]) -> None:
    homeless = next((job for job in by_id.values() if job.pool not in quotas), None)
    if homeless is not None:
        raise ValueError(f"job {homeless.job_id}: pool {homeless.pool} has no quota")
    unknown = next((one.job_id for one in stretches if one.job_id not in by_id), None)
    if unknown is not None:
        raise ValueError(f"a stretch is of job {unknown}, which is not among the jobs")


def _events(
    by_id: Mapping[str, Job],
    stretches: Iterable[Stretch],
    quotas: Mapping[str, int],
    shared: Iterable[SharedSpell],
) -> list[_Event]:
    index = {pool: place for place, pool in enumerate(quotas)}
    by_job: dict[str, list[Stretch]] = {}
    for stretch in stretches:
        by_job.setdefault(stretch.job_id, []).append(stretch)
    events: list[_Event] = []
    for job in by_id.values():
        events.extend(_life(job, index[job.pool], by_job.get(job.job_id, [])))
    for spell in shared:
        pool = index[by_id[spell.second].pool]
        events.append(_Event(spell.start_s, pool, 0, -1, 0))
        events.append(_Event(spell.end_s, pool, 0, 1, 0))
    events.sort(key=itemgetter(0))
    return events


def _life(job: Job, pool: int, stretches: list[Stretch]) -> Iterator[_Event]:
    width = job.num_gpus
    yield _Event(job.submit_s, pool, width, 0, 1)
    stretches.sort(key=itemgetter(1, 2))
    for stretch in stretches:
        is_done = stretch is stretches[-1] and not stretch.was_sent_back
        yield _Event(stretch.start_s, pool, width, width, -1)
        yield _Event(stretch.end_s, pool, width, -width, 0 if is_done else 1)


class _Ledger:
    """GPUs each pool has left of its quota (negative: beyond it), and the two sums over pools."""

    __slots__ = ("idle_quota", "left", "lent")

    def __init__(self, quotas: tuple[int, ...]) -> None:
        self.left = list(quotas)
        self.idle_quota = sum(quotas)
        self.lent = 0

    def use(self, pool: int, gpus: int) -> None:
        before = self.left[pool]
        after = self.left[pool] = before - gpus
        self.idle_quota += max(0, after) - max(0, before)
        self.lent += max(0, -after) - max(0, -before)


class _Waiting:
    """How many jobs wait, by width; the narrowest is found without looking at the queue."""

    __slots__ = ("_by_width", "_widths")

    def __init__(self) -> None:
        self._by_width: dict[int, int] = {}
        self._widths: list[int] = []

    def change(self, width: int, by: int) -> None:
        count = self._by_width[width] = self._by_width.get(width, 0) + by
        if count == 1 and by == 1:
            heapq.heappush(self._widths, width)

    def has_one_within(self, gpus: int) -> bool:
        widths = self._widths
        while widths and self._by_width[widths[0]] <= 0:
            heapq.heappop(widths)
        return bool(widths) and widths[0] <= gpus


class _Sweep:
    """Walks through the events and integrates between them, inside the window only.

    What donors lent is lent x idle_p / idle at each instant. All of it but idle_p is the same for every
    pool, so its integral is kept once, and a pool settles its part only when its own idle quota changes.
    """

    __slots__ = (
        "_capacity",
        "_clock_s",
        "_ledger",
        "_per_idle_gpu_s",
        "_quota",
        "_settled",
        "_to_s",
        "_waiting",
        "donated_gpu_s",
        "held_idle_gpu_s",
        "lent_gpu_s",
    )

    def __init__(self, quotas: tuple[int, ...], capacity: int, from_s: float, to_s: float) -> None:
        self._capacity = capacity
        self._quota = sum(quotas)
        self._clock_s, self._to_s = from_s, to_s
        self._ledger = _Ledger(quotas)
        self._waiting = _Waiting()
        self._per_idle_gpu_s = 0.0
        self._settled = [0.0] * len(quotas)
        self.donated_gpu_s = [0.0] * len(quotas)
        self.lent_gpu_s = 0.0
        self.held_idle_gpu_s = 0.0

    def advance(self, at_s: float) -> None:
        at_s = min(at_s, self._to_s)
        step_s = at_s - self._clock_s
        if step_s <= 0.0:
            return
        self._clock_s = at_s
        ledger = self._ledger
        if ledger.lent:
            self.lent_gpu_s += ledger.lent * step_s
            if ledger.idle_quota:
                self._per_idle_gpu_s += min(1.0, ledger.lent / ledger.idle_quota) * step_s
        idle = self._capacity - (self._quota - ledger.idle_quota + ledger.lent)
        if idle > 0 and self._waiting.has_one_within(idle):
            self.held_idle_gpu_s += idle * step_s

    def apply(self, event: _Event) -> None:
        if event.gpus:
            self._settle(event.pool)
            self._ledger.use(event.pool, event.gpus)
        if event.waiting:
            self._waiting.change(event.width, event.waiting)

    def finish(self) -> None:
        self.advance(self._to_s)
        for pool in range(len(self.donated_gpu_s)):
            self._settle(pool)

    def _settle(self, pool: int) -> None:
        idle = max(0, self._ledger.left[pool])
        self.donated_gpu_s[pool] += idle * (self._per_idle_gpu_s - self._settled[pool])
        self._settled[pool] = self._per_idle_gpu_s
