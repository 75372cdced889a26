"""Backtests and trainings, where they compute: over a history made here."""

import json

import pandas as pd
import pytest

from app.children import backtest
from data.schema import COLUMNS
from domain.errors import SettingError

DAY_S = 86_400.0
REQUEST = {
    "cluster": "c",
    "seed": 0,
    "days": 2.0,
    "quotas": [["vision", 2], ["speech", 2]],
    "requeueable_pools": [],
    "policies": [
        {"policy": "fcfs", "settings": {}, "label": "fcfs"},
        {"policy": "backfill", "settings": {}, "label": "backfill"},
    ],
    "question_sha256": "0" * 64,
}


def frame(num_jobs=120, widest=2):
    rows = [
        {
            "job_id": f"j{k:03}",
            "pool": ("vision", "speech")[k % 3 == 0],
            "submit_s": k * 3_000.0,
            "num_gpus": 1 + k % widest,
            "duration_s": 4_000.0 + 900.0 * (k % 5),
        }
        for k in range(num_jobs)
    ]
    raw = pd.DataFrame(rows, columns=[column.name for column in COLUMNS])
    return raw.astype({column.name: column.kind.dtype for column in COLUMNS})


def test_a_backtest_gives_the_figures_of_a_comparison_and_hands_out_each_policy(capfd):
    found = backtest.backtest(frame(widest=3), REQUEST)
    assert [row["policy"] for row in found["rows"]] == ["fcfs", "backfill"]
    first, second = found["rows"]
    assert (first["slowed_jobs_vs_fcfs"], first["speedup_ratio_of_means_vs_fcfs"]) == (0, 1.0)
    assert second["speedup_ratio_of_means_vs_backfill"] == 1.0
    assert found["excluded"]["jobs"] > 0, "three GPUs are more than any quota"
    assert found["window"]["jobs"] + found["excluded"]["jobs"] == pytest.approx(2 * DAY_S / 3_000, abs=1)
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith('{"inc')]
    assert [one["about"] for one in said] == [{"policies": 1, "of": 2}, {"policies": 2, "of": 2}]
    assert said[0]["incumbent"] == {**found, "rows": [first]}
    assert said[1]["incumbent"] == found


def test_a_backtest_of_nothing_is_refused():
    with pytest.raises(SettingError, match="import its history first"):
        backtest.backtest(frame(0), REQUEST)
    with pytest.raises(SettingError, match="ask for more days"):
        backtest.backtest(frame(), {**REQUEST, "quotas": [["vision", 0], ["speech", 0]]})
