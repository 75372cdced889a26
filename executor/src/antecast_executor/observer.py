"""What there is on the node now: its GPUs, and a way to wait until something ends."""

import contextlib
import logging
import os
import select
from collections.abc import Iterable
from dataclasses import replace

from antecast_executor.interfaces import (
    Capability,
    Device,
    DeviceBackend,
    DeviceError,
    ProcessId,
    Reading,
)
from antecast_executor.primitives import PRIMITIVES, Node

_log = logging.getLogger(__name__)


class Observer:
    """Looks at the GPUs, and remembers those that are gone."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.devices: dict[str, Device] = {}
        self.capabilities: tuple[Capability, ...] = ()
        self.can: frozenset[str] = frozenset()
        self.fault = ""

    def look(self) -> list[tuple[str, Device]]:
        """Look, and say which GPUs are lost (`device_lost`) and which are back (`device_back`)."""
        found = self._read(self._node.devices)
        changes = []
        for uuid, before in self.devices.items():
            now = found.get(uuid)
            if now is None:
                found[uuid] = now = _gone(before, self.fault or "it is no longer listed")
            if now.is_lost != before.is_lost:
                changes.append(("device_lost" if now.is_lost else "device_back", now))
        first = [
            ("device_lost", item) for uuid, item in found.items() if item.is_lost and uuid not in self.devices
        ]
        self.devices = found
        return changes + first

    def _read(self, backend: DeviceBackend) -> dict[str, Device]:
        try:
            found = {item.uuid: item for item in backend.devices()}
        except DeviceError as error:
            if error.code != self.fault:
                _log.error("GPUs cannot be read (%s): %s", error.code, error)
            self.fault = error.code
            return {}
        self.fault = ""
        return found

    def probe(self) -> None:
        """Ask what the node can do."""
        can = {name: item.supported(self._node) for name, item in PRIMITIVES.items()}
        primitives = [replace(item, name=name) for name, item in can.items()]
        known = [*self._node.devices.capabilities(), *self._node.share.capabilities()]
        names = {item.name for item in primitives}
        processes = self._node.processes.capabilities()
        others = [item for item in (*known, *processes) if item.name not in names]
        self.capabilities = (*primitives, *others)
        self.can = frozenset(name for name, item in can.items() if item.supported)

    @property
    def lost(self) -> frozenset[str]:
        """UUIDs of GPUs that cannot be used now."""
        return frozenset(uuid for uuid, item in self.devices.items() if item.is_lost)


def _gone(device: Device, reason: str) -> Device:
    unknown = Reading(None, "lost")
    return replace(
        device,
        memory_total_mib=unknown,
        memory_reserved_mib=unknown,
        memory_used_mib=unknown,
        utilisation_pct=unknown,
        temperature_c=unknown,
        is_lost=True,
        reason=reason,
    )


class Waker:
    """Sleeps until the time is up, a supervisor ends, or somebody calls."""

    def __init__(self) -> None:
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._watched: dict[ProcessId, int] = {}

    def ring(self) -> None:
        """Wake the sleeper; may be called from a signal handler or another thread."""
        os.eventfd_write(self._bell, 1)

    def watch(self, processes: Iterable[ProcessId]) -> None:
        """From now on wake when one of these ends, and for no other."""
        wanted = set(processes)
        for process in self._watched.keys() - wanted:
            self._drop(process)
        for process in wanted - self._watched.keys():
            # One that has gone already is seen by the next look at it.
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(process.pid)
                self._watched[process] = handle
                self._poll.register(handle, select.POLLIN)

    def _drop(self, process: ProcessId) -> None:
        handle = self._watched.pop(process)
        self._poll.unregister(handle)
        os.close(handle)

    def sleep(self, seconds: float) -> None:
        """Until one of the three."""
        events = self._poll.poll(max(0.0, seconds) * 1000.0)
        ended = {handle for handle, _ in events} - {self._bell}
        for process in [item for item, handle in self._watched.items() if handle in ended]:
            self._drop(process)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def close(self) -> None:
        """Let all handles go."""
        self.watch(())
        os.close(self._bell)
