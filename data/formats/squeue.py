"""The queue of Slurm's controller: `squeue --json`, and what `squeue -o` prints between delimiters.

It holds what waits and runs now, and what ended in the last minutes at most. Where a site keeps no accounting
it is all there is.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from data.intake.delimited import Fields, other_width, split_lines
from data.intake.format import Format, Head, Kind, Match, Reading, ReadOptions, plain
from data.intake.instants import Stamps, parsed
from data.intake.objects import json_items
from data.intake.rows import Notes, RejectedError, Row, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import head_of, lines_of, opened, refuse
from data.intake.text import clean
from data.records import AttemptRecord
from data.rules import Rule, shown
from data.slurm.attempts import Told, limit_of, nodes_of, record_of, texts, who
from data.slurm.durations import is_null
from data.slurm.gpus import parse_gres
from data.slurm.json_values import as_amount, as_text, limit_word
from data.slurm.lives import Ended, Spent, ended, lived
from data.slurm.resources import Words, resources
from data.slurm.states import parse_state
from domain.attempts import EndCause

DELIMITER: Final = "@|@"
"""What the recommended export puts between fields: nobody has it in the name of a job."""

OUTPUT: Final = DELIMITER.join(
    ("%i", "%A", "%P", "%a", "%u", "%q", "%T", "%V", "%S", "%e", "%l", "%D", "%C", "%b", "%N", "%r", "%j")
)
"""Fields of the recommended export, `squeue -o`; the name, which may hold anything, is last."""

COMMAND: Final = f"squeue --states=all -o '{OUTPUT}'"
"""How to export text: docs/formats/squeue.md says more."""

_DOCUMENT: Final = (b"{", b"[")
_MARGIN: Final = b"\xef\xbb\xbf \t\r\n"
_GAP: Final = re.compile(r'[ "]*[A-Za-z_]+[ "]*([^A-Za-z0-9_ "(]+)')
_SUBMIT: Final = "submittime"
_KNOWN: Final = frozenset(
    {
        "account", "arrayjobid", "arraytaskid", "cpus", "eligibletime", "gres", "name", "nodelist", "nodes",
        "partition", "priority", "qos", "reason", "starttime", "timeleft", "timelimit", "trespernode", "user",
    }
)  # fmt: skip
_STATES: Final = frozenset({"state", "st"})


class _Job(NamedTuple):
    """A job in the queue's words; empty is what is not said.

    Attributes:
        shown_id, own_id: the id that people see, and the job's own.
        limit_raw, limit: minutes, or a clock.
        per_node: GRES of each node.
    """

    shown_id: str
    own_id: str
    state: str
    submit: str
    eligible: str = ""
    start: str = ""
    end: str = ""
    cluster: str = ""
    pool: str = ""
    account: str = ""
    user: str = ""
    qos: str = ""
    reason: str = ""
    name: str = ""
    limit_raw: str = ""
    limit: str = ""
    nodes: str = ""
    req_tres: str = ""
    alloc_tres: str = ""
    per_node: str = ""
    cpus: str = ""
    memory: str = ""
    num_nodes: str = ""


def sniff(head: Head) -> Match | None:
    """A header of squeue's with submissions, or a document of jobs with a state and a submission."""
    start = head.start.lstrip(_MARGIN)
    if start.startswith(_DOCUMENT):
        is_queue = all(word in start for word in (b'"job_state"', b'"submit_time"', b'"job_id"'))
        return Match(0.95, "JSON with the jobs of Slurm's queue") if is_queue else None
    if not head.lines:
        return None
    header = _header_of(head.lines[0])
    if header is None:
        names = {plain(word) for word in head.lines[0].split()}
        if {"jobid", "nodelistreason"} <= names:
            return Match(0.4, "squeue's columns for people, which cut values short")
        return None
    known = [name.upper() for name in header.names if name in _KNOWN]
    if "JOBID" not in head.header(header.delimiter) or len(known) < 2 or _STATES.isdisjoint(header.names):
        return None
    score = 0.95 if _SUBMIT in header.names else 0.4
    return Match(score, f"a header of squeue: {', '.join(['JOBID', *known[:4]])}")


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a queue, one per job.

    Raises:
        InputError: if it is text without a header, or without submissions.
    """
    is_document = head_of(reading.path).lstrip(_MARGIN).startswith(_DOCUMENT)
    parser = _Parser(reading.options)
    with opened(reading.path) as file:
        if is_document:
            yield from rows_from(json_items(file, ("jobs.item", "item")), parser.of_object)
        else:
            header = _needed_header(reading.path)
            lines = split_lines(file, header.delimiter)
            next(lines, None)
            yield from rows_from(lines, lambda fields, notes: parser.of_fields(header, fields, notes))


class _Header(NamedTuple):
    delimiter: str
    names: tuple[str, ...]

    def fitted(self, values: list[str], notes: Notes) -> list[str]:
        """A line's fields, as many as the header has; what is too much was in the name of the job."""
        surplus = len(values) - len(self.names)
        if surplus == 0:
            return values
        if surplus == 1 and not values[-1].strip():
            return values[:-1]
        if surplus < 0 or "name" not in self.names:
            raise RejectedError(ImportRule.FIELD_COUNT, other_width(values, len(self.names)))
        place = self.names.index("name")
        name = self.delimiter.join(values[place : place + surplus + 1])
        notes.add(ImportRule.SURPLUS_DELIMITER, f"the delimiter stood in NAME; it is {quoted(name)}")
        return [*values[:place], name, *values[place + surplus + 1 :]]


def _header_of(line: str) -> _Header | None:
    """The columns of a first line; None where nothing but space is between them."""
    found = _GAP.match(line.lstrip("\ufeff"))
    if found is None:
        return None
    delimiter = found[1]
    return _Header(delimiter, tuple(plain(name) for name in line.split(delimiter)))


def _needed_header(path: Path) -> _Header:
    with opened(path) as file:
        first = next(lines_of(file), None)
    header = None if first is None else _header_of(first.text)
    if header is None or "jobid" not in header.names:
        found = "the first line is no header with JOBID and others between delimiters"
        raise refuse(path, Rule.MISSING_COLUMN, f"{found}: export with {COMMAND}", 1)
    if _SUBMIT not in header.names:
        names = shown(", ".join(header.names))
        raise refuse(
            path, Rule.MISSING_COLUMN, f"there is no SUBMIT_TIME, only {names}: export with {COMMAND}", 1
        )
    return header


class _Parser:
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stamps = Stamps(options.tz)

    def of_fields(self, header: _Header, fields: Fields, notes: Notes) -> list[AttemptRecord]:
        """The job of a line."""
        if fields.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        values = header.fitted(fields.values, notes)
        ids = [value.strip() for name, value in zip(header.names, values, strict=True) if name == "jobid"]
        named = dict(zip(reversed(header.names), reversed(values), strict=True))
        return self._record(_of_text(ids, named), notes, fields.bytes_hash)

    def of_object(self, job: dict[str, Any], notes: Notes) -> list[AttemptRecord]:
        """The job of an object."""
        if "job_id" not in job or "job_state" not in job:
            raise RejectedError(ImportRule.NOT_A_JOB, "the object has no job_id and job_state")
        return self._record(_of_object(job), notes, None)

    def _record(self, job: _Job, notes: Notes, bytes_hash: str | None) -> list[AttemptRecord]:
        which = who(job.shown_id, job.own_id, notes)
        state = _ended(job.state)
        whose = texts(job.pool, job.account, job.user, job.qos, job.reason)
        found = resources(
            Words(
                job.req_tres, job.alloc_tres, _gres(job), "", job.cpus, "", job.memory, job.num_nodes
            )
        )  # fmt: skip
        nodes = nodes_of(job.nodes, notes) if job.nodes else None
        stamps = {"submit": job.submit, "eligible": job.eligible}
        if not state.waits:  # the start of what waits is when the controller expects it, as is an end
            stamps["start"] = job.start
        if state.cause.is_end_of_attempt:
            stamps["end"] = job.end
        read = {
            name: None if is_null(text) or text == "0" else parsed(self._stamps, text.strip(), name)
            for name, text in stamps.items()
        }
        when = lived(read, state, Spent(is_placed=nodes is not None), notes)
        limit = limit_of(job.limit_raw, job.limit, whose.pool, self._options, notes)
        name = clean(job.name, notes, "name")
        notes.extend((*whose.notes, *state.notes, *found.notes))
        cluster = self._options.cluster_of(
            None if is_null(job.cluster) else clean(job.cluster, notes, "cluster")
        )
        told = Told(state, found, limit, whose, name, nodes, bytes_hash)
        return [record_of(cluster, which, when, told)]


def _ended(word: str) -> Ended:
    """What a state says; a job that was sent back and is in the queue waits."""
    found = ended(word)
    return Ended(EndCause.NOT_ENDED, None, waits=True) if found.cause is EndCause.REQUEUED else found


def _of_text(ids: list[str], named: dict[str, str]) -> _Job:
    """A job of fields by plain name. Of two ids, one of digits alone is the job's own."""
    own = next((one for one in ids if one.isdecimal()), "") if len(ids) > 1 else ""
    return _Job(
        shown_id=next((one for one in ids if one != own), own),
        own_id=own,
        state=named.get("state", named.get("st", "")),
        submit=named[_SUBMIT],
        eligible=named.get("eligibletime", ""),
        start=named.get("starttime", ""),
        end=named.get("endtime", ""),
        cluster=named.get("cluster", ""),
        pool=named.get("partition", ""),
        account=named.get("account", ""),
        user=named.get("user", ""),
        qos=named.get("qos", ""),
        reason=named.get("reason", ""),
        name=named.get("name", ""),
        limit=named.get("timelimit", ""),
        nodes=named.get("nodelist", ""),
        per_node=named.get("trespernode", named.get("gres", "")),
        cpus=named.get("cpus", ""),
        num_nodes=named.get("nodes", ""),
    )


def _of_object(job: dict[str, Any]) -> _Job:
    """A job of an object of `squeue --json`, of any version of the data parser."""
    states = job["job_state"]
    words = (
        [word for word in states if isinstance(word, str)] if isinstance(states, list) else [as_text(states)]
    )
    per_cpu, per_node = as_amount(job.get("memory_per_cpu")), as_amount(job.get("memory_per_node"))
    return _Job(
        shown_id=_shown_id(job),
        own_id=as_text(job.get("job_id")),
        state=next((word for word in words if parse_state(word) is not None), words[0] if words else ""),
        submit=as_text(job.get("submit_time")),
        eligible=as_text(job.get("eligible_time")),
        start=as_text(job.get("start_time")),
        end=as_text(job.get("end_time")),
        cluster=as_text(job.get("cluster")),
        pool=as_text(job.get("partition")),
        account=as_text(job.get("account")),
        user=as_text(job.get("user_name")) or as_text(job.get("user_id")),
        qos=as_text(job.get("qos")),
        reason=as_text(job.get("state_reason")),
        name=as_text(job.get("name")),
        limit_raw=limit_word(job.get("time_limit")),
        nodes=as_text(job.get("nodes")),
        req_tres=as_text(job.get("tres_req_str")),
        alloc_tres=as_text(job.get("tres_alloc_str")),
        per_node=as_text(job.get("tres_per_node")),
        cpus=as_text(job.get("cpus")),
        memory=f"{per_cpu:.0f}Mc" if per_cpu else f"{per_node:.0f}Mn" if per_node else "",
        num_nodes=as_text(job.get("node_count")),
    )


def _shown_id(job: dict[str, Any]) -> str:
    """The id that people see: that of an array's task, or of a part of a heterogeneous job."""
    array_id, het_id = as_amount(job.get("array_job_id")), as_amount(job.get("het_job_id"))
    if array_id:
        tasks = as_text(job.get("array_task_string")).strip("[]")
        task = as_amount(job.get("array_task_id"))
        cap = as_amount(job.get("array_max_tasks"))
        if tasks:
            most = f"%{cap:.0f}" if cap and "%" not in tasks else ""
            return f"{array_id:.0f}_[{tasks}{most}]"
        if task is not None:
            return f"{array_id:.0f}_{task:.0f}"
    if het_id:
        return f"{het_id:.0f}+{as_amount(job.get('het_job_offset')) or 0:.0f}"
    return as_text(job.get("job_id"))


def _gres(job: _Job) -> str:
    """GPUs of all its nodes from those of each; empty, which is not known, where that cannot be told."""
    num_nodes = as_amount(int(job.num_nodes)) if job.num_nodes.strip().isdecimal() else None
    try:
        each = parse_gres(job.per_node.removeprefix("gres:"))
    except ValueError:
        return job.per_node  # which is told as a count that cannot be read
    if each is None or not each.total or not num_nodes:
        return ""
    return ",".join(
        f"gpu{':' if kind else ''}{kind}:{count * int(num_nodes)}" for kind, count in each.by_type.items()
    )


FORMAT: Final = Format(
    "squeue", "Slurm's queue: squeue --json, or squeue -o with delimiters", Kind.HISTORY, sniff, rows
)
