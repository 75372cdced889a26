"""Gangs on real GPUs: whole, disjoint, on few nodes."""

from hypothesis import given
from hypothesis import strategies as st
from support import job

from domain.cluster import Gpu
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


@given(
    st.lists(st.integers(1, 9), max_size=8),
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_gpus_are_given_once_and_whole_gangs_or_nothing(widths: list[int], sizes: list[int]):
    nodes = idle(**{f"n{k}": size for k, size in enumerate(sizes)})
    jobs = [job(f"j{k}", num_gpus=width) for k, width in enumerate(widths)]
    placed = place(jobs, nodes)
    given_gpus = [gpu for one in placed for gpu in one.gpus]
    assert len(given_gpus) == len(set(given_gpus)) <= sum(sizes)
    assert {gpu for gpus in nodes.values() for gpu in gpus} >= set(given_gpus)
    width = {one.job_id: one.num_gpus for one in jobs}
    assert all(len(one.gpus) == width[one.job_id] for one in placed)
    left = sum(sizes)
    for one in jobs:  # greedy in order: only who really finds too few is left out
        if one.num_gpus <= left:
            assert one.job_id in {p.job_id for p in placed}
            left -= one.num_gpus
