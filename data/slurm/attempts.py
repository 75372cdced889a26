"""One attempt of a Slurm job from words that `sacct` and slurmdbd's JSON have in common."""

from functools import lru_cache
from typing import Final, NamedTuple

from data.intake.format import ReadOptions
from data.intake.rows import Note, Notes, RejectedError, quoted
from data.intake.rules import ImportRule
from data.intake.text import clean, cleaned
from data.records import AttemptRecord
from data.slurm.durations import is_null, parse_limit
from data.slurm.job_ids import JobId, parse_job_id
from data.slurm.lives import Ended, Lived
from data.slurm.resources import Resources
from domain.attempts import UNKNOWN_LIMIT, UNLIMITED, Limit, LimitKind

MAX_SHOWN_ID: Final = 200
_NO_NODES: Final = "none assigned"


class Who(NamedTuple):
    """Which attempt it is."""

    raw_id: str
    shown_id: str | None = None
    array_id: str | None = None
    array_task: int | None = None
    het_id: str | None = None
    het_offset: int | None = None
    num_tasks: int = 1
    most_at_once: int = 1


class Texts(NamedTuple):
    """Whose it is, as the fields of `AttemptRecord`, cleaned."""

    pool: str | None
    account: str | None
    user: str | None
    qos: str | None
    reason: str | None
    notes: tuple[Note, ...] = ()


@lru_cache(maxsize=2**16)
def texts(pool: str, account: str, user: str, qos: str, reason: str) -> Texts:
    """Whose it is; words that stand for nothing are nothing."""
    notes: list[Note] = []
    kept: list[str | None] = []
    named = zip(("pool", "account", "user", "qos", "reason"), (pool, account, user, qos, reason), strict=True)
    for what, text in named:
        word, was_changed = cleaned(text)
        if was_changed:
            notes.append(Note(ImportRule.CONTROL_CHARACTERS, f"{what} held characters that cannot be seen"))
        kept.append(None if word is None or is_null(word) else word)
    return Texts(kept[0], kept[1], kept[2], kept[3], kept[4], tuple(notes))


def limit_of(raw: str, text: str, pool: str | None, options: ReadOptions, notes: Notes) -> Limit:
    """The requested limit, from minutes or from a clock; an inherited one is the partition's where known."""
    limit, note = _limit(raw, text)
    if note is not None:
        notes.add(*note)
    if limit.kind is LimitKind.INHERITED and pool in options.partition_max_s:
        return limit.resolved(options.partition_max_s[pool])
    return limit


@lru_cache(maxsize=2**14)
def _limit(raw: str, text: str) -> tuple[Limit, Note | None]:
    """Of two columns the first that can be read; a limit of zero lifts all limits (sbatch(1), --time)."""
    note = None
    for word in (raw, text):
        try:
            limit = parse_limit(word)
        except ValueError as error:
            note = Note(ImportRule.BAD_LIMIT, f"the limit is taken as unknown: {quoted(error)}")
            continue
        if limit.kind is not LimitKind.UNKNOWN:
            return (UNLIMITED if limit.limit_s == 0 else limit), None
    return UNKNOWN_LIMIT, note


def who(job_id: str, raw: str, notes: Notes) -> Who:
    """Which attempt it is, from the id that people see and the job's own; either may be missing.

    Raises:
        RejectedError: if both are, neither is an id, or it is a step.
    """
    if raw == job_id and raw.isascii() and raw.isdigit() and len(raw) <= 10:
        return Who(raw, raw)
    shown = "" if is_null(job_id) else job_id.strip()
    own = "" if is_null(raw) else raw.strip()
    if not shown and not own:
        raise RejectedError(ImportRule.NO_JOB_ID, "the job id is empty")
    parts = _parts(shown or own)
    if own and shown and not (own.isascii() and own.isdigit()):
        _parts(own)
    if parts.is_cut:
        notes.add(
            ImportRule.TASKS_CUT, f"the tasks of {quoted(shown)} are cut short: {parts.num_tasks} named"
        )
    is_array = parts.task is not None or parts.is_pending_array
    return Who(
        raw_id=own or _own_id(parts),
        shown_id=(shown or own)[:MAX_SHOWN_ID],
        array_id=parts.base if is_array else None,
        array_task=parts.task,
        het_id=None if parts.het_offset is None else parts.base,
        het_offset=parts.het_offset,
        num_tasks=parts.num_tasks,
        most_at_once=parts.most_at_once,
    )


def _parts(text: str) -> JobId:
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return JobId(text)
    base, _, task = text.partition("_")
    if text.isascii() and base.isdigit() and task.isdigit() and len(base) <= 10 and len(task) <= 9:
        return JobId(base, int(task))
    try:
        parts = parse_job_id(text)
    except ValueError as error:
        raise RejectedError(ImportRule.BAD_JOB_ID, quoted(error)) from error
    if parts.step is not None:
        raise RejectedError(ImportRule.STEP_ROW, f"{quoted(text)} is a step of job {parts.base}")
    return parts


def _own_id(parts: JobId) -> str:
    """An own id where the source has only the one that people see."""
    if parts.task is not None:
        return f"{parts.base}_{parts.task}"
    return parts.base if parts.het_offset is None else f"{parts.base}+{parts.het_offset}"


def nodes_of(text: str, notes: Notes) -> str | None:
    """Names of nodes as Slurm writes them; None where there are none."""
    word = clean(text, notes, "nodes")
    return None if word is None or is_null(word) or word.casefold() == _NO_NODES else word


class Told(NamedTuple):
    """All that is told of one attempt but which and when."""

    ended: Ended
    resources: Resources
    limit: Limit
    texts: Texts
    name: str | None
    nodes: str | None
    text_hash: str | None = None


def record_of(cluster: str, which: Who, when: Lived, told: Told) -> AttemptRecord:
    """The record of it."""
    state, found, limit, whose, name, nodes, text_hash = told
    return AttemptRecord(
        cluster=cluster,
        raw_id=which.raw_id,
        submit_s=when.submit_s,
        shown_id=which.shown_id,
        array_id=which.array_id,
        array_task=which.array_task,
        het_id=which.het_id,
        het_offset=which.het_offset,
        num_tasks=which.num_tasks,
        most_at_once=which.most_at_once,
        pool=whose.pool,
        account=whose.account,
        user=whose.user,
        name=name,
        qos=whose.qos,
        gpus_asked_milli=found.gpus_asked_milli,
        gpus_given_milli=found.gpus_given_milli,
        gpu_type=found.gpu_type,
        mig_profile=found.mig_profile,
        gpu_shards=found.gpu_shards,
        cpus=found.cpus,
        memory_mib=found.memory_mib,
        num_nodes=found.num_nodes,
        limit=limit,
        eligible_s=when.eligible_s,
        start_s=when.start_s,
        end_s=when.end_s,
        compute_s=when.compute_s,
        cause=state.cause,
        actor=state.actor,
        reason=whose.reason,
        text_hash=text_hash,
        nodes=nodes,
    )
