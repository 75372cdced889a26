"""Small clusters whose GPUs may be shared: instances, replays of them, and a checker of its own."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from data.pairs import PairTable
from domain.cluster import Gpu, Node
from domain.forecasts import LIFE_EDGES_S, LifetimeForecaster
from domain.jobs import Job, JobOutcome
from domain.schedules import Schedule, Stretch
from models.interference.measured import MeasuredRates
from simulator.checked import CheckedPlans, options_of
from simulator.engine import Engine
from simulator.packed import PairRates, SharedGpus, pace_of
from solver.check import CheckOptions, check
from solver.check_packed import PackedOptions, check_packed
from solver.packing.share_model import ShareModel
from solver.policies import POLICIES
from solver.policies.base import Policy, PolicyContext, parse_settings

TABLE = PairTable.of(
    {
        ("calm", "calm"): (1.0, 1.0),
        ("calm", "even"): (0.9, 0.8),
        ("calm", "greedy"): (0.6, 0.95),
        ("calm", "huge"): (0.7, 0.7),
        ("even", "even"): (0.65, 0.65),
        ("even", "greedy"): (0.3, 0.5),
        ("greedy", "greedy"): (0.4, 0.4),
    },
    unfit=frozenset({("even", "huge"), ("greedy", "huge"), ("huge", "huge")}),
)
"""Pairs that are worth it, pairs that are not, and a model that fits beside one other only."""


class GuessedLives:
    """The same guess for all jobs of a width, far from what comes true; it knows nothing else."""

    is_clairvoyant = False

    def quantile_s(self, job: Job, level: float) -> float:
        """Quantile of an exponential life of 300 s x width."""
        return -300.0 * job.num_gpus * math.log(1.0 - level)

    def survival(self, job: Job) -> Sequence[float]:
        """Its survival curve."""
        return [math.exp(-edge_s / (300.0 * job.num_gpus)) for edge_s in LIFE_EDGES_S]


GUESSED = GuessedLives()


class World(NamedTuple):
    """Nodes, jobs and how long these run alone."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    durations_s: Mapping[str, float]

    @property
    def capacity_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.num_gpus for node in self.nodes)


@cache
def shared_gpus() -> SharedGpus:
    return SharedGpus(PairRates(TABLE, ShareModel()), MeasuredRates(TABLE))


def make_nodes(count: int, num_gpus: int) -> tuple[Node, ...]:
    return tuple(Node(f"n{k}", num_gpus) for k in range(count))


def build(policy: str, nodes: tuple[Node, ...], lives: LifetimeForecaster = GUESSED, **chosen: str) -> Policy:
    """A policy that has been told nothing yet."""
    spec = POLICIES[policy]
    quotas = {"all": sum(node.num_gpus for node in nodes)}
    context = PolicyContext(quotas, lives, hosts=nodes, pairs=shared_gpus().forecaster, models=TABLE.models)
    return spec.build(context, parse_settings(policy, spec.settings, chosen))


def run(
    policy: str, world: World, rule: Policy | None = None, checks_plans: bool = False, **chosen: str
) -> Schedule:
    """Replay a world under a policy, or under another rule in its place.

    With `checks_plans` the independent checker looks at every plan before it is carried out.
    """
    spec = POLICIES[policy]
    in_force = parse_settings(policy, spec.settings, chosen)
    owes = options_of(spec, in_force, shared_gpus().truth.rate)
    quotas = {"all": world.capacity_gpus}
    built = rule or build(policy, world.nodes, **chosen)
    return Engine(
        jobs=world.jobs,
        outcomes={job_id: JobOutcome(job_id, length) for job_id, length in world.durations_s.items()},
        capacity_gpus=world.capacity_gpus,
        policy=built,
        tick_s=spec.tick_s,
        pace=pace_of(world.nodes, shared_gpus(), in_force, GUESSED),
        plan_check=CheckedPlans(quotas, owes, world.nodes, policy) if checks_plans else None,
    ).run()


def judged(policy: str, world: World, schedule: Schedule, **chosen: str) -> list[str]:
    """What the independent judges of schedules find."""
    spec = POLICIES[policy]
    in_force = parse_settings(policy, spec.settings, chosen)
    of_work = CheckOptions(is_preemption_allowed=spec.suspends, has_own_lanes=False, is_packed=True)
    quotas = {"all": world.capacity_gpus}
    report = check(world.jobs, world.durations_s, quotas, schedule.stretches, options=of_work)
    truth = shared_gpus().truth
    of_sharing = PackedOptions(
        redistributes=getattr(in_force, "liss", False),
        share_gain=truth.model.most_gain if getattr(in_force, "lgrr", False) else None,
        is_preemption_allowed=spec.suspends,
    )
    shared = check_packed(world.jobs, schedule.stretches, world.nodes, truth.rate, of_sharing)
    return [str(fault) for fault in (*report.faults, *shared)]


@st.composite
def worlds(draw: st.DrawFn, max_jobs: int = 14) -> World:
    """Few widths, models and instants, so that queues, ties and equal widths are common."""
    size = draw(st.sampled_from((2, 4)))
    nodes = make_nodes(draw(st.integers(2, 4 if size == 2 else 3)), size)
    most = size * len(nodes)
    widths = st.sampled_from([width for width in (2, 1, 4, 2, 1, 3, 8) if width <= most])
    jobs, durations_s = [], {}
    for k in range(draw(st.integers(5, max_jobs))):
        model = draw(st.sampled_from(TABLE.models))
        submit_s = 60.0 * draw(st.integers(0, 6))
        jobs.append(Job(f"j{k:02}", "all", submit_s, draw(widths), model=model))
        durations_s[f"j{k:02}"] = float(draw(st.sampled_from((900, 360, 2_000, 50, 333, 7, 0))))
    return World(nodes, tuple(jobs), durations_s)


def rewritten_after(world: World, schedule: Schedule, cut_s: float, rng: np.random.Generator) -> World:
    """Other lengths of whatever had not ended by an instant, and other arrivals after it."""
    done_s: dict[str, float] = defaultdict(float)
    for one in schedule.stretches:
        if one.start_s <= cut_s:
            done_s[one.job_id] += one.rate * (min(one.end_s, cut_s) - one.start_s)
    ends = schedule.last_ends()
    jobs: list[Job] = []
    durations_s: dict[str, float] = {}
    for job in world.jobs:
        if job.submit_s > cut_s and rng.random() < 0.5:
            continue
        jobs.append(job)
        length_s = world.durations_s[job.job_id]
        if ends[job.job_id] > cut_s:
            length_s = done_s[job.job_id] + 1.0 + float(rng.integers(0, 3_000))
        durations_s[job.job_id] = length_s
    for k in range(int(rng.integers(0, 3))):
        jobs.append(Job(f"new-{k}", "all", cut_s + 1.0 + 60.0 * k, 1, model="calm"))
        durations_s[f"new-{k}"] = 500.0
    return World(world.nodes, tuple(jobs), durations_s)


def seen_by(schedule: Schedule, cut_s: float) -> set[tuple[float, str, tuple[Gpu, ...]]]:
    """Beginnings and ends of stretches up to an instant, and where they are."""
    stretches = [one for one in schedule.stretches if one.end_s > one.start_s]
    seen = {(one.start_s, f"{one.job_id} goes on at {one.rate}", one.gpus) for one in stretches}
    seen |= {(one.end_s, f"{one.job_id} stops", one.gpus) for one in stretches}
    return {event for event in seen if event[0] <= cut_s}


# The checker: written from the rules, sharing no code with floors, colocations or the referee.


def faults(world: World, schedule: Schedule) -> list[str]:
    """What is wrong with a schedule; nothing if all rules are kept."""
    found = _faults_of_jobs(world, schedule)
    stretches = [one for one in schedule.stretches if one.end_s > one.start_s]
    instants = sorted({edge for one in stretches for edge in (one.start_s, one.end_s)})
    for begin_s, end_s in pairwise(instants):
        now = [one for one in stretches if one.start_s <= begin_s and one.end_s >= end_s]
        found += [f"{begin_s}: {text}" for text in _faults_of_instant(world, now)]
    return found


def _faults_of_jobs(world: World, schedule: Schedule) -> list[str]:
    found, size = [], world.nodes[0].num_gpus
    for job in world.jobs:
        mine = sorted(one for one in schedule.stretches if one.job_id == job.job_id)
        work_s = sum(one.rate * (one.end_s - one.start_s) for one in mine)
        if not mine or not math.isclose(work_s, world.durations_s[job.job_id], abs_tol=1e-6):
            found.append(f"{job.job_id} does {work_s} s of {world.durations_s[job.job_id]} s")
        if any(one.start_s < job.submit_s or not 0.0 < one.rate <= 1.0 for one in mine):
            found.append(f"{job.job_id} runs before it came, or at an impossible rate")
        if any(earlier.end_s > later.start_s for earlier, later in pairwise(mine)):
            found.append(f"{job.job_id} runs twice at once")
        for one in mine:
            on_nodes = len({gpu.node for gpu in one.gpus})
            if len(set(one.gpus)) != job.num_gpus or on_nodes != -(-job.num_gpus // size):
                found.append(f"{job.job_id} is on {len(one.gpus)} GPUs of {on_nodes} nodes")
    return found


def _faults_of_instant(world: World, now: list[Stretch]) -> list[str]:
    jobs = {job.job_id: job for job in world.jobs}
    workers: dict[Gpu, list[str]] = defaultdict(list)
    for one in now:
        for gpu in one.gpus:
            workers[gpu].append(one.job_id)
    found = [f"{here} share a GPU" for here in workers.values() if len(here) > 2]
    beside: dict[str, set[str]] = defaultdict(set)
    for here in workers.values():
        for one in here:
            beside[one] |= set(here) - {one}
    for one, others in beside.items():
        mine = jobs[one]
        found += [f"{one} and {other} do not fit" for other in others if _is_unfit(mine, jobs[other])]
        if len(others) > 4:
            found.append(f"{one} shares with {len(others)} jobs")
        if len(others) > 1 and any(
            len(beside[other]) > 1 or jobs[other].num_gpus > mine.num_gpus for other in others
        ):
            found.append(f"{one} breaks the star rule")
    return found


def _is_unfit(one: Job, other: Job) -> bool:
    return one.model is None or other.model is None or TABLE.rate(one.model, other.model) is None


class ToldLives:
    """Lives that are told, and believed at every level."""

    is_clairvoyant = False

    def __init__(self, lives_s: dict[str, float]) -> None:
        self._lives_s = lives_s

    def quantile_s(self, job: Job, level: float) -> float:  # noqa: ARG002 - a point forecast
        return self._lives_s[job.job_id]

    def survival(self, job: Job) -> list[float]:
        return [float(edge_s < self._lives_s[job.job_id]) for edge_s in LIFE_EDGES_S]


def replayed(policy: str, rows: list[tuple[Job, float]], nodes: int = 1, **chosen: str) -> list[Stretch]:
    """Stretches by (start, id) of jobs whose lives are forecast as they will be."""
    lengths = {one.job_id: length_s for one, length_s in rows}
    world = World(make_nodes(nodes, 2), tuple(one for one, _ in rows), lengths)
    rule = build(policy, world.nodes, lives=ToldLives(lengths), **chosen)
    stretches = run(policy, world, rule, **chosen).stretches
    return sorted(stretches, key=lambda one: (one.start_s, one.job_id))


def spans(stretches: list[Stretch]) -> list[tuple[str, float, float, float]]:
    return [(one.job_id, one.start_s, one.end_s, one.rate) for one in stretches]
