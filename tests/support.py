"""What several tests need: small jobs, random instances, and a run of the engine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import strategies as st

from domain.jobs import Job, JobOutcome, submit_order
from domain.schedules import Schedule
from simulator.checked import CheckedPlans, options_of
from simulator.engine import Engine
from simulator.truth import TrueDemand, TrueLives
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, PolicySpec, parse_settings

REPOSITORY = Path(__file__).resolve().parents[1]
BENCH_ROOT = Path(os.environ.get("ANTECAST_BENCH_ROOT", REPOSITORY.parent / "shared"))
PHILLY = BENCH_ROOT / "bench" / "philly-pools"

SINGLY = {name: spec for name, spec in POLICIES.items() if not spec.packs}
"""Policies under which every job has its GPUs alone; of the others `tests/families/test_packing_policies.py`
is the family."""

needs_bench_data = [
    pytest.mark.bench_data,
    pytest.mark.skipif(
        not PHILLY.is_dir(), reason=f"no benchmark folder at {BENCH_ROOT} (ANTECAST_BENCH_ROOT)"
    ),
]


def job(
    job_id: str, submit_s: float = 0.0, num_gpus: int = 1, pool: str = "a", requeue_u: float | None = 0.5
) -> Job:
    return Job(job_id, pool, submit_s, num_gpus, requeue_u=requeue_u)


def run(
    policy: str,
    jobs: list[Job],
    durations_s: dict[str, float],
    quotas: dict[str, int],
    checks_plans: bool = False,
    capacity_gpus: int | None = None,
    **settings: str,
) -> Schedule:
    """Replay jobs under a policy that is given true lives; clairvoyant ones know all there is to know.

    With `checks_plans` the independent checker looks at every plan before it is carried out. With
    `capacity_gpus` there are fewer GPUs than the quotas add up to: nodes are lost.
    """
    outcomes = {job_id: JobOutcome(job_id, duration) for job_id, duration in durations_s.items()}
    spec = POLICIES[policy]
    in_force = parse_settings(policy, spec.settings, settings)
    built = spec.build(all_knowing(spec, jobs, outcomes, quotas), in_force)
    return Engine(
        jobs=jobs,
        outcomes=outcomes,
        capacity_gpus=capacity_gpus or sum(quotas.values()),
        policy=built,
        tick_s=spec.tick_s,
        reclaim_s=getattr(in_force, "reclaim_s", 0.0),
        plan_check=CheckedPlans(quotas, options_of(spec, in_force)) if checks_plans else None,
    ).run()


def all_knowing(
    spec: PolicySpec, jobs: Sequence[Job], outcomes: Mapping[str, JobOutcome], quotas: Mapping[str, int]
) -> PolicyContext:
    """What a policy is built from: true lives, and for clairvoyant ones all that is going to happen."""
    lives = TrueLives(outcomes)
    if not spec.is_clairvoyant:
        return PolicyContext(quotas, lives)
    future = tuple(sorted(jobs, key=submit_order))
    return PolicyContext(quotas, lives, TrueDemand(future, outcomes, list(quotas)), future)


Instance = tuple[list[Job], dict[str, float], dict[str, int]]


@st.composite
def instances(draw: st.DrawFn, max_jobs: int = 24, min_duration_s: int = 0) -> Instance:
    """Jobs, durations and quotas: few instants, so that ties, bursts and blocked wide jobs are common.

    Some jobs save checkpoints, and some of them take time to load them.
    """
    quotas = {f"p{k}": draw(st.integers(1, 6)) for k in range(draw(st.integers(1, 4)))}
    jobs, durations = [], {}
    for k in range(draw(st.integers(0, max_jobs))):
        pool = draw(st.sampled_from(sorted(quotas)))
        submit_s = float(draw(st.integers(0, 30)))
        width = draw(st.integers(1, quotas[pool]))
        requeue_u = draw(st.integers(0, 9)) / 10
        saves = {"checkpoint_s": draw(st.sampled_from((None, None, 2.0, 3.0, 7.0)))}
        saves["restart_s"] = draw(st.sampled_from((None, 1.0, 4.0)))
        made = Job(f"j{k:03}", pool, submit_s, width, requeue_u=requeue_u, **saves)
        jobs.append(made)
        durations[made.job_id] = float(draw(st.integers(min_duration_s, 20)))
    return jobs, durations, quotas
