"""Who waits, runs as own and runs as a guest, kept beside a policy by the facts alone: what the checker sees.

It is told what the policy is told and works out by itself what that makes of the lanes, so a policy that has
lost count is found out. It shares no code with `solver.lane`.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from domain.jobs import Job
from domain.plans import Plan
from solver.check_plan import inside_lanes
from solver.plan_rules import Known, PlanState, Standing


class PlanBooks:
    """The unfinished jobs of a cluster, in the order of their lines.

    Args:
        quotas: GPUs of each pool.
        converts: whether a guest that its lane reaches becomes own; a job that starts is then own if it was
            due at the last decision. Where not, it is what the last plan said, and own where it said nothing.
        own: jobs about to be told of that run as their pool's own already.
    """

    def __init__(
        self, quotas: Mapping[str, int], *, converts: bool = True, own: Collection[str] = ()
    ) -> None:
        self._quotas = dict(quotas)
        self._converts = converts
        self._own_before = set(own)
        self._known: dict[str, Known] = {}
        self._lines: dict[str, dict[str, Known]] = {}
        self._own_gpus: Counter[str] = Counter()
        self._place: dict[str, int] = {}
        self._told = 0
        self._due: set[str] = set()
        self._lent: set[str] = set()

    def submitted(self, job: Job) -> None:
        """A job stands at the tail of its line."""
        self._told += 1
        self._place[job.job_id] = self._told
        self._stand(job, Standing.WAITING)

    def started(self, job: Job) -> None:
        """A job runs."""
        if job.job_id in self._own_before:
            self._own_before.discard(job.job_id)
            is_own = True
        else:
            is_own = job.job_id in self._due if self._converts else job.job_id not in self._lent
        self._stand(job, Standing.OWN if is_own else Standing.GUEST)

    def sent_back(self, job: Job) -> None:
        """A job was stopped and waits again, at its place; an own one is due at once."""
        was_own = self._known[job.job_id].standing is Standing.OWN
        self._stand(job, Standing.WAITING)
        if was_own:
            self._due.add(job.job_id)
            line = self._lines[job.pool]
            self._lines[job.pool] = {one: line[one] for one in sorted(line, key=self._place.__getitem__)}

    def ended(self, job: Job) -> None:
        """A job has ended, or was withdrawn."""
        self._leave(job)
        del self._place[job.job_id]
        self._due.discard(job.job_id)
        self._lent.discard(job.job_id)

    def state(self, now_s: float, idle_gpus: int) -> PlanState:
        """What a plan of this instant is judged against; to be looked at before anything else is told."""
        return PlanState(now_s, idle_gpus, self._quotas, self._known, self._lines, self._own_gpus)

    def decided(self, plan: Plan) -> None:
        """A decision was made: the lanes have grown as far as they reach, whatever becomes of the plan."""
        self._lent = {start.job.job_id for start in plan.starts if start.is_guest}
        self._due = set()
        if not self._converts:
            return
        for job_id, known in inside_lanes(self.state(0.0, 0), counts_guests=True).items():
            if known.standing is Standing.GUEST:
                self._stand(known.job, Standing.OWN)
            else:
                self._due.add(job_id)

    def _stand(self, job: Job, standing: Standing) -> None:
        known = Known(job, standing)
        before = self._known.get(job.job_id)
        if before is not None and (before.standing is Standing.OWN or standing is Standing.OWN):
            self._leave(job)
        self._known[job.job_id] = known
        if standing is Standing.OWN:
            self._own_gpus[job.pool] += job.num_gpus
        else:
            self._lines.setdefault(job.pool, {})[job.job_id] = known

    def _leave(self, job: Job) -> None:
        before = self._known.pop(job.job_id)
        if before.standing is Standing.OWN:
            self._own_gpus[job.pool] -= job.num_gpus
        else:
            del self._lines[job.pool][job.job_id]
