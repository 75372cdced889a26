"""Replays on nodes: real GPUs for all, own jobs first, nodes drained for those that find no place."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Instance, all_knowing, instances, job

from data.readers.benchmark_csv import read_nodes
from data.schedule_csv import write_schedule
from domain.cluster import Cluster, Gpu, Node, Pool
from domain.errors import InputError
from domain.jobs import Job, JobOutcome
from domain.plans import Plan, Start
from domain.schedules import Schedule
from simulator.engine import Engine
from simulator.placed import Keep, PlacedPlans, PlaceRule
from simulator.placed_report import placement_report
from simulator.replay import replay
from simulator.report import reference_of
from simulator.truth import TrueLives
from simulator.workload import Workload
from solver.policies import POLICIES
from solver.policies.base import parse_settings

RULES = [PlaceRule(keep, drains, by_end) for keep in Keep for drains in (0, 2) for by_end in (False, True)]


def placed_run(
    policy: str,
    jobs: Sequence[Job],
    durations_s: dict[str, float],
    quotas: dict[str, int],
    nodes: Sequence[Node],
    rule: PlaceRule = RULES[0],
    **own: str,
) -> tuple[Schedule, PlacedPlans]:
    outcomes = {job_id: JobOutcome(job_id, duration) for job_id, duration in durations_s.items()}
    spec = POLICIES[policy]
    built = parse_settings(policy, spec.settings, own)
    placer = PlacedPlans(
        nodes,
        quotas,
        TrueLives(outcomes),
        requeueable_share=getattr(built, "requeueable", 0.0),
        rule=rule,
    )
    engine = Engine(
        jobs=jobs,
        outcomes=outcomes,
        capacity_gpus=sum(quotas.values()),
        policy=spec.build(all_knowing(spec, jobs, outcomes, quotas), built),
        tick_s=spec.tick_s,
        placer=placer,
    )
    return engine.run(), placer


def starts_of(schedule: Schedule) -> dict[str, float]:
    return dict(sorted(schedule.first_starts().items()))


NODES = (Node("n0", 4), Node("n1", 4))


def test_gangs_run_on_gpus_of_the_fewest_nodes():
    jobs = [job("a", 0.0, 2), job("b", 0.0, 4), job("c", 0.0, 2)]
    schedule, _ = placed_run("fcfs", jobs, {"a": 5.0, "b": 5.0, "c": 5.0}, {"a": 8}, NODES)
    assert starts_of(schedule) == {"a": 0.0, "b": 0.0, "c": 0.0}
    where = {stretch.job_id: {gpu.node for gpu in stretch.gpus} for stretch in schedule.stretches}
    assert all(len(names) == 1 for names in where.values())
    assert where["a"] == where["c"]


def test_a_job_without_a_place_waits_and_says_for_how_long():
    """Two jobs that began on different nodes leave four GPUs idle, and no node for a gang of four."""
    jobs = [job("a", 0.0, 3), job("b", 0.0, 3), job("x", 1.0, 2), job("y", 2.0, 1)]
    durations = {"a": 50.0, "b": 10.0, "x": 5.0, "y": 1.0}
    schedule, placer = placed_run("fcfs", jobs, durations, {"a": 9}, (*NODES, Node("n2", 1)))
    assert starts_of(schedule) == {"a": 0.0, "b": 0.0, "x": 10.0, "y": 2.0}
    assert placer.held_up_s == {"x": 9.0}


def test_guests_do_not_take_a_node_that_drains_for_an_own_job():
    lives = TrueLives({name: JobOutcome(name, 10.0) for name in ("a", "b", "own", "g", "h")})
    placer = PlacedPlans(NODES, {"a": 8}, lives, rule=PlaceRule(Keep.NONE, drains=1))
    placer.arrange(Plan(starts=(Start(job("a", num_gpus=3), False), Start(job("b", num_gpus=3), False))), 0.0)
    wanted = (
        Start(job("own", num_gpus=4), False),
        Start(job("g"), True),
        Start(job("h"), True),
    )
    done = placer.arrange(Plan(starts=wanted), 1.0)
    assert [start.job.job_id for start in done.starts] == ["g"]
    assert placer.ask_again_gpus is None
    all_stop = PlacedPlans(NODES, {"a": 8}, lives, rule=PlaceRule(Keep.NONE, drains=0))
    all_stop.arrange(
        Plan(starts=(Start(job("a", num_gpus=3), False), Start(job("b", num_gpus=3), False))), 0.0
    )
    assert all_stop.arrange(Plan(starts=wanted), 1.0).starts == ()


def test_guests_leave_a_place_for_the_widest_usual_gang_of_a_pool_with_idle_quota():
    lives = TrueLives({name: JobOutcome(name, 10.0) for name in ("g", "h")})
    past = [job("p1", 0.0, 4), job("p2", 1.0, 4), job("p3", 2.0, 8)]
    guests = Plan(starts=(Start(job("g", 5.0, 4), True), Start(job("h", 5.0, 4), True)))
    for keep, started in ((Keep.NONE, ["g", "h"]), (Keep.WIDEST, ["g"]), (Keep.EACH, ["g"])):
        placer = PlacedPlans(NODES, {"a": 8}, lives, past=past, rule=PlaceRule(keep))
        done = placer.arrange(guests, 5.0)
        assert [start.job.job_id for start in done.starts] == started
        assert placer.ask_again_gpus == (3 if keep is not Keep.NONE else None)
    narrow = PlacedPlans(NODES, {"a": 3}, lives, past=past, rule=PlaceRule(Keep.WIDEST))
    assert len(narrow.arrange(guests, 5.0).starts) == 2


def test_guests_are_sent_back_by_node_for_an_own_job():
    """Counting alone would send back the youngest two, one on each node, and no node would hold the gang."""
    quotas = {"a": 4, "b": 4}
    jobs = [job(f"g{k}", float(k), 2, "b", 0.0) for k in range(4)] + [job("own", 9.0, 4, "a", 0.9)]
    durations = dict.fromkeys(["g0", "g1", "g2", "g3"], 100.0) | {"own": 5.0}
    schedule, _ = placed_run("reclaim", jobs, durations, quotas, NODES, requeueable="0.5")
    assert schedule.first_starts()["own"] == 9.0
    lost = {stretch.job_id: stretch.gpus[0].node for stretch in schedule.stretches if stretch.is_lost}
    assert len(set(lost.values())) == 1


def nodes_for(quotas: dict[str, int], size: int) -> list[Node]:
    """Nodes that add up to the quotas; all of one size but the last."""
    total = sum(quotas.values())
    sizes = [size] * (total // size) + ([total % size] if total % size else [])
    return [Node(f"n{k}", gpus) for k, gpus in enumerate(sizes)]


@settings(max_examples=25, deadline=None)
@given(
    instances(max_jobs=14),
    st.integers(1, 6),
    st.sampled_from(RULES),
    st.sampled_from(["fcfs", "maxmin", "reclaim", "anticipatory"]),
)
def test_every_gpu_has_one_job_at_a_time_and_all_jobs_end(
    instance: Instance, size: int, rule: PlaceRule, policy: str
):
    jobs, durations, quotas = instance
    nodes = nodes_for(quotas, size)
    schedule, _ = placed_run(policy, jobs, durations, quotas, nodes, rule)
    width = {one.job_id: one.num_gpus for one in jobs}
    assert set(schedule.last_ends()) == set(width)
    busy: dict[Gpu, float] = {}
    for stretch in sorted(schedule.stretches, key=lambda one: (one.start_s, one.end_s)):
        assert len(set(stretch.gpus)) == width[stretch.job_id]
        largest = max(node.num_gpus for node in nodes)
        assert len({gpu.node for gpu in stretch.gpus}) == -(-width[stretch.job_id] // largest)
        for gpu in stretch.gpus:
            assert busy.get(gpu, 0.0) <= stretch.start_s
            busy[gpu] = stretch.end_s


def test_nodes_are_read_and_schedules_say_which_gpus(tmp_path):
    (tmp_path / "nodes.csv").write_text("node,num_gpus,gpu_type\nn0,2,v100\nn1,1,\n", encoding="utf-8")
    nodes = read_nodes(tmp_path / "nodes.csv")
    assert nodes == (Node("n0", 2, "v100"), Node("n1", 1))
    schedule, _ = placed_run("fcfs", [job("a", 0.0, 2)], {"a": 5.0}, {"a": 3}, nodes)
    write_schedule(tmp_path / "schedule.csv", schedule.stretches)
    header, row = (tmp_path / "schedule.csv").read_text(encoding="utf-8").splitlines()
    assert header.endswith(",gpus")
    assert row.endswith(",n0/0;n0/1")


def test_bad_nodes_are_refused_with_every_fault(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("node,num_gpus\nn0,0\nn1,2\nn1,2\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_nodes(path)
    assert sorted(fault.rule for fault in refused.value.faults) == ["duplicate-node", "out-of-range"]


def test_lateness_by_placement_alone_is_told_apart():
    """A gang waits for a node although GPUs suffice in sum."""
    jobs = [job("a", 0.0, 3), job("b", 0.0, 3), job("x", 1.0, 2)]
    durations = {"a": 500.0, "b": 200.0, "x": 5.0}
    workload = Workload(
        Cluster((Pool("a", 8),), NODES),
        tuple(jobs),
        {name: JobOutcome(name, seconds) for name, seconds in durations.items()},
        (),
        (),
        0.0,
        0.0,
    )
    done = replay(workload, "fcfs", {})
    told = placement_report(workload, done, reference_of(workload))
    assert told["slowed_by_placement_jobs"] == 1
    assert told["slowed_by_placement_max_min"] == pytest.approx(199.0 / 60.0)
    assert told["held_up_jobs"] == 1
    counted = replace(workload, cluster=Cluster((Pool("a", 8),)))
    assert placement_report(counted, replay(counted, "fcfs", {}), reference_of(counted)) == {}
