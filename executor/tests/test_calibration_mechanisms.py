"""Shares go there and back, samples are neither lost nor made, and the right mechanism carries a plan out."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from calibration_world import pair
from hypothesis import given
from hypothesis import strategies as st

from antecast_executor.calibration import (
    Call,
    Limits,
    Measurement,
    Member,
    PackedSet,
    Remaining,
    Rules,
    Setting,
    Verb,
    Worker,
    calibrate,
    first_setting,
    rebalanced,
    reversed_plan,
    switched,
    switches,
    wide_limits,
)
from antecast_executor.calibration.lgrr import move
from antecast_executor.calibration.liss import slow_workers, split, steal

PACKAGE = Path(__file__).parent.parent / "src" / "antecast_executor" / "calibration"
SPEEDS = st.floats(0.01, 1000.0)


def test_it_needs_nothing_but_the_standard_library_and_itself() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            for name in names:
                is_own = name.startswith("antecast_executor.calibration")
                assert is_own or name.split(".")[0] in sys.stdlib_module_names, f"{path.name}: {name}"


# Samples


@given(st.lists(SPEEDS, min_size=1, max_size=64), st.integers(0, 4096), st.data())
def test_samples_are_shared_out_to_the_sample_and_within_rounding_of_the_ideal(
    speeds: list[float], more: int, data: st.DataObject
) -> None:
    batch = len(speeds) + more
    parts = split(batch, speeds)
    assert sum(parts) == batch
    assert min(parts) >= 1
    ideal = [batch * speed / sum(speeds) for speed in speeds]
    if min(ideal) >= 1:
        assert all(abs(part - wish) < 1 + 1e-6 for part, wish in zip(parts, ideal, strict=True))
    most = [data.draw(st.integers(part, batch)) for part in parts]
    data.draw(st.randoms()).shuffle(most)
    capped = split(batch, speeds, most)
    assert sum(capped) == batch
    assert all(1 <= part <= cap for part, cap in zip(capped, most, strict=True))


@given(
    st.integers(1, 16).flatmap(
        lambda width: st.tuples(
            st.just(width),
            st.integers(width, 2048),
            st.lists(st.lists(SPEEDS, min_size=width, max_size=width), max_size=8),
        )
    )
)
def test_whatever_happens_the_global_batch_stays(case: tuple[int, int, list[list[float]]]) -> None:
    width, batch, history = case
    parts = split(batch, [1.0] * width)
    for forwards_s in history:
        parts = steal(parts, forwards_s)
        assert sum(parts) == batch
        assert min(parts) >= 1


def test_a_full_memory_passes_its_samples_on() -> None:
    assert split(100, [8.0, 1.0, 1.0], [40, 100, 100]) == (40, 30, 30)
    assert split(100, [1.0, 1.0, 1e-6]) == (50, 49, 1)


def test_ties_go_to_the_lower_index() -> None:
    assert split(5, [1.0, 1.0, 1.0]) == (2, 2, 1)


def test_stealing_makes_forward_passes_equal() -> None:
    """Two workers at half the speed: with a third of the samples less they take as long as the others."""
    speeds = [50.0, 50.0, 100.0, 100.0]
    before = (32, 32, 32, 32)
    forwards_s = [count / speed for count, speed in zip(before, speeds, strict=True)]
    assert slow_workers(forwards_s) == {0, 1}
    after = steal(before, forwards_s)
    assert sum(after) == 128
    assert max(count / speed for count, speed in zip(after, speeds, strict=True)) < 0.45
    assert not slow_workers([count / speed for count, speed in zip(after, speeds, strict=True)])


@pytest.mark.parametrize(
    ("batch", "speeds", "most"),
    [
        (2, [1.0, 1.0, 1.0], []),  # fewer samples than workers
        (9, [1.0, 1.0], [4, 4]),  # more than there is memory for
        (9, [1.0, 0.0], []),  # a worker that does nothing
        (9, [1.0, 1.0], [9]),  # a limit is missing
        (9, [1.0, 1.0], [9, 0]),  # no room for even one
    ],
)
def test_what_cannot_be_shared_out_is_said(batch: int, speeds: list[float], most: list[int]) -> None:
    with pytest.raises(ValueError, match=r"batch|speeds|room"):
        split(batch, speeds, most)


# Shares


@given(
    st.lists(st.integers(10, 100), min_size=4, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(list(Verb))), max_size=12),
)
def test_a_plan_and_its_reverse_lead_back_to_the_start(
    shares: list[int], calls: list[tuple[int, Verb]]
) -> None:
    packed = pair(2, 2)
    workers = [Worker("a", 0), Worker("a", 1), Worker("b", 0), Worker("b", 1)]
    start = (tuple(shares[:2]), tuple(shares[2:]))
    plan = tuple(Call(workers[i], verb) for i, verb in calls)
    after, done = move(packed, start, plan, wide_limits(packed))
    assert all(10 <= share <= 100 for row in after for share in row)
    assert move(packed, after, reversed_plan(done), wide_limits(packed)) == (start, reversed_plan(done))


def test_shares_stay_within_the_limits_and_workers_alone_are_left_alone() -> None:
    packed = pair(2, 1)
    limits = Limits(((40, 10), (10,)), ((60, 100), (100,)))
    plan = tuple(Call(Worker("a", i), Verb.SQUEEZE) for i in (0, 0, 0, 1))
    shares, done = move(packed, ((60, 100), (100,)), plan, limits)
    assert shares == ((40, 100), (100,))
    assert len(done) == 2


def test_a_switch_is_one_job_that_stands_still_once() -> None:
    before = Setting(((100, 100), (100, 100)), ((), ()))
    after = Setting(((90, 90), (100, 100)), ((), ()))
    assert switched(before, after) == (True, False)
    assert switches(before, after) == 1
    assert switches(before, Setting(before.shares, ((3, 1), ()))) == 0


# Which mechanism


def plan_of(verbs: str, job: str = "a") -> tuple[Call, ...]:
    kinds = {"-": Verb.SQUEEZE, "+": Verb.SWELL}
    return tuple(Call(Worker(job, i), kinds[verb]) for i, verb in enumerate(verbs) if verb != ".")


def test_one_direction_changes_shares_and_both_move_samples() -> None:
    packed = pair(2, 2, batch=64)
    start = first_setting(packed, 50)
    measured = Measurement((1.0, 1.0), ((0.2, 0.1), (0.1, 0.1)))
    limits = wide_limits(packed)
    squeezed = calibrate(packed, start, plan_of("--"), limits=limits, measured=measured)
    assert squeezed == Setting(((40, 40), (50, 50)), start.batches)
    moved = calibrate(packed, start, plan_of("+-"), limits=limits, measured=measured)
    assert moved.shares == start.shares
    assert moved.batches == ((21, 43), (32, 32))
    both = calibrate(packed, start, plan_of("+-"), limits=limits, measured=measured, has_liss=False)
    assert both == Setting(((60, 40), (50, 50)), start.batches)
    assert calibrate(packed, start, plan_of("--"), limits=limits, has_lgrr=False) == start


def test_stragglers_that_a_squeeze_has_made_lose_samples() -> None:
    packed = pair(2, 1, batch=64)
    start = first_setting(packed)
    measured = Measurement((1.0, 1.0), ((0.3, 0.1), (0.1,)))
    assert rebalanced(packed, start, measured).batches == ((16, 48), (64,))
    even = Measurement((1.0, 1.0), ((0.105, 0.1), (0.1,)))
    assert rebalanced(packed, start, even) == start


# Words


@pytest.mark.parametrize(
    ("others", "partners", "message"),
    [
        ((), (None, None), "two jobs"),
        ((Member("b", 3),), (Worker("b", 0), None), "widest"),
        ((Member("b", 1),), (Worker("b", 0),), "entries"),
        ((Member("b", 1),), (Worker("b", 0), Worker("b", 0)), "two GPUs"),
        ((Member("b", 1),), (Worker("b", 1), None), "no worker"),
        ((Member("b", 1), Member("c", 1)), (Worker("b", 0), None), "shares no GPU"),
        ((Member("a", 1),), (None, None), "twice"),
    ],
)
def test_a_set_that_is_none_is_refused(
    others: tuple[Member, ...], partners: tuple[Worker | None, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PackedSet(Member("a", 2), others, partners)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Measurement((-1.0,)), "rates"),
        (lambda: Measurement((1.0,), ((0.0,),)), "forward"),
        (lambda: Measurement((1.0,), error=1.5), "error"),
        (lambda: Remaining(-1.0), "steps"),
        (lambda: Remaining(1.0, utilisation=2.0), "utilisation"),
        (lambda: Remaining(1.0, lowest_rate=-1.0), "lowest"),
        (lambda: Member("a", 0), "no workers"),
        (lambda: Member("a", 4, batch=3), "no sample"),
        (lambda: Member("a", 2, batch=9, most_local=(4, 4)), "memory"),
        (lambda: Limits(((50,),), ((40,),)), "limits"),
        (lambda: Rules(patience=0), "patience"),
    ],
)
def test_bad_numbers_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
