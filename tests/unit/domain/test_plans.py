"""Plans and their parts."""

import pytest

from domain.cluster import Node
from domain.jobs import Job
from domain.plans import NOTHING, Hold, Placement, Plan, Start


def test_a_plan_of_nothing_is_empty_and_differs_from_any_other():
    assert Plan() == NOTHING
    assert Plan(starts=(Start(Job("x", "a", 0.0, 1), False),)) != NOTHING


def test_a_start_as_guest_is_not_a_start_as_own():
    one = Job("x", "a", 0.0, 1)
    assert Start(one, True) != Start(one, False)


@pytest.mark.parametrize("num_gpus", [0, -2])
def test_a_hold_keeps_something(num_gpus):
    with pytest.raises(ValueError, match=f"pool a keeps {num_gpus} GPUs"):
        Hold("a", num_gpus)


def test_a_gang_gets_each_gpu_once():
    first, second = Node("n", 2).gpus()
    assert Placement("x", (first, second)).gpus == (first, second)
    with pytest.raises(ValueError, match="job x: a GPU is named twice"):
        Placement("x", (first, second, first))
