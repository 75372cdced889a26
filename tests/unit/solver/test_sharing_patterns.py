"""What the free part of a GPU is good for, on workloads whose cutting patterns are plain."""

import numpy as np
import pytest

from solver.sharing.patterns import usable_gpus


def test_halves_are_worth_half_a_gpu_and_less_than_a_half_nothing() -> None:
    usable = usable_gpus({500: 10})
    assert usable[[0, 499, 500, 999, 1000]].tolist() == pytest.approx([0.0, 0.0, 0.5, 0.5, 1.0])


def test_a_share_whose_rest_nobody_wants_is_worth_a_whole_gpu() -> None:
    usable = usable_gpus({810: 10, 470: 4})
    assert usable[810] == pytest.approx(1.0)
    assert usable[470] == pytest.approx(0.5)
    assert usable[190] == pytest.approx(0.0)


def test_where_small_shares_are_scarce_the_large_one_bears_the_cost() -> None:
    # every 600 needs a GPU of its own; the few 400s ride along for free, many 400s do not
    assert usable_gpus({600: 10, 400: 2})[400] == pytest.approx(0.0)
    assert usable_gpus({600: 10, 400: 90})[400] == pytest.approx(0.5)


@pytest.mark.parametrize("counts", [{}, {125: 3.0}, {333: 1.0, 7: 2.0}, {50: 5.0, 230: 4.0, 810: 9.0}])
def test_worth_grows_from_nothing_to_one(counts: dict[int, float]) -> None:
    usable = usable_gpus(counts)
    assert (np.diff(usable) >= -1e-12).all()
    assert usable[0] == 0.0
    assert usable[1000] == 1.0
