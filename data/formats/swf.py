"""Standard Workload Format: 18 columns of numbers, -1 where nothing is known, a header behind semicolons.

Feitelson, Tsafrir and Krakov, "Experience with using the Parallel Workloads Archive", JPDC 74(10), 2014.
Times count from the header's UnixStartTime. Processors are no GPUs: they become cpus, and GPUs only if the
operator says so.
"""

import re
from collections.abc import Iterator
from typing import Final

from data.intake.delimited import Fields, fit, other_width, split_lines
from data.intake.format import Clock, Format, Head, Kind, Match, Reading
from data.intake.instants import from_offset
from data.intake.rows import Notes, RejectedError, Row, Unreadable, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import lines_of, opened
from data.records import MILLI, AttemptRecord
from domain.attempts import UNKNOWN_LIMIT, EndCause, Limit, LimitKind

COLUMNS: Final = 18
_CAUSES: Final = {
    "-1": EndCause.UNKNOWN,
    "0": EndCause.FAILED,
    "1": EndCause.COMPLETED,
    "2": EndCause.REQUEUED,  # a part of a job that went on: only its last part has 3 or 4
    "3": EndCause.COMPLETED,
    "4": EndCause.FAILED,
    "5": EndCause.CANCELLED,
}
_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_KEY: Final = re.compile(r";\s*([A-Za-z]{1,40}):\s*(.{0,200})", re.ASCII)
_START: Final = re.compile(r"\d{1,12}", re.ASCII)


def sniff(head: Head) -> Match | None:
    """Semicolons in front of `Key: value`, or lines of 18 numbers."""
    lines = [line for line in head.lines if line.strip()]
    rows = [line.split() for line in lines if not line.lstrip().startswith(";")][:20]
    keys = [found[1] for line in lines if (found := _KEY.match(line))]
    is_table = bool(rows) and all(
        len(row) == COLUMNS and all(_NUMBER.fullmatch(field) for field in row) for row in rows[:-1] or rows
    )
    if is_table and keys:
        return Match(0.99, f"a header behind semicolons ({', '.join(keys[:3])}) and lines of 18 numbers")
    if is_table:
        return Match(0.9, "lines of 18 numbers")
    return Match(0.3, f"a header behind semicolons ({', '.join(keys[:3])})") if keys else None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file."""
    with opened(reading.path) as file:
        origin_s = _origin_s(reading)
        parser = _Parser(reading, origin_s)
        yield from rows_from(
            ((number, fields) for number, fields in split_lines(file, " ") if not _is_comment(fields)),
            parser.parse,
        )


def _is_comment(fields: Fields | Unreadable) -> bool:
    return isinstance(fields, Fields) and next(filter(None, fields.values), "").startswith(";")


def _origin_s(reading: Reading) -> float:
    """Epoch of the file's second 0: what the operator says, else the header; else times are relative."""
    keys: dict[str, str] = {}
    with opened(reading.path) as file:
        for line in lines_of(file):
            if line.text.strip() and not line.text.lstrip().startswith(";"):
                break
            if found := _KEY.match(line.text.lstrip()):
                keys.setdefault(found[1], found[2].strip())
    reading.facts.update(
        {f"header_{name}": keys[name] for name in ("Computer", "MaxProcs", "MaxNodes") if name in keys}
    )
    if not reading.options.procs_as_gpus:
        reading.facts["processors_not_gpus"] = True
    if reading.options.origin_s is not None:
        return reading.options.origin_s
    start = keys.get("UnixStartTime", "")
    if _START.fullmatch(start) and int(start) > 0:
        return float(start)
    reading.clock = Clock.RELATIVE
    return 0.0


class _Parser:
    def __init__(self, reading: Reading, origin_s: float) -> None:
        self._reading = reading
        self._origin_s = origin_s

    def parse(self, fields: Fields, _notes: Notes) -> list[AttemptRecord]:
        """The job of a line."""
        words = [word for value in fields.values for word in value.split()]
        values = fit(words, COLUMNS)
        if values is None:
            raise RejectedError(ImportRule.FIELD_COUNT, other_width(words, COLUMNS))
        if values[0] == "-1":
            raise RejectedError(ImportRule.NO_JOB_ID, "the job number is -1")
        submit, wait, run = (
            _number(values[k], name) for k, name in ((1, "submit"), (2, "wait"), (3, "run time"))
        )
        if submit is None:
            raise RejectedError(ImportRule.NO_SUBMIT, "the submit time is -1")
        submit_s = from_offset(submit, self._origin_s, "submit")
        start_s = None if wait is None or run is None else submit_s + wait
        procs = _number(values[4], "processors")
        asked = _number(values[7], "processors asked for")
        cause = _CAUSES.get(values[10])
        if cause is None:
            raise RejectedError(
                ImportRule.UNKNOWN_WORD, f"status {quoted(values[10])} is none of SWF's -1 to 5"
            )
        if start_s is None and cause in {EndCause.COMPLETED, EndCause.FAILED}:
            cause = EndCause.UNKNOWN
        memory_kib = _number(values[9], "memory")
        limit_s = _number(values[8], "time asked for")
        return [
            AttemptRecord(
                cluster=self._reading.options.cluster,
                raw_id=values[0],
                submit_s=submit_s,
                pool=_word("partition", values[15]) or _word("queue", values[14]),
                account=_word("group", values[12]),
                user=_word("user", values[11]),
                name=_word("executable", values[13]),
                qos=_word("queue", values[14]),
                gpus_asked_milli=self._gpus(asked if asked is not None else procs),
                gpus_given_milli=self._gpus(procs) if start_s is not None else None,
                cpus=asked if asked is not None else procs,
                memory_mib=None if memory_kib is None else memory_kib / 1024 * (asked or procs or 1),
                limit=UNKNOWN_LIMIT if not limit_s else Limit(LimitKind.FINITE, limit_s),
                start_s=start_s,
                end_s=None if start_s is None or run is None else start_s + run,
                compute_s=run if start_s is not None else None,
                cause=cause,
            )
        ]

    def _gpus(self, procs: float | None) -> int | None:
        return round(procs * MILLI) if self._reading.options.procs_as_gpus and procs is not None else None


def _number(text: str, what: str) -> float | None:
    if _NUMBER.fullmatch(text) is None:
        raise RejectedError(ImportRule.BAD_TIME, f"{what} is {quoted(text)}, a number is expected")
    value = float(text)
    return None if value < 0 else value


def _word(kind: str, text: str) -> str | None:
    return None if text.startswith("-") else f"{kind}{text}"


FORMAT: Final = Format(
    "swf", "Standard Workload Format of the Parallel Workloads Archive", Kind.HISTORY, sniff, rows
)
