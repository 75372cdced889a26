"""Whatever stands in an object of Kubernetes or a node of Slurm, it is a row, and never a crash."""

import copy
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from kube_objects import condition, ended, job, meta, pod, read, running, stamp, workload, written

OWNER = ("Job", "train", "J")
EVICTED = [condition("Evicted", "09:00:00", reason="Preempted"), condition("Admitted", "08:01:00")]
OBJECTS = [
    pod(meta("p", "P", labels={"user": "ann"}), running(), amount="2"),
    pod(meta("q", "Q", owner=OWNER), {"phase": "Failed", **ended(137, "OOMKilled")}),
    job(meta("train", "J"), 2, 4, [condition("Failed", "09:00:00", reason="DeadlineExceeded")]),
    workload(meta("w", "W", owner=OWNER), 2, 4, EVICTED, admission={"clusterQueue": "research"}),
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta("n", "N"),
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [condition("Ready", "08:00:00")]},
    },
]
NODES = [
    {
        "name": "g1",
        "state": ["IDLE"],
        "gres": "gpu:a100:8",
        "tres": "cpu=1",
        "partitions": ["gpu"],
        "cpus": 4,
    },
    {"nodes": {"total": 1, "nodes": ["g1"]}, "node": {"state": ["IDLE"]}, "partition": {"name": "gpu"}},
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        ["\ud800", "\u202e", "", "9999-01-01T00:00:00Z", stamp("07:00:00"), "-1", "1e99", "x" * 9000]
    ),
    st.builds(list),
    st.builds(dict),
    st.builds(lambda: [{"uid": 5}, [1]]),
)


def places(found, path=()):
    """Every place of a value inside of another."""
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def spoilt(draw, originals):
    """An object with a few values replaced by others."""
    found = copy.deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(0, 3))):
        *way, last = draw(st.sampled_from(list(places(found))))
        inner = found
        for key in way:
            inner = inner[key]
        inner[last] = draw(ODD)
    return found


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.lists(spoilt(OBJECTS), min_size=1, max_size=5))
def test_every_object_is_a_row(found):
    with TemporaryDirectory() as folder:
        rows = read(written(Path(folder) / "objects", found), "kubernetes")
    assert len(rows) == len(found)
    assert all(row.records or row.notes for row in rows)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(spoilt(NODES), min_size=1, max_size=5))
def test_every_node_is_a_row(found):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "nodes"
        path.write_text(json.dumps({"nodes": found}))
        rows = read(path, "slurm-nodes-json")
    assert len(rows) == len(found)
