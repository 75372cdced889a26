"""Lives held against their forecasts as they run."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.observers import Observer
from models.calibration.life_monitor import LifeMonitor, chance_longer
from models.calibration.monitor import LIFE, ForecastMonitor, StreamKey
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.hazard import HazardLifetimes

fixed = settings(max_examples=60, deadline=None, derandomize=True)
KEY = StreamKey(LIFE, "a")


class Exponential(Observer):
    """Says of every life that it is exponential with this mean, and writes down what it is told."""

    is_clairvoyant = False

    def __init__(self, mean_s: float) -> None:
        self.mean_s = mean_s
        self.told: list[str] = []

    def submitted(self, job, now_s):  # noqa: ARG002
        self.told.append(f"submitted {job.job_id}")

    def ended(self, job, now_s, duration_s):  # noqa: ARG002
        self.told.append(f"ended {job.job_id}")

    def quantile_s(self, job, level):  # noqa: ARG002
        return -self.mean_s * math.log(1.0 - level)

    def survival(self, job):  # noqa: ARG002
        return tuple(math.exp(-edge / self.mean_s) for edge in LIFE_EDGES_S)


def live(
    watched: LifeMonitor, lives_s, *, gap_s: float = 700.0, begin_s: float = 0.0, user: str = "u"
) -> float:
    """Jobs that start when submitted; the instant of the last fact."""
    facts = []
    for k, life_s in enumerate(lives_s):
        job = Job(f"{begin_s:g}-{k:05}", "a", begin_s + gap_s * k, 1, user=user)
        facts += [(job.submit_s, 1, job, 0.0), (job.submit_s + life_s, 0, job, float(life_s))]
    for now_s, kind, job, life_s in sorted(facts, key=lambda fact: (fact[0], fact[1], fact[2].job_id)):
        if kind:
            watched.submitted(job, now_s)
            watched.started(job, now_s)
        else:
            watched.ended(job, now_s, life_s)
    return max(fact[0] for fact in facts)


def test_calibrated_lives_are_trusted_and_longer_ones_are_not():
    rng = np.random.default_rng(4)
    watched = LifeMonitor(Exponential(600.0), ForecastMonitor())
    now_s = live(watched, rng.exponential(600.0, 1_000))
    assert watched.monitor.may_lend("a")
    record = watched.record(("pool", "a"), now_s)
    assert (record.number, record.number_ended) == (200, 200)
    assert record.within_80 == pytest.approx(0.8, abs=0.07)
    assert record.longer_low <= 0.1 <= record.longer_high
    assert not any(row.is_off for row in watched.levels(("pool", "a"), (0.1, 0.5, 0.9), now_s))
    live(watched, rng.exponential(1_800.0, 100), begin_s=now_s + 1.0)
    assert not watched.monitor.may_lend("a")


def test_the_jobs_of_a_burst_share_the_weight_of_one_outcome():
    watched = LifeMonitor(Exponential(600.0), ForecastMonitor())
    now_s = 0.0
    for burst in range(30):
        live(watched, [1e5 if burst == 20 else 60.0] * 40, gap_s=10.0, begin_s=now_s)
        now_s += 2e5
    row = watched.monitor.stream(KEY)
    assert (row.observed, row.missed, row.longest_run, row.times_off) == (1_200, 40, 40, 0)
    assert watched.monitor.may_lend("a")
    for _ in range(12):
        live(watched, [1e5] * 40, gap_s=10.0, begin_s=now_s)
        now_s += 2e5
    assert not watched.monitor.may_lend("a")


def test_a_life_longer_than_said_is_a_miss_before_it_ends():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    long = Job("long", "a", 0.0, 1)
    watched.submitted(long, 0.0)
    watched.started(long, 0.0)
    watched.submitted(Job("other", "a", 230.0, 1), 230.0)
    assert watched.monitor.stream(KEY) is None
    watched.submitted(Job("more", "a", 231.0, 1), 231.0)
    row = watched.monitor.stream(KEY)
    assert (row.observed, row.missed) == (1, 1)
    assert row.since_s == pytest.approx(100.0 * math.log(10.0))
    watched.ended(long, 1e6, 1e6)
    assert watched.monitor.stream(KEY).observed == 1


def test_facts_that_come_late_are_taken_as_of_the_last_one():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    one, other = Job("one", "a", 0.0, 1), Job("other", "a", 0.0, 2)
    for job in (one, other):
        watched.started(job, 0.0)
    watched.ended(one, 200.0, 50.0)
    watched.ended(other, 150.0, 60.0)
    assert watched.monitor.stream(KEY).observed == 2
    assert watched.monitor.to_state()["tracks"][0]["last_s"] == 200.0


def test_a_job_sent_back_starts_from_zero_and_counts_once():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    job = Job("j", "a", 0.0, 1)
    watched.started(job, 0.0)
    watched.sent_back(job, 200.0)
    watched.submitted(Job("other", "a", 5_000.0, 1), 5_000.0)
    assert watched.monitor.stream(KEY) is None
    record = watched.record(("pool", "a"), 5_000.0)
    assert (record.number, record.number_ended) == (1, 0)
    watched.started(job, 5_000.0)
    watched.ended(job, 5_150.0, 150.0)
    row, record = watched.monitor.stream(KEY), watched.record(("pool", "a"), 6_000.0)
    assert (row.observed, row.missed) == (1, 0)
    assert (record.number, record.number_ended, record.within_80) == (1, 1, 1.0)


def test_a_job_cancelled_early_has_no_outcome_but_counts_up_to_its_age():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    job, waiting = Job("j", "a", 0.0, 1), Job("w", "a", 0.0, 1)
    watched.started(job, 0.0)
    watched.submitted(waiting, 0.0)
    watched.cancelled(job, 150.0)
    watched.cancelled(waiting, 160.0)
    assert watched.monitor.stream(KEY) is None
    (row,) = watched.levels(("pool", "a"), (0.5,), 1e6)
    assert (row.number, row.number_ended, row.seen) == (1, 0, 0.0)


def test_running_jobs_count_in_the_record_for_the_age_they_have():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    for k in range(10):
        job = Job(f"j{k}", "a", 0.0, 1, user="u")
        watched.started(job, 0.0)
        if k < 5:
            watched.ended(job, 50.0, 50.0)
    half = watched.record(("user", "u"), 60.0)
    later = watched.record(("user", "u"), 1e5)
    assert (half.number, half.number_ended) == (10, 5)
    assert half.group == "user u"
    assert later.longer_than_90 == pytest.approx(0.5)
    assert watched.record(("user", "nobody"), 1e5) is None
    assert [one.group for one in watched.records(Job("x", "a", 0.0, 1, user="u"), 1e5)] == [
        "pool a",
        "user u",
    ]


def test_it_stands_in_the_place_of_the_forecaster_and_passes_on_what_it_is_told():
    inner = Exponential(100.0)
    watched = LifeMonitor(inner, ForecastMonitor())
    live(watched, [5.0])
    assert inner.told == ["submitted 0-00000", "ended 0-00000"]
    job = Job("j", "a", 0.0, 1)
    assert watched.quantile_s(job, 0.5) == inner.quantile_s(job, 0.5)
    assert watched.survival(job) == inner.survival(job)
    assert not watched.is_clairvoyant


@pytest.mark.parametrize("inner", [EmpiricalLifetimes, HazardLifetimes])
def test_it_watches_the_forecasters_there_are(inner):
    rng = np.random.default_rng(8)
    watched = LifeMonitor(inner(), ForecastMonitor())
    now_s = live(watched, rng.exponential(600.0, 300))
    record = watched.record(("pool", "a"), now_s)
    assert record.number == 200
    assert record.within_80 == pytest.approx(0.8, abs=0.12)


def test_memory_is_bounded():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor(), most_jobs=5, most_groups=3, most_open=10)
    for k in range(200):
        watched.started(Job(f"j{k}", f"p{k}", float(k), 1, user=f"u{k}"), float(k))
    assert len(watched._open) == 10
    assert len(watched._groups._jobs) == 3
    assert len(watched._overdue) <= 2 * 10 + 64


@pytest.mark.parametrize("settings_", [{"level": 1.0}, {"most_jobs": 0}, {"most_open": 0}])
def test_settings_out_of_range_are_refused(settings_):
    with pytest.raises(ValueError, match=r"level|most"):
        LifeMonitor(Exponential(1.0), ForecastMonitor(), **settings_)


@fixed
@given(life_s=st.floats(0.0, 5e6), level=st.floats(0.01, 0.99))
def test_a_transform_lies_beyond_a_level_exactly_where_the_life_is_beyond_its_quantile(life_s, level):
    model, job = HazardLifetimes(), Job("j", "a", 0.0, 1)
    quantile_s = model.quantile_s(job, level)
    if abs(life_s / quantile_s - 1.0) > 1e-6 and quantile_s < LIFE_EDGES_S[-1]:
        assert (1.0 - chance_longer(model.survival(job), life_s) > level) == (life_s > quantile_s)


def test_chances_on_a_curve_by_hand():
    step = tuple(float(edge < 100.0) for edge in LIFE_EDGES_S)
    assert chance_longer(step, 0.0) == 1.0
    assert chance_longer(step, 50.0) == 1.0
    assert chance_longer(step, 1e9) == 0.0
    assert chance_longer((0.25,) * 58, 4.0) == pytest.approx(0.5)
    assert chance_longer((0.25,) * 58, 1e9) == 0.25


def test_an_age_is_work_done():
    """At half its rate from 100 s on, a job passes its quantile of 230 s of work at 360 s."""
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    job = Job("j", "a", 0.0, 1)
    watched.started(job, 0.0)
    watched.rate_changed(job, 100.0, 0.5)
    watched.rate_changed(Job("waits", "a", 0.0, 1), 100.0, 0.5)
    watched.submitted(Job("other", "a", 360.0, 1), 360.0)
    assert watched.monitor.stream(KEY) is None
    (row,) = watched.levels(("pool", "a"), (0.9,), 200.0)
    assert row.number_ended == 0
    assert watched._open["j"][1].pit_at(300.0) == pytest.approx(1.0 - math.exp(-2.0), abs=0.02), (
        "200 s of work"
    )
    watched.submitted(Job("more", "a", 361.0, 1), 361.0)
    row = watched.monitor.stream(KEY)
    assert (row.observed, row.missed) == (1, 1)
    assert row.since_s == pytest.approx(100.0 + 2 * (100.0 * math.log(10.0) - 100.0))
    watched.ended(job, 5_000.0, 250.0)
    assert watched.monitor.stream(KEY).observed == 1


def test_a_rate_that_rises_again_brings_the_quantile_nearer():
    watched = LifeMonitor(Exponential(100.0), ForecastMonitor())
    job = Job("j", "a", 0.0, 1)
    watched.started(job, 0.0)
    watched.rate_changed(job, 0.0, 0.25)
    watched.rate_changed(job, 400.0, 1.0)
    watched.submitted(Job("other", "a", 531.0, 1), 531.0)
    row = watched.monitor.stream(KEY)
    assert row.since_s == pytest.approx(400.0 + 100.0 * math.log(10.0) - 100.0)
