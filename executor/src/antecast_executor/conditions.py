"""How far a primitive has come on a placement, and what is really in force.

requested -> accepted -> applied -> effective -> verified, or refused, failed, superseded on the way. A
squeeze whose MPS share waits for the next client stays `applied`: it is not called effective before it is.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from antecast_executor.interfaces import EffectiveAt, Enforcement, InForce


class ConditionState(StrEnum):
    """How far it has come."""

    REQUESTED = "requested"
    ACCEPTED = "accepted"
    APPLIED = "applied"
    EFFECTIVE = "effective"
    VERIFIED = "verified"
    REFUSED = "refused"
    FAILED = "failed"
    SUPERSEDED = "superseded"


_S = ConditionState
_NEXT: dict[ConditionState, frozenset[ConditionState]] = {
    _S.REQUESTED: frozenset({_S.ACCEPTED, _S.REFUSED, _S.SUPERSEDED}),
    _S.ACCEPTED: frozenset({_S.APPLIED, _S.REFUSED, _S.FAILED, _S.SUPERSEDED}),
    _S.APPLIED: frozenset({_S.EFFECTIVE, _S.FAILED, _S.SUPERSEDED}),
    _S.EFFECTIVE: frozenset({_S.VERIFIED, _S.FAILED, _S.SUPERSEDED}),
    _S.VERIFIED: frozenset({_S.FAILED, _S.SUPERSEDED}),
    _S.REFUSED: frozenset(),
    _S.FAILED: frozenset(),
    _S.SUPERSEDED: frozenset(),
}
_ORDER = (_S.REQUESTED, _S.ACCEPTED, _S.APPLIED, _S.EFFECTIVE, _S.VERIFIED)
FINAL = frozenset(state for state, after in _NEXT.items() if not after)
# Of these pairs the later one replaces the earlier one.
OPPOSITE = {"squeeze": "swell", "swell": "squeeze", "pause": "resume", "resume": "pause"}


@dataclass(frozen=True, slots=True)
class Condition:
    """One primitive on one placement.

    Attributes:
        requested, in_force: share in per cent for launch, squeeze and swell; 1 or 0 for pause and resume.
        since_s: instant of the last change of state, seconds since 1970, UTC.
    """

    primitive: str
    state: ConditionState
    enforcement: Enforcement
    effective_at: EffectiveAt
    requested: float | None
    in_force: float | None
    reason: str
    since_s: float


def request(primitive: str, value: float | None, at_s: float) -> Condition:
    """A condition at its start. Nothing is claimed before something has been done."""
    return Condition(
        primitive, _S.REQUESTED, Enforcement.UNSUPPORTED, EffectiveAt.NOW, value, None, "", since_s=at_s
    )


def advance(
    condition: Condition,
    state: ConditionState,
    at_s: float,
    *,
    answer: InForce | None = None,
    reason: str | None = None,
) -> Condition:
    """The condition in its next state, by way of the states in between.

    Args:
        condition: as it is.
        state: to get to; the same state again only brings `answer` and `reason` up to date.
        at_s: instant of the change.
        answer: what a back-end said is in force.
        reason: why, in plain words.

    Raises:
        ValueError: if no path leads there.
    """
    if state is not condition.state and not _is_reachable(condition.state, state):
        raise ValueError(f"{condition.primitive} cannot go from {condition.state} to {state}")
    after = condition if state is condition.state else replace(condition, state=state, since_s=at_s)
    if answer is not None:
        after = replace(
            after,
            enforcement=answer.enforcement,
            effective_at=answer.effective_at,
            in_force=answer.in_force,
            reason=answer.reason,
        )
    return after if reason is None else replace(after, reason=reason)


def _is_reachable(start: ConditionState, end: ConditionState) -> bool:
    if end in _NEXT[start]:
        return True
    if start in _ORDER and end in _ORDER:
        return _ORDER.index(start) < _ORDER.index(end)
    # A request may be refused or fail while it is on its way.
    return start is _S.REQUESTED and end is _S.FAILED


def to_json(condition: Condition) -> dict[str, Any]:
    """As the journal keeps it."""
    return {name: getattr(condition, name) for name in Condition.__slots__}


def from_json(body: dict[str, Any]) -> Condition:
    """The inverse of `to_json`."""
    return Condition(
        primitive=str(body["primitive"]),
        state=ConditionState(body["state"]),
        enforcement=Enforcement(body["enforcement"]),
        effective_at=EffectiveAt(body["effective_at"]),
        requested=body["requested"],
        in_force=body["in_force"],
        reason=str(body["reason"]),
        since_s=float(body["since_s"]),
    )
