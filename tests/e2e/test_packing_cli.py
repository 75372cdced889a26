"""The commands `antecast packing` through the door of the shell."""

import json
from pathlib import Path

PAIRS = (
    "model_a,model_b,rate_a,rate_b,share_a_pct,share_b_pct\nbig,small,0.85,0.9,,\nbig,small,0.97,0.7,100,40\n"
)
NODES = "node,num_gpus,gpu_type\nn0,4,A100\n"
RUNNING = """job_id,model,gpus,left_s,memory_mib,gpu_memory_mib,may_host
j1,big,n0/0-1,9000,9000,40960,
j2,big,n0/2,,,,0
"""


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_two_jobs_from_the_shipped_estimates(antecast) -> None:
    asked = ("packing", "advise", "--job", "ResNet-50,left_s=7200", "--job", "Graph network")
    told = antecast(*asked, "--gpu-memory-mib", 40960)
    assert told.code == 0, told.err
    assert "estimated from profiles" in told.out
    assert "host slowed by more than 10 %" in told.out
    document = json.loads(antecast(*asked, "--json", "-", "--objective", "promise").out)
    assert document["pack"] is True
    assert document["shares"]["rider_pct"] < document["shares"]["host_pct"] == 100.0
    assert document["rates"]["host"]["lower"] >= 0.9
    assert document["risk"]["unfit_chance"] is None


def test_the_best_host_of_a_cluster_from_an_operators_pairs(antecast, tmp_path) -> None:
    files = [
        *("--pairs", put(tmp_path, "pairs.csv", PAIRS)),
        *("--jobs", put(tmp_path, "running.csv", RUNNING), "--nodes", put(tmp_path, "nodes.csv", NODES)),
    ]
    asked = ("packing", "advise", "--job", "small,left_s=1800,memory_mib=3000", *files)
    told = antecast(*asked, "--objective", "promise", "--budget-pct", 10)
    assert told.code == 0, told.err
    assert "best host: j1" in told.out
    assert "no host: j2 has not consented to share" in told.out
    document = json.loads(antecast(*asked, "--json", "-").out)
    assert document["best_host"] == "j1"
    assert document["hosts"][0]["basis"] == "measured"


def test_a_file_of_measurements_is_checked(antecast, tmp_path) -> None:
    told = antecast("packing", "profile-check", put(tmp_path, "pairs.csv", PAIRS))
    assert told.code == 0
    assert "1 settings are measured under MPS shares" in told.out
    profiles = antecast("packing", "profile-check", put(tmp_path, "p.csv", "model,memory_mib\nx,900\n"))
    assert "1 with memory_mib" in profiles.out
    bad = antecast("packing", "profile-check", put(tmp_path, "bad.csv", PAIRS + "big,big,0.5,0.5,60,60\n"))
    assert bad.code == 2
    assert "bad.csv:4: no-free-rates" in bad.err


def test_what_makes_no_sense_is_refused_with_2(antecast, tmp_path) -> None:
    advise = ("packing", "advise", "--job", "x")
    assert antecast(*advise).code == 2
    assert antecast(*advise, "--job", "y", "--objective", "speed").code == 2
    assert antecast(*advise, "--nodes", put(tmp_path, "nodes.csv", NODES)).code == 2
    bad = put(tmp_path, "running.csv", RUNNING.replace("n0/2", "n0/9"))
    told = antecast(*advise, "--nodes", tmp_path / "nodes.csv", "--jobs", bad)
    assert told.code == 2
    assert "running.csv:3: unknown-gpu" in told.err
