"""Riding makes nobody late: with lives known, and hosts that are ahead of their reference."""

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

ONE_NODE = (Node("n0", 8),)
"""Where there is but one, no gang is kept waiting because the idle GPUs are apart."""
TWO_NODES = (Node("n0", 4), Node("n1", 4))
QUOTAS = {"a": 4, "b": 4}
PAIRS = PairTable.of({("m", "m"): (0.8, 0.8), ("m", "o"): (0.7, 0.95), ("o", "o"): (0.55, 0.55)})
RIDING = {"lives": "true", "arrivals": "true", "packing": "on", "waits": "0", "sigma": "0.5"}
WITHOUT_RISK = {**RIDING, "eps": "0", "requeueable": "0.5"}
"""Whoever may be sent back starts early, and is ahead of its reference once it is its pool's own."""


@st.composite
def workloads(draw: st.DrawFn, nodes: tuple[Node, ...]) -> Workload:
    jobs, outcomes = [], {}
    for k in range(draw(st.integers(6, 16))):
        pool = draw(st.sampled_from(("a", "a", "a", "b")))
        width = draw(st.sampled_from((1, 1, 2, 3, 4)))
        model, may_go = draw(st.sampled_from(("m", "o"))), draw(st.booleans())
        submit_s = 60.0 * draw(st.integers(0, 240))
        jobs.append(Job(f"j{k:02}", pool, submit_s, width, model=model, requeue_u=0.0 if may_go else 0.9))
        outcomes[f"j{k:02}"] = JobOutcome(f"j{k:02}", 300.0 * draw(st.sampled_from((1, 2, 4, 30, 60, 90))))
    made = from_frame(from_jobs(jobs, outcomes), source="test", quotas=QUOTAS)
    return make_workload(made, QUOTAS, train_until_s=0.0, eval_from_s=0.0, nodes=nodes)


def ridden(work: Workload, asked: dict[str, str]) -> Schedule:
    return replay(work, "anticipatory", asked, may_see_truth=True, pairs=PAIRS).schedule


def late(work: Workload, schedule: Schedule) -> set[str]:
    reference = reference_of(work).end_s
    return {name for name, end_s in schedule.last_ends().items() if is_slowed(end_s - reference[name])}


def riders(schedule: Schedule) -> int:
    return len({one.job_id for one in schedule.stretches if one.rate < 1.0})


@settings(max_examples=20, deadline=None)
@given(workloads(ONE_NODE))
def test_nobody_is_late_where_lending_takes_no_risk(work: Workload):
    assert late(work, ridden(work, WITHOUT_RISK)) == set()


@settings(max_examples=12, deadline=None)
@given(workloads(TWO_NODES), st.booleans())
def test_packed_sets_keep_the_rules_and_the_answer_is_the_same_again(work: Workload, moves_samples: bool):
    asked = {**RIDING, "eps": "0.5", "liss": "on" if moves_samples else "off"}
    done = ridden(work, asked)
    told = check_packed(
        work.jobs,
        done.stretches,
        TWO_NODES,
        PAIRS.rate,
        PackedOptions(redistributes=moves_samples),
        durations={name: one.duration_s for name, one in work.outcomes.items()},
    )
    assert told == ()
    assert ridden(work, asked) == done


def test_the_instances_are_full_enough():
    """Jobs ride in both."""
    seen = {"without": 0, "with": 0}

    @settings(max_examples=15, deadline=None, derandomize=True, database=None)
    @given(workloads(ONE_NODE))
    def look(work: Workload) -> None:
        seen["without"] += riders(ridden(work, WITHOUT_RISK))
        seen["with"] += riders(ridden(work, {**RIDING, "eps": "0.5"}))

    look()
    assert min(seen.values()) >= 6
