"""The command pack: published columns, MIG slices by their legal starts, and how it refuses."""

import csv
import json
import sys
from dataclasses import replace

import pytest

from app import cli
from app.services import pack_pods
from solver.sharing.rules import RULES

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,65536,2,T4\nn1,32000,65536,1,P100\n"
OPENB_PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p0,4000,1024,1,470,,LS
p1,4000,1024,1,500,T4|P100,LS
p2,4000,1024,2,1000,T4,BE
p3,40000,1024,0,0,,BE
p4,1000,1024,1,100,A10,BE
"""
MIG_NODES = "node,num_gpus,gpu_type,cpu_milli,memory_mib,partitioned\nm0,1,A100-40GB,64000,262144,1\n"


@pytest.fixture
def pack(tmp_path, monkeypatch, capsys):
    def go(*options: object, nodes: str = OPENB_NODES, pods: str = OPENB_PODS) -> tuple[int, str, str]:
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "pods.csv").write_text(pods)
        files = ["--nodes", tmp_path / "nodes.csv", "--pods", tmp_path / "pods.csv"]
        monkeypatch.setattr(sys, "argv", ["antecast", "pack", *map(str, (*files, *options))])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return go


def told(pack, *options, **files) -> dict:
    code, out, err = pack("--json", "-", *options, **files)
    assert code == 0, err
    return json.loads(out)


def by_job(document: dict) -> dict[str, tuple[str, str, str]]:
    (rule,) = document["rules"]
    return {row["job_id"]: (row["gpus"], row["start"], row["why"]) for row in rule["jobs_placed"]}


def test_published_files_are_packed_as_they_are_and_nobody_is_lost(pack):
    document = told(pack, "--rule", "packing")
    jobs = by_job(document)
    assert jobs["p0"] == jobs["p1"] == ("n1/0", "", "")
    assert jobs["p2"] == ("n0/0;n0/1", "", "")
    assert [jobs[name][2] for name in ("p3", "p4")] == [
        "larger-than-nodes",
        "unknown-gpu-type",
    ]
    (row,) = document["rules"]
    assert (row["jobs"], row["placed"], row["allocated_gpus"]) == (5, 3, pytest.approx(2.97))
    assert row["left_out"] == {"larger-than-nodes": 1, "unknown-gpu-type": 1}


def test_slices_lie_where_they_may(pack):
    """A 1g slice in the second half keeps the second 3g out; 4g only ever begins at 0."""
    profiles = {"a": "3g.20gb", "b": "1g.5gb", "c": "3g.20gb", "d": "4g.20gb", "e": "2g.10gb", "f": "7g.80gb"}
    pods = "job_id,num_gpus,profile\n" + "".join(f"{k},1,{one}\n" for k, one in profiles.items())
    jobs = by_job(told(pack, nodes=MIG_NODES, pods=pods))
    starts = {name: start for name, (_, start, _) in jobs.items()}
    assert {starts["a"], starts["c"]} <= {"0", "4", ""}
    assert jobs["d"][2] == "no-slice"
    assert jobs["f"][2] == "no-such-slice"
    order = "job_id,num_gpus,profile\na,1,4g.20gb\nb,1,3g.20gb\nc,1,1g.5gb\n"
    jobs = by_job(told(pack, nodes=MIG_NODES, pods=order))
    assert [jobs[name][1] for name in "ab"] == ["0", "4"]
    assert jobs["c"][2] == "no-slice"


def test_all_rules_stand_in_one_table(pack, tmp_path):
    code, out, _ = pack("--rule", "all", "--out", tmp_path / "out")
    assert code == 0
    assert all(f" {rule} " in out for rule in RULES)
    rows = list(csv.DictReader((tmp_path / "out" / "rules.csv").read_text().splitlines()))
    assert [row["rule"] for row in rows] == list(RULES)
    assert len((tmp_path / "out" / "jobs.csv").read_text().splitlines()) == 1 + 5 * len(RULES)
    assert json.loads((tmp_path / "out" / "packing.json").read_text())["seed"] == 0


def test_one_rule_says_where_each_job_went_and_why_others_did_not(pack):
    code, out, _ = pack("--rule", "fgd")
    assert code == 0
    said = " ".join(out.split())
    assert "p2 n0/0;n0/1" in said
    assert "p4 unknown-gpu-type no node has GPUs of a type that it accepts" in said
    assert "fgd: no place for 1 larger-than-nodes, 1 " in said


def test_the_same_seed_draws_the_same_and_the_order_of_nodes_decides_nothing(pack):
    pods = "job_id,num_gpus,gpu_milli\n" + "".join(f"j{k},1,300\n" for k in range(12))
    head, *rows = OPENB_NODES.strip().split("\n")
    turned = "\n".join((head, *reversed(rows))) + "\n"
    for rule in ("random", "complement", "bestfit"):
        options = ("--rule", rule, "--seed", 3)
        assert told(pack, *options, pods=pods) == told(pack, *options, pods=pods, nodes=turned)


def test_gpus_of_no_said_type_are_any_types(pack):
    nodes = "node,num_gpus,cpu_milli,memory_mib\nn0,1,1000,1000\n"
    jobs = by_job(told(pack, nodes=nodes, pods="job_id,num_gpus,gpu_types\na,1,T4\n"))
    assert jobs["a"][0] == "n0/0"


def test_shares_of_several_gpus_are_refused_unless_they_are_meant(pack):
    pods = "job_id,num_gpus,gpu_milli\na,2,500\n"
    code, _, err = pack(pods=pods)
    assert code == 2
    assert "pods.csv:2: shares-of-several: num_gpus is 2 and gpu_milli 500" in err
    assert by_job(told(pack, "--shares-of-several", pods=pods))["a"][0] == "n0/0;n0/1"


def test_bad_rows_are_listed_and_skipped_only_on_request(pack):
    pods = "job_id,num_gpus,gpu_milli,profile\na,1,500,\nb,1,0,\nc,1,,9g.99gb\n"
    code, _, err = pack(pods=pods)
    assert code == 2
    assert "pods.csv:3: no-share" in err
    code, out, err = pack("--lenient", pods=pods)
    assert code == 0
    assert "skipped" in err
    assert "pods.csv:3: no-share" in err
    assert "pods.csv:4: unknown-profile: profile is 9g.99gb" in err
    assert "1 of 1" in out


BAD = [
    ({"nodes": "node,num_gpus\nn0,1\n"}, "nodes.csv:1: missing-column"),
    ({"nodes": MIG_NODES.replace("A100-40GB", "T4")}, "nodes.csv:2: no-mig-mode: gpu_type is T4"),
    ({"nodes": MIG_NODES + "m0,1,A100-40GB,1,1,0\n"}, "nodes.csv:3: duplicate-node"),
    ({"pods": "job_id,num_gpus\n"}, "pods.csv: no-rows"),
    ({"pods": "name,num_gpu,job_id\na,1,b\n"}, "pods.csv:1: duplicate-column"),
    ({"pods": "job_id,num_gpus\na,1\na,1\n"}, "pods.csv:3: duplicate-id"),
    ({"pods": "job_id,num_gpus,profile\na,1,8g.1gb\n"}, "pods.csv:2: unknown-profile"),
]


@pytest.mark.parametrize(("files", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_input_names_file_line_and_rule(pack, files, said):
    code, _, err = pack(**files)
    assert code == 2
    assert said in err


def test_an_unknown_rule_says_which_there_are(pack):
    code, _, err = pack("--rule", "magic")
    assert code == 2
    assert "unknown rule 'magic'; there are: random" in err


def test_a_packing_that_breaks_a_rule_is_not_shown(pack, monkeypatch):
    class Broken(pack_pods.Placer):
        def place(self, demand):
            spot = super().place(demand)
            return None if spot is None else replace(spot, gpus=spot.gpus[:0])

    monkeypatch.setattr(pack_pods, "Placer", Broken)
    code, out, err = pack()
    assert (code, out) == (3, "")
    assert "p0 asks for 1 GPUs and gets 0" in err


def test_nodes_without_cpus_and_jobs_without_gpus_are_no_reason_to_fail(pack):
    nodes = "node,num_gpus,cpu_milli,memory_mib\nn0,0,0,0\n"
    for rule in RULES:
        document = told(pack, "--rule", rule, nodes=nodes, pods="job_id,num_gpus\na,0\n")
        assert document["rules"][0]["placed"] == 1, rule


def test_help_has_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["antecast", "pack", "--help"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    assert "antecast pack --nodes nodes.csv" in " ".join(capsys.readouterr().out.split())
