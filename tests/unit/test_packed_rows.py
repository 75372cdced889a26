"""Tables of packing: which rows there are, what a referee is told, and what the tables say."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import packed_lending, packed_runs, packing_table
from benchmarks.packed_runs import COLUMNS, Bench, PackedRow
from benchmarks.rows import Figures

FILES = {
    "jobs": "job_id,pool,submit_s,num_gpus,duration_s,model,deadline_s\n"
    "a,all,0,2,900,x,2000\nb,all,5,1,500,y,1500\nc,all,6,1,500,y,\n",
    "pools": "pool,quota_gpus\nall,2\n",
    "nodes": "node,num_gpus\nn0,2\n",
    "pairs": "model_a,model_b,rate_a,rate_b\nx,y,0.9,0.8\n",
    "history": "job_id,pool,submit_s,num_gpus,duration_s\nh,all,-900,1,60\n",
}


@pytest.fixture
def bench(tmp_path) -> Bench:
    for name, text in FILES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return Bench("tiny", **{name: tmp_path / f"{name}.csv" for name in FILES})


def judge(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "judge.py"
    path.write_text(text)
    return path


SAYS_WHAT_WE_SAY = """
import csv, json, sys
told = dict(zip(sys.argv[1::2], sys.argv[2::2]))
ends = {}
for row in csv.DictReader(open(told["--schedule"])):
    ends[row["job_id"]] = max(float(row["end_s"]), ends.get(row["job_id"], 0.0))
assert {"--jobs", "--pools", "--nodes", "--pairs", "--sim-from", "--eval-from"} <= set(told), told
print(json.dumps({"faults": [], "makespan_s": max(ends.values()) + OFF}))
"""


def test_a_row_is_run_measured_and_judged(bench, tmp_path):
    row = PackedRow(bench, "fcfs", "", "fcfs", seed=2)
    referee = judge(tmp_path, SAYS_WHAT_WE_SAY.replace("OFF", "0"))
    found = packed_runs.run_row(row, out=tmp_path / "out", referee=referee)
    assert tuple(found) == COLUMNS
    assert (found["referee_exit"], found["referee"], found["referee_flags"]) == ("0", "valid", "")
    assert (found["makespan_s"], found["deadlines"], found["deadlines_met"]) == ("1400", "2", "2")
    assert found["packed_pct"] == "", "who may not share has no share"
    assert found["command"] == (
        "antecast replay --jobs jobs.csv --pools pools.csv --nodes nodes.csv --pairs pairs.csv "
        "--history history.csv --policy fcfs --seed 2 --no-check-plans"
    )
    assert (tmp_path / "out" / "tiny" / "fcfs" / "schedule.csv").is_file()


def test_a_figure_in_which_the_referee_disagrees_is_a_fault(bench, tmp_path):
    row = PackedRow(bench, "fcfs", "", "fcfs")
    referee = judge(tmp_path, SAYS_WHAT_WE_SAY.replace("OFF", "7"))
    found = packed_runs.run_row(row, out=tmp_path / "out", referee=referee)
    assert found["referee"] == "makespan_s is 1400 by our report and 1407 by the referee"
    assert packed_runs.exit_code([row], [found]) == 1
    broken = judge(tmp_path, 'import sys\nprint(\'{"faults": ["three jobs"]}\')\nsys.exit(1)\n')
    found = packed_runs.run_row(row, out=tmp_path / "out", referee=broken)
    assert (found["referee_exit"], found["referee"]) == ("1", "three jobs")


@pytest.mark.parametrize(
    ("policy", "in_force", "flags"),
    [
        ("fcfs", {}, []),
        ("packing", {"liss": False, "lgrr": False}, []),
        ("packing", {"liss": True, "lgrr": False}, ["--redistribute"]),
        ("packing", {"liss": True, "lgrr": True}, ["--redistribute", "--share-gain", "0.15"]),
        ("reclaim", {"requeueable": 0.3}, ["--requeueable", "0.3"]),
    ],
)
def test_the_referee_is_told_what_was_in_force(bench, policy, in_force, flags):
    assert packed_runs.flags_of(PackedRow(bench, "s", "l", policy), in_force) == flags


def test_files_settings_and_seed_make_the_hash_and_names_do_not(bench, tmp_path):
    row = PackedRow(bench, "s", "l", "packing", {"liss": "on"})
    known = packed_runs.inputs_hash(row)
    assert packed_runs.inputs_hash(replace(row, series="t", label="m")) == known
    others = [
        replace(row, seed=1),
        replace(row, settings={"liss": "off"}),
        replace(row, policy="fcfs", settings={}),
    ]
    for name, text in FILES.items():
        other = tmp_path / f"other_{name}.csv"
        other.write_text(text + "\n")
        others.append(replace(row, bench=replace(bench, **{name: other})))
    others.append(replace(row, bench=replace(bench, history=None)))
    assert len({known, *map(packed_runs.inputs_hash, others)}) == len(others) + 1


def options(tmp_path: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    packed_runs.add_options(parser)
    return parser.parse_args(["--csv", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out"), *more])


def test_rows_that_hold_are_not_run_again(bench, tmp_path, capsys, monkeypatch):
    ran: list[str] = []

    def in_processes(run, rows, _workers):
        for row in rows:
            ran.append(row.series)
            yield row, run(row)

    monkeypatch.setattr(packed_runs, "in_processes", in_processes)
    rows = [PackedRow(bench, name, "", name) for name in ("fcfs", "sjf")]
    chosen = options(tmp_path)
    first = packed_runs.figures_of_rows(rows, chosen)
    assert packed_runs.figures_of_rows(rows, options(tmp_path, "--no-run")) == first
    assert packed_runs.figures_of_rows(rows, chosen) == first
    assert ran == ["fcfs", "sjf"]
    (tmp_path / "pairs.csv").write_text(FILES["pairs"].replace("0.8", "0.7"))
    packed_runs.file_hash.cache_clear()
    assert packed_runs.figures_of_rows(rows, options(tmp_path, "--no-run")) == []
    packed_runs.figures_of_rows(rows, chosen)
    assert ran == ["fcfs", "sjf"] * 2
    assert "2 of 2 rows are in" in capsys.readouterr().err


def test_what_there_is_not_is_refused_with_what_there_is(bench, tmp_path):
    with pytest.raises(SystemExit, match="no policy 'magic'; there are: fcfs"):
        packed_runs.figures_of_rows([PackedRow(bench, "magic", "", "magic")], options(tmp_path))
    with pytest.raises(SystemExit, match="no series 'x'; there are: fcfs"):
        packed_runs.only([PackedRow(bench, "fcfs", "", "fcfs")], ["x"])


def test_all_rows_of_the_table_are_told_apart(tmp_path):
    rows = packing_table.rows_of(packing_table.bench_of(tmp_path, "150"))
    assert len({row.key for row in rows}) == len(rows) == 4 + 5 + 4 * 4
    assert [row.asked for row in rows if row.series == "gandiva"] == [f"gandiva:seed={k}" for k in range(5)]
    (full,) = (
        row for row in rows if row.series == "packing deadline" and row.label == packing_table.MODELLED
    )
    assert full.asked == "packing:lgrr=on:liss=on:objective=deadline:unequal=on"
    assert {row.bench.pools.name for row in rows} == {"pools_32.csv"}
    assert packing_table.bench_of(tmp_path, "3000").nodes.name == "nodes_256.csv"


def figures(series: str, label: str = "", bench: str = "150 jobs", **known: str) -> Figures:
    names: Mapping[str, str] = {"bench": bench, "series": series, "label": label, "asked": series}
    return dict.fromkeys(COLUMNS, "") | dict(names) | known


TABLE = [
    figures("lucid", mean_jct_s="1200", mean_queue_s="90"),
    figures("gandiva", "seed 0", deadlines_met="90"),
    figures("gandiva", "seed 1", deadlines_met="110"),
    figures("gavel-makespan", makespan_s="1000"),
    figures("packing jct", packing_table.MEASURED_ONLY, mean_jct_s="1000", mean_queue_s="100"),
    figures("packing jct", "equal widths", mean_jct_s="1100", mean_queue_s="100"),
    figures("packing deadline", packing_table.MODELLED, deadlines_met="132"),
]


def test_ours_is_held_against_the_mean_of_a_peers_seeds():
    means = packing_table.Means(TABLE)
    jct, queue, deadlines, makespan = packing_table.AIMS
    assert means.of("150 jobs", "gandiva", "deadlines_met") == 100.0
    assert means.gain("150 jobs", jct, packing_table.MEASURED_ONLY) == pytest.approx(1.2)
    assert means.gain("150 jobs", queue, packing_table.MEASURED_ONLY) == pytest.approx(0.9)
    assert means.gain("150 jobs", deadlines, packing_table.MODELLED) == pytest.approx(1.32)
    assert means.gain("150 jobs", makespan, packing_table.MEASURED_ONLY) is None


def test_tables_show_gains_beside_aims_and_name_what_is_missed():
    lines = packing_table.gains_table(TABLE).splitlines()
    assert lines[2] == "| 150 jobs | mean JCT | lucid | 1,200 | 1.200 (1.18) * | (1.28) |"
    assert lines[3] == "| 150 jobs | mean queueing | lucid | 90 | 0.900 (1.4) | (1.5) |"
    assert lines[4] == "| 150 jobs | deadlines met | gandiva | 100 | (1.2) | 1.320 (1.32) * |"
    steps = packing_table.steps_table(TABLE).splitlines()
    assert steps[2] == "| 150 jobs | mean JCT | 1,100 (1.09x lucid) |  | 1,000 (1.20x lucid) |  |"
    missed = packing_table.missed(TABLE)
    assert "150 jobs, mean queueing, + LISS: 0.900, wanted 1.4 against lucid" in missed
    assert "150 jobs, makespan, + LISS: not known, wanted 1.1 against gavel-makespan" in missed
    assert not any("mean JCT, + LISS" in line or "deadlines met, + LGRR" in line for line in missed)
    assert packing_table.gains_table([]) == "no rows"


def lent(series: str, asked: str, slowed_pct: str, mean_jct_s: str) -> Figures:
    return figures(series, asked, "load080", slowed_pct=slowed_pct, mean_jct_s=mean_jct_s) | {"asked": asked}


def test_both_together_are_held_against_the_fastest_that_slows_no_more():
    table = [
        lent(packed_lending.LENDING, "careful", "0.010", "900"),
        lent(packed_lending.LENDING, "bold", "0.300", "600"),
        lent(packed_lending.PACKING, "packing", "2.0", "500"),
        lent(packed_lending.BOTH, "both", "0.012", "750"),
    ]
    (said,) = packed_lending.verdicts(table)
    assert said == (
        "load080, both, 0.012 % slowed; against lending alone: 1.200 times as fast as careful (0.010 %); "
        "packing alone: none slows as few (at least 2.000 %)"
    )
    assert "packing alone: not run" in packed_lending.verdicts([table[0], table[3]])[0]
    rows = packed_lending.rows_of(packed_lending.bench_of(Path("f"), Path("p.csv"), "090"))
    assert len({row.key for row in rows}) == len(packed_lending.ROWS)
    assert "--train-until 1641600 --eval-from 1814400 --policy" in rows[0].command
