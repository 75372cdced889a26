"""The commands train, backtest and models: what they print, what they write, how they refuse."""

import csv
import json
import sys

import numpy as np
import pandas as pd
import pytest

from app import cli
from models.artifacts.registry import Registry

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """Twelve days of short and of long jobs, told apart by their names."""
    folder = tmp_path_factory.mktemp("workload")
    rng = np.random.default_rng(0)
    number = 1500
    kind = rng.integers(0, 2, number)
    frame = pd.DataFrame(
        {
            "job_id": [f"j{k:04d}" for k in range(number)],
            "pool": "a",
            "submit_s": np.sort(rng.uniform(0.0, 12 * DAY_S, number)).round(1),
            "num_gpus": 1,
            "duration_s": (np.where(kind == 0, 60.0, 5000.0) * rng.lognormal(0.0, 0.3, number)).round(1),
            "user": "u",
            "name": np.where(kind == 0, "short", "long"),
        }
    )
    frame.to_csv(folder / "jobs.csv", index=False)
    (folder / "pools.csv").write_text("pool,quota_gpus\na,8\n")
    return folder


@pytest.fixture
def run(workload, monkeypatch, capsys):
    def go(command: str, *options: str, files: bool = True) -> tuple[int, str, str]:
        given = (
            ["--jobs", str(workload / "jobs.csv"), "--pools", str(workload / "pools.csv")] if files else []
        )
        monkeypatch.setattr(sys, "argv", ["antecast", command, *given, *options])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return go


def test_train_stores_a_version_and_says_why_it_is_used_or_not(run, tmp_path):
    root = tmp_path / "models"
    code, out, _ = run(
        "train",
        "--as-of",
        "864000",
        "--lives",
        "learned",
        "--arrivals",
        "",
        "--models",
        str(root),
        "--data",
        "x",
    )
    assert code == 0
    assert "x, lifetime: version 1 (learned), learned from the whole record" in out
    assert "forecasts on" in out
    assert len(Registry(root).versions("x", "lifetime")) == 1


def test_train_tells_a_machine_the_same(run, tmp_path):
    options = (
        "--as-of",
        "864000",
        "--lives",
        "learned",
        "--arrivals",
        "",
        "--models",
        str(tmp_path),
        "--json",
    )
    code, out, _ = run("train", *options)
    (made,) = json.loads(out)["models"]
    assert code == 0
    assert (made["version"], made["kind"], made["is_promoted"]) == (1, "lifetime", False)
    assert made["why"]
    assert set(made["scores"]) >= {"pinball", "coverage_80", "too_short_at_90"}


def test_old_versions_are_deleted_on_request(run, tmp_path):
    for day in (7, 8, 9):
        options = (
            "--lives",
            "learned",
            "--arrivals",
            "",
            "--models",
            str(tmp_path),
            "--data",
            "x",
            "--keep",
            "2",
        )
        assert run("train", "--as-of", str(day * DAY_S), *options)[0] == 0
    assert [one.number for one in Registry(tmp_path).versions("x", "lifetime")] == [2, 3]
    code, _, err = run("models", "--models", str(tmp_path), "--prune", "1", files=False)
    assert code == 0
    assert "deleted: x, lifetime, version 2" in err


def test_models_lists_versions_and_decisions(run, tmp_path):
    options = (
        "--as-of",
        "864000",
        "--lives",
        "learned",
        "--arrivals",
        "",
        "--models",
        str(tmp_path),
        "--data",
        "x",
    )
    run("train", *options)
    code, out, _ = run("models", "--models", str(tmp_path), "--history", files=False)
    assert code == 0
    assert "learned" in out
    assert "x, lifetime, version 1, 20" in out
    _, out, _ = run("models", "--models", str(tmp_path), "--json", files=False)
    (line,) = json.loads(out)["models"]
    assert (line["data"], line["kind"], line["champion"]) == ("x", "lifetime", None)
    assert line["versions"][0]["num_jobs"] > 1000
    _, out, _ = run("models", "--models", str(tmp_path), "--data", "y", "--json", files=False)
    assert json.loads(out) == {"models": []}


def test_models_of_an_empty_folder_says_how_to_make_some(run, tmp_path):
    code, out, _ = run("models", "--models", str(tmp_path / "none"), files=False)
    assert code == 0
    assert "antecast train" in out


def test_backtest_prints_and_writes_each_stretch_and_all_of_them(run, tmp_path):
    options = (
        "--from",
        "604800",
        "--until",
        "950400",
        "--every",
        "2",
        "--lives",
        "learned",
        "--arrivals",
        "",
    )
    code, out, _ = run("backtest", *options, "--out", str(tmp_path))
    assert code == 0
    assert "overall" in out
    with (tmp_path / "backtest.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["rows"] for row in rows] == ["stretch", "stretch", "overall"]
    assert [float(row["origin_s"]) for row in rows] == [604800.0, 777600.0, 604800.0]
    jobs = [float(row["num_jobs"]) for row in rows]
    assert jobs[0] + jobs[1] == jobs[2] > 400
    document = json.loads((tmp_path / "backtest.json").read_text())
    assert len(document["rows"]) == 3
    assert len(document["jobs_sha256"]) == 64


def test_backtest_scores_demand_window_by_window(run, tmp_path):
    options = ("--from", "691200", "--until", "864000", "--every", "1", "--lives", "", "--json")
    code, out, _ = run("backtest", *options, "--out", str(tmp_path))
    assert code == 0
    rows = json.loads(out)["rows"]
    assert {row["kind"] for row in rows} == {"demand"}
    assert {row["window_s"] for row in rows} == {300.0, 3600.0, 43200.0}
    five = [row for row in rows if row["window_s"] == 300.0]
    assert [row["rows"] for row in five] == ["stretch", "stretch", "overall"]
    assert five[2]["cells"] == five[0]["cells"] + five[1]["cells"]
    assert min(five[0]["pinball"], five[1]["pinball"]) <= five[2]["pinball"]
    assert five[2]["pinball"] <= max(five[0]["pinball"], five[1]["pinball"])


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("train", ("--as-of", "0", "--lives", "learned", "--arrivals", ""), "nothing to learn from"),
        ("train", ("--as-of", "864000", "--lives", "astrology"), "can be stored"),
        ("train", ("--as-of", "864000", "--lives", "", "--arrivals", ""), "nothing to train"),
        (
            "train",
            ("--as-of", "864000", "--lives", "learned", "--arrivals", "", "--data", "../x"),
            "bad-name",
        ),
        ("train", ("--as-of", "864000", "--format", "xml"), "unknown format"),
        ("backtest", ("--from", "9", "--until", "8", "--out", "o"), "must lie before"),
        ("backtest", ("--from", "-5", "--until", "8", "--out", "o"), "nothing to learn from"),
        (
            "backtest",
            ("--from", "86400", "--until", "9e5", "--out", "o", "--lives", "tea"),
            "unknown lifetime",
        ),
        (
            "backtest",
            ("--from", "86400", "--until", "9e5", "--out", "o", "--lives", "", "--arrivals", "tea"),
            "unknown demand",
        ),
        (
            "backtest",
            ("--from", "86400", "--until", "9e5", "--out", "o", "--lives", "", "--arrivals", ""),
            "nothing to score",
        ),
        (
            "backtest",
            ("--from", "86400", "--until", "9e5", "--out", "o", "--known-until", "9"),
            "--known-until",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(run, tmp_path, monkeypatch, command, options, said):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(command, *options)
    assert code == 2
    assert said in err


@pytest.mark.parametrize("command", ["train", "backtest", "models"])
def test_help_has_an_example(run, command):
    code, out, _ = run(command, "--help", files=False)
    assert code == 0
    assert f"antecast {command}" in out
