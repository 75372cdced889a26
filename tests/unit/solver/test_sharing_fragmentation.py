"""The fragmentation measure on nodes small enough for a pencil."""

import numpy as np
import pytest

from solver.sharing.fragmentation import expected_milli, fragments_milli
from solver.sharing.nodes import NodeSpec, NodeStates, empty_states, types_of
from solver.sharing.requests import Demand, Request, TaskMix, demand_of, mix_of

SPECS = (NodeSpec(16_000, 65_536, 2, "P100"), NodeSpec(16_000, 65_536, 4, "T4"))
TYPES = types_of(SPECS)


def demand(**asked: object) -> Demand:
    return demand_of(Request(**asked), TYPES)  # type: ignore[arg-type]


def mix(*demands: Demand) -> TaskMix:
    return TaskMix(demands, np.full(len(demands), 1.0 / len(demands)))


def states(free_p100: list[int], cpu_milli: int = 16_000) -> NodeStates:
    found = empty_states(SPECS)
    found.gpu_milli[0, :2] = free_p100
    found.cpu_milli[0] = cpu_milli
    return found


def test_a_task_that_fits_leaves_the_gpus_that_are_too_small_for_it() -> None:
    # 300 milli fits on the second GPU only; what is free on the first is of no use to it
    assert fragments_milli(states([200, 700]), mix(demand(num_gpus=1, gpu_milli=300)))[0, 0] == 200


def test_too_little_cpu_or_memory_makes_all_of_it_a_fragment() -> None:
    asked = demand(cpu_milli=8_000, num_gpus=1, gpu_milli=100)
    assert fragments_milli(states([200, 700], cpu_milli=7_999), mix(asked))[0, 0] == 900
    asked = demand(memory_mib=70_000, num_gpus=1, gpu_milli=100)
    assert fragments_milli(states([200, 700]), mix(asked))[0, 0] == 900


def test_so_do_a_wrong_type_and_a_task_without_gpu() -> None:
    of_type = demand(num_gpus=1, gpu_milli=100, gpu_types=("T4",))
    without = demand(cpu_milli=1_000)
    assert fragments_milli(states([200, 700]), mix(of_type, without))[0].tolist() == [900, 900]
    assert fragments_milli(states([200, 700]), mix(of_type, without))[1].tolist() == [0, 4000]


def test_a_gang_counts_the_gpus_that_are_whole() -> None:
    three = demand(num_gpus=3)
    found = states([1000, 1000])
    found.gpu_milli[1] = [1000, 400, 1000, 1000]
    # P100: two GPUs are too few, all 2000 are lost to it; T4: three are whole, the 400 is the rest
    assert fragments_milli(found, mix(three))[:, 0].tolist() == [2000, 400]


def test_the_expectation_is_weighted_by_how_often_a_class_is_asked_for() -> None:
    small, large = demand(num_gpus=1, gpu_milli=200), demand(num_gpus=1, gpu_milli=800)
    often = TaskMix((small, large), np.array([0.75, 0.25]))
    # small finds room on both; large on neither: 0.25 x (300 + 700)
    assert expected_milli(states([300, 700]), often)[0] == pytest.approx(250.0)


def test_a_slice_needs_a_legal_place() -> None:
    found = empty_states([NodeSpec(16_000, 65_536, 1, "A100-40GB", partitioned=1)])
    found.slices[0, 0] = 0b0010_0010
    found.gpu_milli[0, 0] = 750
    types = ("A100-40GB",)
    asked = [demand_of(Request(num_gpus=1, profile=name), types) for name in ("1g.5gb", "3g.20gb")]
    # six of eight slices are free, but neither half is
    assert fragments_milli(found, mix(*asked)).tolist() == [[0, 750]]


def test_a_mix_keeps_the_most_frequent_classes_and_weighs_them_anew() -> None:
    small, large, rare = (demand(num_gpus=1, gpu_milli=m) for m in (200, 800, 500))
    kept = mix_of({rare: 1, small: 6, large: 3}, coverage=0.9)
    assert kept.demands == (small, large)
    assert kept.weights.tolist() == pytest.approx([2 / 3, 1 / 3])
    with pytest.raises(ValueError, match="at least one"):
        mix_of({})
