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
from data.intake.rows import Notes, RejectedError, Row, rows_from
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError, head_of, opened, refuse
from data.intake.text import clean, hashed
from data.records import AttemptRecord
from data.rules import Rule
from data.slurm.attempts import Told, limit_of, nodes_of, record_of, texts, who
from data.slurm.durations import is_null
from data.slurm.json_values import as_amount, as_instant, as_number, as_object, as_text, limit_word
from data.slurm.lives import Ended, Spent, ended, lived
from data.slurm.resources import NO_GPU_COUNTS, Resources, Words, resources
from data.slurm.states import parse_state
from domain.attempts import EndCause

_PREFIXES: Final = ("jobs.item", "item")
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
        return Match(0.3, "Slurm's queue, which the format squeue reads")
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
        association = as_object(job.get("association"))
        which = who(_shown_id(job), as_text(job.get("job_id")), notes)
        state, reason = _state(job)
        found = _resources(job)
        self._names_tres |= found.names_tres
        self._names_gpus |= found.names_gpus
        time = as_object(job.get("time"))
        nodes = nodes_of(as_text(job.get("nodes")), notes)
        spent = Spent(
            elapsed_s=as_amount(time.get("elapsed")),
            suspended_s=as_amount(time.get("suspended")),
            is_placed=nodes is not None or bool(_entries(job, "allocated")) if "nodes" in job else None,
        )
        stamps = {name: as_instant(time.get(key), name) for name, key in _WHEN}
        when = lived(stamps, state, spent, notes)
        whose = texts(
            as_text(job.get("partition")),
            as_text(job.get("account")) or as_text(association.get("account")),
            as_text(job.get("user")) or as_text(association.get("user")),
            as_text(job.get("qos")),
            reason,
        )
        limit = limit_of(limit_word(time.get("limit")), "", whose.pool, self._options, notes)
        name = clean(as_text(job.get("name")), notes, "name")
        notes.extend((*whose.notes, *state.notes, *found.notes))
        own = as_text(job.get("cluster")) or as_text(association.get("cluster"))
        cluster = self._options.cluster_of(None if is_null(own) else clean(own, notes, "cluster"))
        return [record_of(cluster, which, when, Told(state, found, limit, whose, name, nodes))]


def _state(job: dict[str, Any]) -> tuple[Ended, str]:
    """What its state says, and its reason. Of several words the first that is known counts."""
    state = job.get("state")
    reason = ""
    if isinstance(state, dict):
        reason = as_text(state.get("reason"))
        state = state.get("current")
    words = [word for word in state if isinstance(word, str)] if isinstance(state, list) else [as_text(state)]
    word = next((word for word in words if parse_state(word) is not None), words[0] if words else "")
    found = ended(word)
    killer = as_text(job.get("kill_request_user"))
    if found.cause is EndCause.CANCELLED and found.actor is None and not is_null(killer):
        found = found._replace(actor=hashed(killer))
    return found, reason


def _shown_id(job: dict[str, Any]) -> str:
    """The id that people see: that of an array's task, or of a part of a heterogeneous job."""
    own = as_text(job.get("job_id"))
    array, het = as_object(job.get("array")), as_object(job.get("het"))
    array_id, het_id = as_amount(array.get("job_id")), as_amount(het.get("job_id"))
    if array_id:
        tasks = as_text(array.get("task")).strip("[]") if isinstance(array.get("task"), str) else ""
        task = as_amount(array.get("task_id"))
        if tasks and not tasks.isdecimal():
            return f"{array_id:.0f}_[{tasks}{_cap(array, tasks)}]"
        if task is not None or tasks:
            return f"{array_id:.0f}_{tasks if task is None else f'{task:.0f}'}"
    if het_id:
        return f"{het_id:.0f}+{as_amount(het.get('job_offset')) or 0:.0f}"
    return own


def _cap(array: dict[str, Any], tasks: str) -> str:
    most = as_object(as_object(array.get("limits")).get("max"))
    cap = as_amount(as_object(most.get("running")).get("tasks"))
    return f"%{cap:.0f}" if cap and "%" not in tasks else ""


def _entries(job: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = as_object(job.get("tres")).get(kind)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _tres(entries: list[dict[str, Any]]) -> str:
    """Entries as the string that `sacct` prints of them."""
    words = []
    for one in entries:
        kind, name, count = as_text(one.get("type")), as_text(one.get("name")), as_number(one.get("count"))
        if kind in {"cpu", "mem", "node", "gres", "billing"} and count is not None and count != math.inf:
            full = f"{kind}/{name}" if kind == "gres" else kind
            words.append(f"{full.replace(',', '')}={count:.0f}{'M' if kind == 'mem' else ''}")
    return ",".join(words)


def _resources(job: dict[str, Any]) -> Resources:
    required = as_object(job.get("required"))
    per_cpu, per_node = as_amount(required.get("memory_per_cpu")), as_amount(required.get("memory_per_node"))
    memory = ""
    for amount, per in ((per_cpu, "c"), (per_node, "n")):
        if amount and amount < _MOST_MEMORY_MIB:
            memory = f"{amount:.0f}M{per}"
    num_nodes = as_text(job.get("allocation_nodes"))
    return resources(
        Words(
            req_tres=_tres(_entries(job, "requested")),
            alloc_tres=_tres(_entries(job, "allocated")),
            req_cpus=as_text(required.get("CPUs")),
            req_mem=memory,
            num_nodes="" if num_nodes == "0" else num_nodes,
        )
    )


FORMAT: Final = Format(
    "slurmdbd-json", "Slurm's accounting as JSON: sacct --json, slurmrestd", Kind.HISTORY, sniff, rows
)
