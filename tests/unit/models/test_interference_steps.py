"""What observed steps change: towards the truth, within bounds, and not by absurd values."""

import json
import math
from itertools import combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pairs import PairTable
from domain.errors import InputError
from models.interference.pairs import PairInterference
from models.interference.steps import MAX_POINTS, WINDOW_STEPS, StepMemory

MODELS = ("a (batch size 8)", "a (batch size 32)", "b (batch size 8)", "b (batch size 32)", "c")
UNFIT = ("b (batch size 32)", "c")
ONE, OTHER, THIRD = MODELS[0], MODELS[2], MODELS[3]


def fresh() -> PairInterference:
    pairs = [pair for pair in combinations_with_replacement(MODELS, 2) if pair != UNFIT]
    rates = {
        (x, y): (0.5 + 0.05 * MODELS.index(x) - 0.02 * MODELS.index(y),) * 2 if x == y else (0.6, 0.7)
        for x, y in pairs
    }
    return PairInterference(PairTable.of(rates, frozenset({UNFIT})))


def median(model: PairInterference, one: str, other: str) -> float:
    return model.rates(one, other)[0].median


def observe(model: PairInterference, one: str, other: str, rate: float, times: int) -> None:
    for _ in range(times):
        model.observe(one, other, 0.2 / rate, 0.2)


def test_a_pair_moves_to_what_is_observed_and_others_by_less():
    model = fresh()
    before = {pair: model.rates(*pair)[0] for pair in ((ONE, OTHER), (ONE, "c"), ("c", "c"))}
    moved = []
    for _ in range(4):
        observe(model, ONE, OTHER, 0.3, 8)
        moved.append(median(model, ONE, OTHER))
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] == pytest.approx(0.3, abs=0.01)
    same_model, neither = (before[pair].median - median(model, *pair) for pair in ((ONE, "c"), ("c", "c")))
    assert 0.0 < neither < same_model < 0.1


def test_many_pairs_of_a_model_that_say_the_same_move_the_rest_of_it():
    few, many = fresh(), fresh()
    observe(few, ONE, OTHER, 0.3, 32)
    for other in (OTHER, THIRD, "c"):
        observe(many, ONE, other, 0.3, 32)
    assert median(many, ONE, MODELS[1]) < median(few, ONE, MODELS[1]) - 0.02


def test_a_single_wild_step_counts_for_little():
    model = fresh()
    observe(model, ONE, OTHER, 0.6, 20)
    before = median(model, ONE, OTHER)
    model.observe(ONE, OTHER, 100.0, 0.2)
    assert median(model, ONE, OTHER) == pytest.approx(before, abs=0.02)
    alone = fresh()
    alone.observe(ONE, OTHER, 100.0, 0.2)
    assert median(alone, ONE, OTHER) > 0.3


def test_steps_that_agree_widen_nothing_and_steps_that_do_not_widen_until_there_are_enough():
    model = fresh()
    before = model.rates(ONE, OTHER)[0]
    agreeing, other = fresh(), fresh()
    observe(agreeing, ONE, OTHER, before.median, 1)
    after = agreeing.rates(ONE, OTHER)[0]
    assert after.upper - after.lower <= before.upper - before.lower + 1e-6
    widths = []
    for times in (2, 30):
        observe(other, ONE, OTHER, 0.3, times)
        said = other.rates(ONE, OTHER)[0]
        widths.append(said.upper - said.lower)
    assert widths[0] > 2 * (before.upper - before.lower)
    assert widths[1] < widths[0] / 2


def test_what_is_old_is_forgotten():
    model = fresh()
    observe(model, ONE, OTHER, 0.3, WINDOW_STEPS)
    observe(model, ONE, OTHER, 0.8, WINDOW_STEPS // 2 + 1)
    assert median(model, ONE, OTHER) > 0.7
    changed = fresh()
    observe(changed, ONE, OTHER, 0.8, WINDOW_STEPS)
    observe(model, ONE, OTHER, 0.8, WINDOW_STEPS)
    assert model.rates(ONE, OTHER) == changed.rates(ONE, OTHER)


def test_of_one_new_model_steps_tell_what_it_does_to_others():
    model = fresh()
    before = model.rates("new", ONE)
    for other in (ONE, OTHER, "c"):
        observe(model, other, "new", 0.3, 32)
    after = model.rates(MODELS[1], "new")[0]
    assert after.median < before[1].median - 0.1
    assert after.upper - after.lower < before[1].upper - before[1].lower


def test_a_pair_that_was_seen_running_fits():
    model = fresh()
    assert model.rates(*UNFIT) is None
    observe(model, *UNFIT, 0.5, 3)
    assert model.fit_chance(*UNFIT) == model.fit_chance(*UNFIT[::-1]) == 1.0
    assert model.rates(*UNFIT[::-1]) is not None


@given(
    st.lists(
        st.tuples(st.sampled_from(MODELS), st.sampled_from([*MODELS, "new"]), st.floats(0.002, 1.4)),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=15, deadline=None)
def test_whatever_is_observed_rates_stay_bounded_symmetric_and_saved(seen):
    model = fresh()
    for one, other, rate in seen:
        model.observe(one, other, 1.0, rate)
    again = PairInterference.from_state(json.loads(json.dumps(model.to_state())))
    for one, other, _ in seen:
        both = model.rates(one, other)
        assert all(0.0 < said.lower <= said.median <= said.upper <= 1.0 for said in both)
        assert model.rates(other, one) == both[::-1]
        assert again.rates(one, other) == both


ABSURD = [
    ("", OTHER, 1.0, 1.0, "missing-value"),
    (ONE, "x" * 201, 1.0, 1.0, "field-too-long"),
    (ONE, OTHER, 0.0, 1.0, "out-of-range"),
    (ONE, OTHER, -1.0, 1.0, "out-of-range"),
    (ONE, OTHER, 1.0, 0.0, "out-of-range"),
    (ONE, OTHER, math.nan, 1.0, "not-finite"),
    (ONE, OTHER, 1.0, math.inf, "not-finite"),
    (ONE, OTHER, 1e9, 1e9, "out-of-range"),
    (ONE, OTHER, 1.0, 2.0, "out-of-range"),
    (ONE, OTHER, 1e5, 1.0, "out-of-range"),
    (ONE, OTHER, "1.0", 1.0, "not-a-number"),
    (ONE, OTHER, True, 1.0, "not-a-number"),
    (7, OTHER, 1.0, 1.0, "not-text"),
]


@pytest.mark.parametrize(("one", "other", "step_s", "solo_step_s", "rule"), ABSURD)
def test_an_absurd_step_is_refused_and_changes_nothing(one, other, step_s, solo_step_s, rule):
    model = fresh()
    before = model.to_state()
    with pytest.raises(InputError) as caught:
        model.observe(one, other, step_s, solo_step_s)
    assert [fault.rule for fault in caught.value.faults] == [rule]
    assert model.to_state() == before


def test_memory_is_bounded_and_the_longest_unheard_goes_first():
    memory = StepMemory()
    memory.add("first", "x", 1.0, 0.5)
    memory.add("second", "x", 1.0, 0.5)
    memory.add("first", "x", 1.0, 0.5)
    for k in range(MAX_POINTS - 1):
        memory.add(f"m{k}", "x", 1.0, 0.5)
    assert len(memory) == MAX_POINTS
    assert ("first", "x") in memory
    assert ("second", "x") not in memory
    for _ in range(100):
        memory.add("first", "x", 1.0, 0.5)
    assert all(len(point["rates"]) <= WINDOW_STEPS for point in memory.to_state())


BROKEN = {
    "no table": lambda _state: [],
    "another version": lambda state: state | {"version": 2},
    "no pairs": lambda state: {key: value for key, value in state.items() if key != "pairs"},
    "a short row": lambda state: state | {"pairs": [["a", "b", 0.5]]},
    "a rate in words": lambda state: state | {"pairs": [["a", "b", "0.5", 0.5]]},
    "an absurd rate": lambda state: state | {"pairs": [["a", "b", 50, 0.5]]},
    "a nameless model": lambda state: state | {"pairs": [["a", None, 0.5, 0.5]]},
    "a pair twice": lambda state: state | {"pairs": [["a", "b", 0.5, 0.5], ["b", "a", 0.5, 0.5]]},
    "fits and does not": lambda state: state | {"unfit": [state["pairs"][0][:2]]},
    "an absurd profile": lambda state: state | {"profiles": {"a": {"sm_utilisation": 7}}},
    "a profile of text": lambda state: state | {"profiles": {"a": {"memory_gb": "big"}}},
    "memory in words": lambda state: state | {"gpu_memory_gb": "16"},
    "an absurd memory": lambda state: state | {"gpu_memory_gb": math.nan},
    "steps of text": lambda state: state | {"steps": "none"},
    "endless steps": lambda state: state | {"steps": [{"model": "a", "beside": "b", "rates": [0.5] * 33}]},
    "steps not a number": lambda state: (
        state | {"steps": [{"model": "a", "beside": "b", "rates": [math.nan]}]}
    ),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_state_is_refused(broken):
    with pytest.raises(InputError):
        PairInterference.from_state(broken(fresh().to_state()))
