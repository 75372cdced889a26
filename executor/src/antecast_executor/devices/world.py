"""A node's GPUs that are not there: for demonstrations, for tests, and to try a plan without a GPU.

The world is one JSON file, so that it outlives whoever looks at it, as GPUs do: an executor that is killed
finds it as it left it. Who uses a GPU is not written down but seen: a process uses one if its environment
says so, for as long as it lives. What MPS does with it follows the real rules of scope:

- a daemon's default cap binds the next server, a server's cap the next clients;
- a client has the lesser of its own share and its server's cap, from its start to its end;
- a server with a fault takes no client until all it had have left; a new daemon knows no caps.

A process is taken for attached when the world is next looked at, and every change of a cap looks first.
Change the file, or call `set_gpu`, `fault` and `kill_daemon`, to make things go wrong.
"""

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antecast_executor.interfaces import DeviceError
from antecast_executor.processes import procfs

MARK = "ANTECAST_SIM_CLIENT"
MEMORY = "ANTECAST_SIM_MEMORY_MIB"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
MAX_CLIENTS = 48
CONTEXT_MIB = 512
_LOCK_WAIT_S = 10.0
_POLL_S = 0.002

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    """A process that uses GPUs, as its environment says.

    Attributes:
        uuids: the GPUs.
        share_pct: its own MPS share; None if it runs without MPS.
        memory_mib: what it holds on each of them.
    """

    pid: int
    start_ticks: int
    uuids: tuple[str, ...]
    share_pct: float | None
    memory_mib: int


class World:
    """The GPUs of one simulated node, in `folder`/world.json.

    Attributes:
        users: the processes that used the GPUs when the world was last looked at.
    """

    def __init__(self, folder: Path) -> None:
        """Open a world that exists."""
        self._path = folder.absolute() / "world.json"
        self._lock = folder.absolute() / "world.lock"
        self.users: list[User] = []

    @classmethod
    def at(
        cls,
        folder: Path,
        *,
        node: str,
        gpus: int = 2,
        name: str = "Simulated GPU",
        memory_total_mib: int = 81_559,
        memory_reserved_mib: int = 561,
    ) -> "World":
        """The world in `folder`; made first if there is none. The node's name gives the GPUs their UUIDs."""
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        world = cls(folder)
        with world._locked():
            if not world._path.exists():
                listed = [
                    {
                        "uuid": _uuid(node, index),
                        "name": name,
                        "memory_total_mib": memory_total_mib,
                        "memory_reserved_mib": memory_reserved_mib,
                        "temperature_c": 40.0,
                        "is_mig": False,
                        "is_lost": False,
                    }
                    for index in range(gpus)
                ]
                world._save(
                    {"id": secrets.token_hex(8), "driver": "ok", "gpus": listed, "mps": {}, "servers": 0}
                )
        return world

    @contextmanager
    def edit(self) -> Iterator[State]:
        """The state as it is now, to read or to change; nobody else does so meanwhile.

        `users` then holds the processes that use the GPUs.

        Raises:
            DeviceError: `timeout` if another holds it for long, `error` if the file is damaged.
        """
        with self._locked():
            before = self._load()
            state = json.loads(json.dumps(before))
            self.users = _users(state)
            _attach(state, self.users)
            yield state
            if state != before:
                self._save(state)

    def set_gpu(self, uuid: str, **fields: Any) -> None:
        """Change a GPU: is_lost, temperature_c, is_mig, ... A lost GPU takes its MPS server with it."""
        with self.edit() as state:
            gpu = gpu_of(state, uuid)
            gpu.update(fields)
            server = state["mps"].get(uuid, {}).get("server")
            if gpu["is_lost"] and server:
                server["is_faulty"] = True

    def fault(self, uuid: str) -> None:
        """Let the GPU's MPS server have a fatal fault."""
        with self.edit() as state:
            server = state["mps"].get(uuid, {}).get("server")
            if server is None:
                raise DeviceError("no_server", f"no MPS server on {uuid}")
            server["is_faulty"] = True

    def kill_daemon(self, uuid: str) -> None:
        """Let the GPU's MPS daemon die; its server and clients go on."""
        with self.edit() as state:
            if uuid in state["mps"]:
                state["mps"][uuid] |= {"is_running": False, "cap_pct": 100.0}

    def set_driver(self, code: str) -> None:
        """Let the driver answer (`ok`) or fail (no_library, no_driver, version_mismatch)."""
        with self.edit() as state:
            state["driver"] = code

    @contextmanager
    def _locked(self) -> Iterator[None]:
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            deadline = time.monotonic() + _LOCK_WAIT_S
            while not _take(handle):
                if time.monotonic() > deadline:
                    raise DeviceError("timeout", f"{self._lock} is held by another")
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(handle)

    def _load(self) -> State:
        try:
            state = json.loads(self._path.read_text())
        except (OSError, ValueError) as error:
            raise DeviceError("error", f"{self._path}: {error}") from error
        if not isinstance(state, dict):
            raise DeviceError("error", f"{self._path}: not an object")
        return state

    def _save(self, state: Mapping[str, Any]) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(state, indent=1))
        draft.replace(self._path)


def gpu_of(state: State, uuid: str) -> dict[str, Any]:
    """One GPU.

    Raises:
        DeviceError: `unknown_uuid`.
    """
    for gpu in state["gpus"]:
        if gpu["uuid"] == uuid:
            found: dict[str, Any] = gpu
            return found
    raise DeviceError("unknown_uuid", f"no GPU {uuid}")


def mark(state: State, uuid: str, share_pct: float, memory_mib: int | None) -> str:
    """The value of MARK for a worker that is to attach to the GPU's MPS server."""
    return f"{state['id']} {uuid} {share_pct:g} {memory_mib or 0}"


def _users(state: State) -> list[User]:
    """The live processes that use this world's GPUs: of each tree the topmost only."""
    found: dict[int, User] = {}
    parents: dict[int, int] = {}
    for pid in procfs.all_pids():
        # Few processes name a GPU at all: the others are passed by quickly.
        text = procfs.read_text(f"/proc/{pid}/environ")
        if MARK not in text and _VISIBLE not in text:
            continue
        stat = procfs.stat(pid)
        user = _user(state, pid, stat.start_ticks, procfs.environ(pid)) if stat else None
        if stat and stat.is_running and user:
            found[pid] = user
            parents[pid] = stat.parent
    return [user for pid, user in sorted(found.items()) if parents[pid] not in found]


def _user(state: State, pid: int, start_ticks: int, environ: Mapping[str, str]) -> User | None:
    memory = environ.get(MEMORY, "")
    held_mib = int(memory) if memory.isdecimal() else CONTEXT_MIB
    match environ.get(MARK, "").split():
        case [world, uuid, share, cap] if world == state["id"]:
            # It asks for more than its cap in vain.
            held_mib = min(held_mib, int(cap)) if int(cap) else held_mib
            return User(pid, start_ticks, (uuid,), float(share), held_mib)
    ours = {gpu["uuid"] for gpu in state["gpus"]}
    visible = tuple(uuid for uuid in environ.get(_VISIBLE, "").split(",") if uuid in ours)
    return User(pid, start_ticks, visible, None, held_mib) if visible else None


def _attach(state: State, seen: list[User]) -> None:
    """Bring the MPS servers up to what lives now."""
    alive = {(user.pid, user.start_ticks) for user in seen}
    for uuid, mps in state["mps"].items():
        server = mps["server"]
        if server:
            server["clients"] = [
                item for item in server["clients"] if (item["pid"], item["start_ticks"]) in alive
            ]
            if server["is_faulty"] and not server["clients"]:
                mps["server"] = None
        known = {item["pid"] for item in mps["server"]["clients"]} if mps["server"] else set()
        for user in seen:
            if user.share_pct is not None and uuid in user.uuids and user.pid not in known:
                _take_in(state, mps, user)


def _take_in(state: State, mps: State, user: User) -> None:
    server = mps["server"]
    if not mps["is_running"] or (server and server["is_faulty"]):
        return
    if server is None:
        state["servers"] += 1
        server = mps["server"] = {
            "number": state["servers"],
            "cap_pct": mps["cap_pct"],
            "is_faulty": False,
            "clients": [],
        }
    if len(server["clients"]) < MAX_CLIENTS:
        server["clients"].append(
            {
                "pid": user.pid,
                "start_ticks": user.start_ticks,
                "share_pct": min(user.share_pct or 100.0, server["cap_pct"]),
                "is_terminated": False,
            }
        )


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _uuid(node: str, index: int) -> str:
    digits = hashlib.sha256(f"antecast/{node}/{index}".encode()).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"
