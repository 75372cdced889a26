"""What ails the service on this machine: one finding a check, and what to do about it. Nothing is changed."""

import importlib
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import httpx
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.clock import SystemClock, make_clock
from app.runs.settings import WorkerSettings
from app.setting_sources import CONFIG, FILE, PREFIX, holds_password, is_secret, read_config
from app.settings import all_settings
from app.store import figures
from app.store.engine import make_engine, parse_url, reading
from app.store.health import schema_version
from app.store.migrations import HEAD

MAX_SKEW_S: Final = 2.0
"""Clocks that are further apart are pointed out: leases go by them."""

_LATE_AFTER_S: Final = 600.0
_MOST_QUEUED: Final = 100
_LISTED_NODES: Final = 5
_LEAST_FREE_MIB: Final = 512
_ASK_S: Final = 3.0


class Level(StrEnum):
    """How bad a finding is; the worst comes last."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        name: of the check.
        level: how bad it is.
        text: what was found.
        hint: what to do next; empty where nothing has to be done.
    """

    name: str
    level: Level
    text: str
    hint: str = ""


def examine(settings: WorkerSettings) -> list[Finding]:
    """Do all checks; those that need the database are left out while it does not answer.

    Raises:
        SettingError: if the database's URL or a file of settings cannot be used at all.
    """
    found = [*_files(settings), *_folders(settings), _solver(), _forecaster(), *_port(settings)]
    engine = make_engine(settings.database_url, wait_s=_ASK_S)
    try:
        found += _of_database(engine, settings)
    finally:
        engine.dispose()
    return found


def _of_database(engine: Engine, settings: WorkerSettings) -> list[Finding]:
    hint = "is it running, and is database_url right? (`antecast config show`)"
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        text = f"there is no file {engine.url.database} yet"
        return [Finding("database", Level.WARN, text, "`antecast serve` or `antecast migrate` makes it")]
    began_s = time.monotonic()
    try:
        version = schema_version(engine)
        took_ms = (time.monotonic() - began_s) * 1e3
        found = [Finding("database", Level.OK, f"{engine.dialect.name} answers in {took_ms:.0f} ms")]
        if version != HEAD:
            text = f"tables are of version {version or 'none'}, this program needs {HEAD}"
            return [*found, Finding("migrations", Level.FAIL, text, "run `antecast migrate`")]
        found.append(Finding("migrations", Level.OK, f"tables are of version {version}"))
        return [*found, *_clocks(engine), *_work(engine, settings), *_executors(engine, settings)]
    except SQLAlchemyError as error:
        text = f"the database does not answer: {getattr(error, 'orig', None) or error}".partition("\n")[0]
        return [Finding("database", Level.FAIL, text, hint)]


def _clocks(engine: Engine) -> Iterator[Finding]:
    before = SystemClock().now()
    there = figures.database_now(engine)
    if there is None:
        return
    after = SystemClock().now()
    yield _skew("clock of the database", there, before + (after - before) / 2)


def _skew(name: str, there: datetime, here: datetime) -> Finding:
    off_s = (there - here).total_seconds()
    text = f"{abs(off_s):.1f} s {'ahead of' if off_s > 0 else 'behind'} this machine's"
    if abs(off_s) <= MAX_SKEW_S:
        return Finding(name, Level.OK, text)
    return Finding(name, Level.WARN, text, "let both machines take their time from the same NTP servers")


def _work(engine: Engine, settings: WorkerSettings) -> Iterator[Finding]:
    now = make_clock(settings.clock_speed, settings.clock_origin).now()
    with reading(engine) as session:
        alive = figures.workers_alive(session, SystemClock().now())
        counts = figures.runs(session, now)
        oldest = figures.oldest_queued(session)
    queued = sum(number for (_, _, status), number in counts.items() if status == "queued")
    if alive:
        yield Finding("workers", Level.OK, f"{alive} alive")
    else:
        text = f"none is alive, and {queued} runs wait"
        hint = "run `antecast worker`, or `antecast serve` without --no-worker"
        yield Finding("workers", Level.FAIL if queued else Level.WARN, text, hint)
    late_s = max(((now - at).total_seconds() for at in oldest.values()), default=0.0)
    text = f"{queued} runs wait" + (f", the oldest for {late_s:.0f} s" if queued else "")
    if queued > _MOST_QUEUED or late_s > _LATE_AFTER_S:
        yield Finding(
            "queue", Level.WARN, text, "run more workers (`antecast worker`), or raise worker_slots"
        )
    else:
        yield Finding("queue", Level.OK, text)


def _executors(engine: Engine, settings: WorkerSettings) -> Iterator[Finding]:
    now = make_clock(settings.clock_speed, settings.clock_origin).now()
    with reading(engine) as session:
        counts = figures.executors(session, now)
        nodes = figures.silent_nodes(session, now, _LISTED_NODES)
    alive, silent = (sum(pair[side] for pair in counts.values()) for side in (0, 1))
    if not silent:
        yield Finding("executors", Level.OK, f"{alive} alive" if alive else "there are none")
        return
    more = ", ..." if silent > len(nodes) else ""
    hint = "on these nodes: does the executor run (systemctl status), and does it reach the API?"
    yield Finding("executors", Level.WARN, f"{silent} silent, {alive} alive: {', '.join(nodes)}{more}", hint)


def _files(settings: WorkerSettings) -> Iterator[Finding]:
    """Modes of files with secrets; those that settings come from are refused before, if others may read."""
    secret = [Path(os.environ[name]) for name in _secret_variables() if os.environ.get(name)]
    config = os.environ.get(CONFIG)
    if config and any(holds_password(str(value)) for value in _secrets_in(Path(config))):
        secret.append(Path(config))
    named = os.environ.get(f"{PREFIX}KEY_FILE")
    secret.append(Path(named) if named else Path.home() / ".config" / "antecast" / "key")
    passfile = os.environ.get("PGPASSFILE")
    if passfile:
        secret.append(Path(passfile))
    if parse_url(settings.database_url).get_backend_name() == "sqlite":
        secret.append(Path(str(parse_url(settings.database_url).database)))
    for path in secret:
        if path.exists():
            yield _mode(path)


def _secret_variables() -> list[str]:
    return [f"{PREFIX}{name.upper()}{FILE}" for name in all_settings()]


def _secrets_in(config: Path) -> list[Any]:
    settings = all_settings()
    return [value for name, value in read_config(config, settings).items() if is_secret(settings[name])]


def _mode(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    is_database = path.suffix == ".db"
    if mode & (0o022 if is_database else 0o077):
        what = "write" if is_database else "read"
        text = f"others may {what} {path} (mode {mode:04o})"
        return Finding("file modes", Level.FAIL, text, f"chmod {'640' if is_database else '600'} {path}")
    return Finding("file modes", Level.OK, f"{path} has mode {mode:04o}")


def _folders(settings: WorkerSettings) -> Iterator[Finding]:
    wanted = [("temporary files", Path(tempfile.gettempdir()))]
    url = parse_url(settings.database_url)
    if url.get_backend_name() == "sqlite":
        wanted.append(("the database", Path(str(url.database)).parent))
    if settings.models_dir is not None:
        wanted.append(("models_dir", settings.models_dir))
    for what, folder in wanted:
        yield _folder(what, folder)


def _folder(what: str, folder: Path) -> Finding:
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        hint = f"give the service's user a folder it may write: chown, or another setting than {folder}"
        return Finding("folders", Level.FAIL, f"{folder} ({what}) cannot be written", hint)
    room = os.statvfs(nearest)
    free_mib = room.f_bavail * room.f_frsize // 2**20
    if free_mib < _LEAST_FREE_MIB:
        return Finding("folders", Level.WARN, f"{folder} ({what}) has {free_mib} MiB left", "make room")
    return Finding("folders", Level.OK, f"{folder} ({what}) can be written, {free_mib} MiB are free")


def _solver() -> Finding:
    return _library("solver", _solve_something, "reinstall: pip install --force-reinstall ortools")


def _forecaster() -> Finding:
    hint = "install OpenMP's library: apt-get install libgomp1, dnf install libgomp, or brew install libomp"
    return _library("forecasts", _load_lightgbm, hint)


def _library(name: str, check: Callable[[], str], hint: str) -> Finding:
    try:
        return Finding(name, Level.OK, check())
    except (ImportError, OSError, RuntimeError) as error:
        return Finding(name, Level.FAIL, str(error).partition("\n")[0] or type(error).__name__, hint)


def _solve_something() -> str:
    """The smallest model: 2 x at most 5, x as large as can be."""
    began_s = time.monotonic()
    cp_model = importlib.import_module("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    wanted = model.new_int_var(0, 10, "x")
    model.add(2 * wanted <= 5)
    model.maximize(wanted)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status != cp_model.OPTIMAL or solver.value(wanted) != 2:
        raise RuntimeError(f"CP-SAT does not solve the smallest model: {solver.status_name(status)}")
    return f"CP-SAT solves; loaded in {time.monotonic() - began_s:.1f} s"


def _load_lightgbm() -> str:
    return f"LightGBM {importlib.import_module('lightgbm').__version__} loads"


def _port(settings: WorkerSettings) -> Iterator[Finding]:
    host, port = settings.host, settings.port
    where = f"{host}:{port}"
    if port == 0 or _is_free(host, port):
        yield Finding("port", Level.OK, f"{where} is free: the service does not listen there now")
        return
    asked_at = SystemClock().now()
    address = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    try:
        answer = httpx.get(f"http://{address}:{port}/healthz", timeout=_ASK_S, trust_env=False)
        is_ours = answer.status_code == 200 and answer.json().get("status") == "ok"
    except (httpx.HTTPError, ValueError, AttributeError):
        is_ours = False
    if not is_ours:
        hint = f"find it (ss -ltnp 'sport = :{port}'), or choose another port"
        yield Finding("port", Level.FAIL, f"{where} is taken by something that is not this service", hint)
        return
    yield Finding("port", Level.OK, f"the service answers on {where}")
    if "date" in answer.headers:
        # The header is cut to whole seconds.
        there = parsedate_to_datetime(answer.headers["date"]) + timedelta(seconds=0.5)
        yield _skew("clock of the API", there, asked_at)


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
