"""The board: who is where, where the next gang goes, what is vacated and what is drained for it."""

import pytest
from support import job

from domain.cluster import Gpu, Node
from domain.errors import PlanError
from solver.placement.board import Board, Tenant


def gpus(node: str, *indices: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index) for index in indices)


def nodes(*sizes: int) -> list[Node]:
    return [Node(f"n{k}", size) for k, size in enumerate(sizes)]


def put(
    board: Board, name: str, at: tuple[Gpu, ...], until_s: float = 100.0, *, may_go: bool = False
) -> None:
    board.put(Tenant(job(name, num_gpus=len(at)), at, until_s, may_go, is_own=not may_go))


def node_of(found: tuple[Gpu, ...] | None) -> list[str] | None:
    return None if found is None else sorted({gpu.node for gpu in found})


def test_a_gang_goes_where_it_breaks_up_the_smallest_cells():
    board = Board(nodes(8, 8, 8))
    put(board, "a", gpus("n0", 0, 1, 2, 3))
    put(board, "b", gpus("n1", 0))
    assert node_of(board.find(job("x"), 0.0)) == ["n1"]
    assert node_of(board.find(job("x", num_gpus=4), 0.0)) == ["n0"]
    assert node_of(board.find(job("x", num_gpus=8), 0.0)) == ["n2"]
    assert node_of(board.find(job("x", num_gpus=12), 0.0)) == ["n0", "n2"]
    assert board.find(job("x", num_gpus=16), 0.0) is None
    assert board.find(job("x", num_gpus=8), 0.0, barred={"n2"}) is None


def test_by_end_a_gang_goes_where_others_stay_longer():
    board = Board(nodes(4, 4), by_end=True)
    put(board, "short", gpus("n0", 0, 1, 2), until_s=10.0)
    put(board, "long", gpus("n1", 0, 1), until_s=1000.0)
    assert node_of(board.find(job("x"), 500.0)) == ["n1"]
    assert node_of(board.find(job("x"), 5.0)) == ["n0"]


def test_gpus_come_back_and_cannot_be_given_twice():
    board = Board(nodes(2))
    put(board, "a", gpus("n0", 0))
    with pytest.raises(PlanError, match="n0/0, which is in use"):
        put(board, "b", gpus("n0", 0))
    board.remove("a")
    assert board.free_gpus() == 2
    assert board.find(job("x", num_gpus=2), 0.0) == gpus("n0", 0, 1)


def test_the_fewest_guests_are_sent_back_for_a_gang():
    board = Board(nodes(4, 4))
    put(board, "own", gpus("n0", 0))
    put(board, "g1", gpus("n0", 1, 2), may_go=True)
    put(board, "g2", gpus("n1", 0, 1, 2), may_go=True)
    put(board, "g3", gpus("n1", 3), may_go=True)
    assert [victim.job_id for victim in board.vacate(job("x", num_gpus=2)) or ()] == ["g1"]
    assert [victim.job_id for victim in board.vacate(job("x", num_gpus=4)) or ()] == ["g2", "g3"]
    assert board.vacate(job("x", num_gpus=8)) is None
    board.convert("g2")
    assert board.vacate(job("x", num_gpus=4)) is None


def test_a_guest_on_two_nodes_is_sent_back_once():
    board = Board(nodes(2, 2))
    put(board, "g", gpus("n0", 0, 1) + gpus("n1", 0), may_go=True)
    assert [victim.job_id for victim in board.vacate(job("x", num_gpus=4)) or ()] == ["g"]


def test_the_node_that_is_free_first_is_drained():
    board = Board(nodes(4, 4, 4))
    put(board, "a", gpus("n0", 0), until_s=500.0)
    put(board, "b", gpus("n1", 0, 1, 2), until_s=20.0)
    put(board, "c", gpus("n2", 0, 1, 2, 3), until_s=300.0)
    assert board.drain(job("x", num_gpus=4), 0.0) == ["n1"]
    assert board.drain(job("x", num_gpus=4), 0.0, barred={"n1"}) == ["n2"]
    assert board.drain(job("x", num_gpus=8), 0.0) == ["n1", "n2"]
    assert board.drain(job("x", num_gpus=3), 0.0) == ["n0"]


def test_cells_count_what_would_be_left():
    board = Board(nodes(8, 4))
    assert board.cells().tolist() == [12, 6, 3, 1]
    assert board.cells(gpus("n0", 0)).tolist() == [11, 5, 2, 0]
