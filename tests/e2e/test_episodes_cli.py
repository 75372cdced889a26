"""`antecast episodes`: when a replay slowed jobs, and why."""

import json

import pytest

POOLS = "pool,quota_gpus\na,1\nb,1\n"
JOBS = """job_id,pool,submit_s,num_gpus,duration_s
b1,b,0,1,1000
b2,b,0,1,1000
a1,a,10,1,5
"""


@pytest.fixture
def inputs(tmp_path):
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "pools.csv").write_text(POOLS)
    return ["--jobs", tmp_path / "jobs.csv", "--pools", tmp_path / "pools.csv"]


def test_it_tells_who_was_hurt_and_who_was_on_the_lent_gpus(antecast, inputs, tmp_path):
    assert antecast("replay", *inputs, "--policy", "maxmin", "--out", tmp_path / "out").code == 0
    result = antecast("episodes", tmp_path / "out", *inputs)
    assert result.code == 0, result.err
    said = " ".join(result.out.split())
    assert "maxmin: 1 jobs slowed in 1 episodes" in said
    assert "on lent GPUs: 1 GPUs of b (1 x 1" in said
    assert "cause: " in said
    (told,) = json.loads((tmp_path / "out" / "episodes.json").read_text())
    assert (told["pools"], told["begin_s"], told["end_s"]) == ({"a": 1}, 10.0, 1000.0)
    result = antecast("episodes", tmp_path / "out", *inputs, "--json")
    assert json.loads(result.out) == [told]


def test_it_finds_the_forecasts_of_lives_again(antecast, inputs, tmp_path):
    settings = ["--set", "confidence=0.01"]
    antecast("replay", *inputs, "--policy", "sia", *settings, "--out", tmp_path / "out")
    result = antecast("episodes", tmp_path / "out", *inputs, "--json")
    assert result.code == 0, result.err
    assert isinstance(json.loads(result.out), list)


def test_another_file_of_jobs_or_no_replay_is_refused(antecast, inputs, tmp_path):
    antecast("replay", *inputs, "--policy", "maxmin", "--out", tmp_path / "out")
    (tmp_path / "jobs.csv").write_text(JOBS + "a2,a,20,1,5\n")
    result = antecast("episodes", tmp_path / "out", *inputs)
    assert result.code == 2
    assert "is one of other jobs" in result.err
    result = antecast("episodes", tmp_path, *inputs)
    assert result.code == 2
    assert "holds no report.json" in result.err
