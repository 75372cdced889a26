"""Placements to try a process back-end on: commands that count their steps, fork, or refuse to go."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from antecast_executor import processes
from antecast_executor.interfaces import ProcessId
from antecast_executor.processes.backend import SupervisedProcesses

MEANS = ["cgroup_v2", "cgroup_v1", "signals"]

# Counts its steps in the file named first: what a training loop is to us.
STEPS = """
import os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
step = 0
while True:
    step += 1
    os.pwrite(handle, b"%12d" % step, 0)
    time.sleep(0.004)
"""

# Leaves a daemon behind that has a session and parent of its own, and steps too.
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", sys.argv[2], sys.argv[1]])
    os._exit(0)
os.wait()
"""

FORKS = """
import os, sys
os.fork()
os.fork()
sys.argv[1] += str(os.getpid())
"""

ASKED = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
open(sys.argv[1], "w").close()
while True:
    signal.pause()
"""

LAUNCHER = """
import json, signal, sys
from pathlib import Path
from antecast_executor import processes
root, means, ttl, argv, holds = json.loads(sys.argv[1])
backend = processes.make(Path(root), means, pause_ttl_s=ttl)
process = backend.launch("p", argv, {}, cwd=None, log=Path(root) / "log")
for hold in holds:
    getattr(backend, hold[0])("p", process, *hold[1:])
print(json.dumps([process.pid, process.start_ticks, process.boot_id]), flush=True)
signal.pause()
"""

Eventually = Callable[[Callable[[], Any], str], Any]


class Rig:
    """A back-end and what it has started."""

    def __init__(self, root: Path, means: str, eventually: Eventually) -> None:
        self.root = root
        self.means = means
        self.eventually = eventually
        self.backend = self.again()
        self.started: dict[str, ProcessId] = {}

    def again(self, pause_ttl_s: float = 900.0) -> SupervisedProcesses:
        return processes.make(self.root / "run", self.means, pause_ttl_s=pause_ttl_s)

    @property
    def log(self) -> Path:
        return self.root / "log"

    def launch(
        self, argv: list[str], name: str = "p", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> ProcessId:
        process = self.backend.launch(name, argv, env or {}, cwd=cwd, log=self.log)
        self.started[name] = process
        return process

    def python(self, script: str, *arguments: object, name: str = "p") -> ProcessId:
        return self.launch([sys.executable, "-I", "-S", "-c", script, *map(str, arguments)], name)

    def steps(self, name: str = "p") -> ProcessId:
        process = self.python(STEPS, self.root / f"steps-{name}", name=name)
        self.moves(name)
        return process

    def count(self, name: str = "p") -> int:
        try:
            return int((self.root / f"steps-{name}").read_text() or 0)
        except FileNotFoundError:
            return 0

    def moves(self, name: str = "p", steps: int = 3) -> None:
        """Wait until it has gone on by some steps."""
        before = self.count(name)
        self.eventually(lambda: self.count(name) >= before + steps, f"steps of {name}")

    def ends(self, process: ProcessId, name: str = "p") -> Any:
        return self.eventually(lambda: self.backend.exit_of(name, process), f"end of {name}")
