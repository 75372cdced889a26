"""The command line where two jobs may share a GPU: what it reads, what it writes, what it refuses."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import BENCH_ROOT

REFEREE = BENCH_ROOT / "referee" / "referee.py"
PAIRS = "model_a,model_b,rate_a,rate_b\nbig,big,0.6,0.6\nbig,small,0.9,0.8\nsmall,small,0.9,0.9\n"
JOBS = """job_id,pool,submit_s,num_gpus,duration_s,model,deadline_s
a,all,0,2,1000,big,2000
b,all,0,1,400,small,900
c,all,10,1,400,small,5000
d,all,20,2,300,small,
"""


@pytest.fixture
def inputs(tmp_path) -> list[object]:
    for name, text in {
        "jobs": JOBS,
        "pools": "pool,quota_gpus\nall,2\n",
        "nodes": "node,num_gpus\nn0,2\n",
        "pairs": PAIRS,
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return [
        word
        for name in ("jobs", "pools", "nodes", "pairs")
        for word in (f"--{name}", str(tmp_path / f"{name}.csv"))
    ]


def stretches(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "schedule.csv").read_text().splitlines()))


PACK = ("--policy", "packing", "--set", "liss=off")


def test_a_replay_with_pairs_says_who_was_where_and_how_fast(antecast, inputs, tmp_path):
    result = antecast("replay", *inputs, *PACK, "--out", tmp_path / "out")
    assert result.code == 0, result.out + result.err
    rows = stretches(tmp_path / "out")
    assert {"gpus", "rate"} <= set(rows[0])
    work: dict[str, float] = {}
    last_end: dict[str, str] = {}
    for row in rows:
        assert last_end.get(row["job_id"], row["start_s"]) == row["start_s"], "a new rate, and no pause"
        last_end[row["job_id"]] = row["end_s"]
        spent_s = float(row["end_s"]) - float(row["start_s"])
        work[row["job_id"]] = work.get(row["job_id"], 0.0) + float(row["rate"]) * spent_s
        assert set(row["gpus"].split(";")) <= {"n0/0", "n0/1"}
    assert work == pytest.approx({"a": 1000.0, "b": 400.0, "c": 400.0, "d": 300.0})
    assert any(float(row["rate"]) < 1.0 for row in rows)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["settings"]["liss"] is False
    assert report["packing"]["jobs_packed"] >= 2
    assert report["deadlines"]["jobs"] == 3
    assert report["use"]["utilisation_pct"] <= 100.0
    assert "pairs_sha256" in report["inputs"]
    assert "deadlines met: " in result.out
    assert "shared GPUs: " in result.out


def test_the_same_replay_gives_the_same_bytes_and_other_pairs_another_hash(antecast, inputs, tmp_path):
    for name in ("one", "two"):
        antecast("replay", *inputs, *PACK, "--out", tmp_path / name)
    (tmp_path / "pairs.csv").write_text(PAIRS.replace("0.8", "0.7"))
    antecast("replay", *inputs, *PACK, "--out", tmp_path / "three")
    files = [
        [(tmp_path / name / file).read_bytes() for file in ("schedule.csv", "report.json")]
        for name in ("one", "two")
    ]
    assert files[0] == files[1]
    hashes = [
        json.loads((tmp_path / name / "report.json").read_text())["inputs"] for name in ("one", "three")
    ]
    assert hashes[0]["jobs_sha256"] == hashes[1]["jobs_sha256"]
    assert hashes[0]["pairs_sha256"] != hashes[1]["pairs_sha256"]


def test_compare_puts_policies_that_share_beside_others(antecast, inputs, tmp_path):
    result = antecast(
        "compare",
        *inputs,
        "--policies",
        "fcfs,packing:liss=off",
        "--out",
        tmp_path / "out",
    )
    assert result.code == 0, result.out + result.err
    assert "GPUs that two jobs share" in result.out
    rows = {
        row["policy"]: row
        for row in csv.DictReader((tmp_path / "out" / "compare.csv").read_text().splitlines())
    }
    assert rows["fcfs"]["jobs_packed"] == ""
    assert int(rows["packing:liss=off"]["jobs_packed"]) >= 2
    assert rows["fcfs"]["deadlines_jobs"] == rows["packing:liss=off"]["deadlines_jobs"] == "3"
    assert {row["gpus"] for row in stretches(tmp_path / "out" / "fcfs") if row["job_id"] == "a"} == {
        "n0/0;n0/1"
    }


def test_episodes_are_told_of_jobs_that_shared(antecast, inputs, tmp_path):
    antecast("replay", *inputs, *PACK, "--out", tmp_path / "out")
    result = antecast("episodes", tmp_path / "out", *inputs[:4], "--json")
    assert result.code == 0, result.err
    slowed = json.loads((tmp_path / "out" / "report.json").read_text())["against_fcfs"]["slowed_jobs"]
    assert bool(json.loads(result.out)) == bool(slowed)


@pytest.mark.parametrize("command", ["replay", "compare"])
@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        (("pairs",), "policy packing lets jobs share GPUs: give it measured pairs (--pairs)"),
        (
            ("pairs", "nodes"),
            "policy packing lets jobs share GPUs: give it nodes (--nodes) and pairs (--pairs)",
        ),
        (("nodes",), "--pairs is for replays that know who is on which GPU: give it --nodes as well"),
    ],
)
def test_what_packing_needs_is_asked_for(antecast, inputs, tmp_path, command, left_out, said):
    given = [
        word
        for option, path in zip(inputs[::2], inputs[1::2], strict=True)
        if str(option).removeprefix("--") not in left_out
        for word in (option, path)
    ]
    asked = ["--policy", "packing"] if command == "replay" else ["--policies", "packing"]
    result = antecast(command, *given, *asked, "--out", tmp_path / "out")
    assert result.code == 2
    assert said in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("pairs", PAIRS + "big,small,2,1\n", "pairs.csv:5: out-of-range: rate_a is 2"),
        ("pairs", "model_a,model_b,rate_a\nx,y,1\n", "pairs.csv:1: missing-column"),
        ("jobs", JOBS.replace(",model,", ",kind,"), "job a has no model: jobs need a column model"),
        ("jobs", JOBS.replace("big", "huge"), "job a has model 'huge', of which no pair was measured"),
    ],
)
def test_bad_pairs_and_unknown_models_are_bad_input(antecast, inputs, tmp_path, file, text, said):
    (tmp_path / f"{file}.csv").write_text(text)
    result = antecast("replay", *inputs, *PACK, "--out", tmp_path / "out")
    assert result.code == 2
    assert said in result.err


def test_a_switch_that_is_neither_on_nor_off_is_refused(antecast, inputs, tmp_path):
    result = antecast(
        "replay", *inputs, "--policy", "packing", "--set", "liss=perhaps", "--out", tmp_path / "out"
    )
    assert result.code == 2
    assert "policy packing: 'perhaps' is neither on nor off" in result.err
    assert "--set liss=on" in antecast("policies").out


@pytest.mark.bench_data
@pytest.mark.skipif(not REFEREE.is_file(), reason=f"no referee at {REFEREE} (ANTECAST_BENCH_ROOT)")
@pytest.mark.parametrize("liss", ["off", "on"])
def test_the_referee_finds_no_fault_and_the_same_figures(antecast, inputs, tmp_path, liss):
    asked = ["--policy", "packing", "--set", f"liss={liss}"]
    antecast("replay", *inputs, *asked, "--out", tmp_path / "out")
    command = [
        sys.executable,
        str(REFEREE),
        *map(str, inputs),
        "--schedule",
        str(tmp_path / "out" / "schedule.csv"),
    ]
    command += ["--no-preemption", *(["--redistribute"] if liss == "on" else [])]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    told, report = json.loads(run.stdout), json.loads((tmp_path / "out" / "report.json").read_text())
    assert told["faults"] == []
    assert told["deadlines_met"] == report["deadlines"]["met"]
    assert told["mean_jct_s"] == pytest.approx(report["mean_jct_s"], abs=1e-3)
    assert told["queue_mean_s"] == pytest.approx(report["mean_queue_delay_s"], abs=1e-3)
    assert told["makespan_s"] == pytest.approx(report["makespan_s"], abs=1e-3)
