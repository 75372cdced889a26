"""The live reference against the one that knows everything, over random realities."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from support import Instance, instances

from domain.jobs import Job, submit_order
from solver.reference import fcfs_starts
from solver.shadow import Shadow


@dataclass
class Reality:
    """When each job really starts, at which rate it runs, and when it is stopped and starts again."""

    start_s: dict[str, float]
    rate: dict[str, float]
    stopped_after_s: dict[str, float]


@st.composite
def realities(draw: st.DrawFn) -> tuple[Instance, Reality]:
    jobs, durations, quotas = draw(instances(min_duration_s=1))
    start = {j.job_id: j.submit_s + draw(st.sampled_from((0, 0, 0, 1, 2, 7, 30))) for j in jobs}
    rate = {j.job_id: draw(st.sampled_from((1.0, 1.0, 1.0, 0.5, 0.25))) for j in jobs}
    stopped = {
        j.job_id: durations[j.job_id] / rate[j.job_id] / 2 for j in jobs if draw(st.integers(0, 5)) == 0
    }
    return (jobs, durations, quotas), Reality(start, rate, stopped)


def facts_of(instance: Instance, reality: Reality) -> list[tuple[float, int, str, Job]]:
    """(instant, order within it, what, job): endings, then stops, then arrivals, then starts."""
    jobs, durations, _ = instance
    facts = []
    for one in jobs:
        start_s = reality.start_s[one.job_id]
        facts.append((one.submit_s, 2, "submitted", one))
        facts.append((start_s, 3, "started", one))
        if one.job_id in reality.stopped_after_s:
            stop_s = start_s + reality.stopped_after_s[one.job_id]
            facts.append((stop_s, 1, "sent_back", one))
            start_s = stop_s + 1.0
            facts.append((start_s, 3, "started", one))
        facts.append((start_s + durations[one.job_id] / reality.rate[one.job_id], 0, "ended", one))
    return sorted(facts, key=lambda fact: (fact[0], fact[1], submit_order(fact[3])))


def drive(instance: Instance, reality: Reality, looks_s: dict[str, float]) -> tuple[Shadow, dict[str, float]]:
    """Tell a shadow everything; note when each early start became known, looking at those instants too."""
    shadow = Shadow(instance[2])
    known_s: dict[str, float] = {}
    facts = facts_of(instance, reality)
    instants = sorted({fact[0] for fact in facts} | set(looks_s.values()))
    at = 0
    for now_s in instants:
        while at < len(facts) and facts[at][0] == now_s:
            _, _, what, one = facts[at]
            if what == "started":
                shadow.started(one, now_s, reality.rate[one.job_id])
            else:
                getattr(shadow, what)(one, now_s)
            at += 1
        shadow.advance(now_s)
        for one in instance[0]:
            if one.job_id not in known_s and shadow.early_start_s(one) is not None:
                known_s[one.job_id] = now_s
    return shadow, known_s


@settings(max_examples=100, deadline=None)
@given(realities())
def test_filled_in_later_the_exact_reference_is_the_reference(case):
    instance, reality = case
    jobs, durations, quotas = instance
    truth = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    shadow, _ = drive(instance, reality, truth)
    assert {one.job_id: shadow.exact_start_s(one) for one in jobs} == truth


@settings(max_examples=100, deadline=None)
@given(realities())
def test_the_early_reference_is_never_late_and_known_in_time(case):
    instance, reality = case
    jobs, durations, quotas = instance
    truth = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    shadow, known_s = drive(instance, reality, truth)
    for one in jobs:
        early = shadow.early_start_s(one)
        assert early is not None
        assert early <= truth[one.job_id]
        assert known_s[one.job_id] <= truth[one.job_id]


@settings(max_examples=100, deadline=None)
@given(instances(min_duration_s=1))
def test_while_nobody_is_behind_both_are_the_reference_at_every_instant(instance):
    jobs, durations, quotas = instance
    at_once = {one.job_id: one.submit_s for one in jobs}
    reality = Reality(at_once, dict.fromkeys(at_once, 1.0), {})
    truth = fcfs_starts(sorted(jobs, key=submit_order), durations, quotas)
    shadow, known_s = drive(instance, reality, truth)
    for one in jobs:
        assert shadow.early_start_s(one) == shadow.exact_start_s(one) == truth[one.job_id]
        assert known_s[one.job_id] == truth[one.job_id]
