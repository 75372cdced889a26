"""Devices and sharing of a simulated world, behind the same interfaces as the real ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from antecast_executor.devices import mps, names, world
from antecast_executor.interfaces import (
    Capability,
    Device,
    DeviceError,
    EffectiveAt,
    Enforcement,
    GpuProcess,
    InForce,
    Reading,
)

_LOST = Reading(None, "lost")


class SimDevices:
    """`DeviceBackend` over a world. Utilisation is the sum of the shares in use, nothing finer."""

    def __init__(self, of: world.World) -> None:
        """Look at this world."""
        self._world = of

    def devices(self) -> Sequence[Device]:
        """All GPUs of the world."""
        with self._world.edit() as state:
            _check_driver(state)
            seen = self._world.users
            return [_device(index, gpu, state, seen) for index, gpu in enumerate(state["gpus"])]

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        """The live processes whose environment names the GPU."""
        with self._world.edit() as state:
            _check_driver(state)
            if world.gpu_of(state, uuid)["is_lost"]:
                raise DeviceError("lost", f"GPU {uuid} is lost")
            return [
                GpuProcess(user.pid, Reading(float(user.memory_mib)))
                for user in self._world.users
                if uuid in user.uuids
            ]

    def capabilities(self) -> Sequence[Capability]:
        """Whether the pretended driver answers."""
        with self._world.edit() as state:
            is_ok = state["driver"] == "ok"
            by = Enforcement.NATIVE if is_ok else Enforcement.UNSUPPORTED
            reason = "simulated" if is_ok else f"{state['driver']}: simulated"
            return [Capability("read_devices", is_ok, by, EffectiveAt.NOW, reason)]

    def close(self) -> None:
        """Nothing is held."""


class SimShare:
    """`ShareBackend` over a world."""

    def __init__(self, of: world.World) -> None:
        """Share this world's GPUs."""
        self._world = of

    def ensure(self, uuid: str) -> None:
        """See to it that the daemon runs, with the cap that was asked for last."""
        names.checked_uuid(uuid)
        with self._world.edit() as state:
            if _usable(state, uuid)["is_mig"]:
                raise DeviceError("mig", f"GPU {uuid} is in MIG mode")
            daemon = state["mps"].setdefault(
                uuid, {"is_running": False, "cap_pct": 100.0, "wanted_pct": 100.0, "server": None}
            )
            if not daemon["is_running"]:
                daemon |= {"is_running": True, "cap_pct": daemon["wanted_pct"]}

    def client_env(
        self, uuid: str, *, share_pct: float, memory_mib: int | None, priority: int
    ) -> Mapping[str, str]:
        """What a worker's environment has to hold to attach. A cap below its share is raised first."""
        names.checked_uuid(uuid)
        share = names.checked_share(share_pct)
        env = names.mps_env(uuid, share, memory_mib, priority)
        with self._world.edit() as state:
            _usable(state, uuid)
            daemon = state["mps"].get(uuid)
            if daemon and daemon["wanted_pct"] < share:
                _cap(daemon, share)
            return env | {world.MARK: world.mark(state, uuid, share, memory_mib)}

    def set_share(self, uuid: str, pid: int | None, share_pct: float) -> InForce:
        """Cap all workers that start from now on; or, with `pid`, read what holds for that worker."""
        names.checked_uuid(uuid)
        share = names.checked_share(share_pct)
        with self._world.edit() as state:
            daemon = _daemon(state, uuid)
            if pid is not None:
                found = [item["share_pct"] for item in _clients(daemon) if item["pid"] == pid]
                if found:
                    return mps.of_live_client(share, float(found[0]))
                return InForce(share, None, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, "not_attached")
            _cap(daemon, share)
            at = EffectiveAt.NEXT_CLIENT if daemon["server"] else EffectiveAt.NEXT_SERVER
            return InForce(share, share, at, Enforcement.NATIVE)

    def clients(self, uuid: str) -> Sequence[int]:
        """Who is attached; none where no daemon was ever started."""
        names.checked_uuid(uuid)
        with self._world.edit() as state:
            _usable(state, uuid)
            if uuid not in state["mps"]:
                return []
            return sorted(item["pid"] for item in _clients(_daemon(state, uuid)))

    def terminate_client(self, uuid: str, pid: int) -> None:
        """Take a client off; its process lives on, and never attaches again."""
        names.checked_uuid(uuid)
        with self._world.edit() as state:
            for item in _clients(_daemon(state, uuid)):
                if item["pid"] == pid:
                    item["is_terminated"] = True

    def release(self, uuid: str) -> None:
        """Stop the daemon; never under a client."""
        names.checked_uuid(uuid)
        with self._world.edit() as state:
            daemon = state["mps"].get(uuid)
            if daemon and daemon["is_running"] and _clients(daemon):
                raise DeviceError("in_use", f"the daemon of {uuid} has clients")
            state["mps"].pop(uuid, None)

    def capabilities(self) -> Sequence[Capability]:
        """What real MPS can do, and no more."""
        return mps.capabilities(True, "simulated")


def _check_driver(state: world.State) -> None:
    if state["driver"] != "ok":
        raise DeviceError(state["driver"], "the simulated driver does not answer")


def _usable(state: world.State, uuid: str) -> dict[str, Any]:
    _check_driver(state)
    gpu = world.gpu_of(state, uuid)
    if gpu["is_lost"]:
        raise DeviceError("lost", f"GPU {uuid} is lost")
    return gpu


def _daemon(state: world.State, uuid: str) -> world.State:
    _usable(state, uuid)
    daemon: world.State = state["mps"].get(uuid, {})
    if not daemon.get("is_running"):
        raise DeviceError("no_daemon", f"no daemon runs for {uuid}")
    return daemon


def _clients(daemon: world.State) -> list[dict[str, Any]]:
    listed = daemon["server"]["clients"] if daemon["server"] else []
    return [item for item in listed if not item["is_terminated"]]


def _cap(daemon: world.State, share: float) -> None:
    daemon |= {"wanted_pct": share, "cap_pct": share}
    if daemon["server"]:
        daemon["server"]["cap_pct"] = share


def _device(index: int, gpu: dict[str, Any], state: world.State, seen: Sequence[world.User]) -> Device:
    if gpu["is_lost"]:
        return Device(
            gpu["uuid"], index, gpu["name"], _LOST, _LOST, _LOST, _LOST, _LOST, is_lost=True, reason="lost"
        )
    here = [user for user in seen if gpu["uuid"] in user.uuids]
    daemon = state["mps"].get(gpu["uuid"])
    shares = {item["pid"]: item["share_pct"] for item in _clients(daemon)} if daemon else {}
    busy = sum(100.0 if user.share_pct is None else shares.get(user.pid, 0.0) for user in here)
    return Device(
        uuid=gpu["uuid"],
        index=index,
        name=gpu["name"],
        memory_total_mib=Reading(float(gpu["memory_total_mib"])),
        memory_reserved_mib=Reading(float(gpu["memory_reserved_mib"])),
        memory_used_mib=Reading(float(sum(user.memory_mib for user in here))),
        utilisation_pct=Reading(min(100.0, busy)),
        temperature_c=Reading(float(gpu["temperature_c"])),
        is_mig=bool(gpu["is_mig"]),
    )
