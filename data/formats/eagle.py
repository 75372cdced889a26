"""The anonymised Slurm history of NREL's Eagle, and exports in its columns: CSV, one line per job.

Built from the published data set ("Eagle supercomputer jobs", National Renewable Energy Laboratory). Stamps
are naive, taken to be those of its site in Colorado unless the operator names a zone. Tasks of an array have
the id of their array, all the same.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from data.intake.delimited import Fields, csv_lines, fit, other_width
from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.instants import Stamps, parsed
from data.intake.rows import Notes, RejectedError, Row, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import opened, refuse
from data.intake.text import clean
from data.records import MILLI, AttemptRecord
from data.rules import Rule
from data.slurm.amounts import parse_count
from data.slurm.attempts import Told, Who, record_of, texts, who
from data.slurm.durations import is_null
from data.slurm.lives import Spent, ended, lived
from data.slurm.resources import Resources
from data.stamps import Instant, zone
from domain.attempts import UNKNOWN_LIMIT, Limit, LimitKind

ZONE: Final = "America/Denver"

_NEEDED: Final = ("job_id", "submit_time", "start_time", "end_time", "state")
_TELLING: Final = frozenset((*_NEEDED, "wallclock_req", "processors_req", "gpus_req"))
_MOST_IDS: Final = 200_000
"""Ids that are remembered, to tell the tasks of an array apart: they come together."""


def sniff(head: Head) -> Match | None:
    """A header of Eagle's names."""
    if head.is_parquet or not _TELLING.issubset(head.header(",")):
        return None
    return Match(
        0.99, "a header of wallclock_req, processors_req and gpus_req beside a job's times and state"
    )


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file.

    Raises:
        InputError: if a column that it needs is missing.
    """
    with opened(reading.path) as file:
        lines = csv_lines(file)
        _, header = next(lines)
        names = [name.strip() for name in header.values] if isinstance(header, Fields) else []
        missing = [name for name in _NEEDED if name not in names]
        if missing:
            raise refuse(reading.path, Rule.MISSING_COLUMN, f"there is no column {', '.join(missing)}", 1)
        yield from rows_from(lines, _Parser(reading, names).parse)


class _Parser:
    def __init__(self, reading: Reading, names: list[str]) -> None:
        self._options = reading.options
        self._names = names
        if reading.options.tz is None:
            reading.facts["zone_assumed"] = ZONE
        self._stamps = Stamps(reading.options.tz or zone(ZONE))
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def parse(self, fields: Fields, notes: Notes) -> list[AttemptRecord]:
        """The job of a line."""
        values = fit(fields.values, len(self._names))
        if values is None:
            raise RejectedError(ImportRule.FIELD_COUNT, other_width(fields.values, len(self._names)))
        row = dict(zip(self._names, values, strict=True))
        which = self._who(row, notes)
        state = ended(row.get("state", ""))
        spent = Spent(_number(row, "run_time", ImportRule.BAD_DURATION, notes))
        stamps = {
            name: None if is_null(row.get(f"{name}_time", "")) else self._stamp(row, f"{name}_time")
            for name in ("submit", "start", "end")
        }
        when = lived(stamps, state, spent, notes)
        whose = texts(
            row.get("partition", ""), row.get("account", ""), row.get("user", ""), row.get("qos", ""), ""
        )
        name = clean(row.get("name", ""), notes, "name")
        notes.extend((*whose.notes, *state.notes))
        if fields.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        limit_s = _number(row, "wallclock_req", ImportRule.BAD_LIMIT, notes)
        limit = Limit(LimitKind.FINITE, limit_s) if limit_s else UNKNOWN_LIMIT
        told = Told(state, _resources(row, notes), limit, whose, name, None, fields.bytes_hash)
        return [record_of(self._options.cluster_of(None), which, when, told)]

    def _stamp(self, row: dict[str, str], name: str) -> Instant:
        return parsed(self._stamps, row[name], name)

    def _who(self, row: dict[str, str], notes: Notes) -> Who:
        which = who(row.get("job_id", ""), "", notes)
        key = (which.raw_id, row.get("submit_time", ""))
        before = self._seen.get(key, 0)
        self._seen[key] = before + 1
        if len(self._seen) > _MOST_IDS:
            self._seen.popitem(last=False)
        if not before:
            return which
        text = f"job {which.raw_id} comes {before + 1} times at once, as tasks of an array do"
        notes.add(ImportRule.ID_FROM_ROW, text)
        return which._replace(raw_id=f"{which.raw_id}_{before}", array_id=which.raw_id, array_task=before)


def _resources(row: dict[str, str], notes: Notes) -> Resources:
    gpus = _number(row, "gpus_req", ImportRule.BAD_GPUS, notes)
    nodes = _number(row, "nodes_req", ImportRule.BAD_NUMBER, notes)
    return Resources(
        gpus_asked_milli=None if gpus is None else round(gpus * MILLI),
        cpus=_number(row, "processors_req", ImportRule.BAD_NUMBER, notes) or None,
        memory_mib=_number(row, "mem_req", ImportRule.BAD_NUMBER, notes) or None,
        num_nodes=int(nodes) if nodes else None,
    )


def _number(row: dict[str, str], name: str, rule: ImportRule, notes: Notes) -> float | None:
    try:
        return parse_count(row.get(name, ""))
    except ValueError:
        notes.add(rule, f"{name} {quoted(row[name])} is no number; taken as not known")
        return None


FORMAT: Final = Format("eagle", "NREL's anonymised Slurm history of Eagle (CSV)", Kind.HISTORY, sniff, rows)
