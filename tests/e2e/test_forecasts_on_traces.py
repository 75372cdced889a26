"""Forecasts on slices of public traces: what docs/benchmarks.md says of whole ones holds on these too."""

import math

import pytest
from support import BENCH_ROOT, PHILLY, needs_bench_data

from benchmarks.traces import TRACES
from data.history import from_frame
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from models import LIFETIME_MODELS, Training
from models.backtest import record_of
from models.evaluation.demand import evaluate_demand
from models.evaluation.lives import evaluate_lives

pytestmark = needs_bench_data

DAY_S = 86_400.0
TRAIN_UNTIL_S = 1_641_600.0
EVAL_FROM_S = 1_814_400.0


def lives(frame, train_until_s, eval_from_s):
    def hazard():
        return LIFETIME_MODELS["hazard"](Training({}, (), (), train_until_s))

    return evaluate_lives(
        record_of(frame, math.inf), {"hazard": hazard}, train_until_s=train_until_s, eval_from_s=eval_from_s
    )


@pytest.fixture(scope="module")
def philly():
    """Jobs submitted until three days into the measured span."""
    quotas = dict(read_pools(PHILLY / "pools_load080.csv"))
    frame = READERS["csv"](PHILLY / "jobs.csv", quotas).frame
    return frame[frame["submit_s"] < EVAL_FROM_S + 3 * DAY_S], quotas


def test_lives_of_philly_are_sharp_and_calibrated(philly):
    found = lives(philly[0], TRAIN_UNTIL_S, EVAL_FROM_S)
    assert found["pinball"] <= 0.9 * found["pinball_best_baseline"]
    assert 0.75 <= found["coverage_80"] <= 0.85
    assert found["c_index"] >= 0.70
    assert found["too_short_at_90"] <= 0.10


def test_lives_of_venus_are_sharp_and_calibrated():
    frame = from_frame(TRACES["venus"](BENCH_ROOT / "traces"), source="venus").frame
    cut_s = float(frame["submit_s"].iloc[int(0.7 * len(frame))])
    found = lives(frame, cut_s, cut_s)
    assert found["pinball"] <= 0.9 * found["pinball_best_baseline"]
    assert 0.75 <= found["coverage_80"] <= 0.85
    assert found["c_index"] >= found["c_index_best_baseline"] + 0.02
    assert found["too_short_at_90"] <= 0.10


def test_demand_of_philly_is_covered_and_beats_the_baselines(philly):
    frame, quotas = philly
    found = evaluate_demand(
        record_of(frame, math.inf),
        quotas,
        train_until_s=TRAIN_UNTIL_S,
        eval_from_s=EVAL_FROM_S,
        retrain_every_s=None,
    )
    recalls = {"300": 0.80, "3600": 0.75, "43200": 0.90}
    assert set(found) == set(recalls)
    for window, one in found.items():
        assert one["pinball"] <= 0.9 * one["pinball_best_baseline"], window
        assert 0.92 <= one["coverage_95"] <= 0.98, window
        assert one["recall"] >= recalls[window], window
