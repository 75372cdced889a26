"""The openb benchmark: Go's generator, the draw of arrivals, and a run of a cluster of three nodes."""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import openb
from benchmarks.openb_draw import GoRandom, arrivals


def test_the_generator_is_the_one_of_go() -> None:
    # what every Go program without a seed of its own has printed for rand.Intn(100)
    random = GoRandom(1)
    assert [random.below(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]


def test_arrivals_are_all_pods_shuffled_and_then_more_up_to_the_target() -> None:
    pods, places = arrivals([500, 1000, 0], [1, 2, 0], 6_000, seed=42, num_nodes=4)
    assert sorted(pods[:3]) == [0, 1, 2]
    assert sum([500, 2000, 0][pod] for pod in pods) <= 6_000 + 1_000
    assert sorted(places) == [0, 1, 2, 3]


def test_more_than_the_target_is_pruned() -> None:
    pods, _ = arrivals([1000] * 10, [1] * 10, 4_000, seed=42, num_nodes=1)
    assert len(pods) == len(set(pods)) == 4


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    nodes = [
        ("n0", 32_000, 65_536, 4, "T4"),
        ("n1", 32_000, 65_536, 4, "T4"),
        ("n2", 8_000, 65_536, 2, "P100"),
    ]
    pd.DataFrame(nodes, columns=["sn", "cpu_milli", "memory_mib", "gpu", "model"]).to_csv(
        tmp_path / "openb_node_list_gpu_node.csv", index=False
    )
    pods = [
        ("p0", 4_000, 1_024, 1, 470, ""),
        ("p1", 3_000, 1_024, 1, 810, ""),
        ("p2", 8_000, 1_024, 2, 1000, "T4|T4"),
        ("p3", 0, 0, 0, 0, ""),
    ]
    columns = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"]
    pd.DataFrame(pods, columns=columns).to_parquet(tmp_path / "openb_pod_list_tiny.parquet")
    for what in ("allocation", "fragmentation"):
        head = ["workload", "sc_policy", "tune", "seed", *map(str, openb.GRID)]
        row = ["openb_pod_list_tiny", "06-FGD", "1.3", "42", *("50.0" for _ in openb.GRID)]
        with gzip.open(tmp_path / f"fgd_expected_{what}.csv.gz", "wt", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows((head, row))
    return tmp_path


def test_a_run_keeps_its_rows_and_does_not_run_them_again(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = traces / "kept.csv"
    arguments = [
        "openb",
        "--traces",
        str(traces),
        "--rules",
        "fgd,complement",
        "--seeds",
        "42",
        "--csv",
        str(kept),
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    openb.main()
    assert "| tiny | fgd |" in capsys.readouterr().out
    rows = openb.kept_rows(kept)
    assert [row["rule"] for row in rows] == ["fgd", "complement"]
    allocated = [float(rows[0][str(load)]) for load in openb.GRID]
    assert 0.0 < np.nanmax(allocated) <= 100.0
    monkeypatch.setattr(openb, "replay", None)
    openb.main()
    assert openb.kept_rows(kept) == rows
