"""The command line as its users meet it."""

import csv
import json
import re

import pytest

from solver.policies import POLICIES

POOLS = "pool,quota_gpus\na,2\nb,4\n"
JOBS = """job_id,pool,submit_s,num_gpus,duration_s,team
j1,a,0,2,100,x
j2,a,10,1,50,x
j3,a,10,1,5,y
j4,b,20,4,30,y
j5,b,200,1,10,y
"""


@pytest.fixture
def inputs(tmp_path):
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "pools.csv").write_text(POOLS)
    return ["--jobs", tmp_path / "jobs.csv", "--pools", tmp_path / "pools.csv"]


def test_replay_writes_the_schedule_and_the_report(antecast, inputs, tmp_path):
    result = antecast("replay", *inputs, "--policy", "reclaim", "--out", tmp_path / "out")
    assert result.code == 0
    rows = list(csv.DictReader((tmp_path / "out" / "schedule.csv").read_text().splitlines()))
    lived = {row["job_id"]: (row["start_s"], row["end_s"]) for row in rows if row["lost"] == "0"}
    assert lived == {
        "j1": ("0", "100"),
        "j2": ("50", "100"),
        "j3": ("10", "15"),
        "j4": ("20", "50"),
        "j5": ("200", "210"),
    }, "j2 borrows at 10 s, is sent back for j4 at 20 s, and borrows again"
    assert [row["job_id"] for row in rows if row["lost"] == "1"] == ["j2"]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["against_fcfs"]["slowed_jobs"] == 0
    assert report["requeues"] == 1
    assert report["faults"] == []
    assert "columns kept but not used: team" in result.err
    assert "slowed 0 of 5 jobs" in result.out


def test_the_same_seed_gives_the_same_bytes(antecast, tmp_path):
    antecast("generate", "philly-like", "--seed", 3, "--days", 2, "--num-pools", 4, "--out", tmp_path / "w")
    files = ["--jobs", tmp_path / "w/jobs.csv", "--pools", tmp_path / "w/pools.csv", "--train-until", 43200]
    for name in ("one", "two"):
        result = antecast(
            "compare", *files, "--policies", "fcfs,maxmin,reclaim:order=shortest", "--out", tmp_path / name
        )
        assert result.code == 0, result.err
    written = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(written) == 9
    for path in written:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path


def test_compare_measures_against_both_baselines_and_draws(antecast, inputs, tmp_path):
    chosen = "fcfs,backfill,backfill:lives=learned,gssf,maxmin,reclaim"
    result = antecast(
        "compare",
        *inputs,
        "--clairvoyant",
        "--policies",
        chosen,
        "--picture",
        "svg",
        "--out",
        tmp_path / "out",
    )
    assert result.code == 0, result.err
    rows = {
        row["policy"]: row
        for row in csv.DictReader((tmp_path / "out" / "compare.csv").read_text().splitlines())
    }
    assert list(rows) == ["fcfs", "backfill*", "backfill:lives=learned", "gssf*", "maxmin", "reclaim"]
    assert float(rows["fcfs"]["speedup_ratio_of_means_vs_fcfs"]) == 1.0
    assert float(rows["backfill*"]["speedup_ratio_of_means_vs_backfill"]) == 1.0
    assert float(rows["reclaim"]["speedup_ratio_of_means_vs_fcfs"]) > 1.0
    for name in ("speed-against-slowed.svg", "speedups.svg"):
        assert (tmp_path / "out" / name).read_text().lstrip().startswith("<?xml")
    said = " ".join(result.out.split())
    assert re.search(r"(maxmin|reclaim) cut the mean completion time of 5 jobs", said)


def test_json_on_standard_output_is_one_document(antecast, inputs, tmp_path):
    result = antecast("compare", *inputs, "--policies", "fcfs,maxmin", "--json", "--out", tmp_path / "out")
    document = json.loads(result.out)
    assert [row["policy"] for row in document["rows"]] == ["fcfs", "maxmin"]
    result = antecast("replay", *inputs, "--policy", "maxmin", "--json", "--out", tmp_path / "out")
    assert json.loads(result.out)["policy"] == "maxmin"


def test_demo_replay_ends_with_a_table_pictures_and_a_sentence(antecast, tmp_path):
    result = antecast("demo-replay", "--days", 3, "--seed", 1, "--out", tmp_path)
    assert result.code == 0, result.err
    assert (tmp_path / "speed-against-slowed.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "speedups.png").read_bytes().startswith(b"\x89PNG")
    said = " ".join(result.out.split())
    assert re.search(r"\S+ cut the mean completion time of \d+ jobs .* slowed (nobody|\d+ jobs)", said)
    for name in ("fcfs", "backfill", "maxmin", "sia", "anticipatory"):
        assert name in result.out


def test_history_is_learned_from(antecast, inputs, tmp_path):
    (tmp_path / "past.csv").write_text(
        "job_id,pool,submit_s,num_gpus,duration_s\nh1,gone,-500,64,10\nh2,a,-5,1,50\n"
    )
    result = antecast(
        "replay", *inputs, "--history", tmp_path / "past.csv", "--policy", "ssf", "--out", tmp_path / "out"
    )
    assert result.code == 0, result.err
    assert "1 to learn from" in result.err, "h2 had not ended when the replay began"


BAD_JOBS = [
    ("job_id,pool,submit_s,num_gpus\nj1,a,0,1\n", 1, "missing-column", "duration_s"),
    (
        "job_id,pool,submit_s,num_gpus,duration_s\nj1,a,0,1,9\nj2,a,0,3,9\n",
        3,
        "width-above-quota",
        "quota of pool a is 2",
    ),
    ("job_id,pool,submit_s,num_gpus,duration_s\nj1,a,0,1,-1\n", 2, "negative-duration", "-1"),
    ("job_id,pool,submit_s,num_gpus,duration_s\nj1,a,0,1,\n", 2, "missing-value", "duration_s"),
    ("job_id,pool,submit_s,num_gpus,duration_s\nj1,zz,0,1,9\n", 2, "unknown-pool", "zz"),
    ("job_id,pool,submit_s,num_gpus,duration_s\nj1,a,0,1,9\nj1,b,1,1,9\n", 3, "duplicate-id", "j1"),
    ("", None, "empty-file", "empty"),
    ('{"job_id": "j1"}', 1, "not-csv", "JSON"),
    ("\x89PNG\r\n", 1, "not-text", "PNG"),
]


@pytest.mark.parametrize(("content", "line", "rule", "found"), BAD_JOBS, ids=[row[2] for row in BAD_JOBS])
def test_bad_input_names_file_line_and_rule(antecast, tmp_path, content, line, rule, found):
    (tmp_path / "pools.csv").write_text(POOLS)
    path = tmp_path / "bad.csv"
    path.write_bytes(content.encode("latin-1"))
    result = antecast(
        "replay",
        "--jobs",
        path,
        "--pools",
        tmp_path / "pools.csv",
        "--policy",
        "fcfs",
        "--out",
        tmp_path / "out",
    )
    assert result.code == 2
    place = f"{path}:{line}" if line else str(path)
    assert f"{place}: {rule}: " in result.err
    assert found in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "out").exists()


def test_lenient_skips_bad_rows_lists_them_and_loses_nothing_good(antecast, inputs, tmp_path):
    with (tmp_path / "jobs.csv").open("a") as file:
        file.write("j6,a,300,9,1,x\nj7,a,300,1,soon,x\nj8,a,300,1,1,x\n")
    result = antecast("replay", *inputs, "--policy", "fcfs", "--out", tmp_path / "out")
    assert result.code == 2
    result = antecast("replay", *inputs, "--policy", "fcfs", "--lenient", "--out", tmp_path / "out")
    assert result.code == 0
    assert f"skipped {tmp_path / 'jobs.csv'}:7: width-above-quota" in result.err
    assert f"skipped {tmp_path / 'jobs.csv'}:8: not-a-number" in result.err
    ids = [
        row["job_id"] for row in csv.DictReader((tmp_path / "out" / "schedule.csv").read_text().splitlines())
    ]
    assert sorted(ids) == ["j1", "j2", "j3", "j4", "j5", "j8"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "gssf"], "allow it with --clairvoyant"),
        (["--policy", "nosuch"], "unknown policy 'nosuch'; there are: fcfs, backfill"),
        (["--policy", "reclaim", "--set", "order=random"], "policy reclaim: 'random' is not a valid Order"),
        (["--policy", "fcfs", "--set", "speed=9"], "policy fcfs has no setting 'speed'"),
        (["--policy", "backfill", "--set", "lives=limit"], "has no limit_s"),
        (["--policy", "fcfs", "--set", "nothing"], "'nothing' is not of the form key=value"),
        (["--policy", "fcfs", "--eval-from", "9999"], "nothing to measure"),
        (["--policy", "fcfs", "--train-until", "50", "--eval-from", "10"], "must be at least train_until_s"),
        (["--policy", "fcfs", "--format", "xls"], "unknown format 'xls'; there are: csv"),
    ],
)
def test_wrong_settings_say_what_would_be_right(antecast, inputs, tmp_path, arguments, message):
    result = antecast("replay", *inputs, *arguments, "--out", tmp_path / "out")
    assert result.code == 2
    assert message in result.err


def test_policies_lists_all_of_them_with_their_settings(antecast):
    listed = json.loads(antecast("policies", "--json").out)
    assert list(listed) == list(POLICIES)
    assert listed["gssf"]["clairvoyant"]
    assert listed["reclaim"]["settings"]["requeueable"] == 1.0
    text = antecast("policies").out
    assert "gssf*" in text
    assert "--set order=fifo" in text
    assert "watched" in listed["planned"]["choices"]["arrivals"]
    assert listed["planned"]["settings"]["arrivals"] == "auto"
    assert listed["gssf"]["choices"] == {"lives": ["auto"]}
    assert ", watched" in text


@pytest.mark.parametrize(
    "command", ["replay", "compare", "demo", "demo-replay", "generate", "policies", "serve"]
)
def test_every_command_has_help(antecast, command):
    result = antecast(command, "--help")
    assert result.code == 0
    assert "Usage: antecast" in result.out


def test_the_main_help_states_the_exit_codes(antecast):
    assert "Exit codes: 0 done; 1 a schedule breaks a rule; 2 bad input" in " ".join(
        antecast("--help").out.split()
    )


def test_hostile_names_reach_the_terminal_as_text(antecast, tmp_path):
    (tmp_path / "pools.csv").write_text("pool,quota_gpus\n[red]a,2\n")
    (tmp_path / "jobs.csv").write_text(
        "job_id,pool,submit_s,num_gpus,duration_s\n[bold]j,[red]a,0,1,9\n=1+1,[red]a,0,1,\x1b[31mred\n"
    )
    files = ["--jobs", tmp_path / "jobs.csv", "--pools", tmp_path / "pools.csv"]
    result = antecast("replay", *files, "--policy", "fcfs", "--lenient", "--out", tmp_path / "out")
    assert result.code == 0
    assert "\x1b" not in result.err
    assert "[bold]j" in (tmp_path / "out" / "schedule.csv").read_text()
