"""Whatever is placed, and then once more: the checker passes, budgets are kept, nothing changes."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.cluster import Gpu, Node
from domain.plans import Hold
from solver.check_placing import placing_faults
from solver.placement.again import Earlier, key_of, place_again
from solver.placement.left_out import why_left_out
from solver.placement.model import greedy_placing, solve_placing
from solver.placement.task import Held, Limits, Movable, PlaceTask, Placing, Want

MIX = {"widths": (1, 2, 4, 8), "shares": (0.4, 0.2, 0.2, 0.2)}
FEW = settings(max_examples=60, deadline=None)


@st.composite
def tasks(draw: st.DrawFn) -> PlaceTask:
    """Small clusters with several gangs on a node, some of which may be moved, each at a price of its own."""
    nodes = tuple(
        Node(f"n{k}", draw(st.sampled_from((4, 8))), draw(st.sampled_from(("a", "a", "b"))))
        for k in range(draw(st.integers(1, 4)))
    )
    idle: dict[str, tuple[Gpu, ...]] = {}
    movable: list[Movable] = []
    for node in nodes:
        left = list(node.gpus())
        for k in range(draw(st.integers(0, 3))):
            width = draw(st.integers(1, 3))
            gang, left = tuple(left[:width]), left[width:]
            cost = draw(st.sampled_from((None, 0.0, 0.3, 7.0)))
            if gang and draw(st.booleans()):
                movable.append(Movable(job(f"r{k}-{node.name}", num_gpus=len(gang)), gang, cost))
        idle[node.name] = tuple(left)
    wants = tuple(
        Want(job(f"j{k}", num_gpus=draw(st.sampled_from((1, 2, 3, 4, 5, 8, 12)))), draw(st.booleans()))
        for k in range(draw(st.integers(0, 5)))
    )
    holds = tuple(
        Held(Hold(f"p{k}", draw(st.integers(1, 12))), draw(st.sampled_from((1, 2, 3, 4, 8))))
        for k in range(draw(st.integers(0, 2)))
    )
    return PlaceTask(nodes, idle, wants, holds, tuple(movable), draw(st.integers(0, 3)), **MIX)


def earlier_of(task: PlaceTask, placing: Placing) -> Earlier:
    return Earlier(
        {one.job_id: one.gpus for one in placing.placements},
        {move.job_id: move.new for step in placing.steps for move in step},
        [(key_of(held), pieces) for held, pieces in zip(task.holds, placing.held, strict=True)],
    )


@FEW
@given(tasks())
def test_the_independent_checker_passes_and_everybody_left_out_has_a_reason(task: PlaceTask):
    for placing in (
        solve_placing(task),
        greedy_placing(task),
        solve_placing(task, limits=Limits(max_nodes=1)),
    ):
        assert placing_faults(task, placing) == []
        assert set(why_left_out(task, placing)) == set(placing.unplaced)


@FEW
@given(tasks())
def test_the_same_question_with_its_own_answer_changes_nothing(task: PlaceTask):
    first = solve_placing(task)
    again = place_again(task, earlier_of(task, first))
    assert (again.placements, again.held, again.steps) == (first.placements, first.held, first.steps)


@FEW
@given(tasks(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_told_changes_nothing(task: PlaceTask, random):
    def shuffled(things):
        return tuple(random.sample(list(things), len(list(things))))

    other = replace(
        task,
        nodes=shuffled(task.nodes),
        idle={name: shuffled(task.idle[name]) for name in shuffled(task.idle)},
        wants=shuffled(task.wants),
        movable=shuffled(task.movable),
    )
    first = solve_placing(task)
    assert solve_placing(other) == first
    assert place_again(other, earlier_of(task, first)) == place_again(task, earlier_of(task, first))


@FEW
@given(tasks(), tasks())
def test_an_earlier_plan_of_another_cluster_breaks_nothing(task: PlaceTask, other: PlaceTask):
    earlier = earlier_of(other, solve_placing(other))
    types = {gpu for node in task.nodes for gpu in node.gpus()}
    known = Earlier(
        {name: gpus for name, gpus in earlier.starts.items() if types.issuperset(gpus) and one_node(gpus)},
        {name: gpus for name, gpus in earlier.moves.items() if types.issuperset(gpus) and one_node(gpus)},
    )
    runs = {one.job.job_id: one.gpus for one in task.movable}
    alike = {
        name: gpus
        for name, gpus in known.moves.items()
        if name in runs and gpus[0].gpu_type == runs[name][0].gpu_type
    }
    placing = place_again(task, Earlier(known.starts, alike))
    assert placing_faults(task, placing) == []


def one_node(gpus: tuple[Gpu, ...]) -> bool:
    return len({gpu.node for gpu in gpus}) == 1
