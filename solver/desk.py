"""A policy and the forecasters beside it: told every fact once, in order, forecasters first.

The engine of a replay and the live service both work at such a desk: one code path, two clocks.
"""

import math
from collections.abc import Sequence

from domain.jobs import Job
from domain.observers import Observer
from domain.plans import Plan
from solver.policies.base import KnowsRates, LooksAgain, Policy


class Desk:
    """Where facts arrive and decisions are made.

    Args:
        policy: the rule to follow.
        observers: forecasters that learn on the way; each hears of a fact before the policy does.
    """

    __slots__ = ("_knows_rates", "_looks", "_observers", "_policy")

    def __init__(self, policy: Policy, observers: Sequence[Observer] = ()) -> None:
        self._policy = policy
        self._knows_rates = policy if isinstance(policy, KnowsRates) else None
        self._observers = tuple(observers)
        self._looks = policy if isinstance(policy, LooksAgain) else None

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible."""
        for observer in self._observers:
            observer.submitted(job, now_s)
        self._policy.submitted(job, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """A job runs."""
        for observer in self._observers:
            observer.started(job, now_s)
        self._policy.started(job, now_s)

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate: work per second, as a share of what it does alone.

        Raises:
            ValueError: if the rate is not in (0, 1].
        """
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"job {job.job_id} is to go on at rate {rate}, must lie in (0, 1]")
        for observer in self._observers:
            observer.rate_changed(job, now_s, rate)
        if self._knows_rates is not None:
            self._knows_rates.rate_changed(job, now_s, rate)

    def sent_back(self, job: Job, now_s: float) -> None:
        """A guest was stopped by us and waits again."""
        for observer in self._observers:
            observer.sent_back(job, now_s)
        self._policy.sent_back(job, now_s)

    def ended(self, job: Job, now_s: float, duration_s: float) -> None:
        """A job has ended after `duration_s` of running alone."""
        for observer in self._observers:
            observer.ended(job, now_s, duration_s)
        self._policy.ended(job, now_s)

    def cancelled(self, job: Job, now_s: float) -> None:
        """A job was withdrawn before its end: how long it would have run will never be known."""
        for observer in self._observers:
            observer.cancelled(job, now_s)
        self._policy.ended(job, now_s)

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """What to do now."""
        return self._policy.decide(now_s, idle_gpus)

    def look_again_s(self) -> float:
        """When the policy wants to be asked though nothing happens; infinite if it does not."""
        return math.inf if self._looks is None else self._looks.look_again_s()
