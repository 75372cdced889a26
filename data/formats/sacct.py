"""What `sacct --parsable` and `--parsable2` print: any delimiter, any columns in any order and case.

One line is one attempt of one job; steps have lines of their own unless `--allocations` leaves them out.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from data.intake.delimited import Fields, csv_lines, other_width, split_lines
from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.instants import CLOSE_S, Stamps, parsed
from data.intake.rows import Note, Notes, RejectedError, Row, quoted, rows_from
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError, lines_of, opened, refuse
from data.intake.text import clean, cleaned
from data.records import AttemptRecord
from data.rules import Rule, shown
from data.slurm.attempts import Told, limit_of, nodes_of, record_of, texts, who
from data.slurm.durations import is_null, parse_elapsed_s
from data.slurm.job_ids import parse_job_id
from data.slurm.lives import Ended, Lived, Spent, ended, lived
from data.slurm.resources import NO_GPU_COUNTS, Resources, Words, resources
from data.slurm.sacct_header import Header, header_of, is_fixed_width
from data.slurm.states import parse_state
from domain.attempts import EndCause

COMMAND: Final = (
    "sacct --allusers --allocations --duplicates --parsable2 --format=JobIDRaw,JobID,Cluster,User,Account,"
    "Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,Suspended,TimelimitRaw,NNodes,NodeList,ReqCPUS,"
    "ReqMem,ReqTRES,AllocTRES,Reason,JobName"
)
"""How to export: docs/formats/sacct.md says more."""

_MOST_CLUSTERS: Final = 100
_MOST_LINES_SEEN: Final = 100
_MOST_OF_A_LENGTH: Final = 60
_NEVER_RESTARTED: Final = ("", "0")
_ENERGY: Final = re.compile(r"energy=[^,]*,?")
_SECONDS: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)

_ID = ("jobid", "jobidraw")
_WHOSE = ("cluster", "partition", "account", "user", "uid", "qos", "reason")
_WHEN = ("submit", "eligible", "start", "end")
_SPENT = ("elapsedraw", "elapsed", "suspended")
_TOLD = ("state", "timelimitraw", "timelimit", "jobname", "nodelist", "restarts")
_WORDS = (
    "reqtres", "alloctres", "reqgres", "allocgres", "reqcpus", "alloccpus", "ncpus", "reqmem", "nnodes",
    "allocnodes", "reqnodes",
)  # fmt: skip
USED: Final = frozenset((*_ID, *_WHOSE, *_WHEN, *_SPENT, *_TOLD, *_WORDS))


def sniff(head: Head) -> Match | None:
    """A first line of sacct's own field names; or lines of jobs under no header, or in fixed columns."""
    if head.is_parquet or not head.lines:
        return None
    header = header_of(head.lines[0])
    if header is not None:
        score = 0.99 if len(header.known) >= 4 and not header.known.isdisjoint(_WHEN) else 0.6
        names = ", ".join(name for name in header.names if name in header.known)
        return Match(
            score, f"a header of sacct's fields ({shown(names)}) parted by {quoted(header.delimiter)}"
        )
    if is_fixed_width(head.lines):
        return Match(0.9, "sacct's fields over a line of dashes")
    if _is_row(head.lines[0]):
        return Match(0.6, "lines that begin with a job id and hold a Slurm state, without a header")
    return None


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file.

    Raises:
        InputError: if it has no header, lacks a submission, or counts no GPUs at all.
    """
    header = _header(reading)
    parser = _Parser(reading, header)
    with opened(reading.path) as file:
        split = csv_lines if header.delimiter == "," else split_lines
        lines = split(file, header.delimiter)
        next(lines)
        try:
            yield from rows_from(lines, parser.parse)
        except BrokenFileError:
            parser.finish()
            raise
    parser.finish()


def _header(reading: Reading) -> Header:
    with opened(reading.path) as file:
        first = tuple(line.text for line in islice(lines_of(file), _MOST_LINES_SEEN))
    header = header_of(first[0]) if first else None
    if is_fixed_width(first):
        message = "columns of a fixed width cut their values short: export with a delimiter, for example"
        raise refuse(reading.path, Rule.MISSING_COLUMN, f"{message} {COMMAND}", 1)
    if header is None:
        message = "the first line is no header with a column JobID or JobIDRaw: export without --noheader"
        raise refuse(reading.path, Rule.MISSING_COLUMN, f"{message}, for example {COMMAND}", 1)
    if "submit" not in header.names:
        message = f"there is no column Submit, only {shown(', '.join(header.names))}: export with {COMMAND}"
        raise refuse(reading.path, Rule.MISSING_COLUMN, message, 1)
    reading.facts["delimiter"] = shown(header.delimiter)
    ignored = sorted({shown(name) for name in header.names if name not in USED})
    if ignored:
        reading.facts["columns_ignored"] = ignored
    return header if header.is_closed else header._replace(is_closed=_are_closed(first[1:], header))


def _are_closed(lines: tuple[str, ...], header: Header) -> bool:
    """Whether all lines end in a delimiter although their header, then written by hand, does not."""
    rows = [line.split(header.delimiter) for line in lines if line]
    return len(rows) > 1 and all(len(row) == len(header.names) + 1 and not row[-1] for row in rows)


def _is_row(line: str) -> bool:
    """Whether a line holds a job id at its beginning and a state further on."""
    for delimiter in ("|", "\t", ";", ",", "^", "\x1f"):
        first, *rest = (word.strip() for word in line.split(delimiter))
        if len(rest) < 2 or not any(parse_state(word) for word in rest if word.isupper() or " by " in word):
            continue
        try:
            parse_job_id(first)
        except ValueError:
            continue
        return True
    return False


class _Parser:
    def __init__(self, reading: Reading, header: Header) -> None:
        self._reading = reading
        self._options = reading.options
        self._header = header
        self._width = len(header.names)
        self._free = header.free()
        self._stamps = Stamps(reading.options.tz)
        self._id, self._whose, self._when = self._picks(_ID), self._picks(_WHOSE), self._picks(_WHEN)
        self._spent, self._told, self._words = self._picks(_SPENT), self._picks(_TOLD), self._picks(_WORDS)
        self._tells_place = not {"nodelist", "alloctres"}.isdisjoint(header.names)
        self._clusters: dict[str, str] = {}
        self._names_tres = self._names_gpus = False
        self._before = ("", "", 0.0)

    def _picks(self, names: tuple[str, ...]) -> Callable[[list[str]], Any]:
        """Takes these columns out of a line with an empty field at its end, which stands for absent ones."""
        places = {name: place for place, name in reversed(tuple(enumerate(self._header.names)))}
        return itemgetter(*(places.get(name, self._width) for name in names))

    def finish(self) -> None:
        """Tell what is true of the whole file.

        Raises:
            InputError: if it counts resources, but no GPU of any job.
        """
        if len(self._clusters) > 1:
            self._reading.facts["clusters_named"] = sorted(map(shown, self._clusters))
        if self._names_tres and not self._names_gpus and not self._options.counts_gpus:
            message = f"the columns of TRES and GRES name no GPU of any job: {NO_GPU_COUNTS}"
            raise refuse(self._reading.path, Rule.NO_GPU_COUNTS, message)

    def parse(self, fields: Fields, notes: Notes) -> list[AttemptRecord]:
        """The attempt of a line."""
        values = self._fitted(fields.values, notes)
        job_id, raw_id = self._id(values)
        which = who(job_id, raw_id, notes)
        cluster, pool, account, user, uid, qos, reason = self._whose(values)
        state_word, limit_raw, limit_text, name, node_list, restarts = self._told(values)
        own = self._clusters.get(cluster) or self._cluster(cluster)
        whose = texts(pool, account, user or uid, qos, reason)
        state = ended(state_word)
        found, is_given = self._resources(values)
        nodes = nodes_of(node_list, notes) if node_list else None
        is_placed = (nodes is not None or is_given) if self._tells_place else None
        when = self._lived(values, state, is_placed, (own, which.array_id or which.raw_id, restarts), notes)
        limit = limit_of(limit_raw, limit_text, whose.pool, self._options, notes)
        kept_name = clean(name, notes, "name")
        if whose.notes or state.notes or found.notes:
            notes.extend((*whose.notes, *state.notes, *found.notes))
        if fields.is_mended:
            notes.add(ImportRule.NOT_UTF8, "bytes that are not UTF-8 were replaced")
        told = Told(state, found, limit, whose, kept_name, nodes, fields.bytes_hash)
        return [record_of(own, which, when, told)]

    def _fitted(self, values: list[str], notes: Notes) -> list[str]:
        """The line's fields and an empty one."""
        width, free = self._width, self._free
        if len(values) == width:
            values.append("")
            return values
        is_closed = self._header.is_closed and not values[-1].strip()
        is_one_more = len(values) == width + 1 and not values[-1].strip()
        if is_one_more and (is_closed or len(free) != 1):
            values[-1] = ""
            return values
        surplus = len(values) - width - is_closed
        if surplus < 0 or len(free) != 1:
            raise RejectedError(ImportRule.FIELD_COUNT, other_width(values, width))
        place, end = free[0], free[0] + surplus + 1
        text = self._header.delimiter.join(values[place:end])
        name = self._header.names[place]
        notes.add(ImportRule.SURPLUS_DELIMITER, f"the delimiter stood in {name}; it is {quoted(text)}")
        return [*values[:place], text, *values[end : len(values) - is_closed], ""]

    def _cluster(self, name: str) -> str:
        own = self._options.cluster_of(None if is_null(name) else cleaned(name)[0])
        if len(self._clusters) < _MOST_CLUSTERS and not is_null(name):
            self._clusters[name] = own
        return own

    def _resources(self, values: list[str]) -> tuple[Resources, bool]:
        """Resources of the line, and whether it was given any."""
        (
            req, alloc, req_gres, alloc_gres, req_cpus, alloc_cpus, num_cpus, req_mem, num_nodes, alloc_nodes,
            req_nodes,
        ) = self._words(values)  # fmt: skip
        if "energy=" in alloc:
            alloc = _ENERGY.sub("", alloc)  # it differs with each job and would fill the cache
        found = resources(
            Words(
                req, alloc, req_gres, alloc_gres, req_cpus, alloc_cpus or num_cpus, req_mem,
                num_nodes or alloc_nodes or req_nodes,
            )
        )  # fmt: skip
        self._names_tres |= found.names_tres
        self._names_gpus |= found.names_gpus
        return found, not is_null(alloc)

    def _lived(
        self,
        values: list[str],
        state: Ended,
        is_placed: bool | None,
        place: tuple[str, str, str],
        notes: Notes,
    ) -> Lived:
        stamps = self._when(values)
        elapsed_raw, elapsed, suspended = self._spent(values)
        elapsed_s = _elapsed_s(elapsed_raw, elapsed, notes)
        certain = self._stamps.certain_s(*stamps)
        when = None
        if certain is not None and elapsed_s is not None and state.cause is not EndCause.NOT_ENDED:
            when = _as_it_should_be(certain, elapsed_s)
        if when is None:
            spent = Spent(elapsed_s, _elapsed_s("", suspended, notes), is_placed)
            found = {
                name: None if is_null(text) else parsed(self._stamps, text, name)
                for name, text in zip(_WHEN, stamps, strict=True)
            }
            when = lived(found, state, spent, notes, self._after_s(place))
        if place[:2] != self._before[:2] and place[2] in _NEVER_RESTARTED:
            self._before = (place[0], place[1], when.submit_s)
        return when

    def _after_s(self, place: tuple[str, str, str]) -> float | None:
        """Submission of the job before this one, if that has the lower id: it was not submitted later."""
        cluster, job, _ = place
        before_cluster, before, submit_s = self._before
        if cluster != before_cluster or not (job.isdecimal() and before.isdecimal()):
            return None
        return submit_s if int(before) <= int(job) else None


def _as_it_should_be(instants: list[float], elapsed_s: float) -> Lived | None:
    """A life with nothing odd about it, as nearly all are; None where `lived` has to look closely."""
    submit_s, eligible_s, start_s, end_s = instants
    if submit_s <= eligible_s and submit_s <= start_s < end_s and elapsed_s <= end_s - start_s + CLOSE_S:
        return Lived(submit_s, eligible_s, start_s, end_s, elapsed_s)
    return None


def _elapsed_s(raw: str, text: str, notes: Notes) -> float | None:
    if len(raw) <= 12 and raw.isdigit() and raw.isascii():
        return float(raw)
    if not raw and not text:
        return None
    seconds, note = _length(raw[:_MOST_OF_A_LENGTH], text[:_MOST_OF_A_LENGTH])
    if note is not None:
        notes.add(*note)
    return seconds


@lru_cache(maxsize=2**16)
def _length(raw: str, text: str) -> tuple[float | None, Note | None]:
    try:
        if not is_null(raw):
            return (float(raw) if _SECONDS.fullmatch(raw) else parse_elapsed_s(raw)), None
        return parse_elapsed_s(text), None
    except ValueError as error:
        return None, Note(ImportRule.BAD_DURATION, f"a length is taken as not known: {quoted(error)}")


FORMAT: Final = Format(
    "sacct", "what sacct --parsable2 prints of Slurm's accounting", Kind.HISTORY, sniff, rows
)
