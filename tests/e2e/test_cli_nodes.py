"""The command line with nodes: what they hold, what they do not, and what is said of it."""

import csv
import json
from pathlib import Path

import pytest

HEADER = "job_id,pool,submit_s,num_gpus,duration_s,gpu_type\n"
JOBS = f"{HEADER}a1,a,0,2,100,\na2,a,0,2,100,\nb1,b,0,4,100,\nb2,b,200,1,10,\n"


@pytest.fixture
def write(tmp_path):
    """Files of one replay, and the options that name them."""

    def write(nodes: str, jobs: str = JOBS) -> list[object]:
        (tmp_path / "jobs.csv").write_text(jobs)
        (tmp_path / "pools.csv").write_text("pool,quota_gpus\na,2\nb,4\n")
        (tmp_path / "nodes.csv").write_text(nodes)
        return [
            word for name in ("jobs", "pools", "nodes") for word in (f"--{name}", tmp_path / f"{name}.csv")
        ]

    return write


def starts(folder: Path) -> dict[str, str]:
    rows = csv.DictReader((folder / "schedule.csv").read_text().splitlines())
    return {row["job_id"]: row["start_s"] for row in rows}


@pytest.mark.parametrize("policy", ["reclaim", "maxmin"])
def test_what_the_nodes_have_beyond_the_quotas_is_lent_and_is_no_broken_rule(
    antecast, write, tmp_path, policy
):
    """Quotas of 6 on nodes of 8: a2 runs on the two GPUs that nobody was promised, beside a1 and b1."""
    inputs = write("node,num_gpus\nn0,4\nn1,4\n")
    out = tmp_path / "out"
    result = antecast("replay", *inputs, "--policy", policy, "--check-plans", "--out", out)
    assert result.code == 0, result.out + result.err
    assert starts(out) == {"a1": "0", "a2": "0", "b1": "0", "b2": "200"}
    report = json.loads((out / "report.json").read_text())
    assert report["faults"] == []
    assert report["cluster_gpus"] == 8
    use = report["use"]  # 800 GPU-seconds of 8 GPUs x 200 s
    assert use["utilisation_pct"] == pytest.approx(50.0)


def test_replay_says_what_placement_did_as_compare_does(antecast, write, tmp_path):
    inputs = write("node,num_gpus\nn0,4\nn1,4\n")
    antecast("replay", *inputs, "--policy", "maxmin", "--out", tmp_path / "one")
    antecast("compare", *inputs, "--policies", "maxmin", "--out", tmp_path / "both")
    told = json.loads((tmp_path / "one" / "report.json").read_text())["placement"]
    assert told["slowed_by_placement_jobs"] == 0
    assert told == json.loads((tmp_path / "both" / "maxmin" / "report.json").read_text())["placement"]


TYPED = "node,num_gpus,gpu_type\nn0,4,v100\nn1,4,a100\n"
NODES_OF_4 = "node,num_gpus\nn0,4\nn1,4\n"
BAD = [
    ("node,num_gpus\nn0,4\n", JOBS, "nodes.csv: quotas-above-nodes: the 1 nodes have 4 GPUs"),
    ("node,num_gpus\nn0,8\nn1,187000000\n", JOBS, "nodes.csv:3: out-of-range: num_gpus is 187000000"),
    (
        TYPED,
        f"{HEADER}a1,a,0,2,9,v100\na2,a,0,2,9,h100\n",
        "jobs.csv: unknown-gpu-type: job a2 asks for gpu_type h100, nodes have: a100, v100",
    ),
    (
        "node,num_gpus,gpu_type\nn0,3,v100\nn1,3,a100\n",
        f"{HEADER}b1,b,0,4,9,\nb2,b,0,3,9,\n",
        "jobs.csv: fits-no-nodes: job b1 asks for 4 GPUs on the fewest nodes of one type",
    ),
]


@pytest.mark.parametrize(("nodes", "jobs", "message"), BAD)
@pytest.mark.parametrize("command", ["replay", "compare", "why"])
def test_what_cannot_run_on_the_nodes_is_bad_input(antecast, write, tmp_path, command, nodes, jobs, message):
    asked = {
        "replay": ["--policy", "fcfs", "--out", tmp_path / "out"],
        "compare": ["--policies", "fcfs", "--out", tmp_path / "out"],
        "why": ["--policy", "fcfs", "--at", 0],
    }[command]
    result = antecast(command, *write(nodes, jobs), *asked)
    assert result.code == 2, result.err
    assert message in result.err
    assert not (tmp_path / "out").exists()


def test_a_gang_that_only_uneven_nodes_hold_is_no_fault(antecast, write, tmp_path):
    inputs = write("node,num_gpus\nn0,3\nn1,1\nn2,1\nn3,1\n", f"{HEADER}b1,b,0,4,9,\nb2,b,0,3,9,\n")
    result = antecast("replay", *inputs, "--policy", "fcfs", "--out", tmp_path / "out")
    assert result.code == 0, result.err
    assert starts(tmp_path / "out") == {"b1": "0", "b2": "9"}


def test_lenient_leaves_out_what_no_nodes_hold_and_lists_it(antecast, write, tmp_path):
    jobs = f"{HEADER}a1,a,0,2,9,v100\na2,a,0,2,9,h100\n"
    out = tmp_path / "out"
    result = antecast("replay", *write(TYPED, jobs), "--policy", "fcfs", "--lenient", "--out", out)
    assert result.code == 0, result.err
    assert "skipped" in result.err
    assert "job a2 asks for gpu_type h100" in result.err
    assert starts(out) == {"a1": "0"}


def test_jobs_that_are_only_learned_from_may_have_run_on_what_is_gone(antecast, write, tmp_path):
    jobs = f"{HEADER}a1,a,0,2,9,k80\na2,a,50,2,9,v100\n"
    result = antecast(
        "replay", *write(TYPED, jobs), "--policy", "fcfs", "--train-until", 20, "--out", tmp_path / "out"
    )
    assert result.code == 0, result.err


@pytest.mark.parametrize("text", ["", " , "])
def test_compare_of_no_policy_is_bad_usage(antecast, write, tmp_path, text):
    result = antecast("compare", *write(NODES_OF_4), "--policies", text, "--out", tmp_path / "out")
    assert result.code == 2
    assert "names no policy" in result.err
