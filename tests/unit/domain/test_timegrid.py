"""The time grid: cells without gaps, and where an offset lies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.timegrid import TimeGrid, default_grid

DAY_S = 86_400.0


def test_cells_are_half_open_and_without_gaps():
    grid = TimeGrid((0.0, 10.0, 30.0))
    assert list(grid) == [(0.0, 10.0), (10.0, 30.0)]
    assert len(grid) == 2
    assert grid.horizon_s == 30.0
    assert [grid.cell_of(offset_s) for offset_s in (0.0, 9.9, 10.0, 29.9, 30.0, 1e9)] == [
        0,
        0,
        1,
        1,
        None,
        None,
    ]


def test_the_grid_looks_ahead_only():
    with pytest.raises(ValueError, match="looks ahead only"):
        TimeGrid((0.0, 1.0)).cell_of(-0.5)


@pytest.mark.parametrize("edges_s", [(), (0.0,), (1.0, 2.0), (0.0, 2.0, 2.0), (0.0, 3.0, 2.0)])
def test_edges_begin_at_zero_and_increase(edges_s):
    with pytest.raises(ValueError, match="time grid"):
        TimeGrid(edges_s)


def test_the_default_grid_doubles_from_a_minute_on_and_ends_at_eight_days():
    grid = default_grid()
    assert grid.edges_s[:4] == (0.0, 60.0, 120.0, 240.0)
    assert grid.edges_s[10] == 512 * 60.0
    assert grid.edges_s[-5:] == (16 * 3600.0, DAY_S, 2 * DAY_S, 4 * DAY_S, 8 * DAY_S)
    assert len(grid) == 15
    assert all(after <= 2 * before for before, after in zip(grid.edges_s[1:], grid.edges_s[2:], strict=False))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.floats(0, 8 * DAY_S, exclude_max=True))
def test_an_offset_lies_in_its_cell(offset_s):
    grid = default_grid()
    low, high = list(grid)[grid.cell_of(offset_s)]
    assert low <= offset_s < high
