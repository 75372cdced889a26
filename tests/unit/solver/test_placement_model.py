"""The placing model on instances whose best answer is known."""

from itertools import combinations

import pytest
from support import job

from domain.cluster import Gpu, Node
from domain.plans import Hold
from solver.placement.model import greedy_placing, solve_placing
from solver.placement.task import Costs, Held, Limits, Movable, PlaceTask, Want


def nodes(*sizes: int, gpu_type: str = "any", prefix: str = "n") -> tuple[Node, ...]:
    return tuple(Node(f"{prefix}{k}", size, gpu_type) for k, size in enumerate(sizes))


def gpus(node: str, *indices: int, gpu_type: str = "any") -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index, gpu_type) for index in indices)


def idle(all_nodes, *free: int) -> dict[str, tuple[Gpu, ...]]:
    """The last GPUs of each node."""
    return {node.name: node.gpus()[node.num_gpus - n :] for node, n in zip(all_nodes, free, strict=True)}


def own(name: str, num_gpus: int, **more) -> Want:
    return Want(job(name, num_gpus=num_gpus), is_own=True, **more)


def guest(name: str, num_gpus: int, **more) -> Want:
    return Want(job(name, num_gpus=num_gpus), is_own=False, **more)


def where(placing) -> dict[str, list[str]]:
    return {one.job_id: sorted({gpu.node for gpu in one.gpus}) for one in placing.placements}


MIX = {"widths": (1, 4, 8), "shares": (0.4, 0.3, 0.3)}


def test_nothing_to_place_is_an_empty_placing():
    done = solve_placing(PlaceTask((), {}))
    assert (done.placements, done.held, done.steps, done.unplaced, done.status) == ((), (), (), {}, "optimal")


def test_own_starts_come_before_holds_and_holds_before_guests():
    all_nodes = nodes(8, 8)
    task = PlaceTask(
        all_nodes,
        idle(all_nodes, 8, 8),
        (own("o", 8), guest("g", 8)),
        holds=(Held(Hold("p", 4), 4),),
        **MIX,
    )
    done = solve_placing(task)
    assert list(where(done)) == ["o"]
    assert [len(piece) for piece in done.held[0]] == [4]
    assert done.unplaced == {"g": "does not fit any node although 16 GPUs are idle"}
    assert done.status == "optimal"
    assert done.gap == 0.0


def test_who_cannot_be_placed_is_told_why():
    all_nodes = nodes(4, 4)
    task = PlaceTask(all_nodes, idle(all_nodes, 3, 3), (own("a", 4), own("b", 7), own("c", 9)), **MIX)
    assert solve_placing(task).unplaced == {
        "a": "does not fit any node although 6 GPUs are idle",
        "b": "asks for 7 GPUs, 6 are idle",
        "c": "asks for 9 GPUs of type any, there are 8",
    }


def test_idle_gpus_stay_usable_for_the_gangs_to_come():
    all_nodes = nodes(8, 8, 8)
    done = solve_placing(
        PlaceTask(all_nodes, idle(all_nodes, 8, 3, 5), (guest("a", 1), guest("b", 4)), **MIX)
    )
    assert where(done) == {"a": ["n1"], "b": ["n2"]} or where(done) == {"a": ["n2"], "b": ["n2"]}
    assert done.objective == pytest.approx(min(2 * 0.6 + 1 * 0.6, 3 * 0.6))


def test_the_model_places_what_the_greedy_rule_cannot():
    """Three sizes in cells of four: the rule counts 3 + 3 + 2 as 4 + 4 + 2."""
    all_nodes = nodes(6, 6)
    task = PlaceTask(
        all_nodes, idle(all_nodes, 6, 6), (guest("a", 8, value=5), guest("b", 6, value=9)), **MIX
    )
    assert list(where(solve_placing(task))) == ["b"]


def test_types_are_kept_and_who_names_none_leaves_them_to_those_who_do():
    all_nodes = nodes(8, gpu_type="a100", prefix="x") + nodes(8, gpu_type="v100", prefix="y")
    typed = Want(job("t", num_gpus=8), is_own=True)
    typed = typed._replace(job=job("t", num_gpus=8).__class__("t", "a", 0.0, 8, gpu_type="a100"))
    free = {node.name: node.gpus() for node in all_nodes}
    done = solve_placing(PlaceTask(all_nodes, free, (own("any", 8), typed), **MIX))
    assert where(done) == {"any": ["y0"], "t": ["x0"]}


def test_a_wide_gang_takes_whole_nodes_and_one_rest():
    all_nodes = nodes(8, 8, 8)
    done = solve_placing(PlaceTask(all_nodes, idle(all_nodes, 8, 8, 4), (own("w", 12), own("x", 8)), **MIX))
    assert sorted(map(len, where(done).values())) == [1, 2]
    assert len({gpu for one in done.placements for gpu in one.gpus}) == 20


def test_an_assigned_gang_keeps_its_gpus_unless_that_is_worth_changing():
    all_nodes = nodes(8, 8)
    at = gpus("n0", 0, 1)
    task = PlaceTask(all_nodes, idle(all_nodes, 8, 2), (guest("a", 2, assigned=at),), **MIX)
    assert solve_placing(task, Costs(reassign=9.0)).placements[0].gpus == at
    assert where(solve_placing(task, Costs(reassign=0.1))) == {"a": ["n1"]}
    blocked = PlaceTask(all_nodes, idle(all_nodes, 8, 2), (guest("a", 2, assigned=at), own("o", 8)), **MIX)
    assert where(solve_placing(blocked, Costs(reassign=9.0))) == {"a": ["n1"], "o": ["n0"]}


def test_an_own_gangs_assignment_over_several_nodes_is_kept():
    all_nodes = nodes(4, 4, 4)
    at = gpus("n1", 0, 1, 2, 3) + gpus("n2", 0)
    done = solve_placing(PlaceTask(all_nodes, idle(all_nodes, 4, 4, 4), (own("w", 5, assigned=at),), **MIX))
    assert done.placements[0].gpus == at


def test_gpus_assigned_that_are_gone_are_assigned_no_more():
    all_nodes = nodes(4, 4)
    task = PlaceTask(all_nodes, idle(all_nodes, 0, 4), (guest("a", 2, assigned=gpus("n0", 0, 1)),), **MIX)
    assert where(solve_placing(task)) == {"a": ["n1"]}
    assert where(greedy_placing(task)) == {"a": ["n1"]}


def test_moves_stay_within_their_budget():
    all_nodes = nodes(4, 4, 4)
    running = tuple(Movable(job(f"r{k}"), gpus(f"n{k}", 0)) for k in range(3))
    task = PlaceTask(all_nodes, idle(all_nodes, 3, 3, 3), (own("a", 4), own("b", 4)), movable=running, **MIX)
    assert len(solve_placing(task).placements) == 0
    for budget, placed in ((1, 1), (2, 2), (3, 2)):
        done = solve_placing(
            PlaceTask(all_nodes, task.idle, task.wants, movable=running, max_moves=budget, **MIX)
        )
        assert len(done.placements) == placed
        assert sum(map(len, done.steps)) == placed


def test_two_gangs_exchange_places_in_one_step():
    """Neither finds room before the other has left; afterwards there is room for two more GPUs on a node."""
    all_nodes = nodes(4, 4)
    running = (
        Movable(job("wide", num_gpus=3), gpus("n0", 0, 1, 2)),
        Movable(job("narrow", num_gpus=2), gpus("n1", 0, 1)),
    )
    task = PlaceTask(
        all_nodes,
        {"n0": gpus("n0", 3), "n1": gpus("n1", 3)},
        (own("o", 2),),
        movable=running,
        max_moves=2,
        **MIX,
    )
    done = solve_placing(task)
    assert where(done) == {"o": ["n0"]}
    (step,) = done.steps
    assert {move.job_id: move.new[0].node for move in step} == {"wide": "n1", "narrow": "n0"}


def test_a_limit_of_no_time_gives_the_greedy_placing():
    all_nodes = nodes(8, 8)
    task = PlaceTask(all_nodes, idle(all_nodes, 8, 3), (own("a", 8), guest("b", 2)), **MIX)
    done = solve_placing(task, limits=Limits(wall_s=0.0))
    assert (done.status, done.fallback) == ("greedy", "greedy")
    assert where(done) == {"a": ["n0"], "b": ["n1"]}
    assert done.objective == pytest.approx(0.6)


def test_groups_of_nodes_place_as_much_where_nothing_crosses_them():
    all_nodes = nodes(*[8] * 6)
    wants = tuple(guest(f"a{k}", 4, assigned=gpus(f"n{k}", 0, 1, 2, 3)) for k in range(6)) + tuple(
        own(f"o{k}", 4) for k in range(6)
    )
    task = PlaceTask(
        all_nodes,
        {node.name: node.gpus() for node in all_nodes},
        wants,
        holds=(Held(Hold("p", 8), 8),),
        **MIX,
    )
    whole, parts = solve_placing(task), solve_placing(task, limits=Limits(max_nodes=2))
    assert (parts.groups, parts.fallback, parts.status) == (3, "groups", "feasible")
    assert len(whole.placements) == 10
    assert len(parts.placements) >= 9
    assert sum(map(len, parts.held[0])) == 8
    taken = [gpu for one in parts.placements for gpu in one.gpus] + [
        g for piece in parts.held[0] for g in piece
    ]
    assert len(taken) == len(set(taken))


def test_a_task_that_contradicts_itself_is_refused():
    all_nodes = nodes(4)
    with pytest.raises(ValueError, match="twice"):
        PlaceTask(all_nodes, {}, (own("a", 1), guest("a", 1)))
    with pytest.raises(ValueError, match="idle"):
        PlaceTask(all_nodes, {"n0": gpus("n0", 0)}, movable=(Movable(job("r"), gpus("n0", 0)),))


def best_by_search(widths: list[int], free: list[int]) -> int:
    """Most GPUs of gangs that can be placed together."""

    def fits(pieces: list[int], room: list[int]) -> bool:
        if not pieces:
            return True
        return any(
            fits(pieces[1:], [r - pieces[0] * (k == at) for k, r in enumerate(room)])
            for at in range(len(room))
            if room[at] >= pieces[0]
        )

    chosen = (some for n in range(len(widths) + 1) for some in combinations(sorted(widths, reverse=True), n))
    return max(sum(some) for some in chosen if fits(list(some), free))


@pytest.mark.parametrize("free", [(8, 5, 2), (7, 7), (4, 4, 3, 1)])
@pytest.mark.parametrize("widths", [(8, 4, 4, 2, 1), (4, 4, 2, 2, 2), (2, 2, 1, 1, 1, 1)])
def test_most_gpus_start(free, widths):
    all_nodes = nodes(*[8] * len(free))
    wants = tuple(guest(f"g{k}", width) for k, width in enumerate(widths))
    done = solve_placing(PlaceTask(all_nodes, idle(all_nodes, *free), wants, **MIX))
    started = sum(len(one.gpus) for one in done.placements)
    assert started == best_by_search(list(widths), list(free))
