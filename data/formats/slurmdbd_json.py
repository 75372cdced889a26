"""Slurm's accounting as JSON: `sacct --json`, and what slurmrestd answers to /slurmdb/v0.0.NN/jobs.

The shape goes with the version of the data parser: a state is a word, a list of words or an object with
either; a number is a number or an object of `set`, `infinite` and `number`. All of them are read, whatever
version the document names. Limits are minutes, memory is MiB, instants are epoch seconds (0: not yet).
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.objects import json_items
from data.intake.rows import Notes, RejectedError, Row, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError, head_of, opened, refuse
from data.intake.text import clean, hashed
from data.records import AttemptRecord
from data.rules import Rule
from data.slurm.attempts import Told, limit_of, nodes_of, record_of, texts, who
from data.slurm.durations import is_null
from data.slurm.lives import Ended, Spent, ended, lived
from data.slurm.resources import NO_GPU_COUNTS, Resources, Words, resources
from data.slurm.states import parse_state
from data.stamps import Instant, parse_stamp
from domain.attempts import EndCause

_PREFIXES: Final = ("jobs.item", "item")
_UNSET: Final = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 0xFFFE, 0xFFFF})
"""Slurm's numbers that stand for none, in 16, 32 and 64 bits."""

_MOST_MEMORY_MIB: Final = 2**40
_WHEN: Final = (("submit", "submission"), ("eligible", "eligible"), ("start", "start"), ("end", "end"))
_VERSION: Final = re.compile(rb'"(?:data_parser|openapi)\\?/(?:db)?(v\d{1,2}\.\d{1,2}\.\d{1,3})')


def sniff(head: Head) -> Match | None:
    """A document with a list of jobs whose times have a submission."""
    start = head.start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith((b"{", b"[")):
        return None
    if b'"submission"' in start and b'"job_id"' in start and b'"time"' in start:
        version = _VERSION.search(start)
        of = f", data parser {version[1].decode()}" if version else ""
        if b'"tres"' in start or b'"association"' in start:
            return Match(0.99, f"JSON with Slurm's jobs and the times of their submission{of}")
        return Match(0.8, f"JSON with jobs and the times of their submission{of}")
    if b'"job_state"' in start and b'"submit_time"' in start:
        return Match(0.3, "Slurm's queue, which is no history: export it with sacct --json")
    return None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a document, one per job.

    Raises:
        InputError: if it counts no GPUs at all.
    """
    version = _VERSION.search(head_of(reading.path))
    if version is not None:
        reading.facts["data_parser"] = version[1].decode()
    parser = _Parser(reading)
    with opened(reading.path) as file:
        try:
            yield from rows_from(json_items(file, _PREFIXES), parser.parse)
        except BrokenFileError:
            parser.finish()
            raise
    parser.finish()


class _Parser:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._options = reading.options
        self._names_tres = self._names_gpus = False

    def finish(self) -> None:
        """Raise InputError if resources are counted, but no GPU of any job."""
        if self._names_tres and not self._names_gpus:
            message = f"the TRES name no GPU of any job: {NO_GPU_COUNTS}"
            raise refuse(self._reading.path, Rule.NO_GPU_COUNTS, message)

    def parse(self, job: dict[str, Any], notes: Notes) -> list[AttemptRecord]:
        """The attempt of a job."""
        if "job_id" not in job and "time" not in job:
            raise RejectedError(ImportRule.NOT_A_JOB, "the object has neither job_id nor time")
        association = _object(job.get("association"))
        which = who(_shown_id(job), _text(job.get("job_id")), notes)
        state, reason = _state(job)
        found = _resources(job)
        self._names_tres |= found.names_tres
        self._names_gpus |= found.names_gpus
        time = _object(job.get("time"))
        nodes = nodes_of(_text(job.get("nodes")), notes)
        spent = Spent(
            elapsed_s=_amount(time.get("elapsed")),
            suspended_s=_amount(time.get("suspended")),
            is_placed=nodes is not None or bool(_entries(job, "allocated")) if "nodes" in job else None,
        )
        stamps = {name: _instant(time.get(key), name) for name, key in _WHEN}
        when = lived(stamps, state, spent, notes)
        whose = texts(
            _text(job.get("partition")),
            _text(job.get("account")) or _text(association.get("account")),
            _text(job.get("user")) or _text(association.get("user")),
            _text(job.get("qos")),
            reason,
        )
        limit = limit_of(_limit_word(time.get("limit")), "", whose.pool, self._options, notes)
        name = clean(_text(job.get("name")), notes, "name")
        notes.extend((*whose.notes, *state.notes, *found.notes))
        own = _text(job.get("cluster")) or _text(association.get("cluster"))
        cluster = self._options.cluster_of(None if is_null(own) else clean(own, notes, "cluster"))
        return [record_of(cluster, which, when, Told(state, found, limit, whose, name, nodes))]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """A word, or a whole number as one; empty for everything else."""
    if isinstance(value, str):
        return value
    number = _number(value)
    return "" if number is None or not number.is_integer() else str(int(number))


def _number(value: object) -> float | None:
    """A number in any shape; infinite where it is so, None where it is not set."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return math.inf
        return None if value.get("set") is False else _number(value.get("number"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in _UNSET else float(value)


def _amount(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number < math.inf else None


def _instant(value: object, name: str) -> Instant | None:
    """An instant; 0 has not come yet.

    Raises:
        RejectedError: if it is none.
    """
    text = _text(value)
    if is_null(text) or text == "0":
        return None
    try:
        return parse_stamp(text, None)
    except ValueError as error:
        raise RejectedError(ImportRule.BAD_TIME, f"{name} {quoted(text)} is no instant") from error


def _limit_word(value: object) -> str:
    """A limit as `sacct` would print it; one that is not set is the partition's."""
    if isinstance(value, dict) and value.get("set") is False and not value.get("infinite"):
        return "Partition_Limit"
    if isinstance(value, int) and value in _UNSET:
        return str(value)
    number = _number(value)
    return "UNLIMITED" if number == math.inf else _text(value)


def _state(job: dict[str, Any]) -> tuple[Ended, str]:
    """What its state says, and its reason. Of several words the first that is known counts."""
    state = job.get("state")
    reason = ""
    if isinstance(state, dict):
        reason = _text(state.get("reason"))
        state = state.get("current")
    words = [word for word in state if isinstance(word, str)] if isinstance(state, list) else [_text(state)]
    word = next((word for word in words if parse_state(word) is not None), words[0] if words else "")
    found = ended(word)
    killer = _text(job.get("kill_request_user"))
    if found.cause is EndCause.CANCELLED and found.actor is None and not is_null(killer):
        found = found._replace(actor=hashed(killer))
    return found, reason


def _shown_id(job: dict[str, Any]) -> str:
    """The id that people see: that of an array's task, or of a part of a heterogeneous job."""
    own = _text(job.get("job_id"))
    array, het = _object(job.get("array")), _object(job.get("het"))
    array_id, het_id = _amount(array.get("job_id")), _amount(het.get("job_id"))
    if array_id:
        tasks = _text(array.get("task")).strip("[]") if isinstance(array.get("task"), str) else ""
        task = _amount(array.get("task_id"))
        if tasks and not tasks.isdecimal():
            return f"{array_id:.0f}_[{tasks}{_cap(array, tasks)}]"
        if task is not None or tasks:
            return f"{array_id:.0f}_{tasks if task is None else f'{task:.0f}'}"
    if het_id:
        return f"{het_id:.0f}+{_amount(het.get('job_offset')) or 0:.0f}"
    return own


def _cap(array: dict[str, Any], tasks: str) -> str:
    most = _object(_object(array.get("limits")).get("max"))
    cap = _amount(_object(most.get("running")).get("tasks"))
    return f"%{cap:.0f}" if cap and "%" not in tasks else ""


def _entries(job: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = _object(job.get("tres")).get(kind)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _tres(entries: list[dict[str, Any]]) -> str:
    """Entries as the string that `sacct` prints of them."""
    words = []
    for one in entries:
        kind, name, count = _text(one.get("type")), _text(one.get("name")), _number(one.get("count"))
        if kind in {"cpu", "mem", "node", "gres", "billing"} and count is not None and count != math.inf:
            full = f"{kind}/{name}" if kind == "gres" else kind
            words.append(f"{full.replace(',', '')}={count:.0f}{'M' if kind == 'mem' else ''}")
    return ",".join(words)


def _resources(job: dict[str, Any]) -> Resources:
    required = _object(job.get("required"))
    per_cpu, per_node = _amount(required.get("memory_per_cpu")), _amount(required.get("memory_per_node"))
    memory = ""
    for amount, per in ((per_cpu, "c"), (per_node, "n")):
        if amount and amount < _MOST_MEMORY_MIB:
            memory = f"{amount:.0f}M{per}"
    num_nodes = _text(job.get("allocation_nodes"))
    return resources(
        Words(
            req_tres=_tres(_entries(job, "requested")),
            alloc_tres=_tres(_entries(job, "allocated")),
            req_cpus=_text(required.get("CPUs")),
            req_mem=memory,
            num_nodes="" if num_nodes == "0" else num_nodes,
        )
    )


FORMAT: Final = Format(
    "slurmdbd-json", "Slurm's accounting as JSON: sacct --json, slurmrestd", Kind.HISTORY, sniff, rows
)
