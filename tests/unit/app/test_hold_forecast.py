"""The chance that enough GPUs are free: exact, whatever the widths."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import job

from app.children.hold_forecast import bound_s, chance_of

RUNNING = st.lists(st.tuples(st.integers(1, 5), st.floats(0.0, 1.0)), max_size=6)


@settings(max_examples=60)
@given(RUNNING, st.integers(0, 12))
def test_the_law_of_the_sum_is_that_of_all_cases_counted(jobs: list[tuple[int, float]], missing: int):
    running = [(job(f"j{k}", 0.0, width, "a"), 0.0) for k, (width, _) in enumerate(jobs)]
    alive = np.array([[still, 0.0] for _, still in jobs]).reshape(len(jobs), 2)
    counted = 0.0
    for ended in product((False, True), repeat=len(jobs)):
        widths = sum(width for (width, _), gone in zip(jobs, ended, strict=True) if gone)
        if widths >= missing:
            chances = [1.0 - still if gone else still for (_, still), gone in zip(jobs, ended, strict=True)]
            counted += float(np.prod(chances))
    found = chance_of(missing, running, alive, 2)
    assert found[0] == pytest.approx(counted, abs=1e-9)
    assert found[1] == float(sum(width for width, _ in jobs) >= missing), "all have ended by then"


def test_limits_say_by_when_the_gpus_are_there_at_the_latest():
    one = replace(job("one", 0.0, 2, "a"), limit_s=100.0)
    other = replace(job("other", 0.0, 4, "a"), limit_s=300.0)
    free = job("free", 0.0, 8, "a")
    running = [(one, 0.0), (other, 10.0), (free, 0.0)]
    assert bound_s(0, running, 50.0) == 50.0
    assert bound_s(2, running, 50.0) == 100.0
    assert bound_s(3, running, 50.0) == 310.0
    assert bound_s(7, running, 50.0) == float("inf")
    assert bound_s(2, running, 400.0) == 400.0, "it is over its limit already"
