"""Whoever shares GPUs under calibrated shares: work is conserved, bounds hold, the future is not seen."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from sharing_worlds import Alike, World, gang

from data.pairs import PairTable, pair_of
from simulator.calibrated import Coordination
from simulator.packed import PairRates
from solver.packing.share_model import ShareModel

MODEL = ShareModel()
FREE = st.floats(0.1, 1.0)


@st.composite
def worlds(draw):
    """Jobs with their lengths, free rates, nodes, whether samples move, and how sets are calibrated."""
    jobs = []
    for k in range(draw(st.integers(2, 6))):
        submit_s, width = draw(st.floats(0.0, 600.0)), draw(st.integers(1, 3))
        known = {"model": draw(st.sampled_from("xy")), "deadline_s": draw(st.floats(0.0, 3000.0))}
        jobs.append((gang(f"j{k}", submit_s, width, **known), draw(st.floats(0.0, 900.0))))
    alike = {(model, model): (rate, rate) for model, rate in (("x", draw(FREE)), ("y", draw(FREE)))}
    table = PairTable.of({**alike, ("x", "y"): (draw(FREE), draw(FREE))})
    how = Coordination(Alike(), objective=draw(st.sampled_from(("jct", "deadline", "makespan", "promise"))))
    return jobs, table, draw(st.sampled_from(((3,), (3, 3)))), draw(st.booleans()), how


def played(jobs, table, node_gpus, redistributes, how):
    rates = PairRates(table, MODEL)
    return World(
        jobs, rates, node_gpus=node_gpus, redistributes=redistributes, most_gain=MODEL.most_gain, how=how
    )


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_work_is_conserved_and_no_gpu_does_more_than_is_assumed(world):
    jobs, table, *_ = world
    stretches = played(*world).schedule.stretches
    for job, length_s in jobs:
        mine = sorted(s for s in stretches if s.job_id == job.job_id)
        assert abs(sum(s.rate * (s.end_s - s.start_s) for s in mine) - length_s) < 1e-6
        assert all(one.end_s == other.start_s for one, other in pairwise(mine))
        assert all(0.0 < s.rate <= 1.0 for s in mine)
    model = {job.job_id: job.model for job, _ in jobs}
    for one in stretches:
        for other in stretches:
            at_once = one.start_s < other.end_s and other.start_s < one.end_s
            if one.job_id < other.job_id and at_once and set(one.gpus) & set(other.gpus):
                pair = pair_of(model[one.job_id], model[other.job_id])
                assert one.rate + other.rate <= 1.15 * max(1.0, sum(table.rates[pair])) + 1e-6


@settings(max_examples=20, deadline=None)
@given(worlds(), st.floats(1.0, 900.0), st.floats(1.0, 500.0))
def test_what_is_not_known_yet_changes_nothing_and_again_is_the_same(world, cut_s, more_s):
    jobs, *others = world
    one = played(*world).schedule
    assert played(*world).schedule == one
    ends = one.last_ends()
    longer = [
        (job, length_s if ends[job.job_id] <= cut_s else length_s + more_s)
        for job, length_s in jobs
        if job.submit_s <= cut_s
    ]
    other = played(longer, *others).schedule if longer else None

    def seen(schedule):
        return {
            (s.job_id, s.start_s, s.rate, s.gpus)
            for s in (schedule.stretches if schedule else ())
            if s.start_s <= cut_s and s.end_s > s.start_s
        }

    assert seen(one) == seen(other)
