"""Gangs on real GPUs: whole, disjoint, on few nodes."""

from dataclasses import replace

from support import job

from domain.cluster import Gpu, Node
from solver.placement import place


def idle(**nodes: int) -> dict[str, list[Gpu]]:
    return {node: [Gpu(node, index) for index in range(number)] for node, number in nodes.items()}


def nodes_of(placement) -> list[str]:
    return sorted({gpu.node for gpu in placement.gpus})


def test_a_gang_goes_to_the_fullest_node_that_holds_it():
    (one,) = place([job("x", num_gpus=2)], idle(n1=8, n2=2, n3=3))
    assert nodes_of(one) == ["n2"]


def test_ties_go_to_the_node_listed_first():
    (one,) = place([job("x", num_gpus=2)], idle(n2=4, n1=4))
    assert nodes_of(one) == ["n2"]


def test_a_wide_gang_takes_the_emptiest_nodes_and_its_rest_goes_where_it_is_tight():
    (one,) = place([job("x", num_gpus=9)], idle(n1=1, n2=8, n3=5))
    assert [sum(gpu.node == node for gpu in one.gpus) for node in ("n1", "n2", "n3")] == [1, 8, 0]


def test_who_finds_too_few_is_left_out_and_those_behind_are_not():
    placed = place([job("x", num_gpus=3), job("y", num_gpus=2)], idle(n1=1, n2=1))
    assert [one.job_id for one in placed] == ["y"]


def test_earlier_jobs_come_first_and_are_still_packed_largest_first():
    placed = place([job("a", num_gpus=1), job("b", num_gpus=4), job("c", num_gpus=4)], idle(n1=4, n2=4))
    assert [one.job_id for one in placed] == ["a", "b"]
    assert nodes_of(placed[0]) != nodes_of(placed[1])


def test_a_gang_is_not_spread_over_more_nodes_than_it_needs():
    nodes = [Node("n1", 4), Node("n2", 4)]
    assert place([job("x", num_gpus=4)], idle(n1=3, n2=3), nodes) == ()


def test_widths_that_are_no_power_of_two_are_tried_once_more():
    placed = place([job("x", num_gpus=3), job("y", num_gpus=5)], idle(n1=8))
    assert [one.job_id for one in placed] == ["x", "y"]


def test_a_type_is_kept_and_gpus_of_no_type_are_any_ones():
    nodes = {"n1": [Gpu("n1", 0, "v100")], "n2": [Gpu("n2", 0, "a100")]}
    typed = replace(job("x"), gpu_type="v100")
    assert nodes_of(place([typed], nodes)[0]) == ["n1"]
    assert place([replace(typed, num_gpus=2)], nodes) == ()
    assert nodes_of(place([typed], idle(n3=1))[0]) == ["n3"]


def test_small_pieces_leave_large_cells_whole():
    placed = place([job("x"), job("y", num_gpus=2)], idle(n1=4, n2=7, n3=8))
    assert [nodes_of(one) for one in placed] == [["n2"], ["n2"]]
