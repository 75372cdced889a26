"""The independent look at a packing: against the placer's own table of MIG starts, and each kind of fault."""

import pytest

from solver.check_packing import Given, packing_faults
from solver.sharing import mig
from solver.sharing.no_room import NoRoom, why_no_room
from solver.sharing.nodes import NodeSpec, empty_states, types_of
from solver.sharing.placer import Spot
from solver.sharing.requests import Request, demand_of

A100 = NodeSpec(8_000, 1_000, 2, "A100-40GB", partitioned=1)


@pytest.mark.parametrize("geometry", mig.GEOMETRIES, ids=lambda one: one.gpu_type)
def test_it_lets_slices_begin_exactly_where_the_users_guide_does(geometry):
    spec = NodeSpec(0, 0, 1, geometry.gpu_type, partitioned=1)
    for name in mig.PROFILE_NAMES:
        known = next((one.starts for one in geometry.profiles if one.name == name), ())
        starts = [
            start
            for start in range(8)
            if not packing_faults(
                [spec], [Given("j", Request(num_gpus=1, profile=name), Spot(0, (0,), start))]
            )
        ]
        assert starts == list(known), name


def given(name: str, request: Request, *gpus: int, start: int = -1, node: int = 0) -> Given:
    return Given(name, request, Spot(node, gpus, start))


HALF = Request(num_gpus=1, gpu_milli=500)
SLICE = Request(num_gpus=1, profile="3g.20gb")
BROKEN = {
    "a GPU too full": ([given(k, HALF, 0) for k in "abc"], "1500 thousandths of GPU 0 of node 0 are given"),
    "slices that overlap": (
        [given("a", SLICE, 1, start=4), given("b", Request(num_gpus=1, profile="1g.5gb"), 1, start=5)],
        "memory slice 5 of GPU 1 of node 0 is given twice",
    ),
    "too much CPU": ([given("a", Request(9_000)), given("b", Request(1))], "9001 of 8000 CPU of node 0"),
    "too much memory": ([given("a", Request(0, 1_001))], "1001 of 1000 memory of node 0"),
    "another type": (
        [given("a", Request(num_gpus=1, gpu_types=("T4",)), 0)],
        "a gets GPUs of type A100-40GB",
    ),
    "the wrong mode": ([given("a", HALF, 1)], "a is on a GPU of the other mode"),
    "a GPU that is not there": ([given("a", Request(num_gpus=1), 7)], "a gets a GPU that node 0 has not"),
    "a node that is not there": ([given("a", Request(), node=3)], "a is on node 3, which there is not"),
    "too few GPUs": ([given("a", Request(num_gpus=2), 0)], "a asks for 2 GPUs and gets 1"),
    "placed twice": ([given("a", HALF, 0), given("a", HALF, 0)], "a is placed 2 times"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_packing_that_is_broken_is_found_out(what):
    given_out, said = BROKEN[what]
    assert any(said in fault for fault in packing_faults([A100], given_out))


def test_a_full_node_that_is_sound_passes():
    slices = [given("a", SLICE, 1, start=0), given("b", SLICE, 1, start=4)]
    assert packing_faults([A100], [*slices, given("c", HALF, 0), given("d", HALF, 0)]) == []


SPECS = (NodeSpec(4_000, 100, 2, "T4"), NodeSpec(8_000, 50, 1, "P100"), NodeSpec(0, 0, 1, "A30-24GB", 1))
TYPES = types_of(SPECS)


@pytest.mark.parametrize(
    ("request_", "why", "said"),
    [
        (Request(num_gpus=3, gpu_types=("T4",)), NoRoom.LARGER_THAN_NODES, "even if nothing else ran"),
        (Request(num_gpus=1, profile="3g.20gb"), NoRoom.NO_SUCH_SLICE, "is in MIG mode and has 3g.20gb"),
        (
            Request(num_gpus=2),
            NoRoom.NO_GPU,
            "asks for 2 GPUs idle on one node, the most of an accepted type are 1",
        ),
        (Request(num_gpus=1, gpu_milli=700, gpu_types=("P100",)), NoRoom.NO_GPU, "with 700 thousandths free"),
        (
            Request(num_gpus=1, profile="2g.12gb"),
            NoRoom.NO_SLICE,
            "on none is a legal start left for 2g.12gb",
        ),
        (
            Request(2_000, 0, 1, gpu_types=("T4",)),
            NoRoom.NO_CPU,
            "1 nodes have the GPUs, the most CPUs free are 1 of 2",
        ),
        (Request(0, 60, 1, 300), NoRoom.NO_MEMORY, "the most memory free is 50 MiB of 60 MiB"),
        (Request(5_000, 40), NoRoom.STREWN, "none with both"),
    ],
)
def test_a_request_without_a_place_is_told_why(request_, why, said):
    states, empty = empty_states(SPECS), empty_states(SPECS)
    states.gpu_milli[0, 0], states.cpu_milli[0], states.memory_mib[0] = 0, 1_000, 50
    states.gpu_milli[1, 0], states.memory_mib[1] = 400, 20
    states.slices[2, 0] = mig.empty_mask(mig.geometry_code("A30-24GB")) | 0b0101
    reason = why_no_room(states, empty, demand_of(request_, TYPES))
    assert reason.why is why
    assert said in reason.text


def test_a_type_that_no_node_has_is_told():
    states = empty_states(SPECS)
    demand = demand_of(Request(num_gpus=1), TYPES)._replace(types=0)
    assert why_no_room(states, states, demand).why is NoRoom.UNKNOWN_GPU_TYPE
