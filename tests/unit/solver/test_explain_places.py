"""Reasons of nodes and of packing, each produced by a small scene, and what would change it."""

from dataclasses import replace

import pytest
from explained import QUOTAS, World, change, extra, full
from support import job

from domain.cluster import Gpu, Node
from solver.explain.answer import explain_waiting
from solver.explain.scene import Scene
from solver.explain.words import Lever, Waiting, Why
from solver.plan_rules import Known, Standing, state_of

NODES = (Node("n1", 4, "old"), Node("n2", 4, "new"))
ALIKE = (Node("n1", 4), Node("n2", 4))


def on(node: str, *indices: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index) for index in indices)


def on_nodes(*line: Known, idle: int, nodes: tuple[Node, ...] = NODES, **more: object) -> dict[str, Waiting]:
    world = World("maxmin")
    state = state_of(0.0, idle, QUOTAS, line, nodes)
    scene = replace(world.scene(), state=state, owes=replace(world.owes, has_own_lanes=False), **more)
    return {one.job.job_id: one for one in explain_waiting(world.policy, scene)}


def busy(name: str, node: str, *indices: int) -> Known:
    return Known(job(name, 0.0, len(indices), "b"), Standing.OWN, on(node, *indices))


def test_gpus_that_are_idle_but_not_together():
    halves = [busy("left", "n1", 0, 1), busy("right", "n2", 0, 1)]
    one = on_nodes(*halves, Known(extra(4)), idle=4)["extra"]
    assert one.why is Why.NO_NODE_FITS
    assert one.text == (
        "does not fit any node although 4 GPUs are idle: it needs 1 whole node, "
        "the widest gang that fits has 2"
    )
    assert one.evidence == {
        "idle_gpus": 4,
        "width_gpus": 4,
        "usable_gpus": 4,
        "widest_gpus": 2,
        "by_type": "new: 2 idle, widest gang 2; old: 2 idle, widest gang 2",
    }
    freed = change(one, Lever.NODE_FREED)
    assert (freed.value, freed.text) == (
        2,
        "has a place if 2 more GPUs of node n2 were idle (right there)",
    )
    assert [found.lever for found in one.changes] == [Lever.NODE_FREED]
    assert on_nodes(halves[0], Known(extra(4)), idle=6)["extra"].why is not Why.NO_NODE_FITS


def test_a_move_that_would_make_room():
    halves = [busy("left", "n1", 0, 1), busy("right", "n2", 0, 1, 2)]
    one = on_nodes(*halves, Known(extra(3)), idle=3, nodes=ALIKE)["extra"]
    assert (one.why, change(one, Lever.NODE_FREED).value) == (Why.NO_NODE_FITS, 1)
    assert Lever.MOVE not in [found.lever for found in one.changes]
    halves = [busy("left", "n1", 0, 1), busy("right", "n2", 0)]
    one = on_nodes(*halves, Known(extra(4)), idle=5, nodes=ALIKE)["extra"]
    move = change(one, Lever.MOVE)
    assert (move.value, move.text) == (
        1,
        "has a place if job right (1 GPUs) ran on node n1 instead of n2",
    )
    moved = [halves[0], busy("right", "n1", 2)]
    assert on_nodes(*moved, Known(extra(4)), idle=5, nodes=ALIKE)["extra"].why is not Why.NO_NODE_FITS


def test_who_shares_a_gpu_is_no_gang_to_move():
    shared = [busy("left", "n1", 0, 1), busy("right", "n2", 0), busy("rider", "n2", 0)]
    one = on_nodes(*shared, Known(extra(4)), idle=5, nodes=ALIKE)["extra"]
    assert change(one, Lever.NODE_FREED).text.endswith("node n2 were idle (rider, right there)")
    assert change(one, Lever.MOVE).text == "has a place if job left (2 GPUs) ran on node n2 instead of n1"


def test_gpus_that_are_idle_but_of_another_type():
    typed = Known(replace(extra(1), gpu_type="old"))
    one = on_nodes(busy("left", "n1", 0, 1, 2, 3), typed, idle=4)["extra"]
    assert (one.why, one.evidence["usable_gpus"]) == (Why.NO_NODE_FITS, 0)
    assert one.text.startswith("does not fit any node although 4 GPUs are idle (0 of type old): ")
    other = Known(replace(extra(1), gpu_type="none-such"))
    one = on_nodes(busy("left", "n1", 0, 1, 2, 3), other, idle=4)["extra"]
    assert (one.why, one.changes) == (Why.NO_NODE_FITS, ())


def strewn() -> World:
    """Two jobs of 2 run as their pool's own; another pool's job of 4 is due, and a guest waits."""
    world = World("reclaim", requeueable="0.5")
    world.submit(job("l", 0.0, 2, "a", None), job("r", 0.0, 2, "a", None))
    assert world.decide() == ["l", "r"]
    return world.submit(full("b"), extra(2, requeue_u=0.0))


def placed(world: World, nodes: tuple[Node, ...], **gpus: tuple[Gpu, ...]) -> Scene:
    scene = world.scene()
    known = {name: replace(one, gpus=gpus.get(name, ())) for name, one in scene.state.known.items()}
    return replace(scene, state=replace(scene.state, known=known, nodes=nodes))


def test_a_due_job_that_fits_no_node_says_so_and_not_that_too_few_are_idle():
    world = strewn()
    scene = placed(world, ALIKE, l=on("n1", 0, 1), r=on("n2", 0, 1))
    found = {one.job.job_id: one for one in explain_waiting(world.policy, scene)}
    assert found["own-b"].why is Why.NO_NODE_FITS
    assert change(found["own-b"], Lever.MOVE).text.startswith(
        "starts at once if job l (2 GPUs) ran on node n2"
    )
    assert found["extra"].why is not Why.NO_NODE_FITS


def test_nodes_kept_for_a_due_job_that_fits_none():
    """More GPUs are idle than the due job asks for, so the policy would lend the others."""
    world = strewn()
    scene = placed(world, (Node("n1", 5), Node("n2", 5)), l=on("n1", 0, 1), r=on("n2", 0, 1))
    scene = replace(scene, state=replace(scene.state, idle_gpus=6))
    found = {one.job.job_id: one for one in explain_waiting(world.policy, scene)}
    assert found["own-b"].why is Why.NO_NODE_FITS
    late = found["extra"]
    assert (late.why, late.evidence["due_job"]) == (Why.BEHIND_DUE_JOB, "own-b")
    assert late.text.endswith("the nodes that would hold this job are kept for it")


def test_a_job_that_the_policy_refuses_keeps_that_reason_though_it_fits_no_node():
    world = World("reclaim", requeueable="0.5").submit(full("a"), extra(4))
    assert world.decide() == ["own-a"]
    scene = placed(world, ALIKE, **{"own-a": on("n1", 0, 1) + on("n2", 0, 1)})
    found = {one.job.job_id: one for one in explain_waiting(world.policy, scene)}
    assert found["extra"].why is Why.NOT_REQUEUEABLE


def sharing(host_gpus: tuple[Gpu, ...], *riders: Known) -> list[Known]:
    host = Known(job("host", 0.0, len(host_gpus), "b"), Standing.OWN, host_gpus, may_share=True)
    rest = Known(job("rest", 0.0, 7, "a"), Standing.GUEST, on("n1", 0, 1, 2, 3) + on("n2", 1, 2, 3))
    return [host, rest, *riders, Known(extra(1), may_share=True)]


def test_a_host_whose_gpu_has_a_rider_already():
    rider = Known(job("rider", 0.5, 1, "a"), Standing.GUEST, on("n2", 0), may_share=True)
    found = on_nodes(*sharing(on("n2", 0), rider), idle=0)
    assert (found["extra"].why, found["extra"].evidence["hosts"]) == (Why.STAR_RULE, 2)
    assert on_nodes(*sharing(on("n2", 0)), idle=0)["extra"].why is Why.NO_IDLE_GPU


@pytest.mark.parametrize(("has_mib", "why"), [(4_000, Why.MEMORY), (8_000, Why.NO_IDLE_GPU)])
def test_a_host_whose_gpu_has_too_little_memory(has_mib, why):
    memory = {"host": 2_000, "extra": 2_000}
    found = on_nodes(*sharing(on("n2", 0)), idle=0, memory_mib=memory, gpu_memory_mib={("n2", 0): has_mib})
    assert found["extra"].why is why
