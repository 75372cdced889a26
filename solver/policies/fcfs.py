"""No sharing: the reference itself."""

from domain.jobs import Job
from domain.plans import NOTHING, Plan, Start
from solver.lane import Lanes
from solver.policies.base import Lends, NoSettings, PolicyContext, PolicySpec


class Fcfs:
    """First come, first served inside each pool's own quota, without backfilling.

    Order of pools: none needed, pools do not touch each other. Skipping: none, a job that does not fit
    stops its pool. Ties: (submit, id).
    """

    def __init__(self, context: PolicyContext, _settings: NoSettings) -> None:
        self._lanes = Lanes(context.quotas, context.own)

    def submitted(self, job: Job, now_s: float) -> None:
        """A job stands in its line."""
        self._lanes.submitted(job)

    def ended(self, job: Job, now_s: float) -> None:
        """A job has ended or was cancelled."""
        self._lanes.ended(job)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        self._lanes.started(job)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A job was stopped all the same: it is due again."""
        self._lanes.sent_back(job)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """Start what the lanes have reached."""
        self._lanes.advance()
        if not self._lanes.due:
            return NOTHING
        return Plan(starts=tuple(Start(job, False) for job in self._lanes.due_in_order()))


SPEC = PolicySpec(build=Fcfs, settings=NoSettings, has_own_lanes=True, lends=Lends.NOBODY)
