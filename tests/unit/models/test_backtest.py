"""A record told in order: what a model knows when it is asked is what had happened by then."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.history import from_frame
from data.splits import ended_before
from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S
from domain.observers import Observer
from models.backtest import (
    Fact,
    Kind,
    facts,
    forecast,
    forecasts_at_submit,
    known_at,
    learn,
    life_losses,
    life_scores,
    lived_of,
    origins,
    record_of,
)
from models.lifetime.empirical import EmpiricalLifetimes
from models.scores import NINE_LEVELS, ln_pinball_loss

DAY_S = 86_400.0


def table(*rows: tuple) -> pd.DataFrame:
    """Rows of (id, submit, start or None, duration), in the schema."""
    frame = pd.DataFrame(
        {
            "job_id": [row[0] for row in rows],
            "pool": "a",
            "submit_s": [float(row[1]) for row in rows],
            "num_gpus": 1,
            "duration_s": [float(row[3]) for row in rows],
            "start_s": [row[2] for row in rows],
        }
    )
    return from_frame(frame, source="test").frame


def told(record, *span) -> list[tuple[float, str, str]]:
    return [(fact.at_s, fact.kind.name, record.jobs[fact.place].job_id) for fact in facts(record, *span)]


class Diary(Observer):
    """A model that says the number of facts it was told, and remembers all of them."""

    is_clairvoyant = False

    def __init__(self):
        self.told: list[tuple] = []

    def submitted(self, job, now_s):
        self.told.append(("submitted", job.job_id, now_s))

    def started(self, job, now_s):
        self.told.append(("started", job.job_id, now_s))

    def ended(self, job, now_s, duration_s):
        self.told.append(("ended", job.job_id, now_s, duration_s))

    def quantile_s(self, job, level):
        assert any(one[:2] == ("submitted", job.job_id) for one in self.told)
        return len(self.told) + level

    def survival(self, _job):
        return (0.5,) * len(LIFE_EDGES_S)


# The record.


def test_the_cut_hides_starts_and_lives_that_lie_after_it():
    record = record_of(table(("a", 0, 5, 10), ("b", 1, 50, 10), ("c", 2, None, 100), ("d", 20, 20, 1)), 20.0)
    assert [job.job_id for job in record.jobs] == ["a", "b", "c"]
    assert record.start_s.tolist() == [5.0, math.inf, 2.0]
    assert record.lived_s.tolist() == [10.0, 0.0, 18.0]
    assert record.has_ended.tolist() == [True, False, False]


def test_an_end_at_the_very_cut_is_known():
    assert record_of(table(("a", 0, 5, 10)), 15.0).has_ended.all()
    assert not record_of(table(("a", 0, 5, 10)), 14.9).has_ended.any()


def test_what_had_ended_is_what_the_split_says():
    frame = table(*((f"j{k}", k % 7, None if k % 3 else k % 7 + k, 3 * k % 11) for k in range(40)))
    record = record_of(frame, 9.0)
    ended = {record.jobs[k].job_id for k in np.flatnonzero(record.has_ended)}
    assert ended == set(ended_before(frame[frame["submit_s"] < 9.0], 9.0)["job_id"])


# The order of facts.


def test_at_one_instant_ends_come_first_then_submits_then_late_starts():
    record = record_of(
        table(("a", 0, None, 10), ("b", 5, 10, 10), ("c", 10, None, 0), ("d", 10, None, 5)), 99
    )
    assert told(record) == [
        (0.0, "SUBMITTED", "a"),
        (0.0, "STARTED", "a"),
        (5.0, "SUBMITTED", "b"),
        (10.0, "ENDED", "a"),
        (10.0, "SUBMITTED", "c"),
        (10.0, "STARTED", "c"),
        (10.0, "ENDED", "c"),
        (10.0, "SUBMITTED", "d"),
        (10.0, "STARTED", "d"),
        (10.0, "STARTED", "b"),
        (15.0, "ENDED", "d"),
        (20.0, "ENDED", "b"),
    ]


ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 6)),
    min_size=1,
    max_size=12,
)


def random_table(rows) -> pd.DataFrame:
    return table(
        *(
            (f"j{k:02d}", submit, None if wait is None else float(submit + wait), life)
            for k, (submit, wait, life) in enumerate(rows)
        )
    )


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 16))
def test_facts_until_an_instant_and_from_it_are_all_facts_each_once_in_order(rows, at):
    record = record_of(random_table(rows), math.inf)
    whole = list(facts(record))
    assert list(facts(record, until_s=at)) + list(facts(record, at)) == whole
    assert len(set(whole)) == len(whole) == 3 * len(rows)
    assert [fact.at_s for fact in whole] == sorted(fact.at_s for fact in whole)
    for place in range(len(rows)):
        assert [fact.kind for fact in whole if fact.place == place] == [
            Kind.SUBMITTED,
            Kind.STARTED,
            Kind.ENDED,
        ]


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 16))
def test_a_record_cut_at_an_instant_tells_what_the_whole_one_tells_until_then(rows, at):
    """Cutting hides the future and changes nothing else."""
    frame = random_table(rows)
    whole, cut = record_of(frame, math.inf), record_of(frame, float(at))
    assert told(cut) == told(whole, -math.inf, float(at))


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 16))
def test_what_is_known_at_an_instant_is_what_was_told_until_it(rows, at):
    record = record_of(random_table(rows), math.inf)
    past, censored = known_at(record, float(at))
    until = list(facts(record, until_s=float(at)))
    assert [record.jobs[fact.place] for fact in until if fact.kind is Kind.ENDED] == [job for job, _ in past]
    submitted = {fact.place for fact in until if fact.kind is Kind.SUBMITTED}
    assert len(past) + len(censored) == len(submitted)
    started = {record.jobs[fact.place].job_id: fact.at_s for fact in until if fact.kind is Kind.STARTED}
    for job, age_s in censored:
        assert age_s == max(at - started.get(job.job_id, math.inf), 0.0)


# Telling and asking.


def test_a_model_is_asked_at_the_submit_and_knows_nothing_later():
    record = record_of(table(("a", 0, 1, 10), ("b", 5, None, 10), ("c", 8, None, 1)), math.inf)
    diary = Diary()
    made = forecast(diary, record, 5.0, 9.0)
    assert made.places.tolist() == [1, 2]
    assert made.quantiles_s[:, 4].tolist() == [3.5, 5.5]  # a: submitted, started; b: submitted, started; c
    assert diary.told[2:] == [("submitted", "b", 5.0), ("started", "b", 5.0), *diary.told[4:]]
    assert ("ended", "a", 11.0, 10.0) not in diary.told


def test_learning_and_forecasting_tell_every_fact_once():
    frame = random_table([(k % 9, k % 3, k % 5) for k in range(12)])
    record = record_of(frame, math.inf)
    diary, whole = Diary(), Diary()
    forecast(diary, record, 5.0, math.inf)
    learn(whole, record, math.inf)
    assert diary.told == whole.told


def test_a_model_that_fits_is_given_the_record_at_once():
    class Fits(Diary):
        def fit(self, past, censored, now_s):
            self.given = (past, censored, now_s)

    record = record_of(table(("a", 0, 2, 3), ("b", 1, 4, 10), ("c", 2, 9, 1)), math.inf)
    model = Fits()
    learn(model, record, 6.0)
    past, censored, now_s = model.given
    assert model.told == []
    assert now_s == 6.0
    assert [(job.job_id, life) for job, life in past] == [("a", 3.0)]
    assert [(job.job_id, age) for job, age in censored] == [("b", 2.0), ("c", 0.0)]


def test_a_fit_that_asks_for_starts_is_given_those_of_the_past():
    class Fits(Diary):
        def fit(self, past, censored, now_s, starts=None):  # noqa: ARG002
            self.starts = starts

    model = Fits()
    learn(model, record_of(table(("a", 0, 2, 3), ("b", 1, 4, 10), ("c", 2, 9, 1)), math.inf), 6.0)
    assert model.starts == {"a": 2.0, "b": 4.0}


def test_a_model_that_does_not_listen_is_told_nothing_and_asked_all_the_same():
    class Deaf:
        is_clairvoyant = False

        def quantile_s(self, _job, _level):
            return 60.0

        def survival(self, _job):
            return (0.0,) * len(LIFE_EDGES_S)

    made = forecast(Deaf(), record_of(table(("a", 0, None, 1)), math.inf), 0.0, 1.0)
    assert made.quantiles_s.tolist() == [[60.0] * 9]


def test_asking_of_every_third_job_tells_all_facts():
    record = record_of(table(*((f"j{k}", k, None, 1.5) for k in range(10))), math.inf)
    all_asked, some_asked, ticks = Diary(), Diary(), []
    made = forecasts_at_submit(all_asked, record, 2.0, 9.0)
    some = forecasts_at_submit(
        some_asked, record, 2.0, 9.0, every=3, progress=lambda *done: ticks.append(done)
    )
    assert some.places.tolist() == [2, 5, 8]
    assert all_asked.told == some_asked.told
    assert some.quantiles_s.tolist() == made.quantiles_s[::3].tolist()
    assert ticks[-1] == (3, 3)


def test_the_future_changes_no_forecast():
    """What lies after the last question is rewritten; one planted leak shows that this would be seen."""
    rows = [(f"j{k:02d}", k, None, 1 + k % 4) for k in range(30)]
    changed = [row if row[1] + row[3] < 20 else (*row[:3], 500.0) for row in rows]
    made, again = (
        forecast(EmpiricalLifetimes(), record_of(table(*one), math.inf), 10.0, 20.0)
        for one in (rows, changed)
    )
    np.testing.assert_array_equal(made.quantiles_s, again.quantiles_s)

    def leak(record):
        model = EmpiricalLifetimes()
        for job, lived_s in zip(record.jobs, record.lived_s.tolist(), strict=True):
            model.observe(job, lived_s)
        return forecasts_at_submit(model, record, 10.0, 20.0)

    one, other = (leak(record_of(table(*rows_of), math.inf)) for rows_of in (rows, changed))
    assert (one.quantiles_s != other.quantiles_s).any()


# Scores.


def test_losses_of_ended_lives_are_the_pinball_loss():
    rng = np.random.default_rng(0)
    lived_s, quantiles_s = rng.exponential(100.0, 50), np.sort(rng.exponential(100.0, (50, 9)), axis=1)
    losses = life_losses(lived_s, np.ones(50, bool), quantiles_s)
    assert losses.mean() == pytest.approx(ln_pinball_loss(lived_s, quantiles_s))


def test_a_life_that_goes_on_costs_what_is_certain():
    """At an age of e^2, a quantile of e costs its level; a longer one may yet be right and costs nothing."""
    lived_s = np.full(2, math.e**2)
    quantiles_s = np.array([[math.e], [math.e**9]])
    assert life_losses(lived_s, np.zeros(2, bool), quantiles_s, (0.9,)).tolist() == pytest.approx([0.9, 0.0])
    assert life_losses(lived_s, np.ones(2, bool), quantiles_s, (0.9,)).tolist() == pytest.approx([0.9, 0.7])


def test_scores_by_hand():
    record = record_of(
        table(*((f"j{k}", k, None, life) for k, life in enumerate((60.0, 600.0, 6000.0)))), 1e5
    )

    class Says(Diary):
        def quantile_s(self, _job, level):
            return 100.0 * 10.0 ** (2.0 * level - 1.0) * (1.0 if level < 0.9 else 2.0)

    made = forecast(Says(), record, 0.0, 10.0)
    found = life_scores(record, made)
    # .1 says 15.8 s, .9 says 1262 s: class 1 (up to an hour); the third life is of class 2.
    assert found["coverage_80"] == pytest.approx(2 / 3)
    assert found["beyond_90"] == pytest.approx(1 / 3)
    assert found["too_short_at_90"] == pytest.approx(1 / 3)
    assert found["c_index"] == 0.5
    assert (found["num_jobs"], found["num_running"]) == (3.0, 0.0)
    assert found["pinball"] == pytest.approx(ln_pinball_loss(lived_of(record, made)[0], made.quantiles_s))


def test_nothing_to_score_is_said_and_not_made_up():
    record = record_of(table(("a", 0, None, 1)), 10.0)
    found = life_scores(record, forecast(Diary(), record, 5.0, 9.0))
    assert found["num_jobs"] == 0
    assert math.isnan(found["pinball"])


def test_origins_cover_the_span_without_gaps():
    assert origins(0.0, 10.0, 4.0) == [(0.0, 4.0), (4.0, 8.0), (8.0, 10.0)]
    assert origins(2.0, 4.0, 5.0) == [(2.0, 4.0)]
    assert len(origins(0.0, 0.3, 0.1)) == 3
    for bad in ((1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, math.nan), (math.nan, 1.0, 1.0)):
        with pytest.raises(SettingError, match="before the second"):
            origins(*bad)


def test_the_levels_are_those_of_the_scores():
    assert len(NINE_LEVELS) == 9
    assert Fact(1.0, Kind.ENDED, 0) > Fact(1.0, Kind.STARTED, 5)
