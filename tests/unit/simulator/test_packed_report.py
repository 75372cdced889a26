"""What a report says of sharing, by hand: a host of two GPUs, two riders on it one after the other."""

import pytest

from app.services.compare import Choice, flat, run_all
from app.tables import shared_gpus
from data.history import from_frame, from_jobs
from data.pairs import PairTable
from domain.cluster import Gpu, Node
from domain.errors import SettingError
from domain.jobs import Job, JobOutcome
from domain.schedules import Schedule, Stretch
from simulator.packed_report import packing_report
from simulator.replay import Replay, replay
from simulator.report import describe, reference_of
from simulator.workload import Workload, make_workload

HOUR_S = 3600.0
NODES = (Node("n", 4),)
WIDTHS = {"host": (2, 5.0, 4.0), "one": (1, 1.0, None), "two": (2, 1.0, 9.0), "alone": (1, 2.0, 1.0)}
"""Width, hours of work and hour of the deadline."""


def workload(model: str | None = "m", eval_from_s: float = 0.0) -> Workload:
    jobs, outcomes = [], {}
    for place, (name, (width, hours, by_hour)) in enumerate(WIDTHS.items()):
        by_s = None if by_hour is None else by_hour * HOUR_S
        jobs.append(Job(name, "a", float(place), width, model=model, deadline_s=by_s))
        outcomes[name] = JobOutcome(name, hours * HOUR_S)
    last = Job("last", "a", 8 * HOUR_S, 1, model=model)
    made = from_frame(
        from_jobs([*jobs, last], {**outcomes, "last": JobOutcome("last", 0.0)}),
        source="test",
        quotas={"a": 4},
    )
    return make_workload(made, {"a": 4}, train_until_s=0.0, eval_from_s=eval_from_s, nodes=NODES)


def stretch(name: str, start_h: float, end_h: float, *gpus: int, rate: float = 1.0) -> Stretch:
    return Stretch(
        name, start_h * HOUR_S, end_h * HOUR_S, rate=rate, gpus=tuple(Gpu("n", index) for index in gpus)
    )


SHARED = Schedule(
    (
        stretch("host", 0, 1, 0, 1),
        stretch("host", 1, 3, 0, 1, rate=0.75),
        stretch("one", 1, 3, 1, rate=0.5),
        stretch("alone", 1, 3, 2),
        stretch("host", 3, 5, 0, 1, rate=0.5),
        stretch("two", 3, 5, 0, 1, rate=0.5),
        stretch("host", 5, 6.5, 0, 1),
        stretch("last", 8, 8, 0),
    )
)


def replayed(schedule: Schedule = SHARED, packs: bool = True) -> Replay:
    rates = (lambda *_: 0.75) if packs else None
    return Replay("packing", {}, saw_truth=False, schedule=schedule, rates=rates)


def test_figures_of_a_host_with_two_riders():
    work = workload()
    report = describe(work, replayed(), reference_of(work))
    assert report["use"]["allocated_gpu_hours"] == pytest.approx(6.5 * 2 + 2)
    assert report["use"]["effective_utilisation_pct"] == pytest.approx(100 * (2 * 5 + 1 + 2 + 2) / (4 * 8))
    assert report["deadlines"] == {"jobs": 3, "met": 1, "met_pct": pytest.approx(100 / 3)}
    assert packing_report(work, replayed(), report["use"]) == {
        "packed_gpu_hours": pytest.approx(1 * 2 + 2 * 2),
        "packed_pct": pytest.approx(100 * 6 / 15),
        "equal_width_pct": pytest.approx(100 * 4 / 6),
        # host: 2 GPUs at 0.75 and 0.5 for 2 h each; one: 1 GPU at 0.5 for 2 h; two: 2 GPUs at 0.5 for 2 h
        "mean_packed_rate": pytest.approx((4 * 0.75 + 4 * 0.5 + 2 * 0.5 + 4 * 0.5) / (4 + 4 + 2 + 4)),
        "jobs_packed": 3,
        "jobs_hosted": 1,
        "jobs_rode": 2,
        "sets_by_size": {"2": 1},
        "colocation_slowdown_mean": pytest.approx((6.5 / 5 + 2 + 2) / 3),
        "colocation_slowdown_worst": 2.0,
        "colocation_slowed_most": "two",
    }


def test_who_is_not_evaluated_is_not_counted():
    work = workload(eval_from_s=1.5)  # two, alone and last
    use = describe(work, replayed(), reference_of(work))["use"]
    found = packing_report(work, replayed(), use)
    assert (found["jobs_packed"], found["jobs_hosted"], found["jobs_rode"]) == (1, 0, 1)
    assert found["sets_by_size"] == {}
    assert found["colocation_slowdown_mean"] == 2.0


def test_where_nobody_shared_there_is_nothing_to_average():
    work = workload()
    alone = Schedule((stretch("host", 0, 5, 0, 1), stretch("one", 0, 1, 2), stretch("alone", 0, 2, 3)))
    found = packing_report(
        work, replayed(alone), {"window_s": [0.0, 8 * HOUR_S], "allocated_gpu_hours": 13.0}
    )
    assert found["packed_gpu_hours"] == found["packed_pct"] == found["equal_width_pct"] == 0.0
    assert found["mean_packed_rate"] is found["colocation_slowdown_worst"] is None
    assert found["jobs_packed"] == 0


def test_where_jobs_could_not_share_there_is_no_report_of_it():
    assert packing_report(workload(), replayed(packs=False), {"window_s": [0.0, 1.0]}) == {}


def test_of_jobs_without_deadlines_none_is_said_to_be_met():
    work = workload()
    jobs = tuple(Job(one.job_id, one.pool, one.submit_s, one.num_gpus) for one in work.jobs)
    bare = Workload(work.cluster, jobs, work.outcomes, work.past, work.unended, 0.0, 0.0)
    assert "deadlines" not in describe(bare, replayed(), reference_of(bare))


PAIRS = PairTable.of({("m", "m"): (0.6, 0.6)})


def test_policies_that_share_and_others_stand_in_one_table():
    rows = run_all(
        workload(),
        [Choice("packing", {}, "packing"), Choice("fcfs", {}, "fcfs")],
        may_see_truth=False,
        pairs=PAIRS,
    )
    assert [row.replay.packs for row in rows] == [True, False]
    packed, alone = (flat(row) for row in rows)
    assert packed["jobs_packed"] == packed["jobs_hosted"] + packed["jobs_rode"]
    assert {"sets_of_2", "sets_of_5", "deadlines_met"} <= packed.keys()
    assert "jobs_packed" not in alone
    assert alone["deadlines_jobs"] == 3
    table = shared_gpus(rows)
    assert table is not None
    assert table.row_count == 2


@pytest.mark.parametrize(
    ("model", "pairs", "said"),
    [
        ("m", None, r"policy packing lets jobs share GPUs: give it measured pairs \(--pairs\)"),
        (None, PAIRS, "job host has no model: jobs need a column model"),
        ("x", PAIRS, "job host has model 'x', of which no pair was measured"),
    ],
)
def test_what_a_policy_that_packs_lacks_is_said(model, pairs, said):
    with pytest.raises(SettingError, match=said):
        replay(workload(model), "packing", {}, pairs=pairs)
