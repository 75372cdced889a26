"""One command, several processes: starts them, keeps the worker alive, and ends them together."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.settings import STOP_LIMIT_S

LIFELINE: Final = "ANTECAST_SUPERVISOR_LIFELINE"
"""Environment variable: number of the descriptor whose end of file means that the supervisor is gone."""

_LOOK_EVERY_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_SOUND_AFTER_S: Final = 60.0


def end_with_supervisor(stop: Callable[[], None]) -> bool:
    """Call `stop` once the supervisor is gone. Returns whether there is one."""
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is None:
        return False
    lifeline = int(descriptor)
    os.set_inheritable(lifeline, False)

    def watch() -> None:
        while os.read(lifeline, 1):
            pass
        stop()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    return True


@dataclass
class _Member:
    """One process and what to do when it ends: begin it again, or end everything."""

    name: str
    command: Sequence[str]
    is_restarted: bool
    process: subprocess.Popen[bytes] | None = None
    began_s: float = 0.0
    pause_s: float = 1.0
    begin_at_s: float = 0.0


@dataclass
class Supervisor:
    """Runs `antecast` commands as processes in sessions of their own, so that signals come from here only.

    Attributes:
        environment: variables of all of them.
    """

    environment: Mapping[str, str]
    _members: list[_Member] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, arguments: Sequence[str], *, is_restarted: bool) -> None:
        """One more process: `antecast` with these arguments."""
        self._members.append(_Member(name, [sys.executable, "-m", "app", *arguments], is_restarted))

    def run(self) -> int:
        """Run until SIGINT or SIGTERM, or until one that is not restarted ends. Returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stopping.set())
        lifeline, held = os.pipe()
        try:
            return self._watch(lifeline)
        finally:
            self._end_all()
            os.close(lifeline)
            os.close(held)

    def _watch(self, lifeline: int) -> int:
        while True:
            for member in self._members:
                if member.process is None:
                    self._begin(member, lifeline)
                elif member.process.poll() is not None and not self._goes_on(member):
                    return member.process.returncode or 1
            if self._stopping.wait(_LOOK_EVERY_S):
                return 0

    def _begin(self, member: _Member, lifeline: int) -> None:
        if time.monotonic() < member.begin_at_s:
            return
        member.began_s = time.monotonic()
        member.process = subprocess.Popen(  # noqa: S603 - this interpreter, and commands of ours
            member.command,
            env={**os.environ, **self.environment, LIFELINE: str(lifeline)},
            pass_fds=(lifeline,),
            start_new_session=True,
        )

    def _goes_on(self, member: _Member) -> bool:
        """A process has ended: plan its next beginning, later each time unless it ran well for a while."""
        if not member.is_restarted:
            return False
        code = None if member.process is None else member.process.returncode
        ran_s = time.monotonic() - member.began_s
        member.pause_s = 1.0 if ran_s > _SOUND_AFTER_S else min(2.0 * member.pause_s, _LONGEST_PAUSE_S)
        member.begin_at_s = time.monotonic() + member.pause_s
        member.process = None
        sys.stderr.write(
            f"antecast: the {member.name} ended with exit code {code}, begun again in {member.pause_s:g} s\n"
        )
        return True

    def _end_all(self) -> None:
        running = [member.process for member in self._members if member.process is not None]
        for process in running:
            process.terminate()
        ends_s = time.monotonic() + STOP_LIMIT_S
        for process in running:
            try:
                process.wait(max(0.0, ends_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
