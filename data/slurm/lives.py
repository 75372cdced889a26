"""When an attempt of a Slurm job came, ran and went, and how it ended, from words that may contradict."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from data.intake.instants import CLOSE_S, resolve
from data.intake.rows import Note, Notes, quoted
from data.intake.rules import ImportRule
from data.intake.text import hashed
from data.slurm.durations import is_null
from data.slurm.states import cancelled_by, parse_state
from data.stamps import Instant
from domain.attempts import EndCause

_WAITS: Final = ("PENDING", "PD")


class Ended(NamedTuple):
    """What its state says.

    Attributes:
        cause: why it ended, or that it has not.
        actor: who cancelled it, hashed.
        waits: whether it waits to be started, so that a start is an expectation.
        notes: what was found out on the way.
    """

    cause: EndCause
    actor: str | None
    waits: bool
    notes: tuple[Note, ...] = ()


class Lived(NamedTuple):
    """When; as the fields of `AttemptRecord`."""

    submit_s: float
    eligible_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    compute_s: float | None = None


class Spent(NamedTuple):
    """What is told of its time apart from stamps; None where it is not.

    Attributes:
        elapsed_s: time it was running, without suspensions.
        suspended_s: time it was suspended.
        is_placed: whether it was given nodes.
    """

    elapsed_s: float | None = None
    suspended_s: float | None = None
    is_placed: bool | None = None


@lru_cache(maxsize=2**12)
def ended(state: str) -> Ended:
    """What a state says; one that nobody knows is taken as not ended."""
    if is_null(state):
        return Ended(EndCause.UNKNOWN, None, waits=False)
    cause = parse_state(state)
    if cause is None:
        note = Note(ImportRule.UNKNOWN_STATE, f"state {quoted(state)} is none that Slurm has")
        return Ended(EndCause.UNKNOWN, None, waits=False, notes=(note,))
    actor = cancelled_by(state)
    waits = state.strip().upper().startswith(_WAITS)
    return Ended(cause, None if actor is None else hashed(actor), waits)


def lived(
    found: Mapping[str, Instant | None],
    state: Ended,
    spent: Spent,
    notes: Notes,
    after_s: float | None = None,
) -> Lived:
    """When, from stamps by `submit`, `eligible`, `start` and `end`.

    A start is taken out where it cannot have been one: the job waits, or it was over when it began and never
    had a node (older versions write the end there). So is an end of what runs.

    Args:
        found: instants; None or absent is not known.
        state: what the state says.
        spent: what else is told.
        notes: of the row.
        after_s: submission of the job with the next lower id, where that is known.

    Raises:
        RejectedError: without a submission, or if instants are out of order.
    """
    start, end = found.get("start"), found.get("end")
    if start is not None and _never_ran(start, end, state, spent):
        why = "it waits" if state.waits else "it was over at once and had no node"
        notes.add(ImportRule.START_WITHOUT_RUN, f"a start although {why}; taken out")
        found = {**found, "start": None}
    if end is not None and state.cause is EndCause.NOT_ENDED:
        notes.add(ImportRule.EXPECTED_END, "an end although its state says that it has not ended; taken out")
        found = {**found, "end": None}
    length_s = None if spent.elapsed_s is None else spent.elapsed_s + (spent.suspended_s or 0.0)
    times = resolve(found, length_s, notes, after_s)
    return computed(Lived(times.submit_s, times.eligible_s, times.start_s, times.end_s), spent, notes)


def computed(when: Lived, spent: Spent, notes: Notes) -> Lived:
    """With the time it was computing: what is told counts, else its occupancy without its suspensions."""
    if when.start_s is None:
        return when
    elapsed_s = spent.elapsed_s
    occupancy_s = None if when.end_s is None else when.end_s - when.start_s
    if elapsed_s is None:
        elapsed_s = None if occupancy_s is None else max(0.0, occupancy_s - (spent.suspended_s or 0.0))
    elif occupancy_s is not None and elapsed_s > occupancy_s + CLOSE_S:
        text = f"it ran {elapsed_s:g} s by its length and {occupancy_s:g} s by start and end; both are kept"
        notes.add(ImportRule.DURATION_MISMATCH, text)
    return when._replace(compute_s=elapsed_s)


def _never_ran(start: Instant, end: Instant | None, state: Ended, spent: Spent) -> bool:
    if state.waits:
        return True
    if spent.is_placed is not False or spent.elapsed_s or end is None:
        return False
    return state.cause.is_end_of_attempt and start.epoch_s >= end.epoch_s
