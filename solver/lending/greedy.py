"""Greedy lending at a price of risk: hint for the solvers, fallback when they have nothing, and a baseline.

Classes are taken in the order of value per scarce thing, as many jobs of each as pay and fit:

    value / (width / idle + theta x risk of the first job / budget)

theta says how scarce the budget is beside the idle GPUs. It is not known beforehand, so a few are tried and
the best result is kept. Since risk is convex, the jobs of one class pay ever less: how many still pay and
fit is found by bisection.

Rides take no idle GPUs: whoever is left out rides if the budget and the rules allow, those worth most after
their price first. That is also tried the other way round, rides first.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from solver.lending.curves import FloatArray
from solver.lending.problem import BoolArray, IntArray, LendingProblem

SCARCITIES: Final = (0.0, 1.0, 10.0)


def greedy_counts(problem: LendingProblem) -> IntArray:
    """(classes + rides,) jobs to start, and who rides; keeps to every row of the problem."""
    best = np.zeros(problem.num_classes + problem.num_rides, dtype=np.int64)
    most = problem.most()
    if not problem.bounds().any():
        return best
    best_worth = problem.objective(best)
    for choice in _choices(problem, most):
        worth = problem.objective(choice)
        if worth > best_worth:
            best, best_worth = choice, worth
    return best


def _choices(problem: LendingProblem, most: IntArray) -> Iterator[IntArray]:
    scarce, risky = _scarcity(problem)
    seen: set[bytes] = set()
    for theta in SCARCITIES:
        taken = scarce + theta * risky
        order = np.argsort(-problem.value / taken, kind="stable").tobytes()
        if order in seen and problem.utility is None:
            continue
        seen.add(order)
        counts = _Filling(problem, most).run(taken)
        yield counts if problem.rides is None else np.concatenate([counts, _rides_beside(problem, counts)])
    if problem.rides is not None:
        riding = _rides_beside(problem, np.zeros_like(most))
        ride = problem.rides.by_class(riding, problem.num_classes)
        rest = replace(
            problem,
            count=problem.count - ride,
            budget_jobs=problem.budget_jobs - float(riding @ problem.rides.charge_jobs),
            rides=None,
        )
        yield np.concatenate([_Filling(rest, rest.most()).run(scarce + risky), riding])


def _rides_beside(problem: LendingProblem, counts: IntArray) -> IntArray:
    """(rides,) who rides where so many start, dearest first."""
    rides = problem.rides
    if rides is None:
        return np.zeros(0, dtype=np.int64)
    taken = np.zeros(rides.size, dtype=np.int64)
    waiting, rows = problem.count - counts, rides.most.copy()
    left_jobs = problem.allowed_jobs - problem.risk_jobs(counts)
    worth = rides.value - problem.price * rides.charge_jobs
    open_ones = problem.most_rides() > 0
    for one in np.argsort(-worth, kind="stable").tolist():
        charge, of_class = float(rides.charge_jobs[one]), int(rides.of_class[one])
        fits = open_ones[one] and waiting[of_class] > 0 and charge <= max(left_jobs, 0.0)
        if fits and (rows >= rides.member[:, one]).all():
            taken[one] = 1
            rows -= rides.member[:, one]
            waiting[of_class] -= 1
            left_jobs -= charge
    return taken


def trimmed(
    problem: LendingProblem, choice: IntArray, risk_of: Callable[[IntArray], float], allowed_jobs: float
) -> IntArray:
    """The same choice without as many guests as make it too risky, those worth least first.

    Args:
        problem: says what jobs are worth.
        choice: (classes + rides,).
        risk_of: jobs expected to be slowed by a choice; does not fall when guests are added.
        allowed_jobs: how many may be.
    """
    if risk_of(choice) <= allowed_jobs:
        return choice
    density, is_safe = _densities(problem)
    order = np.argsort(-density, kind="stable")
    safe = np.where(is_safe, choice, 0)
    in_order = np.where(is_safe, 0, choice)[order]
    before = np.cumsum(in_order) - in_order

    def first(guests: int) -> IntArray:
        kept = np.zeros_like(choice)
        kept[order] = np.clip(guests - before, 0, in_order)
        return kept + safe

    low, high = 0, int(in_order.sum())
    while high - low > 1:
        middle = (low + high) // 2
        if risk_of(first(middle)) <= allowed_jobs:
            low = middle
        else:
            high = middle
    return first(low)


def _densities(problem: LendingProblem) -> tuple[FloatArray, BoolArray]:
    """(classes + rides,) worth per scarce thing of one more, and whether it slows nobody."""
    scarce, risky = _scarcity(problem)
    density, is_safe = problem.value / (scarce + risky), problem.is_requeueable
    if problem.rides is None:
        return density, is_safe
    share = problem.rides.charge_jobs / max(problem.budget_jobs, 1e-9)
    of_rides = problem.rides.value / np.maximum(share, 1e-12)
    return np.concatenate([density, of_rides]), np.concatenate([is_safe, share == 0.0])


def _scarcity(problem: LendingProblem) -> tuple[FloatArray, FloatArray]:
    """(classes,) share of the idle GPUs and of the budget that one job alone takes."""
    idle = problem.width_gpus / max(problem.idle_gpus, 1)
    lent = np.where(problem.is_requeueable[:, None], 0.0, problem.alive_gpus)
    risk = problem.risk.at(lent).sum(axis=1)
    # a job that alone is free still uses up what keeps the others free
    slope = lent @ problem.risk.slope.max(axis=1)
    return idle, (risk + 0.01 * slope) / max(problem.budget_jobs, 1e-9)


class _Filling:
    """One pass over the classes, with what has been taken so far."""

    def __init__(self, problem: LendingProblem, most: IntArray) -> None:
        self._problem = problem
        self._most = most
        self._idle = problem.idle_gpus
        self._lent = np.zeros(problem.risk.num_cells)
        self._holds = problem.holds()[:, :, None].astype(float)
        self._held = np.zeros((self._holds.shape[0], problem.risk.num_cells))
        self._risk = 0.0
        self._granted = None if problem.utility is None else np.zeros(problem.utility.slope.shape[0])
        self._left = None if problem.placeability is None else problem.placeability.available.copy()

    def run(self, taken: FloatArray) -> IntArray:
        """Fill, most value per scarce thing first; `taken` (classes,) is what one job takes of it.

        A pool's next GPUs may be worth less than its first ones, never more: a class whose density has
        fallen since it was queued is queued again.
        """
        counts = np.zeros(self._problem.num_classes, dtype=np.int64)
        queue = [(-self._gain(one, 1) / taken[one], one) for one in np.flatnonzero(self._most).tolist()]
        heapq.heapify(queue)
        while queue and self._idle:
            before, one = heapq.heappop(queue)
            density = self._gain(one, 1) / taken[one]
            if -before > density * (1.0 + 1e-12):
                heapq.heappush(queue, (-density, one))
                continue
            number = self._number(one, int(self._most[one] - counts[one]))
            if number:
                counts[one] += number
                self._take(one, number)
                if self._problem.utility is not None and counts[one] < self._most[one]:
                    heapq.heappush(queue, (-self._gain(one, 1) / taken[one], one))
        return counts

    def _number(self, one: int, left: int) -> int:
        """Most jobs of a class that pay, fit, and are worth as much as the first."""
        high = self._most_that_fit(one, left)
        if high == 0 or self._pays(one, high):
            return high
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            if self._pays(one, middle):
                low = middle
            else:
                high = middle
        return low

    def _most_that_fit(self, one: int, left: int) -> int:
        fits = min(left, self._idle // int(self._problem.width_gpus[one]))
        if self._left is not None and self._problem.placeability is not None:
            units = self._problem.placeability.units[:, one]
            needed = units > 0.0
            if needed.any():
                fits = min(fits, int(np.floor((self._left[needed] / units[needed]).min() + 1e-9)))
        return max(fits, 0)

    def _pays(self, one: int, number: int) -> bool:
        """Whether the budget covers so many jobs, and the last of them is worth its price."""
        risks, send_backs = self._after(one, number - 1, number)
        if risks[-1] > self._problem.allowed_jobs and not self._problem.is_requeueable[one]:
            return False
        price = self._problem.price * (risks[1] - risks[0])
        price += self._problem.send_back_price * (send_backs[1] - send_backs[0])
        gain = self._gain(one, number)
        return gain > price and gain >= self._gain(one, 1) - 1e-9 * abs(gain)

    def _after(self, one: int, *numbers: int) -> tuple[list[float], list[float]]:
        """Risk and send-backs with so many jobs of the class more, for each of the numbers."""
        more = np.array(numbers)[:, None] * self._problem.alive_gpus[one]
        risks, send_backs = [self._risk] * len(numbers), [0.0] * len(numbers)
        if not self._problem.is_requeueable[one]:
            risks = self._problem.risk.at(self._lent + more).sum(axis=1).tolist()
        if self._problem.send_back is not None and self._problem.send_back_price > 0.0:
            held = self._held + self._holds[:, one] * more[:, None, :]
            send_backs = self._problem.send_back.at(held).tolist()
        return risks, send_backs

    def _gain(self, one: int, number: int) -> float:
        """Value of the last of so many jobs, what its pool gains included."""
        gain = float(self._problem.value[one])
        utility, pool = self._problem.utility, int(self._problem.pool[one])
        if utility is not None and self._granted is not None:
            width = float(self._problem.width_gpus[one])
            after = self._granted[pool] + width * np.array([number - 1.0, number])
            lines = utility.slope[pool] * after[:, None] + utility.intercept[pool]
            gain += float(np.diff(lines.min(axis=1))[0])
        return gain

    def _take(self, one: int, number: int) -> None:
        problem = self._problem
        self._risk = self._after(one, number)[0][0]
        more = number * problem.alive_gpus[one]
        self._held = self._held + self._holds[:, one] * more
        if not problem.is_requeueable[one]:
            self._lent = self._lent + more
        width = number * int(problem.width_gpus[one])
        self._idle -= width
        if self._granted is not None:
            self._granted[problem.pool[one]] += width
        if self._left is not None and problem.placeability is not None:
            self._left = self._left - number * problem.placeability.units[:, one]
