"""What nodes have left for guests: one by one, as rows, and beside what is kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.cluster import Gpu, Node
from solver.placement.cells import CellCount
from solver.placement.greedy import Ask, place_asks, stocks_of
from solver.placement.room import Cells, FreeNodes, Gang, GuestRoom


def room(*free_gpus: int, node_gpus: int = 8, kept: tuple[Gang, ...] = ()) -> GuestRoom:
    return GuestRoom((FreeNodes("any", node_gpus, free_gpus),), kept)


def test_gangs_are_counted_in_until_the_cells_are_used_up():
    cells = Cells(room(8, 6, 2))
    assert cells.fits(Gang(8))
    assert cells.admit(Gang(4)), "of the node with six"
    assert cells.fits(Gang(8))
    assert cells.admit(Gang(8))
    assert not cells.fits(Gang(4))
    assert [cells.admit(Gang(2)) for _ in range(3)] == [True, True, False]


def test_what_is_kept_is_not_broken_up_and_what_has_no_room_keeps_nothing():
    cells = Cells(room(8, 4, 3), kept=[Gang(8), Gang(16)])
    assert not cells.fits(Gang(8))
    assert cells.admit(Gang(4))
    assert not cells.fits(Gang(4))
    assert [cells.admit(Gang(1)) for _ in range(4)] == [True] * 3 + [False]
    told = Cells(room(8, 4, 3, kept=(Gang(8),)))
    assert not told.fits(Gang(8))


def test_rows_of_one_type_leave_what_is_kept():
    cells = Cells(room(8, 7, 4), kept=[Gang(4)])
    rows = cells.rows([Gang(8), Gang(4), Gang(1)])
    assert rows.allow([1, 1, 3])
    assert not rows.allow([1, 2, 0])
    assert not rows.allow([2, 0, 0])
    assert rows.taken.shape == (4, 3)


def test_rows_of_several_types_are_one_set_for_each_choice():
    two = GuestRoom((FreeNodes("a100", 8, (8, 2)), FreeNodes("v100", 8, (4,))))
    rows = Cells(two).rows([Gang(4, "a100"), Gang(4, "v100"), Gang(4)])
    assert rows.taken.shape == (12, 3)
    assert rows.allow([2, 1, 0])
    assert rows.allow([1, 1, 1])
    assert not rows.allow([3, 0, 0])
    assert not rows.allow([0, 2, 0])
    assert not rows.allow([1, 1, 2])
    cells = Cells(two)
    assert [cells.admit(Gang(4)) for _ in range(4)] == [True, True, True, False]


def test_nobody_gets_a_type_that_is_not_there():
    two = GuestRoom((FreeNodes("a100", 8, (8,)),))
    cells = Cells(two, kept=[Gang(1, "h100")])
    assert not cells.fits(Gang(1, "h100"))
    rows = cells.rows([Gang(1, "h100"), Gang(1)])
    assert rows.allow([0, 8])
    assert not rows.allow([1, 0])


def test_no_gangs_no_rows():
    assert Cells(room(8)).rows([]).allow([])
    assert not Cells(room(node_gpus=8)).fits(Gang(1))


@pytest.mark.parametrize("width", range(1, 20))
def test_counting_says_what_the_placer_does_with_one_gang(width: int):
    free = [8, 5, 8, 1]
    idle = {f"n{k}": [Gpu(f"n{k}", index) for index in range(gpus)] for k, gpus in enumerate(free)}
    nodes = [Node(name, 8) for name in idle]
    can = bool(place_asks([Ask("x", width)], stocks_of(idle, nodes)))
    assert can >= CellCount(free, 8).fits(width)
    assert CellCount(free, 8).fits(width) == Cells(room(*free)).fits(Gang(width))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9).flatmap(
        lambda size: st.tuples(st.just(size), st.lists(st.integers(0, size), min_size=1, max_size=6))
    ),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=4),
    st.lists(st.integers(1, 12), max_size=2),
)
def test_what_the_rows_allow_is_placed_beside_what_is_kept(
    nodes: tuple[int, list[int]], gangs: list[tuple[int, int]], kept: list[int]
):
    node_gpus, free = nodes
    keeps = [Gang(width) for width in kept if Cells(room(*free, node_gpus=node_gpus)).fits(Gang(width))][:1]
    cells = Cells(room(*free, node_gpus=node_gpus), keeps)
    if not cells.rows([Gang(width) for width, _ in gangs]).allow([count for _, count in gangs]):
        return
    names = [(f"{k}-{n}", width) for k, (width, count) in enumerate(gangs) for n in range(count)]
    idle = {f"n{k}": [Gpu(f"n{k}", index) for index in range(gpus)] for k, gpus in enumerate(free)}
    hosts = [Node(name, node_gpus) for name in idle]
    asks = [Ask("kept", gang.num_gpus) for gang in keeps] + [Ask(name, width) for name, width in names]
    assert len(place_asks(asks, stocks_of(idle, hosts))) == len(asks)
    assert all(cells.admit(Gang(width)) for _, width in names)
