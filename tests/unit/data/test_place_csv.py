"""Files of one placing and of one packing: what is read, and how bad rows are told."""

from pathlib import Path

import pandas as pd
import pytest

from data.gpu_lists import GpuListError, gpus_text, parse_gpus
from data.readers.place_csv import read_holds, read_running, read_waiting
from data.readers.share_csv import pods_of, read_hosts, read_pods
from domain.cluster import Gpu, Node
from domain.errors import InputError

NODES = (Node("n0", 8, "a100"), Node("rack/n1", 4, "v100"))
BY_NAME = {node.name: node for node in NODES}


def write(folder: Path, text: str) -> Path:
    path = folder / "file.csv"
    path.write_text(text)
    return path


def faults(read, *arguments, **more) -> list[tuple[int | None, str]]:
    with pytest.raises(InputError) as caught:
        read(*arguments, **more)
    return [(fault.line, fault.rule) for fault in caught.value.faults]


def test_gpus_read_back_as_they_were_written():
    gpus = (*NODES[0].gpus()[2:5], NODES[1].gpus()[0])
    assert gpus_text(gpus) == "n0/2;n0/3;n0/4;rack/n1/0"
    assert parse_gpus(gpus_text(gpus), BY_NAME) == gpus
    assert parse_gpus(" n0/2-4 ; rack/n1/0", BY_NAME) == gpus


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("n0", "not-gpus"),
        (";", "not-gpus"),
        ("n0/5-3", "not-gpus"),
        ("n0/-1", "not-gpus"),
        ("n0/8", "unknown-gpu"),
        ("n0/7-99999", "unknown-gpu"),
        ("n7/0", "unknown-gpu"),
        ("n0/1;n0/0-2", "gpu-named-twice"),
    ],
)
def test_a_list_of_gpus_that_breaks_a_rule_says_which(text, rule):
    with pytest.raises(GpuListError) as caught:
        parse_gpus(text, BY_NAME)
    assert caught.value.rule == rule


def test_what_a_waiting_gang_leaves_empty_is_the_common_case(tmp_path):
    text = "job_id,num_gpus,guest,value,gpus,gpu_type\na,2,,,,\nb,1,1,7,n0/3,a100\n"
    (a, b), skipped = read_waiting(write(tmp_path, text), NODES)
    assert (a.job.pool, a.job.submit_s, a.is_guest, a.value, a.gpus) == ("", 0.0, False, None, ())
    assert (b.is_guest, b.value, b.gpus) == (True, 7, (Gpu("n0", 3, "a100"),))
    assert skipped == ()
    (only,), _ = read_waiting(write(tmp_path, "job_id,num_gpus\na,2\n"), NODES)
    assert only == a


def test_bad_waiting_rows_are_all_named_and_can_be_skipped(tmp_path):
    rows = "a,1,,\nb,0,,\nc,2,2,\nd,2,,n0/0\na,1,,\ne,1,,n0/0;x\nf,1,,n0/1\ng,1,,n0/1\nh,2,,n0/2;rack/n1/0\n"
    path = write(tmp_path, "job_id,num_gpus,guest,gpus\n" + rows)
    expected = [
        (3, "width-below-one"),
        (4, "out-of-range"),
        (5, "gang-not-whole"),
        (6, "duplicate-id"),
        (7, "not-gpus"),
        (9, "gpu-named-twice"),
        (10, "gpu-of-wrong-type"),
    ]
    assert faults(read_waiting, path, NODES) == expected
    gangs, skipped = read_waiting(path, NODES, is_lenient=True)
    assert [one.job.job_id for one in gangs] == ["a", "f"]
    assert [(fault.line, fault.rule) for fault in skipped] == expected


def test_running_gangs_are_as_wide_as_their_gpus_and_stay_unless_it_says_otherwise(tmp_path):
    text = "job_id,gpus,movable,move_cost\nr,n0/0-3,,\ns,rack/n1/0;n0/4,1,2.5\n"
    r, s = read_running(write(tmp_path, text), NODES)
    assert (r.job.num_gpus, r.is_movable, r.move_cost) == (4, False, None)
    assert (s.job.num_gpus, s.is_movable, s.move_cost) == (2, True, 2.5)
    assert read_running(write(tmp_path, "job_id,gpus\n"), NODES) == ()


def test_bad_running_rows_are_refused(tmp_path):
    rows = "r,n0/0-3,3,,0\ns,n0/0,,,0\nt,n0/0,1,,0\nu,,,,0\nv,n0/5,,v100,0\nw,n0/6,,,-1\n"
    path = write(tmp_path, "job_id,gpus,num_gpus,gpu_type,move_cost\n" + rows)
    assert faults(read_running, path, NODES) == [
        (2, "gang-not-whole"),
        (4, "gpu-named-twice"),
        (5, "missing-value"),
        (6, "gpu-of-wrong-type"),
        (7, "out-of-range"),
    ]


def test_a_hold_is_for_gangs_as_wide_as_itself_unless_it_says_otherwise(tmp_path):
    path = write(tmp_path, "pool,num_gpus,widest_gpus,gpu_type\np,8,,\nq,4,2,a100\n")
    p, q = read_holds(path)
    assert (p.hold.num_gpus, p.widest_gpus, p.gpu_type) == (8, 8, None)
    assert (q.widest_gpus, q.gpu_type) == (2, "a100")
    assert faults(read_holds, write(tmp_path, "pool,num_gpus\np,0\n")) == [(2, "width-below-one")]


OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np0,4000,1024,1,470,,LS\np1,1,1,0,0,A|B,BE\n"
)


def test_published_pods_and_nodes_are_read_as_they_are(tmp_path):
    pods = read_pods(write(tmp_path, OPENB)).frame
    assert pods["job_id"].tolist() == ["p0", "p1"]
    assert pods["gpu_milli"].tolist() == [470, 0]
    assert pods["gpu_types"].dropna().tolist() == ["A|B"]
    hosts = read_hosts(
        write(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nx,64000,262144,2,P100\ny,1,1,0,\n")
    )
    assert hosts.frame["node"].tolist() == ["x", "y"]
    assert hosts.frame["partitioned"].tolist() == [0, 0]


def test_a_table_in_memory_is_checked_as_a_file_is():
    frame = pd.DataFrame({"name": ["a", "a"], "num_gpu": [1, 1], "gpu_milli": [0, 5], "gpu_spec": ["", None]})
    assert faults(pods_of, frame, "table") == [(1, "no-share")]
    good = pods_of(frame[1:].reset_index(drop=True), "table").frame
    assert good[["job_id", "num_gpus", "gpu_milli"]].to_numpy().tolist() == [["a", 1, 5]]


def test_bad_pods_are_all_named(tmp_path):
    rows = "a,1,1001,\nb,2,500,\nc,1,0,\nd,2,,1g.5gb\ne,1,300,1g.5gb\nf,1.5,,\na,1,,\ng,1,,\ng,1,,\n"
    path = write(tmp_path, "job_id,num_gpus,gpu_milli,profile\n" + rows)
    expected = [
        (2, "out-of-range"),
        (3, "shares-of-several"),
        (4, "no-share"),
        (5, "slice-and-share"),
        (6, "slice-and-share"),
        (7, "not-an-integer"),
        (10, "duplicate-id"),
    ]
    assert faults(read_pods, path) == expected
    rest = [one for one in expected if one[1] != "shares-of-several"]
    assert faults(read_pods, path, may_share_several=True) == rest
    rows_read = read_pods(path, is_lenient=True)
    assert rows_read.frame["job_id"].tolist() == ["a", "g"]
    assert rows_read.lines.tolist() == [8, 9]


def test_more_partitioned_gpus_than_there_are_is_refused(tmp_path):
    text = "node,num_gpus,gpu_type,cpu_milli,memory_mib,partitioned\nx,1,A100-40GB,1,1,2\n"
    assert faults(read_hosts, write(tmp_path, text)) == [(2, "no-mig-mode")]
