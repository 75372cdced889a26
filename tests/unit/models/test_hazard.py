import functools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from models.lifetime.features import PLAIN, FeatureHistory, JobFeatures
from models.lifetime.hazard import LEAST_ENDED, HazardLifetimes, quantile_of
from models.lifetime.lives import expand, sweep
from models.lifetime.recalibration import Recalibration
from models.lifetime.sampling import Life, LifeSample
from models.lifetime.tables import MIDDLE, NUM_BINS, DecayingTables
from models.lifetime.uncorrected import UncorrectedLifetimes

DAY_S = 86_400.0
MEANS_S = {"short": 600.0, "long": 36_000.0}

Lived = list[tuple[Job, float]]


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@functools.cache
def record(num_jobs: int = 1_500, span_s: float = 5 * DAY_S) -> Lived:
    """(job, duration) of two pools with exponential lives, by submit."""
    rng = generator(7)
    submits = np.sort(rng.random(num_jobs)) * span_s
    lived = []
    for k, submit_s in enumerate(submits):
        pool = "short" if rng.random() < 0.5 else "long"
        user, name = f"u{rng.integers(4)}", f"train_{rng.integers(1000)}"
        job = Job(f"j{k:05}", pool, float(submit_s), int(rng.choice([1, 2, 4])), user=user, name=name)
        lived.append((job, float(rng.exponential(MEANS_S[pool]))))
    return lived


def until(lived: Lived, now_s: float) -> tuple[Lived, Lived]:
    """What had ended by `now_s`, in the order of ending, and the ages of what had not."""
    past = [(job, life_s) for job, life_s in lived if job.submit_s + life_s <= now_s]
    past.sort(key=lambda each: (each[0].submit_s + each[1], each[0].job_id))
    running = [
        (job, now_s - job.submit_s) for job, life_s in lived if job.submit_s < now_s < job.submit_s + life_s
    ]
    return past, running


def tell(model: HazardLifetimes | FeatureHistory, lived: Lived, after_s: float, until_s: float) -> None:
    """Every fact in (after_s, until_s], ends first; jobs start when they are submitted."""
    facts = [(job.submit_s + life_s, 0, job.job_id, job, life_s) for job, life_s in lived]
    facts += [(job.submit_s, 1, job.job_id, job, life_s) for job, life_s in lived]
    for at_s, kind, _, job, life_s in sorted(facts, key=lambda fact: fact[:3]):
        if not after_s < at_s <= until_s:
            continue
        if kind == 0:
            model.ended(job, at_s, life_s)
        else:
            model.submitted(job, at_s)
            model.started(job, at_s)


@functools.cache
def trained() -> HazardLifetimes:
    model = HazardLifetimes()
    model.fit(*until(record(), 5 * DAY_S), 5 * DAY_S)
    assert model.model_text()
    return model


def new_job(pool: str, submit_s: float, job_id: str = "new", **known: str | float) -> Job:
    return Job(job_id, pool, submit_s, 1, **known)


some_jobs = st.builds(
    Job,
    job_id=st.uuids().map(str),
    pool=st.sampled_from(["short", "long", "never seen"]),
    submit_s=st.floats(0.0, 100 * DAY_S),
    num_gpus=st.sampled_from([1, 2, 3, 64]),
    user=st.sampled_from([None, "u1", "stranger"]),
    name=st.sampled_from([None, "train_7", "", "x" * 300]),
    limit_s=st.sampled_from([None, 0.0, 60.0, 1e9]),
)
fixed = settings(max_examples=100, deadline=None, derandomize=True)


@pytest.mark.parametrize("is_trained", [True, False])
@fixed
@given(job=some_jobs)
def test_a_curve_is_proper_and_never_zero(is_trained, job):
    model = trained() if is_trained else HazardLifetimes()
    curve = model.survival(job)
    assert len(curve) == len(LIFE_EDGES_S) == 58
    assert curve[0] <= 1.0
    assert all(later <= earlier for earlier, later in pairwise(curve))
    assert curve[-1] > 0.0
    assert model.survival(job) == curve


@fixed
@given(job=some_jobs, levels=st.lists(st.floats(0.001, 0.999), min_size=2, max_size=6))
def test_quantiles_rise_with_the_level_and_lie_on_the_curve(job, levels):
    model = trained()
    values = [model.quantile_s(job, level) for level in sorted(levels)]
    assert values == sorted(values)
    curve = model.survival(job)
    for level, value in zip(sorted(levels), values, strict=True):
        if value < LIFE_EDGES_S[-1]:
            place = int(np.searchsorted(LIFE_EDGES_S, value * (1 - 1e-9)))
            assert curve[place] <= 1.0 - level + 1e-9
            assert place == 0 or curve[place - 1] >= 1.0 - level - 1e-9


def test_a_quantile_between_edges_by_hand():
    curve = tuple(2.0 ** -(k + 1.0) for k in range(NUM_BINS))
    assert quantile_of(curve, 0.5) == pytest.approx(8.0)
    assert quantile_of(curve, 0.75) == pytest.approx(LIFE_EDGES_S[1])
    middle = 1.0 - 0.5 * math.sqrt(0.5)
    assert quantile_of(curve, middle) == pytest.approx(math.sqrt(8.0 * LIFE_EDGES_S[1]))
    assert quantile_of(curve, 1.0 - math.sqrt(0.5)) == pytest.approx(4.0)
    assert quantile_of((0.9,) * NUM_BINS, 0.5) == LIFE_EDGES_S[-1]


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, math.nan])
def test_a_level_outside_is_refused(level):
    with pytest.raises(ValueError, match="level"):
        trained().quantile_s(new_job("short", 5 * DAY_S), level)


@pytest.mark.parametrize("name", ["retrain_every_s", "window_s", "half_life_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_an_interval_that_is_not_positive_is_refused(name, value):
    with pytest.raises(ValueError, match="positive"):
        HazardLifetimes(**{name: value})


def test_without_a_past_a_life_may_be_anything_around_an_hour():
    told_so = HazardLifetimes()
    told_so.fit((), (), 0.0)
    for model in (told_so, HazardLifetimes()):
        job = new_job("a", 10.0)
        assert model.quantile_s(job, 0.5) == pytest.approx(3600.0, rel=0.01)
        assert 120.0 < model.quantile_s(job, 0.1) < 300.0
        assert 12 * 3600.0 < model.quantile_s(job, 0.9) < 2 * DAY_S
        assert model.model_text() == ""


def test_it_recovers_two_exponential_groups():
    rng, now_s = generator(3), 30 * DAY_S
    lived = [
        (Job(f"{pool}{k:05}", pool, float(rng.random() * now_s), 1), float(rng.exponential(mean_s)))
        for k in range(2_000)
        for pool, mean_s in MEANS_S.items()
    ]
    model = HazardLifetimes()
    model.fit(*until(lived, now_s), now_s)
    for pool, mean_s in MEANS_S.items():
        job = new_job(pool, now_s, pool)
        assert model.quantile_s(job, 0.5) == pytest.approx(mean_s * math.log(2.0), rel=0.15)
        assert model.quantile_s(job, 0.9) == pytest.approx(mean_s * math.log(10.0), rel=0.15)


@pytest.mark.parametrize("num_jobs", [400, 3_000], ids=["tables", "trained"])
def test_jobs_that_still_run_lengthen_the_forecast_to_the_truth(num_jobs):
    rng = generator(1)
    now_s, mean_s = 2 * 3600.0, 4 * 3600.0
    lived = [
        (Job(f"j{k:05}", "a", float(rng.random() * now_s), 1), float(rng.exponential(mean_s)))
        for k in range(num_jobs)
    ]
    past, running = until(lived, now_s)
    informed, blind = HazardLifetimes(), HazardLifetimes()
    informed.fit(past, running, now_s)
    blind.fit(past, (), now_s)
    assert bool(informed.model_text()) == (len(past) >= LEAST_ENDED)
    hour = LIFE_EDGES_S.index(4096.0)
    truth = math.exp(-4096.0 / mean_s)
    job = new_job("a", now_s)
    assert informed.survival(job)[hour] == pytest.approx(truth, abs=0.12)
    assert blind.survival(job)[hour] < truth - 0.25


def test_training_is_deterministic():
    one, other = HazardLifetimes(), HazardLifetimes()
    for model in (one, other):
        model.fit(*until(record(), 5 * DAY_S), 5 * DAY_S)
    assert one.model_text() == other.model_text() != ""
    job = new_job("long", 5 * DAY_S, "same")
    assert one.survival(job) == other.survival(job)


def assert_same_features(one: JobFeatures, other: JobFeatures) -> None:
    for name in ("logits", "exposures", "relative", "plain"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("cut_days", [0.5, 2.0, 4.0])
def test_features_do_not_change_with_what_happens_later(cut_days):
    cut_s = cut_days * DAY_S
    _, whole = sweep(*until(record(), 6 * DAY_S), 6 * DAY_S)
    history, early = sweep(*until(record(), cut_s), cut_s)
    whole_by_id = {life.job.job_id: life.features for life in whole.lives}
    early_by_id = {life.job.job_id: life.features for life in early.lives}
    early_by_id |= {job_id: known.features for job_id, known in history.open_jobs.items()}
    submitted_by_then = {job.job_id for job, _ in record() if job.submit_s < cut_s}
    compared = submitted_by_then & set(whole_by_id)
    assert len(compared) > 50
    assert set(early_by_id) == submitted_by_then
    for job_id in compared:
        assert_same_features(early_by_id[job_id], whole_by_id[job_id])


def test_a_job_s_own_life_is_not_among_its_features():
    lived = record(300, DAY_S)
    target = lived[100][0]
    longer = [(job, 9e4 if job is target else life_s) for job, life_s in lived]
    one, other = (
        next(life for life in sweep(*until(each, 10 * DAY_S), 10 * DAY_S)[1].lives if life.job is target)
        for each in (lived, longer)
    )
    assert one.age_s != other.age_s
    assert_same_features(one.features, other.features)


def test_told_live_or_as_a_record_a_job_has_the_same_features():
    lived = record(400, DAY_S)
    live = FeatureHistory()
    tell(live, lived, 0.0, 0.9 * DAY_S)
    read, _ = sweep(*until(lived, 0.9 * DAY_S), 0.9 * DAY_S)
    assert len(live.open_jobs) > 50
    assert live.open_jobs.keys() == read.open_jobs.keys()
    for job_id, known in live.open_jobs.items():
        assert_same_features(known.features, read.open_jobs[job_id].features)


def test_asked_late_a_forecast_is_the_one_of_the_submit():
    lived = record()
    early, late = HazardLifetimes(), HazardLifetimes()
    job = new_job("long", 3 * DAY_S + 1.0)
    for model in (early, late):
        model.fit(*until(lived, 3 * DAY_S), 3 * DAY_S)
        model.submitted(job, job.submit_s)
    said = early.survival(job)
    tell(late, lived, 3 * DAY_S + 1.0, 4 * DAY_S)
    assert late.survival(job) == said
    assert late.survival(new_job("long", 4 * DAY_S, "later")) != said


def test_learned_once_it_still_follows_a_change():
    lived = record()
    model = HazardLifetimes()
    model.fit(*until(lived, 5 * DAY_S), 5 * DAY_S)
    text, before_s = model.model_text(), model.quantile_s(new_job("short", 5 * DAY_S, "before"), 0.5)
    changed = [(Job(f"n{k:03}", "short", 5 * DAY_S + 60.0 * k, 1), 7_200.0) for k in range(200)]
    tell(model, changed, 5 * DAY_S, 6 * DAY_S)
    assert before_s < 1_000.0
    assert model.quantile_s(new_job("short", 6 * DAY_S, "after"), 0.5) == pytest.approx(7_200.0, rel=0.2)
    assert model.model_text() == text


def test_it_is_trained_anew_when_asked_at_or_after_each_multiple():
    lived = record()
    start_s, every_s = 2.5 * DAY_S, 3_600.0
    model = HazardLifetimes(retrain_every_s=every_s, window_s=DAY_S, half_life_s=DAY_S)
    model.fit(*until(lived, start_s), start_s)
    told_s = start_s
    texts = [model.model_text()]
    # Offsets in intervals, and whether the model is another one when asked then.
    for offset, is_new in ((0.9, False), (1.0, True), (1.9, False), (4.5, True), (4.9, False), (5.1, True)):
        now_s = start_s + offset * every_s
        tell(model, lived, told_s, now_s)
        told_s = now_s
        assert model.model_text() == texts[-1]
        probe = new_job("long", now_s, f"probe {offset}")
        model.submitted(probe, now_s)
        model.survival(probe)
        assert (model.model_text() != texts[-1]) == is_new
        texts.append(model.model_text())


def life(job_id: str, age_s: float, has_ended: bool, seen_s: float) -> Life:
    features = FeatureHistory().submitted(Job(job_id, "a", seen_s - age_s, 1), 0.0).features
    return Life(Job(job_id, "a", seen_s - age_s, 1), features, age_s, has_ended, seen_s)


def test_rows_of_a_life_that_ended_and_of_one_that_runs_by_hand():
    ended, runs = life("e", 9.0, True, 1_000.0), life("r", 20.0, False, 90_000.0)
    rows = expand([ended, runs], 90_000.0)
    # 9 s lies in (8, 10.08]; 20 s has passed the bins up to 16 s and is within (16, 20.2].
    assert rows.life.tolist() == [0, 0, 1, 1, 1, 1]
    assert rows.bin.tolist() == [0, 1, 0, 1, 2, 3]
    assert rows.has_died.tolist() == [0, 1, 0, 0, 0, 0]
    assert rows.weight.tolist() == [1.0] * 6


def test_rows_before_the_window_are_left_out_and_older_ones_weigh_less():
    rows = expand([life("r", 30.0, False, 1_000.0)], 1_000.0, since_s=980.0, half_life_s=20.0)
    # Entered at 970: the bins from 10.08, 12.7, 16, 20.2 and 25.4 s on; the last one is not over.
    assert rows.bin.tolist() == [2, 3, 4, 5]
    edges = LIFE_EDGES_S[1:5]
    assert rows.weight == pytest.approx([2.0 ** -((30.0 - edge) / 20.0) for edge in edges])


def test_twins_of_a_burst_share_their_weight_and_thinning_keeps_it():
    twins = [life(f"t{k:05}", 20.0, False, 1_000.0) for k in range(9)]
    assert expand(twins, 1_000.0).weight == pytest.approx([1 / 3] * 36)
    many = expand(twins * 2_000, 1_000.0)
    assert len(many.bin) < 36 * 1_000
    assert many.weight.sum() == pytest.approx(4 * 18_000**0.5, rel=0.001)


def exposures(history: FeatureHistory) -> np.ndarray:
    """Exposures per bin of the only pool and width told of, which has not been forgotten yet."""
    return np.expm1(history.submitted(Job("probe", "a", 1e6, 1), 1e6).features.exposures)


def test_a_job_sent_back_is_counted_once_per_bin():
    history, job = FeatureHistory(), Job("j", "a", 0.0, 1)
    history.started(job, 0.0)
    history.stopped(job, 3_600.0)
    known = history.open_jobs["j"]
    assert (known.age_s(5_000.0), known.seen_s(5_000.0)) == (3_600.0, 3_600.0)
    history.started(job, 4_000.0)
    assert (known.age_s(5_000.0), known.seen_s(5_000.0)) == (3_600.0, 3_600.0)
    assert (known.age_s(9_000.0), known.seen_s(9_000.0)) == (5_000.0, 9_000.0)
    history.ended(job, 11_000.0, 7_000.0)
    passed = int(np.searchsorted(LIFE_EDGES_S, 7_000.0))
    assert exposures(history) == pytest.approx([1.0] * (passed + 1) + [0.0] * (NUM_BINS - passed - 1))
    assert history.open_jobs.keys() == {"probe"}


def test_a_running_job_counts_in_what_it_has_passed_before_it_ends():
    history, job = FeatureHistory(), Job("j", "a", 0.0, 1)
    history.started(job, 0.0)
    history.submitted(Job("other", "b", 2_048.5, 1), 2_048.5)
    passed = LIFE_EDGES_S.index(2_048.0) + 1
    stopped_at_once = history.submitted(Job("probe", "a", 2_049.0, 1), 2_049.0)
    counted = np.expm1(stopped_at_once.features.exposures)
    assert counted == pytest.approx([1.0] * passed + [0.0] * (NUM_BINS - passed))


def test_tables_forget_by_exposures_and_lean_on_the_general_key():
    tables = DecayingTables()
    for _ in range(400):
        tables.credit(("all",), 0, 1, has_died=False)
    for _ in range(2):
        tables.credit(("all", "own"), 0, 1, has_died=True)
    (hazards,), _ = tables.hazards((("all",),))
    (own,), counted = tables.hazards((("all", "own"),))
    hazard = hazards[:, 0]
    # The quick memory has lately seen two deaths, the slow one two in four hundred.
    assert hazard[0] > 0.1
    assert 0.01 < hazard[MIDDLE] < 0.05
    assert hazard[-1] < 0.01
    assert own[MIDDLE, 0] > hazard[MIDDLE]
    assert counted[0] == pytest.approx(1.98)
    assert counted[1] == 0.0


def test_numbers_in_a_name_do_not_tell_jobs_apart():
    history = FeatureHistory()
    for k in range(5):
        job = Job(f"j{k}", "a", 100.0 * k, 1, name=f"run_{k}.sh")
        history.started(job, job.submit_s)
        history.ended(job, job.submit_s + 50.0, 50.0)
    twin = history.submitted(Job("t", "a", 900.0, 1, name="run_77.sh"), 900.0).features
    stranger = history.submitted(Job("s", "a", 900.0, 1, name="walk_77.sh"), 900.0).features
    assert np.expm1(twin.exposures[0]) > 4.0
    assert stranger.exposures[0] == 0.0


def test_who_submits_matters_within_one_pool():
    rng, means_s = generator(5), {"ann": 300.0, "bob": 20_000.0}
    lived = [
        (
            Job(f"{user}{k}", "a", float(rng.random() * 5 * DAY_S), 1, user=user),
            float(rng.exponential(mean_s)),
        )
        for k in range(600)
        for user, mean_s in means_s.items()
    ]
    model = HazardLifetimes()
    model.fit(*until(lived, 5 * DAY_S), 5 * DAY_S)
    for user, mean_s in means_s.items():
        median_s = model.quantile_s(new_job("a", 5 * DAY_S, user, user=user), 0.5)
        assert median_s == pytest.approx(mean_s * math.log(2.0), rel=0.4)


def test_nothing_is_kept_of_a_job_that_has_ended():
    model, job = HazardLifetimes(), Job("j", "a", 0.0, 1)
    model.submitted(job, 0.0)
    model.started(job, 5.0)
    model.survival(job)
    model.ended(job, 15.0, 10.0)
    assert not model._forecasts
    assert not model._history.open_jobs
    assert not model._raw
    assert not model._sample.lives


def test_a_job_that_waited_is_learned_from_when_it_ends_and_not_before():
    waited = Job("waited", "a", 0.0, 1)
    probes = [Job(f"probe{at_s:.0f}", "a", at_s, 1) for at_s in (500.0, 1_050.0, 1_200.0)]
    past, starts = [(waited, 100.0)], {"waited": 1_000.0}
    history, sample = sweep(past, [(probe, 0.0) for probe in probes], 2_000.0, starts)
    said = [history.open_jobs[probe.job_id].features for probe in probes]
    assert [float(features.exposures[0]) > 0.0 for features in said] == [False, False, True]
    assert [life.last_seen_s for life in sample.lives] == [1_100.0]
    running = PLAIN.index("jobs running of the pool")
    assert [features.plain[running] > 0.0 for features in said] == [False, True, False]


def test_a_job_that_ends_at_once_does_not_stay_open():
    history, sample = sweep([(Job("j", "a", 5.0, 1), 0.0)], [], 10.0)
    assert not history.open_jobs
    assert len(sample) == 1


def test_the_running_tables_speak_by_themselves_whatever_was_trained(monkeypatch):
    model, untrained = HazardLifetimes(), HazardLifetimes()
    model.fit(*until(record(), 3 * DAY_S), 3 * DAY_S)
    monkeypatch.setattr("models.lifetime.hazard.LEAST_ENDED", 10**9)
    untrained.fit(*until(record(), 3 * DAY_S), 3 * DAY_S)
    job = new_job("long", 3 * DAY_S + 1.0)
    assert not untrained.model_text()
    assert model.table_survival(job) == untrained.table_survival(job) == untrained.survival(job)
    assert model.table_survival(job) != model.survival(job)


def test_lives_beyond_their_forecasts_teach_the_correction():
    """Every life is a hundred times what the record made likely; judged as of the forecasts, made before."""
    model = HazardLifetimes()
    model.fit(*until(record(), 5 * DAY_S), 5 * DAY_S)
    jobs = [new_job(f"new{k}", 5 * DAY_S + 100.0 * k, f"long{k}") for k in range(1_000)]
    for job in jobs:
        model.submitted(job, job.submit_s)
        model.started(job, job.submit_s)
        model.survival(job)
    for k, job in enumerate(jobs):
        model.ended(job, 100 * DAY_S + k, 80 * DAY_S)
    half = len(model._recalibration.alive) // 2
    assert model._recalibration.alive[half] > 0.6, "who was said to be gone by then is likely alive"
    assert model._recalibration.weight == 0.0, "no forecast was made with it yet"
    assert not model._raw
    assert not model._judged


def test_uncorrected_lives_follow_what_ends_and_learn_no_correction():
    models = HazardLifetimes(), UncorrectedLifetimes()
    jobs = [new_job("long", 10.0 * k, f"new{k}") for k in range(300)]
    for model in models:
        for job in jobs:
            model.submitted(job, job.submit_s)
            model.started(job, job.submit_s)
            model.survival(job)
        for k, job in enumerate(jobs):
            model.ended(job, 1e6 + k, 9e5)
    corrected, uncorrected = models
    assert corrected._recalibration.since_refresh + len(corrected._recalibration.ended) > 300
    assert not uncorrected._recalibration.ended
    np.testing.assert_array_equal(uncorrected._recalibration.alive, Recalibration().alive)
    assert not uncorrected._raw
    assert not uncorrected._judged
    later = new_job("long", 1.1e6)
    for model in models:
        model.submitted(later, later.submit_s)
    assert uncorrected.survival(later) == uncorrected.table_survival(later)
    assert uncorrected.survival(later) == pytest.approx(corrected.survival(later)), "it has not helped yet"
    corrected._recalibration.balance = 40.0
    corrected._forecasts.clear()
    assert uncorrected.survival(later) != pytest.approx(corrected.survival(later))


def test_a_sample_of_lives_depends_on_ids_alone():
    lives = [life(f"j{k}", 10.0 + k, True, 1_000.0 * k) for k in range(400)]
    sample, again = LifeSample(most=100), LifeSample(most=100)
    for one in lives:
        sample.add(one)
    for one in reversed(lives):
        again.add(one)
    assert 60 <= len(sample) <= 100
    kept = [one.job.job_id for one in sample.lives]
    assert kept == sorted(kept, key=lambda job_id: int(job_id[1:])), "in the order they came"
    assert set(kept) == {one.job.job_id for one in again.lives}
    assert [one.job.job_id for one in sample.among(lives)] == kept
    assert sample.first_seen_s == 0.0
    sample.forget_before(300_000.0, least=10)
    assert all(one.last_seen_s > 300_000.0 for one in sample.lives)
    sample.forget_before(1e9, least=10)
    assert len(sample) == 10
