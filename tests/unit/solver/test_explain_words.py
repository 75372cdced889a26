"""The closed set of reasons, how they are told, and the lives they rest on."""

import pytest
from support import REPOSITORY

from domain.forecasts import LIFE_EDGES_S
from solver.explain.starts import lives_left
from solver.explain.words import Lever, Why, life_text
from solver.policies import POLICIES
from solver.policies.base import Lends


def test_every_reason_and_lever_is_in_the_docs():
    page = (REPOSITORY / "docs" / "explain-waiting.md").read_text(encoding="utf-8")
    assert [word for word in (*Why, *Lever) if f"`{word}`" not in page] == []


def test_spans_of_time_are_told_in_their_unit():
    assert [life_text(span) for span in (5.0, 90.0, 5_400.0, 172_800.0)] == ["5 s", "1.5 min", "1.5 h", "2 d"]


def test_policies_say_to_whom_they_lend():
    nobody = {name for name, spec in POLICIES.items() if spec.lends is Lends.NOBODY}
    packing = {"packing", "lucid", "gandiva", "gavel-makespan"}
    assert nobody == {"fcfs", "backfill", "sjf", "ssf"} | packing


def test_a_life_left_is_that_of_those_that_have_lived_so_long():
    curve = tuple(0.5 if edge < 1_000.0 else 0.0 for edge in LIFE_EDGES_S)
    left = lives_left({"new": curve, "old": curve, "gone": curve}, {"old": 500.0, "gone": 5_000.0}, 0.9)
    assert left.low_s["new"] < 8.0
    assert 500.0 < left.high_s["old"] < left.high_s["new"] <= 1_100.0
    assert left.high_s["gone"] == pytest.approx(5_001.0 * 9.0)
