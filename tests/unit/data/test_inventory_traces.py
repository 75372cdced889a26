"""Inventory files of public traces come in whole, with counts that add up."""

import csv

import pytest
from kube_objects import imported
from support import BENCH_ROOT, needs_bench_data

from data.shelf.inventory_export import exported
from data.stamps import parse_stamp, zone

pytestmark = needs_bench_data

TRACES = BENCH_ROOT / "traces"


@pytest.mark.parametrize(
    ("file", "file_format", "rows", "nodes", "gpus"),
    [
        ("philly_machine_list.csv", "philly-machines", 552, 552, 321 * 2 + 231 * 8),
        ("openb/openb_node_list_gpu_node.csv", "openb-nodes", 1213, 1213, 6212),
        ("openb/openb_node_list_gpu_node.parquet", "openb-nodes", 1213, 1213, 6212),
        ("openb/openb_node_list_all_node.parquet", "openb-nodes", 1523, 1523, 6212),
    ],
)
def test_every_node_is_there(file, file_format, rows, nodes, gpus, tmp_path):
    report, store = imported(TRACES / file, tmp_path / "h")
    inventory = store.inventory("c")
    assert (report.format, report.read, report.rejected) == (file_format, rows, 0)
    assert (report.new, len(inventory.nodes)) == (nodes, nodes)
    assert sum(one.num_gpus or 0 for one in inventory.nodes) == gpus
    table = exported(inventory)
    assert sum(one.num_gpus for one in table.nodes) == gpus
    assert len(table.nodes) + sum(name.startswith("node") for name in table.left_out) == nodes


def test_virtual_clusters_have_their_nodes(tmp_path):
    report, store = imported(TRACES / "philly_vc_nodes.csv", tmp_path / "h")
    pools = store.inventory("c").pools
    assert (report.read, report.accepted, len(pools)) == (11, 11, 11)
    with (TRACES / "philly_vc_nodes.csv").open() as file:
        assert {one.pool: one.num_nodes for one in pools} == {
            row["vc"]: int(row["node num"]) for row in csv.DictReader(file)
        }


def test_capacity_is_that_of_the_file_at_every_day_and_pool(tmp_path):
    path = TRACES / "earth_vc_gpus_daily.csv"
    report, store = imported(path, tmp_path / "h", tz="Asia/Shanghai")
    inventory = store.inventory("c")
    assert (report.read, report.accepted, report.rules) == (181, 181, {})
    with path.open() as file:
        days = list(csv.DictReader(file))
    checked = 0
    for day in days:
        begin_s = parse_stamp(f"{day['date']}T00:00:00", zone("Asia/Shanghai")).epoch_s
        for pool, gpus in day.items():
            if pool not in {"date", "total"}:
                for at_s in (begin_s, begin_s + 43_200, begin_s + 86_399):
                    assert inventory.capacity_gpus(pool, at_s) == int(gpus)
                checked += 1
    assert checked == 181 * 25
    born = [pool for pool in inventory.pool_names() if days[0][pool] == "0"]
    dead = [pool for pool in inventory.pool_names() if days[0][pool] != "0" and days[-1][pool] == "0"]
    assert born
    assert dead
