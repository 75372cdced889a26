"""Random lending problems, small enough to be tried out by hand or large enough to keep a solver busy."""

from dataclasses import replace
from itertools import product

import numpy as np
from scipy.special import ndtr

from domain.cluster import Gpu
from domain.jobs import Job
from solver.lending.curves import RiskLines, no_risk, risk_lines
from solver.lending.problem import LendingProblem
from solver.lending.rides import ride_rows
from solver.lending.send_backs import LEVELS, SendBacks, one_level
from solver.packing.rides import Ride

CELL_BEGINS_S = np.array([0.0, 600.0, 3600.0, 6 * 3600.0])


def problem(
    classes=((1, 3, 2.0, 600.0),), idle_gpus=8, budget_jobs=1.0, risk=None, requeueable=(), **more
) -> LendingProblem:
    """Classes as (width, count, value of one job, median life in seconds); pools are their numbers."""
    width, count, value, median_s = (np.array(column) for column in zip(*classes, strict=True))
    alive = width[:, None] * alive_shares(median_s)
    return LendingProblem(
        pool=np.arange(width.size),
        width_gpus=width.astype(np.int64),
        count=count.astype(np.int64),
        value=value.astype(float),
        alive_gpus=alive,
        is_requeueable=np.isin(np.arange(width.size), requeueable),
        idle_gpus=idle_gpus,
        risk=no_risk(CELL_BEGINS_S.size) if risk is None else risk,
        budget_jobs=budget_jobs,
        **more,
    )


def alive_shares(median_s, begins_s=CELL_BEGINS_S) -> np.ndarray:
    """Log-normal lives: (jobs, cells) P(alive when the cell begins)."""
    logs = np.log(np.maximum(begins_s, 1e-9))
    return ndtr(np.log(np.asarray(median_s, dtype=float))[:, None] - logs[None, :])


def random_lines(rng, cells=4, idle_gpus=12, scale=1.0) -> RiskLines:
    need = rng.normal(-0.5 * idle_gpus, 0.5 * idle_gpus, size=(7, cells))
    hit = rng.gamma(1.0, scale, size=(7, cells))
    return risk_lines(need, hit, np.full(cells, 1.0), 0.0, idle_gpus, points=4)


def random_problem(seed, classes=4, max_count=3, requeueable_share=0.3, gpus=12, **more) -> LendingProblem:
    """A small one whose optimum can be found by trying everything."""
    rng = np.random.default_rng(seed)
    width = rng.choice([1, 2, 4], size=classes)
    return LendingProblem(
        pool=rng.integers(0, 3, size=classes),
        width_gpus=width,
        count=rng.integers(1, max_count + 1, size=classes),
        value=rng.uniform(0.5, 4.0, size=classes),
        alive_gpus=width[:, None] * alive_shares(2.0 ** rng.uniform(7, 16, size=classes)),
        is_requeueable=rng.random(classes) < requeueable_share,
        **{
            "idle_gpus": int(rng.integers(3, gpus)),
            "risk": random_lines(rng, idle_gpus=gpus),
            "budget_jobs": float(rng.uniform(0.2, 4.0)),
            "price": float(rng.choice([0.0, 0.5])),
            "send_back": one_level(random_lines(rng, idle_gpus=gpus)),
            "send_back_price": float(rng.choice([0.0, 0.2])),
            **more,
        },
    )


def levelled_problem(seed, shares=(0.0625, 0.25, 0.3, 1.0), **more) -> LendingProblem:
    """A random one whose classes repeat different shares when they are sent back, and pay for it."""
    rng = np.random.default_rng([seed, 1])
    classes, gpus = more.get("classes", 4), more.get("gpus", 12)
    repeats, lines = rng.choice(shares, size=classes), random_lines(rng, idle_gpus=gpus)
    costs = SendBacks(np.array(LEVELS), (lines,) * len(LEVELS))
    given = {"requeueable_share": 0.8, "send_back": costs, "send_back_price": 0.5, "repeats": repeats}
    return random_problem(seed, **(given | more))


def best_by_trying(asked: LendingProblem) -> float:
    """The best worth of all choices."""
    ranges = (range(int(most) + 1) for most in asked.count)
    choices = (np.array(choice, dtype=np.int64) for choice in product(*ranges))
    return max(asked.objective(choice) for choice in choices if not asked.violations(choice))


def members_of(asked: LendingProblem) -> tuple[tuple[str, ...], ...]:
    """Ids of the jobs of each class."""
    counts = enumerate(asked.count.tolist())
    return tuple(tuple(f"c{one}-{k}" for k in range(count)) for one, count in counts)


def ride(rider: Job, host: Job, first: int = 0, value: float = 1.0, charge: float = 0.0) -> Ride:
    """On the host's GPUs from the `first` on, all on one node."""
    gpus = tuple(Gpu(f"of-{host.job_id}", first + k) for k in range(rider.num_gpus))
    return Ride(rider, host, gpus, 0.8, 0.7, 0.9, 1.0, 0.85, value, charge)


def random_rides(asked: LendingProblem, seed, rides=5, hosts=2) -> list[Ride]:
    """Candidates of the problem's jobs on a few hosts, which they want for themselves more often than not."""
    rng = np.random.default_rng([seed, 2])
    widths = rng.choice([2, 4, 5], size=hosts).tolist()
    running = [Job(f"h{k}", "z", 0.0, width) for k, width in enumerate(widths)]
    found = []
    for _ in range(rides):
        one = int(rng.integers(asked.num_classes))
        width, host = int(asked.width_gpus[one]), running[int(rng.integers(hosts))]
        if width > host.num_gpus:
            continue
        name = f"c{one}-{rng.integers(asked.count[one])}"
        first = int(rng.integers(host.num_gpus - width + 1))
        worth, charge = float(rng.uniform(-0.5, 4.0)), float(rng.choice([0.0, rng.uniform(0.0, 1.0)]))
        found.append(ride(Job(name, "z", 0.0, width), host, first, worth, charge))
    return found


def riding_problem(seed, rides=5, **more) -> tuple[LendingProblem, list[Ride]]:
    """A random problem with candidates for riding, and those."""
    asked = random_problem(seed, **({"classes": 3, "max_count": 2} | more))
    found = random_rides(asked, seed, rides)
    return replace(asked, rides=ride_rows(found, members_of(asked))), found


def may_all_ride(rides: list[Ride]) -> bool:
    """By the rules of packed sets, said anew: star, one rider a GPU, five in a set, equals alone."""
    jobs = [one.job.job_id for one in rides]
    gpus = [(one.host.job_id, gpu) for one in rides for gpu in one.gpus]
    by_host: dict[str, list[Ride]] = {}
    for one in rides:
        by_host.setdefault(one.host.job_id, []).append(one)
    equals_alone = all(
        len(here) == 1 or all(one.job.num_gpus < one.host.num_gpus for one in here)
        for here in by_host.values()
    )
    small = all(len(here) <= 4 for here in by_host.values())
    return len(set(jobs)) == len(jobs) and len(set(gpus)) == len(gpus) and equals_alone and small
