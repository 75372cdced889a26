"""What Slurm's programs are asked, and what they answer: arguments, environment, and their refusals."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from data.formats.squeue import DELIMITER, OUTPUT
from data.pull.programs import Outcome
from data.rules import message_of

FIELDS: Final = tuple(
    """
    JobIDRaw JobID Cluster User Account Partition QOS State Submit Eligible Start End ElapsedRaw Suspended
    TimelimitRaw Timelimit NNodes NodeList ReqCPUS ReqMem ReqTRES AllocTRES Reason JobName
    """.split()  # noqa: SIM905 - a list of names would be longer than all else here
)
"""Columns of `sacct`; the name, which may hold anything, is last."""

NEEDED: Final = frozenset({"JobID", "State", "Submit"})

_ENDED: Final = (
    "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,REQUEUED,REVOKED,TIMEOUT"
)
"""States that a job ends in: asked for them, `sacct` selects jobs by their end."""

_THERE: Final = "PENDING,RUNNING,SUSPENDED"
_MOST_OF_A_HEADER: Final = 2**16
_HOUR: Final = timedelta(hours=1)
_MOST_HOURS_ODD: Final = 4
_UNKNOWN_FIELD: Final = re.compile(r"Invalid field requested: \"?([A-Za-z]+)", re.IGNORECASE)
_TOO_WIDE: Final = re.compile(r"too wide|exceeds size limit", re.IGNORECASE)
_TIMED_OUT: Final = re.compile(
    r"timed? ?out|Message receive failure|Zero Bytes were transmitted", re.IGNORECASE
)
_ERROR: Final = re.compile(r"\berror: ")
_DISABLED: Final = re.compile(r"accounting storage is disabled", re.IGNORECASE)


class Window(NamedTuple):
    """Ends of jobs that are asked for, epoch seconds; both are within."""

    start_s: float
    end_s: float

    def __str__(self) -> str:
        return f"{_utc(self.start_s)} to {_utc(self.end_s)}"


class Answer(Enum):
    """What the answer of a program means."""

    GOOD = auto()
    DISABLED = auto()
    """The site keeps no accounting."""
    TOO_WIDE = auto()
    """Less has to be asked for at once."""
    UNKNOWN_FIELD = auto()
    FAILED = auto()
    """It may go well another time."""


def asked_of_sacct(program: str, fields: Sequence[str], window: Window | None, zone: ZoneInfo) -> list[str]:
    """The call for jobs that ended in a window; None: for those that wait or run now.

    Args:
        program: its name or path.
        fields: its columns.
        window: when they ended.
        zone: of the stamps, and of the program's environment.
    """
    states = _ENDED if window is not None else _THERE
    times = (
        [f"--starttime={_outward(window.start_s, zone, -1)}", f"--endtime={_outward(window.end_s, zone, 1)}"]
        if window is not None
        else ["--starttime=now", "--endtime=now"]
    )
    return [
        program, "--allusers", "--allocations", "--duplicates", "--parsable2", f"--delimiter={DELIMITER}",
        f"--state={states}", *times, f"--format={','.join(fields)}",
    ]  # fmt: skip


def asked_of_squeue(program: str, *, as_json: bool) -> list[str]:
    """The call for the controller's list of jobs."""
    return [program, "--all", "--json"] if as_json else [program, "--all", "--states=all", "-o", OUTPUT]


def environment(own: Mapping[str, str], zone: ZoneInfo) -> dict[str, str]:
    """The environment of Slurm's programs: stamps are epochs, or the cluster's clock where they cannot be.

    What the user has set for their own calls (`SQUEUE_FORMAT`, `SACCT_FEDERATION`) is left out.
    """
    kept = {name: value for name, value in own.items() if not name.startswith(("SACCT_", "SQUEUE_"))}
    return kept | {
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": zone.key,
    }


def answer(outcome: Outcome, printed: Path) -> Answer:
    """What an answer means.

    What a program says counts before its exit status, which some versions leave at 0.
    """
    if _DISABLED.search(outcome.said):
        return Answer.DISABLED
    if unknown_field(outcome) is not None:
        return Answer.UNKNOWN_FIELD
    if outcome.stopped is not None or _TOO_WIDE.search(outcome.said):
        return Answer.TOO_WIDE
    if outcome.code != 0 and _TIMED_OUT.search(outcome.said):
        return Answer.TOO_WIDE
    is_error_alone = _ERROR.search(outcome.said) is not None and not has_jobs(printed)
    if outcome.code != 0 or is_error_alone or not _is_whole(printed):
        return Answer.FAILED
    return Answer.GOOD


def has_jobs(printed: Path) -> bool:
    """Whether anything is printed below the first line."""
    with printed.open("rb") as file:
        first = file.readline(_MOST_OF_A_HEADER)
        return first.endswith(b"\n") and bool(file.read(1))


def is_document(printed: Path) -> bool:
    """Whether it is JSON, and not text of a version that does not know any."""
    with printed.open("rb") as file:
        return file.read(_MOST_OF_A_HEADER).lstrip()[:1] in {b"{", b"["} and _is_whole(printed)


def unknown_field(outcome: Outcome) -> str | None:
    """The column that this version of `sacct` does not have."""
    found = _UNKNOWN_FIELD.search(outcome.said)
    return None if found is None else found[1]


def told(outcome: Outcome) -> str:
    """What went wrong, in one line."""
    if outcome.stopped is not None:
        return str(outcome.stopped)
    lines = [line.strip() for line in outcome.said.splitlines() if line.strip()]
    if lines:
        return f"{message_of(lines[-1])!r} (exit status {outcome.code})"
    return f"it printed nothing whole (exit status {outcome.code})"


def _is_whole(printed: Path) -> bool:
    """Whether the output ends with a line's end: even without jobs there is a header, or a document."""
    with printed.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 1))
        return file.read(1) in {b"\n", b"}"}


def _outward(instant_s: float, zone: ZoneInfo, direction: int) -> str:
    """A stamp of the cluster's clock; out of the hour that autumn shows twice, so as to leave nothing out."""
    instant = datetime.fromtimestamp(instant_s, UTC)
    for _ in range(_MOST_HOURS_ODD):
        local = instant.astimezone(zone)
        if local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset():
            break
        instant += direction * _HOUR
    return instant.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")


def _utc(instant_s: float) -> str:
    return datetime.fromtimestamp(instant_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
