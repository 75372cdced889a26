"""Running jobs whose rates change: the live reference and the budget against the world that knows all."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support import Instance, instances

from domain.jobs import Job, submit_order
from domain.measures import is_slowed
from domain.work import started_at
from solver.budget import SlowdownBudget
from solver.reference import fcfs_starts

RATES = (1.0, 0.5, 0.25)
"""Powers of two, so that work and ends are exact and ties are ties."""


@dataclass
class Lived:
    """One job as it really lived: its start, its rates from then on, and its end."""

    start_s: float
    rates: list[tuple[float, float]]
    end_s: float


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Instance, dict[str, Lived]]:
    """Times are eight times those of other instances, so that a minute of work is often lost."""
    jobs, durations, quotas = draw(instances(max_jobs=12, min_duration_s=1))
    jobs = [replace(one, submit_s=8 * one.submit_s) for one in jobs]
    durations = {job_id: 8 * duration_s for job_id, duration_s in durations.items()}
    lived = {}
    for one in jobs:
        start_s = one.submit_s + draw(st.sampled_from((0.0, 0.0, 0.0, 8.0, 48.0, 96.0)))
        lived[one.job_id] = draw(lives(start_s, durations[one.job_id]))
    return (jobs, durations, quotas), lived


@st.composite
def lives(draw: st.DrawFn, start_s: float, work_s: float) -> Lived:
    run, rates, now_s = started_at(start_s), [], start_s
    for after_s in draw(st.lists(st.sampled_from((0.0, 8.0, 24.0, 64.0)), max_size=4)):
        if run.work_at(now_s + after_s) >= work_s:
            break
        now_s += after_s
        rates.append((now_s, draw(st.sampled_from(RATES))))
        run = run.at_rate(rates[-1][1], now_s)
    return Lived(start_s, rates, run.reaches_s(work_s))


def told(instance: Instance, lived: dict[str, Lived]) -> list[tuple[float, int, int, Job, float]]:
    """(instant, order, serial, job, rate): ends, then submits, then starts, then rates."""
    facts = []
    for one in instance[0]:
        life = lived[one.job_id]
        facts += [
            (life.end_s, 0, 0, one, 0.0),
            (one.submit_s, 1, 0, one, 0.0),
            (life.start_s, 2, 0, one, 0.0),
        ]
        facts += [(at_s, 3, k, one, rate) for k, (at_s, rate) in enumerate(life.rates)]
    return sorted(facts, key=lambda fact: (*fact[:2], submit_order(fact[3]), fact[2]))


def alone_since(life: Lived, now_s: float) -> float:
    """Since when the job would run had it run alone, as of an instant or its end."""
    run, now_s = started_at(life.start_s), min(now_s, life.end_s)
    for at_s, rate in life.rates:
        if at_s <= now_s:
            run = run.at_rate(rate, at_s)
    return run.alone_since_s(now_s)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_a_job_counts_as_slowed_iff_it_ends_a_minute_after_its_reference_end(world):
    """And while it is not known yet, none that is late already is left out."""
    instance, lived = world
    jobs, durations, quotas = instance
    truth = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    budget = SlowdownBudget(quotas, 0.0)
    instants = [fact[0] for fact in told(instance, lived)]
    for now_s, kind, _, one, rate in told(instance, lived):
        if kind == 3:
            budget.rate_changed(one, now_s, rate)
        else:
            (budget.ended, budget.submitted, budget.started)[kind](one, now_s)
        started = [one for one in jobs if lived[one.job_id].start_s < now_s]
        late = [is_slowed(alone_since(lived[one.job_id], now_s) - truth[one.job_id]) for one in started]
        assert -budget.left(now_s) >= sum(late)
    over_s = max([*instants, 0.0]) + 1e6
    slowed = [
        is_slowed(lived[one.job_id].end_s - (truth[one.job_id] + durations[one.job_id])) for one in jobs
    ]
    assert budget.left(over_s) == -sum(slowed)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_with_changing_rates_the_early_reference_is_never_later_than_the_exact_one(world):
    instance, lived = world
    jobs, durations, quotas = instance
    truth = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    shadow = SlowdownBudget(quotas, 0.0).shadow
    for now_s, kind, _, one, rate in told(instance, lived):
        if kind == 3:
            shadow.rate_changed(one, now_s, rate)
            assert shadow.alone_since_s(one, now_s) == alone_since(lived[one.job_id], now_s)
        else:
            (shadow.ended, shadow.submitted, shadow.started)[kind](one, now_s)
        for other in jobs:
            early, exact = shadow.early_start_s(other), shadow.exact_start_s(other)
            assert exact is None or early <= exact == truth[other.job_id]
            assert early is None or early <= truth[other.job_id]
    shadow.advance(max([fact[0] for fact in told(instance, lived)], default=0.0) + 1e6)
    assert {one.job_id: shadow.exact_start_s(one) for one in jobs} == truth
