"""`planned` without one of its ideas, to measure what that one is worth; not for use."""

from dataclasses import dataclass, replace

from domain.jobs import Job
from solver.ablated import LENDERS, WithoutLane
from solver.policies import planned
from solver.policies.base import PolicyContext
from solver.policies.planned import Planned, PlannedSettings


@dataclass(frozen=True, slots=True)
class AblatedSettings(PlannedSettings):
    """Settings of `ablated`: those of `planned`, and this.

    Of those `requeueable`, `finish`, `between` and `reclaim_s` mean nothing, and `packing` has to be off.

    Attributes:
        without: the idea that is left out: `lane`, `conversion`, `sum`, `age`; see `solver.ablated`.
    """

    without: str = "lane"

    def __post_init__(self) -> None:
        super(AblatedSettings, self).__post_init__()
        if self.without not in LENDERS:
            raise ValueError(f"without is {self.without!r}, must be one of {', '.join(LENDERS)}")
        if self.packing:
            raise ValueError(
                "packing is on, must be off: rides go by the books of which an idea is taken out"
            )


class Ablated(Planned):
    """`planned` with one idea taken out. All guests run to their end.

    Without `conversion`, `sum` and `age` the rule is that of `planned`, with other books behind it. Without
    `lane` nobody is own: all jobs that wait are candidates alike, chosen as `planned` chooses guests, by the
    risk test alone. What is idle then goes to jobs that the reference has started already, whatever the
    risk, shortest forecast median first, ties by (submit, id); what does not fit is passed over, and no GPU
    is kept for anybody.
    """

    def __init__(self, context: PolicyContext, settings: AblatedSettings) -> None:
        super().__init__(context, settings)
        self._lender = LENDERS[settings.without](context, settings)
        self._asks_plan = False  # without lanes only the greedy answer lets everybody start some time

    def _lend(self, idle_gpus: int, now_s: float) -> None:
        super()._lend(idle_gpus, now_s)
        if isinstance(self._lender, WithoutLane):
            self._start_overdue(self._lender, idle_gpus - self._proposed_gpus(), now_s)

    def _start_overdue(self, lender: WithoutLane, idle_gpus: int, now_s: float) -> None:
        lender.budget.shadow.advance(now_s)
        for job in sorted(lender.overdue(), key=self._shortest_first):
            if job.job_id not in self._proposed and job.num_gpus <= idle_gpus and self._has_place(job, set()):
                idle_gpus -= job.num_gpus
                self._pending.discard(job.job_id)
                self._propose(job, 0.0)

    def _proposed_gpus(self) -> int:
        return sum(job.num_gpus for job, _ in self._proposed.values())

    def _shortest_first(self, job: Job) -> tuple[tuple[float, float], str]:
        return self._lender.keys[job.job_id], job.job_id


SPEC = replace(
    planned.SPEC, build=Ablated, settings=AblatedSettings, may_send_back=False, has_own_lanes=False
)
"""Only what no policy may do is judged: without lanes or conversion rules of the own lane mean nothing."""
