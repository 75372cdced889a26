"""Who runs where, told by facts: the room left for guests, and who goes so that own jobs get nodes."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Plan, Start
from solver.placement.decision import Starts, place_starts
from solver.placement.greedy import place
from solver.placement.keeper import Keeper
from solver.placement.room import Cells, Gang

NODES = (Node("n0", 4), Node("n1", 4))


def guest(name: str, num_gpus: int) -> Job:
    return job(name, 0.0, num_gpus, "b", requeue_u=0.0)


def keeper(nodes: Sequence[Node] = NODES) -> Keeper:
    return Keeper(nodes, lambda one: one.is_requeueable(0.5))


def own(*jobs: Job, send_backs: Sequence[Job] = (), conversions: Sequence[Job] = ()) -> Plan:
    starts = tuple(Start(one, False) for one in jobs)
    return Plan(send_backs=tuple(send_backs), conversions=tuple(conversions), starts=starts)


def free(books: Keeper, plan: Plan | None = None) -> list[int]:
    (nodes,) = books.room(plan or Plan(), 0.0).nodes
    return list(nodes.free_gpus)


def names(plan: Plan) -> list[str]:
    return [one.job_id for one in plan.send_backs]


def strewn() -> tuple[Keeper, list[Job]]:
    """Guests of two GPUs, two on each node, in turn."""
    books, guests = keeper(), [guest(f"g{k}", 2) for k in range(4)]
    for k, one in enumerate(guests):
        books.started(one, [(f"n{k % 2}", k // 2 * 2 + index) for index in (0, 1)])
    return books, guests


def test_what_is_idle_is_told_by_who_started_and_who_left():
    books = keeper()
    assert free(books) == [4, 4]
    books.started(job("a", num_gpus=3), [("n0", 0), ("n0", 1), ("n1", 3)])
    assert free(books) == [2, 3]
    books.left("a")
    books.left("a")
    assert free(books) == [4, 4]


def test_a_gpu_that_is_shared_is_idle_once_both_are_gone_and_a_node_that_is_not_there_never_is():
    books = keeper()
    for name in ("host", "rider"):
        books.started(job(name), [("n0", 0)])
    books.started(job("lost"), [("n9", 0)])
    assert free(books) == [3, 4]
    books.left("host")
    assert free(books) == [3, 4]
    books.left("rider")
    books.left("lost")
    assert free(books) == [4, 4]


def test_room_is_what_own_starts_leave_and_what_drains_for_one_is_no_room():
    books = keeper()
    books.started(job("a", num_gpus=3), [("n0", index) for index in range(3)])
    assert free(books, own(job("b"))) == [0, 4]
    books.started(job("c"), [("n1", 0)])
    assert free(books, own(job("wide", num_gpus=4))) == [1, 0]
    assert free(books) == [1, 3], "asking changes nothing"


def test_room_counts_guests_as_gone_that_a_plan_sends_back():
    books, guests = strewn()
    assert free(books, own(send_backs=guests[:1])) == [2, 0]
    assert free(books, own(job("o", num_gpus=2), send_backs=guests[:1])) == [0, 0]


def test_guests_go_whose_node_holds_the_gang_and_no_more_than_that_takes():
    books, guests = strewn()
    youngest = [guests[3], guests[2]]
    plan = books.by_node(own(job("wide", num_gpus=4), send_backs=youngest))
    assert names(plan) == ["g0", "g2"]
    assert free(books, own(job("wide", num_gpus=4), send_backs=youngest)) == [0, 0]


def test_the_choice_of_the_plan_stands_where_it_serves_as_many():
    books, guests = strewn()
    for plan in (own(job("o", num_gpus=2), send_backs=[guests[3]]), own(send_backs=guests[:1])):
        assert books.by_node(plan) == plan
    wider = own(job("too wide", num_gpus=12), send_backs=guests)
    assert books.by_node(wider) == wider


def test_a_gang_for_which_enough_is_idle_in_sum_gets_a_node_by_the_fewest_guests():
    books = keeper()
    books.started(guest("g", 2), [("n0", 0), ("n0", 1)])
    books.started(guest("h", 1), [("n1", 0)])
    assert names(books.by_node(own(job("wide", num_gpus=4)))) == ["h"]


def test_a_guest_who_turns_out_not_to_be_in_the_way_stays():
    """The gang takes a whole node and a pair of the other one: of that node nobody has to go."""
    books = keeper()
    books.started(guest("g", 3), [("n0", 0), ("n0", 1), ("n0", 2)])
    books.started(guest("h", 2), [("n1", 2), ("n1", 3)])
    assert names(books.by_node(own(job("wide", num_gpus=6)))) == ["g"]


def test_whoever_may_not_go_or_is_about_to_be_own_stays():
    books = keeper()
    turns, stays = guest("turns", 1), job("stays", 0.0, 1, "b", requeue_u=None)
    books.started(turns, [("n0", 0)])
    books.started(stays, [("n1", 0)])
    assert names(books.by_node(own(job("wide", num_gpus=4)))) == ["turns"]
    assert names(books.by_node(own(job("wide", num_gpus=4), conversions=[turns]))) == []


def test_those_the_plan_names_go_besides_where_own_starts_lack_gpus_in_sum():
    """No guests make room for the gang of 4; two more get nodes, and neither must wait for the gang."""
    books = keeper((Node("n0", 4), Node("n1", 4), Node("n2", 2)))
    for name in ("n0", "n1"):
        books.started(job(f"own {name}", num_gpus=1), [(name, 0)])
        books.started(guest(f"g {name}", 3), [(name, index) for index in (1, 2, 3)])
    for index in (0, 1):
        books.started(guest(f"h{index}", 1), [("n2", index)])
    due = [job("gang", num_gpus=4), job("pair", num_gpus=2), job("two", num_gpus=2)]
    named = [guest("g n0", 3), guest("h0", 1), guest("h1", 1), guest("g n1", 3)]
    for send_backs in (named, named[:2], []):
        plan = books.by_node(own(*due, send_backs=send_backs))
        assert len(set(names(plan))) == len(plan.send_backs)
        done = place_starts(Starts(own=due), idle_without(books, plan), books_nodes(books))
        assert set(done.places) >= {"pair", "two"}
    assert len(books.by_node(own(*due, send_backs=named)).send_backs) == 4, "all: 8 GPUs are due"


def books_nodes(books: Keeper) -> list[Node]:
    return books._board.nodes


def idle_without(books: Keeper, plan: Plan) -> dict[str, list[Gpu]]:
    board = books._board.copy()
    for one in plan.send_backs:
        board.remove(one.job_id)
    return board.idle()


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Keeper, list[Job], list[Job], list[Job]]:
    """Nodes of 4 with jobs of 1, 2 and 4 GPUs, guests to send back, own jobs that are due, guests to come."""
    nodes = [Node(f"n{k}", 4) for k in range(draw(st.integers(1, 4)))]
    books, running = keeper(nodes), []
    for node in nodes:
        index = 0
        for k, width in enumerate(draw(st.lists(st.sampled_from([1, 2]), max_size=4))):
            if index + width <= 4 and draw(st.booleans()):
                one = guest(f"{node.name} {k}", width)
                one = one if draw(st.booleans()) else job(f"own {node.name} {k}", 0.0, width, requeue_u=None)
                books.started(one, [(node.name, index + i) for i in range(width)])
                running.append(one)
            index += width
    may_go = [one for one in running if one.requeue_u == 0.0]
    widths = st.lists(st.sampled_from([1, 2, 4, 8]), max_size=4)
    due = [job(f"due {k}", num_gpus=width) for k, width in enumerate(draw(widths))]
    lent = [guest(f"lent {k}", width) for k, width in enumerate(draw(widths))]
    return books, may_go[: draw(st.integers(0, 4))], due, lent


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_nobody_loses_nodes_by_it_and_none_who_goes_can_be_spared(
    scene: tuple[Keeper, list[Job], list[Job], list[Job]],
):
    books, named, due, _ = scene
    before = own(*due, send_backs=named)
    after = books.by_node(before)
    assert len(set(names(after))) == len(after.send_backs)
    placed = [
        len(place_starts(Starts(own=due), idle_without(books, plan), books_nodes(books)).places)
        for plan in (before, after)
    ]
    assert placed[1] >= placed[0]
    if after != before and placed[1] == len(due):
        for one in after.send_backs:
            fewer = own(*due, send_backs=[other for other in after.send_backs if other != one])
            idle = idle_without(books, fewer)
            assert len(place_starts(Starts(own=due), idle, books_nodes(books)).places) < len(due)


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_guests_that_fit_the_room_are_placed_by_the_rule_that_places_decisions(
    scene: tuple[Keeper, list[Job], list[Job], list[Job]],
):
    books, named, due, lent = scene
    plan = own(*due, send_backs=named)
    cells = Cells(books.room(plan, 0.0))
    chosen = [one for one in lent if cells.admit(Gang(one.num_gpus))]
    idle = idle_without(books, books.by_node(plan))
    dealt = place_starts(Starts(own=due, guests=chosen), idle, books_nodes(books))
    assert {one.job_id for one in chosen} <= dealt.places.keys()
    assert {one.job_id for one in place(due, idle, books_nodes(books))} <= dealt.places.keys()
