"""The planner's books with one idea taken out: own lanes, conversion, the quantile of the sum, ages.

Each class says what is left out and what is done in its place; everything else is inherited. Nobody is sent
back under any of them, because without lanes or conversion nobody could be told apart from who is due.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from solver.lane import Lanes
from solver.lender import Lender
from solver.lender_settings import LenderSettings
from solver.line import Line
from solver.lives import LifeBook, survival_at
from solver.lookahead import Ahead, Lane, LookAhead
from solver.policies.base import PolicyContext

FloatArray = NDArray[np.float64]


class WithoutSendingBack(Lender):
    """All guests run to their end, whatever share of the jobs could be sent back."""

    def can_go_back(self, _job: Job) -> bool:
        """Nobody can."""
        return False


class NoLanes(Lanes):
    """Lines without lanes: nobody becomes due or own, and whoever starts is a guest."""

    def advance(self) -> list[Job]:
        """No lane grows, so nobody is converted."""
        self._changed.clear()
        return []


class PooledLook(LookAhead):
    """The time ahead where running jobs are told apart by pool only.

        need = o + g + min(b, quota - o - g) + min(a, quota - o - g - b)

    Whatever of a pool runs fills its quota, in whichever order it started.
    """

    def net_of_backlog(self) -> FloatArray:
        """(pools, cells) part of a guest's width that adds to the need: none where its pool has room."""
        guest = np.stack([pool.mean(axis=0) for pool in self._guest])
        room = self._lane - guest
        return np.asarray(1.0 - self._ahead.stakes.backlog_urgency * (room >= 1.0))

    def _due(self, pool: int, guest: FloatArray, backlog: FloatArray) -> Lane:
        room = np.maximum(self._lane[pool] - guest, 0.0)
        left = np.maximum(room - backlog, 0.0)
        return Lane(np.clip(backlog, 0.0, room), np.minimum(self._peaks(pool), left), left)


class WithoutLane(WithoutSendingBack):
    """No lanes: nothing is served before lending, and no GPU is kept for anybody."""

    def __init__(self, context: PolicyContext, settings: LenderSettings) -> None:
        super().__init__(context, settings)
        self.lanes = NoLanes(context.quotas, context.own)

    def look_ahead(self, now_s: float) -> LookAhead:
        """The time ahead, to which guests can be added."""
        return PooledLook(self.ahead(now_s), self.capacity_gpus)

    def overdue(self) -> list[Job]:
        """Jobs that wait although the reference has started them, pool by pool in the order of the line.

        They are looked up in the reference as of the last time it was brought up to date.
        """
        found: list[Job] = []
        for pool in self.rank:
            for job in self.lanes.line(pool).waiting.values():
                if self.runs(job):
                    continue
                if self.budget.shadow.early_start_s(job) is None:
                    break
                found.append(job)
        return found


class PassingLine(Line):
    """A line whose lane passes over guests: it is made of jobs that wait.

    Args:
        pool: name, for messages.
        quota_gpus: width that the jobs inside may add up to.
        guests: jobs that run beyond their lanes, by id; the owner keeps it up to date.
    """

    __slots__ = ("_guests",)

    def __init__(self, pool: str, quota_gpus: int, guests: dict[str, Job]) -> None:
        super().__init__(pool, quota_gpus)
        self._guests = guests

    def advance(self) -> list[Job]:
        """Let jobs that wait enter while the next one fits; returns those that entered, in order."""
        entered: list[Job] = []
        for job in self.waiting.values():
            if job.job_id in self._guests:
                continue
            if self.used_gpus + job.num_gpus > self.quota_gpus:
                break
            self.used_gpus += job.num_gpus
            entered.append(job)
        for job in entered:
            self.inside[job.job_id] = self.waiting.pop(job.job_id)
        return entered


class PassingLanes(Lanes):
    """Lanes that pass over guests: a guest stays one to its end and never counts for its pool's quota."""

    def __init__(self, quotas: dict[str, int], own: frozenset[str]) -> None:
        super().__init__(quotas, own)
        self._lines = {pool: PassingLine(pool, quota, self.guests) for pool, quota in quotas.items()}

    def sent_back(self, job: Job) -> None:
        """A job was stopped and waits again, at its place; its lane may have reached beyond it meanwhile."""
        super().sent_back(job)
        self._changed[job.pool] = self._lines[job.pool]


class UnconvertedLook(LookAhead):
    """The time ahead where guests leave their pool's room alone.

    need = o + g + min(b, quota - o) + min(a, quota - o - b)
    """

    def _due(self, pool: int, guest: FloatArray, backlog: FloatArray) -> Lane:
        return super()._due(pool, np.zeros_like(guest), backlog)


class WithoutConversion(WithoutSendingBack):
    """Guests stay guests: when their lane reaches them, it reaches past them."""

    def __init__(self, context: PolicyContext, settings: LenderSettings) -> None:
        super().__init__(context, settings)
        self.lanes = PassingLanes(dict(context.quotas), context.own)

    def look_ahead(self, now_s: float) -> LookAhead:
        """The time ahead, to which guests can be added."""
        return UnconvertedLook(self.ahead(now_s), self.capacity_gpus)


class SummedLook(LookAhead):
    """The time ahead where all pools are at the same quantile of their own need at once.

    Scenario by scenario and cell by cell, each pool's needs are put in ascending order before they are added
    up. So each quantile of the sum is the sum of the pools' quantiles: pools that never peak together do.
    The number of jobs to come goes with the peak it belongs to. Lives of single guests are integrated over
    the sum as they were.
    """

    def __init__(self, ahead: Ahead, capacity_gpus: int) -> None:
        order = np.argsort(ahead.peaks, axis=0, kind="stable")
        super().__init__(
            replace(
                ahead,
                peaks=np.take_along_axis(ahead.peaks, order, axis=0),
                arrivals=np.take_along_axis(ahead.arrivals, order, axis=0),
            ),
            capacity_gpus,
        )

    def _urgent_need(self, pool: int, guest: FloatArray, lane: Lane) -> FloatArray:
        return np.sort(super()._urgent_need(pool, guest, lane), axis=-2)


class WithoutSum(WithoutSendingBack):
    """The sum of the pools' quantiles in place of the quantile of their sum."""

    def look_ahead(self, now_s: float) -> LookAhead:
        """The time ahead, to which guests can be added."""
        return SummedLook(self.ahead(now_s), self.capacity_gpus)


class AgelessBook(LifeBook):
    """Lives as they were forecast at the start: that a job has lived so far teaches nothing.

    P(alive at t) = S(age + t), where S(age + t) / S(age) is what is known.
    """

    def _share_alive(self, used: NDArray[np.intp], now_s: float) -> FloatArray:
        ages_s = self._ages_s(used, now_s)[:, None]
        return survival_at(self._curves[used], ages_s + self._work_ahead_s(used))


class WithoutAge(WithoutSendingBack):
    """Lives that are not conditioned on how long a job has run."""

    def __init__(self, context: PolicyContext, settings: LenderSettings) -> None:
        super().__init__(context, settings)
        pools = len(self.rank)
        self._book = AgelessBook(3 * pools, pools, self._begins_s)


LENDERS: Final[dict[str, type[WithoutSendingBack]]] = {
    "lane": WithoutLane,
    "conversion": WithoutConversion,
    "sum": WithoutSum,
    "age": WithoutAge,
}
"""The books without one idea, by its name."""
