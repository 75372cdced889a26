"""Starts of a decision on nodes: own ones first, cells kept for those that wait, guests around them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from solver.check_places import place_faults
from solver.explain.words import Why
from solver.placement.decision import Dealt, Starts, place_starts
from solver.placement.fit import Missing, rooms_for, rooms_of
from solver.placement.greedy import place
from solver.plan_rules import Known, PlanRule, state_of


def nodes(*sizes: int, gpu_type: str = "any", prefix: str = "n") -> tuple[Node, ...]:
    return tuple(Node(f"{prefix}{k}", size, gpu_type) for k, size in enumerate(sizes))


def idle(all_nodes: Sequence[Node], *free: int) -> dict[str, tuple[Gpu, ...]]:
    return {node.name: node.gpus()[:n] for node, n in zip(all_nodes, free, strict=True)}


def gangs(*widths: int, prefix: str = "g", gpu_type: str | None = None) -> list[Job]:
    named = [job(f"{prefix}{k}", float(k), width) for k, width in enumerate(widths)]
    return [replace(one, gpu_type=gpu_type) for one in named]


def where(dealt: Dealt) -> dict[str, list[str]]:
    return {name: sorted({gpu.node for gpu in gpus}) for name, gpus in dealt.places.items()}


def test_nothing_to_start_places_nothing():
    assert place_starts(Starts(), {}, ()) == Dealt({}, {})


def test_own_starts_come_first_and_the_greedy_rule_is_enough_for_powers_of_two():
    here = nodes(4, 4)
    starts = Starts(own=gangs(4, 2, prefix="o"), guests=gangs(2, 1))
    dealt = place_starts(starts, idle(here, 4, 4), here)
    assert where(dealt) == {"o0": ["n0"], "o1": ["n1"], "g0": ["n1"]}
    assert dealt.unplaced["g1"] == (Why.NO_IDLE_GPU, "asks for 1 GPUs, 0 are idle")
    assert dealt.solves == 0


def test_a_gang_whose_gpus_lie_apart_waits_with_what_there_is():
    here = nodes(4, 4)
    dealt = place_starts(Starts(guests=gangs(4)), idle(here, 3, 2), here)
    assert dealt.places == {}
    assert dealt.unplaced["g0"] == (
        Why.NO_NODE_FITS,
        "does not fit any node although 5 GPUs are idle: the widest gang has 3",
    )
    assert str(dealt.unplaced["g0"]).startswith("no-node-fits: ")
    assert dealt.solves == 0


def test_the_model_finds_room_for_odd_widths_that_the_greedy_rule_has_not():
    """3 and 2 on five GPUs, 6 on seven; the greedy rule puts the 3 where the 6 should go."""
    here = nodes(8, 8)
    asked = gangs(3, 6, 2, prefix="o")
    assert len(place(asked, idle(here, 5, 7), here)) == 2
    dealt = place_starts(Starts(own=asked), idle(here, 5, 7), here)
    assert where(dealt) == {"o0": ["n0"], "o1": ["n1"], "o2": ["n0"]}
    assert dealt.solves == 1


def test_the_model_leaves_a_type_to_who_asks_for_it():
    here = nodes(4, gpu_type="a") + nodes(4, gpu_type="b", prefix="m")
    own = [*gangs(4, prefix="o"), *gangs(4, prefix="t", gpu_type="a")]
    dealt = place_starts(Starts(own=own), idle(here, 4, 4), here)
    assert where(dealt) == {"o0": ["m0"], "t0": ["n0"]}
    assert dealt.solves == 1


def test_the_model_takes_nobodys_place_for_wider_ones():
    here = nodes(8)
    dealt = place_starts(Starts(own=gangs(3, 6, prefix="o")), idle(here, 8), here)
    assert where(dealt) == {"o0": ["n0"]}


def test_guests_leave_the_cell_of_a_gang_that_gpus_are_held_for():
    here = nodes(4, 4)
    held = gangs(4, prefix="h")
    dealt = place_starts(Starts(held=held, guests=gangs(2, 2, 2)), idle(here, 4, 4), here)
    assert {gpu.node for gpu in dealt.kept["h0"]} == {"n0"}
    assert where(dealt) == {"g0": ["n1"], "g1": ["n1"]}
    assert dealt.unplaced["g2"].why is Why.BEHIND_DUE_JOB
    assert dealt.unplaced["g2"].text == "the nodes that would hold it are kept for pool a (h0)"


def test_nodes_are_kept_for_a_gang_that_fits_none_yet():
    here = nodes(4, 4)
    own = gangs(4, prefix="o")
    dealt = place_starts(Starts(own=own, guests=gangs(2, 1)), idle(here, 3, 2), here)
    assert where(dealt) == {"g0": ["n1"]}
    assert len(dealt.kept["o0"]) == 3
    assert (dealt.unplaced["o0"].why, dealt.unplaced["g1"].why) == (Why.NO_NODE_FITS, Why.BEHIND_DUE_JOB)


def test_a_gang_that_no_nodes_can_ever_hold_keeps_nothing():
    typed = nodes(4, gpu_type="y")
    starts = Starts(own=gangs(8, prefix="o", gpu_type="x"), guests=gangs(4))
    dealt = place_starts(starts, idle(typed, 4), typed)
    assert where(dealt) == {"g0": ["n0"]}
    assert dealt.unplaced["o0"] == (Why.NO_IDLE_GPU, "asks for 8 GPUs of type x, there are 0")
    assert dealt.kept == {}


def test_a_later_own_start_may_have_what_is_kept_and_a_guest_may_not():
    here = nodes(8, 8)
    starts = Starts(own=gangs(8, 2, prefix="o"), guests=gangs(2))
    dealt = place_starts(starts, idle(here, 6, 0), here)
    assert where(dealt) == {"o1": ["n0"]}
    assert dealt.unplaced["g0"].why is Why.BEHIND_DUE_JOB


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 2, 4, 8, 12]), max_size=3),
    st.sampled_from([1, 2, 4, 8]),
    st.lists(st.sampled_from([1, 2, 4, 8]), max_size=5),
)
def test_places_keep_the_rules_and_a_held_gang_fits_whole_where_it_fitted(free, own, held_gpus, guests):
    here = nodes(*([8] * len(free)))
    held = gangs(held_gpus, prefix="h")[0]
    starts = Starts(gangs(*own, prefix="o"), [held], gangs(*guests))
    dealt = place_starts(starts, idle(here, *free), here)
    asked = [*starts.own, *starts.guests]
    assert dealt.places.keys() | dealt.unplaced.keys() == {one.job_id for one in asked}
    cell = dealt.kept.get(held.job_id, ())
    placed = [(one, dealt.places[one.job_id]) for one in asked if one.job_id in dealt.places]
    others = tuple(
        Known(job(f"busy{k}", num_gpus=8 - n), gpus=node.gpus()[n:])
        for k, (node, n) in enumerate(zip(here, free, strict=True))
        if n < 8
    )
    running = [replace(one, standing="own") for one in others]
    after_own = [gpus for one, gpus in placed if one in starts.own]
    if len(cell) == held.num_gpus:
        placed.append((held, cell))
    else:
        left = {gpu for gpus in idle(here, *free).values() for gpu in gpus} - {
            gpu for gpus in after_own for gpu in gpus
        }
        by_node = {node.name: [gpu for gpu in left if gpu.node == node.name] for node in here}
        assert place([held], by_node, here) == ()
    plan = Plan(
        starts=tuple(Start(one, True) for one, _ in placed),
        placements=tuple(Placement(one.job_id, gpus) for one, gpus in placed),
    )
    state = state_of(0.0, sum(free), {"a": 99}, [*running, *(Known(one) for one, _ in placed)], here)
    found = [
        fault for fault in place_faults(state, plan) if fault.rule is not PlanRule.MORE_NODES_THAN_NEEDED
    ]
    assert found == []
    guests_on = {gpu for one, gpus in placed if one in starts.guests for gpu in gpus}
    assert not guests_on & {gpu for gpus in dealt.kept.values() for gpu in gpus}


# What fits on what is idle.


@pytest.mark.parametrize(
    ("free", "widest"), [((3, 2), 3), ((4, 2), 6), ((4, 4, 1), 9), ((0, 0), 0), ((4, 3, 2), 7)]
)
def test_the_widest_gang_is_whole_nodes_and_the_largest_rest(free, widest):
    here = nodes(*([4] * len(free)))
    (room,) = rooms_of({f"n{k}": n for k, n in enumerate(free)}, here)
    assert room.widest_gpus() == widest
    fits = [width for width in range(1, 17) if place(gangs(width), idle(here, *free), here)]
    assert fits == [width for width in range(1, 17) if room.holds(width)]
    assert max(fits, default=0) == widest


def test_the_nearest_nodes_lack_the_fewest_gpus():
    (room,) = rooms_of({"n0": 1, "n1": 3, "n2": 4}, nodes(4, 4, 4))
    assert room.nearest(8) == [Missing("n2", 0), Missing("n1", 1)]
    assert room.nearest(4, ["n2"]) == [Missing("n1", 1)]
    assert room.nearest(1) == [Missing("n0", 0)]
    assert room.nearest(13) == []


def test_a_gang_may_use_types_on_which_it_needs_the_fewest_nodes():
    rooms = rooms_of({}, nodes(4, gpu_type="a") + nodes(8, gpu_type="b", prefix="m"))
    assert [room.gpu_type for room in rooms_for(rooms, 2, None)] == ["a", "b"]
    assert [room.gpu_type for room in rooms_for(rooms, 8, None)] == ["b"]
    assert [room.gpu_type for room in rooms_for(rooms, 8, "a")] == ["a"]
