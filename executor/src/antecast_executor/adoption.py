"""After a start: what of the journal still runs, what ended meanwhile, what is lost."""

import logging

from antecast_executor import conditions, happenings
from antecast_executor.conditions import ConditionState
from antecast_executor.interfaces import ProcessId
from antecast_executor.journal import Event, Journal
from antecast_executor.primitives import Node
from antecast_executor.primitives.sharing import takes_mps
from antecast_executor.record import Record, RunState

_log = logging.getLogger(__name__)


def adopt(journal: Journal, node: Node) -> dict[str, Record]:
    """Go through the journal; the records by id.

    Nothing is started, and nothing is touched. What ended meanwhile is for the agent to notice, as any end.
    """
    records: dict[str, Record] = {}
    for record in journal.records():
        records[record.placement_id] = record
        if record.is_over:
            continue
        events = _settle(record, node, is_new_boot=journal.is_new_boot)
        journal.save(record, events)
        for event in events:
            _log.info("%s: %s", event.kind, record.placement_id)
    return records


def _settle(record: Record, node: Node, *, is_new_boot: bool) -> list[Event]:
    now_s = node.clock.wall()
    events: list[Event] = []
    record.is_adopted = False
    if record.process is None and record.intent != "launch":
        return events  # it was waiting and goes on waiting
    if is_new_boot:
        return [_lose(record, "reboot", now_s)]
    if record.process is None:
        found = node.processes.find(record.placement_id)
        if found is None:
            # It may or may not have been started: it must not be started again.
            return [_lose(record, "unknown_launch", now_s)]
        events.append(_take_over(record, found, node, now_s))
    _resolve_intent(record)
    if record.process is not None and node.processes.is_alive(record.process):
        record.is_adopted = True
        data = {"pid": record.process.pid}
        events.append(happenings.of_record("placement_adopted", record, now_s, data))
    return events


def _take_over(record: Record, process: ProcessId, node: Node, now_s: float) -> Event:
    """The launch had come to its end, only nobody had written it down."""
    placement = record.placement
    record.process, record.state, record.started_s = process, RunState.RUNNING, now_s
    record.is_under_mps = takes_mps(node, placement)
    record.started_share_pct = placement.share_pct if record.is_under_mps else 100.0
    condition = record.conditions.get("launch")
    if condition is not None:
        record.conditions["launch"] = conditions.advance(condition, ConditionState.APPLIED, now_s)
    data = {"pid": process.pid, "gpus": list(placement.gpus)}
    return happenings.of_record("placement_started", record, now_s, data)


def _resolve_intent(record: Record) -> None:
    """A primitive may or may not have happened. Assume what makes it be done again: all are idempotent."""
    if record.intent in {"pause", "resume"}:
        record.is_hold_known = False
    elif record.intent in {"squeeze", "swell", "launch"}:
        record.share_pct, record.is_throttled = None, True
    record.intent = None


def _lose(record: Record, reason: str, now_s: float) -> Event:
    record.state, record.end_reason, record.intent = RunState.LOST, reason, None
    return happenings.of_record("placement_lost", record, now_s, {"reason": reason})
