"""Forecasters kept as files: read back bit for bit, and trained anew where anything differs."""

import json
import stat
from dataclasses import replace

import numpy as np
import pytest

from app.services.kept_models import MOST_KEPT, folder_of, kept_or_made, key_of
from data.history import from_frame
from data.synthetic import philly_like
from domain.jobs import Job
from models import Training
from simulator.forecasting import ForecastChoice, build
from simulator.workload import before

DAY_S = 86_400.0
CHOICE = ForecastChoice("hazard", "corrected", 0.0)
QUICK = ForecastChoice("learned", "learned", 0.0)


@pytest.fixture(scope="module")
def frame():
    return from_frame(philly_like(4, days=3, num_pools=3).frame, source="generated").frame


@pytest.fixture(scope="module")
def training(frame):
    past, censored = before(frame, 2 * DAY_S)
    quotas = {str(pool): 64 for pool in sorted(frame["pool"].unique())}
    return Training(quotas, past, censored, 2 * DAY_S)


def ask(forecasters, training):
    """What they say of a new job and of the time ahead, told the same."""
    pool = next(iter(training.quotas))
    job = Job("new", pool, training.now_s + 60.0, 1)
    for observer in forecasters.observers:
        observer.submitted(job, job.submit_s)
        observer.started(job, job.submit_s)
    now_s = training.now_s + 120.0
    return (
        tuple(forecasters.lives.survival(job)),
        dict(forecasters.demand.new_load_gpus(3600.0, now_s)),
        forecasters.demand.peaks(now_s).tobytes(),
    )


class Maker:
    def __init__(self, choice, training):
        self.choice, self.training, self.times = choice, training, 0

    def __call__(self):
        self.times += 1
        return build(self.choice, self.training)


def test_what_was_kept_is_read_and_says_the_same(frame, training, tmp_path):
    folder, make = tmp_path / "models" / "desks", Maker(CHOICE, training)
    key = key_of(CHOICE, training, frame, [])
    first = kept_or_made(folder, key, CHOICE, training, make)
    again = kept_or_made(folder, key, CHOICE, training, make)
    assert make.times == 1
    assert again is not first
    assert len(again.observers) == len(first.observers) == 2
    assert ask(again, training) == ask(first, training)
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_damaged_file_is_no_reason_to_stop(frame, training, tmp_path):
    make = Maker(QUICK, training)
    key = key_of(QUICK, training, frame, [])
    first = kept_or_made(tmp_path, key, QUICK, training, make)
    manifest = tmp_path / f"{key}-demand" / "manifest.json"
    known = json.loads(manifest.read_text())
    damaged = tmp_path / f"{key}-demand" / next(name for name in known["files"] if name.endswith(".json"))
    damaged.write_bytes(damaged.read_bytes()[:-2])
    again = kept_or_made(tmp_path, key, QUICK, training, make)
    assert make.times == 2
    assert ask(again, training) == ask(first, training)
    kept_or_made(tmp_path, key, QUICK, training, make)
    assert make.times == 2, "it has been written anew"


def test_another_record_choice_or_instant_has_another_key(frame, training):
    ended = [(DAY_S, Job("x", "a", 0.0, 1), 50.0)]
    other = frame.copy()
    other.loc[0, "duration_s"] += 1.0
    keys = {
        key_of(CHOICE, training, frame, []),
        key_of(CHOICE, training, other, []),
        key_of(CHOICE, training, frame, ended),
        key_of(replace(CHOICE, arrivals="learned"), training, frame, []),
        key_of(CHOICE, replace(training, now_s=training.now_s + 1.0), frame, []),
        key_of(CHOICE, replace(training, seed=1), frame, []),
        key_of(CHOICE, replace(training, quotas={"a": 1}), frame, []),
    }
    assert len(keys) == 7
    assert key_of(CHOICE, training, frame, []) == key_of(CHOICE, training, frame.copy(), [])


def test_only_the_models_used_last_are_kept(training, tmp_path):
    few = replace(training, past=training.past[:50], censored=())
    made = build(QUICK, few)
    for number in range(MOST_KEPT + 2):
        kept_or_made(tmp_path, f"{number:064d}", QUICK, few, lambda: made)
    left = {path.name.split("-")[0] for path in tmp_path.iterdir()}
    assert len(left) == MOST_KEPT
    assert f"{0:064d}" not in left
    assert f"{MOST_KEPT + 1:064d}" in left


def test_without_a_folder_or_a_model_that_can_be_stored_nothing_is_written(training, tmp_path):
    assert folder_of({}) is None
    assert folder_of({"ANTECAST_MODELS_DIR": str(tmp_path)}) == tmp_path / "desks"
    limits = ForecastChoice("limit", None, 0.0)
    make = Maker(limits, training)
    kept_or_made(tmp_path, "k", limits, training, make)
    kept_or_made(None, "k", CHOICE, training, make)
    assert make.times == 2
    assert not np.any([*tmp_path.iterdir()])
