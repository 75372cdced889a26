"""The command idle: what it prints and writes, whom it takes for holders, and how it refuses."""

import json

import pytest
from telemetry_support import END_S, UTIL, answer, gpu, series

DAY = 86_400


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = [*gpu(0, 92.0, gpu="0"), *gpu(0, 0.0, gpu="1"), *gpu(0, 0.0, gpu="2"), *gpu("NaN", 0.0, gpu="3")]
    (tmp_path / "t.json").write_text(answer(result))
    (tmp_path / "given.csv").write_text(f"job_id,node,gpu,since_s\n17,n1,2,{END_S - DAY}\n18,n1,9,\n")
    return tmp_path


def table(out: str) -> dict[str, list[str]]:
    """Words of the rows, by GPU."""
    rows = [line.split() for line in out.splitlines() if line.startswith("  n1")]
    return {row[1]: row for row in rows}


def test_a_table_sums_and_a_document(antecast, folder):
    done = antecast("idle", "t.json", "--allocations", "given.csv", "--json", "idle.json")
    assert (done.code, done.err) == (0, "")
    rows = table(done.out)
    assert rows["0"][2:6] == ["-", "memory-held", "0.0", "92.0"]
    assert rows["1"][2:4] == ["-", "free"]
    assert rows["2"][2:4] == ["17", "held-empty"]
    assert rows["3"][2:6] == ["-", "unknown", "n/a", "0.0"]
    assert rows["9"][2:4] == ["18", "unknown"]
    assert "attributed to nobody: 1.50 GPU-hours (60.0 %)" in done.out
    told = json.loads((folder / "idle.json").read_text())
    assert told["gpu_hours"] == {
        "working": 0.0, "idle": 0.0, "memory-held": 0.5, "held-empty": 0.5, "free": 0.5, "unknown": 1.0
    }  # fmt: skip
    assert told["attributed_gpu_hours"] == {"17": 0.5, "18": 0.5}
    by_gpu = {one["gpu"]: one for one in told["gpus"]}
    assert by_gpu["3"]["util_pct"] is None
    assert by_gpu["2"]["jobs"] == ["17"]


@pytest.mark.usefixtures("folder")
def test_a_printed_document_is_the_only_output(antecast):
    done = antecast("idle", "t.json", "--json", "-", "--window", "1h")
    told = json.loads(done.out)
    assert told["end_s"] - told["begin_s"] == 3600.0
    assert told["allocations_from"] == "labels"
    assert {one["gpu"]: one["verdict"] for one in told["gpus"]}["1"] == "unknown", "nobody says who holds it"


SACCT = "JobIDRaw|Submit|Start|End|State|AllocTRES|Partition|User|JobName|NodeList\n"


def running(job_id: str, gpus: int, nodes: str, state: str = "RUNNING", end: str = "Unknown") -> str:
    start = "2025-12-31T20:00:00"
    return f"{job_id}|{start}|{start}|{end}|{state}|gres/gpu={gpus}|p|u|n|{nodes}\n"


@pytest.fixture
def history(antecast, folder):
    def keep(*rows: str) -> None:
        (folder / "s.txt").write_text(SACCT + "".join(rows))
        done = antecast("import", "s.txt", "--cluster", "c", "--tz", "UTC", "--history", "kept")
        assert done.code == 0, done.out + done.err

    return keep


def test_jobs_that_fill_their_nodes_hold_every_gpu_of_them(antecast, folder, history):
    history(running("5", 8, "n[1-2]"), running("6", 2, "n3", "COMPLETED", "2025-12-31T23:00:00"))
    (folder / "t.json").write_text(
        answer(
            one
            for node in ("n1.lab", "n2.lab", "n3.lab")
            for k in range(4)
            for one in gpu(0, 0.0, Hostname=node, gpu=str(k))
        )
    )
    done = antecast("idle", "t.json", "--history", "kept", "--json", "-")
    gpus = json.loads(done.out)["gpus"]
    assert {(one["verdict"], *one["jobs"]) for one in gpus if one["node"] != "n3.lab"} == {
        ("held-empty", "5")
    }
    assert {one["verdict"] for one in gpus if one["node"] == "n3.lab"} == {"free"}


def test_of_a_part_of_a_node_it_is_told_how_many_are_idle_not_which(antecast, folder, history):
    history(running("5", 2, "n1"), running("7", 1, "n9"))
    (folder / "t.json").write_text(
        answer([*gpu(90, 50.0, gpu="0"), *(one for k in "123" for one in gpu(0, 0.0, gpu=k))])
    )
    done = antecast("idle", "t.json", "--history", "kept", "--cluster", "c")
    assert done.code == 0
    words = {gpu: row[2:5] for gpu, row in table(done.out).items()}
    assert words["0"] == ["perhaps", "5", "working"]
    assert words["1"] == words["2"] == words["3"] == ["perhaps", "5", "unknown"]
    assert "node n1: of the GPUs that jobs hold at least 1 idle, not known which" in done.out
    assert "note: node n9: jobs run on it (7), and there is no telemetry of it" in done.out


def test_a_history_older_than_the_telemetry_is_told(antecast, history):
    history(running("5", 4, "n1"))
    done = antecast("idle", "t.json", "--history", "kept")
    assert "note: the history ends 240 min before the telemetry" in done.out


HOSTILE = {
    "broken": ('{"status":"success","data":{"result":[{"metric":{}', "the JSON breaks"),
    "no-json": ("hello", "breaks"),
    "empty": ("", "the file is empty"),
    "list": ("[1, 2]", "data.result"),
    "other": ('{"a": 1}', "there is no list data.result"),
    "error": (
        '{"status":"error","errorType":"bad_data","error":"too many \\u001b[2J"}',
        "bad_data: too many",
    ),
    "no-series": (answer([]), "there are no series"),
    "numbers": ('{"data":{"result":[1]}}', "series 1: an object is expected"),
    "bare-nan": ('{"data":{"result":[{"metric":{}, "values":[[1, NaN]]}]}}', "the JSON breaks"),
    "instant": (
        json.dumps({"data": {"result": [{"metric": {"__name__": UTIL}, "value": [1, "0"]}]}}),
        "query_range",
    ),
    "pair": (answer([series(UTIL, 0, {}) | {"values": [[1]]}]), "a sample is an instant and a value"),
    "instant-nan": (answer([series(UTIL, 0, {}) | {"values": [["x", "1"]]}]), "no instant"),
    "far": (answer([series(UTIL, 0, {}) | {"values": [[10**400, "1"]]}]), "no instant"),
    "word": (answer([series(UTIL, "zero", {})]), "'zero'"),
    "digits": ('{"data":{"result":[{"values":[[' + "9" * 9000, "a number has"),
    "deep": ('{"data":' + "[" * 20_000, "nested deeper"),
    "all-nan-labels": (answer([{"metric": {"__name__": UTIL}, "values": []}]), "without the labels"),
    "other-metrics": (answer([series("up", 1, {})]), "1 series of other metrics"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_telemetry_ends_with_2_and_says_why(antecast, folder, name):
    text, why = HOSTILE[name]
    (folder / "bad.json").write_text(text)
    done = antecast("idle", "bad.json")
    assert done.code == 2, done.out
    assert why.strip("'") in done.err
    assert "bad.json" in done.err
    assert "Traceback" not in done.err
    assert all(line.isprintable() for line in done.err.split("\n"))


@pytest.mark.usefixtures("folder")
def test_too_many_samples_are_refused_before_they_fill_memory(antecast, monkeypatch):
    monkeypatch.setattr("data.telemetry.prometheus.MOST_SAMPLES", 1000)
    done = antecast("idle", "t.json")
    assert done.code == 2
    assert "too-large" in done.err
    assert "ask for a shorter range" in done.err


def test_names_that_a_terminal_would_obey_are_not_printed(antecast, folder):
    evil = "\x1b]0;owned\x07\u202e"
    (folder / "t.json").write_text(answer(gpu(0, 0.0, Hostname=evil, gpu=evil, pod=evil, namespace=evil)))
    done = antecast("idle", "t.json")
    assert done.code == 0
    assert all(line.isprintable() for line in done.out.split("\n"))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--allocations", "given.csv", "--history", "kept"], "give one of them"),
        (["--cluster", "c"], "--history, which is not given"),
        (["--window", "soon"], "is no length"),
        (["--window", "0m"], "is no length"),
        (["--history", "nowhere"], "there is no history"),
        (["--allocations", "absent.csv"], "there is no such file"),
        (["--low-util", "nan"], "low-util"),
    ],
)
def test_options_that_cannot_be_are_refused(antecast, options, why):
    done = antecast("idle", "t.json", *options)
    assert done.code == 2
    assert why in " ".join(done.err.replace("│", " ").split())


def test_a_bad_row_of_allocations_is_refused_with_its_line(antecast, folder):
    (folder / "given.csv").write_text("job_id,node,gpu,since_s\n1,n1,0,\n2,,1,soon\n")
    done = antecast("idle", "t.json", "--allocations", "given.csv")
    assert done.code == 2
    assert "given.csv:3: missing-value" in done.err
    assert "given.csv:3: not-a-number" in done.err
