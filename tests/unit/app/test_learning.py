"""Learning as an operation: what is compared with what, what is stored, and that the future stays unseen."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from app.services.demand_learner import DemandLearner
from app.services.learners import LifetimeLearner
from app.services.learning import Training, train
from app.services.records import data_name, tail_hash
from app.services.trained import in_use
from data.history import History, content_hash, from_frame
from data.splits import ended_before
from domain.errors import SettingError
from domain.forecasts import LIFE_EDGES_S
from domain.observers import Observer
from models.artifacts import ArtifactError, folder
from models.artifacts.champion import Margins
from models.artifacts.parts import encode
from models.artifacts.registry import Registry
from models.backtest import forecast, forecasts_at_submit, learn, record_of
from models.demand.calibrated import LEVELS
from models.demand.quantiles import WindowQuantiles
from models.lifetime.empirical import EmpiricalLifetimes

DAY_S = 86_400.0
QUOTAS = {"a": 8}


class AnHour:
    """Says an hour of everything."""

    is_clairvoyant = False

    def quantile_s(self, _job, _level):
        return 3600.0

    def survival(self, _job):
        return tuple(float(edge < 3600.0) for edge in LIFE_EDGES_S)


class AWeek(AnHour):
    """Says a week of everything: never too short."""

    def quantile_s(self, _job, _level):
        return 7 * DAY_S


@dataclass(frozen=True)
class Learner(LifetimeLearner):
    """Empirical lives, and something they beat, or do not."""

    name: str = "learned"
    quotas: dict = None
    rival: type = AWeek

    def make_baseline(self, _from_s):
        return self.rival()


def history(days: float = 20.0, *, seed: int = 0, change_from_s: float = math.inf) -> History:
    """Jobs of two kinds, ten an hour; what ends after an instant, or is submitted later, can be changed."""
    rng = np.random.default_rng(seed)
    number = int(days * 240)
    submit_s = np.sort(rng.uniform(0.0, days * DAY_S, number))
    kind = rng.integers(0, 2, number)
    duration_s = np.where(kind == 0, 60.0, 5000.0) * rng.lognormal(0.0, 0.3, number)
    duration_s = np.where(submit_s + duration_s > change_from_s, 1e6, duration_s)
    return from_frame(
        pd.DataFrame(
            {
                "job_id": [f"j{k:05d}" for k in range(number)],
                "pool": "a",
                "submit_s": submit_s,
                "num_gpus": 1,
                "duration_s": duration_s,
                "user": "u",
                "name": np.where(kind == 0, "short", "long"),
            }
        ),
        source="test",
    )


def a_training(as_of_days: float, **changes) -> Training:
    margins = Margins(miss_share=0.5)
    training = Training(as_of_days * DAY_S, "test", "2026-01-05T00:00:00Z", most_asked=300, margins=margins)
    return replace(training, **changes)


def quiet(_label):
    return lambda _done, _total: None


def trained(registry, as_of_days, record=None, learner=None, **changes):
    return train(
        learner or Learner(quotas=QUOTAS),
        history() if record is None else record,
        registry,
        a_training(as_of_days, **changes),
        quiet,
    )


@pytest.fixture
def registry(tmp_path) -> Registry:
    return Registry(tmp_path / "models")


def test_the_first_model_is_promoted_if_it_beats_the_baseline(registry):
    outcome = trained(registry, 10.0)
    assert outcome.is_promoted
    assert (outcome.version, outcome.champion) == (1, 1)
    assert "replaces the baseline" in outcome.why
    assert registry.line("test", "lifetime").champion == 1
    assert outcome.scores["pinball"] < 0.5


def test_the_first_model_is_stored_but_not_used_if_it_does_not(registry):
    frame = history().frame
    lives_s = dict(zip(frame["job_id"], frame["duration_s"], strict=True))

    class Perfect(AnHour):
        def quantile_s(self, job, _level):
            return lives_s[job.job_id]

    outcome = trained(registry, 10.0, learner=Learner(quotas=QUOTAS, rival=Perfect))
    assert not outcome.is_promoted
    assert (outcome.version, outcome.champion) == (1, None)
    assert "the baseline (quantiles per user, name and pool) stays" in outcome.why
    again = trained(registry, 14.0, learner=Learner(quotas=QUOTAS))
    assert (again.version, again.champion) == (2, 2)


def test_a_model_whose_tails_are_too_short_stays_out(registry):
    """A week said of everything is dear but never too short: a cheaper model may miss no more than 1 %."""
    outcome = trained(registry, 10.0, margins=Margins(miss_share=0.01))
    assert not outcome.is_promoted
    assert "tails of the new learned are too short" in outcome.why


def test_the_manifest_says_what_was_learned_from(registry):
    record = history()
    trained(registry, 10.0, record)
    about = registry.load("test", "lifetime").manifest
    known = ended_before(record.frame, 10.0 * DAY_S)
    assert about.training.num_jobs == len(known)
    assert about.training.data_sha256 == content_hash(known)
    assert about.training.until_s == 10.0 * DAY_S
    assert about.scores["pinball"] is not None
    assert about.name == "learned"


def test_a_model_in_use_is_not_asked_about_days_it_was_trained_on(registry):
    trained(registry, 10.0)
    next_day = trained(registry, 11.0)
    assert not next_day.is_promoted
    assert "a trial needs 2 days, and 0.7 are left" in next_day.why
    assert (next_day.version, next_day.champion) == (2, 1)
    later = trained(registry, 13.0)
    assert "version 1 (learned)" in later.why
    assert "on 2 days" in later.why


def test_one_model_against_itself_is_no_win(registry):
    """Empirical lives follow what they are told, so old and new say the same: nothing is gained."""
    trained(registry, 10.0)
    outcome = trained(registry, 14.0)
    assert not outcome.is_promoted
    assert "no better" in outcome.why
    assert registry.line("test", "lifetime").champion == 1


def test_going_on_from_a_stored_version_ends_where_the_whole_record_does(registry, tmp_path):
    trained(registry, 10.0)
    outcome = trained(registry, 14.0)
    fresh = Registry(tmp_path / "fresh")
    whole = trained(fresh, 14.0)
    assert (outcome.is_continued, whole.is_continued) == (True, False)
    continued = registry.load("test", "lifetime", outcome.version).parts
    assert encode(continued) == encode(fresh.load("test", "lifetime", 1).parts)


def test_a_record_that_was_corrected_is_learned_from_anew(registry):
    trained(registry, 10.0)
    assert not trained(registry, 14.0, history(seed=1)).is_continued


def test_a_record_that_has_dropped_its_oldest_days_is_gone_on_from(registry):
    trained(registry, 10.0)
    frame = history().frame
    recent = from_frame(frame[frame["submit_s"] > 5.0 * DAY_S], source="test")
    assert trained(registry, 14.0, recent).is_continued


def test_a_model_of_another_seed_does_not_go_on_from_this_one(registry):
    trained(registry, 10.0)
    assert not trained(registry, 14.0, learner=Learner(quotas=QUOTAS, seed=1)).is_continued


def test_nothing_after_the_instant_is_looked_at(registry, tmp_path):
    """All that is submitted or ends later is rewritten: version, decision and every byte stay the same."""
    other = Registry(tmp_path / "other")
    outcome = trained(registry, 10.0)
    rewritten = trained(other, 10.0, history(change_from_s=10.0 * DAY_S))
    assert outcome == rewritten
    assert encode(registry.load("test", "lifetime").parts) == encode(other.load("test", "lifetime").parts)
    assert registry.load("test", "lifetime").manifest == other.load("test", "lifetime").manifest
    changed = trained(Registry(tmp_path / "third"), 10.0, history(change_from_s=9.0 * DAY_S))
    assert changed.scores != outcome.scores, "what happened before the instant does matter"


def test_training_as_of_an_earlier_instant_than_the_model_in_use_is_refused(registry):
    trained(registry, 10.0)
    with pytest.raises(SettingError, match="was trained as of 864000 s, later"):
        trained(registry, 9.0)


def test_a_damaged_model_in_use_is_an_error(registry):
    trained(registry, 10.0)
    (registry.root / "test" / "lifetime" / "000001" / "lives_s.npy").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"lives_s\.npy"):
        trained(registry, 14.0)
    assert registry.line("test", "lifetime").champion == 1


@pytest.mark.parametrize("what", ["parts", "features"])
def test_a_model_of_another_version_of_the_program_is_learned_anew_and_faces_the_baseline(registry, what):
    trained(registry, 10.0)
    place = registry.root / "test" / "lifetime" / "000001"
    manifest, parts = folder.read(place)
    folder.remove(place)
    if what == "parts":
        parts = replace(parts, values={**parts.values, "version": 99})
    else:
        manifest = replace(manifest, features=("the weather",))
    folder.write(place, manifest, parts)
    with pytest.raises(ArtifactError, match="unknown-format"):
        in_use(registry, "test", "lifetime")
    outcome = trained(registry, 14.0)
    assert not outcome.is_continued
    assert "replaces the baseline" in outcome.why
    assert outcome.champion == 2


def test_the_model_in_use_can_be_asked(registry):
    trained(registry, 10.0)
    model, about = in_use(registry, "test", "lifetime")
    record = record_of(history().frame, 11.0 * DAY_S)
    made = forecasts_at_submit(model, record, about.training.until_s, 10.5 * DAY_S)
    whole = EmpiricalLifetimes()
    again = forecast(whole, record, 10.0 * DAY_S, 10.5 * DAY_S)
    np.testing.assert_array_equal(made.quantiles_s, again.quantiles_s)
    with pytest.raises(ArtifactError, match="no champion"):
        in_use(registry, "test", "demand")


def test_a_damaged_version_that_is_not_in_use_is_passed_over(registry):
    trained(registry, 10.0)
    trained(registry, 10.5)
    (registry.root / "test" / "lifetime" / "000002" / "lives_s.npy").write_bytes(b"")
    outcome = trained(registry, 14.0)
    assert outcome.is_continued
    assert (outcome.version, outcome.champion) == (3, 1)


def test_nothing_to_learn_from_is_said(registry):
    with pytest.raises(SettingError, match="no job had ended"):
        trained(registry, 0.0)
    with pytest.raises(SettingError, match="can be stored"):
        LifetimeLearner("astrology", QUOTAS)


def test_the_tail_is_the_last_day(registry):  # noqa: ARG001
    frame = history().frame
    at = 10.0 * DAY_S
    assert tail_hash(frame, at) == tail_hash(frame[frame["submit_s"] > 8.0 * DAY_S], at)
    assert tail_hash(frame, at) == tail_hash(frame[frame["submit_s"] < 11.0 * DAY_S], at)
    assert tail_hash(frame, at) != tail_hash(frame[frame["submit_s"] > 9.5 * DAY_S], at)


@pytest.mark.parametrize(
    ("path", "name"),
    [("w/Jobs 1.csv", "w-jobs-1"), ("w/é.csv", "w"), ("x/" + "y" * 90 + ".csv", "x-" + "y" * 62)],
)
def test_names_of_data_are_made_of_files(tmp_path, path, name):
    assert data_name(tmp_path / path) == name


# Demand.


def test_demand_is_trained_and_held_against_last_weeks_windows(registry):
    record = history(12.0)
    first = trained(registry, 9.0, record, DemandLearner("learned", {"a": 8, "b": 2}))
    assert first.kind == "demand"
    assert set(first.scores) >= {"pinball", "pinball_300", "covered_95_43200", "num_cells"}
    assert "last week's windows" in first.why
    assert 0.8 < first.scores["covered_95_300"] <= 1.0
    number = registry.line("test", "demand").champion
    line = registry.line("test", "demand")
    if number is None:  # make it one, whatever the trial said
        registry.decide("test", "demand", replace(line.decisions[0], is_promoted=True))
    second = trained(registry, 12.0, record, DemandLearner("learned", {"a": 8, "b": 2}))
    assert second.is_continued
    assert "version 1 (learned)" in second.why
    changed = DemandLearner("learned", {"b": 2, "a": 8})
    assert not changed.can_face(registry.load("test", "demand").manifest.settings)
    assert changed.recipe != DemandLearner("learned", {"a": 8, "b": 2}).recipe


def test_demand_is_asked_before_it_is_told_what_came():
    """Each question on the hour comes after all that happened by then, and before anything later."""
    record = record_of(history(3.0).frame, 2.0 * DAY_S)

    class Spy(Observer):
        windows_s = (300.0,)
        told_s = -math.inf
        asked: tuple[float, ...] = ()

        def submitted(self, _job, now_s):
            self.told_s = now_s

        def quantiles(self, _window_s, now_s):
            later = [job.submit_s for job in record.jobs if self.told_s < job.submit_s <= now_s]
            assert self.told_s <= now_s
            assert not later
            self.asked += (now_s,)
            return WindowQuantiles(LEVELS, np.zeros((1, len(LEVELS))), np.zeros((1, len(LEVELS))))

    spy, learner = Spy(), DemandLearner("learned", QUOTAS)
    learn(spy, record, DAY_S)
    run = learner.run(spy, record, (DAY_S, 2 * DAY_S), most_asked=12)
    assert spy.asked == tuple(DAY_S + 7200.0 * k for k in range(12))
    assert spy.told_s == record.jobs[-1].submit_s, "the rest of the span is told too"
    assert len(run.losses) == 12
    assert run.is_missed.mean() == np.mean(
        [any(at < job.submit_s <= at + 300.0 for job in record.jobs) for at in spy.asked]
    )


def test_demand_that_cannot_be_stored_is_refused():
    with pytest.raises(SettingError, match="can be stored"):
        DemandLearner("astrology", QUOTAS)
