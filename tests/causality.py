"""The check that nothing decided by an instant depends on what happens after it.

Replay, rewrite everything that happens after the instant, replay again: what was to be seen by then must
be the same. Rewriting keeps what had been seen: arrivals up to the instant stay, jobs that had ended keep
their length, and those that ran or had been sent back last longer than they had been seen to run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace as with_changes
from enum import Enum

import numpy as np
import pandas as pd

from domain.jobs import Job, JobOutcome, submit_order
from domain.schedules import Schedule, Stretch, as_attempts
from simulator.replay import replay
from simulator.workload import Workload
from solver.policies import POLICIES
from solver.policies.base import describe_settings, setting_text

RIDING = ("packing", "liss")
"""Switches of policies that lend: they need nodes and pairs, see `tests/families/test_riding.py`."""

Seen = tuple[float, str, str]
"""(instant, job, what)."""


def settings_choices(policy: str) -> list[dict[str, str]]:
    """A policy's defaults, and in turn each other word of the settings that are words or switches."""
    defaults = describe_settings(POLICIES[policy].settings)
    words = [(name, word) for name, word in defaults.items() if isinstance(word, Enum)]
    switches = [
        {name: setting_text(not is_on)}
        for name, is_on in defaults.items()
        if isinstance(is_on, bool) and (POLICIES[policy].packs or name not in RIDING)
    ]
    others = [{name: other.value} for name, word in words for other in type(word) if other is not word]
    return [{}, *others, *switches]


def changed_by(
    workload: Workload,
    policy: str,
    settings: Mapping[str, str],
    *,
    cuts_s: Iterable[float],
    seed: int,
    may_see_truth: bool = False,
) -> list[Seen]:
    """What is seen by a cut in only one of two replays that differ in nothing but what comes after it.

    Goes through the cuts up to the first one at which there is a difference. A policy that keeps to the
    past yields an empty list, whatever the seed.
    """
    one = replay(workload, policy, settings, may_see_truth=may_see_truth).schedule
    for cut_s in cuts_s:
        rewritten = rewritten_after(workload, one, cut_s, np.random.default_rng(seed))
        other = replay(rewritten, policy, settings, may_see_truth=may_see_truth).schedule
        changed = seen_by(one, cut_s) ^ seen_by(other, cut_s)
        if changed:
            return sorted(changed)
    return []


def seen_by(schedule: Schedule, cut_s: float) -> set[Seen]:
    """Starts, changes of rate or neighbours, conversions, ends and send-backs up to an instant."""
    seen: set[Seen] = {(one.start_s, one.job_id, "begins a stretch") for one in schedule.stretches}
    for attempt in as_attempts(schedule.stretches):
        seen.add(
            (attempt.start_s, attempt.job_id, "starts as guest" if attempt.is_guest else "starts as own")
        )
        seen.add((attempt.end_s, attempt.job_id, "is sent back" if attempt.was_sent_back else "stops"))
        if attempt.own_from_s is not None:
            seen.add((attempt.own_from_s, attempt.job_id, "is own"))
    return {event for event in seen if event[0] <= cut_s}


def rewritten_after(
    workload: Workload, schedule: Schedule, cut_s: float, rng: np.random.Generator
) -> Workload:
    """The workload with other things happening after `cut_s`: later arrivals dropped, altered and added,
    and other lengths of the jobs that had not ended by then in `schedule`."""
    attempts: dict[str, list[Stretch]] = {}
    for attempt in as_attempts(schedule.stretches):
        attempts.setdefault(attempt.job_id, []).append(attempt)
    quotas = workload.cluster.quotas()
    jobs: list[Job] = []
    outcomes: dict[str, JobOutcome] = {}
    for job in workload.jobs:
        if job.submit_s <= cut_s:
            jobs.append(job)
            outcomes[job.job_id] = _other_outcome(
                workload.outcomes[job.job_id], attempts[job.job_id], cut_s, rng
            )
        elif rng.random() < 0.4:
            jobs.append(_other_job(job, job.job_id, quotas, cut_s, rng))
            outcomes[job.job_id] = JobOutcome(job.job_id, _some_time_s(rng))
    for number in range(int(rng.integers(0, 4))):
        job_id = f"{'az'[number % 2]}-new-{number}"
        jobs.append(_other_job(workload.jobs[0], job_id, quotas, cut_s, rng))
        outcomes[job_id] = JobOutcome(job_id, _some_time_s(rng))
    return with_changes(workload, jobs=tuple(sorted(jobs, key=submit_order)), outcomes=outcomes)


def history_rewritten_after(frame: pd.DataFrame, cut_s: float, rng: np.random.Generator) -> pd.DataFrame:
    """A history's rows with other lengths for the jobs submitted before `cut_s` that had not ended by then.

    That they had been submitted and how long ago may be known; how long they will last may not.
    """
    is_open = (frame["submit_s"] < cut_s) & (frame["submit_s"] + frame["duration_s"] > cut_s)
    rows = frame[is_open].copy()
    rows["duration_s"] = (cut_s - rows["submit_s"]) + [0.5 + _some_time_s(rng) for _ in range(len(rows))]
    return pd.concat([frame[~is_open], rows], ignore_index=True)


def _other_outcome(
    outcome: JobOutcome, attempts: list[Stretch], cut_s: float, rng: np.random.Generator
) -> JobOutcome:
    """Another length, if the job had not ended by then: longer than it can have worked until then.

    Only the last attempt ends a job; one before it was sent back, or suspended with all its work kept.
    """
    if attempts[-1].end_s <= cut_s and not attempts[-1].was_sent_back:
        return outcome
    began = [attempt for attempt in attempts if attempt.start_s <= cut_s]
    if not began:
        return JobOutcome(outcome.job_id, _some_time_s(rng))
    seen_s = kept_s = 0.0
    for attempt in began:
        ran_s = min(attempt.end_s, cut_s) - attempt.start_s
        seen_s = max(seen_s, kept_s + ran_s)
        kept_s += 0.0 if attempt.is_lost or attempt.end_s > cut_s else attempt.rate * ran_s
    return JobOutcome(outcome.job_id, seen_s + 0.5 + _some_time_s(rng))


def _other_job(
    job: Job, job_id: str, quotas: Mapping[str, int], cut_s: float, rng: np.random.Generator
) -> Job:
    pool = list(quotas)[int(rng.integers(len(quotas)))]
    submit_s = cut_s + 0.5 + _some_time_s(rng)
    width = int(rng.integers(1, quotas[pool] + 1))
    return with_changes(job, job_id=job_id, pool=pool, submit_s=submit_s, num_gpus=width)


def _some_time_s(rng: np.random.Generator) -> float:
    """From nothing to some hours, of any order of magnitude."""
    return float(np.floor(10.0 ** rng.uniform(0.0, 4.5))) - 1.0
