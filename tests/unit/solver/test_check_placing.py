"""The independent look at a placing finds each way in which one can be wrong."""

from dataclasses import replace

import pytest
from support import job

from domain.cluster import Gpu, Node
from domain.plans import Hold, Placement
from solver.check_placing import placing_faults
from solver.placement.task import Held, Movable, Move, PlaceTask, Placing, Want


def at(node: str, *indices: int, gpu_type: str = "a") -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index, gpu_type) for index in indices)


NODES = (Node("n0", 4, "a"), Node("n1", 4, "a"), Node("m0", 4, "b"))
TASK = PlaceTask(
    NODES,
    {"n0": at("n0", 2, 3), "n1": at("n1", 1, 2, 3), "m0": at("m0", 0, 1, 2, 3, gpu_type="b")},
    (Want(replace(job("w", num_gpus=2), gpu_type="a"), True), Want(job("v", num_gpus=4), True)),
    (Held(Hold("p", 2), 2),),
    (Movable(job("r"), at("n1", 0)), Movable(job("s", num_gpus=2), at("n0", 0, 1))),
    max_moves=1,
)
GOOD = Placing(
    placements=(Placement("w", at("n0", 2, 3)), Placement("v", at("m0", 0, 1, 2, 3, gpu_type="b"))),
    held=((at("n1", 1, 2),),),
    steps=((Move("r", at("n1", 0), at("n1", 3)),),),
    objective=1.0,
)


def test_a_sound_placing_has_no_faults():
    assert placing_faults(TASK, GOOD) == []
    assert placing_faults(TASK, replace(GOOD, placements=GOOD.placements[:1], unplaced={"v": "x"})) == []


def starts(**places) -> Placing:
    known = {one.job_id: one.gpus for one in GOOD.placements} | places
    return replace(GOOD, placements=tuple(Placement(name, gpus) for name, gpus in known.items()))


def moved(*steps: tuple[Move, ...]) -> Placing:
    return replace(GOOD, steps=steps, held=((),))


BROKEN = {
    "not whole": (starts(w=at("n0", 2)), "gang w gets 1 GPUs and has 2 workers"),
    "not free": (starts(w=at("n0", 1, 2)), "gang w gets GPU 1 of node n0, which is not free"),
    "not there": (starts(w=at("n9", 0, 1)), "gang w gets GPU 0 of node n9, which there is not"),
    "of another type": (starts(w=at("m0", 0, 1, gpu_type="b")), "gang w asks for type a and gets b"),
    "given twice": (starts(w=at("n1", 1, 2)), "the hold for pool p gets GPU 1 of node n1, which is not free"),
    "on too many nodes": (starts(w=at("n0", 2) + at("n1", 3)), "gang w is on 2 nodes, 1 would do"),
    "nobody's": (starts(x=at("n0", 2)), "gang x starts and does not wait"),
    "without a reason": (
        replace(GOOD, placements=GOOD.placements[:1]),
        "gang v has to have either a place or a reason",
    ),
    "moved though it may not be": (
        moved((Move("w", at("n1", 0), at("n1", 3)),)),
        "gang w is moved and may not be",
    ),
    "moved from elsewhere": (
        moved((Move("r", at("n0", 0), at("n1", 3)),)),
        "gang r is moved from where it does not run",
    ),
    "moved too often": (
        moved((Move("r", at("n1", 0), at("n1", 3)),), (Move("s", at("n0", 0, 1), at("n1", 1, 2)),)),
        "2 gangs are moved, 1 may be",
    ),
    "moved to another type": (
        moved((Move("r", at("n1", 0), at("m0", 0, gpu_type="b")),)),
        "gang r is moved to GPUs of another type",
    ),
    "moved where somebody is": (
        moved((Move("r", at("n1", 0), at("n0", 0)),)),
        "step 1 gives gang r GPU 0 of node n0, which is not free by then",
    ),
    "shrunk by its move": (moved((Move("s", at("n0", 0, 1), at("n1", 1)),)), "gang s has 2 GPUs and gets 1"),
    "holding too much": (
        replace(GOOD, held=((at("n1", 1, 2), at("n1", 0)),)),
        "the hold for pool p keeps 3 GPUs, 2 were asked for",
    ),
    "holding pieces that are no place": (
        replace(starts(v=at("n1", 0, 1, 2, 3)), held=((at("n0", 0), at("m0", 0, gpu_type="b")),)),
        "the hold for pool p has no room for a gang of 2 GPUs",
    ),
    "bounded above what it costs": (replace(GOOD, bound=2.0), "the bound 2 is above the objective 1"),
    "silent on a hold": (replace(GOOD, held=()), "1 holds are asked for and 0 are told of"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_placing_that_is_broken_is_found_out(what):
    placing, said = BROKEN[what]
    faults = placing_faults(TASK, placing)
    assert any(said in fault for fault in faults), faults


def test_steps_have_to_be_in_an_order_in_which_they_can_be_made():
    task = replace(
        TASK,
        idle={"n0": at("n0", 2, 3)},
        wants=(),
        holds=(),
        max_moves=2,
        movable=(
            Movable(job("a", num_gpus=2), at("n0", 0, 1)),
            Movable(job("b", num_gpus=2), at("n1", 0, 1)),
        ),
    )
    first, second = Move("a", at("n0", 0, 1), at("n0", 2, 3)), Move("b", at("n1", 0, 1), at("n0", 0, 1))
    assert placing_faults(task, Placing(steps=((first,), (second,)))) == []
    assert placing_faults(task, Placing(steps=((first, second),))) == []
    assert len(placing_faults(task, Placing(steps=((second,), (first,))))) == 2
