"""Settings of one executor: from the command line, else from ANTECAST_EXECUTOR_* in the environment.

A secret is never a setting. Settings name the files that hold secrets, and those must be readable by their
owner alone.
"""

import os
import re
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

PREFIX = "ANTECAST_EXECUTOR_"
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class ConfigError(Exception):
    """A setting is wrong; the message says which and what it should be."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one executor.

    Attributes:
        url: of the control plane, http or https.
        state: folder that holds journal, credentials and logs.
        token_file: file with the join token; needed once.
        node: name of this node.
        devices: `nvml` for the GPUs of this machine, `sim` for pretended ones.
        sim_gpus: how many are pretended.
        tick_s: longest time between two looks at the node.
        ca_file: certificates to trust instead of the system's.
        dry_run: print the actions and do nothing.
    """

    url: str
    state: Path
    token_file: Path | None = None
    node: str = ""
    devices: str = "nvml"
    sim_gpus: int = 2
    tick_s: float = 0.5
    ca_file: Path | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(f"url: {self.url!r} is not http://HOST or https://HOST")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError("url: no user, password, query or fragment here")
        if _NODE.fullmatch(self.node) is None:
            raise ConfigError(f"node: {self.node!r} does not match {_NODE.pattern}")
        if self.devices not in {"nvml", "sim"}:
            raise ConfigError(f"devices: {self.devices!r} is neither nvml nor sim")
        if not 1 <= self.sim_gpus <= 64:
            raise ConfigError(f"sim-gpus: {self.sim_gpus} is not in [1, 64]")
        if not 0.05 <= self.tick_s <= 60:
            raise ConfigError(f"tick-s: {self.tick_s:g} is not in [0.05, 60]")

    @property
    def is_open_to_listeners(self) -> bool:
        """Whether the secret crosses a network in clear text."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}

    @property
    def journal_path(self) -> Path:
        """Where the journal is."""
        return self.state / "journal.sqlite"

    @property
    def credentials_path(self) -> Path:
        """Where id and secret are."""
        return self.state / "credentials.json"

    @property
    def logs_path(self) -> Path:
        """Where the output of placements goes."""
        return self.state / "logs"


def load(options: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Config:
    """Settings from options given on the command line (None: not given) and the environment.

    Raises:
        ConfigError: if one is missing or wrong.
    """

    def text(name: str, default: str | None = None) -> str | None:
        value = options.get(name)
        return environ.get(PREFIX + name.upper(), default) if value is None else str(value)

    url, state = text("url"), text("state")
    if url is None or state is None:
        raise ConfigError("--url and --state are needed")
    token_file, ca_file = text("token_file"), text("ca_file")
    return Config(
        url=url.rstrip("/"),
        state=Path(state),
        token_file=None if token_file is None else Path(token_file),
        node=text("node") or socket.gethostname(),
        devices=text("devices", "nvml") or "nvml",
        sim_gpus=int(_number("sim-gpus", text("sim_gpus", "2"))),
        tick_s=_number("tick-s", text("tick_s", "0.5")),
        ca_file=None if ca_file is None else Path(ca_file),
        dry_run=bool(options.get("dry_run")),
    )


def _number(name: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError as error:
        raise ConfigError(f"{name}: {text!r} is not a number") from error


def read_secret(path: Path) -> str:
    """A secret from a file that nobody but its owner can read.

    Raises:
        ConfigError: if it cannot be read, others can read it too, or it is empty.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise ConfigError(f"{path}: others can read this secret: chmod 600 it")
            secret = file.read(65536).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not secret:
        raise ConfigError(f"{path}: empty")
    return secret


def write_secret(path: Path, text: str) -> None:
    """Write a secret so that it is there whole or not at all, and for its owner alone."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
