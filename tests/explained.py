"""A policy told by hand, with books beside it, and why its jobs wait."""

from collections.abc import Mapping

import numpy as np
from support import job

from domain.forecasts import LIFE_EDGES_S, Burst
from domain.jobs import Job
from domain.timegrid import default_grid
from simulator.checked import options_of
from solver.explain.answer import explain_waiting
from solver.explain.scene import Scene
from solver.explain.words import Lever, Waiting
from solver.plan_books import PlanBooks
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings

CELLS = len(default_grid())
QUOTAS = {"a": 4, "b": 4}
HOUR_S = 3_600.0
FOR_EVER = (1.0, 2_000 * HOUR_S, 2_000 * HOUR_S)
JUST_WITHIN = 0.84
"""Of a span that a life is to end within: curves are told at a few edges, straight between them."""


class Lives:
    """Chances to live longer than so many seconds, by job: (chance of the short one, short, long)."""

    is_clairvoyant = False

    def __init__(self, said: Mapping[str, tuple[float, float, float]]) -> None:
        self.said = dict(said)

    def survival(self, job: Job) -> tuple[float, ...]:
        chance, short_s, long_s = self.said.get(job.job_id, (1.0, HOUR_S, HOUR_S))
        return tuple((1.0 - chance) * (edge < long_s) + chance * (edge < short_s) for edge in LIFE_EDGES_S)

    def quantile_s(self, job: Job, level: float) -> float:
        chance, short_s, long_s = self.said.get(job.job_id, (1.0, HOUR_S, HOUR_S))
        return short_s if level <= chance else long_s


class Demand:
    """One scenario: pool b will hold so many GPUs, by as many jobs, in the cells from one on."""

    is_clairvoyant = False

    def __init__(self, gpus: float = 0.0, from_cell: int = 0) -> None:
        self.table = np.zeros((1, 2, CELLS))
        self.table[:, 1, from_cell:] = gpus

    def new_load_gpus(self, _window_s: float, _now_s: float) -> Mapping[str, float]:
        return {"a": 0.0, "b": float(self.table.max())}

    def peaks(self, _now_s: float) -> np.ndarray:
        return self.table

    def arrivals(self, _now_s: float) -> np.ndarray:
        return self.table

    def fresh(self, _now_s: float) -> tuple[np.ndarray, np.ndarray]:
        return self.table, self.table

    def bursts(self, _now_s: float) -> tuple[Burst, ...]:
        return ()


class World:
    """A policy told by hand, with books beside it that the scene is made of."""

    def __init__(
        self,
        name: str,
        lives: Mapping[str, tuple[float, float, float]] | None = None,
        demand: Demand | None = None,
        **chosen: str,
    ) -> None:
        self.spec = POLICIES[name]
        in_force = parse_settings(name, self.spec.settings, chosen)
        self.lives = Lives(lives or {})
        self.policy = self.spec.build(PolicyContext(QUOTAS, self.lives, demand or Demand()), in_force)
        self.owes = options_of(self.spec, in_force)
        self.books = PlanBooks(QUOTAS, converts=self.spec.converts)
        self.idle_gpus = sum(QUOTAS.values())
        self.started: dict[str, float] = {}

    def submit(self, *jobs: Job) -> "World":
        for one in jobs:
            self.policy.submitted(one, 0.0)
            self.books.submitted(one)
        return self

    def decide(self, idle_gpus: int | None = None) -> list[str]:
        """Decide, carry it out, and say who starts."""
        plan = self.policy.decide(0.0, self.idle_gpus if idle_gpus is None else idle_gpus)
        self.books.decided(plan)
        for start in plan.starts:
            self.policy.started(start.job, 0.0)
            self.books.started(start.job)
            self.started[start.job.job_id] = 0.0
            self.idle_gpus -= start.job.num_gpus
        return [start.job.job_id for start in plan.starts]

    def run_unplanned(self, one: Job) -> "World":
        """A job that somebody started beyond its lane."""
        self.submit(one)
        self.policy.started(one, 0.0)
        self.books.started(one)
        self.started[one.job_id] = 0.0
        self.idle_gpus -= one.num_gpus
        return self

    def scene(self, *, is_lending: bool = True) -> Scene:
        return Scene(
            self.books.state(0.0, self.idle_gpus),
            self.owes,
            self.spec.lends,
            self.started,
            self.lives.survival,
            is_lending=is_lending,
        )

    def explain(self, *, is_lending: bool = True) -> dict[str, Waiting]:
        found = explain_waiting(self.policy, self.scene(is_lending=is_lending))
        return {one.job.job_id: one for one in found}


def full(pool: str, gpus: int = 4) -> Job:
    """A job that is its pool's own."""
    return job(f"own-{pool}", 0.0, gpus, pool, requeue_u=None)


def extra(width: int = 1, pool: str = "a", name: str = "extra", requeue_u: float | None = None) -> Job:
    return job(name, 1.0, width, pool, requeue_u=requeue_u)


def change(one: Waiting, lever: Lever):
    return next(found for found in one.changes if found.lever is lever)
