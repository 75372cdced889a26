"""The judge of packed schedules against random ones: those made to be valid pass, each mutation is caught.

The valid ones are made second by second by brute force, from the rules as they are written and without a
word of the judge's. Where the benchmark folder is there, the referee of the benchmarks agrees.
"""

import csv
import importlib.util
import io
import itertools
import json
import math
from contextlib import redirect_stdout
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from packing_by_hand import MODELS, TABLE, may_run, rates
from support import BENCH_ROOT

from data.schedule_csv import write_schedule
from domain.cluster import Node
from domain.jobs import Job
from domain.schedules import Stretch
from solver.check import CheckOptions, Rule, check
from solver.check_packed import PackedOptions, check_packed
from solver.schedule_rules import PackedRule

NODES = (Node("n0", 4), Node("n1", 4), Node("n2", 2))
GPUS = [gpu for node in NODES for gpu in node.gpus()]
SECONDS = 14
ALL_OPTIONS = [PackedOptions(), PackedOptions(redistributes=True), PackedOptions(share_gain=0.15)]
NO_LANES = CheckOptions(has_own_lanes=False, is_packed=True)


# Schedules that are valid, second by second.


def speed(job, gpus, running, options):
    """The most that a job may do in this second; under shares a half of what the worst pair may do."""
    workers = []
    for gpu in gpus:
        mates = [other for other, its in running if other is not job and gpu in its]
        if options.share_gain is None:
            workers.append(min([rates(job.model, mate.model) for mate in mates], default=1.0))
        else:
            free = [rates(job.model, m.model) + rates(m.model, job.model) for m in mates]
            workers.append(min([min(1.0, (1.15 * max(1.0, one)) / 2) for one in free], default=1.0))
    return sum(workers) / len(workers) if options.redistributes else min(workers)


def places(job):
    """All gangs of a job on the fewest nodes, in an order of no meaning."""
    return [
        gpus
        for gpus in itertools.combinations(GPUS, job.num_gpus)
        if len({gpu.node for gpu in gpus}) == -(-job.num_gpus // 4)
    ]


PLACES = {width: places(Job("any", "a", 0.0, width)) for width in (1, 2, 3, 4, 5)}


@st.composite
def packed(draw, options=None):
    """Jobs, their lengths, a valid packed schedule of them, and what it may do."""
    options = draw(st.sampled_from(ALL_OPTIONS)) if options is None else options
    random = draw(st.randoms(use_true_random=False))
    jobs = [
        Job(
            f"j{k}",
            "a",
            float(random.randrange(6)),
            random.choice((1, 1, 2, 2, 3, 4, 5)),
            model=random.choice(MODELS),
        )
        for k in range(draw(st.integers(2, 7)))
    ]
    running, left_s, told = {}, {}, []
    for now in range(SECONDS):
        for job in jobs:
            if job.job_id not in left_s and job.submit_s <= now:
                offered = random.sample(PLACES[job.num_gpus], min(12, len(PLACES[job.num_gpus])))
                if random.random() < 0.6:
                    taken = {gpu for _, its in running.values() for gpu in its}
                    offered.sort(key=lambda gpus, taken=taken: -len(taken & set(gpus)))
                for gpus in offered:
                    if may_run([*running.values(), (job, gpus)], GPUS):
                        running[job.job_id] = job, gpus
                        left_s[job.job_id] = random.randrange(1, 8)
                        break
        for job, gpus in running.values():
            beside = {(g, o.job_id) for g in gpus for o, its in running.values() if o is not job and g in its}
            told.append((job, now, frozenset(beside), speed(job, gpus, running.values(), options), gpus))
        for job_id in list(running):
            left_s[job_id] -= 1
            if left_s[job_id] == 0:
                del running[job_id]
    stretches = written(told)
    jobs = [job for job in jobs if job.job_id in left_s]
    done = {
        job.job_id: math.fsum(s.rate * (s.end_s - s.start_s) for s in stretches if s.job_id == job.job_id)
        for job in jobs
    }
    return jobs, done, stretches, options


def written(told):
    """Seconds as stretches: one as long as the neighbours and the rate are the same."""
    stretches = []
    for job, mine in itertools.groupby(
        sorted(told, key=lambda one: (one[0].job_id, one[1])), key=lambda one: one[0]
    ):
        for (_, rate, gpus), same in itertools.groupby(mine, key=lambda one: one[2:]):
            seconds = [now for _, now, *_ in same]
            stretches.append(Stretch(job.job_id, float(seconds[0]), seconds[-1] + 1.0, rate=rate, gpus=gpus))
    return stretches


def judge(jobs, done, stretches, options):
    """What both judges find."""
    faults = check(jobs, done, {"a": len(GPUS)}, stretches, options=NO_LANES).faults
    return {
        one.rule for one in (*faults, *check_packed(jobs, stretches, NODES, rates, options, durations=done))
    }


def pairs(stretches):
    """Pairs of stretches that share a GPU for a while."""
    return [
        (a, b)
        for a, b in itertools.combinations(stretches, 2)
        if a.job_id != b.job_id
        and set(a.gpus) & set(b.gpus)
        and min(a.end_s, b.end_s) > max(a.start_s, b.start_s)
    ]


@settings(max_examples=120, deadline=None)
@given(packed(), st.randoms(use_true_random=False))
def test_what_is_made_by_the_rules_passes_in_any_order(made, random):
    jobs, done, stretches, options = made
    shuffled = random.sample(stretches, len(stretches))
    assert judge(jobs, done, shuffled, options) == set()


# Mutations: (jobs, lengths, stretches, options, random) -> what is broken, and the rule.


def third_worker(jobs, done, stretches, options, random):
    one, other = random.choice(pairs(stretches))
    start_s, end_s = max(one.start_s, other.start_s), min(one.end_s, other.end_s)
    gpu = sorted(set(one.gpus) & set(other.gpus), key=lambda gpu: (gpu.node, gpu.index))[0]
    added = Stretch("third", start_s, end_s, rate=0.1, gpus=(gpu,))
    jobs = [*jobs, Job("third", "a", 0.0, 1, model="y")]
    return (
        jobs,
        done | {"third": 0.1 * (end_s - start_s)},
        [*stretches, added],
        options,
        PackedRule.MORE_THAN_TWO_WORKERS,
    )


def unfit_pair(jobs, done, stretches, options, random):
    one = random.choice(pairs(stretches))[0]
    jobs = [replace(job, model="none") if job.job_id == one.job_id else job for job in jobs]
    return jobs, done, stretches, options, PackedRule.PAIR_DOES_NOT_FIT


def too_fast(jobs, done, stretches, options, random):
    one = random.choice(random.choice(pairs(stretches)))
    changed = [s._replace(rate=s.rate * 1.001) if s is one else s for s in stretches]
    if options.share_gain is not None:  # only the sum is capped: both are faster
        changed = [s._replace(rate=0.999) for s in stretches]
        options = replace(options, share_gain=0.1)
    return jobs, done, changed, options, PackedRule.RATE_ABOVE_MEASURED


def missing_work(jobs, done, stretches, options, random):
    last = random.choice(sorted(stretches)[-3:])
    last = max((s for s in stretches if s.job_id == last.job_id), key=lambda s: s.end_s)
    cut = [s._replace(end_s=s.end_s - 0.01) if s is last else s for s in stretches]
    return jobs, done, cut, options, Rule.ENDS_BEFORE_WORK_IS_DONE


def too_much_memory(jobs, done, stretches, options, random):
    one, other = random.choice(pairs(stretches))
    memory = {one.job_id: 20_000, other.job_id: 16_000}
    return (
        jobs,
        done,
        stretches,
        replace(options, memory_mib=memory, gpu_memory_mib={"any": 40_000}),
        PackedRule.MORE_MEMORY_THAN_GPU,
    )


def two_in_one(jobs, done, stretches, options, random):
    """Two stretches of a job with other neighbours become one at their mean rate."""
    found = [
        (a, b)
        for a, b in itertools.pairwise(stretches)
        if a.job_id == b.job_id and any(a in pair or b in pair for pair in pairs(stretches))
    ]
    assume(found)
    a, b = random.choice(found)
    assume(neighbours(a, stretches) != neighbours(b, stretches))
    work = a.rate * (a.end_s - a.start_s) + b.rate * (b.end_s - b.start_s)
    whole = a._replace(end_s=b.end_s, rate=work / (b.end_s - a.start_s))
    return jobs, done, [whole, *(s for s in stretches if s not in (a, b))], options, PackedRule.SPANS_A_CHANGE


def neighbours(stretch, stretches):
    return {
        (gpu, other.job_id)
        for other in stretches
        for gpu in set(stretch.gpus) & set(other.gpus)
        if other.job_id != stretch.job_id
        and min(stretch.end_s, other.end_s) > max(stretch.start_s, other.start_s)
    }


def rider_of_a_rider(jobs, done, stretches, options, _random):
    """Later: a host of three, a rider of two half beside it, and one that rides on the rider."""
    return later(
        jobs, done, stretches, options, [(3, GPUS[:3]), (2, GPUS[2:4]), (1, GPUS[3:4])], PackedRule.STAR_RULE
    )


def sixth_job(jobs, done, stretches, options, _random):
    gangs = [(5, GPUS[:5]), *((1, GPUS[k : k + 1]) for k in range(5))]
    return later(jobs, done, stretches, options, gangs, PackedRule.PACKED_SET_TOO_LARGE)


def later(jobs, done, stretches, options, gangs, rule):
    new = [Job(f"new{k}", "a", 0.0, width, model="x") for k, (width, _) in enumerate(gangs)]
    added = [Stretch(f"new{k}", 90.0, 94.0, rate=0.25, gpus=tuple(gpus)) for k, (_, gpus) in enumerate(gangs)]
    return [*jobs, *new], done | {job.job_id: 1.0 for job in new}, [*stretches, *added], options, rule


MUTATIONS = [
    third_worker,
    unfit_pair,
    too_fast,
    missing_work,
    too_much_memory,
    two_in_one,
    rider_of_a_rider,
    sixth_job,
]


@pytest.mark.parametrize("mutate", MUTATIONS)
@settings(max_examples=25, deadline=None)
@given(made=packed(), random=st.randoms(use_true_random=False))
def test_each_mutation_is_caught(mutate, made, random):
    jobs, done, stretches, options = made
    assume(pairs(stretches))
    *broken, rule = mutate(jobs, done, stretches, options, random)
    assert rule in judge(*broken)


def test_one_rider_less_or_one_job_less_is_no_fault():
    """What the appended mutations break is what they add last."""
    for mutate in (rider_of_a_rider, sixth_job):
        jobs, done, stretches, options, _ = mutate([], {}, [], PackedOptions(), None)
        assert judge(jobs[:-1], done, stretches[:-1], options) <= {Rule.NEVER_RAN}


# Against the referee.

REFEREE = BENCH_ROOT / "referee" / "referee.py"
SEEN_BY_BOTH = {
    Rule.ENDS_BEFORE_WORK_IS_DONE,
    PackedRule.GANG_NOT_WHOLE,
    PackedRule.UNKNOWN_GPU,
    PackedRule.MORE_NODES_THAN_NEEDED,
    PackedRule.MORE_THAN_TWO_WORKERS,
    PackedRule.PAIR_DOES_NOT_FIT,
    PackedRule.RATE_ABOVE_MEASURED,
    PackedRule.MOVED,
}
needs_referee = [
    pytest.mark.bench_data,
    pytest.mark.skipif(not REFEREE.is_file(), reason=f"no referee at {BENCH_ROOT} (ANTECAST_BENCH_ROOT)"),
]


@pytest.fixture(scope="module")
def referee(tmp_path_factory):
    """(jobs, lengths, stretches, options) -> the faults that the referee names."""
    spec = importlib.util.spec_from_file_location("referee", REFEREE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("referee")
    write(folder / "pools.csv", ["pool", "quota_gpus"], [("a", len(GPUS))])
    write(folder / "nodes.csv", ["node", "num_gpus"], [(node.name, node.num_gpus) for node in NODES])
    both = [(a, b, TABLE[a, b], TABLE[b, a]) for a, b in TABLE if a <= b]
    write(folder / "pairs.csv", ["model_a", "model_b", "rate_a", "rate_b"], both)

    def say(jobs, done, stretches, options):
        rows = [
            (job.job_id, job.pool, job.submit_s, job.num_gpus, done[job.job_id], job.model) for job in jobs
        ]
        write(folder / "jobs.csv", ["job_id", "pool", "submit_s", "num_gpus", "duration_s", "model"], rows)
        write_schedule(folder / "schedule.csv", stretches)
        words = ["referee.py", "--no-preemption"]
        for name in ("jobs", "pools", "schedule", "nodes", "pairs"):
            words += [f"--{name}", str(folder / f"{name}.csv")]
        words += ["--redistribute"] if options.redistributes else []
        words += [] if options.share_gain is None else ["--share-gain", str(options.share_gain)]
        with mock.patch("sys.argv", words), redirect_stdout(io.StringIO()) as out:
            code = module.main()
        faults = json.loads(out.getvalue())["faults"]
        assert bool(faults) == bool(code)
        return faults

    return say


def write(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


@st.composite
def messy(draw):
    """A few jobs that run where they like, at what rate they like; no other rule is broken by that."""
    jobs, done, stretches = [], {}, []
    for k in range(draw(st.integers(2, 4))):
        job = Job(f"j{k}", "a", 0.0, draw(st.integers(1, 3)), model=draw(st.sampled_from(MODELS)))
        gpus = draw(
            st.lists(st.sampled_from(GPUS[:5]), min_size=job.num_gpus, max_size=job.num_gpus, unique=True)
        )
        now = float(draw(st.integers(0, 3)))
        for rate in draw(st.lists(st.sampled_from((1.0, 0.6, 0.5, 0.3)), min_size=1, max_size=2)):
            end = now + draw(st.integers(1, 3))
            stretches.append(Stretch(job.job_id, now, end, rate=rate, gpus=tuple(gpus)))
            now = end
        jobs.append(job)
        done[job.job_id] = math.fsum(
            s.rate * (s.end_s - s.start_s) for s in stretches if s.job_id == job.job_id
        )
    return jobs, done, stretches, draw(st.sampled_from(ALL_OPTIONS))


class TestAgainstTheReferee:
    pytestmark = needs_referee

    @settings(max_examples=25, deadline=None)
    @given(made=packed(), random=st.randoms(use_true_random=False), mutate=st.sampled_from(MUTATIONS))
    def test_it_finds_nothing_where_we_do_not_and_most_mutations_with_us(self, referee, made, random, mutate):
        jobs, done, stretches, options = made
        assert referee(*made) == []
        assume(pairs(stretches))
        *broken, _ = mutate(jobs, done, stretches, options, random)
        if judge(*broken) & SEEN_BY_BOTH:
            assert referee(*broken)

    @settings(max_examples=60, deadline=None)
    @given(messy())
    def test_it_finds_something_only_where_we_do(self, referee, made):
        found, told = judge(*made), referee(*made)
        assert found or not told
        assert told or not found & SEEN_BY_BOTH
