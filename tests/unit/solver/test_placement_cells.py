"""Cells: counts that say what can be placed, and holds that any gang fits into."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.placement.cells import (
    cell_of,
    cell_sizes,
    expected_waste,
    free_cells,
    hold_pieces,
    pieces_of,
    place_rows,
)
from solver.sharing.fragmentation import expected_milli
from solver.sharing.nodes import NOT_PARTITIONED, NodeStates
from solver.sharing.requests import WHOLE_MILLI, Request, TaskMix, demand_of


def test_cells_are_powers_of_two_and_the_node():
    assert cell_sizes(8) == (1, 2, 4, 8)
    assert cell_sizes(6) == (1, 2, 4, 6)
    assert [cell_of(width, 6) for width in range(1, 7)] == [1, 2, 4, 4, 6, 6]
    with pytest.raises(ValueError, match="0 GPUs"):
        cell_sizes(0)


def test_a_gang_is_whole_nodes_and_a_rest():
    assert pieces_of(20, 8) == (8, 8, 4)
    assert pieces_of(16, 8) == (8, 8)
    assert pieces_of(3, 8) == (3,)


def test_free_cells_by_hand():
    assert free_cells([7, 4, 8], 8).tolist() == [19, 9, 4, 1]


def test_rows_say_what_fits_beside_what_is_held():
    rows = place_rows([1, 4, 12], [8, 8, 3], 8)
    assert rows.allow([3, 1, 1])
    assert not rows.allow([4, 1, 1])
    assert not rows.allow([0, 0, 2])
    assert not place_rows([8], [8, 7], 8, held=[8]).allow([1])
    assert place_rows([4], [8, 7], 8, held=[8]).allow([1])


def test_holds_are_pieces_for_the_widest_gang():
    assert hold_pieces(24, 4, 8) == (4,) * 6
    assert hold_pieces(24, 3, 8) == (4,) * 6
    assert hold_pieces(20, 32, 8) == (8, 8, 4)
    assert hold_pieces(3, 8, 8) == (3,)
    assert hold_pieces(11, 8, 8) == (8, 3)


def test_waste_is_what_the_next_gang_cannot_use():
    waste = expected_waste(8, [1, 4, 8, 16], [0.5, 0.25, 0.15, 0.1])
    assert waste[[0, 1, 3, 4, 7, 8]].tolist() == pytest.approx([0, 0.5, 1.5, 1.0, 1.75, 0])


def fits_by_search(pieces: list[int], free: list[int]) -> bool:
    """Whether pieces fit into nodes, by trying every node for each."""
    if not pieces:
        return True
    piece, rest = pieces[0], pieces[1:]
    for node in {gpus: node for node, gpus in enumerate(free) if gpus >= piece}.values():
        left = free.copy()
        left[node] -= piece
        if fits_by_search(rest, left):
            return True
    return False


WIDTHS = (1, 2, 4, 8, 12, 16)


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.lists(st.sampled_from(WIDTHS), max_size=6),
)
def test_rows_are_exact_for_powers_of_two(free: list[int], widths: list[int]):
    counts = [widths.count(width) for width in WIDTHS]
    pieces = sorted((piece for width in widths for piece in pieces_of(width, 8)), reverse=True)
    assert place_rows(WIDTHS, free, 8).allow(counts) == fits_by_search(pieces, free)


@given(
    st.integers(1, 9),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.lists(st.integers(1, 14), max_size=5),
)
def test_what_the_rows_allow_can_be_placed(node_gpus: int, free: list[int], widths: list[int]):
    free = [min(gpus, node_gpus) for gpus in free]
    if place_rows(widths, free, node_gpus).allow([1] * len(widths)):
        pieces = sorted((piece for w in widths for piece in pieces_of(w, node_gpus)), reverse=True)
        assert fits_by_search(pieces, free)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
def test_a_hold_is_all_its_gpus_and_fits_any_gang_up_to_its_size(held: int, widest: int, node_gpus: int):
    pieces = hold_pieces(held, widest, node_gpus)
    assert sum(pieces) == held
    assert max(pieces) <= node_gpus
    for width in range(1, min(held, widest) + 1):
        assert fits_by_search(sorted(pieces_of(width, node_gpus), reverse=True), list(pieces))


def test_several_gangs_fit_a_hold_as_long_as_there_are_cells():
    for widths in product((1, 2, 4), repeat=3):
        if sum(widths) <= 8:
            assert fits_by_search(sorted(widths, reverse=True), list(hold_pieces(8, 4, 8)))


def test_rows_without_nodes_or_widths():
    assert place_rows([], [], 4).allow([])
    assert not place_rows([1], [], 4).allow([1])
    assert np.array_equal(free_cells([], 4), [0, 0, 0])


def test_waste_is_fgds_measure_of_whole_gpus():
    widths, shares = (1, 2, 4, 8), (0.5, 0.2, 0.2, 0.1)
    free = np.arange(9)
    nodes, zero = len(free), np.zeros(9, dtype=np.int64)
    gpu_milli = WHOLE_MILLI * (np.arange(8)[None, :] < free[:, None])
    states = NodeStates(zero, zero, zero + 1, zero - 1, gpu_milli, np.full((nodes, 8), NOT_PARTITIONED))
    mix = TaskMix(tuple(demand_of(Request(num_gpus=w), ["any"]) for w in widths), np.array(shares))
    assert expected_waste(8, widths, shares) * WHOLE_MILLI == pytest.approx(expected_milli(states, mix))
