"""The sweeps and the reference against slow twins that step through unit time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.jobs import Job, submit_order
from domain.schedules import Stretch
from domain.usage import lending_spells, use_integrals
from solver.check import CheckOptions, Rule, check, fcfs_starts

POOLS = ("A", "B", "C")
HOUR_S = 3600
END = 40

fixed = settings(derandomize=True, deadline=None, max_examples=300)


@st.composite
def jobs_of_pools(draw):
    """A few jobs with integer times; widths up to the quota of their pool."""
    quotas = {pool: draw(st.integers(1, 5)) for pool in POOLS}
    jobs, durations = [], {}
    for number in range(draw(st.integers(0, 8))):
        pool = draw(st.sampled_from(POOLS))
        width = draw(st.integers(1, quotas[pool]))
        job = Job(f"j{number}", pool, float(draw(st.integers(0, 10))), width)
        jobs.append(job)
        durations[job.job_id] = float(draw(st.integers(0, 6)))
    return jobs, durations, quotas


@st.composite
def schedules(draw):
    """Jobs, some of which run, are lost or stopped, pause or never run; nobody minds the capacity."""
    jobs, _, quotas = draw(jobs_of_pools())
    stretches = []
    for job in jobs:
        cuts = draw(st.lists(st.integers(0, 12), max_size=6))
        now, lost_attempts = job.submit_s, draw(st.integers(0, 3))
        for place, (wait, run) in enumerate(zip(cuts[::2], cuts[1::2], strict=False)):
            start, end = now + wait, now + wait + run
            is_lost = place < lost_attempts
            rate = 1.0 if is_lost else draw(st.sampled_from((1.0, 0.5, 0.25)))
            stretches.append(Stretch(job.job_id, start, end, False, is_lost, rate, is_stopped=rate < 1.0))
            now = end
    return jobs, draw(st.permutations(stretches)), quotas


def in_use(stretches, widths, now, keep=lambda _: True):
    return sum(widths[s.job_id] for s in stretches if s.start_s <= now < s.end_s and keep(s))


def is_waiting(job, stretches, now):
    mine = [s for s in stretches if s.job_id == job.job_id]
    last = max(mine, key=lambda s: (s.start_s, s.end_s), default=None)
    is_over = last is not None and not last.is_lost and not last.is_stopped and last.end_s <= now
    return job.submit_s <= now and not is_over and not any(s.start_s <= now < s.end_s for s in mine)


@fixed
@given(schedules(), st.integers(0, END), st.integers(0, END), st.integers(0, 20))
def test_the_integrals_are_sums_over_unit_steps(schedule, one, other, extra_gpus):
    jobs, stretches, quotas = schedule
    widths = {job.job_id: job.num_gpus for job in jobs}
    of_pool = {job.job_id: job.pool for job in jobs}
    window, capacity = sorted((one, other)), sum(quotas.values()) + extra_gpus
    allocated = lost = lent = held = 0.0
    donated = dict.fromkeys(quotas, 0.0)
    for now in range(*window):
        used = {p: in_use(stretches, widths, now, lambda s, p=p: of_pool[s.job_id] == p) for p in quotas}
        lent_now = sum(max(0, used[pool] - quotas[pool]) for pool in quotas)
        idle_quota = {pool: max(0, quotas[pool] - used[pool]) for pool in quotas}
        idle = max(0, capacity - sum(used.values()))
        allocated += sum(used.values())
        lost += in_use(stretches, widths, now, lambda s: s.is_lost)
        for rate in (0.5, 0.25):
            lost += (1.0 - rate) * in_use(stretches, widths, now, lambda s, r=rate: s.rate == r)
        lent += lent_now
        for pool, gpus in idle_quota.items():
            if gpus:
                donated[pool] += min(lent_now, sum(idle_quota.values())) * gpus / sum(idle_quota.values())
        if any(job.num_gpus <= idle for job in jobs if is_waiting(job, stretches, now)):
            held += idle
    use = use_integrals(jobs, stretches, quotas, tuple(window), capacity)
    assert round(use.allocated_gpu_hours * HOUR_S, 6) == allocated
    assert round(use.lost_gpu_hours * HOUR_S, 6) == lost
    assert round(use.work_gpu_hours * HOUR_S, 6) == allocated - lost
    assert round(use.lent_gpu_hours * HOUR_S, 6) == lent
    assert round(use.held_idle_gpu_hours * HOUR_S, 6) == held
    for pool, gpu_s in donated.items():
        assert abs(use.lent_by_donor[pool] * HOUR_S - gpu_s) < 1e-6


@fixed
@given(schedules())
def test_pools_lend_in_the_unit_steps_in_which_they_could(schedule):
    jobs, stretches, quotas = schedule
    widths = {job.job_id: job.num_gpus for job in jobs}
    of_pool = {job.job_id: job.pool for job in jobs}
    spells = lending_spells(jobs, stretches, quotas)
    for now in range(END * 3):
        used = {p: in_use(stretches, widths, now, lambda s, p=p: of_pool[s.job_id] == p) for p in quotas}
        is_lent = any(used[pool] > quotas[pool] for pool in quotas)
        for pool in quotas:
            says = any(start <= now < end for start, end in spells[pool])
            assert says == (is_lent and used[pool] < quotas[pool])


def slow_reference(jobs, durations, quotas):
    """Second by second: who is first in line starts if there is room, then the next, and so on."""
    starts = {}
    lines = {p: sorted((j for j in jobs if j.pool == p), key=submit_order) for p in quotas}
    for now in range(END * 3):
        for pool, line in lines.items():
            while line and line[0].submit_s <= now:
                mine = [j for j in jobs if j.pool == pool and j.job_id in starts]
                running = [j for j in mine if starts[j.job_id] + durations[j.job_id] > now]
                if sum(j.num_gpus for j in running) + line[0].num_gpus > quotas[pool]:
                    break
                starts[line.pop(0).job_id] = float(now)
    return starts


@fixed
@given(jobs_of_pools())
def test_the_reference_is_that_of_a_slow_simulation(instance):
    jobs, durations, quotas = instance
    assert fcfs_starts(jobs, durations, quotas) == slow_reference(jobs, durations, quotas)


@fixed
@given(jobs_of_pools())
def test_the_reference_keeps_every_rule_and_the_promise(instance):
    jobs, durations, quotas = instance
    starts = fcfs_starts(jobs, durations, quotas)
    stretches = [Stretch(job_id, start, start + durations[job_id]) for job_id, start in starts.items()]
    report = check(jobs, durations, quotas, stretches, options=CheckOptions(must_keep_promise=True))
    assert report.faults == ()
    assert report.worst_lateness_s == 0.0


@fixed
@given(schedules(), st.integers(1, 15))
def test_an_overrun_is_seen_exactly_where_there_is_one(schedule, capacity):
    jobs, stretches, quotas = schedule
    widths = {job.job_id: job.num_gpus for job in jobs}
    durations = dict.fromkeys(widths, 0.0)
    options = CheckOptions(capacity_steps=((-1.0, capacity),))
    faults = check(jobs, durations, quotas, stretches, options=options).faults
    begins = [
        now
        for now in range(END * 3)
        if in_use(stretches, widths, now) > capacity >= in_use(stretches, widths, now - 1)
    ]
    assert [f.at_s for f in faults if f.rule is Rule.MORE_GPUS_THAN_CLUSTER] == begins
    own = {fault.rule for fault in faults} & {Rule.OWN_GPUS_BEYOND_QUOTA}
    is_beyond = any(
        in_use(
            stretches, widths, now, lambda s, p=pool: p == next(j.pool for j in jobs if j.job_id == s.job_id)
        )
        > quotas[pool]
        for now in range(END * 3)
        for pool in quotas
    )
    assert bool(own) == is_beyond
