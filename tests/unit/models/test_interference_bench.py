"""The real table of measured pairs: models that were left out, against both baselines."""

import pytest
from support import BENCH_ROOT

from data.pairs import PairTable, read_pairs
from models.interference import PairInterference
from models.interference.scores import score_interference

PAIRS = BENCH_ROOT / "bench" / "packing" / "pairs.csv"

pytestmark = [
    pytest.mark.bench_data,
    pytest.mark.skipif(not PAIRS.is_file(), reason=f"no benchmark file {PAIRS} (ANTECAST_BENCH_ROOT)"),
]


@pytest.fixture(scope="module")
def table() -> PairTable:
    return read_pairs(PAIRS)


def test_models_left_out_are_forecast_better_than_by_both_baselines_and_honestly(table: PairTable) -> None:
    scores = score_interference(table)
    assert (scores["models"], scores["pairs"]) == (26, 330)
    assert scores["mae"] < 0.5 * scores["mae_utilisation"] < 0.5 * scores["mae_mean_rate"]
    for side in ("", "_own", "_partner"):
        assert 0.75 <= scores["coverage_80" + side] <= 0.85
    assert scores["width"] < 0.6 * scores["width_utilisation"]
    assert scores["unfit_found"] > 0.9


def test_every_measured_pair_is_believed(table: PairTable) -> None:
    model = PairInterference(table)
    for (a, b), rates in table.rates.items():
        for said, rate in zip(model.rates(a, b), rates, strict=True):
            assert said.median == pytest.approx(min(1.0, rate), abs=0.025)
            assert said.lower <= rate <= said.upper
    assert len(table.unfit) == 21
    assert all(model.rates(*pair) is None for pair in table.unfit)
