"""One event answered from the plan that stands, without solving again.

What a plan leaves is a state: idle GPUs, and per cell the GPUs x that guests hold ahead. The jobs that
lending may slow are a function of x alone, so the charge of one more guest is what it adds to that
function, and the charges of all that stand add up to it. It is the same function, with the same margin,
that a full replan would keep within the budget: an answer never promises what the next plan could not.

Cells are those of the plan's instant. The further an event is from it, the more a guest's hold is put too
early; plans are made anew every few minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from solver.lending.curves import FloatArray
from solver.lending.problem import IntArray, LendingProblem


class Refusal(StrEnum):
    """Why a job that has just come is not lent to."""

    NO_IDLE_GPUS = "no-idle-gpus"
    OVER_BUDGET = "over-budget"
    NOT_WORTH_IT = "not-worth-it"


class Arrival(NamedTuple):
    """A job that could start now as a guest.

    Attributes:
        job_id: not among those that stand.
        width_gpus: its GPUs.
        value: worth of starting it now.
        alive_gpus: (cells,) what it would add to the need of each cell.
        is_requeueable: whether it can be sent back.
        repeats: share of its run that this would cost it, in (0, 1].
    """

    job_id: str
    width_gpus: int
    value: float
    alive_gpus: FloatArray
    is_requeueable: bool = False
    repeats: float = 1.0


class Verdict(NamedTuple):
    """The answer to an arrival: the jobs it is expected to slow, and why it was refused, if it was."""

    charge_jobs: float
    refusal: Refusal | None

    @property
    def starts(self) -> bool:
        """Whether it starts now."""
        return self.refusal is None


@dataclass(frozen=True, slots=True)
class _Guest:
    """`held_gpus` is (levels, cells): what it holds at each level of those who repeat as much as it does."""

    width_gpus: int
    alive_gpus: FloatArray
    held_gpus: FloatArray
    is_requeueable: bool


class OpenPlan:
    """A plan that stands, its guests, and what it still allows.

    Args:
        problem: what was planned.
        counts: (classes,) what was chosen.
        members: ids of each class's jobs, in the order in which they start.
        margin: exact risk of the choice over that of the lines: charges are multiplied by it, as in the
            next full replan.
        rides: by id, what the riders of the choice are charged; they hold no idle GPUs, and no margin is due.
            `members` are then those that do not ride.
    """

    def __init__(
        self,
        problem: LendingProblem,
        counts: IntArray,
        members: tuple[tuple[str, ...], ...] = (),
        margin: float = 1.0,
        rides: Mapping[str, float] | None = None,
    ) -> None:
        self._problem = problem
        self._rides = dict(rides or {})
        self._margin = margin
        self._lent = problem.lent_ahead(counts)
        self._held = problem.held_ahead(counts)
        self._lost_gpus = 0
        self._idle = problem.idle_gpus - int(counts @ problem.width_gpus)
        self._guests: dict[str, _Guest] = {}
        for one, (ids, count) in enumerate(zip(members, counts.tolist(), strict=False)):
            alive, can_go = problem.alive_gpus[one], bool(problem.is_requeueable[one])
            repeats = 1.0 if problem.repeats is None else float(problem.repeats[one])
            guest = _Guest(
                int(problem.width_gpus[one]), alive, self._held_by(alive, repeats if can_go else 1.0), can_go
            )
            self._guests.update(dict.fromkeys(ids[:count], guest))
        self._spent = self._risk(self._lent)
        self._send_backs = self._cost(self._held)

    @property
    def idle_gpus(self) -> int:
        """GPUs that may still be lent."""
        return self._idle

    @property
    def guest_ids(self) -> frozenset[str]:
        """The guests that count."""
        return frozenset(self._guests) | self._rides.keys()

    def told_idle(self, gpus: int) -> None:
        """So many GPUs may be lent now, whatever was counted here."""
        self._idle = gpus

    @property
    def spent_jobs(self) -> float:
        """Jobs that the guests that stand are expected to slow."""
        return self._spent + sum(self._rides.values())

    @property
    def left_jobs(self) -> float:
        """What is left of the budget; negative when GPUs were lost under guests."""
        return self._problem.budget_jobs - self.spent_jobs

    def arrived(self, job: Arrival) -> Verdict:
        """Start a job if the plan that stands allows it. It then counts as a guest.

        Raises:
            ValueError: if its id is that of a guest.
        """
        if job.job_id in self._guests or job.job_id in self._rides:
            raise ValueError(f"job {job.job_id} is a guest already")
        lent = self._lent if job.is_requeueable else self._lent + job.alive_gpus
        holds = self._held_by(job.alive_gpus, job.repeats if job.is_requeueable else 1.0)
        held = self._held + holds
        charge = 0.0 if job.is_requeueable else max(self._risk(lent) - self._spent, 0.0)
        send_backs = self._cost(held) - self._send_backs
        refusal = self._refusal(job, charge, send_backs)
        if refusal is None:
            self._guests[job.job_id] = _Guest(job.width_gpus, job.alive_gpus, holds, job.is_requeueable)
            self._idle -= job.width_gpus
            self._moved(lent, held)
        return Verdict(charge, refusal)

    def ended(self, job_id: str) -> None:
        """A guest is done, was sent back, or has become its pool's own: what it held is free again.

        Raises:
            KeyError: if it is no guest.
        """
        if self._rides.pop(job_id, None) is not None:
            return
        guest = self._guests.pop(job_id)
        self._idle += guest.width_gpus
        lent = self._lent if guest.is_requeueable else np.maximum(self._lent - guest.alive_gpus, 0.0)
        self._moved(lent, np.maximum(self._held - guest.held_gpus, 0.0))

    def freed(self, gpus: int) -> None:
        """An own job is done and its pool does not want its GPUs now."""
        self._idle += gpus

    def lost(self, gpus: int, idle_gpus: int) -> None:
        """A node is gone: so many GPUs of the cluster, so many of them idle.

        In every cell the need is that much nearer to what there is, so all that stands costs more.
        """
        self._lost_gpus += gpus
        self._idle = max(self._idle - idle_gpus, 0)
        self._moved(self._lent, self._held)

    def _refusal(self, job: Arrival, charge: float, send_backs: float) -> Refusal | None:
        if job.width_gpus > self._idle:
            return Refusal.NO_IDLE_GPUS
        if not job.is_requeueable and (self._problem.budget_jobs <= 0.0 or charge > self.left_jobs):
            return Refusal.OVER_BUDGET
        price = self._problem.price * charge + self._problem.send_back_price * send_backs
        return None if job.value > price else Refusal.NOT_WORTH_IT

    def _moved(self, lent: FloatArray, held: FloatArray) -> None:
        self._lent, self._held = lent, held
        self._spent, self._send_backs = self._risk(lent), self._cost(held)

    def _risk(self, lent: FloatArray) -> float:
        risk, lost = self._problem.risk, float(self._lost_gpus)
        jobs = float(risk.at(lent + lost).sum())
        if lost:
            jobs -= float(risk.at(np.full(risk.num_cells, lost)).sum())
        return self._margin * jobs

    def _cost(self, held: FloatArray) -> float:
        costs = self._problem.send_back
        return 0.0 if costs is None else float(costs.at(held + self._lost_gpus))

    def _held_by(self, alive_gpus: FloatArray, repeats: float) -> FloatArray:
        costs = self._problem.send_back
        if costs is None:
            return alive_gpus[None, :]
        return np.asarray(costs.holds(repeats)[:, None] * alive_gpus)
