"""`antecast what-if` over files."""

import json

import pytest

FILES = (
    "--jobs",
    "jobs.csv",
    "--pools",
    "pools.csv",
    "--base-policy",
    "reclaim",
    "--base-set",
    "requeueable=1",
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["job_id,pool,submit_s,num_gpus,duration_s,user"]
    for number in range(90):
        pool = ("vision", "speech")[number % 3 == 0]
        lines.append(
            f"j{number},{pool},{3600 * number},{1 + number % 2},{4000 + 3000 * (number % 4)},u{number % 3}"
        )
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "pools.csv").write_text("pool,quota_gpus\nvision,2\nspeech,2\n")
    (tmp_path / "nodes.csv").write_text("node,num_gpus\nn1,2\nn2,2\nn3,2\n")
    (tmp_path / "s.toml").write_text('days = 2\n[[changes]]\nkind = "quota"\npool = "vision"\nby_gpus = 1\n')
    return tmp_path


@pytest.mark.usefixtures("files")
def test_an_answer_as_json_and_as_tables(antecast):
    flags = ["--scenario", "s.toml", "--arrivals", "speech=x1.5", "--gang", "vision:2@+5h/1h"]
    one, two = (antecast("what-if", *FILES, *flags, "--json") for _ in range(2))
    assert one.code == 0, one.err
    assert one.out == two.out
    answer = json.loads(one.out)
    assert answer["units"]["kind"] == "days"
    assert answer["units"]["number"] == 2
    assert [change["kind"] for change in answer["question"]["changes"]] == ["quota", "arrivals", "gang"]
    assert answer["changed"]["jobs"] > answer["baseline"]["jobs"]
    shown = antecast("what-if", *FILES, *flags, "--futures", "2", "--future-days", "1")
    assert shown.code == 0, shown.err
    for words in ("2 futures", "mean wait, h", "vision", "user", "width, GPUs"):
        assert words in shown.out


@pytest.mark.usefixtures("files")
def test_nodes_are_placed_on_and_can_go(antecast):
    result = antecast(
        "what-if", *FILES, "--nodes", "nodes.csv", "--remove-node", "n3", "--days", "2", "--json"
    )
    assert result.code == 0, result.err
    worlds = json.loads(result.out)["worlds"]
    assert [len(worlds[name]["nodes"]) for name in ("baseline", "changed")] == [3, 2]
    assert worlds["baseline"]["is_placed"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "nothing is different"),
        (["--quota", "nix=1"], "changes[0] (quota): unknown-pool"),
        (["--eps", "0.5%"], "changes[0] (settings): refused: policy reclaim has no setting 'eps'"),
        (["--eps", "0.5"], "is 0.5% meant?"),
        (["--gang", "vision:9@+1h"], "changes[0] (gang): wider-than-quota"),
        (["--gang", "vision:1@2026-11-02"], "say it (--origin)"),
        (["--scenario", "pools.csv"], "not-a-scenario"),
        (["--quota", "vision=3", "--futures", "0"], "futures.count is 0"),
        (["--quota", "vision=3", "--cluster", "c"], "give either --jobs and --pools"),
        (["--quota", "vision=3", "--requeueable-pool", "nix"], "no pool 'nix'"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_goes_wrong_is_said_clearly(antecast, flags, words):
    result = antecast("what-if", *FILES, *flags)
    assert result.code == 2
    assert words in " ".join(result.err.replace("│", " ").split())
    assert "Traceback" not in result.err
