"""Times in which nothing is lent: plans without their guests."""

import math
from collections.abc import Sequence
from dataclasses import replace

from domain.changes.base import QuietTime
from domain.plans import Plan


class QuietTimes:
    """The quiet times of a replay.

    Args:
        times: they may overlap.
    """

    def __init__(self, times: Sequence[QuietTime]) -> None:
        self._times = tuple(times)

    def without_guests(self, plan: Plan, now_s: float) -> Plan:
        """The plan as it is, or in a quiet time without the starts of guests; who runs is left alone."""
        if not plan.starts or not any(time.holds(now_s) for time in self._times):
            return plan
        own = tuple(start for start in plan.starts if not start.is_guest)
        if len(own) == len(plan.starts):
            return plan
        dropped = {start.job.job_id for start in plan.starts if start.is_guest}
        return replace(
            plan,
            starts=own,
            placements=tuple(one for one in plan.placements if one.job_id not in dropped),
            shares=tuple(one for one in plan.shares if one.job_id not in dropped),
        )

    def end_s(self, now_s: float) -> float:
        """When the first of the quiet times at an instant ends, so that it is decided then; else infinite."""
        return min((time.next_end_s(now_s) for time in self._times if time.holds(now_s)), default=math.inf)
