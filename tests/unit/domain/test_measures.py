import math

import numpy as np
import pytest
from scipy.stats import beta

from domain import fairness, measures
from domain.jobs import Job
from domain.schedules import Stretch
from domain.shares import Share, clopper_pearson
from domain.usage import lending_spells, use_integrals

HOUR_S = 3600.0


# One job at a time


def test_times_of_a_job_are_differences():
    assert measures.jct_s(submit_s=10.0, end_s=110.0) == 100.0
    assert measures.queue_delay_s(submit_s=10.0, start_s=40.0) == 30.0
    assert measures.lateness_s(end_s=110.0, reference_end_s=150.0) == -40.0


def test_makespan_runs_from_the_first_submit_to_the_last_end():
    assert measures.makespan_s([20.0, 5.0, 7.0], [30.0, 105.0, 40.0]) == 100.0


def test_makespan_of_no_jobs_is_refused():
    with pytest.raises(ValueError, match="empty"):
        measures.makespan_s([], [])


@pytest.mark.parametrize(
    ("jct", "run_s", "expected"),
    [
        (300.0, 100.0, 3.0),
        (30.0, 1.0, 3.0),  # a run below 10 s counts as 10 s
        (5.0, 1.0, 1.0),  # and never below 1
        (0.0, 0.0, 1.0),
    ],
)
def test_bounded_slowdown(jct, run_s, expected):
    assert measures.bounded_slowdown(jct, run_s) == expected


@pytest.mark.parametrize(("late", "slowed"), [(-5.0, False), (60.0, False), (60.001, True)])
def test_a_job_is_slowed_from_just_beyond_a_minute(late, slowed):
    assert measures.is_slowed(late) is slowed


@pytest.mark.parametrize(
    ("late", "reference_jct", "slowed"),
    [
        (61.0, 1_000.0, True),  # 1 % is 10 s: the minute rules
        (61.0, 10_000.0, False),  # 1 % is 100 s
        (100.0, 10_000.0, False),
        (101.0, 10_000.0, True),
    ],
)
def test_a_long_job_may_be_late_by_1_pct(late, reference_jct, slowed):
    assert measures.is_slowed_beyond_1pct(late, reference_jct) is slowed


# Lateness of many jobs


def test_lateness_of_many_jobs_by_hand():
    latenesses = [-500.0, 0.0, 30.0, 90.0, 600.0]
    assert measures.slowed_share(latenesses) == Share(2, 5)
    assert measures.slowed_share_beyond_1pct(latenesses, [100.0, 100.0, 100.0, 20_000.0, 20_000.0]) == Share(
        1, 5
    )
    assert measures.total_lateness_min(latenesses) == 12.0
    assert measures.worst_lateness_min(latenesses) == 10.0


def test_jobs_that_are_early_are_never_negatively_late():
    assert measures.worst_lateness_min([-60.0, -30.0]) == 0.0
    assert measures.total_lateness_min([-60.0, -30.0]) == 0.0
    assert measures.worst_lateness_min([]) == 0.0


# Speed-ups


def test_the_three_speedups_by_hand():
    reference, jcts = [800.0, 100.0, 100.0], [100.0, 100.0, 800.0]
    assert measures.speedup_of_means(reference, jcts) == 1.0
    assert measures.speedup_mean(reference, jcts) == pytest.approx((8.0 + 1.0 + 0.125) / 3)
    assert measures.speedup_geomean(reference, jcts) == pytest.approx(1.0)


def test_the_three_speedups_differ_where_they_should():
    reference, jcts = [1_000.0, 1_000.0], [10.0, 1_000.0]
    assert measures.speedup_of_means(reference, jcts) == pytest.approx(2_000 / 1_010)
    assert measures.speedup_mean(reference, jcts) == pytest.approx(50.5)
    assert measures.speedup_geomean(reference, jcts) == pytest.approx(10.0)


SPEEDUPS = [measures.speedup_of_means, measures.speedup_mean, measures.speedup_geomean]


@pytest.mark.parametrize("function", SPEEDUPS)
def test_the_reference_against_itself_is_1(function):
    jcts = [0.0, 3.0, 17.5, 1e6]
    assert function(jcts, jcts) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("function", SPEEDUPS)
@pytest.mark.parametrize(("reference", "jcts"), [([], []), ([1.0], [1.0, 2.0])])
def test_speedups_of_nothing_or_of_unequal_lists_are_refused(function, reference, jcts):
    with pytest.raises(ValueError, match=r"no jobs|to compare|zip"):
        function(reference, jcts)


def test_zero_length_jobs_have_defined_speedups():
    assert measures.speedup(0.0, 0.0) == 1.0
    assert measures.speedup(5.0, 0.0) == math.inf
    assert measures.speedup(0.0, 5.0) == 0.0
    assert measures.speedup_geomean([5.0, 1.0], [0.0, 1.0]) == math.inf
    assert measures.speedup_geomean([0.0, 1.0], [5.0, 1.0]) == 0.0
    assert math.isnan(measures.speedup_geomean([0.0, 5.0], [5.0, 0.0]))


# Quantiles


def test_quantiles_are_those_of_numpy():
    rng = np.random.default_rng(7)
    for size in (1, 2, 3, 10, 101):
        values = rng.lognormal(3.0, 2.0, size).tolist()
        for level in (0.0, 0.05, 0.3, 0.5, 0.95, 0.99, 1.0):
            expected = np.quantile(values, level)
            assert measures.quantile(values, level) == pytest.approx(expected, rel=1e-12)


def test_a_quantile_between_infinite_values_is_infinite():
    assert measures.quantile([1.0, math.inf, math.inf], 0.9) == math.inf


@pytest.mark.parametrize(("values", "level"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.1)])
def test_quantiles_of_nothing_or_outside_0_1_are_refused(values, level):
    with pytest.raises(ValueError, match="no quantile"):
        measures.quantile(values, level)


# Shares and their bounds


@pytest.mark.parametrize("total", [1, 2, 7, 100, 3_000, 100_000])
@pytest.mark.parametrize("part", [0.0, 1e-5, 1e-3, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_is_that_of_scipy(total, part, confidence):
    hits = math.ceil(part * total)
    tail = (1 - confidence) / 2
    lower, upper = clopper_pearson(hits, total, confidence)
    assert lower == pytest.approx(beta.ppf(tail, hits, total - hits + 1) if hits else 0.0, rel=1e-7)
    assert upper == pytest.approx(beta.isf(tail, hits + 1, total - hits) if hits < total else 1.0, rel=1e-7)
    assert lower <= hits / total <= upper


def test_nothing_seen_in_3000_jobs_does_not_certify_a_promille():
    assert Share(0, 3_000).bounds()[1] == pytest.approx(1 - 0.025 ** (1 / 3_000))
    assert Share(0, 3_000).bounds()[1] > 0.001 > Share(0, 3_700).bounds()[1]


def test_a_share_of_nothing_says_nothing():
    assert Share(0, 0).value == 0.0
    assert Share(0, 0).bounds() == (0.0, 1.0)
    assert Share(1, 4).value == 0.25


@pytest.mark.parametrize(("hits", "total"), [(-1, 5), (6, 5), (1, 0)])
def test_an_impossible_share_is_refused(hits, total):
    with pytest.raises(ValueError, match="no share"):
        Share(hits, total)
    with pytest.raises(ValueError, match="no share"):
        clopper_pearson(hits, total)


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
def test_an_impossible_confidence_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        clopper_pearson(1, 5, confidence)


# Fairness


def test_finish_time_fairness_is_one_over_the_speedup():
    assert fairness.finish_time_fairness(50.0, 200.0) == 0.25
    assert fairness.finish_time_fairness(0.0, 0.0) == 1.0
    assert fairness.finish_time_fairness(5.0, 0.0) == math.inf


def test_jain_index_runs_from_1_over_n_to_1():
    assert fairness.jain_index([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert fairness.jain_index([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert fairness.jain_index([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert fairness.jain_index([0.0, 0.0]) == 1.0


@pytest.mark.parametrize("values", [[], [1.0, -1.0]])
def test_jain_index_refuses_what_is_no_allocation(values):
    with pytest.raises(ValueError, match="Jain"):
        fairness.jain_index(values)


@pytest.mark.parametrize(
    ("submit_s", "is_looked_at"),
    [
        (1_000.0, False),  # the pool has not lent yet: half-open, the spell begins now
        (1_001.0, True),
        (2_000.0 + 12 * HOUR_S - 1, True),
        (2_000.0 + 12 * HOUR_S, False),  # it lent just 12 h ago, and no longer within them
    ],
)
def test_donor_harm_looks_at_jobs_whose_pool_lent_within_12_h(submit_s, is_looked_at):
    job = Job("a", "donor", submit_s, 1)
    harm = fairness.donor_harm([job], {"a": 100.0}, {"donor": [(1_000.0, 2_000.0)], "other": []})
    assert harm == (Share(1, 1) if is_looked_at else Share(0, 0))


def test_donor_harm_counts_only_slowed_jobs_of_donors_that_ran():
    jobs = [
        Job("late", "donor", 50.0, 1),
        Job("in-time", "donor", 60.0, 1),
        Job("never-ran", "donor", 70.0, 1),
        Job("not-of-a-donor", "borrower", 50.0, 1),
    ]
    latenesses = {"late": 61.0, "in-time": 59.0, "not-of-a-donor": 1e6}
    assert fairness.donor_harm(jobs, latenesses, {"donor": [(0.0, 10.0)]}) == Share(1, 2)


# Integrals over a schedule: pools A (2 GPUs) and B (4 GPUs)

QUOTAS = {"A": 2, "B": 4}


def test_integrals_of_a_hand_made_schedule():
    jobs = [Job("a1", "A", 0.0, 4), Job("a2", "A", HOUR_S, 4), Job("b1", "B", 0.0, 1)]
    stretches = [
        Stretch("a1", 0.0, 2 * HOUR_S, is_guest=True),  # 2 of its 4 GPUs are B's
        Stretch("a2", 2 * HOUR_S, 3 * HOUR_S),
        Stretch("b1", 0.0, 4 * HOUR_S, rate=0.5),
    ]
    use = use_integrals(jobs, stretches, QUOTAS, (0.0, 4 * HOUR_S))
    assert use.capacity_gpu_hours == 24.0
    assert use.allocated_gpu_hours == 8.0 + 4.0 + 4.0
    assert use.work_gpu_hours == 8.0 + 4.0 + 2.0
    assert use.lost_gpu_hours == 0.0
    assert use.lent_gpu_hours == 2 * 3.0
    assert use.lent_by_donor == {"A": 0.0, "B": pytest.approx(6.0)}
    assert use.held_idle_gpu_hours == 0.0  # a2 waits for an hour, but is too wide for the single idle GPU
    assert use.utilisation == 16 / 24
    assert use.effective_utilisation == 14 / 24


def test_idle_gpus_are_held_while_a_narrow_job_waits():
    jobs = [Job("wide", "B", 0.0, 4), Job("narrow", "A", HOUR_S, 2)]
    stretches = [Stretch("wide", 0.0, 10 * HOUR_S), Stretch("narrow", 3 * HOUR_S, 4 * HOUR_S)]
    use = use_integrals(jobs, stretches, QUOTAS, (0.0, 10 * HOUR_S))
    assert use.held_idle_gpu_hours == 2 * 2.0


def test_a_job_that_was_thrown_back_waits_again_and_its_work_is_lost():
    job = Job("a", "A", 0.0, 2, requeue_u=0.1)
    stretches = [
        Stretch("a", 5 * HOUR_S, 6 * HOUR_S),
        Stretch("a", 0.0, 3 * HOUR_S, is_guest=True, is_lost=True),
    ]
    use = use_integrals([job], stretches, QUOTAS, (0.0, 10 * HOUR_S))
    assert use.lost_gpu_hours == 6.0
    assert use.work_gpu_hours == 2.0
    assert use.held_idle_gpu_hours == 6 * 2.0


def test_a_job_that_never_ran_waits_to_the_end():
    use = use_integrals([Job("a", "A", HOUR_S, 1)], [], QUOTAS, (0.0, 3 * HOUR_S))
    assert use.held_idle_gpu_hours == 6 * 2.0


def test_a_change_of_rate_is_no_wait():
    stretches = [Stretch("a", 0.0, HOUR_S), Stretch("a", HOUR_S, 2 * HOUR_S, rate=0.5)]
    use = use_integrals([Job("a", "A", 0.0, 1)], stretches, QUOTAS, (0.0, 3 * HOUR_S))
    assert use.held_idle_gpu_hours == 0.0


def test_what_is_lent_is_laid_on_the_donors_by_their_idle_quota():
    quotas = {"A": 1, "B": 3, "C": 5}
    jobs = [Job("a", "A", 0.0, 5), Job("c", "C", 0.0, 2)]
    stretches = [Stretch("a", 0.0, 2 * HOUR_S), Stretch("c", HOUR_S, 2 * HOUR_S)]
    use = use_integrals(jobs, stretches, quotas, (0.0, 2 * HOUR_S))
    assert use.lent_gpu_hours == 8.0
    # Four GPUs are lent: of 3 + 5 idle ones in the first hour, of 3 + 3 in the second.
    assert use.lent_by_donor == pytest.approx({"A": 0.0, "B": 1.5 + 2.0, "C": 2.5 + 2.0})


def test_gpus_beyond_all_quotas_are_nobodys_to_lend():
    use = use_integrals(
        [Job("a", "A", 0.0, 9)], [Stretch("a", 0.0, HOUR_S)], QUOTAS, (0.0, HOUR_S), capacity_gpus=10
    )
    assert use.lent_gpu_hours == 7.0
    assert use.lent_by_donor == {"A": 0.0, "B": pytest.approx(4.0)}
    assert use.capacity_gpu_hours == 10.0


def test_only_the_window_counts():
    jobs = [Job("a", "A", 0.0, 3), Job("b", "B", 0.0, 3)]
    stretches = [Stretch("a", 0.0, 4 * HOUR_S), Stretch("b", 4 * HOUR_S, 8 * HOUR_S)]
    use = use_integrals(jobs, stretches, QUOTAS, (3 * HOUR_S, 5 * HOUR_S))
    assert use.capacity_gpu_hours == 12.0
    assert use.allocated_gpu_hours == 6.0
    assert use.lent_gpu_hours == 1.0
    assert use.held_idle_gpu_hours == 3.0


def test_an_empty_window_has_no_use():
    use = use_integrals([], [], QUOTAS, (5.0, 5.0))
    assert use.capacity_gpu_hours == use.utilisation == use.effective_utilisation == 0.0


@pytest.mark.parametrize("window", [(1.0, 0.0), (0.0, math.inf), (math.nan, 1.0)])
def test_an_impossible_window_is_refused(window):
    with pytest.raises(ValueError, match="window"):
        use_integrals([], [], QUOTAS, window)


def test_what_is_of_nobody_known_is_refused():
    with pytest.raises(ValueError, match="job x"):
        use_integrals([], [Stretch("x", 0.0, 1.0)], QUOTAS, (0.0, 1.0))
    with pytest.raises(ValueError, match="pool Z"):
        use_integrals([Job("x", "Z", 0.0, 1)], [], QUOTAS, (0.0, 1.0))


def test_a_pool_lends_while_it_has_idle_quota_and_another_is_beyond_its_own():
    jobs = [Job("a1", "A", 0.0, 3), Job("a2", "A", 0.0, 3), Job("b", "B", 0.0, 4)]
    stretches = [
        Stretch("a1", 0.0, 5.0),
        Stretch("a2", 5.0, 10.0),  # takes over without a break
        Stretch("b", 2.0, 3.0),  # B uses all of its own: the cluster is overrun, but B does not lend
    ]
    assert lending_spells(jobs, stretches, QUOTAS) == {"A": (), "B": ((0.0, 2.0), (3.0, 10.0))}
