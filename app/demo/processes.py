"""The processes of the loop: the service with its worker, and one executor a node."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from domain.errors import SettingError

_STOP_S: Final = 15.0


def require_executor() -> None:
    """The executor is a distribution of its own.

    Raises:
        SettingError: if it is not installed here.
    """
    if find_spec("antecast_executor") is None:
        raise SettingError(
            "the demonstration needs the executor beside it: pip install antecast-executor "
            "(in a checkout: pip install ./executor)"
        )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, ended together with what it started."""
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and modules of ours
            [sys.executable, "-m", *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **env},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Stage:
    """The folder of a demonstration, and what runs in it.

    Args:
        folder: for the database, the executors' state and all logs; created.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._env: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def serve(
        self, env: Mapping[str, str], *, database_url: str | None = None, has_worker: bool = True
    ) -> subprocess.Popen[bytes]:
        """Start the service and its worker on a free port; on a database in the folder unless told."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        url = database_url or f"sqlite:///{(self.folder / 'antecast.db').resolve()}"
        self._env = {**env, "ANTECAST_DATABASE_URL": url, "ANTECAST_AUTH": "off"}
        argv = ["app", "serve", "--host", "127.0.0.1", "--port", str(port)]
        argv += [] if has_worker else ["--no-worker"]
        return self._start(argv, "service.log", self._env)

    def work(self) -> subprocess.Popen[bytes]:
        """Start one more worker."""
        return self._start(["app", "worker"], "worker.log", self._env)

    def execute(self, node: str, num_gpus: int, token: str | None = None) -> subprocess.Popen[bytes]:
        """Start a node's executor on simulated GPUs; the token is needed the first time."""
        state = self.folder / node
        state.mkdir(mode=0o700, exist_ok=True)
        secret = state / "token"
        if token is not None:
            secret.touch(mode=0o600)
            secret.write_text(token, encoding="utf-8")
        argv = ["antecast_executor", "run", "--url", self.url, "--state", str(state), "--node", node]
        argv += ["--token-file", str(secret), "--devices", "sim", "--sim-gpus", str(num_gpus)]
        return self._start(argv, f"{node}.log", {})

    def _start(self, argv: Sequence[str], log: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return self._stack.enter_context(running(argv, self.folder / log, env))
