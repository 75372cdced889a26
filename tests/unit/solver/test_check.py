import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from domain import measures
from domain.jobs import Job
from domain.schedules import Stretch
from domain.shares import Share
from solver.check import STRICT, CheckOptions, Rule, check, fcfs_starts

QUOTAS = {"A": 4, "B": 2}
JOBS = [Job("a1", "A", 0.0, 3, requeue_u=0.5), Job("a2", "A", 0.0, 2), Job("b1", "B", 5.0, 1)]
DURATIONS = {"a1": 100.0, "a2": 50.0, "b1": 200.0}
REFERENCE = {"a1": 0.0, "a2": 100.0, "b1": 5.0}
VALID = [Stretch("a1", 0.0, 100.0), Stretch("a2", 100.0, 150.0), Stretch("b1", 5.0, 205.0)]


def judge(stretches, options=STRICT, jobs=JOBS, durations=DURATIONS, quotas=QUOTAS):
    return check(jobs, durations, quotas, stretches, options=options)


def with_a1(*stretches):
    return [*stretches, *VALID[1:]]


def with_b1(*stretches):
    return [*VALID[:2], *stretches]


def test_the_reference_itself_breaks_no_rule():
    report = judge(VALID, CheckOptions(must_keep_promise=True))
    assert report.is_valid
    assert report.slowed_job_ids == ()
    assert report.worst_lateness_s == 0.0
    assert report.reference_starts == REFERENCE


VALID_ONES = {
    "two rates, one after the other": (
        with_b1(
            Stretch("b1", 5.0, 105.0), Stretch("b1", 105.0, 155.0, rate=0.5), Stretch("b1", 155.0, 230.0)
        ),
        STRICT,
    ),
    "a lent start that becomes own": (
        [VALID[0], Stretch("a2", 90.0, 140.0, is_guest=True, own_from_s=100.0), VALID[2]],
        STRICT,
    ),
    "a guest sent back that may be": (
        with_a1(Stretch("a1", 0.0, 30.0, is_guest=True, is_lost=True), Stretch("a1", 200.0, 300.0)),
        CheckOptions(requeueable_share=0.6),
    ),
    "a pause where pauses are allowed": (
        with_a1(Stretch("a1", 0.0, 50.0), Stretch("a1", 200.0, 250.0)),
        CheckOptions(is_preemption_allowed=True),
    ),
    "own beyond the quota, where lanes mean nothing": (
        [Stretch("a1", 0.0, 100.0), Stretch("a2", 0.0, 50.0), VALID[2]],
        CheckOptions(has_own_lanes=False),
    ),
    "rounding": (
        with_b1(Stretch("b1", 5.0 - 1e-7, 105.0), Stretch("b1", 105.0 + 1e-7, 205.0005)),
        STRICT,
    ),
    "no stretch at all at the instant of a change": (
        with_a1(Stretch("a1", 0.0, 0.0), Stretch("a1", 0.0, 100.0)),
        STRICT,
    ),
}


@pytest.mark.parametrize("name", VALID_ONES)
def test_what_is_allowed_passes(name):
    stretches, options = VALID_ONES[name]
    assert judge(stretches, options).faults == ()


BROKEN_ONES = {
    "unknown": (Rule.UNKNOWN_JOB, "x", 9.0, [*VALID, Stretch("x", 9.0, 10.0)], STRICT),
    "negative": (Rule.MALFORMED_STRETCH, "a1", 100.0, with_a1(Stretch("a1", 100.0, 0.0)), STRICT),
    "rate of 0": (Rule.MALFORMED_STRETCH, "a1", 0.0, with_a1(Stretch("a1", 0.0, 100.0, rate=0.0)), STRICT),
    "rate over 1": (Rule.MALFORMED_STRETCH, "a1", 0.0, with_a1(Stretch("a1", 0.0, 50.0, rate=2.0)), STRICT),
    "endless": (Rule.MALFORMED_STRETCH, "a1", 0.0, with_a1(Stretch("a1", 0.0, math.inf)), STRICT),
    "no rate": (Rule.MALFORMED_STRETCH, "a1", 0.0, with_a1(Stretch("a1", 0.0, 1.0, rate=math.nan)), STRICT),
    "missing": (Rule.NEVER_RAN, "a1", 0.0, VALID[1:], STRICT),
    "only lost attempts": (
        Rule.NEVER_RAN, "a1", 0.0,
        with_a1(Stretch("a1", 0.0, 10.0, is_guest=True, is_lost=True)), CheckOptions(requeueable_share=1.0),
    ),
    "too soon": (
        Rule.STARTS_BEFORE_SUBMIT, "b1", 4.0, with_b1(Stretch("b1", 4.0, 204.0)), STRICT,
    ),
    "a lost attempt too soon": (
        Rule.STARTS_BEFORE_SUBMIT, "a1", -1.0,
        [Stretch("a1", -1.0, 0.0, is_guest=True, is_lost=True), *VALID], CheckOptions(requeueable_share=1.0),
    ),
    "twice": (
        Rule.RUNS_TWICE_AT_ONCE, "b1", 10.0,
        with_b1(Stretch("b1", 5.0, 105.0), Stretch("b1", 10.0, 110.0)), STRICT,
    ),
    "twice, not with its neighbour": (
        Rule.RUNS_TWICE_AT_ONCE, "b1", 6.0,
        with_b1(Stretch("b1", 5.0, 105.0), Stretch("b1", 6.0, 46.0), Stretch("b1", 50.0, 110.0)), STRICT,
    ),
    "too short": (
        Rule.ENDS_BEFORE_WORK_IS_DONE, "a1", 99.0, with_a1(Stretch("a1", 0.0, 99.0)), STRICT,
    ),
    "too slow": (
        Rule.ENDS_BEFORE_WORK_IS_DONE, "a1", 100.0, with_a1(Stretch("a1", 0.0, 100.0, rate=0.9)), STRICT,
    ),
    "too long": (
        Rule.RUNS_ON_AFTER_WORK_IS_DONE, "b1", 206.0, with_b1(Stretch("b1", 5.0, 206.0)), STRICT,
    ),
    "a gap": (
        Rule.INTERRUPTED, "a1", 50.0, with_a1(Stretch("a1", 0.0, 50.0), Stretch("a1", 200.0, 250.0)), STRICT,
    ),
    "lost without leave": (
        Rule.LOST_BUT_NOT_REQUEUEABLE, "a1", 30.0,
        with_a1(Stretch("a1", 0.0, 30.0, is_guest=True, is_lost=True), Stretch("a1", 200.0, 300.0)),
        CheckOptions(requeueable_share=0.5),
    ),
    "lost, and the record does not say": (
        Rule.LOST_BUT_NOT_REQUEUEABLE, "b1", 7.0,
        with_b1(Stretch("b1", 5.0, 7.0, is_guest=True, is_lost=True), Stretch("b1", 7.0, 207.0)),
        CheckOptions(requeueable_share=0.99),
    ),
    "lost afterwards": (
        Rule.LOST_AFTER_FINAL_START, "a1", 200.0,
        [*VALID, Stretch("a1", 200.0, 210.0, is_guest=True, is_lost=True)],
        CheckOptions(requeueable_share=1.0),
    ),
    "own work lost": (
        Rule.OWN_ATTEMPT_LOST, "a1", 30.0,
        with_a1(Stretch("a1", 0.0, 30.0, is_lost=True), Stretch("a1", 200.0, 300.0)),
        CheckOptions(requeueable_share=1.0),
    ),
    "lost after it had become own": (
        Rule.OWN_ATTEMPT_LOST, "a1", 30.0,
        with_a1(
            Stretch("a1", 0.0, 30.0, is_guest=True, is_lost=True, own_from_s=20.0),
            Stretch("a1", 200.0, 300.0),
        ),
        CheckOptions(requeueable_share=1.0),
    ),
    "goes on from what it never saved": (
        Rule.KEPT_WHAT_WAS_NOT_SAVED, "a1", 50.0,
        with_a1(
            Stretch("a1", 0.0, 50.0, is_guest=True, rate=0.8, is_stopped=True), Stretch("a1", 200.0, 260.0)
        ),
        CheckOptions(requeueable_share=0.6),
    ),
    "cluster overrun": (
        Rule.MORE_GPUS_THAN_CLUSTER, "b1", 5.0,
        VALID, CheckOptions(capacity_steps=((0.0, 3),)),
    ),
    "cluster shrinks under a job": (
        Rule.MORE_GPUS_THAN_CLUSTER, None, 50.0,
        VALID, CheckOptions(capacity_steps=((50.0, 3), (60.0, 6))),
    ),
    "own beyond the quota": (
        Rule.OWN_GPUS_BEYOND_QUOTA, "a2", 10.0,
        [VALID[0], Stretch("a2", 10.0, 60.0), VALID[2]], STRICT,
    ),
    "own beyond the quota after a conversion": (
        Rule.OWN_GPUS_BEYOND_QUOTA, "a2", 40.0,
        [VALID[0], Stretch("a2", 10.0, 60.0, is_guest=True, own_from_s=40.0), VALID[2]], STRICT,
    ),
    "late, when that is forbidden": (
        Rule.PROMISE_BROKEN, "b1", 266.0,
        with_b1(Stretch("b1", 66.0, 266.0)), CheckOptions(must_keep_promise=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_ONES)
def test_each_rule_is_broken_by_exactly_what_breaks_it(name):
    rule, job_id, at_s, stretches, options = BROKEN_ONES[name]
    faults = judge(stretches, options).faults
    assert [(fault.rule, fault.job_id, fault.at_s) for fault in faults] == [(rule, job_id, at_s)]
    assert str(at_s) in faults[0].message
    assert job_id is None or job_id in faults[0].message
    assert str(faults[0]).startswith(f"{rule}: ")


def test_every_rule_has_a_schedule_that_breaks_it():
    broken = {case[0] for case in BROKEN_ONES.values()}
    assert broken == set(Rule) - {Rule.WIDER_THAN_QUOTA}  # which has a test of its own


def test_a_job_wider_than_its_pool_is_named_and_blocks_nobody():
    jobs = [Job("wide", "B", 0.0, 3), Job("b1", "B", 5.0, 1), Job("lost", "Z", 0.0, 1)]
    stretches = [
        Stretch("wide", 900.0, 1_000.0, is_guest=True),
        Stretch("b1", 5.0, 105.0),
        Stretch("lost", 0.0, 100.0, is_guest=True),
    ]
    durations = dict.fromkeys(("wide", "b1", "lost"), 100.0)
    report = judge(stretches, CheckOptions(must_keep_promise=True), jobs, durations)
    assert [(fault.rule, fault.job_id) for fault in report.faults] == [
        (Rule.WIDER_THAN_QUOTA, "lost"),
        (Rule.WIDER_THAN_QUOTA, "wide"),
    ]
    assert report.reference_starts == {"b1": 5.0}


def test_the_cluster_may_be_overrun_twice():
    stretches = [Stretch("a1", 0.0, 100.0), Stretch("a2", 90.0, 140.0), VALID[2]]
    steps = ((0.0, 4), (50.0, 3), (60.0, 5))
    faults = judge(stretches, CheckOptions(has_own_lanes=False, capacity_steps=steps)).faults
    assert [(fault.rule, fault.at_s) for fault in faults] == [
        (Rule.MORE_GPUS_THAN_CLUSTER, 50.0),
        (Rule.MORE_GPUS_THAN_CLUSTER, 90.0),
    ]
    assert faults[0].message == "1 GPUs more in use at 50.0 s than the cluster has"


@pytest.mark.parametrize(("start_s", "slowed"), [(65.0, ()), (65.5, ("b1",))])
def test_slowed_is_later_than_a_minute(start_s, slowed):
    report = judge(with_b1(Stretch("b1", start_s, start_s + 200.0)))
    assert report.is_valid
    assert report.slowed_job_ids == slowed
    assert report.worst_lateness_s == start_s - 5.0


def test_packing_costs_count_as_lateness():
    report = judge(with_a1(Stretch("a1", 0.0, 200.0, rate=0.5)), CheckOptions(has_own_lanes=False))
    assert report.slowed_job_ids == ("a1",)
    assert report.worst_lateness_s == 100.0


def test_a_malformed_job_has_no_lateness():
    assert judge(with_a1(Stretch("a1", math.nan, 1e9))).worst_lateness_s == 0.0


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match="a1 is listed twice"):
        judge([], jobs=[*JOBS, JOBS[0]])
    with pytest.raises(ValueError, match="a1 has no duration"):
        judge([], durations={})


def test_no_jobs_is_a_valid_schedule():
    assert judge([], jobs=[]).is_valid


# The reference


def test_the_reference_neither_shares_nor_backfills():
    jobs = [
        Job("a", "A", 0.0, 2),
        Job("b", "A", 1.0, 3),  # waits for a
        Job("c", "A", 2.0, 1),  # would fit at once, but b is before it
        Job("d", "A", 300.0, 4),
    ]
    durations = {"a": 100.0, "b": 100.0, "c": 10.0, "d": 1.0}
    assert fcfs_starts(jobs, durations, {"A": 4, "idle": 99}) == {
        "a": 0.0,
        "b": 100.0,
        "c": 100.0,
        "d": 300.0,
    }


def test_equal_submits_are_served_by_id_whatever_the_order_of_the_list():
    jobs = [Job("b", "A", 0.0, 4), Job("c", "A", 0.0, 4), Job("a", "A", 0.0, 4)]
    durations = dict.fromkeys("abc", 10.0)
    assert fcfs_starts(jobs, durations, QUOTAS) == {"a": 0.0, "b": 10.0, "c": 20.0}


def test_jobs_of_no_length_take_their_turn():
    jobs = [Job("a", "A", 0.0, 4), Job("b", "A", 1.0, 4), Job("c", "A", 2.0, 4)]
    assert fcfs_starts(jobs, {"a": 10.0, "b": 0.0, "c": 0.0}, QUOTAS) == {"a": 0.0, "b": 10.0, "c": 10.0}


# Against the referee

SIM_FROM_S, EVAL_FROM_S = 1_641_600, 1_814_400
BENCH_ROOT = Path(os.environ.get("ANTECAST_BENCH_ROOT") or Path(__file__).parents[3] / ".." / "shared")


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def referee_says(jobs_csv, pools_csv, schedule_csv):
    command = [sys.executable, BENCH_ROOT / "referee" / "referee.py", "--no-preemption"]
    command += ["--jobs", jobs_csv, "--pools", pools_csv, "--schedule", schedule_csv]
    command += ["--sim-from", str(SIM_FROM_S), "--eval-from", str(EVAL_FROM_S)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout)


@pytest.mark.bench_data
def test_the_referee_agrees_on_the_reference(tmp_path):
    folder = BENCH_ROOT / "bench" / "philly-pools"
    jobs_csv, pools_csv, schedule_csv = folder / "jobs.csv", folder / "pools_load080.csv", tmp_path / "s.csv"
    if not jobs_csv.is_file():
        pytest.skip(f"no benchmark folder at {BENCH_ROOT}: set ANTECAST_BENCH_ROOT")
    rows = [row for row in read_rows(jobs_csv) if float(row["submit_s"]) >= SIM_FROM_S]
    jobs = [Job(r["job_id"], r["pool"], float(r["submit_s"]), int(r["num_gpus"])) for r in rows]
    durations = {row["job_id"]: float(row["duration_s"]) for row in rows}
    quotas = {row["pool"]: int(row["quota_gpus"]) for row in read_rows(pools_csv)}
    starts = fcfs_starts(jobs, durations, quotas)
    stretches = [Stretch(job_id, start, start + durations[job_id]) for job_id, start in starts.items()]
    with schedule_csv.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["job_id", "start_s", "end_s"])
        writer.writerows((s.job_id, s.start_s, s.end_s) for s in stretches)

    verdict = referee_says(jobs_csv, pools_csv, schedule_csv)
    report = check(jobs, durations, quotas, stretches, options=CheckOptions(must_keep_promise=True))
    assert report.is_valid
    assert verdict["faults"] == []

    counted = [job for job in jobs if job.submit_s >= EVAL_FROM_S]
    jcts = [starts[j.job_id] + durations[j.job_id] - j.submit_s for j in counted]
    delays = [measures.queue_delay_s(j.submit_s, starts[j.job_id]) for j in counted]
    assert verdict["evaluated"] == len(counted)
    ours = {
        "mean_jct_s": sum(jcts) / len(jcts),
        "mean_jct_ratio": measures.speedup_of_means(jcts, jcts),
        "speedup_mean": measures.speedup_mean(jcts, jcts),
        "speedup_geomean": measures.speedup_geomean(jcts, jcts),
        "queue_mean_s": sum(delays) / len(delays),
        "queue_p50_s": measures.quantile(delays, 0.5),
        "queue_p99_s": measures.quantile(delays, 0.99),
        "makespan_s": measures.makespan_s((j.submit_s for j in jobs), (s.end_s for s in stretches)),
        "slowed_max_min": measures.worst_lateness_min([0.0]),
    }
    assert {name: verdict[name] for name in ours} == pytest.approx(ours, rel=1e-4)
    assert measures.speedup_geomean(jcts, jcts) == pytest.approx(1.0)
    assert measures.slowed_share([0.0] * len(jcts)) == Share(verdict["slowed"], verdict["evaluated"])
