"""What a solver of the lending problem is asked and answers."""

from dataclasses import dataclass
from typing import Protocol

from solver.lending.problem import IntArray, LendingProblem


@dataclass(frozen=True, slots=True)
class Limits:
    """When a solver stops. All but the last decide the same way on every machine.

    Attributes:
        gap: good enough: proven to be within this share of the best.
        nodes: branch-and-bound nodes (HiGHS).
        work: deterministic seconds (CP-SAT).
        seed: of the solver's own random choices.
        wall_s: kill switch, for all solves of one plan together. A plan cut by it says so.
    """

    gap: float = 1e-3
    nodes: int = 2000
    work: float = 4.0
    seed: int = 1
    wall_s: float = 5.0

    def __post_init__(self) -> None:
        if not (self.gap >= 0.0 and self.nodes >= 0 and self.work > 0.0 and self.wall_s > 0.0):
            raise ValueError("limits of a solver are positive")


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a solver came back with. It is not believed: `plan` checks it.

    Attributes:
        counts: (classes + rides,) jobs to start, and who rides (`LendingProblem`); None if it has no choice
            to offer.
        bound: no choice for the problem that was asked is worth more; infinite if it cannot say.
        is_proven: it stopped because the gap was reached.
        is_cut: the wall clock ended it.
        is_killed: it did not stop by itself.
        work: simplex iterations (HiGHS) or deterministic seconds (CP-SAT).
        wall_s: seconds, as it says itself, and those that starting its process took.
        failure: what broke it, if something did; with counts, what broke it in a part of the problem.
    """

    counts: IntArray | None
    bound: float = float("inf")
    is_proven: bool = False
    is_cut: bool = False
    is_killed: bool = False
    work: float = 0.0
    wall_s: float = 0.0
    failure: str = ""


class LendingSolver(Protocol):
    """Solves lending problems, one at a time."""

    @property
    def limits(self) -> Limits:
        """When it stops."""
        ...

    def solve(
        self, problem: LendingProblem, hint: IntArray | None = None, wall_s: float | None = None
    ) -> Answer:
        """The best choice found within the limits.

        Args:
            problem: has at least one class that can start, or a ride that pays.
            hint: a choice to begin with.
            wall_s: the kill switch of this solve; None for that of the limits.
        """
        ...
