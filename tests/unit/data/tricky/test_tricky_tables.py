"""Traps of tables and published traces, by their ids; the inputs are ours, in the published shapes."""

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables_support import Imported, imported

from domain.attempts import EndCause, Observation

HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,"
    "duration,queue,gpu_time\n"
)
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
    "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
)
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
TASKS = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"


def philly_job(job_id: str, attempts: list, status: str = "Pass") -> dict:
    return {
        "status": status, "vc": "ee9e8c", "jobid": job_id, "attempts": attempts,
        "submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c",
    }  # fmt: skip


def attempt(start: str | None, end: str | None, gpus: int = 2) -> dict:
    detail = [{"ip": "m47", "gpus": [f"gpu{k}" for k in range(gpus)]}]
    return {"start_time": start, "end_time": end, "detail": detail}


def epoch_s(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def ids_are_text(folder: Path) -> None:
    philly = json.dumps([philly_job("application_1506638472019_14199", [])])
    kalos = KALOS + (
        "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
        "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,,,8,10.0,512.0\n"
    )
    helios = HELIOS + (
        "1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,"
        "2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
    )
    found = [imported(folder, text, name=f"f{k}") for k, text in enumerate((philly, kalos, helios))]
    assert [one.report.format for one in found] == ["philly", "acme", "helios"]
    ids = {record.raw_id for record in found[-1].records}
    assert ids == {"application_1506638472019_14199", "dlctk696s0jbvitv", "1425511"}


def measurements_are_no_history(folder: Path) -> None:
    """A GPU that is offline (NA) is not one that idles: the whole table is refused for what it is."""
    header = "time,machineId," + ",".join(f"gpu{k}_util" for k in range(8)) + "\n"
    row = "2017-10-03 00:08:00 PDT,m29,60.8,99.3,NA,NA,NA,NA,NA,NA,\n"
    found = imported(folder, header + row)
    assert found.report.fault["rule"] == "nothing-to-learn"
    assert "measurements" in found.report.fault["message"]


def inclusive_ends(folder: Path) -> None:
    said = "end_inclusive = true\n[columns]\nraw_id = 'id'\nsubmit = 's'\nstart = 'b'\nend = 'e'\nrun = 'd'\n"
    found = imported(folder, "id,s,b,e,d\n1,90,100,109,10\n", mapping=said)
    assert found.only.occupancy_s == 10.0
    assert not found.report.rules


def a_duration_that_counts_the_wait(folder: Path) -> None:
    rows = (
        "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,"
        "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
        "dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,"
        "2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0\n"
    )
    found = imported(folder, KALOS + rows)
    assert [one.occupancy_s for one in found.records] == [8.0, 70.0]
    assert [one.gpus_given_milli for one in found.records] == [64_000, 64_000]
    assert dict(found.report.rules) == {"duration-mismatch": 2}
    assert found.report.facts["duration_mismatch"] == {"end_minus_submit": 2}
    honest = SEREN + (
        "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
        "2023-03-01 00:20:51+08:00,117,32,936.0\n"
    )
    seren = imported(folder, honest, name="seren")
    assert not seren.report.rules
    assert seren.records[0].submit_s == epoch_s("2023-02-28 16:18:22")


def fake_dates_with_true_hours(folder: Path) -> None:
    found = imported(
        folder, TASKS + "4f05,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.3,50.0,MISC\n"
    )
    assert found.report.clock == "relative"
    assert found.report.facts["relative_clock"] is True
    assert found.report.facts["hour_and_weekday_true_in"] == "Asia/Shanghai"


def edges_of_the_window(folder: Path) -> None:
    rows = (
        "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
        "openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061\n"
        "openb-pod-0002,6000,12288,1,460,T4|P100,LS,Running,427061,12902959,427061\n"
        "openb-pod-0003,6000,12288,1,1000,T4,BE,Pending,427061,427070,\n"
        "openb-pod-0004,6000,12288,1,1000,T4,BE,Succeeded,12902900,12902960,12902901\n"
    )
    first, cut, gone, waited, done = imported(folder, PODS + rows).records
    assert first.observation is Observation.LEFT_TRUNCATED
    assert (cut.cause, cut.end_s, cut.observation) == (EndCause.NOT_ENDED, None, Observation.RIGHT_CENSORED)
    assert (gone.cause, gone.gpu_type) == (EndCause.CANCELLED, None)
    assert (waited.observation, waited.gpu_type) == (Observation.NEVER_RAN, "T4")
    assert done.observation is Observation.FULL
    found = imported(folder, PODS + rows)
    assert dict(found.report.rules) == {"before-record": 1, "at-window-edge": 1}
    assert found.report.facts["window_edge_s"] == 12902960.0


def attempts_with_holes(folder: Path) -> None:
    jobs = [
        philly_job("none", [], "Killed"),
        philly_job(
            "hole",
            [
                attempt("2017-10-07 01:12:09", None),
                attempt("2017-10-07 01:13:30", "2017-10-07 02:13:30", 8),
            ],
        ),
        philly_job(
            "runs",
            [attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23"), attempt("2017-10-07 01:20:00", None)],
        ),
        philly_job("nostart", [attempt(None, "2017-10-07 01:13:23")]),
    ]
    found = imported(folder, json.dumps(jobs))
    by_id = {
        name: [one for one in found.records if one.raw_id == name]
        for name in ("none", "hole", "runs", "nostart")
    }
    (never,) = by_id["none"]
    assert (never.observation, never.cause) == (Observation.NEVER_RAN, EndCause.CANCELLED)
    assert never.submit_s == epoch_s("2017-10-07 01:11:39", "America/Los_Angeles")
    (kept,) = by_id["hole"]
    assert (kept.attempt, kept.occupancy_s, kept.cause) == (1, 3600.0, EndCause.COMPLETED)
    assert (kept.gpus_given_milli, kept.nodes, kept.num_nodes) == (8000, "m47", 1)
    first, last = by_id["runs"]
    assert (first.cause, first.observation) == (EndCause.REQUEUED, Observation.RIGHT_CENSORED)
    assert (last.cause, last.end_s) == (EndCause.NOT_ENDED, None)
    assert by_id["nostart"][0].observation is Observation.NEVER_RAN
    assert dict(found.report.rules) == {"attempt-dropped": 2}
    assert found.report.facts["running_at_snapshot"] == 1
    assert found.report.facts["zone_assumed"] == "America/Los_Angeles"


def a_night_with_two_one_o_clocks(folder: Path) -> None:
    """Pacific clocks had 01:30 twice on 2017-11-05: attempts follow each other, abbreviations say which."""
    night = [
        attempt("2017-11-05 00:30:00", "2017-11-05 01:50:00"),
        attempt("2017-11-05 01:10:00", "2017-11-05 03:00:00"),
    ]
    said = [attempt("2017-11-05 01:10:00 PDT", "2017-11-05 01:10:00 PST")]
    jobs = [philly_job("naive", night), philly_job("said", said)]
    first, second, one = imported(folder, json.dumps(jobs)).records
    assert (first.occupancy_s, second.occupancy_s) == (80 * 60.0, 110 * 60.0)
    assert second.start_s == epoch_s("2017-11-05 09:10:00")
    assert one.occupancy_s == 3600.0


def stamps_of_parquet(folder: Path) -> None:
    """Whatever unit a library wrote them in, and with a zone or without: the same instants."""
    noon = datetime(2020, 5, 28, 12, tzinfo=UTC)
    for place, (unit, tz) in enumerate(
        (u, z) for u in ("s", "ms", "us", "ns") for z in (None, "Asia/Shanghai")
    ):
        values = pa.array([noon.replace(tzinfo=None) if tz is None else noon], pa.timestamp(unit, tz))
        plain = [pa.array([k]) for k in (7, 1, 1, 1, 60)]
        names = ["submit_time", "user", "gpu_num", "cpu_num", "node_num", "duration_s", "state"]
        out = io.BytesIO()
        pq.write_table(pa.table([values, *plain, pa.array(["Pass"])], names=names), out)
        target = folder / str(place)
        target.mkdir()
        found = imported(target, out.getvalue(), tz="UTC")
        assert found.report.format == "helios"
        assert (found.only.submit_s, found.only.end_s) == (noon.timestamp(), noon.timestamp() + 60)


def states_that_are_told_late(folder: Path) -> None:
    """Coverage by day shows where labels begin, and the jump is warned of."""
    said = (
        "[columns]\nraw_id = 'id'\nsubmit = 't'\nstart = 't'\nend = 'e'\nstate = 's'\n"
        "[states]\nSucceeded = 'completed'\nUnknown = 'unknown'\n"
    )
    lines = ["id,t,e,s"]
    for day in range(110):
        state = "Unknown" if day < 100 else "Succeeded"
        lines += [f"{day}-{k},{day * 86400 + k},{day * 86400 + k + 9},{state}" for k in range(25)]
    found = imported(folder, "\n".join(lines) + "\n", mapping=said)
    assert [found.report.days[day].ended for day in (99, 100)] == [0, 25]
    (jump,) = [one for one in found.report.warnings if one.warning == "share-jumps-ended"]
    assert "0% to 100% on 1970-04-11" in jump.message


def words_of_each_format(folder: Path) -> None:
    rows = (
        "a,worker,1.0,Terminated,100.0,200.0,600.0,29.3,50.0,T4\n"
        "b,worker,1.0,Failed,100.0,200.0,600.0,29.3,50.0,T4\n"
        "c,worker,1.0,Running,100.0,,600.0,29.3,50.0,T4\n"
        "d,worker,1.0,Succeeded,100.0,200.0,600.0,29.3,50.0,T4\n"
    )
    found = imported(folder, rows, name="without-a-header.csv", file_format="alibaba-2020")
    assert found.report.format == "alibaba-2020"
    assert [one.cause for one in found.records] == [EndCause.COMPLETED, EndCause.FAILED, EndCause.NOT_ENDED]
    (note,) = found.report.notes
    assert (note.line, note.rule) == (4, "unknown-word")
    assert "'Succeeded'" in note.message
    assert "alibaba-2020" in note.message
    jobs = [philly_job("a", [], "Pass"), philly_job("b", [], "Killed"), philly_job("c", [], "COMPLETED")]
    philly = imported(folder, json.dumps(jobs), name="philly")
    assert dict(philly.report.rules) == {"unknown-word": 1}
    assert "Philly" in philly.report.notes[0].message


def shares_in_each_formats_unit(folder: Path) -> None:
    task = TASKS + "j,ps,2.0,Terminated,100.0,200.0,600.0,10.0,50.0,MISC\n"
    two_halves = imported(folder, task, name="tasks").records[-1]
    assert (two_halves.gpus_asked_milli, two_halves.cpus, two_halves.memory_mib) == (1000, 12.0, 20480.0)
    assert (two_halves.raw_id, two_halves.het_id) == ("j/ps", "j")
    rows = (
        "eight,1,1,8,1000,,LS,Succeeded,10,20,11\n"
        "share,1,1,1,460,,LS,Succeeded,10,20,11\n"
        "none,1,1,0,0,,LS,Succeeded,10,20,11\n"
        "both,1,1,2,460,,LS,Succeeded,10,20,11\n"
    )
    pods = imported(folder, PODS + rows, name="pods")
    asked = {one.raw_id: one.gpus_asked_milli for one in pods.records if one.het_id is None}
    assert asked == {"eight": 8000, "share": 460, "none": 0}
    assert dict(pods.report.rules) == {"share-of-many": 1}


def pods_without_times(folder: Path) -> None:
    found = imported(folder, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nopenb-pod-0000,1,1,1,1000\n")
    assert found.report.fault["rule"] == "nothing-to-learn"
    assert "without times" in found.report.fault["message"]


def mean_hours(folder: Path) -> None:
    """The same digits are a sixtyfold different length by their unit: each column says its own."""
    said = (
        "[columns]\nraw_id = 'id'\nsubmit = 't'\nstart = 't'\nrun = { column = 'r', unit = 'slurm' }\n"
        "limit = { column = 'l', unit = 'slurm' }\n"
    )
    record = imported(folder, "id,t,r,l\n1,100,4:00,4:00\n", mapping=said).only
    assert record.occupancy_s == 240.0
    assert record.limit.limit_s == 240.0
    more = imported(folder, "id,t,r,l\n2,100,2-03:04:05,30\n", mapping=said, name="more").records[-1]
    assert more.occupancy_s == timedelta(days=2, hours=3, minutes=4, seconds=5).total_seconds()
    assert more.limit.limit_s == 1800.0


CASES: dict[str, Callable[[Path], Imported | None]] = {
    "T11": ids_are_text,
    "T17": measurements_are_no_history,
    "T20": mean_hours,
    "T28": inclusive_ends,
    "T29": a_duration_that_counts_the_wait,
    "T31": fake_dates_with_true_hours,
    "T33": edges_of_the_window,
    "T33-untimed": pods_without_times,
    "T34": attempts_with_holes,
    "T34-fold": a_night_with_two_one_o_clocks,
    "T36": stamps_of_parquet,
    "T43": states_that_are_told_late,
    "T44": words_of_each_format,
    "T52": shares_in_each_formats_unit,
}


@pytest.mark.parametrize("case", CASES)
def test_trap(case, tmp_path):
    CASES[case](tmp_path)
