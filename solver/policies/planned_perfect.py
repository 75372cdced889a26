"""What the best planner does that knows all lives and arrivals: early starts by a plan that slows nobody."""

from dataclasses import dataclass
from typing import Final

from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Hold, Plan, Start
from solver.oracle.instance import Instance
from solver.oracle.search import search
from solver.oracle.timeline import Timeline
from solver.policies.base import PolicyContext, PolicySpec

_ANY_LEVEL: Final = 0.5
_SHORTEST_S: Final = 1e-6
"""A job of no length still needs its GPUs at the instant it starts."""


@dataclass(frozen=True, slots=True)
class PlannedPerfectSettings:
    """Settings of `planned-perfect`.

    Attributes:
        moves: tried to improve the plan, for each job that would wait (`solver.oracle.search`).
        seed: of the moves.
        heat: of the moves; above 0 they may also make jobs wait longer for a while.
    """

    moves: int = 10
    seed: int = 0
    heat: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.moves <= 10_000:
            raise ValueError(f"moves is {self.moves}, must lie in [0, 10000]")
        if not 0.0 <= self.heat <= 10.0:
            raise ValueError(f"heat is {self.heat}, must lie in [0, 10]")


class PlannedPerfect:
    """A start for every job, planned in advance from all that will happen, none later than without sharing.

    The plan comes from `solver.oracle.search`: least work first, improved by moves, and so that everybody
    can start by his start in the reference. SIA_VC keeps GPUs for each job from its start in the reference
    on; here they are kept from its planned start on, which is never later.

    A job starts when its planned start has come, ties by (submit, id). Where the GPUs for it are
    missing, because reality has left the plan, nothing else starts. Once it has (a start that was ignored
    or not planned, a cancelled job), waiting jobs, by (work, submit, id), also start before their time if
    that takes no GPU from anybody's planned start; what does not fit is passed over.

    There are no lanes: a job that its pool's lane has reached may have to wait until its start in the
    reference. Who starts before that is a guest.
    """

    def __init__(self, context: PolicyContext, settings: PlannedPerfectSettings) -> None:
        quotas = context.quotas
        self._capacity_gpus = sum(quotas.values())
        self._length_s = {
            job.job_id: max(context.lives.quantile_s(job, _ANY_LEVEL), _SHORTEST_S) for job in context.future
        }
        instance = Instance.of(context.future, self._length_s, quotas)
        planned_s = search(instance, moves=settings.moves, seed=settings.seed, heat=settings.heat)
        if planned_s is None:
            raise RuntimeError("the reference itself does not fit the cluster")
        self._reference_s = instance.latest_s
        self._timeline = Timeline()
        self._entries: dict[str, tuple[float, float]] = {}
        for job in instance.jobs:
            self._enter(job, planned_s[job.job_id])
        self._waiting: dict[str, Job] = {}
        self._is_off_plan = False

    def submitted(self, job: Job, now_s: float) -> None:
        """A job waits for its planned start."""
        self._waiting[job.job_id] = job

    def started(self, job: Job, now_s: float) -> None:
        """A job runs; its entry begins now."""
        del self._waiting[job.job_id]
        if self._entries[job.job_id][0] != now_s:
            self._is_off_plan = True
            self._leave(job)
            self._enter(job, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled; what it still has entered is free."""
        self._waiting.pop(job.job_id, None)
        if self._entries[job.job_id][1] != now_s:
            self._is_off_plan = True
            start_s, _ = self._leave(job)
            self._timeline.add(start_s, now_s, job.num_gpus)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped: its start is overdue."""
        self._waiting[job.job_id] = job
        self._is_off_plan = True
        self._leave(job)
        self._enter(job, now_s)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Start whose time has come; off the plan also who is in nobody's way."""
        due = [job for job in self._waiting.values() if self._entries[job.job_id][0] <= now_s]
        for job in due:
            if self._entries[job.job_id][0] < now_s:
                self._is_off_plan = True
                self._leave(job)
                self._enter(job, now_s)
        chosen: list[Job] = []
        holds: tuple[Hold, ...] = ()
        for job in sorted(due, key=submit_order):
            if job.num_gpus > idle_gpus:
                holds = (Hold(job.pool, job.num_gpus),)
                break
            idle_gpus -= job.num_gpus
            chosen.append(job)
        if self._is_off_plan and not holds and idle_gpus:
            chosen += self._early(now_s, idle_gpus)
        if not (chosen or holds):
            return NOTHING
        starts = tuple(Start(job, now_s < self._reference_s[job.job_id]) for job in chosen)
        return Plan(starts=starts, holds=holds)

    def _early(self, now_s: float, idle_gpus: int) -> list[Job]:
        """Who may start before his time. The timeline is left as it was: the plan may be ignored."""
        moved: dict[str, tuple[Job, float]] = {}
        is_moving = True
        while is_moving and idle_gpus:
            is_moving = False
            for job in sorted(self._waiting.values(), key=self._work_order):
                planned_s = self._entries[job.job_id][0]
                if planned_s <= now_s or job.num_gpus > idle_gpus:
                    continue
                until_s = min(now_s + self._length_s[job.job_id], planned_s)
                if self._timeline.peak(now_s, until_s) + job.num_gpus > self._capacity_gpus:
                    continue
                self._leave(job)
                self._enter(job, now_s)
                moved[job.job_id] = (job, planned_s)
                idle_gpus -= job.num_gpus
                is_moving = True
        for job, planned_s in moved.values():
            self._leave(job)
            self._enter(job, planned_s)
        return [job for job, _ in moved.values()]

    def _enter(self, job: Job, start_s: float) -> None:
        end_s = start_s + self._length_s[job.job_id]
        self._entries[job.job_id] = (start_s, end_s)
        self._timeline.add(start_s, end_s, job.num_gpus)

    def _leave(self, job: Job) -> tuple[float, float]:
        start_s, end_s = self._entries[job.job_id]
        self._timeline.add(start_s, end_s, -job.num_gpus)
        return start_s, end_s

    def _work_order(self, job: Job) -> tuple[float, float, str]:
        return (job.num_gpus * self._length_s[job.job_id], *submit_order(job))


SPEC = PolicySpec(build=PlannedPerfect, settings=PlannedPerfectSettings, is_clairvoyant=True, uses_lives=True)
