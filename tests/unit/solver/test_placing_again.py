"""Plans made again, prices of single moves, and odd widths: instances whose best answer is known."""

from dataclasses import replace
from itertools import product

import pytest
from support import job

from domain.cluster import Gpu, Node
from domain.plans import Hold
from solver.check_placing import placing_faults
from solver.placement.again import Earlier, key_of, place_again
from solver.placement.gains import idle_after, waste_gpus
from solver.placement.left_out import LeftOut, why_left_out
from solver.placement.model import solve_placing
from solver.placement.movers import worth_moving
from solver.placement.task import Costs, Held, Limits, Movable, PlaceTask, Placing, Want

MIX = {"widths": (1, 2, 4, 8), "shares": (0.4, 0.2, 0.2, 0.2)}


def nodes(*sizes: int) -> tuple[Node, ...]:
    return tuple(Node(f"n{k}", size) for k, size in enumerate(sizes))


def gpus(node: str, *indices: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index) for index in indices)


def want(name: str, num_gpus: int, **more) -> Want:
    return Want(job(name, num_gpus=num_gpus), is_own=more.pop("is_own", True), **more)


def earlier_of(task: PlaceTask, placing: Placing) -> Earlier:
    return Earlier(
        {one.job_id: one.gpus for one in placing.placements},
        {move.job_id: move.new for step in placing.steps for move in step},
        [(key_of(held), pieces) for held, pieces in zip(task.holds, placing.held, strict=True)],
    )


def decided(placing: Placing) -> tuple[object, ...]:
    return placing.placements, placing.held, placing.steps


def three_nodes(**more) -> PlaceTask:
    """Nodes of 8 with 7, 6 and 7 GPUs in use: the gang of two on the first may move, a gang of 3 waits."""
    return PlaceTask(
        nodes(8, 8, 8),
        {"n0": gpus("n0", 7), "n1": gpus("n1", 6, 7), "n2": gpus("n2", 7)},
        (want("w", 3),),
        movable=(Movable(job("r", num_gpus=2), gpus("n0", 5, 6)),),
        **{"max_moves": 1} | more,
        **MIX,
    )


def test_a_gang_that_fits_nowhere_is_placed_by_one_move():
    stay, move = three_nodes(max_moves=0), three_nodes()
    assert why_left_out(stay, solve_placing(stay))["w"] == (
        LeftOut.NO_NODE_FITS,
        "fits no node although 4 GPUs are idle: the widest that fits has 2",
    )
    done = solve_placing(move)
    assert [[(m.job_id, m.new) for m in step] for step in done.steps] == [[("r", gpus("n1", 6, 7))]]
    assert [one.gpus for one in done.placements] == [gpus("n0", 5, 6, 7)]
    assert placing_faults(move, done) == []


def test_of_two_that_could_move_the_cheaper_one_does():
    task = PlaceTask(
        nodes(4, 4, 4),
        {"n0": gpus("n0", 1, 2, 3), "n1": gpus("n1", 1, 2, 3), "n2": gpus("n2", 3)},
        (want("w", 4),),
        movable=(Movable(job("a"), gpus("n0", 0), 5.0), Movable(job("b"), gpus("n1", 0), 0.0)),
        max_moves=1,
        **MIX,
    )
    assert [move.job_id for step in solve_placing(task).steps for move in step] == ["b"]
    other = (Movable(job("a"), gpus("n0", 0), 0.5), Movable(job("b"), gpus("n1", 0), None))
    done = solve_placing(replace(task, movable=other))
    assert [move.job_id for step in done.steps for move in step] == ["a"]
    assert done.objective == pytest.approx(0.5 + waste_gpus(task, idle_after(task, done)))


def test_a_move_that_costs_nothing_is_not_made_for_nothing():
    all_nodes = nodes(4, 4)
    task = PlaceTask(
        all_nodes,
        {"n0": gpus("n0", 1, 2, 3), "n1": gpus("n1", 0, 1, 2, 3)},
        movable=(Movable(job("r"), gpus("n0", 0), 0.0),),
        max_moves=1,
        **MIX,
    )
    assert solve_placing(task).steps == ()
    with pytest.raises(ValueError, match="less than nothing"):
        replace(task, movable=(Movable(job("r"), gpus("n0", 0), -1.0),))


def test_a_second_call_changes_nothing_though_a_move_is_still_to_be_made():
    task = three_nodes(holds=(Held(Hold("p", 1), 1),))
    first = solve_placing(task)
    again = place_again(task, earlier_of(task, first))
    assert decided(again) == decided(first)
    assert (again.status, again.objective, again.gap) == ("optimal", pytest.approx(first.objective), 0.0)


def test_one_more_gang_leaves_what_was_decided_as_it_is():
    task = three_nodes()
    first = solve_placing(task)
    more = replace(task, wants=(*task.wants, want("z", 1)))
    again = place_again(more, earlier_of(task, first))
    assert again.steps == first.steps
    assert {one.job_id: one.gpus for one in again.placements} == {
        "w": first.placements[0].gpus,
        "z": gpus("n2", 7),
    }
    assert placing_faults(more, again) == []


def test_what_an_earlier_plan_gave_is_given_up_for_somebody_who_counts_more():
    task = PlaceTask(nodes(4), {"n0": gpus("n0", 0, 1, 2, 3)}, (want("g", 1, is_own=False),), **MIX)
    first = solve_placing(task)
    more = replace(task, wants=(*task.wants, want("o", 4)))
    assert [one.job_id for one in place_again(more, earlier_of(task, first)).placements] == ["o"]


def test_a_plan_whose_gpus_are_taken_by_now_is_made_anew():
    task = three_nodes()
    earlier = earlier_of(task, solve_placing(task))
    later = replace(task, idle={**task.idle, "n1": gpus("n1", 7)})
    again = place_again(later, earlier)
    assert again.placements == ()
    assert placing_faults(later, again) == []


def test_a_budget_below_the_earlier_moves_makes_none_of_them():
    task = three_nodes()
    again = place_again(replace(task, max_moves=0), earlier_of(task, solve_placing(task)))
    assert (again.steps, again.placements) == ((), ())


def many_nodes(budget: int) -> PlaceTask:
    """Forty nodes of 4, one GPU of each in use; a gang of 4 waits, and later gangs are cheaper to move."""
    all_nodes = nodes(*[4] * 40)
    return PlaceTask(
        all_nodes,
        {node.name: node.gpus()[1:] for node in all_nodes},
        (want("w", 4),),
        movable=tuple(Movable(job(f"r{k}"), gpus(f"n{k}", 0), 40.0 - k) for k in range(40)),
        max_moves=budget,
        **MIX,
    )


def test_of_many_nodes_those_are_thought_of_where_room_is_cheapest_to_make():
    task = many_nodes(2)
    thought_of = [one.job.job_id for one in worth_moving(task, Costs())]
    assert thought_of == [f"r{k}" for k in reversed(range(26, 40))]
    assert worth_moving(many_nodes(0), Costs()) == ()
    done = solve_placing(task)
    assert [move.job_id for step in done.steps for move in step] == ["r39"]
    assert placing_faults(task, done) == []


def test_a_search_with_moves_that_is_cut_short_is_no_worse_than_one_without():
    task = replace(many_nodes(2), wants=(want("w", 3),))
    done = solve_placing(task, limits=Limits(deterministic=1e-9))
    assert done.steps == ()
    assert done.status != "optimal"
    assert [one.job_id for one in done.placements] == ["w"]


def least_waste(task: PlaceTask, widths: tuple[int, ...]) -> float:
    """Least expected waste over all ways to put pieces on nodes."""
    size = {node.name: node.num_gpus for node in task.nodes}
    found = []
    for where in product(size, repeat=len(widths)):
        left = dict(size)
        for node, width in zip(where, widths, strict=True):
            left[node] -= width
        if min(left.values()) >= 0:
            found.append(waste_gpus(task, {node: range(free) for node, free in left.items()}))
    return min(found)


@pytest.mark.parametrize(
    "widths", [(3, 1, 1, 1), (3, 3, 2), (3, 3, 3, 1), (5, 3, 6), (7, 1, 5), (6, 6, 2, 1), (3, 5, 3, 4)]
)
@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (8, 8, 8), (8, 8, 4)])
def test_odd_widths_leave_no_more_waste_than_the_best_way_to_place_them(widths, sizes):
    """The rest of a piece's cell is idle: it counts in the objective, and the optimum is the true one."""
    all_nodes = nodes(*sizes)
    wants = tuple(want(f"g{k}", width) for k, width in enumerate(widths) if width <= max(sizes))
    task = PlaceTask(all_nodes, {node.name: node.gpus() for node in all_nodes}, wants, **MIX)
    done = solve_placing(task)
    if len(done.placements) < len(wants):
        pytest.skip("not all of them fit")
    assert done.status == "optimal"
    assert done.objective == pytest.approx(least_waste(task, tuple(one.job.num_gpus for one in wants)))


@pytest.mark.parametrize(
    ("wants", "holds", "why", "text"),
    [
        (
            (want("x", 9),),
            (),
            LeftOut.WIDER_THAN_NODES,
            "asks for 9 GPUs; the widest gang that empty nodes hold has 8",
        ),
        ((want("x", 4),), (Held(Hold("p", 4), 4),), None, ""),
        (
            (want("x", 4, is_own=False),),
            (Held(Hold("p", 4), 4),),
            LeftOut.HELD_FOR_POOL,
            "would fit on GPUs that are kept for pool p",
        ),
        (
            (want("x", 4, is_own=False), want("o", 4)),
            (),
            LeftOut.OTHERS_FIRST,
            "would fit if it came first; the GPUs go to gang o",
        ),
        ((want("x", 6),), (), LeftOut.WIDER_THAN_IDLE, "asks for 6 GPUs, 5 are idle"),
    ],
)
def test_who_is_left_out_is_told_why(wants, holds, why, text):
    all_nodes = nodes(4, 4)
    idle = {"n0": gpus("n0", 0, 1, 2, 3), "n1": gpus("n1", 3)}
    task = PlaceTask(all_nodes, idle, wants, holds, **MIX)
    told = why_left_out(task, solve_placing(task))
    assert told.get("x") == (None if why is None else (why, text))


def test_a_type_that_no_node_has_is_named():
    task = PlaceTask(
        (Node("n0", 4, "a100"),),
        {"n0": Node("n0", 4, "a100").gpus()},
        (Want(replace(job("x"), gpu_type="v100"), True),),
        **MIX,
    )
    assert why_left_out(task, solve_placing(task))["x"] == (
        LeftOut.UNKNOWN_GPU_TYPE,
        "asks for GPUs of type v100, the nodes have: a100",
    )
