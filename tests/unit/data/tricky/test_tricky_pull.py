"""Real traps of asking a running cluster for its history, each with the behaviour that is right."""

import json
import os
import signal
import subprocess
import sys

import pytest
from slurm_programs import DAY_S, HOUR_S, MIDNIGHT_S, Site, job
from support import REPOSITORY

from app.services import slurm_pull
from data.pull.memory import remembered
from data.pull.programs import Limits
from data.shelf.store import HistoryStore
from domain.attempts import EndCause
from domain.errors import SettingError


def case(trap: str, note: str) -> object:
    return pytest.param(id=f"{trap}-{note}")


def trap(name: str, note: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize((), [case(name, note)])


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def files(folder):
    return {path: path.read_bytes() for path in sorted((folder / "parts").rglob("*")) if path.is_file()}


# Accounting


@trap("T25", "midnight")
def test_a_job_that_crosses_midnight_is_found_by_its_end(site):
    site.answers(job(1, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S)
    assert site.ids() == ["1"]
    (record,) = site.records()
    assert record.submit_s < MIDNIGHT_S < record.end_s


@trap("T25", "running-then-ended")
def test_what_runs_is_pulled_and_its_end_later(site):
    site.answers(job(1, None))
    site.pull(MIDNIGHT_S)
    assert [record.cause for record in site.records()] == [EndCause.NOT_ENDED]
    site.now_s += DAY_S
    ended = job(1, None) | {"State": "COMPLETED", "End": str(MIDNIGHT_S + 20 * HOUR_S)}
    site.answers(ended)
    site.pull()
    assert [record.end_s for record in site.records()] == [MIDNIGHT_S + 20 * HOUR_S]


@trap("T25", "overlap")
def test_an_overlapping_pull_changes_nothing_and_leaves_no_gap(site):
    site.answers(job(1, MIDNIGHT_S + 60), job(2, MIDNIGHT_S + 11 * HOUR_S))
    site.pull(MIDNIGHT_S)
    before = files(site.history)
    site.now_s += HOUR_S
    site.answers(job(1, MIDNIGHT_S + 60), job(2, MIDNIGHT_S + 11 * HOUR_S))
    reports = site.pull()
    assert sum(one.new + one.updated for one in reports) == 0
    assert sum(one.unchanged for one in reports) == 2
    assert files(site.history) == before
    assert site.windows()[-2:] == [
        ("2024-04-30T12:00:00", "2024-05-01T12:00:00"),
        ("2024-05-01T12:00:00", "2024-05-01T13:00:00"),
    ]


@trap("T25", "late-word")
def test_what_accounting_hears_of_late_is_found_by_the_overlap(site):
    site.answers(job(1, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S)
    site.now_s += HOUR_S
    site.answers(job(1, MIDNIGHT_S + 60), job(2, MIDNIGHT_S + 120))
    site.pull()
    assert site.ids() == ["1", "2"]


@trap("T25", "since-again")
def test_a_later_since_leaves_no_gap(site):
    site.answers(job(1, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S)
    site.now_s += 5 * DAY_S
    site.answers(job(2, MIDNIGHT_S + DAY_S))
    site.pull(site.now_s - HOUR_S)
    assert site.ids() == ["1", "2"]


@pytest.mark.parametrize("code", [pytest.param(1, id="T25-wide"), pytest.param(0, id="T25-wide-exit-0")])
def test_a_window_that_is_too_wide_is_halved(site, code):
    site.answers(*(job(k, MIDNIGHT_S + k * HOUR_S) for k in range(1, 12)), widest=3 * HOUR_S, wide_code=code)
    site.pull(MIDNIGHT_S)
    assert len(site.ids()) == 11
    assert [end for _, end in site.windows()] == [
        "2024-05-01T12:00:00", "2024-05-01T06:00:00", "2024-05-01T03:00:00", "2024-05-01T06:00:00",
        "2024-05-01T09:00:00", "2024-05-01T12:00:00",
    ]  # fmt: skip
    assert sum("too much at once" in line for line in site.said) == 2


@trap("T25", "hopeless")
def test_an_hour_that_is_too_wide_is_an_error(site):
    site.answers(widest=HOUR_S - 1)
    with pytest.raises(SettingError, match=r"ended from 2024-04-30T22:00:00Z to .*Too wide of a date range"):
        site.pull(MIDNIGHT_S)
    assert [end for _, end in site.windows()] == [
        "2024-05-01T12:00:00", "2024-05-01T06:00:00", "2024-05-01T03:00:00", "2024-05-01T01:30:00",
        "2024-05-01T01:00:00",
    ]  # fmt: skip
    assert remembered(site.history, "c").ended_until_s is None


@trap("T25", "size")
def test_more_than_is_taken_at_once_is_halved_too(site):
    site.answers(*(job(k, MIDNIGHT_S + k * HOUR_S / 10) for k in range(1, 100)))
    site.pull(MIDNIGHT_S, limits=Limits(size_bytes=10_000))
    assert len(site.ids()) == 99
    assert any("it printed more than is taken at once" in line for line in site.said)


@trap("T25", "years")
def test_a_first_pull_goes_window_by_window_one_call_at_a_time(site):
    site.answers(job(1, MIDNIGHT_S - 9 * DAY_S), job(2, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S - 10 * DAY_S, window_s=2.0 * DAY_S)
    assert len(site.windows()) == 6
    assert site.ids() == ["1", "2"]
    assert site.pauses == []


@trap("T25", "killed")
def test_a_pull_that_is_killed_is_repeated(site, monkeypatch):
    """It dies between an import and its memory; what came in before is not asked for twice, nor lost."""
    jobs = [job(k, MIDNIGHT_S - k * DAY_S + 60) for k in range(4)]
    site.answers(*jobs)
    real = slurm_pull.remember
    told = []

    def dies(folder, cluster, memory):
        told.append(memory)
        if len(told) == 2:
            raise KeyboardInterrupt
        real(folder, cluster, memory)

    monkeypatch.setattr(slurm_pull, "remember", dies)
    with pytest.raises(KeyboardInterrupt):
        site.pull(MIDNIGHT_S - 4 * DAY_S)
    assert remembered(site.history, "c").ended_until_s == MIDNIGHT_S - 3 * DAY_S
    monkeypatch.setattr(slurm_pull, "remember", real)
    site.pull(overlap_s=0.0)
    assert site.ids() == ["0", "1", "2", "3"]
    assert [one.unchanged for one in site.reports].count(1) >= 1, "the one that was in already"
    assert remembered(site.history, "c").ended_until_s == site.now_s
    assert not list(site.history.glob("staging-*"))


@trap("T25", "killed-outright")
def test_a_pull_that_is_killed_outright_leaves_a_history_that_the_next_one_goes_on_with(site):
    site.answers(*(job(k, MIDNIGHT_S - k * DAY_S + 60) for k in range(4)), kills_at=3)
    script = (
        f"from pathlib import Path; from slurm_programs import Site; Site(Path({str(site.folder)!r})).pull"
    )
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", f"{script}({MIDNIGHT_S - 4 * DAY_S})"],
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert remembered(site.history, "c").ended_until_s == MIDNIGHT_S - 2 * DAY_S
    assert site.ids() == ["3"]
    assert list(site.history.glob("staging-*")), "what it left behind is swept by the next"
    site.pull()
    assert site.ids() == ["0", "1", "2", "3"]
    assert not list(site.history.glob("staging-*"))


@trap("T25", "busy")
def test_calls_that_fail_are_made_again_after_longer_and_longer_pauses(site):
    site.answers(job(1, MIDNIGHT_S + 60), busy=2)
    site.pull(MIDNIGHT_S)
    assert site.ids() == ["1"]
    assert site.pauses == [5.0, 20.0]


@trap("T25", "down")
def test_after_some_tries_it_is_an_error_that_says_what_slurm_said(site):
    site.answers(busy=99)
    with pytest.raises(SettingError, match="Connection refused"):
        site.pull(MIDNIGHT_S)
    assert len(site.calls) == 4
    assert site.pauses == [5.0, 20.0, 60.0]


@trap("T25", "unknown-field")
def test_a_field_that_the_site_does_not_know_is_left_out_and_said_once(site):
    site.answers(job(1, MIDNIGHT_S + 60), unknown=["TimelimitRaw", "Suspended"])
    site.pull(MIDNIGHT_S)
    site.now_s += HOUR_S
    site.pull()
    assert site.ids() == ["1"]
    assert [line.partition(" has no field ")[2].partition(":")[0] for line in site.said] == [
        "TimelimitRaw",
        "Suspended",
    ]
    assert remembered(site.history, "c").ended_until_s == site.now_s


@trap("T25", "needed-field")
def test_a_field_that_nothing_goes_without_is_an_error(site):
    site.answers(unknown=["Submit"])
    with pytest.raises(SettingError, match='Invalid field requested: "Submit"'):
        site.pull(MIDNIGHT_S)


@trap("T25", "quiet-day")
def test_a_day_without_gpu_jobs_of_a_site_that_counts_them_is_kept(site):
    cpus = {"ReqTRES": "cpu=4", "AllocTRES": "cpu=4"}
    site.answers(job(1, MIDNIGHT_S - DAY_S, **cpus), job(2, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S - 2 * DAY_S)
    assert site.ids() == ["1", "2"], "the first waited until the second told that GPUs are counted"
    assert [record.gpus_given_milli for record in site.records()] == [0, 1000]
    site.now_s += DAY_S
    site.answers(job(3, MIDNIGHT_S + 30 * HOUR_S, **cpus))
    site.pull(overlap_s=0.0)
    assert site.ids() == ["1", "2", "3"]


@trap("T25", "no-gpu-counts")
def test_a_site_that_counts_no_gpus_is_told_what_to_set(site):
    site.answers(job(1, MIDNIGHT_S + 60, ReqTRES="cpu=4", AllocTRES="cpu=4"))
    with pytest.raises(SettingError, match="AccountingStorageTRES=gres/gpu"):
        site.pull(MIDNIGHT_S)
    assert remembered(site.history, "c").ended_until_s is None


@trap("T25", "autumn")
def test_a_window_that_ends_in_the_repeated_hour_is_asked_for_wider(site):
    """At 2024-10-27 01:30 UTC clocks in Zurich show 02:30 for the second time."""
    site.now_s = 1_729_992_600.0
    site.answers(job(1, site.now_s - 60))
    site.pull(site.now_s - DAY_S)
    assert site.windows() == [("2024-10-26T03:30:00", "2024-10-27T03:30:00")]
    assert site.ids() == ["1"]


def test_it_is_asked_for_epochs_in_the_clusters_zone_whatever_is_set_here(site, monkeypatch):
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SACCT_FEDERATION", "1")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    site.answers(job(1, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S)
    for call in site.calls:
        assert call["env"] == {
            "TZ": "Europe/Zurich",
            "LC_ALL": "C.UTF-8",
            "SLURM_TIME_FORMAT": "%s",
            "SACCT_FEDERATION": None,
        }
        assert {"--duplicates", "--parsable2", "--allocations"} <= set(call["args"])
        assert call["args"][-1].endswith(",JobName")
    assert site.records()[0].name == "job | 1"


def test_without_a_pull_before_it_has_to_be_said_from_when(site):
    site.answers()
    with pytest.raises(SettingError, match="--since"):
        site.pull()


def test_a_program_that_is_not_there_is_named(site):
    site.answers()
    (site.folder / "sacct").unlink()
    with pytest.raises(SettingError, match="sacct cannot be run: No such file"):
        site.pull(MIDNIGHT_S)


def test_one_that_hangs_is_stopped(site):
    (site.folder / "sacct").write_text("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(SettingError, match="it took too long"):
        site.pull(MIDNIGHT_S, limits=Limits(seconds_s=0.05))


def test_a_broken_memory_is_an_error_and_not_a_new_beginning(site):
    site.answers(job(1, MIDNIGHT_S + 60))
    site.pull(MIDNIGHT_S)
    (site.history / "pulls.json").write_text('{"version": 9}')
    with pytest.raises(SettingError, match="version 9"):
        site.pull()


def test_two_pulls_at_once_are_one_too_many(site):
    site.answers()
    with (
        HistoryStore(site.history).importing(),
        pytest.raises(SettingError, match="another import is running"),
    ):
        site.pull(MIDNIGHT_S)
    assert site.calls == []


# No accounting

QUEUE = (
    "JOBID@|@JOBID@|@PARTITION@|@ACCOUNT@|@USER@|@QOS@|@STATE@|@SUBMIT_TIME@|@START_TIME@|@TIME_LIMIT@|@NODES@|@"
    "CPUS@|@TRES_PER_NODE@|@NODELIST@|@REASON@|@NAME\n"
)
WAITS = (
    "8@|@8@|@gpu@|@a@|@ana@|@q@|@PENDING@|@1714514400@|@1714600800@|@2:00:00@|@1@|@4@|@gres/gpu:1@|@@|@"
    "Priority@|@x\n"
)
RUNS = (
    "9@|@9@|@gpu@|@a@|@ana@|@q@|@RUNNING@|@1714514400@|@1714514460@|@2:00:00@|@2@|@4@|@gres/gpu:a100:4@|@n[1-2]@|@"
    "None@|@y\n"
)
JSON_QUEUE = {
    "meta": {"plugin": {"data_parser": "data_parser/v0.0.41"}},
    "jobs": [
        {
            "job_id": 12,
            "array_job_id": {"set": True, "infinite": False, "number": 12},
            "array_task_id": {"set": False, "infinite": False, "number": 0},
            "array_task_string": "1-8",
            "array_max_tasks": {"set": True, "infinite": False, "number": 2},
            "job_state": ["PENDING"],
            "submit_time": {"set": True, "infinite": False, "number": 1714514400},
            "start_time": {"set": True, "infinite": False, "number": 1714600800},
            "time_limit": {"set": True, "infinite": False, "number": 120},
            "partition": "gpu",
            "user_name": "ana",
            "tres_req_str": "cpu=4,mem=16G,node=1,gres/gpu=1",
            "tres_alloc_str": "",
            "name": "sweep",
        },
        {
            "job_id": 13,
            "job_state": "COMPLETED",
            "submit_time": 1714514400,
            "start_time": 1714514460,
            "end_time": 1714514520,
            "time_limit": {"set": False, "infinite": True, "number": 0},
            "nodes": "n1",
            "node_count": 1,
            "tres_alloc_str": "cpu=4,mem=16G,node=1,gres/gpu:a100=2,gres/gpu=2",
            "name": "done",
        },
    ],
    "errors": [],
}


@trap("T40", "said-once")
def test_disabled_accounting_is_said_once_and_the_queue_is_read(site):
    site.answers(disabled=True, queue_text=QUEUE + WAITS + RUNS)
    site.pull(MIDNIGHT_S)
    assert [line for line in site.said if "disabled" in line] == site.said
    assert len(site.said) == 1
    assert "How a job ended is known only" in site.said[0]
    assert len(site.calls) == 1, "it is not asked again and again"
    waits, runs = site.records()
    assert (waits.raw_id, waits.start_s, waits.gpus_asked_milli, waits.limit.limit_s) == (
        "8",
        None,
        1000,
        7200,
    )
    assert (runs.raw_id, runs.start_s, runs.end_s, runs.gpus_asked_milli) == ("9", 1714514460, None, 8000)
    assert runs.cause is EndCause.NOT_ENDED
    for _ in range(2):
        site.pull()
    assert len(site.calls) == 1
    assert len(site.said) == 1
    assert [call[-1] == "--json" for call in site.queue_calls] == [True, False] * 3


@trap("T40", "json")
def test_the_queue_is_read_as_json_where_there_is_any(site):
    site.answers(disabled=True, queue_json=JSON_QUEUE)
    site.pull(MIDNIGHT_S)
    array, done = site.records()
    assert (array.raw_id, array.num_tasks, array.most_at_once, array.start_s) == ("12", 8, 2, None)
    assert array.gpus_asked_milli == 1000
    assert (done.cause, done.end_s, done.gpus_given_milli) == (EndCause.COMPLETED, 1714514520, 2000)
    assert len(site.queue_calls) == 1


@pytest.mark.parametrize(
    "queue",
    [
        pytest.param({"queue_text": QUEUE}, id="T40-empty"),
        pytest.param({"queue_json": {"jobs": []}}, id="T40-empty-json"),
    ],
)
def test_an_empty_queue_is_no_fault(site, queue):
    site.answers(disabled=True, **queue)
    assert site.pull(MIDNIGHT_S) == []


@trap("T40", "retry")
def test_accounting_is_asked_again_when_the_operator_says_so(site):
    site.answers(disabled=True, queue_text=QUEUE + RUNS)
    site.pull(MIDNIGHT_S)
    site.answers(job(9, MIDNIGHT_S + 2 * HOUR_S))
    site.pull(MIDNIGHT_S, retry_accounting=True)
    assert not remembered(site.history, "c").is_disabled
    site.pull()
    assert len(site.queue_calls) == 2, "none after the first pull"


@trap("T40", "command")
def test_the_command_says_what_it_did(site, antecast, monkeypatch):
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(site.history))
    site.answers(disabled=True, queue_text=QUEUE + RUNS)
    programs = ("--sacct", site.folder / "sacct", "--squeue", site.folder / "squeue")
    asked = ("pull", "slurm", "--cluster", "c", "--tz", "Europe/Zurich", *programs)
    first = antecast(*asked, "--since", "2024-05-01", "--once")
    assert (first.code, "accounting storage is disabled" in first.out) == (0, True), first.err
    assert "1 rows read: 1 new" in first.out
    second = antecast(*asked)
    assert (second.code, "disabled" in second.out) == (0, False)
    assert "1 unchanged" in second.out
    assert json.loads((site.history / "pulls.json").read_text())["clusters"]["c"]["is_disabled"]


@pytest.mark.parametrize("wrong", [("--tz", "Mars/Olympus"), ("--since", "soon"), ("--window", "wide")])
def test_the_command_refuses_what_makes_no_sense(antecast, tmp_path, wrong):
    asked = {"--cluster": "c", "--tz": "UTC", "--history": tmp_path / "h"} | dict([wrong])
    done = antecast("pull", "slurm", *(word for pair in asked.items() for word in pair))
    assert done.code == 2
    assert wrong[0] in done.err or wrong[1] in done.err
