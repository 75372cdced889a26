"""SIA_VC: early starts behind a reservation for every job, by perfect knowledge of all of them."""

from typing import Final

from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Plan, Start
from solver.policies.base import NoSettings, PolicyContext, PolicySpec
from solver.profile import UseProfile
from solver.reference import fcfs_starts

_ANY_LEVEL: Final = 0.5
_SHORTEST_S: Final = 1e-6
"""A job of no length still needs its GPUs at the instant it starts."""


class SiaVc:
    """The stepping stone of the SIA paper (SoCC 2023, section 4.1), a yardstick for small instances.

    The virtual start time of a job is its start in the reference. Pending and future jobs are visited by
    virtual start, ties by (submit, id): one that is pending and fits now, for its whole length, beside what
    runs and what has been reserved so far, starts; for every other its GPUs are reserved from its virtual
    start on, for its length. With perfect information no job is later than without sharing (theorem 1).

    Skipping: none but by reservation. Cost of a decision: O(jobs x reservations).
    """

    def __init__(self, context: PolicyContext, _settings: NoSettings) -> None:
        self._capacity = sum(context.quotas.values())
        self._length_s = {job.job_id: context.lives.quantile_s(job, _ANY_LEVEL) for job in context.future}
        self._virtual_s = fcfs_starts(context.future, self._length_s, context.quotas)
        self._order = sorted(context.future, key=lambda job: (self._virtual_s[job.job_id], submit_order(job)))
        self._pending: dict[str, Job] = {}
        self._ends_s: dict[str, tuple[float, Job]] = {}
        self._settled: set[str] = set()

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible."""
        self._pending[job.job_id] = job

    def started(self, job: Job, now_s: float) -> None:
        """A job runs; it needs no reservation any more."""
        self._pending.pop(job.job_id, None)
        self._settled.add(job.job_id)
        self._ends_s[job.job_id] = (now_s + self._length_s[job.job_id], job)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._pending.pop(job.job_id, None)
        self._settled.add(job.job_id)
        self._ends_s.pop(job.job_id, None)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped: it needs its reservation again."""
        self._ends_s.pop(job.job_id, None)
        self._settled.discard(job.job_id)
        self._pending[job.job_id] = job

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Visit jobs by virtual start until no pending one is left."""
        if not self._pending or not idle_gpus:
            return NOTHING
        profile = UseProfile(now_s)
        for end_s, job in self._ends_s.values():
            profile.add(now_s, end_s, job.num_gpus)
        starts: list[Start] = []
        left = len(self._pending)
        for job in self._order:
            if job.job_id in self._settled:
                continue
            length_s = max(self._length_s[job.job_id], _SHORTEST_S)
            begins_s = max(now_s, self._virtual_s[job.job_id])
            if job.job_id in self._pending:
                left -= 1
                fits_now = job.num_gpus <= idle_gpus
                if fits_now and job.num_gpus + profile.peak(now_s, now_s + length_s) <= self._capacity:
                    idle_gpus -= job.num_gpus
                    starts.append(Start(job, begins_s > now_s))
                    begins_s = now_s
            profile.add(begins_s, begins_s + length_s, job.num_gpus)
            if not left:
                break
        return Plan(starts=tuple(starts)) if starts else NOTHING


SPEC = PolicySpec(build=SiaVc, settings=NoSettings, is_clairvoyant=True, uses_lives=True)
