"""Whatever is placed: whole gangs on the fewest nodes, no GPU twice, and holds that gangs really fit into."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Hold
from solver.placement import place
from solver.placement.model import greedy_placing, solve_placing
from solver.placement.task import Held, Limits, Movable, PlaceTask, Placing, Want

MIX = {"widths": (1, 2, 4, 8), "shares": (0.4, 0.2, 0.2, 0.2)}
FEW = settings(max_examples=40, deadline=None)


@st.composite
def tasks(draw: st.DrawFn, widths: tuple[int, ...] = (1, 2, 3, 4, 8, 12)) -> PlaceTask:
    nodes = tuple(
        Node(f"n{k}", draw(st.sampled_from((4, 8, 8))), draw(st.sampled_from(("a", "a", "b"))))
        for k in range(draw(st.integers(1, 5)))
    )
    idle: dict[str, tuple[Gpu, ...]] = {}
    movable: list[Movable] = []
    for node in nodes:
        gpus = node.gpus()
        busy = draw(st.integers(0, node.num_gpus))
        idle[node.name] = gpus[busy:]
        if busy and draw(st.booleans()):
            movable.append(Movable(job(f"r-{node.name}", num_gpus=busy), gpus[:busy]))
    wants: list[Want] = []
    spoken_for: set[Gpu] = set()
    for k in range(draw(st.integers(0, 6))):
        width = draw(st.sampled_from(widths))
        home = idle[draw(st.sampled_from(nodes)).name]
        free = [gpu for gpu in home if gpu not in spoken_for]
        assigned = tuple(free[:width]) if len(free) >= width and draw(st.booleans()) else ()
        spoken_for |= set(assigned)
        wants.append(Want(job(f"j{k}", num_gpus=width), draw(st.booleans()), assigned=assigned))
    holds = tuple(
        Held(Hold(f"p{k}", draw(st.integers(1, 12))), draw(st.sampled_from(widths)))
        for k in range(draw(st.integers(0, 2)))
    )
    moves = draw(st.integers(0, 2))
    return PlaceTask(nodes, idle, tuple(wants), holds, tuple(movable), moves, **MIX)


def check(task: PlaceTask, done: Placing) -> None:
    width = {want.job.job_id: want.job.num_gpus for want in task.wants}
    idle = {gpu for gpus in task.idle.values() for gpu in gpus}
    for step in done.steps:
        idle |= {gpu for move in step for gpu in move.old}
        arriving = [gpu for move in step for gpu in move.new]
        assert len(set(arriving)) == len(arriving)
        assert idle >= set(arriving)
        idle -= set(arriving)
    taken = [gpu for one in done.placements for gpu in one.gpus]
    taken += [gpu for pieces in done.held for piece in pieces for gpu in piece]
    assert len(set(taken)) == len(taken)
    assert idle >= set(taken)
    largest = max(node.num_gpus for node in task.nodes)
    for one in done.placements:
        assert len(one.gpus) == width[one.job_id]
        assert len({gpu.gpu_type for gpu in one.gpus}) == 1
        assert len({gpu.node for gpu in one.gpus}) == -(-len(one.gpus) // largest)
    assert {one.job_id for one in done.placements} | set(done.unplaced) == set(width)
    assert sum(map(len, done.steps)) <= task.max_moves
    for held, pieces in zip(task.holds, done.held, strict=True):
        assert sum(map(len, pieces)) <= held.hold.num_gpus


def started(task: PlaceTask, done: Placing, *, is_own: bool) -> int:
    placed = {one.job_id for one in done.placements}
    return sum(w.job.num_gpus for w in task.wants if w.is_own == is_own and w.job.job_id in placed)


@FEW
@given(tasks())
def test_every_placing_keeps_the_rules(task: PlaceTask):
    check(task, solve_placing(task))
    check(task, greedy_placing(task))
    check(task, solve_placing(task, limits=Limits(max_nodes=1)))


@FEW
@given(tasks(widths=(1, 2, 4, 8, 16)))
def test_the_model_starts_no_less_than_the_rule(task: PlaceTask):
    best, rule = solve_placing(task), greedy_placing(task)
    assert started(task, best, is_own=True) >= started(task, rule, is_own=True)


@FEW
@given(tasks(), st.randoms(use_true_random=False))
def test_permuting_the_input_changes_nothing(task: PlaceTask, random):
    def shuffled(things):
        return tuple(random.sample(list(things), len(list(things))))

    names = shuffled(task.idle)
    other = replace(
        task,
        nodes=shuffled(task.nodes),
        idle={name: shuffled(task.idle[name]) for name in names},
        wants=shuffled(task.wants),
        movable=shuffled(task.movable),
    )
    assert solve_placing(task) == solve_placing(other)
    assert greedy_placing(task) == greedy_placing(other)


@FEW
@given(tasks(widths=(1, 2, 4, 8, 16)), st.integers(1, 8))
def test_one_more_node_never_starts_less(task: PlaceTask, size: int):
    larger = max(node.num_gpus for node in task.nodes) >= size
    node = Node("extra", size if larger else 1, task.nodes[0].gpu_type)
    more = replace(task, nodes=(*task.nodes, node), idle={**task.idle, "extra": node.gpus()})
    before, after = solve_placing(task), solve_placing(more)
    assert started(task, after, is_own=True) >= started(task, before, is_own=True)


@FEW
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=6), st.integers(1, 24), st.sampled_from((1, 2, 4, 8, 24))
)
def test_any_gang_up_to_a_holds_size_fits_the_hold_without_moves(free: list[int], size: int, widest: int):
    nodes = tuple(Node(f"n{k}", 8) for k in range(len(free)))
    idle = {node.name: node.gpus()[8 - n :] for node, n in zip(nodes, free, strict=True)}
    task = PlaceTask(
        nodes, idle, (Want(job("g", num_gpus=4), False),), (Held(Hold("p", size), widest),), **MIX
    )
    (pieces,) = solve_placing(task).held
    kept: dict[str, list[Gpu]] = {}
    for gpu in (gpu for piece in pieces for gpu in piece):
        kept.setdefault(gpu.node, []).append(gpu)
    if sum(map(len, pieces)) < size:
        return  # the nodes had no room for it: it is short, and says so by what it lists
    for width in range(1, min(size, widest) + 1):
        (one,) = place([job("due", num_gpus=width)], kept, nodes)
        assert len({gpu.node for gpu in one.gpus}) == -(-width // 8)


@st.composite
def clusters_of_two_types(draw: st.DrawFn) -> tuple[tuple[Node, ...], dict[str, tuple[Gpu, ...]]]:
    """Nodes of types A and B, the largest of each as large or not, and what is idle on them."""
    size = draw(st.sampled_from((3, 4, 6, 8)))
    sizes = {"A": size, "B": draw(st.sampled_from((size, size, 3, 8)))}
    nodes = []
    for k in range(draw(st.integers(2, 6))):
        kind = "AB"[k] if k < 2 else draw(st.sampled_from("AB"))
        size = sizes[kind] if draw(st.integers(0, 3)) else draw(st.integers(1, sizes[kind]))
        nodes.append(Node(f"n{k}", size, kind))
    idle = {
        node.name: node.gpus()[
            : node.num_gpus if draw(st.booleans()) else draw(st.integers(0, node.num_gpus))
        ]
        for node in nodes
    }
    return tuple(nodes), idle


@settings(max_examples=200, deadline=None, derandomize=True)
@given(clusters_of_two_types(), st.integers(1, 12), st.integers(-4, 8), st.sampled_from((None, "A", "B")))
def test_any_gang_up_to_a_holds_size_fits_it_on_gpus_of_one_type(cluster, size: int, wider: int, asked):
    """Whoever holds it: the rule, the model, or the model in groups of nodes."""
    nodes, idle = cluster
    widest = max(1, max(node.num_gpus for node in nodes) + wider)
    start = Want(Job("own", "a", 0.0, 2, gpu_type=asked), True)
    task = PlaceTask(nodes, idle, (start,), (Held(Hold("p", size), widest),), **MIX)
    for done in (greedy_placing(task), solve_placing(task), solve_placing(task, limits=Limits(max_nodes=2))):
        (pieces,) = done.held
        assert all(len({gpu.node for gpu in piece}) == 1 for piece in pieces)
        kept: dict[str, list[Gpu]] = {}
        for gpu in (gpu for piece in pieces for gpu in piece):
            kept.setdefault(gpu.node, []).append(gpu)
        if sum(map(len, pieces)) < size:
            continue  # it is not full
        for width in range(1, min(size, widest) + 1):
            (one,) = place([job("due", num_gpus=width)], kept, nodes)
            assert len({gpu.gpu_type for gpu in one.gpus}) == 1


def test_a_hold_is_full_on_the_type_that_has_room_for_all_of_it():
    """Six of A and six of B come first, but the hold is for gangs of eight: two nodes of B hold it."""
    nodes = (Node("a", 6, "A"), Node("b1", 6, "B"), Node("b2", 6, "B"))
    idle = {node.name: node.gpus() for node in nodes}
    task = PlaceTask(nodes, idle, holds=(Held(Hold("p", 10), 8),), **MIX)
    for done in (greedy_placing(task), solve_placing(task), solve_placing(task, limits=Limits(max_nodes=2))):
        assert [[gpu.gpu_type for gpu in piece] for piece in done.held[0]] == [["B"] * 6, ["B"] * 4]
    apart = replace(task, nodes=nodes[:2], idle={name: idle[name] for name in ("a", "b1")})
    for done in (greedy_placing(apart), solve_placing(apart)):
        assert sum(map(len, done.held[0])) < 10, "six of one and four of the other hold no gang of seven"


@FEW
@given(st.lists(st.integers(1, 12), max_size=8), st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_the_rule_gives_gpus_once_and_whole_gangs_on_the_fewest_nodes(widths: list[int], free: list[int]):
    nodes = tuple(Node(f"n{k}", 8) for k in range(len(free)))
    idle = {node.name: node.gpus()[:n] for node, n in zip(nodes, free, strict=True)}
    jobs = [job(f"j{k}", num_gpus=width) for k, width in enumerate(widths)]
    placed = place(jobs, idle, nodes)
    taken = [gpu for one in placed for gpu in one.gpus]
    assert len(set(taken)) == len(taken)
    assert {gpu for gpus in idle.values() for gpu in gpus} >= set(taken)
    for one in placed:
        assert len(one.gpus) == widths[int(one.job_id[1:])]
        assert len({gpu.node for gpu in one.gpus}) == -(-len(one.gpus) // 8)
