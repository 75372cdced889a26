"""Packed sets that are calibrated in a replay: what is put in force when, and what it costs."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from sharing_worlds import Alike, AsTold, World, gang
from support import BENCH_ROOT, needs_bench_data

from app.services.ingest import Source, load
from data.pairs import PairTable, read_pairs
from data.schedule_csv import write_schedule
from domain.cluster import Node
from models.interference.measured import MeasuredRates
from simulator.calibrated import CalibratedPace, Coordination
from simulator.pace import Pace
from simulator.packed import PairRates, SharedGpus, pace_of
from simulator.replay import replay
from solver.packing.share_model import ShareModel

HOW = Coordination(Alike())
SLOW = 1.0 - 3.6 / 39.0
"""Of a window in which a job has switched: the share of its time in which it does not stand still."""

HELPED = AsTold(
    {(100, 100): (0.5, 0.5), (100, 90): (0.6, 0.48), (100, 80): (0.7, 0.45), (100, 70): (0.7, 0.2)},
    (0.7, 0.1),
)
"""Squeezing the second by two steps is best: 1/0.7 + 1/0.45 < 1/0.6 + 1/0.48 < 2/0.5."""

NEVER = AsTold({}, (0.5, 0.5))
"""No share changes anything."""


def approx(rows):
    return [pytest.approx(row, abs=1e-6) for row in rows]


def test_settings_follow_each_other_for_a_window_each_and_the_best_is_kept():
    world = World([(gang("a"), 1000.0), (gang("b"), 2000.0)], HELPED, how=HOW)
    # b is squeezed step by step; three tries without gain after 80 %, which is put back for good.
    end_s = 78.0 + (1000.0 - 39.0 * (0.5 + 0.6)) / 0.7
    assert world.of("a") == approx([(0.0, 39.0, 0.5), (39.0, 78.0, 0.6), (78.0, end_s, 0.7)])
    squeezed = [0.5, *(rate * SLOW for rate in (0.48, 0.45, 0.2, 0.1, 0.1, 0.45))]
    windows = [(k * 39.0, (k + 1) * 39.0, rate) for k, rate in enumerate(squeezed)]
    windows[4:6] = [(156.0, 234.0, 0.1 * SLOW)]  # a stretch is one of one rate
    assert world.of("b")[: len(windows)] == approx(windows)
    # Six switches of the search, and one when the cap is lifted after the end of a.
    assert dict(world.pace.counts) == {"searches": 1, "windows": 6, "switches": 7, "broken": 0}


def test_the_policy_hears_the_rates_that_are_in_force():
    world = World([(gang("a"), 1000.0), (gang("b"), 2000.0)], HELPED, how=HOW)
    heard = [(at_s, rate) for at_s, job_id, rate in world.policy.heard if job_id == "a"]
    assert heard == [(0.0, 0.5), (39.0, 0.6), (78.0, 0.7)]
    for at_s, job_id, rate in world.policy.heard:
        assert any((s, r) == (at_s, rate) for s, _, r in world.of(job_id))


def test_who_is_left_alone_loses_its_cap_and_is_charged_for_that_switch():
    world = World([(gang("a"), 400.0), (gang("b"), 1000.0)], HELPED, how=HOW)
    (_, left_s, _), *_ = reversed(world.of("a"))
    alone = [row for row in world.of("b") if row[0] >= left_s]
    assert [rate for _, _, rate in alone] == [pytest.approx(SLOW), 1.0]
    assert alone[0][:2] == approx([(left_s, left_s + 39.0)])[0]


def test_each_switch_is_charged_once_and_what_a_change_leaves_is_charged_later():
    # b ends in the second window, 10 s after the other job has switched; c joins at once.
    jobs = [(gang("a"), 3000.0), (gang("b"), 0.5 * (49.0 - 3.6 * 10.0 / 39.0)), (gang("c", 49.0), 2000.0)]
    world = World(jobs, NEVER, how=HOW)
    assert world.of("b")[-1][1] == pytest.approx(49.0)
    alone_from_s = world.of("c")[-1][1]
    stood_s = sum(
        (1.0 - rate / (0.5 if start_s < alone_from_s else 1.0)) * (end_s - start_s)
        for job_id in ("a", "b", "c")
        for start_s, end_s, rate in world.of(job_id)
    )
    # b took what was left of its own switch with it.
    assert stood_s == pytest.approx(3.6 * world.pace.counts["switches"] - 3.6 * 29.0 / 39.0, abs=1e-6)
    assert dict(world.pace.counts) == {"searches": 2, "windows": 5, "switches": 5, "broken": 0}


def test_where_nothing_helps_the_start_is_put_back():
    world = World([(gang("a"), 2000.0), (gang("b"), 2000.0)], NEVER, how=HOW)
    assert world.of("a")[0] == pytest.approx((0.0, 4000.0, 0.5))
    assert [rate for _, _, rate in world.of("b")[:3]] == approx([0.5, 0.5 * SLOW, 0.5])


def test_a_job_that_was_joined_keeps_its_budget_and_who_joins_it_has_none():
    rates = AsTold(
        {(100, 100): (0.8, 0.8), (100, 90): (0.85, 0.7), (100, 80): (0.92, 0.3), (100, 70): (0.95, 0.1)},
        (0.95, 0.05),
    )
    jobs = [(gang("a"), 2000.0), (gang("b", 5.0), 2000.0)]
    for objective, kept in (("jct", 0.8), ("promise", 0.92)):
        world = World(jobs, rates, how=Coordination(Alike(), objective=objective))
        assert world.of("a")[-1][2] == pytest.approx(kept)
        assert world.pace.counts["broken"] == 0
    told = Coordination(Alike(), objective="promise", sigma=0.01)
    assert World(jobs, rates, how=told).pace.counts["broken"] == 1


def test_the_deadline_decides_who_is_protected():
    rates = AsTold({(100, 100): (0.5, 0.5), (100, 90): (0.8, 0.3)}, (0.1, 0.1))
    for tight, loose in (("a", "b"), ("b", "a")):
        jobs = [(gang(one, deadline_s=1500.0 if one == tight else 90_000.0), 1000.0) for one in ("a", "b")]
        world = World(jobs, rates, how=Coordination(Alike(), objective="deadline"))
        assert world.of(tight)[-1][1] < world.of(loose)[-1][1]


def test_stragglers_of_a_host_are_seen_where_no_samples_move():
    # The host's first worker shares, so it is held back by that one; its rider is squeezed.
    rates = AsTold({(100, 100): (0.5, 0.5), (100, 90): (0.8, 0.7), (100, 80): (0.8, 0.4)}, (0.8, 0.3))
    jobs = [(gang("a", num_gpus=2), 2000.0), (gang("b", 1.0), 2000.0)]
    world = World(jobs, rates, node_gpus=(2,), redistributes=False, how=HOW)
    assert [rate for _, _, rate in world.of("a")] == approx([1.0, 0.5, 0.8])


def test_a_rider_is_held_back_where_the_mean_of_its_host_would_be_too_much_for_a_gpu():
    jobs = [(gang("a", num_gpus=2), 300.0), (gang("b", 1.0), 300.0)]
    free = World(jobs, NEVER, node_gpus=(2,))
    assert free.of("b")[0][2] == 0.5
    bounded = World(jobs, NEVER, node_gpus=(2,), most_gain=0.15)
    assert bounded.of("a")[1][2] == 0.75
    assert bounded.of("b")[0][2] == pytest.approx(1.15 - 0.75)


@pytest.mark.parametrize(
    "wrong", [{"objective": "speed"}, {"window_s": 3.6}, {"sigma": 1.1}], ids=["objective", "window", "sigma"]
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        Coordination(Alike(), **wrong)


def test_without_lgrr_the_pace_is_the_plain_one_and_with_it_the_settings_hold():
    table = PairTable.of({("m", "m"): (0.6, 0.6)})
    shared = SharedGpus(PairRates(table, ShareModel(most_gain=0.2)), MeasuredRates(table))

    def made(**settings):
        return pace_of([Node("n0", 1)], shared, SimpleNamespace(**settings), Alike())

    for plain in (made(), made(lgrr=False, liss=True, objective="promise")):
        assert type(plain) is Pace
    assert made(lgrr=False, liss=True).floor.redistributes
    assert isinstance(made(lgrr=True, objective="promise"), CalibratedPace)
    with pytest.raises(ValueError, match="speed"):
        made(lgrr=True, objective="speed")


def test_what_was_measured_under_shares_replaces_the_model():
    free = {("x", "y"): (0.6, 1.2)}
    measured = {("x", "y"): {(100.0, 50.0): (0.93, 0.4), (50.0, 100.0): (0.3, 1.1)}}
    modelled = PairRates(PairTable.of(free), ShareModel())
    known = PairRates(PairTable(free, frozenset(), measured), ShareModel())
    assert known.rates("x", "y") == modelled.rates("x", "y") == (0.6, 1.0)
    assert known.rates("x", "y", (100, 50)) == (0.93, 0.4)
    assert known.rates("y", "x", (100, 50)) == (1.0, 0.3)
    assert modelled.rates("x", "y", (100, 50)) != (0.93, 0.4)
    assert known.rates("x", "x") is None


@pytest.fixture(scope="module")
def bench():
    """(folder, workload, pairs) of the benchmark."""
    folder = BENCH_ROOT / "bench" / "packing"
    files = (folder / "jobs_150.csv", folder / "pools_32.csv", folder / "history.csv")
    inputs = load(Source(*files, "csv", 0.0, 0.0, False, folder / "nodes_32.csv"))
    return folder, inputs.workload, read_pairs(folder / "pairs.csv")


class TestOnTheBenchmark:
    pytestmark = needs_bench_data

    def test_an_independent_referee_finds_no_fault(self, bench, tmp_path):
        folder, workload, pairs = bench
        stretches = replay(workload, "packing", {"lgrr": "true"}, pairs=pairs).schedule.stretches
        again = replay(workload, "packing", {"lgrr": "true"}, pairs=pairs).schedule.stretches
        assert again == stretches
        write_schedule(tmp_path / "schedule.csv", stretches)
        files = {"jobs": "jobs_150", "pools": "pools_32", "nodes": "nodes_32", "pairs": "pairs"}
        words = [f"--{option}={folder / name}.csv" for option, name in files.items()]
        words += [f"--schedule={tmp_path / 'schedule.csv'}", "--redistribute", "--share-gain=0.15"]
        referee = BENCH_ROOT / "referee" / "referee.py"
        told = subprocess.run([sys.executable, referee, *words], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout
