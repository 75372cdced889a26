"""Real traces: every history is recognised and its counts add up; what is none is refused for what it is.

The four largest are cut to their first rows.
"""

import gzip
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import BENCH_ROOT, needs_bench_data
from tables_support import imported_file

from data.intake.driver import recognise
from data.intake.format import Reading, ReadOptions
from data.intake.report import FileReport
from data.records import AttemptRecord
from domain.attempts import Observation

pytestmark = needs_bench_data

TRACES = BENCH_ROOT / "traces"
CUT_ROWS = 20_000


class Expected(NamedTuple):
    """What a trace is read as."""

    format: str
    read: int
    records: int
    clock: str
    facts: dict[str, Any]
    rules: dict[str, int]
    censored: int


HISTORIES = {
    "drac_graham_jobs.parquet": Expected(
        "drac", CUT_ROWS, CUT_ROWS, "utc",
        {"pending_at_noon_only": True, "zone_assumed": "America/Toronto"}, {}, 0,
    ),
    "eagle_sample_1000.csv": Expected(
        "eagle", 1000, 1000, "utc", {"zone_assumed": "America/Denver"}, {"id-from-row": 451}, 15
    ),
    "google2011_jobs_d00_19.parquet": Expected(
        "google-2011", CUT_ROWS, CUT_ROWS, "relative", {"relative_clock": True, "no_widths": True},
        {"before-record": 3986}, 0,
    ),
    "openb/openb_pod_list_default.csv": Expected(
        "alibaba-2023", 8152, 8152, "relative", {"relative_clock": True, "window_edge_s": 12902960.0},
        {"at-window-edge": 34, "before-record": 1}, 0,
    ),
    "openb/openb_pod_list_default.parquet": Expected(
        "alibaba-2023", 8152, 8152, "relative", {"relative_clock": True, "window_edge_s": 12902960.0},
        {"at-window-edge": 34, "before-record": 1}, 0,
    ),
    "openb/openb_pod_list_cpu050.parquet": Expected(
        "alibaba-2023", 7439, 7439, "relative", {}, {"at-window-edge": 32, "before-record": 1}, 0
    ),
    "openb/openb_pod_list_gpushare40.parquet": Expected(
        "alibaba-2023", 8152, 8152, "relative", {}, {"at-window-edge": 33, "before-record": 1}, 0
    ),
    "openb/openb_pod_list_gpuspec10.parquet": Expected(
        "alibaba-2023", 8152, 8152, "relative", {}, {"at-window-edge": 34, "before-record": 1}, 0
    ),
    "philly_attempts_to_1115.parquet": Expected(
        "parquet", CUT_ROWS, CUT_ROWS, "utc",
        {"one_row_per_attempt": True, "waits_not_trustworthy": True, "no_ids": True},
        {"id-from-row": CUT_ROWS}, 0,
    ),
    "philly_multi_gpu_attempts.json": Expected(
        "philly", 2165, 3332, "utc", {"zone_assumed": "America/Los_Angeles"}, {"duration-mismatch": 62}, 3332
    ),
    "philly_users_15k.parquet": Expected(
        "lumos", 15_000, 15_000, "relative", {"gaps_not_times": True, "no_waits": True}, {}, 1953
    ),
    "RICC-2010-2.swf.gz": Expected("swf", CUT_ROWS, CUT_ROWS, "utc", {"processors_not_gpus": True}, {}, 0),
    "theta_jobs.parquet": Expected("lumos", 23_387, 23_387, "utc", {"user_0_is_unknown": True}, {}, 6588),
    "thetagpu_jobs.parquet": Expected("lumos", 22_606, 22_606, "utc", {"user_0_is_unknown": True}, {}, 4551),
    "venus_users_20200528_0611.parquet": Expected(
        "helios", 11_477, 11_477, "utc", {"no_ids": True, "no_waits": True}, {"id-from-row": 11_477}, 2830
    ),
}  # fmt: skip

REFUSED = {
    "earth_may2020_vc_minute_d01_24.parquet": (
        "nothing-to-learn",
        "demand of virtual clusters by the minute",
    ),
    "interference/miso_mig_iteration_times.csv": ("nothing-to-learn", "speeds of models on MIG slices"),
    "interference/miso_mps_to_mig_0_10999.npz": ("not-text", "NumPy arrays"),
    "openb/fgd_expected_allocation.csv.gz": ("nothing-to-learn", "results of a scheduling simulator"),
    "openb/fgd_expected_fragmentation.csv.gz": ("nothing-to-learn", "results of a scheduling simulator"),
    "openb/openb_pod_list_multigpu20.parquet": ("nothing-to-learn", "pods without times"),
    "README.md": ("unknown-format", "no format is recognised"),
}


def cut(path: Path, folder: Path) -> Path:
    """The first rows of a file that has many."""
    target = folder / path.name
    if path.suffix == ".parquet" and pq.read_metadata(path).num_rows > 2 * CUT_ROWS:
        (batch,) = islice(pq.ParquetFile(path).iter_batches(CUT_ROWS), 1)
        pq.write_table(pa.Table.from_batches([batch]), target)
        return target
    if path.name.endswith(".swf.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as whole:
            lines = list(islice(whole, 2 * CUT_ROWS))
        comments = sum(line.startswith(";") for line in lines)
        with gzip.open(target, "wt", encoding="utf-8") as part:
            part.writelines(lines[: comments + CUT_ROWS])
        return target
    return path


def read(name: str, folder: Path) -> tuple[FileReport, Reading, list[AttemptRecord]]:
    """What an import makes of a trace, without keeping it."""
    path = cut(TRACES / name, folder)
    chosen, _ = recognise(path)
    report, reading, records = FileReport(name, chosen.name), Reading(path, ReadOptions("c")), []
    for row in chosen.rows(reading):
        report.take(row)
        records += row.records
    return report, reading, records


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_is_read_whole(name, tmp_path):
    expected = HISTORIES[name]
    report, reading, records = read(name, tmp_path)
    assert (report.format, reading.clock) == (expected.format, expected.clock)
    assert (report.read, report.records) == (expected.read, expected.records)
    assert report.read == report.accepted + report.repaired
    assert expected.facts.items() <= reading.facts.items()
    assert len({record.key for record in records}) == len(records)
    assert expected.rules.items() <= dict(report.rules).items()
    observed = [record.observation for record in records]
    if expected.censored:
        assert observed.count(Observation.RIGHT_CENSORED) == expected.censored
    assert report.rules.get("before-record", 0) == observed.count(Observation.LEFT_TRUNCATED)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_history_is_refused_for_what_it_is(name, tmp_path):
    rule, named = REFUSED[name]
    fault = imported_file(TRACES / name, tmp_path).report.fault
    assert fault["rule"] == rule
    assert named in fault["message"]


def test_the_same_pods_as_csv_and_as_parquet_are_the_same_records(tmp_path):
    kept = imported_file(TRACES / "openb" / "openb_pod_list_default.csv", tmp_path)
    again = imported_file(TRACES / "openb" / "openb_pod_list_default.parquet", tmp_path)
    assert (kept.report.new, again.report.new, again.report.unchanged) == (8152, 0, 8152)
    assert kept.records == again.records


def test_what_the_traces_say_of_themselves(tmp_path):
    venus = read("venus_users_20200528_0611.parquet", tmp_path)[2]
    assert len({one.user for one in venus}) == 98
    assert round(sum(one.gpus_asked_milli == 0 for one in venus) / len(venus), 2) == 0.25
    thetagpu = read("thetagpu_jobs.parquet", tmp_path)[2]
    assert round(sum(one.user is None for one in thetagpu) / len(thetagpu), 2) == 0.85
