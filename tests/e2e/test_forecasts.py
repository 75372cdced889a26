"""`antecast evaluate` and `antecast explain` as their users meet them, on a generated cluster."""

import json

import pytest

from data.synthetic import philly_like, write_csv

DAY_S = 86_400


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forecasts")
    write_csv(philly_like(5, days=5, num_pools=3), folder)
    return folder


def test_evaluate_prints_and_writes_every_score(antecast, workload, tmp_path):
    files = ["--jobs", workload / "jobs.csv", "--pools", workload / "pools.csv"]
    split = ["--train-until", 3 * DAY_S, "--eval-from", 4 * DAY_S]
    result = antecast("evaluate", *files, *split, "--out", tmp_path / "out")
    assert result.code == 0, result.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    lifetime = report["lifetime"]
    for name in ("pinball", "pinball_best_baseline", "coverage_80", "c_index", "too_short_at_90"):
        assert isinstance(lifetime[name], float), name
        assert name in ("pinball", "pinball_best_baseline") or 0.0 <= lifetime[name] <= 1.0
    assert set(report["demand"]) == {"300", "3600", "43200"}
    for window in report["demand"].values():
        assert 0.0 <= window["precision"] <= 1.0
        assert 0.0 <= window["recall"] <= 1.0
        assert window["pinball"] > 0.0
        assert window["pinball_best_baseline"] > 0.0
        assert 0.5 < window["coverage_95"] <= 1.0
        assert {row["pool"] for row in window["monitor"]}
    assert "levels" not in report
    assert "interference" not in report
    assert "Lifetimes:" in result.out
    assert "per-key quantiles" in result.out
    assert str(tmp_path / "out" / "report.json") in result.out

    again = antecast("evaluate", *files, *split, "--out", tmp_path / "again", "--json")
    assert again.code == 0, again.err
    assert (tmp_path / "again" / "report.json").read_bytes() == (
        tmp_path / "out" / "report.json"
    ).read_bytes()
    assert json.loads(again.out) == report


def test_a_history_needs_no_pools_and_parts_can_be_chosen(antecast, workload, tmp_path):
    result = antecast(
        "evaluate", "--history", workload / "jobs.csv", "--train-until", 3 * DAY_S, "--eval-from", 3 * DAY_S,
        "--until", 5 * DAY_S, "--parts", "lifetime", "--lives", "learned", "--out", tmp_path,
    )  # fmt: skip
    assert result.code == 0, result.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert "demand" not in report
    lifetime = report["lifetime"]
    assert lifetime["pinball"] == lifetime["models"]["per-key quantiles"]["pinball"]
    assert lifetime["num_running"] > 0, "what still runs at the end of knowledge counts with its age"


def test_levels_and_pairs_are_scored_where_their_files_are_given(antecast, workload, tmp_path):
    lines = ["pool,time_s,gpus,quota_gpus"]
    for minute in range(0, 8 * 1440, 10):
        lines += [f"a,{60 * minute},{minute // 300 % 8},8", f"b,{60 * minute},{minute // 100 % 4},4"]
    (tmp_path / "series.csv").write_text("\n".join(lines) + "\n")
    pairs = ["model_a,model_b,rate_a,rate_b"]
    names = [f"net{k} (batch size {b})" for k in range(3) for b in (16, 32)]
    rate = {name: 0.9 - 0.08 * place for place, name in enumerate(names)}
    pairs += [f"{a},{b},{rate[b]:.3f},{rate[a]:.3f}" for i, a in enumerate(names) for b in names[i:]]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs) + "\n")
    result = antecast(
        "evaluate", "--history", workload / "jobs.csv", "--train-until", 3 * DAY_S, "--eval-from", 3 * DAY_S,
        "--parts", "levels,interference", "--series", tmp_path / "series.csv",
        "--series-train-until", 6 * DAY_S, "--pairs", tmp_path / "pairs.csv", "--out", tmp_path,
    )  # fmt: skip
    assert result.code == 0, result.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["levels"]["3600"]["pinball"] < report["levels"]["3600"]["pinball_best_baseline"]
    assert report["interference"]["mae"] < report["interference"]["mae_mean_rate"]


def test_what_cannot_be_scored_is_said_plainly(antecast, workload, tmp_path):
    files = ["--jobs", workload / "jobs.csv", "--pools", workload / "pools.csv", "--out", tmp_path]
    for arguments, words in (
        (["--train-until", 3 * DAY_S, "--eval-from", 2 * DAY_S], "before --train-until"),
        (["--train-until", -5, "--eval-from", 2 * DAY_S], "nothing to learn from"),
        (["--train-until", DAY_S, "--eval-from", 99 * DAY_S], "nothing is submitted"),
        (["--train-until", DAY_S, "--eval-from", DAY_S, "--parts", "lives"], "lives"),
        (["--train-until", DAY_S, "--eval-from", DAY_S, "--lives", "psychic"], "psychic"),
    ):
        result = antecast("evaluate", *files, *arguments)
        assert result.code == 2, arguments
        assert words in result.err
    broken = tmp_path / "broken.csv"
    broken.write_text("pool,time_s,gpus,quota_gpus\na,0,3,8\na,60,x,8\n")
    result = antecast(
        "evaluate",
        *files,
        "--train-until",
        DAY_S,
        "--eval-from",
        DAY_S,
        "--parts",
        "levels",
        "--series",
        broken,
    )
    assert result.code == 2
    assert f"{broken}:3" in result.err


def test_explain_gives_reasons_that_sum_to_the_forecast(antecast, workload):
    rows = (workload / "jobs.csv").read_text().splitlines()
    job_id = rows[-1].split(",")[0]
    result = antecast("explain", job_id, "--jobs", workload / "jobs.csv", "--watch-days", 1, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    total = found["base"] + sum(reason["contribution"] for reason in found["reasons"])
    assert total == pytest.approx(found["prediction"], abs=1e-6)
    assert found["similar"]
    assert all(one["job_id"] != job_id for one in found["similar"])
    told = antecast("explain", job_id, "--jobs", workload / "jobs.csv", "--watch-days", 1)
    assert told.out.startswith(f"Job {job_id} will run about ")
    assert "Past jobs like it" in told.out
    missing = antecast("explain", "nobody", "--jobs", workload / "jobs.csv")
    assert missing.code == 2
    assert "there is no job 'nobody'" in missing.err
