"""Integrals over schedules in which jobs share GPUs, against counting unit step by unit step."""

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.cluster import Gpu
from domain.jobs import Job
from domain.schedules import Stretch
from domain.sharing import shared_spells
from domain.usage import use_integrals

END = 12
HOUR_S = 3600.0
QUOTAS = {"A": 2, "B": 1}
GPUS = [Gpu("n", index) for index in range(3)]


@st.composite
def packed(draw: st.DrawFn) -> tuple[list[Job], list[Stretch]]:
    """Jobs of two pools on three GPUs, never three on one; some change their rate as they run."""
    jobs: list[Job] = []
    stretches: list[Stretch] = []
    for k in range(draw(st.integers(0, 6))):
        gpus = tuple(draw(st.lists(st.sampled_from(GPUS), min_size=1, max_size=3, unique=True)))
        start = draw(st.integers(0, END - 2))
        end = draw(st.integers(start + 1, END))
        if any(len(on(stretches, gpu, now)) > 1 for gpu in gpus for now in range(start, end)):
            continue
        name = f"j{k}"
        jobs.append(Job(name, draw(st.sampled_from(sorted(QUOTAS))), float(start), len(gpus)))
        cut = draw(st.integers(start, end))
        for first, last, rate in ((start, cut, 1.0), (cut, end, 0.5)):
            if first < last:
                stretches.append(Stretch(name, float(first), float(last), rate=rate, gpus=gpus))
    return jobs, stretches


def on(stretches: list[Stretch], gpu: Gpu, now: int) -> list[str]:
    return [one.job_id for one in stretches if gpu in one.gpus and one.start_s <= now < one.end_s]


@settings(max_examples=60, deadline=None)
@given(packed())
def test_a_gpu_counts_once_for_who_was_there_first(made: tuple[list[Job], list[Stretch]]) -> None:
    jobs, stretches = made
    by_id = {job.job_id: job for job in jobs}
    used = lent = 0
    for now in range(END):
        by_pool = dict.fromkeys(QUOTAS, 0)
        for gpu in GPUS:
            here = on(stretches, gpu, now)
            if here:
                first = min(here, key=lambda name: (by_id[name].submit_s, -by_id[name].num_gpus, name))
                by_pool[by_id[first].pool] += 1
        used += sum(by_pool.values())
        lent += sum(max(0, by_pool[pool] - quota) for pool, quota in QUOTAS.items())
    use = use_integrals(jobs, stretches, QUOTAS, (0.0, float(END)))
    assert round(use.allocated_gpu_hours * HOUR_S, 6) == used
    assert round(use.lent_gpu_hours * HOUR_S, 6) == lent
    done = sum(len(one.gpus) * one.rate * (one.end_s - one.start_s) for one in stretches)
    assert round(use.work_gpu_hours * HOUR_S, 6) == done


@settings(max_examples=60, deadline=None)
@given(packed())
def test_spells_are_the_unit_steps_in_which_two_are_on_a_gpu(made: tuple[list[Job], list[Stretch]]) -> None:
    jobs, stretches = made
    spells = shared_spells({job.job_id: job for job in jobs}, stretches)
    for gpu in GPUS:
        for now in range(END):
            here = on(stretches, gpu, now)
            said = [
                {one.first, one.second} for one in spells if one.gpu == gpu and one.start_s <= now < one.end_s
            ]
            assert said == ([set(here)] if len(here) == 2 else [])
