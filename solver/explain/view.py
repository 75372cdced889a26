"""What a policy that lends by a look ahead shows of itself to be explained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from domain.timegrid import TimeGrid
from solver.explain.weighed import Weighed
from solver.lookahead import Ahead, LookAhead

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LendingTerms:
    """What a policy lends by.

    Attributes:
        allowed_jobs: jobs that one early start may slow, now.
        usual_jobs: the same while the budget lasts.
        left_jobs: what is left of the budget.
        finish: highest chance of being sent back.
        refusals: of one decision, after which it stops looking.
        lends_for_good: whether it lends to who must run to the end at all.
    """

    allowed_jobs: float
    usual_jobs: float
    left_jobs: float
    finish: float
    refusals: int
    lends_for_good: bool = True


@dataclass(frozen=True, slots=True)
class LendingView:
    """A policy's state as far as it matters here.

    Attributes:
        now_s: the instant.
        idle_gpus: GPUs that are idle.
        pools: names, in the order of the ranks.
        due: own jobs that wait, in their order.
        beyond: other jobs that wait, in the order in which they are looked at.
        ahead: what is known of the time ahead.
        look: the same with the guests that run.
        grid: its cells.
        fresh: of each job, (cells,) chance that it runs when the cell begins, if it starts now.
        cohort_of: cohort of a job.
        may_send_back: whether a job may be sent back.
        repeated_share: share of its work that it would then repeat, at most.
        has_place: whether the nodes, where they are known, have room for a job.
        terms: what is lent by.
        weighed: the plan that answered at this instant; None: candidates were looked at one by one.
    """

    now_s: float
    idle_gpus: int
    pools: Sequence[str]
    due: Sequence[Job]
    beyond: Sequence[Job]
    ahead: Ahead
    look: LookAhead
    grid: TimeGrid
    fresh: Mapping[str, FloatArray]
    cohort_of: Callable[[Job], int]
    may_send_back: Callable[[Job], bool]
    repeated_share: Callable[[Job], float]
    has_place: Callable[[Job], bool]
    terms: LendingTerms
    weighed: Weighed | None = None
