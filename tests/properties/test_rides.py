"""Riding makes nobody late: with lives known, whoever is in time without it is in time with it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from data.history import from_frame, from_jobs
from data.pairs import PairTable
from domain.cluster import Node
from domain.jobs import Job, JobOutcome
from domain.measures import is_slowed
from domain.schedules import Schedule
from simulator.replay import replay
from simulator.report import reference_of
from simulator.workload import Workload, make_workload
from solver.check_packed import PackedOptions, check_packed

NODES = (Node("n0", 4), Node("n1", 4))
QUOTAS = {"a": 4, "b": 4}
PAIRS = PairTable.of({("m", "m"): (0.8, 0.8), ("m", "o"): (0.7, 0.95), ("o", "o"): (0.55, 0.55)})
HOUR_S = 3600.0
RIDING = {"lives": "true", "arrivals": "true", "eps": "0", "packing": "on", "waits": "0", "sigma": "0.5"}


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    jobs, outcomes = [], {}
    for k in range(draw(st.integers(4, 14))):
        submit_s = 60.0 * draw(st.integers(0, 180))
        model = draw(st.sampled_from(("m", "o")))
        width = draw(st.sampled_from((1, 1, 2, 4)))
        jobs.append(Job(f"j{k:02}", draw(st.sampled_from(("a", "b"))), submit_s, width, model=model))
        outcomes[f"j{k:02}"] = JobOutcome(f"j{k:02}", 300.0 * draw(st.integers(1, 80)))
    made = from_frame(from_jobs(jobs, outcomes), source="test", quotas=QUOTAS)
    return make_workload(made, QUOTAS, train_until_s=0.0, eval_from_s=0.0, nodes=NODES)


def ends(schedule: Schedule) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in schedule.stretches:
        found[one.job_id] = max(one.end_s, found.get(one.job_id, 0.0))
    return found


def late(work: Workload, schedule: Schedule) -> set[str]:
    reference = reference_of(work).end_s
    return {name for name, end_s in ends(schedule).items() if is_slowed(end_s - reference[name])}


@settings(max_examples=12, deadline=None)
@given(workloads(), st.booleans())
def test_riding_makes_nobody_late_and_keeps_the_rules_of_packing(work: Workload, moves_samples: bool):
    asked = {**RIDING, "liss": "on" if moves_samples else "off"}
    alone = replay(
        work, "anticipatory", {"lives": "true", "arrivals": "true", "eps": "0"}, may_see_truth=True
    )
    done = replay(work, "anticipatory", asked, may_see_truth=True, pairs=PAIRS)
    assert late(work, done.schedule) <= late(work, alone.schedule)
    told = check_packed(
        work.jobs,
        done.schedule.stretches,
        NODES,
        PAIRS.rate,
        PackedOptions(redistributes=moves_samples),
        durations={name: one.duration_s for name, one in work.outcomes.items()},
    )
    assert told == ()
    again = replay(work, "anticipatory", asked, may_see_truth=True, pairs=PAIRS)
    assert again.schedule == done.schedule
