"""Riders on the board: their host's GPUs stay taken until both have ended."""

import pytest

from domain.cluster import Gpu, Node
from domain.errors import PlanError
from domain.jobs import Job
from solver.placement.board import Board, Tenant

NODES = (Node("n", 4),)


def gpus(*indices: int) -> tuple[Gpu, ...]:
    return tuple(Gpu("n", index) for index in indices)


def board() -> Board:
    made = Board(NODES)
    made.put(Tenant(Job("host", "a", 0.0, 3), gpus(0, 1, 2), 9.0))
    made.ride(Tenant(Job("rider", "a", 1.0, 2), gpus(1, 2), 9.0, is_own=False))
    return made


def test_a_rider_takes_nothing():
    made = board()
    assert made.free_gpus() == 1
    assert (made.gpus_of("host"), made.gpus_of("rider"), made.gpus_of("nobody")) == (
        gpus(0, 1, 2), gpus(1, 2), (),
    )  # fmt: skip


def test_a_rider_that_ends_first_frees_nothing():
    made = board()
    made.remove("rider")
    assert made.free_gpus() == 1
    made.remove("host")
    assert made.free_gpus() == 4


def test_riders_take_over_when_their_host_ends():
    made = board()
    trial = made.copy()
    made.convert("rider")
    made.remove("host")
    assert made.free_gpus() == 2
    assert made.tenants["rider"].is_own
    made.remove("rider")
    assert made.free_gpus() == 4
    assert trial.free_gpus() == 1
    assert not trial.tenants["rider"].is_own


def test_nobody_rides_where_somebody_rides_or_on_gpus_of_two():
    made = board()
    with pytest.raises(PlanError, match="somebody rides already"):
        made.ride(Tenant(Job("more", "a", 1.0, 1), gpus(1), 9.0))
    with pytest.raises(PlanError, match="not all those of one running job"):
        made.ride(Tenant(Job("more", "a", 1.0, 2), gpus(0, 3), 9.0))
