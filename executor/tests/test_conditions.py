"""Conditions only go where their state machine lets them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast_executor.conditions import (
    FINAL,
    ConditionState,
    advance,
    from_json,
    request,
    to_json,
)
from antecast_executor.interfaces import EffectiveAt, Enforcement, InForce

S = ConditionState
PATH = [S.REQUESTED, S.ACCEPTED, S.APPLIED, S.EFFECTIVE, S.VERIFIED]


def test_a_request_claims_nothing() -> None:
    fresh = request("squeeze", 50.0, 1.0)
    assert (fresh.state, fresh.requested, fresh.in_force) == (S.REQUESTED, 50.0, None)
    assert fresh.enforcement is Enforcement.UNSUPPORTED


@given(st.lists(st.sampled_from(ConditionState), max_size=8))
def test_it_never_goes_back_and_never_leaves_a_final_state(steps: list[ConditionState]) -> None:
    item = request("swell", 80.0, 0.0)
    for number, state in enumerate(steps, 1):
        before = item
        try:
            item = advance(before, state, float(number))
        except ValueError:
            continue
        if state is before.state:
            assert item.since_s == before.since_s
            continue
        assert before.state not in FINAL
        assert state in FINAL or PATH.index(state) > PATH.index(before.state)
        assert item.since_s == number


@pytest.mark.parametrize("final", sorted(FINAL))
def test_final_is_final(final: ConditionState) -> None:
    item = advance(advance(request("stop", None, 0.0), S.ACCEPTED, 1.0), final, 2.0)
    with pytest.raises(ValueError, match="cannot go"):
        advance(item, S.VERIFIED, 3.0)


def test_what_is_verified_cannot_be_refused_any_more() -> None:
    item = advance(request("pause", 1.0, 0.0), S.VERIFIED, 1.0)
    with pytest.raises(ValueError, match="cannot go"):
        advance(item, S.REFUSED, 2.0)


def test_the_back_ends_answer_is_taken_over_as_it_is() -> None:
    answer = InForce(50.0, 100.0, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, "a running client keeps it")
    item = advance(request("squeeze", 50.0, 0.0), S.APPLIED, 1.0, answer=answer)
    assert (item.requested, item.in_force, item.effective_at) == (50.0, 100.0, EffectiveAt.NEXT_CLIENT)
    assert item.reason == "a running client keeps it"
    assert from_json(to_json(item)) == item
