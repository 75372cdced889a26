"""The command line: run, status, doctor."""

import argparse
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from antecast_executor import __version__, config, devices, processes
from antecast_executor.agent import Agent
from antecast_executor.client import Client, ControlPlaneError, Credentials
from antecast_executor.clock import Clock, read_boot_id
from antecast_executor.config import Config, ConfigError
from antecast_executor.happenings import placement
from antecast_executor.interfaces import DeviceError
from antecast_executor.journal import Journal, JournalError
from antecast_executor.link import Link
from antecast_executor.logs import clean, set_up
from antecast_executor.primitives import Node

_log = logging.getLogger("antecast_executor")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    options = _parser().parse_args(argv)
    set_up(sys.stderr)
    try:
        return int(options.command(options))
    except (ConfigError, JournalError, DeviceError, ControlPlaneError, OSError) as error:
        _log.error("%s: %s", type(error).__name__, error)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "antecast-executor", description="Enforces Antecast's plans on one GPU node."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="be this node's executor until SIGTERM; jobs go on running then")
    run.set_defaults(command=_run)
    run.add_argument("--url", help="control plane, https://HOST[:PORT]")
    run.add_argument("--token-file", help="file (mode 600) with the join token, for the first start")
    run.add_argument("--node", help="name of this node (default: the host's)")
    run.add_argument("--devices", choices=("nvml", "sim"), help="GPUs of this machine, or pretended ones")
    run.add_argument("--sim-gpus", type=int, metavar="N", help="how many are pretended (default 2)")
    run.add_argument("--tick-s", type=float, metavar="S", help="longest time between two looks (default 0.5)")
    run.add_argument("--ca-file", help="certificates to trust instead of the system's")
    run.add_argument("--dry-run", action="store_true", help="print the actions and do nothing")
    status = commands.add_parser("status", help="what the journal says, as JSON")
    status.set_defaults(command=_status)
    doctor = commands.add_parser("doctor", help="whether this machine can do it")
    doctor.set_defaults(command=_doctor)
    doctor.add_argument("--devices", choices=("nvml", "sim"), default="nvml")
    for command in (run, status, doctor):
        command.add_argument("--state", help="folder of journal, credentials and logs")
    return parser


def _run(options: argparse.Namespace) -> int:
    settings = config.load(vars(options))
    if settings.is_open_to_listeners:
        _log.warning("plain http: the secret can be read on the way; use https across machines")
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.logs_path.mkdir(mode=0o700, exist_ok=True)
    with _only_one(settings.state):
        return _dry_run(settings) if settings.dry_run else _serve(settings)


def _serve(settings: Config) -> int:
    if not settings.credentials_path.exists() and settings.token_file is None:
        raise ConfigError("this node is not enrolled yet: --token-file is needed")
    boot_id = read_boot_id()
    journal = Journal(settings.journal_path, boot_id=boot_id)
    backends = devices.make(
        settings.devices, settings.state / "run", node=settings.node, sim_gpus=settings.sim_gpus
    )
    holders = processes.make(settings.state / "placements")
    node = Node(backends.devices, backends.share, holders, Clock(), settings.logs_path)
    agent = Agent(node, journal, boot_id=boot_id, telemetry=backends.telemetry)
    client = Client(settings.url, ca_file=settings.ca_file)
    link = Link(client, agent, journal, lambda: _credentials(settings, client))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.start()
    link.start()
    _log.info("executor %s of node %s is there", __version__, settings.node)
    agent.run(settings.tick_s)
    link.stop()
    agent.close()
    backends.devices.close()
    journal.close()
    _log.info("executor leaves; placements go on running")
    return 0


def _dry_run(settings: Config) -> int:
    from antecast_executor import dryrun  # noqa: PLC0415 - the agent needs none of it

    if not settings.credentials_path.exists():
        raise ConfigError("a dry run enrolls nobody: run this node's executor once first")
    boot_id = read_boot_id()
    journal = Journal.copy_of(settings.journal_path, boot_id=boot_id)
    backends = devices.make(
        settings.devices, settings.state / "run", node=settings.node, sim_gpus=settings.sim_gpus
    )
    node = Node(backends.devices, backends.share, dryrun.OnlyLook(), Clock(), settings.logs_path)
    agent = Agent(node, journal, boot_id=boot_id)
    agent.start()
    client = Client(settings.url, ca_file=settings.ca_file)
    dryrun.run(client, _credentials(settings, client), agent, sys.stdout.write)
    return 0


def _credentials(settings: Config, client: Client) -> Credentials:
    """From their file; got with the join token, once, where there is none."""
    path = settings.credentials_path
    if path.exists():
        try:
            body = json.loads(config.read_secret(path))
            return Credentials(str(body["executor_id"]), str(body["secret"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: not the credentials of an executor") from error
    if settings.token_file is None:
        raise ConfigError("--token-file is needed")
    token = config.read_secret(settings.token_file)
    who = client.enroll(token, node=settings.node, version=__version__)
    config.write_secret(path, json.dumps({"executor_id": who.executor_id, "secret": who.secret}))
    _log.info("enrolled as %s", who.executor_id)
    return who


@contextlib.contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """Two executors with one state would undo each other's work."""
    handle = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(f"{state}: another executor runs on this state") from error
    finally:
        os.close(handle)


def _state_of(options: argparse.Namespace) -> Path:
    state = options.state or os.environ.get(config.PREFIX + "STATE")
    if state is None:
        raise ConfigError("--state is needed")
    return Path(state)


def _status(options: argparse.Namespace) -> int:
    path = _state_of(options) / "journal.sqlite"
    if not path.exists():
        raise ConfigError(f"{path}: there is no journal")
    journal = Journal.copy_of(path, boot_id=read_boot_id())
    accepted = journal.accepted()
    body = {
        "epoch": None if accepted is None else accepted.epoch,
        "generation": None if accepted is None else accepted.generation,
        "placements": [placement(item) for item in journal.records()],
        "events_to_deliver": len(journal.pending(limit=1_000_000)),
    }
    sys.stdout.write(json.dumps(body, indent=2) + "\n")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from antecast_executor import doctor  # noqa: PLC0415 - the agent needs none of it

    is_good = True
    for verdict, name, text in doctor.examine(_state_of(options), options.devices):
        is_good = is_good and verdict != "bad"
        sys.stdout.write(f"{verdict:4}  {clean(name, 60)}: {clean(text)}\n")
    return 0 if is_good else 1
