"""Nodes and partitions of Slurm, from every shape of its output."""

import json

import pytest
from kube_objects import imported, read, records, rules

from data.intake.driver import recognise
from data.slurm.hostlists import expand_hosts
from data.slurm.node_states import parse_node_state

ON_ONE_LINE = (
    "NodeName=gpu{n} Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUTot=64 CPULoad=0.0 AvailableFeatures=a100 "
    "Gres=gpu:a100:8(S:0-1) NodeAddr=gpu{n} OS=Linux 5.15.0 #1 SMP Tue RealMemory=1031000 AllocMem=0 "
    "State={state} ThreadsPerCore=1 Partitions=gpu,all BootTime=2026-01-01T00:00:00 "
    "CfgTRES=cpu=64,mem=1031000M,billing=64,gres/gpu=8 AllocTRES= Reason=x State=IDLE Gres=gpu:99 [root@now]"
)


def file(folder, text):
    path = folder / "found"
    path.write_text(text)
    return path


def test_a_reason_that_looks_like_fields_is_none(tmp_path):
    rows = read(file(tmp_path, "\n".join(ON_ONE_LINE.format(n=k, state="IDLE+DRAIN") for k in (1, 2))))
    found = records(rows)
    assert [(one.node, one.num_gpus, one.state, one.is_available) for one in found] == [
        ("gpu1", 8, "IDLE+DRAIN", False),
        ("gpu2", 8, "IDLE+DRAIN", False),
    ]
    assert {one.pools for one in found} == {("gpu", "all")}
    assert {one.num_gpus_in_use for one in found} == {0}
    assert (found[0].cpus, found[0].memory_mib, found[0].gpu_type) == (64, 1_031_000, "a100")


def test_a_line_that_cannot_be_read_costs_its_node_only(tmp_path):
    broken = "NodeName=a Arch=x\n   CPUTot=4 Gres=gpu:2\x00\n   State=IDLE\n\n"
    text = broken + "NodeName=b CPUTot=4\n   Gres=gpu:2 State=IDLE\n"
    rows = read(file(tmp_path, text))
    assert [one.node for one in records(rows)] == ["b"]
    assert rules(rows) == ["nul-byte"]


@pytest.mark.parametrize(
    ("state", "is_available"),
    [
        ("IDLE", True), ("idle", True), ("MIXED", True), ("mix-", True), ("ALLOCATED+CLOUD", True),
        ("plnd", True),
        ("IDLE+CLOUD+POWERED_DOWN", True), ("idle~", True), ("mixed#", True), ("IDLE+REBOOT_REQUESTED", True),
        ("comp", True), ("IDLE+COMPLETING", True), ("alloc+", True),
        ("IDLE+DRAIN", False), ("drained", False), ("drng*", False), ("MIXED*", False), ("DOWN~", False),
        ("idle%", False), ("DOWN+NOT_RESPONDING", False), ("maint", False), ("IDLE+MAINTENANCE", False),
        ("IDLE$", False), ("resv", False), ("FUTURE", False), ("fail", False), ("INVALID_REG+IDLE", False),
        ("UNKNOWN", None), ("IDLE+SOMETHING_NEW", None), ("DOWN+SOMETHING_NEW", False), ("", None),
    ],
)  # fmt: skip
def test_what_a_state_says_of_whether_jobs_may_start(state, is_available):
    assert parse_node_state(state).is_available is is_available


def test_an_unknown_state_is_told_and_costs_nothing(tmp_path):
    rows = read(file(tmp_path, ON_ONE_LINE.format(n=1, state="IDLE+SOMETHING_NEW")))
    assert records(rows)[0].is_available is None
    assert rules(rows) == ["unknown-state"]


BY_NODE = """NODELIST PARTITION GRES STATE
g1 gpu* gpu:a100:8(S:0-1) mixed
g2 gpu* gpu:a100:8 idle
g2 all gpu:a100:8 idle
"""
PARSABLE = """HOSTNAMES|PARTITION|GRES|STATE|
g1|gpu*|gpu:a100:8|mixed|
g2|gpu*|gpu:a100:8|idle|
g2|all|gpu:a100:8|idle|
"""
LONG = """Mon Mar 02 08:00:00 2026
NODELIST NODES PARTITION STATE GRES REASON
g1 1 gpu* mixed gpu:a100:8 Not responding
g2 1 gpu* idle gpu:a100:8 none
g2 1 all idle gpu:a100:8 none
"""
LISTS = """PARTITION AVAIL TIMELIMIT NODES GRES STATE NODELIST
gpu* up 2-00:00:00 1 gpu:a100:8 mix g1
gpu* up 2-00:00:00 1 gpu:a100:8 idle g2
all up infinite 1 gpu:a100:8 idle g[2]
"""


@pytest.mark.parametrize("text", [BY_NODE, PARSABLE, LONG, LISTS])
def test_text_of_sinfo_in_several_forms(text, tmp_path):
    path = file(tmp_path, text)
    assert recognise(path)[0].name == "sinfo"
    report, store = imported(path, tmp_path / "h")
    inventory = store.inventory("c")
    assert report.rejected == 0
    assert [(one.node, one.num_gpus, one.pools) for one in inventory.nodes] == [
        ("g1", 8, ("gpu",)),
        ("g2", 8, ("gpu", "all")),
    ]
    assert [(one.pool, one.gpus, one.num_nodes) for one in inventory.pools] == [("all", 8, 1), ("gpu", 16, 2)]


def test_partitions_of_sinfo_have_their_limits_and_may_be_empty(tmp_path):
    header = "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\n"
    text = header + "gpu* up 2-00:00:00 3 idle g[1-2,04]\nnew up infinite 0 n/a \n"
    found = {one.pool: one for one in records(read(file(tmp_path, text))) if hasattr(one, "pool")}
    assert (found["gpu"].max_time_s, found["gpu"].num_nodes, found["gpu"].gpus) == (172_800.0, 3, None)
    assert (found["new"].max_time_s, found["new"].num_nodes) == (None, 0)


def test_a_list_that_disagrees_with_its_count_is_told(tmp_path):
    text = "PARTITION NODES STATE NODELIST\ngpu 4 idle g[1-2]\nbad 1 idle g[9-2]\nshort 1\n"
    assert rules(read(file(tmp_path, text))) == ["node-list-mismatch", "bad-node-list", "field-count"]


def node(**more):
    return {
        "name": "g1",
        "cpus": 64,
        "real_memory": 1000,
        "gres": "gpu:a100:8",
        "partitions": ["gpu"],
        **more,
    }


@pytest.mark.parametrize(
    "found",
    [
        node(
            state="mixed",
            state_flags=["DRAIN"],
            gres_used="gpu:a100:3(IDX:0-2)",
            tres="cpu=64,gres/gpu=8",
            boot_time=1,
        ),
        node(
            state=["MIXED", "DRAIN"],
            gres_used="gpu:a100:3",
            tres="cpu=64,gres/gpu=8",
            boot_time={"set": True, "number": 1},
        ),
        node(state=["MIXED", "DRAIN"], tres_used="cpu=1,gres/gpu=3", tres="cpu=64,gres/gpu=8", cpu_load=1),
        node(
            state=["MIXED", "DRAIN"],
            tres=[{"type": "cpu", "name": "", "count": 64}, {"type": "gres", "name": "gpu", "count": 8}],
            tres_used=[{"type": "gres", "name": "gpu", "count": 3}],
            boot_time=1,
        ),
    ],
)
def test_json_of_several_versions(found, tmp_path):
    path = file(tmp_path, json.dumps({"meta": {"plugin": {}}, "nodes": [found], "last_update": 1}))
    assert recognise(path)[0].name == "slurm-nodes-json"
    (record,) = records(read(path))
    assert (record.num_gpus, record.num_gpus_in_use, record.is_available, record.pools) == (
        8,
        3,
        False,
        ("gpu",),
    )
    assert (record.cpus, record.memory_mib) == (64, 1000)


def test_json_of_sinfo_has_groups_of_nodes(tmp_path):
    group = {
        "nodes": {"total": 2, "nodes": ["g1", "g2"]},
        "node": {"state": ["IDLE"]},
        "partition": {"name": "gpu", "maximums": {"time": {"set": True, "infinite": False, "number": 2880}}},
        "gres": {"total": "gpu:a100:8", "used": "gpu:a100:0(IDX:N/A)"},
        "cpus": {"maximum": 64},
        "memory": {"maximum": 1000},
    }
    found = records(read(file(tmp_path, json.dumps({"sinfo": [group]}))))
    assert [(one.node, one.num_gpus, one.num_gpus_in_use) for one in found[:2]] == [
        ("g1", 8, 0),
        ("g2", 8, 0),
    ]
    assert (found[2].pool, found[2].gpus, found[2].max_time_s) == ("gpu", 16, 172_800.0)


def test_partitions_with_and_without_tracked_gpus(tmp_path):
    text = (
        "PartitionName=gpu\n   AllowGroups=ALL\n   MaxNodes=UNLIMITED MaxTime=2-00:00:00\n   Nodes=g[1-4]\n"
        "   State=UP TotalCPUs=256 TotalNodes=4\n   TRES=cpu=256,mem=4T,node=4,gres/gpu=32\n\n"
        "PartitionName=cpu\n   MaxTime=UNLIMITED State=UP TotalNodes=9\n   TRES=cpu=9,node=9\n"
    )
    path = file(tmp_path, text)
    assert recognise(path)[0].name == "scontrol-partition"
    assert [(one.pool, one.gpus, one.num_nodes, one.max_time_s) for one in records(read(path))] == [
        ("gpu", 32, 4, 172_800.0),
        ("cpu", None, 9, None),
    ]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("g[01-03,07],login1", ["g01", "g02", "g03", "g07", "login1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a,a", ["a"]),
        ("", []),
    ],
)
def test_lists_of_hosts(text, hosts):
    assert list(expand_hosts(text)) == hosts


@pytest.mark.parametrize(
    "text", ["g[1-", "g1]", "g[2-1]", "g[a-b]", "g[1-99999999]", "g[1-300]h[1-300]", "g[[1]]"]
)
def test_what_is_no_list_of_hosts(text):
    with pytest.raises(ValueError, match=r"host|brackets"):
        expand_hosts(text)
