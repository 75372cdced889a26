"""Each rule of packed schedules, broken once by the smallest schedule that does."""

from dataclasses import replace

import pytest
from support import REPOSITORY

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.schedules import Stretch
from solver.check import CheckOptions, Rule, check
from solver.check_packed import PackedOptions, check_packed
from solver.schedule_rules import PackedRule

NODES = (Node("n0", 4), Node("n1", 4), Node("n2", 2))
RATES = {("x", "x"): 0.5, ("x", "y"): 0.8, ("y", "x"): 0.6}
WIDE, ROW = Job("wide", "a", 0.0, 4, model="x"), Job("row", "a", 0.0, 2, model="y")
LENGTHS = {"wide": 90.0, "row": 30.0}
CALM = PackedOptions(memory_mib={"wide": 20_000, "row": 15_000}, gpu_memory_mib={"any": 40_000})


def rates(model: str, beside: str) -> float | None:
    return RATES.get((model, beside))


def on(node: str, *indices: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index) for index in indices)


def ran(job_id: str, start_s: float, end_s: float, gpus: tuple[Gpu, ...], rate: float = 1.0) -> Stretch:
    return Stretch(job_id, start_s, end_s, rate=rate, gpus=gpus)


ALL = on("n0", 0, 1, 2, 3)
HOSTED = [ran("wide", 0.0, 50.0, ALL, 0.8), ran("wide", 50.0, 100.0, ALL)]
RIDES = ran("row", 0.0, 50.0, ALL[:2], 0.6)
VALID = [*HOSTED, RIDES]


def found(stretches, options=CALM, jobs=(WIDE, ROW), durations=LENGTHS, nodes=NODES):
    faults = check_packed(jobs, stretches, nodes, rates, options, durations=durations)
    return [(fault.rule, fault.job_id, fault.at_s) for fault in faults]


def test_a_rider_beside_a_host_breaks_no_rule():
    assert found(VALID) == []
    report = check([WIDE, ROW], LENGTHS, {"a": 4}, VALID, options=CheckOptions(is_packed=True))
    assert [fault.rule for fault in report.faults] == [Rule.OWN_GPUS_BEYOND_QUOTA]
    without_lanes = CheckOptions(is_packed=True, has_own_lanes=False, must_keep_promise=True)
    assert check([WIDE, ROW], LENGTHS, {"a": 4}, VALID, options=without_lanes).faults == ()


def test_gpus_in_use_are_counted_one_by_one_where_jobs_share_them():
    options = CheckOptions(is_packed=True, has_own_lanes=False)
    apart = [*HOSTED, ran("row", 0.0, 30.0, on("n1", 0, 1))]
    assert [one.rule for one in check([WIDE, ROW], LENGTHS, {"a": 5}, apart, options=options).faults] == [
        Rule.MORE_GPUS_THAN_CLUSTER
    ]
    assert check([WIDE, ROW], LENGTHS, {"a": 6}, apart, options=options).faults == ()


def test_who_is_late_at_his_rate_is_slowed():
    late = [ran("wide", 0.0, 150.0, ALL, 0.6), RIDES]
    report = check([WIDE, ROW], LENGTHS, {"a": 6}, late, options=CheckOptions(is_packed=True))
    assert (report.slowed_job_ids, report.worst_lateness_s) == ((), 60.0)
    late = [ran("wide", 0.0, 180.0, ALL, 0.5), RIDES]
    report = check([WIDE, ROW], LENGTHS, {"a": 6}, late, options=CheckOptions(is_packed=True))
    assert report.slowed_job_ids == ("wide",)


ONE = Job("one", "a", 0.0, 1, model="y")
EQUAL = replace(WIDE, job_id="equal", model="y")

BROKEN = {
    "missing work": (
        Rule.ENDS_BEFORE_WORK_IS_DONE, "wide", 99.0, [HOSTED[0], HOSTED[1]._replace(end_s=99.0), RIDES],
    ),
    "too much work": (
        Rule.RUNS_ON_AFTER_WORK_IS_DONE, "wide", 101.0, [HOSTED[0], HOSTED[1]._replace(end_s=101.0), RIDES],
    ),
    "half a gang": (PackedRule.GANG_NOT_WHOLE, "row", 0.0, [*HOSTED, RIDES._replace(gpus=ALL[:1])]),
    "a GPU twice": (PackedRule.GANG_NOT_WHOLE, "row", 0.0, [*HOSTED, RIDES._replace(gpus=ALL[:1] * 2)]),
    "no such GPU": (
        PackedRule.UNKNOWN_GPU, "row", 0.0,
        [ran("wide", 0.0, 90.0, ALL), ran("row", 0.0, 30.0, on("n2", 1, 2))],
    ),
    "strewn": (
        PackedRule.MORE_NODES_THAN_NEEDED, "row", 0.0,
        [ran("wide", 0.0, 90.0, ALL), ran("row", 0.0, 30.0, on("n1", 0) + on("n2", 0))],
    ),
    "moved": (
        PackedRule.MOVED, "row", 10.0,
        [
            ran("wide", 0.0, 90.0, ALL),
            ran("row", 0.0, 10.0, on("n2", 0, 1)),
            ran("row", 10.0, 30.0, on("n2", 1, 0)),
        ],
    ),
    "too fast": (PackedRule.RATE_ABOVE_MEASURED, "row", 0.0, [*HOSTED, RIDES._replace(rate=0.60001)]),
    "the host too fast": (
        PackedRule.RATE_ABOVE_MEASURED, "wide", 0.0,
        [HOSTED[0]._replace(rate=0.9, end_s=50.0), HOSTED[1], RIDES],
    ),
    "over two neighbourhoods": (
        PackedRule.SPANS_A_CHANGE, "wide", 0.0, [ran("wide", 0.0, 112.5, ALL, 0.8), RIDES],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_broken_by_exactly_what_breaks_it(name):
    rule, job_id, at_s, stretches = BROKEN[name]
    lengths = LENGTHS if isinstance(rule, Rule) else None
    assert found(stretches, durations=lengths) == [(rule, job_id, at_s)]


def test_two_workers_are_the_most():
    third = ran("one", 20.0, 30.0, ALL[:1], 0.1)
    open_rates = dict.fromkeys([(a, b) for a in "xy" for b in "xy"], 1.0)
    faults = check_packed([WIDE, ROW, ONE], [*VALID, third], NODES, lambda a, b: open_rates[a, b])
    assert (PackedRule.MORE_THAN_TWO_WORKERS, "one", 20.0) in [(f.rule, f.job_id, f.at_s) for f in faults]


def test_a_pair_that_does_not_fit_or_has_no_model_never_shares():
    for job in (replace(WIDE, model="y"), replace(WIDE, model=None)):
        rules = found(VALID, jobs=(job, ROW))
        assert rules == [(PackedRule.PAIR_DOES_NOT_FIT, "wide", 0.0)]


def test_memory_holds_both_and_a_context():
    options = replace(CALM, memory_mib={"wide": 20_000, "row": 15_488})
    assert found(VALID, options) == []  # 36,000 MiB of 40,000 with a second context
    options = replace(CALM, memory_mib={"wide": 20_000, "row": 15_489})
    assert found(VALID, options) == [(PackedRule.MORE_MEMORY_THAN_GPU, "wide", 0.0)]
    assert found(VALID, replace(options, gpu_memory_mib={"other": 1})) == []
    assert found(VALID, replace(options, memory_mib={"wide": 99_999})) == []


def test_samples_that_move_between_workers_make_the_mean_of_their_rates():
    """Two of four workers at 0.8, two alone."""
    faster = [ran("wide", 0.0, 50.0, ALL, 0.9), ran("wide", 50.0, 100.0, ALL), RIDES]
    assert found(faster, replace(CALM, redistributes=True), durations=None) == []
    faster[0] = faster[0]._replace(rate=0.9001)
    assert [rule for rule, *_ in found(faster, replace(CALM, redistributes=True), durations=None)] == [
        PackedRule.RATE_ABOVE_MEASURED
    ]


def test_of_shares_only_the_sum_of_two_is_capped():
    """Free competition gives 1.4 together, shares 15 % more: 1.61."""
    options = replace(CALM, share_gain=0.15)
    skewed = [HOSTED[0]._replace(rate=1.0), HOSTED[1], RIDES._replace(rate=0.61)]
    assert found(skewed, options, durations=None) == []
    skewed[2] = RIDES._replace(rate=0.6101)
    assert [rule for rule, *_ in found(skewed, options, durations=None)] == [PackedRule.RATE_ABOVE_MEASURED]
    with pytest.raises(ValueError, match="share_gain"):
        PackedOptions(share_gain=-0.1)


PAIRED = [ran("wide", 0.0, 90.0, ALL, 0.8), ran("equal", 0.0, 90.0, ALL, 0.6)]


def test_equal_widths_share_all_their_gpus():
    assert found(PAIRED, jobs=(WIDE, EQUAL), durations=None) == []
    wide, equal = replace(WIDE, num_gpus=2), replace(EQUAL, num_gpus=2)
    shifted = [ran("wide", 0.0, 90.0, ALL[:2], 0.8), ran("equal", 0.0, 90.0, ALL[1:3], 0.6)]
    rules = found(shifted, jobs=(wide, equal), durations=None)
    assert rules == [(PackedRule.STAR_RULE, "wide", 0.0)]


def test_a_rider_has_no_rider():
    """`row` rides on one of its GPUs and has the other alone, on which `one` joins."""
    wide = replace(WIDE, num_gpus=3)
    host = ran("wide", 0.0, 90.0, ALL[:3], 0.5)
    rides, on_top = ran("row", 0.0, 90.0, ALL[2:], 0.5), ran("one", 5.0, 90.0, ALL[3:], 0.5)
    open_rates = dict.fromkeys([(a, b) for a in "xy" for b in "xy"], 1.0)

    def judge(*stretches):
        return check_packed([wide, ROW, ONE], stretches, NODES, lambda a, b: open_rates[a, b])

    assert judge(host, rides) == ()
    assert {(one.rule, one.job_id) for one in judge(host, rides, on_top)} == {
        (PackedRule.STAR_RULE, "one"),
        (PackedRule.SPANS_A_CHANGE, "row"),
    }


def test_five_jobs_are_the_most():
    nodes = (Node("big", 8),)
    host = Job("h", "a", 0.0, 8, model="x")
    riders = [Job(f"r{k}", "a", 0.0, 1, model="y") for k in range(5)]
    gpus = nodes[0].gpus()
    stretches = [
        ran("h", 0.0, 9.0, gpus, 0.8),
        *(ran(f"r{k}", 0.0, 9.0, gpus[k : k + 1], 0.6) for k in range(5)),
    ]
    assert found(stretches[:5], jobs=[host, *riders], durations=None, nodes=nodes) == []
    rules = found(stretches, jobs=[host, *riders], durations=None, nodes=nodes)
    assert rules == [(PackedRule.PACKED_SET_TOO_LARGE, "r4", 0.0)]


def test_a_rider_may_follow_another_while_its_host_goes_on_in_two_stretches():
    """A long rider's stretch spans a change beside its host only, and nobody overlaps within rounding."""
    other = Job("one", "a", 0.0, 1, model="y")
    host = [ran("wide", 0.0, 50.0, ALL, 0.8), ran("wide", 50.0 + 1e-9, 100.0, ALL, 0.8)]
    riders = [ran("row", 0.0, 100.0, ALL[:2], 0.6), ran("one", 50.0 - 1e-7, 100.0, ALL[2:3], 0.6)]
    assert found([*host, *riders], jobs=(WIDE, ROW, other), durations=None) == []
    third = Job("z", "a", 0.0, 1, model="y")
    after = ran("z", 100.0 - 5e-7, 110.0, ALL[2:3])
    assert found([*host, *riders, after], jobs=(WIDE, ROW, other, third), durations=None) == []


def test_a_stretch_of_no_length_shares_what_it_lies_inside_of():
    assert found([*VALID, ran("one", 50.0, 50.0, ALL[:1])], jobs=(WIDE, ROW, ONE)) == []
    inside = [ran("wide", 0.0, 110.0, ALL, 0.8), ran("one", 70.0, 70.0, ALL[:1], 0.6)]
    assert found(inside, jobs=(WIDE, ONE), durations=None) == []
    inside[0] = inside[0]._replace(rate=1.0)
    assert [rule for rule, *_ in found(inside, jobs=(WIDE, ONE), durations=None)] == [
        PackedRule.RATE_ABOVE_MEASURED
    ]


def test_stretches_without_gpus_and_unknown_jobs_are_left_to_the_other_judge():
    assert found([*VALID, Stretch("row", 60.0, 70.0), ran("nobody", 0.0, 9.0, ALL)]) == []
    with pytest.raises(ValueError, match="listed twice"):
        found(VALID, jobs=(WIDE, WIDE))


def test_an_attempt_of_several_stretches_keeps_no_more_than_it_would_have_saved_alone():
    job = replace(WIDE, requeue_u=0.1, checkpoint_s=20.0)
    options = CheckOptions(requeueable_share=0.5, is_packed=True)

    def rules(*stretches, of=job):
        return [one.rule for one in check([of], {"wide": 100.0}, {"a": 4}, stretches, options=options).faults]

    first = Stretch("wide", 0.0, 30.0, is_guest=True, rate=0.5, is_stopped=True)
    second = Stretch("wide", 30.0, 50.0, is_guest=True, rate=0.5, is_stopped=True)
    assert rules(first, second, Stretch("wide", 90.0, 165.0)) == []
    second = second._replace(rate=1.0)
    assert rules(first._replace(rate=0.8), second, Stretch("wide", 90.0, 146.0)) == [
        Rule.KEPT_WHAT_WAS_NOT_SAVED
    ]
    lost = [one._replace(is_stopped=False, is_lost=True, rate=0.5) for one in (first, second)]
    never_saves = replace(job, checkpoint_s=None)
    assert rules(*lost, Stretch("wide", 90.0, 190.0), of=never_saves) == []
    assert rules(first, second, Stretch("wide", 90.0, 155.0), of=never_saves) == [
        Rule.KEPT_WHAT_WAS_NOT_SAVED
    ]


def test_every_rule_is_in_the_docs():
    page = (REPOSITORY / "docs" / "plan-checks.md").read_text(encoding="utf-8")
    assert [rule for rule in PackedRule if f"`{rule}`" not in page] == []
