"""Every public trace at hand: imported by the command with counts that add up, its known traps named."""

import gzip
import json
from dataclasses import dataclass, field
from itertools import islice

import pytest
from support import BENCH_ROOT, needs_bench_data

TRACES = BENCH_ROOT / "traces"
pytestmark = needs_bench_data


@dataclass(frozen=True)
class Trace:
    """A trace's files, how they are read, what is known to be wrong; `lines` of a text, if not all."""

    files: tuple[str, ...]
    traps: frozenset[str]
    options: tuple[str, ...] = ()
    numbers: dict = field(default_factory=dict)
    lines: int | None = None

    def __str__(self):
        return self.files[0].split("/")[-1].split(".")[0]


PODS = frozenset({"truncated-at-the-start", "censored-at-the-edge", "relative-clock", "pods-not-jobs"})
HISTORIES = (
    Trace(
        ("google2011_jobs_d00_19.parquet",),
        frozenset({"no-widths", "truncated-at-the-start", "censored-at-the-edge", "relative-clock"}),
        numbers={"truncated-at-the-start": {"jobs": 3986}, "censored-at-the-edge": {"jobs": 3064}},
    ),
    Trace(
        ("philly_attempts_to_1115.parquet",),
        frozenset(
            {
                "one-row-per-attempt",
                "waits-not-trustworthy",
                "pool-of-passed-jobs-only",
                "known-for-a-part-only",
            }
        ),
    ),
    Trace(("philly_users_15k.parquet",), frozenset({"gaps-in-place-of-times", "no-waits"})),
    Trace(("philly_multi_gpu_attempts.json",), frozenset({"zone-assumed"})),
    Trace(
        ("venus_users_20200528_0611.parquet",),
        frozenset({"no-pools", "no-waits", "jobs-without-gpus"}),
        numbers={"jobs-without-gpus": {"jobs": 2846}},
    ),
    Trace(
        ("drac_graham_jobs.parquet",),
        frozenset({"only-jobs-pending-at-one-time", "jobs-without-gpus"}),
        numbers={"only-jobs-pending-at-one-time": {"at_s": 16 * 3600.0}},
    ),
    Trace(("RICC-2010-2.swf.gz",), frozenset({"processors-not-gpus"}), lines=20_000),
    Trace(("RICC-2010-2.swf.gz",), frozenset({"processors-not-gpus"}), ("--procs-as-gpus",), lines=20_000),
    Trace(("thetagpu_jobs.parquet",), frozenset({"user-mostly-unknown"})),
    Trace(("theta_jobs.parquet",), frozenset({"hardly-any-gpus"})),
    Trace(("eagle_sample_1000.csv",), frozenset({"short-record"}), ("--tz", "America/Denver")),
    Trace(("openb/openb_pod_list_default.csv",), PODS | {"shares-of-gpus"}),
    Trace(("openb/openb_pod_list_default.parquet",), PODS),
)
INVENTORIES = (
    Trace(("philly_machine_list.csv", "philly_vc_nodes.csv"), frozenset({"fields-with-spaces"})),
    Trace(("earth_vc_gpus_daily.csv",), frozenset({"pools-come-and-go"}), ("--tz", "Asia/Shanghai")),
    Trace(("openb/openb_node_list_gpu_node.csv",), frozenset()),
    Trace(("openb/openb_node_list_gpu_node.parquet",), frozenset()),
    Trace(("openb/openb_node_list_all_node.parquet",), frozenset()),
)


def cut(path, lines, folder):
    """The first lines of a packed text, as a file; the file itself if all of it is wanted."""
    if lines is None:
        return path
    begin = folder / path.stem
    with gzip.open(path) as file:
        begin.write_bytes(b"".join(islice(file, lines)))
    return begin


@pytest.mark.parametrize("trace", [*HISTORIES, *INVENTORIES], ids=str)
def test_a_trace_comes_in_and_its_traps_are_named(antecast, tmp_path, monkeypatch, trace):
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    files = [cut(TRACES / name, trace.lines, tmp_path) for name in trace.files]
    done = antecast("import", *files, "--cluster", "c", *trace.options, "--report", tmp_path / "r.json")
    assert done.code == 0, done.out + done.err
    for found in json.loads((tmp_path / "r.json").read_text())["files"]:
        assert found["read"] == found["accepted"] + found["repaired"] + found["rejected"] > 0
        assert found["fault"] is None
        assert sum(found["rules"].values()) == len(found["notes"]) + found["notes_not_listed"]
    described = antecast("history", "describe", "--json", tmp_path / "d.json")
    assert described.code == 0, described.err
    told = {
        one["finding"]: one["numbers"] for one in json.loads((tmp_path / "d.json").read_text())["findings"]
    }
    assert trace.traps <= set(told)
    for finding, numbers in trace.numbers.items():
        assert {name: told[finding][name] for name in numbers} == numbers
    for finding in trace.traps:
        assert f"  {finding}: " in described.out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("earth_may2020_vc_minute_d01_24.parquet", "nothing-to-learn"),
        ("openb/fgd_expected_allocation.csv.gz", "not imported"),
        ("README.md", "unknown-format"),
    ],
)
def test_what_is_no_history_is_refused_with_a_reason(antecast, tmp_path, monkeypatch, name, words):
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    done = antecast("import", TRACES / name, "--report", tmp_path / "r.json")
    assert done.code == 2
    assert words in done.out
    assert json.loads((tmp_path / "r.json").read_text())["files"][0]["fault"]["rule"]


def test_seven_users_in_eight_of_thetagpu_are_unknown(antecast, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    assert antecast("import", TRACES / "thetagpu_jobs.parquet").code == 0
    assert (
        "85% of the jobs have no user (the source writes 0 for an unknown user)"
        in antecast("history", "describe").out
    )
