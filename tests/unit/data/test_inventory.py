"""Pools over time, tables of inventories, and the tables that simulations read."""

import csv
import io

import pytest
from kube_objects import imported, read, records, rules

from data.intake.driver import recognise
from data.inventory_records import NodeRecord, PoolRecord
from data.records import RecordError
from data.shelf.inventory import Inventory, merged_inventory
from data.shelf.inventory_export import exported
from data.stamps import NoZoneError, parse_stamp, zone

DAYS = """date,old,new,steady,total
2020-04-01,16,0,8,24
2020-04-02,8,8,8,24
2020-04-03,0,16,8,25
"""


def midnight(day, tz="UTC"):
    return parse_stamp(f"{day}T00:00:00", zone(tz)).epoch_s


def file(folder, text, name="found"):
    path = folder / name
    path.write_text(text)
    return path


def test_pools_are_born_grow_shrink_and_die(tmp_path):
    report, store = imported(file(tmp_path, DAYS), tmp_path / "h", tz="Asia/Shanghai")
    inventory = store.inventory("c")
    first = midnight("2020-04-01", "Asia/Shanghai")
    assert [inventory.capacity_gpus("old", first + k * 86_400) for k in range(3)] == [16, 8, 0]
    assert inventory.capacity_gpus("new", first + 86_400 - 1) == 0
    assert inventory.capacity_gpus("new", first - 1) is None
    assert inventory.capacity_gpus("steady", first + 99 * 86_400) == 8
    assert inventory.changes("steady") == [(first, 8)]
    assert inventory.pool_names() == ("new", "old", "steady")
    assert inventory.capacity_gpus("total", first) is None
    assert report.rules == {"total-disagrees": 1}


def test_days_need_the_clusters_zone(tmp_path):
    with pytest.raises(NoZoneError):
        read(file(tmp_path, DAYS))


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("2020-04-04,1,2,NA,", None),
        ("2020-04-04,1,2,x,3", "bad-number"),
        ("2020-04-04,1,2,1.5,3", "bad-number"),
        ("2020-04-04,1,-2,1,3", "bad-number"),
        ("2020-02-30,1,2,3,6", "bad-time"),
        ("soon,1,2,3,6", "bad-time"),
        ("2020-04-04,1,2,3,6,7", "field-count"),
    ],
)
def test_a_day_that_cannot_be_read(line, rule, tmp_path):
    rows = read(file(tmp_path, DAYS + line + "\n"), tz="UTC")
    assert rules(rows[3:]) == ([] if rule is None else [rule])
    unknown = [one.gpus for one in records(rows[3:]) if one.gpus is None]
    assert len(unknown) == (0 if rule in {"bad-time", "field-count"} else 1)


def test_later_imports_update_and_the_same_rows_change_nothing(tmp_path):
    imported(file(tmp_path, DAYS), tmp_path / "h", tz="UTC")
    mended = DAYS.replace("0,16,8,25", "0,17,8,25")
    report, store = imported(file(tmp_path, mended, "mended"), tmp_path / "h", tz="UTC")
    assert (report.new, report.updated, report.unchanged) == (0, 1, 8)
    assert store.inventory("c").capacity_gpus("new", midnight("2020-04-03")) == 17


def test_capacity_is_that_of_a_slow_search():
    pools = [
        PoolRecord("c", "p", gpus, float(from_s)) for from_s, gpus in ((10, 1), (20, 2), (30, None), (40, 4))
    ]
    inventory = Inventory(pools=tuple(reversed(pools)))
    for at_s in range(5, 50):
        held = [one for one in pools if one.from_s is not None and one.from_s <= at_s]
        assert inventory.capacity_gpus("p", at_s) == (held[-1].gpus if held else None)


def test_lists_of_machines_and_of_virtual_clusters(tmp_path):
    machines = file(tmp_path, "machineId, number of GPUs, single GPU mem\nm0,2, 12GB\n,8, 24GB\nm2,x, 24XB\n")
    assert recognise(machines)[0].name == "philly-machines"
    rows = read(machines)
    assert [(one.node, one.num_gpus, one.gpu_memory_mib) for one in records(rows)] == [
        ("m0", 2, 12_288),
        ("m2", None, None),
    ]
    assert [row.action for row in rows] == ["repaired", "rejected", "repaired"]
    pools = records(read(file(tmp_path, "vc,node num\n6214e9,64\n", "pools")))
    assert [(one.pool, one.gpus, one.num_nodes) for one in pools] == [("6214e9", None, 64)]


def test_nodes_of_openb(tmp_path):
    path = file(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,262144,0,\n")
    assert recognise(path)[0].name == "openb-nodes"
    assert [(one.node, one.num_gpus, one.gpu_type, one.cpus) for one in records(read(path))] == [
        ("n0", 2, "p100", 64.0),
        ("n1", 0, None, 32.0),
    ]


def test_several_rows_of_a_node_in_one_file_count_once():
    rows = [NodeRecord("c", "n", 8, pools=("a",)), NodeRecord("c", "n", 8, pools=("a", "b"))]
    inventory, counts = merged_inventory(Inventory(), rows, [])
    assert counts == (1, 0, 0)
    assert inventory.latest_nodes()[0].pools == ("a", "b")
    assert merged_inventory(inventory, rows, [])[1] == (0, 0, 1)


def test_negative_amounts_are_no_inventory():
    with pytest.raises(RecordError, match="negative"):
        NodeRecord("c", "n", -1)
    with pytest.raises(RecordError, match="negative"):
        PoolRecord("c", "p", 1, num_nodes=-1)


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_tables_as_of_an_instant():
    nodes = (
        NodeRecord("c", "n1", 8, gpu_type="a100", pools=("a",), seen_s=5.0),
        NodeRecord("c", "n1", 4, gpu_type="a100", pools=("a",), seen_s=50.0),
        NodeRecord("c", "n2", 4, pools=("a", "b"), seen_s=5.0),
        NodeRecord("c", "cpu", 0, pools=("b",), seen_s=5.0),
        NodeRecord("c", "mig", 0, mig_slices=(("1g.5gb", 7),), seen_s=5.0),
        NodeRecord("c", "what", None, seen_s=5.0),
    )
    pools = (PoolRecord("c", "a", 10, 0.0), PoolRecord("c", "a", 20, 40.0), PoolRecord("c", "x", None, 0.0))
    found = exported(Inventory(nodes, pools), 30.0)
    assert table(found.pools_csv()) == [{"pool": "a", "quota_gpus": "10"}, {"pool": "b", "quota_gpus": "4"}]
    assert table(found.nodes_csv()) == [
        {"node": "n1", "num_gpus": "8", "gpu_type": "a100", "pool": "a"},
        {"node": "n2", "num_gpus": "4", "gpu_type": "", "pool": ""},
    ]
    assert set(found.left_out) == {"node cpu", "node mig", "node what", "pool x"}
    latest = exported(Inventory(nodes, pools))
    assert (latest.pools[0].quota_gpus, latest.nodes[0].num_gpus) == (20, 4)


def test_tables_hold_no_formulas():
    found = exported(Inventory(pools=(PoolRecord("c", "=cmd()", 1),)))
    assert table(found.pools_csv())[0]["pool"] == "'=cmd()"
