"""Slurm's accounting into a history, a little at a time; the controller's queue where there is none."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NoReturn
from zoneinfo import ZoneInfo

import pyarrow.compute as pc

from app.clock import SystemClock
from app.services.history_imports import longest_limits
from data.intake.driver import import_file
from data.intake.format import ReadOptions
from data.intake.report import FileReport
from data.pull import slurm
from data.pull.memory import Memory, remember, remembered
from data.pull.programs import Limits, Outcome, Run, run
from data.pull.slurm import Answer, Window
from data.rules import Rule
from data.shelf.folder import STAGING
from data.shelf.store import HistoryStore, Importing
from domain.errors import InputError, SettingError

LEAST_WINDOW_S: Final = 3600.0
"""Windows are not made narrower than that."""

PAUSES_S: Final = (5.0, 20.0, 60.0)
"""Before a call that failed is made again; after the last it is given up."""

_DISABLED: Final = (
    "Slurm's accounting storage is disabled here: from now on the controller's queue is read instead. It has "
    "what waits and runs. How a job ended is known only where a pull comes within minutes of it, and never "
    "afterwards. --retry-accounting asks for accounting again."
)
_GPU_COLUMNS: Final = ("gpus_asked_milli", "gpus_given_milli")


@dataclass(frozen=True)
class Wanted:
    """A pull; the fields are the command line's options of the same names.

    Attributes:
        since_s: jobs that ended from here on; None: from where the last pull ended.
        overlap_s: how much of what was pulled before is asked for again.
        window_s: ends of jobs asked for at once.
        retry_accounting: ask for accounting, and all of its columns, although they were not there before.
    """

    cluster: str
    zone: ZoneInfo
    history: Path
    since_s: float | None = None
    overlap_s: float = 86_400.0
    window_s: float = 86_400.0
    sacct: str = "sacct"
    squeue: str = "squeue"
    retry_accounting: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Machine:
    """What a pull needs of the machine: the instant (epoch seconds), a pause, a way to run programs."""

    now_s: Callable[[], float] = lambda: SystemClock().now().timestamp()
    sleep: Callable[[float], None] = time.sleep
    run: Run = run


class DisabledError(Exception):
    """The site keeps no accounting."""


@dataclass(frozen=True)
class Listeners:
    """Who is told: of each file as it is in, and of all else in a line."""

    done: Callable[[FileReport], None]
    say: Callable[[str], None]


def pull(wanted: Wanted, listeners: Listeners, machine: Machine | None = None) -> list[FileReport]:
    """Bring what has changed since the last pull into the history. One program runs at a time.

    What a pull that ends early has brought is kept and remembered; the next goes on from there.

    Raises:
        SettingError: if Slurm's programs cannot be run or do not answer, what they print cannot be read, or
            the history cannot be written.
    """
    store = HistoryStore(wanted.history)
    try:
        with store.importing() as into, _room(wanted.history) as room:
            return _Pull(wanted, listeners, machine or Machine(), store, into, room).run()
    except InputError as error:
        raise SettingError(str(error)) from error
    except OSError as error:
        raise SettingError(f"{wanted.history}: the pull cannot go on: {error.strerror}") from error


@contextmanager
def _room(history: Path) -> Iterator[Path]:
    """A folder for what programs print; that of a pull that was killed is swept by the next import."""
    with tempfile.TemporaryDirectory(prefix=f"{STAGING}pull-", dir=history) as name:
        yield Path(name)


class _Pull:
    def __init__(
        self,
        wanted: Wanted,
        listeners: Listeners,
        machine: Machine,
        store: HistoryStore,
        into: Importing,
        room: Path,
    ) -> None:
        self._wanted = wanted
        self._tell = listeners
        self._machine = machine
        self._store = store
        self._into = into
        self._room = room
        self._memory = remembered(wanted.history, wanted.cluster)
        self._environment = slurm.environment(os.environ, wanted.zone)
        self._reports: list[FileReport] = []
        self._quiet: list[Path] = []
        self._end_s: float | None = None

    def run(self) -> list[FileReport]:
        if self._wanted.retry_accounting:
            self._memory = replace(self._memory, is_disabled=False, left_out=())
        if not self._memory.is_disabled:
            try:
                self._accounting()
            except DisabledError:
                self._tell.say(_DISABLED)
                self._remember(replace(self._memory, is_disabled=True))
            else:
                return self._reports
        self._queue()
        return self._reports

    # Accounting

    def _accounting(self) -> None:
        now_s = float(int(self._machine.now_s()))
        start_s, width_s = self._since_s(now_s), max(self._wanted.window_s, LEAST_WINDOW_S)
        while start_s < now_s:
            window = Window(start_s, min(start_s + width_s, now_s))
            printed = self._room / f"ended-{int(window.start_s)}-{int(window.end_s)}.txt"
            found, outcome = self._ask_accounting(window, printed)
            if found is Answer.TOO_WIDE:
                width_s = self._narrower(window, outcome)
                continue
            self._bring(printed)
            self._reached(window.end_s)
            start_s = window.end_s
        printed = self._room / f"there-{int(now_s)}.txt"
        found, outcome = self._ask_accounting(None, printed)
        if found is Answer.TOO_WIDE:
            self._give_up("the jobs that wait or run", outcome)
        self._bring(printed)
        self._bring_quiet(is_last=True)

    def _since_s(self, now_s: float) -> float:
        """Where to begin: never behind what was pulled, so that no gap is left."""
        until_s = self._memory.ended_until_s
        if until_s is None and self._wanted.since_s is None:
            raise SettingError(
                f"nothing of cluster {self._wanted.cluster!r} was pulled before: say from when, for example "
                "--since 2026-01-01"
            )
        known = [] if until_s is None else [until_s - self._wanted.overlap_s]
        asked = [] if self._wanted.since_s is None else [self._wanted.since_s]
        since_s = max(0.0, min(known + asked))
        if since_s > now_s:
            raise SettingError("--since lies in the future")
        return since_s

    def _narrower(self, window: Window, outcome: Outcome) -> float:
        """The width to go on with, half of what was too much."""
        width_s = window.end_s - window.start_s
        if width_s <= LEAST_WINDOW_S:
            self._give_up(f"the jobs that ended from {window}", outcome)
        half_s = max(float(int(width_s / 2)), LEAST_WINDOW_S)
        self._tell.say(
            f"{self._wanted.sacct}: {window} is too much at once ({slurm.told(outcome)}): going on with "
            f"{half_s / 3600:.3g} h"
        )
        self._machine.sleep(PAUSES_S[0])
        return half_s

    def _ask_accounting(self, window: Window | None, printed: Path) -> tuple[Answer, Outcome]:
        """Ask until there is an answer that more asking does not change."""
        pauses = list(PAUSES_S)
        while True:
            fields = [name for name in slurm.FIELDS if name not in self._memory.left_out]
            arguments = slurm.asked_of_sacct(self._wanted.sacct, fields, window, self._wanted.zone)
            outcome = self._machine.run(arguments, printed, self._environment, self._wanted.limits)
            found = slurm.answer(outcome, printed)
            if found is Answer.DISABLED:
                raise DisabledError
            if found is Answer.UNKNOWN_FIELD:
                self._leave_out(outcome, fields)
            elif found is Answer.FAILED:
                if not pauses:
                    self._give_up("accounting" if window is None else f"the jobs from {window}", outcome)
                self._machine.sleep(pauses.pop(0))
            else:
                return found, outcome

    def _leave_out(self, outcome: Outcome, fields: list[str]) -> None:
        word = slurm.unknown_field(outcome)
        name = next((one for one in fields if one.casefold() == (word or "").casefold()), None)
        if name is None or name in slurm.NEEDED:
            self._give_up(f"the columns {','.join(fields)}", outcome)
        self._tell.say(f"{self._wanted.sacct} has no field {name}: it is left out from now on")
        self._remember(replace(self._memory, left_out=(*self._memory.left_out, name)))

    # The queue

    def _queue(self) -> None:
        printed = self._room / f"queue-{int(self._machine.now_s())}"
        as_json = slurm.asked_of_squeue(self._wanted.squeue, as_json=True)
        outcome = self._machine.run(as_json, printed, self._environment, self._wanted.limits)
        if outcome.code != 0 or not slurm.is_document(printed):
            self._ask_for_text(printed)
            if not slurm.has_jobs(printed):
                return
        self._bring(printed, "squeue", may_be_empty=True)

    def _ask_for_text(self, printed: Path) -> None:
        arguments = slurm.asked_of_squeue(self._wanted.squeue, as_json=False)
        for pause_s in (*PAUSES_S, None):
            outcome = self._machine.run(arguments, printed, self._environment, self._wanted.limits)
            if slurm.answer(outcome, printed) is Answer.GOOD:
                return
            if pause_s is None:
                raise SettingError(
                    f"{self._wanted.squeue} does not say what is queued: {slurm.told(outcome)}"
                )
            self._machine.sleep(pause_s)

    # Into the history

    def _bring(self, printed: Path, file_format: str = "sacct", *, may_be_empty: bool = False) -> None:
        """Import what was printed; a file that counts no GPU waits until it is known that the site does."""
        if file_format == "sacct" and not slurm.has_jobs(printed):
            printed.unlink()
            return
        report = self._imported(printed, file_format, counts_gpus=False)
        rule = None if report.fault is None else report.fault["rule"]
        if rule == Rule.NO_GPU_COUNTS:
            self._quiet.append(printed)
            self._bring_quiet(is_last=False)
        elif not (rule == Rule.NO_ROWS and may_be_empty):
            self._keep(report)
            self._bring_quiet(is_last=False)

    def _bring_quiet(self, *, is_last: bool) -> None:
        """Import files without GPUs, once a job of the cluster is known to have had some."""
        if not self._quiet:
            return
        counts_gpus = self._counts_gpus()
        if not counts_gpus and not is_last:
            return
        for printed in self._quiet:
            self._keep(self._imported(printed, "sacct", counts_gpus=counts_gpus))
        self._quiet.clear()
        if self._end_s is not None:
            self._reached(self._end_s)

    def _imported(self, printed: Path, file_format: str, *, counts_gpus: bool) -> FileReport:
        options = ReadOptions(
            self._wanted.cluster,
            self._wanted.zone,
            partition_max_s=longest_limits(self._store, self._wanted.cluster),
            counts_gpus=counts_gpus,
        )
        return import_file(printed, file_format, options, self._into)

    def _keep(self, report: FileReport) -> None:
        path = Path(report.file)
        if report.fault is not None:
            raise SettingError(
                f"what Slurm printed ({path.name}) is not imported: {report.fault['rule']}: "
                f"{report.fault['message']}"
            )
        path.unlink()
        report.file = path.name
        self._reports.append(report)
        self._tell.done(report)

    def _counts_gpus(self) -> bool:
        """Whether any job of the history has had a GPU; the newest days are looked at first."""
        for day in reversed(self._store.days(self._wanted.cluster)):
            table = self._store.table(self._wanted.cluster, [day], _GPU_COLUMNS)
            if any((pc.max(table[name]).as_py() or 0) > 0 for name in _GPU_COLUMNS):
                return True
        return False

    def _reached(self, end_s: float) -> None:
        """Remember that all that ended before is in; not yet where something of it waits to be imported."""
        self._end_s = end_s
        if not self._quiet:
            until_s = max(end_s, self._memory.ended_until_s or 0.0)
            self._remember(replace(self._memory, ended_until_s=until_s))

    def _remember(self, memory: Memory) -> None:
        if memory != self._memory or self._wanted.retry_accounting:
            self._memory = memory
            remember(self._wanted.history, self._wanted.cluster, memory)

    def _give_up(self, what: str, outcome: Outcome) -> NoReturn:
        raise SettingError(f"{self._wanted.sacct} does not give {what}: {slurm.told(outcome)}")
