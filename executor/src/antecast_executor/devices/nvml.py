"""The GPUs of this machine, through `pynvml` of nvidia-ml-py; read only.

A reading that fails is None with a reason and hides no other; a GPU that fails hides no other GPU.
"""

import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from antecast_executor.interfaces import (
    Capability,
    Device,
    DeviceError,
    EffectiveAt,
    Enforcement,
    GpuProcess,
    Reading,
)

_MIB = 1024 * 1024
_INIT_NO_GPUS = 1  # a node whose only GPU is lost still answers

_UNINITIALISED, _INVALID_ARGUMENT, _NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND = 1, 2, 3, 4, 6
_NO_DRIVER, _NO_LIBRARY, _NO_FUNCTION, _LOST, _RESET_REQUIRED = 9, 12, 13, 15, 16
_VERSION_MISMATCH, _ARGUMENT_VERSION = 18, 25

_LIBRARY_CODES = {
    _UNINITIALISED: "no_driver",
    _NO_DRIVER: "no_driver",
    _NO_LIBRARY: "no_library",
    _VERSION_MISMATCH: "version_mismatch",
}
_REASONS = {
    _NOT_SUPPORTED: "not_supported",
    _NO_FUNCTION: "not_supported",
    _ARGUMENT_VERSION: "not_supported",
    _NO_PERMISSION: "no_permission",
    _NOT_FOUND: "not_found",
    _LOST: "lost",
    _RESET_REQUIRED: "lost",
}
_NO_MEMORY_V2 = {_NO_FUNCTION, _ARGUMENT_VERSION, _NOT_SUPPORTED, _INVALID_ARGUMENT}


class NvmlDevices:
    """`DeviceBackend` over the NVIDIA driver's own library."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._is_ready = False
        # A GPU that falls off the bus has no UUID any more: what was seen before says which one it was.
        self._seen: dict[str, Device] = {}

    def devices(self) -> Sequence[Device]:
        """All GPUs; those that were there before and are not any more are listed as lost."""
        with self._lock:
            nvml = self._library()
            count = self._call(nvml.nvmlDeviceGetCount)
            found: dict[str, Device] = {}
            nameless: list[Device] = []
            for index in range(count):
                device = self._device(nvml, index)
                if device.uuid:
                    found[device.uuid] = device
                else:
                    nameless.append(device)
            gone = [_lost(item, nameless) for uuid, item in self._seen.items() if uuid not in found]
            self._seen |= found
            unknown = nameless[len(gone) :]
            return sorted([*found.values(), *gone, *unknown], key=lambda item: item.index)

    def processes(self, uuid: str) -> Sequence[GpuProcess]:
        """Who holds memory on a GPU. Under MPS the driver may name the server instead of its clients."""
        with self._lock:
            nvml = self._library()
            handle = self._handle(nvml, uuid)
            found: dict[int, GpuProcess] = {}
            # The MPS list came later than the other one: an older library does not know it.
            for name in (
                "nvmlDeviceGetComputeRunningProcesses_v3",
                "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            ):
                try:
                    listed = getattr(nvml, name)(handle)
                except nvml.NVMLError as error:
                    if _code(error) not in (_NO_FUNCTION, _NOT_SUPPORTED, _NOT_FOUND):
                        raise self._error(error) from error
                    continue
                for item in listed:
                    found[int(item.pid)] = GpuProcess(int(item.pid), _mib_or_none(item.usedGpuMemory))
            return [found[pid] for pid in sorted(found)]

    def capabilities(self) -> Sequence[Capability]:
        """Whether the library and the driver answer."""
        try:
            with self._lock:
                nvml = self._library()
                version = str(self._call(nvml.nvmlSystemGetDriverVersion))
        except DeviceError as error:
            return [_capability(False, f"{error.code}: {error}")]
        return [_capability(True, f"driver {version}")]

    def close(self) -> None:
        """Let the library go; the next call takes it again."""
        with self._lock:
            self._drop()

    def _library(self) -> Any:
        """The library, initialised: once, and anew after a driver reload."""
        if self._nvml is None:
            try:
                self._nvml = importlib.import_module("pynvml")
            except ImportError as error:
                raise DeviceError("no_library", "nvidia-ml-py is not installed") from error
        if not self._is_ready:
            try:
                self._nvml.nvmlInitWithFlags(_INIT_NO_GPUS)
            except self._nvml.NVMLError as error:
                raise self._error(error) from error
            self._is_ready = True
        return self._nvml

    def _drop(self) -> None:
        if self._is_ready:
            self._is_ready = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                return  # it is gone already, which is what was wanted

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except self._nvml.NVMLError as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> DeviceError:
        """The error for callers; where driver or library are gone, initialise anew next time."""
        code = _code(error)
        if code in _LIBRARY_CODES:
            self._drop()
        word = _LIBRARY_CODES.get(code) or ("lost" if _REASONS.get(code) == "lost" else "error")
        return DeviceError(word, _text(error))

    def _handle(self, nvml: Any, uuid: str) -> Any:
        try:
            return nvml.nvmlDeviceGetHandleByUUID(uuid)
        except nvml.NVMLError as error:
            if _code(error) in (_NOT_FOUND, _INVALID_ARGUMENT):
                code = "lost" if uuid in self._seen else "unknown_uuid"
                raise DeviceError(code, f"no GPU {uuid}") from error
            raise self._error(error) from error

    def _device(self, nvml: Any, index: int) -> Device:
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError as error:
            if _code(error) in _LIBRARY_CODES:
                raise self._error(error) from error
            return _unreadable("", index, "", _reason(error))
        read = _Reader(nvml, handle)
        total, reserved, used = read.memory_mib()
        utilisation = read.value(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        temperature = read.value(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        return Device(
            uuid=uuid,
            index=index,
            name=read.text(lambda: nvml.nvmlDeviceGetName(handle)),
            memory_total_mib=total,
            memory_reserved_mib=reserved,
            memory_used_mib=used,
            utilisation_pct=utilisation,
            temperature_c=temperature,
            is_mig=read.value(lambda: nvml.nvmlDeviceGetMigMode(handle)[0]).value == 1,
            is_lost=read.is_lost,
            reason="lost" if read.is_lost else "",
        )


class _Reader:
    """Takes one GPU's readings and notices when it is lost meanwhile."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self.is_lost = False

    def value(self, function: Callable[[], Any]) -> Reading:
        try:
            return Reading(float(function()))
        except self._nvml.NVMLError as error:
            return Reading(None, self._note(error))

    def text(self, function: Callable[[], Any]) -> str:
        try:
            return str(function())
        except self._nvml.NVMLError as error:
            self._note(error)
            return ""

    def memory_mib(self) -> tuple[Reading, Reading, Reading]:
        """Total, reserved and used. The first version of the call counts what is reserved as used."""
        nvml = self._nvml
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(self._handle, version=nvml.nvmlMemory_v2)
            return _mib(memory.total), _mib(memory.reserved), _mib(memory.used)
        except nvml.NVMLError as error:
            if _code(error) not in _NO_MEMORY_V2:
                nothing = Reading(None, self._note(error))
                return nothing, nothing, nothing
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(self._handle)
            return _mib(memory.total), Reading(None, "not_supported"), _mib(memory.used)
        except nvml.NVMLError as error:
            nothing = Reading(None, self._note(error))
            return nothing, nothing, nothing

    def _note(self, error: Exception) -> str:
        reason = _reason(error)
        self.is_lost = self.is_lost or reason == "lost"
        return reason


def _code(error: Exception) -> int:
    return int(getattr(error, "value", 999))


def _reason(error: Exception) -> str:
    return _REASONS.get(_code(error), "error")


def _text(error: Exception) -> str:
    # Not str(): for a code it does not know that calls into the library, which may be gone.
    return f"{type(error).__name__} ({_code(error)})"


def _mib(size: int) -> Reading:
    return Reading(size / _MIB)


def _mib_or_none(size: int | None) -> Reading:
    return Reading(None, "not_supported") if size is None else _mib(size)


def _unreadable(uuid: str, index: int, name: str, reason: str) -> Device:
    nothing = Reading(None, reason)
    return Device(uuid, index, name, nothing, nothing, nothing, nothing, nothing, is_lost=True, reason=reason)


def _lost(device: Device, nameless: Sequence[Device]) -> Device:
    """What is left of a GPU that was seen before; the reason is its index's, if that still answers."""
    reasons = {item.index: item.reason for item in nameless}
    return _unreadable(device.uuid, device.index, device.name, reasons.get(device.index, "not_found"))


def _capability(is_supported: bool, reason: str) -> Capability:
    enforcement = Enforcement.NATIVE if is_supported else Enforcement.UNSUPPORTED
    return Capability("read_devices", is_supported, enforcement, EffectiveAt.NOW, reason)
