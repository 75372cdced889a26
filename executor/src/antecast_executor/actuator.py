"""Carries actions out: intent into the journal, the primitive, then its outcome and what it tells."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from antecast_executor import conditions, happenings
from antecast_executor.conditions import FINAL, OPPOSITE, Condition, ConditionState
from antecast_executor.interfaces import DeviceError, EffectiveAt, Enforcement, InForce
from antecast_executor.journal import Event, Journal
from antecast_executor.primitives import PRIMITIVES, Node, Outcome
from antecast_executor.reconciler import Action
from antecast_executor.record import Record, RunState

MIN_DWELL_S = 1.0
RETRY_MAX_S = 30.0
# A start that failed so is final: the same command fails again.
_FATAL = frozenset({"launch_failed", "no_mps", "mig", "unknown_uuid", "unsupported"})
_FLIPS = frozenset(OPPOSITE)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pause:
    until_s: float
    failures: int = 0


class Actuator:
    """Applies primitives to records, one at a time, and never oftener than makes sense."""

    def __init__(self, node: Node, journal: Journal) -> None:
        self._node = node
        self._journal = journal
        self._pauses: dict[tuple[str, str], _Pause] = {}
        self._refused: set[tuple[str, str]] = set()

    def blocked(self) -> frozenset[tuple[str, str]]:
        """(placement, primitive) pairs that have to wait: they failed or flipped just now, or cannot be."""
        now_s = self._node.clock.monotonic()
        waiting = {pair for pair, pause in self._pauses.items() if pause.until_s > now_s}
        return frozenset(waiting | self._refused)

    def forgive(self) -> None:
        """A new document is in force: what was refused may be asked for again."""
        self._refused.clear()

    def forget(self, placement_id: str) -> None:
        """The placement is no more."""
        self._refused = {pair for pair in self._refused if pair[0] != placement_id}
        for pair in [pair for pair in self._pauses if pair[0] == placement_id]:
            del self._pauses[pair]

    def act(self, record: Record, action: Action) -> None:
        """Carry one action out."""
        pair = (record.placement_id, action.primitive)
        primitive = PRIMITIVES[action.primitive]
        self._open(record, action)
        can = primitive.supported(self._node)
        if not can.supported:
            self._refused.add(pair)
            answer = InForce(0.0, None, can.effective_at, Enforcement.UNSUPPORTED, can.reason)
            self._close(record, action, Outcome(ConditionState.REFUSED, answer), ())
            return
        record.intent = action.primitive
        self._set(record, action.primitive, ConditionState.ACCEPTED)
        self._journal.save(record)
        try:
            outcome = primitive.apply(self._node, record, action.value)
        except DeviceError as error:
            self._fail(record, action, error)
            return
        self._dwell(record, action.primitive)
        self._close(record, action, outcome, self._told(action.primitive))

    def _told(self, primitive: str) -> tuple[str, ...]:
        return (happenings.KIND_OF[primitive],) if primitive in happenings.KIND_OF else ()

    def _open(self, record: Record, action: Action) -> None:
        """A new condition, unless this is another try at the same; it supersedes what it undoes."""
        now_s = self._node.clock.wall()
        before = record.conditions.get(action.primitive)
        is_retry = (
            before is not None
            and before.requested == action.value
            and before.state in {ConditionState.REQUESTED, ConditionState.ACCEPTED}
        )
        if not is_retry:
            record.conditions[action.primitive] = conditions.request(action.primitive, action.value, now_s)
        undone = OPPOSITE if action.primitive != "stop" else dict.fromkeys(record.conditions, "stop")
        for name, item in record.conditions.items():
            if undone.get(name) == action.primitive and name != action.primitive and item.state not in FINAL:
                record.conditions[name] = conditions.advance(item, ConditionState.SUPERSEDED, now_s)

    def _set(
        self, record: Record, primitive: str, state: ConditionState, outcome: Outcome | None = None
    ) -> None:
        before = record.conditions[primitive]
        record.conditions[primitive] = conditions.advance(
            before,
            state,
            self._node.clock.wall(),
            answer=None if outcome is None else outcome.answer,
            reason=None if outcome is None else outcome.reason,
        )

    def _close(self, record: Record, action: Action, outcome: Outcome, kinds: Iterable[str]) -> None:
        self._set(record, action.primitive, outcome.state, outcome)
        record.intent = None
        condition = record.conditions[action.primitive]
        events = [self._event(kind, record, condition) for kind in kinds]
        self._journal.save(record, events)
        _log.info(
            "%s %s (%s): %s, in force %s %s",
            action.primitive,
            record.placement_id,
            action.value,
            condition.state,
            condition.in_force,
            condition.reason,
        )

    def _event(self, kind: str, record: Record, condition: Condition) -> Event:
        data = happenings.condition(condition)
        if kind == "placement_started":
            pid = None if record.process is None else record.process.pid
            data = {"pid": pid, "gpus": list(record.placement.gpus), "condition": data}
        return happenings.of_record(kind, record, self._node.clock.wall(), data)

    def _fail(self, record: Record, action: Action, error: DeviceError) -> None:
        """Wait and try again, or give the launch up."""
        reason = f"{error.code}: {error}"
        _log.warning("%s %s failed: %s", action.primitive, record.placement_id, reason)
        record.intent = None
        answer = InForce(action.value or 0.0, None, EffectiveAt.NOW, Enforcement.UNSUPPORTED, reason)
        if action.primitive == "launch" and error.code in _FATAL:
            self._give_up(record, answer)
            return
        pause = self._pauses.setdefault((record.placement_id, action.primitive), _Pause(0.0))
        delay_s = min(RETRY_MAX_S, 2.0**pause.failures)
        pause.failures += 1
        pause.until_s = self._node.clock.monotonic() + delay_s
        self._set(record, action.primitive, ConditionState.ACCEPTED, Outcome(ConditionState.ACCEPTED, answer))
        self._journal.save(record)

    def _give_up(self, record: Record, answer: InForce) -> None:
        now_s = self._node.clock.wall()
        record.state, record.end_reason = RunState.ENDED, "launch_failed"
        outcome = Outcome(ConditionState.FAILED, answer)
        self._set(record, "launch", ConditionState.FAILED, outcome)
        data = {"reason": "launch_failed", "message": answer.reason}
        self._journal.save(record, [happenings.of_record("placement_refused", record, now_s, data)])

    def _dwell(self, record: Record, primitive: str) -> None:
        """After a change of share or of pausing, its opposite and its like wait a moment: no flutter."""
        self._pauses.pop((record.placement_id, primitive), None)
        if primitive in _FLIPS:
            until_s = self._node.clock.monotonic() + MIN_DWELL_S
            for name in (primitive, OPPOSITE[primitive]):
                self._pauses[record.placement_id, name] = _Pause(until_s)

    def wait(self, record: Record, reason: str) -> None:
        """A launch has to wait, and this is why."""
        before = record.conditions.get("launch")
        if before is None:
            value, now_s = record.placement.share_pct, self._node.clock.wall()
            before = record.conditions["launch"] = conditions.request("launch", value, now_s)
        if before.reason != reason and before.state in {ConditionState.REQUESTED, ConditionState.ACCEPTED}:
            self._set(record, "launch", ConditionState.ACCEPTED, Outcome(before.state, reason=reason))
            self._journal.save(record)

    def verify(self, record: Record) -> None:
        """See how far the placement's conditions have come, and climb on with a stop that is under way."""
        for name, before in list(record.conditions.items()):
            if before.state not in {ConditionState.APPLIED, ConditionState.EFFECTIVE}:
                continue
            try:
                outcome = PRIMITIVES[name].verify(self._node, record)
            except DeviceError as error:
                outcome = Outcome(before.state, reason=f"{error.code}: {error}")
            if outcome is None:
                continue
            self._set(record, name, outcome.state, outcome)
            if record.conditions[name] != before:
                self._journal.save(record)

    def finish(self, record: Record) -> None:
        """It is gone: bring its conditions to their ends."""
        now_s = self._node.clock.wall()
        for name, item in record.conditions.items():
            if name == "stop" and item.state in {ConditionState.APPLIED, ConditionState.EFFECTIVE}:
                gone = replace(item, in_force=1.0)
                record.conditions[name] = conditions.advance(gone, ConditionState.VERIFIED, now_s)
            elif name != "stop" and item.state not in FINAL:
                record.conditions[name] = conditions.advance(
                    item, ConditionState.SUPERSEDED, now_s, reason="the placement has ended"
                )
