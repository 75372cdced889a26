"""Explanations: they sum to the forecast, they speak of the past only, every group has its words."""

import functools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from models.calibration.life_monitor import LifeMonitor
from models.calibration.monitor import ForecastMonitor
from models.explain.attribution import ChanceLonger, Component, TypicalLife, attribute, mixed
from models.explain.hazard_parts import column_names, facts_of, parts_of
from models.explain.life import LEAST_ENDED, explain_life
from models.explain.similar import PastJobs
from models.explain.words import (
    CALIBRATION,
    GROUPS,
    OTHER,
    duration_words,
    effect_words,
    group_of,
    group_of_table,
    reason_words,
)
from models.lifetime.boosted import Columns
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.features import PLAIN, RELATIVE
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.keys import keys_of
from models.lifetime.names import SimilarNames
from models.lifetime.tables import NUM_BINS

fixed = settings(max_examples=60, deadline=None, derandomize=True)
SPAN_S = 5 * 86_400.0
USERS = ("quick", "slow", "mixed")


@functools.cache
def record(seed: int, num_jobs: int = 900) -> tuple[tuple[Job, float], ...]:
    """Jobs whose lives differ by user, in the order of ending; all ended by `SPAN_S`."""
    rng = np.random.default_rng(seed)
    lived = []
    for k, submit_s in enumerate(np.sort(rng.random(num_jobs)) * SPAN_S):
        user = USERS[int(rng.integers(3))]
        mean_s = {"quick": 300.0, "slow": 12_000.0, "mixed": 2_000.0}[user]
        job = Job(
            f"j{k:04}", str(rng.choice(["a", "b"])), float(submit_s), int(rng.choice([1, 2])), user=user,
            name=f"run_{rng.integers(40)}", limit_s=float(rng.choice([3_600.0, 86_400.0])),
        )  # fmt: skip
        lived.append((job, float(rng.exponential(mean_s))))
    ended = [(job, life_s) for job, life_s in lived if job.submit_s + life_s <= SPAN_S]
    return tuple(sorted(ended, key=lambda one: (one[0].submit_s + one[1], one[0].job_id)))


@functools.cache
def trained(seed: int, num_jobs: int = 900) -> HazardLifetimes:
    model = HazardLifetimes(seed=seed)
    model.fit(record(seed, num_jobs), (), SPAN_S)
    assert bool(model.model_text()) == (num_jobs == 900)
    return model


def past_jobs(lived) -> PastJobs:
    past = PastJobs()
    for job, life_s in lived:
        past.ended(job, job.submit_s + life_s, life_s)
    return past


new_jobs = st.builds(
    Job,
    job_id=st.uuids().map(str),
    pool=st.sampled_from(["a", "b", "never seen"]),
    submit_s=st.floats(SPAN_S, 2 * SPAN_S),
    num_gpus=st.sampled_from([1, 2, 64]),
    user=st.sampled_from([None, *USERS, "stranger"]),
    name=st.sampled_from([None, "run_7", "train", ""]),
    limit_s=st.sampled_from([None, 3_600.0, 1e9]),
    array_id=st.sampled_from([None, "array"]),
    gpu_type=st.sampled_from([None, "V100"]),
    model=st.sampled_from([None, "resnet"]),
)


# sums


@pytest.mark.parametrize("num_jobs", [900, 200], ids=["trained", "tables"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1),
    job=new_jobs,
    longer_than_s=st.none() | st.floats(LIFE_EDGES_S[0], LIFE_EDGES_S[-1]),
)
def test_reasons_sum_to_the_forecast(num_jobs, seed, job, longer_than_s):
    model = trained(seed, num_jobs)
    told = explain_life(model, job, job.submit_s, longer_than_s=longer_than_s)
    total = told.base + math.fsum(reason.contribution for reason in told.reasons)
    assert total == pytest.approx(told.prediction, abs=1e-6)
    assert {reason.group for reason in told.reasons} <= set(GROUPS) - {CALIBRATION, OTHER}
    sizes = [abs(reason.contribution) for reason in told.reasons]
    assert sizes == sorted(sizes, reverse=True)
    curve = np.array(model.survival(job))
    target = TypicalLife() if longer_than_s is None else ChanceLonger(longer_than_s)
    assert told.prediction == target.value(curve)
    assert told.predicted == pytest.approx(2.0**told.prediction)


logits = arrays(np.float64, NUM_BINS, elements=st.floats(-15.0, 8.0))
parts = arrays(np.float64, (3, NUM_BINS), elements=st.floats(-6.0, 6.0))


@fixed
@given(
    base=logits,
    other=logits,
    one=parts,
    two=parts,
    share=st.floats(0.0, 1.0),
    place=st.integers(0, NUM_BINS - 1),
)
def test_any_mixture_is_explained_without_a_rest(base, other, one, two, share, place):
    components = [Component(share, base, one), Component(1.0 - share, other, two)]
    curve = mixed(components, [component.full for component in components])
    for target in (TypicalLife(), ChanceLonger(LIFE_EDGES_S[place])):
        usual, given_ = attribute(components, target)
        assert usual + given_.sum() == pytest.approx(target.value(curve), abs=1e-6)


def test_a_part_that_adds_nothing_has_no_share_and_the_only_one_has_all():
    parts = np.zeros((2, NUM_BINS))
    parts[1] = -1.0
    component = Component(1.0, np.full(NUM_BINS, -2.0), parts)
    usual, given_ = attribute([component], TypicalLife())
    longer = TypicalLife().value(mixed([component], [component.full]))
    assert given_[0] == 0.0
    assert given_[1] == pytest.approx(longer - usual)
    assert given_[1] > 0.0


def test_the_gradient_is_that_of_differences():
    rng = np.random.default_rng(2)
    base = rng.normal(-2.0, 1.0, NUM_BINS)
    for target in (TypicalLife(), ChanceLonger(3_000.0)):
        for place in (0, 20, 40):
            tiny = np.zeros((1, NUM_BINS))
            tiny[0, place] = 1e-5
            component = Component(1.0, base, tiny)
            usual, given_ = attribute([component], target)
            difference = target.value(mixed([component], [component.full])) - usual
            assert given_[0] == pytest.approx(difference, rel=1e-6, abs=1e-13)


def test_typical_life_and_chance_by_hand():
    step = np.array([1.0 if edge < 512.0 else 0.0 for edge in LIFE_EDGES_S])
    # S falls from 1 to 0 over the bin up to 512 s; the middle of that bin is a sixth of a doubling below.
    assert TypicalLife().value(step) == pytest.approx(9.0 - 1.0 / 6.0)
    half = np.full(NUM_BINS, 0.5)
    assert ChanceLonger(777.0).value(half) == pytest.approx(-1.0)
    curve = 2.0 ** -np.arange(NUM_BINS, dtype=float)
    assert ChanceLonger(LIFE_EDGES_S[0]).value(curve) == pytest.approx(0.0)
    assert ChanceLonger(LIFE_EDGES_S[-1]).value(curve) == pytest.approx(-57.0)
    assert ChanceLonger(math.sqrt(8.0 * LIFE_EDGES_S[1])).value(curve) == pytest.approx(-0.5)


@pytest.mark.parametrize("life_s", [0.0, 1e9, math.nan])
def test_a_life_off_the_grid_is_refused(life_s):
    with pytest.raises(ValueError, match="life_s"):
        ChanceLonger(life_s)


# what they say


def test_the_user_whose_jobs_are_short_is_the_reason_and_is_said_to_be():
    model = trained(0)
    quick = explain_life(model, Job("q", "a", SPAN_S, 1, user="quick", name="run_1"), SPAN_S)
    slow = explain_life(model, Job("s", "a", SPAN_S, 1, user="slow", name="run_1"), SPAN_S)
    assert quick.predicted < quick.usual < slow.predicted

    def of_user(told):
        return sum(r.contribution for r in told.reasons if r.group in ("user", "name"))

    assert of_user(quick) < -0.5
    assert of_user(slow) > 0.5
    words = " ".join(reason.words for reason in quick.reasons)
    assert "this user's jobs" in words
    assert "shorter, -" in words
    assert quick.sentence.startswith("Job q will run about ")
    assert "Mainly because" in quick.sentence
    assert quick.low_s < quick.median_s < quick.high_s
    assert json.loads(json.dumps(quick.to_dict()))["job_id"] == "q"


def test_explaining_changes_no_forecast():
    model = trained(1)
    job = Job("same", "a", SPAN_S, 1, user="slow")
    said = model.survival(job)
    first = explain_life(model, job, SPAN_S)
    assert explain_life(model, job, SPAN_S) == first
    assert model.survival(job) == said


def test_a_forecaster_without_parts_is_its_own_base():
    model = EmpiricalLifetimes()
    for job, life_s in record(0):
        model.observe(job, life_s)
    told = explain_life(model, Job("x", "a", SPAN_S, 1), SPAN_S)
    assert told.reasons == ()
    assert told.base == told.prediction


class Corrected(LifeMonitor):
    """Says of every curve that it should be a little longer."""

    def survival(self, job):
        return tuple(alive**0.9 for alive in super().survival(job))


def test_what_a_correction_adds_is_a_reason_of_its_own():
    watched = Corrected(trained(0), ForecastMonitor())
    told = explain_life(watched, Job("c", "a", SPAN_S, 1, user="slow"), SPAN_S)
    (one,) = (reason for reason in told.reasons if reason.group == CALIBRATION)
    assert one.contribution > 0.0
    assert told.base + sum(r.contribution for r in told.reasons) == pytest.approx(told.prediction, abs=1e-6)


def test_records_and_the_nearest_job_are_in_the_sentence_once_there_are_enough():
    watched = LifeMonitor(trained(0), ForecastMonitor())
    job = Job("r", "a", 3 * SPAN_S, 1, user="slow", name="run_3")
    assert explain_life(watched, job, SPAN_S).records == ()
    for k in range(LEAST_ENDED):
        other = Job(f"w{k}", "a", 2 * SPAN_S + 1e4 * k, 1, user="slow", name="run_3")
        watched.submitted(other, other.submit_s)
        watched.started(other, other.submit_s)
        watched.ended(other, other.submit_s + 5_000.0, 5_000.0)
    told = explain_life(watched, job, 3 * SPAN_S, past=past_jobs(record(0)))
    assert [one.group for one in told.records] == ["pool a", "user slow"]
    assert "Of the last 20 lives of user slow" in told.sentence
    assert "nearest past job (same user and name (run_#))" in told.sentence


# similar jobs


@fixed
@given(job=new_jobs, now_s=st.floats(0.0, SPAN_S), most=st.integers(0, 8))
def test_similar_jobs_are_of_the_past_and_each_shown_once(job, now_s, most):
    found = past_jobs(record(0)).similar(job, now_s, most=most)
    lives = {one.job_id: (one, life_s) for one, life_s in record(0)}
    assert len(found) <= most
    assert len({one.job_id for one in found}) == len(found)
    for one in found:
        other, life_s = lives[one.job_id]
        assert one.ended_s == other.submit_s + life_s <= now_s
        assert one.duration_s == life_s


def test_what_happens_later_changes_no_similar_job():
    job = Job("x", "a", SPAN_S, 1, user="slow", name="run_3")
    cut_s = 0.4 * SPAN_S
    early = [(one, life_s) for one, life_s in record(0) if one.submit_s + life_s <= cut_s]
    patient = PastJobs(most_jobs=10_000)
    for one, life_s in record(0):
        patient.ended(one, one.submit_s + life_s, life_s)
    assert past_jobs(early).similar(job, cut_s) == patient.similar(job, cut_s)


def test_the_nearest_come_first_and_the_latest_of_them():
    past = PastJobs()
    jobs = [
        Job("wide", "a", 0.0, 4, user="v"),
        Job("width", "a", 0.0, 1, user="v"),
        Job("user", "b", 0.0, 1, user="u", name="other"),
        Job("name", "b", 0.0, 2, user="v", name="run_1"),
        Job("twin", "b", 0.0, 2, user="u", name="run_2"),
        Job("twin 2", "b", 0.0, 2, user="u", name="run_3"),
    ]
    for k, one in enumerate(jobs):
        past.ended(one, 10.0 + k, 5.0)
    job = Job("x", "a", 0.0, 1, user="u", name="run_9")
    assert [one.job_id for one in past.similar(job, 99.0)] == ["twin 2", "twin", "name", "user", "width"]
    assert [one.job_id for one in past.similar(job, 14.0)] == ["twin", "name", "user", "width"]
    assert past.similar(jobs[5], 99.0)[0].job_id == "twin"
    assert past.similar(job, 99.0)[0].why == "same user and name (run_#)"
    assert json.dumps([one.to_dict() for one in past.similar(job, 99.0)])


def test_past_jobs_are_bounded():
    past = PastJobs(most_jobs=2, most_keys=3)
    for k in range(50):
        past.ended(Job(f"j{k}", "a", 0.0, 1, user=f"u{k}", name=f"n{'x' * k}"), float(k), 1.0)
    assert len(past._past) == 3
    assert all(len(jobs) <= 2 for jobs in past._past.values())
    for settings_ in ({"most_jobs": 0}, {"most_keys": 0}):
        with pytest.raises(ValueError, match="most"):
            PastJobs(**settings_)


# words


def test_every_column_and_every_table_belongs_to_a_group_with_words():
    everything = Columns(np.arange(9), np.arange(len(RELATIVE)), np.arange(len(PLAIN)))
    for name in column_names(everything):
        assert group_of(name) in set(GROUPS) - {OTHER}, name
    job = Job("j", "a", 0.0, 1, "u", "run_1", "resnet", 60.0, gpu_type="V100", array_id="x")
    for key in keys_of(job, SimilarNames()).tables:
        assert key == ("all",) or group_of_table(str(key[0])) != OTHER
    assert group_of("something new") == group_of_table("something new") == OTHER


@pytest.mark.parametrize("group", GROUPS)
@fixed
@given(job=new_jobs, is_known=st.booleans(), value=st.floats(0.0, 12.0))
def test_every_group_says_something_whatever_is_known(group, job, is_known, value):
    facts = dict.fromkeys((*RELATIVE, *PLAIN), value if is_known else math.nan)
    for known in (facts, {}):
        words = reason_words(group, job, known)
        assert len(words) > 10
        assert "nan" not in words.replace("finance", "")
        assert "  " not in words


def test_groups_in_words_by_hand():
    job = Job("j", "a", 0.0, 2, "u", "run_1", "resnet", 7_200.0, gpu_type="V100")
    facts = {
        "mean user-name": math.log(7_800.0),
        "mean user": math.log(60.0),
        "mean pool-width": math.log(90.0),
        "limit as used by the user": math.log(1_800.0),
        "siblings": math.log1p(12),
        "siblings ended": math.log1p(5),
        "sibling mean": math.log(600.0),
        "jobs waiting of the pool": math.log1p(3),
        "jobs running of the pool": math.log1p(1),
        "running": math.log1p(1),
        "age of the middle one": math.log(3_600.0),
        "submits 600 s": 1.0,
        "hour": 14.5,
    }
    said = {group: reason_words(group, job, facts) for group in GROUPS}
    assert said["name"] == "this user's jobs of this name lasted about 2 h 10 min lately"
    assert said["user"] == "this user's jobs lasted about 60 s lately"
    assert said["pool"] == "jobs of pool a on 2 GPUs lasted about 2 min lately"
    assert said["limit"] == "it asks for a limit of 2 h, and this user's jobs use about 25% of theirs"
    assert said["siblings"] == "12 siblings came before it, and the 5 of them that ended lasted about 10 min"
    assert said["queue"] == "3 jobs of pool a waited and 1 ran"
    assert said["running"] == "1 job of pool a on 2 GPUs ran, the middle one for 1 h"
    assert said["burst"] == "1 job came to pool a in the ten minutes before"
    assert said["hour"] == "it came between 14:00 and 14:59"
    assert said["width"] == "it asks for 2 GPUs"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than 1 s"), (45.0, "45 s"), (89.0, "89 s"), (120.0, "2 min"), (3_599.0, "1 h"),
     (7_800.0, "2 h 10 min"), (172_799.0, "2 d"), (180_000.0, "2 d 2 h")],
)  # fmt: skip
def test_durations_in_words(seconds, words):
    assert duration_words(seconds) == words


def test_effects_in_words():
    assert effect_words(0.8, is_life=True) == "longer, +0.80 doublings"
    assert effect_words(-0.8, is_life=True) == "shorter, -0.80 doublings"
    assert effect_words(-0.8, is_life=False) == "less likely, -0.80 doublings of the chance"
    assert effect_words(0.001, is_life=True) == "no change"


def test_facts_are_the_features_by_name():
    model = trained(0)
    job = Job("facts", "a", SPAN_S, 1, user="quick", limit_s=3_600.0)
    facts = parts_of(model, job).facts
    assert facts == pytest.approx(facts_of(model._history.open_jobs["facts"].features), nan_ok=True)
    assert math.exp(facts["limit"]) == pytest.approx(3_600.0, rel=0.01)
