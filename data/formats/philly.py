"""Philly's log of jobs (ATC '19): a JSON list of jobs, each with its attempts.

The list as published (`cluster_job_log`) has status, pool, user and the GPUs of each attempt; a reduced form
has the number of GPUs in their place. Stamps are naive, of the Pacific coast.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.instants import Stamps, parsed, resolve
from data.intake.objects import json_items
from data.intake.rows import Notes, RejectedError, Row, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import opened
from data.intake.text import clean
from data.intake.values import NULLS, text_of
from data.records import MILLI, MOST, AttemptRecord
from data.stamps import Instant
from domain.attempts import EndCause

ZONE: Final = "America/Los_Angeles"
_CAUSES: Final = {"pass": EndCause.COMPLETED, "killed": EndCause.CANCELLED, "failed": EndCause.FAILED}
_MINUTE_S: Final = 60.0
_CLOSE_S: Final = 60.0
"""A runtime in minutes that is no more than one off agrees with the attempts."""


def sniff(head: Head) -> Match | None:
    """A JSON list whose first job has `submitted_time` and `attempts`."""
    text = head.start[:20_000].lstrip()
    if head.is_parquet or not text.startswith(b"["):
        return None
    is_log = b'"submitted_time"' in text and b'"attempts"' in text and text[1:].lstrip().startswith(b"{")
    return Match(0.97, "a JSON list of jobs with submitted_time and attempts") if is_log else None


def rows(reading: Reading) -> Iterator[Row]:
    """Jobs of a file, each with all of its attempts."""
    parser = _Parser(reading)
    with opened(reading.path) as file:
        yield from rows_from(json_items(file, ("item",)), parser.parse)
    reading.facts.update(parser.facts())


class _Parser:
    def __init__(self, reading: Reading) -> None:
        self._cluster = reading.options.cluster
        self._stamps = Stamps(reading.options.tz or ZoneInfo(ZONE))
        self._last_s: float | None = None
        self._running = 0
        if reading.options.tz is None:
            reading.facts["zone_assumed"] = ZONE

    def parse(self, job: Mapping[str, Any], notes: Notes) -> list[AttemptRecord]:
        """The attempts of a job; one record without a start if it never ran."""
        raw_id = _text(job, "jobid", notes) or _text(job, "id", notes)
        if raw_id is None:
            raise RejectedError(ImportRule.NO_JOB_ID, "jobid is empty")
        submit = self._instant(job.get("submitted_time"), "submitted_time")
        cause = _cause(job)
        asked = _gpus(job.get("num_gpus"), notes)
        shared: dict[str, Any] = {
            "cluster": self._cluster,
            "raw_id": raw_id,
            "pool": _text(job, "vc", notes),
            "user": _text(job, "user", notes),
            "gpus_asked_milli": asked,
        }
        found = job.get("attempts") or []
        if not isinstance(found, list):
            raise RejectedError(ImportRule.NOT_AN_OBJECT, f"attempts is {quoted(found)}, a list is expected")
        kept = self._attempts(found, submit, notes)
        if not kept:
            submit_s = resolve({"submit": submit}, None, notes).submit_s
            never = EndCause.UNKNOWN if cause.is_natural else cause
            return [AttemptRecord(submit_s=submit_s, cause=never, **shared)]
        records = []
        for place, times, gpus, nodes, num_nodes in kept:
            is_last = place == len(found) - 1
            ended = cause if is_last else EndCause.REQUEUED
            records.append(
                AttemptRecord(
                    submit_s=times[0],
                    attempt=place,
                    start_s=times[1],
                    end_s=times[2],
                    gpus_given_milli=asked if gpus is None else gpus,
                    nodes=nodes,
                    num_nodes=num_nodes,
                    cause=EndCause.NOT_ENDED if times[2] is None else ended,
                    **shared,
                )
            )
        self._running += records[-1].end_s is None
        _check_length(job, records, notes)
        return records

    def facts(self) -> dict[str, Any]:
        """What has been found of the whole file."""
        if not self._running:
            return {}
        return {"running_at_snapshot": self._running, "window_edge_s": self._last_s}

    def _attempts(
        self, found: list[Any], submit: Instant | None, notes: Notes
    ) -> list[tuple[int, tuple[float, float, float | None], int | None, str | None, int | None]]:
        """Attempts by their place that have a start and, but for the last, an end; others are told."""
        kept = []
        after_s: float | None = None
        for place, attempt in enumerate(found):
            if not isinstance(attempt, dict):
                notes.add(ImportRule.ATTEMPT_DROPPED, f"attempt {place} is {quoted(attempt)}, no object")
                continue
            start = self._instant(attempt.get("start_time"), "start_time")
            end = self._instant(attempt.get("end_time"), "end_time")
            if start is None or (end is None and place < len(found) - 1):
                lacks = "start_time" if start is None else "end_time"
                notes.add(ImportRule.ATTEMPT_DROPPED, f"attempt {place} has no {lacks}")
                continue
            times = resolve({"submit": submit, "start": start, "end": end}, None, notes, None)
            start_s = times.start_s if times.start_s is not None else times.submit_s
            if after_s is not None and start.epoch_s < after_s <= start.later_s:
                start_s = start.later_s  # the hour that autumn repeats: attempts follow each other
            end_s = times.end_s if times.end_s is None else max(times.end_s, start_s)
            after_s = end_s
            self._last_s = max(self._last_s or start_s, end_s or start_s)
            kept.append((place, (times.submit_s, start_s, end_s), *_where(attempt, notes)))
        return kept

    def _instant(self, value: Any, name: str) -> Instant | None:
        if value is None or (isinstance(value, str) and value.strip().casefold() in NULLS):
            return None
        return parsed(self._stamps, text_of(value), name)


def _where(attempt: Mapping[str, Any], notes: Notes) -> tuple[int | None, str | None, int | None]:
    """GPUs in thousandths, names and number of the nodes of an attempt."""
    detail = attempt.get("detail")
    if not isinstance(detail, list) or not all(isinstance(one, dict) for one in detail):
        if detail is not None:
            notes.add(ImportRule.BAD_GPUS, f"detail is {quoted(detail)}, a list is expected")
        return None, None, None
    gpus = [one.get("gpus") for one in detail]
    count = sum(len(one) for one in gpus if isinstance(one, list)) * MILLI
    names = [name for one in detail if (name := clean(text_of(one.get("ip", "")), notes, "ip"))]
    is_known = bool(detail) and all(isinstance(one, list) for one in gpus)
    return count if is_known else None, ",".join(names) or None, len(names) or None


def _gpus(value: Any, notes: Notes) -> int | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST / MILLI:
        return round(value * MILLI)
    notes.add(ImportRule.BAD_GPUS, f"num_gpus is {quoted(value)}; taken as not known")
    return None


def _cause(job: Mapping[str, Any]) -> EndCause:
    status = job.get("status")
    if status is None:
        return EndCause.UNKNOWN
    cause = _CAUSES.get(text_of(status).casefold())
    if cause is None:
        raise RejectedError(
            ImportRule.UNKNOWN_WORD, f"status {quoted(status)} is none of Philly's Pass, Killed and Failed"
        )
    return cause


def _check_length(job: Mapping[str, Any], records: list[AttemptRecord], notes: Notes) -> None:
    """Tell a runtime (minutes) that is not the time from the first start to the last end."""
    runtime = job.get("runtime")
    if not isinstance(runtime, int | float) or isinstance(runtime, bool):
        return
    first_s, last_s = records[0].start_s, records[-1].end_s
    if first_s is None or last_s is None:
        return
    if abs(last_s - first_s - runtime * _MINUTE_S) > _CLOSE_S:
        found = f"runtime is {runtime * _MINUTE_S:g} s, the attempts span {last_s - first_s:g} s"
        notes.add(ImportRule.DURATION_MISMATCH, found)


def _text(job: Mapping[str, Any], key: str, notes: Notes) -> str | None:
    value = job.get(key)
    return None if value is None else clean(text_of(value), notes, key)


FORMAT: Final = Format(
    "philly", "Microsoft Philly: jobs and their attempts as JSON", Kind.HISTORY, sniff, rows
)
