"""The commands of `antecast history`: what they print, write and refuse."""

import json
from datetime import UTC, datetime

import pandas as pd
import pytest

from data.history import from_frame
from data.readers import READERS
from data.readers.benchmark_csv import read_nodes, read_pools

COLUMNS = "JobID|JobIDRaw|User|Partition|JobName|Submit|Start|End|Elapsed|State|ReqTRES|AllocTRES|Timelimit\n"
ZERO = datetime(2024, 3, 4, tzinfo=UTC)
EDGE_S = 1_000_000
"""When what runs was last heard of, after `ZERO`."""


def at(seconds):
    return datetime.fromtimestamp(ZERO.timestamp() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def job(number, submit, start, end, state="COMPLETED", **more):
    user, pool, gpus = more.get("user", "ada"), more.get("pool", "gpu"), more.get("gpus", 2)
    times = [at(submit), *("Unknown" if one is None else at(one) for one in (start, end))]
    ran = 0 if start is None else (EDGE_S if end is None else end) - start
    elapsed = f"{ran // 86400}-{ran % 86400 // 3600:02d}:{ran % 3600 // 60:02d}:{ran % 60:02d}"
    tres = f"billing=1,cpu=4,gres/gpu={gpus},node=1"
    given = "" if start is None else tres
    words = [number, number, user, pool, "train", *times, elapsed, state, tres, given, "1-00:00:00"]
    return "|".join(map(str, words)) + "\n"


ROWS = (
    job(1, 0, 60, 3660),
    job(2, 100, 200, 1200, "REQUEUED", user="bob"),
    job(2, 1200, 1300, 9300, user="bob"),
    job(3, 300, 400, None, "RUNNING", pool="big", gpus=8),
    job(4, 500, None, None, "PENDING"),
    job(5, 600, None, 700, "CANCELLED by 1000"),
    job(6, 700, 800, 900, "TIMEOUT"),
    job(1, 900_000, 900_100, EDGE_S, user="eve"),
)
SINFO = """\
NodeName=n1 Gres=gpu:a100:8 CPUTot=64 RealMemory=500000 State=IDLE Partitions=gpu,big
"""


@pytest.fixture
def folder(antecast, tmp_path, monkeypatch):
    """A history of eight rows of sacct."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    (tmp_path / "jobs.txt").write_text(COLUMNS + "".join(ROWS))
    done = antecast("import", "jobs.txt", "--cluster", "research", "--tz", "UTC")
    assert done.code == 0, done.out + done.err
    return tmp_path


def test_the_history_is_listed(antecast, folder):
    (folder / "more.txt").write_text(COLUMNS + job(9, 0, 1, 2))
    assert antecast("import", "more.txt", "--cluster", "other", "--tz", "UTC").code == 0
    done = antecast("history", "list")
    assert done.code == 0
    assert "other: 1 attempts on 1 days from 2024-03-04 to 2024-03-04" in done.out
    assert "research: 8 attempts on 2 days from 2024-03-04 to 2024-03-14" in done.out
    assert "jobs.txt (sacct, sha256 " in done.out
    listed = json.loads(antecast("history", "list", "--json").out)
    assert set(listed["clusters"]) == {"other", "research"}
    assert [one["read"] for one in listed["imports"]] == [8, 1]


def test_what_is_exported_is_read_by_everything_that_reads_histories(antecast, folder):
    done = antecast("history", "export", "--out", "jobs.csv")
    assert done.code == 0, done.err
    assert "5 jobs of 2 pools in jobs.csv" in done.out
    assert "left out: 1 still waiting" in done.out
    assert "left out: 1 never ran" in done.out
    assert "among them: 2 lives cut off" in done.out
    history = READERS["csv"](folder / "jobs.csv", None)
    assert history.skipped == ()
    rows = history.frame.set_index("job_id")
    assert sorted(rows.index) == ["1", f"1@{ZERO.timestamp() + 900_000:.0f}", "2", "3", "6"]
    assert rows.loc["2", "duration_s"] == 8000
    assert rows.loc["3", "state"] == "cut_off"
    assert rows.loc["6", "state"] == "timeout"


def test_attempts_can_be_rows_of_their_own_and_a_span_be_chosen(antecast, folder):
    asked = ["--out", "jobs.csv", "--attempts", "--until", at(100_000) + "Z", "--json"]
    told = json.loads(antecast("history", "export", *asked).out)
    assert told["rows"] == 5
    assert told["left_out"]["outside of --since and --until"] == 1
    ids = pd.read_csv(folder / "jobs.csv", dtype={"job_id": str})["job_id"].tolist()
    assert ids == ["1", "2", "3", "6", "2#2"]


def test_exports_give_the_same_bytes_each_time(antecast, folder):
    for name in ("a.csv", "b.csv"):
        assert antecast("history", "export", "--out", name).code == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()


@pytest.mark.usefixtures("folder")
def test_a_lookup_by_bare_id_gives_the_newest_and_counts_the_older(antecast):
    """T06."""
    found = json.loads(antecast("history", "job", "1").out)
    assert (found["job"]["user"], found["older_jobs_of_the_id"]) == ("eve", 1)
    twice = json.loads(antecast("history", "job", "2").out)
    assert [one["cause"] for one in twice["attempts"]] == ["requeued", "completed"]
    assert twice["job"]["wait_s"] == 100
    assert "no job '77'" in antecast("history", "job", "77").err


def test_pools_come_from_the_inventory_and_else_from_use(antecast, folder):
    done = antecast("history", "pools", "--out", "pools.csv", "--nodes", "nodes.csv")
    assert done.code == 0, done.err
    assert "2 pools of 14 GPUs in pools.csv, by what its jobs have used at once" in done.out
    assert dict(read_pools(folder / "pools.csv")) == {"big": 8, "gpu": 6}
    (folder / "nodes.txt").write_text(SINFO)
    imported = antecast("import", "nodes.txt", "--cluster", "research")
    assert imported.code == 0, imported.out
    done = antecast("history", "pools", "--out", "pools.csv", "--nodes", "nodes.csv")
    assert "by the inventory" in done.out
    assert [(node.name, node.num_gpus) for node in read_nodes(folder / "nodes.csv")] == [("n1", 8)]


@pytest.mark.usefixtures("folder")
def test_train_and_replay_take_what_was_exported(antecast):
    assert antecast("history", "export", "--out", "jobs.csv").code == 0
    assert antecast("history", "pools", "--out", "pools.csv").code == 0
    files = ["--jobs", "jobs.csv", "--pools", "pools.csv"]
    done = antecast("replay", *files, "--policy", "fcfs", "--out", "run")
    assert done.code == 0, done.err
    edge = ZERO.timestamp() + EDGE_S
    trained = antecast(
        "train", *files, "--as-of", edge, "--lives", "recent", "--arrivals", "", "--models", "m"
    )
    assert trained.code in (0, 2), trained.err
    assert "Traceback" not in trained.err


def test_a_history_is_described_drawn_and_written(antecast, folder):
    done = antecast("history", "describe", "--json", "d.json", "--out", "pictures")
    assert done.code == 0, done.err
    assert "research: 7 jobs, 8 attempts" in done.out
    assert "short-record: less than two weeks" in done.out
    assert "submissions of 10.4 days" in done.out
    assert "what it supports" in done.out
    assert "█" in done.out
    document = json.loads((folder / "d.json").read_text())
    assert document["cluster"] == "research"
    assert "short-record" in {one["finding"] for one in document["findings"]}
    drawn = {path.name for path in (folder / "pictures").iterdir()}
    assert drawn == {
        "arrivals.png", "hours-of-week.png", "widths.png", "lives.png", "waits.png", "states.png"
    }  # fmt: skip
    svg = antecast("history", "describe", "--out", "again", "--picture", "svg")
    assert svg.code == 0
    assert (folder / "again" / "lives.svg").stat().st_size > 1000


def test_an_inventory_alone_can_be_described(antecast, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    (tmp_path / "nodes.txt").write_text(SINFO)
    assert antecast("import", tmp_path / "nodes.txt").code == 0
    done = antecast("history", "describe", "--out", tmp_path / "p")
    assert done.code == 0, done.err
    assert "cluster: 0 jobs, 0 attempts" in done.out
    assert "inventory: 1 nodes with 8 GPUs" in done.out
    assert "no job is left to export" in antecast("history", "export", "--out", tmp_path / "j.csv").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe", "--cluster", "nix"], "no cluster 'nix'; there are: research"),
        (["describe", "--picture", "gif"], "neither png nor svg"),
        (["describe", "--history", "empty"], "there is no history in empty"),
        (["export", "--out", "jobs.txt/x.csv"], "cannot be written"),
        (["export", "--out", "x.csv", "--since", "soon"], "no time stamp"),
        (["export", "--out", "x.csv", "--pool", "nix"], "no job is left to export (in other pools: 7)"),
        (["pools", "--out", "jobs.txt/x.csv"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_said(antecast, folder, arguments, words):
    done = antecast("history", *arguments)
    assert done.code == 2
    assert words in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert not (folder / "x.csv").exists()


def test_several_clusters_have_to_be_told_apart(antecast, folder):
    (folder / "more.txt").write_text(COLUMNS + job(9, 0, 1, 2))
    assert antecast("import", "more.txt", "--cluster", "other", "--tz", "UTC").code == 0
    done = antecast("history", "describe")
    assert done.code == 2
    assert "name one with --cluster: other, research" in done.err


def test_the_frame_exported_obeys_the_schema_without_a_file(antecast, folder):
    assert antecast("history", "export", "--out", "jobs.csv").code == 0
    frame = pd.read_csv(folder / "jobs.csv", dtype={"job_id": str})
    assert from_frame(frame, source="jobs.csv").num_skipped_rows == 0
