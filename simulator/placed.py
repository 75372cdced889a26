"""Plans put on real nodes as a replay goes: policies decide counts, what finds no place waits."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from domain.cluster import Gpu, Node
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from solver.placement.board import Board, Tenant
from solver.placement.cells import IntArray, cells_taken
from solver.placement.greedy import Ask, place_asks, stocks_of
from solver.placement.room import FreeNodes, Gang, GuestRoom
from solver.placement.settle import Settled, settle

_END_LEVEL: Final = 0.9
"""Level of a forecast life by which a gang is expected to have ended."""
_USUAL_S: Final = 10 * 86_400.0
"""How far back a pool's usual widths are looked for."""
_USUAL_JOBS: Final = 2
"""Jobs of a width in that time that make it usual."""


class Keep(StrEnum):
    """Which gangs can always be placed: what guests leave free, in cells."""

    NONE = "none"
    WIDEST = "widest"
    EACH = "each"


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """How gangs are put on nodes.

    Attributes:
        keep: guests leave cells free for the widest usual gang that any pool may bring within its idle
            quota (`widest`), for one of each pool (`each`), or none.
        drains: for an own job that finds no place, so many sets of nodes are kept for it as they become
            free; 0: while one waits, nothing is lent at all.
        by_end: gangs go where they least put off the instant at which a node is empty.
    """

    keep: Keep = Keep.NONE
    drains: int = 1
    by_end: bool = False


DEFAULT_RULE: Final = PlaceRule()


class PlacedPlans:
    """Puts plans on nodes, and keeps the books on who is where.

    Own starts come first, the widest first; one that finds no place waits, and nodes are kept for it as they
    drain. Who may be sent back for it is chosen by node. Then guests, in the order of the plan, where they
    leave free what is kept; if one finds no place although all of them fit at once, all are placed
    together, the largest pieces first.

    Args:
        nodes: the cluster's nodes.
        quotas: GPUs of each pool.
        lives: forecaster of lives, for when nodes become free.
        requeueable_share: share of jobs that may be sent back.
        past: jobs submitted before the replay, of which pools' usual widths are learned.
        rule: how gangs are put on nodes.

    Attributes:
        held_up_s: for how long each job had enough idle GPUs in sum, and was to start, but had no place.
        ask_again_gpus: ask for a plan of jobs of at most so many GPUs: a wider guest found no place. None:
            there is no need to.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        quotas: Mapping[str, int],
        lives: LifetimeForecaster,
        *,
        requeueable_share: float = 0.0,
        past: Iterable[Job] = (),
        rule: PlaceRule = DEFAULT_RULE,
    ) -> None:
        self._board = Board(nodes, by_end=rule.by_end)
        self._quotas = dict(quotas)
        self._own_gpus: Counter[str] = Counter()
        self._lives = lives
        self._share = requeueable_share
        self._rule = rule
        self._seen: deque[Job] = deque()
        self._usual: Counter[tuple[str, int]] = Counter()
        self._waiting: set[str] = set()
        self._asked_s = 0.0
        self.held_up_s: dict[str, float] = {}
        self.ask_again_gpus: int | None = None
        for job in past:
            self.submitted(job)

    def submitted(self, job: Job) -> None:
        """A job has become eligible."""
        self._seen.append(job)
        self._usual[job.pool, job.num_gpus] += 1
        while self._seen[0].submit_s < job.submit_s - _USUAL_S:
            old = self._seen.popleft()
            self._usual[old.pool, old.num_gpus] -= 1

    def ended(self, job: Job) -> None:
        """A running job has ended."""
        self._leave(job)

    def arrange(self, plan: Plan, now_s: float) -> Plan:
        """The plan as far as it can be placed, which is then carried out."""
        if now_s != self._asked_s:
            for job_id in self._waiting:
                self.held_up_s[job_id] = self.held_up_s.get(job_id, 0.0) + now_s - self._asked_s
            self._waiting.clear()
            self._asked_s = now_s
        done = self._settle(plan, now_s)
        placed = dict(done.placed)
        if not done.blocked or self._rule.drains:
            given = {placement.job_id: placement.gpus for placement in plan.placements}
            guests = [start for start in plan.starts if start.is_guest and start.job.job_id not in given]
            placed |= self._lend(guests, done.barred, now_s)
            placed |= self._ride(plan.starts, given, done.barred, now_s)
        self._note(plan.starts, placed, done.blocked)
        return replace(
            plan,
            send_backs=tuple(done.send_backs),
            starts=tuple(start for start in plan.starts if start.job.job_id in placed),
            placements=tuple(Placement(name, gpus) for name, gpus in placed.items()),
        )

    def gpus_of(self, job_id: str) -> tuple[Gpu, ...]:
        """GPUs of a running job, alone or shared; none of one that does not run."""
        return self._board.gpus_of(job_id)

    def room(self, own: Plan, now_s: float) -> GuestRoom:
        """What is left for guests once a plan's own part is carried out; nothing is changed by asking."""
        if not (own.starts or own.conversions or own.send_backs):
            return self._left(own, now_s)
        trial = copy(self)
        trial._board, trial._own_gpus = self._board.copy(), self._own_gpus.copy()  # noqa: SLF001 - of its kind
        return trial._left(own, now_s)  # noqa: SLF001

    def _left(self, own: Plan, now_s: float) -> GuestRoom:
        done = self._settle(own, now_s)
        nodes = self._board.free_nodes(done.barred)
        if done.blocked and not self._rule.drains:
            nodes = tuple(FreeNodes(one.gpu_type, one.node_gpus, ()) for one in nodes)
        return GuestRoom(nodes, tuple(Gang(width) for width in self._kept_widths()))

    def _settle(self, plan: Plan, now_s: float) -> Settled:
        """Conversions, own starts, and who is sent back for them."""
        for job in plan.conversions:
            self._board.convert(job.job_id)
            self._own_gpus[job.pool] += job.num_gpus
        due = [start.job for start in plan.starts if not start.is_guest]
        if not due:
            for job in plan.send_backs:
                self._leave(job)
            return Settled(list(plan.send_backs))
        done = settle(self._board, due, now_s, lambda job: self._until_s(job, now_s), self._rule.drains)
        for job in due:
            if job.job_id in done.placed:
                self._own_gpus[job.pool] += job.num_gpus
        return done

    def _note(self, starts: Sequence[Start], placed: Mapping[str, object], blocked: Sequence[Job]) -> None:
        """Who has no place, and whether narrower guests are worth asking for."""
        left = [start for start in starts if start.job.job_id not in placed]
        self._waiting -= set(placed)
        self._waiting |= {start.job.job_id for start in left}
        widths = [start.job.num_gpus for start in left if start.is_guest]
        self.ask_again_gpus = min(widths) - 1 if widths and min(widths) > 1 and not blocked else None

    def _lend(self, guests: Sequence[Start], barred: set[str], now_s: float) -> dict[str, tuple[Gpu, ...]]:
        found = self._lend_in_turn(guests, barred, now_s)
        if len(found) == len(guests):
            return found
        for start in guests:
            if start.job.job_id in found:
                self._leave(start.job)
        together = self._all_at_once(guests, barred)
        if together is None:
            return self._lend_in_turn(guests, barred, now_s)
        for start in guests:
            self._enter(start, together[start.job.job_id], self._until_s(start.job, now_s))
        return together

    def _ride(
        self,
        starts: Sequence[Start],
        given: Mapping[str, tuple[Gpu, ...]],
        barred: set[str],
        now_s: float,
    ) -> dict[str, tuple[Gpu, ...]]:
        """Riders go where the policy says; not to nodes that are to become free for somebody."""
        placed: dict[str, tuple[Gpu, ...]] = {}
        for start in starts:
            gpus = given.get(start.job.job_id, ())
            if gpus and barred.isdisjoint(gpu.node for gpu in gpus):
                self._board.ride(Tenant(start.job, gpus, self._until_s(start.job, now_s), is_own=False))
                placed[start.job.job_id] = gpus
        return placed

    def _lend_in_turn(
        self, guests: Sequence[Start], barred: set[str], now_s: float
    ) -> dict[str, tuple[Gpu, ...]]:
        placed: dict[str, tuple[Gpu, ...]] = {}
        need = self._kept_cells()
        for start in guests:
            until_s = self._until_s(start.job, now_s)
            may_go = start.job.is_requeueable(self._share)
            gpus = self._board.find(start.job, until_s, barred, may_go=may_go)
            if gpus is not None and self._leaves(gpus, need):
                self._enter(start, gpus, until_s)
                placed[start.job.job_id] = gpus
        return placed

    def _all_at_once(self, guests: Sequence[Start], barred: set[str]) -> dict[str, tuple[Gpu, ...]] | None:
        """GPUs of all guests beside what is kept; None if there are too few cells."""
        kept = [Ask((0, k), width) for k, width in enumerate(self._kept_widths())]
        asks = [Ask(start.job.job_id, start.job.num_gpus, start.job.gpu_type) for start in guests]
        found = place_asks([*kept, *asks], stocks_of(self._board.idle(barred), self._board.nodes))
        if any(ask.name not in found for ask in asks):
            return None
        return {start.job.job_id: found[start.job.job_id] for start in guests}

    def _kept_widths(self) -> list[int]:
        """Widths of the gangs for which guests leave cells free."""
        widest: dict[str, int] = {}
        for (pool, width), jobs in self._usual.items():
            idle_gpus = self._quotas.get(pool, 0) - self._own_gpus[pool]
            if jobs >= _USUAL_JOBS and width <= idle_gpus:
                widest[pool] = max(width, widest.get(pool, 0))
        if not widest or self._rule.keep is Keep.NONE:
            return []
        return list(widest.values()) if self._rule.keep is Keep.EACH else [max(widest.values())]

    def _kept_cells(self) -> IntArray:
        """Cells that guests leave free, by size; those of single GPUs are the policy's business."""
        need: IntArray = cells_taken(self._kept_widths(), self._board.node_gpus).sum(axis=1)
        need[0] = 0
        return need

    def _leaves(self, gpus: Sequence[Gpu], need: IntArray) -> bool:
        """Whether what is kept stays free, or is no less free than before."""
        after = self._board.cells(gpus)
        return bool(np.all((after >= need) | (after >= self._board.cells())))

    def _until_s(self, job: Job, now_s: float) -> float:
        return now_s + self._lives.quantile_s(job, _END_LEVEL)

    def _enter(self, start: Start, gpus: tuple[Gpu, ...], until_s: float) -> None:
        may_go = start.is_guest and start.job.is_requeueable(self._share)
        self._board.put(Tenant(start.job, gpus, until_s, may_go, not start.is_guest))
        if not start.is_guest:
            self._own_gpus[start.job.pool] += start.job.num_gpus

    def _leave(self, job: Job) -> None:
        if self._board.tenants[job.job_id].is_own:
            self._own_gpus[job.pool] -= job.num_gpus
        self._board.remove(job.job_id)
