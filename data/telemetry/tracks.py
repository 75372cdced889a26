"""Measurements of GPUs over time, gathered from series in any order: a device counts once."""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


class Metric(StrEnum):
    """The metrics of DCGM that are read."""

    UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
    """Percent of the time in which some kernel ran; not measured of MIG slices."""
    ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    """Share (0 to 1) of the time in which the engine was active; of slices, too."""
    MEMORY_USED = "DCGM_FI_DEV_FB_USED"
    """MiB."""
    MEMORY_FREE = "DCGM_FI_DEV_FB_FREE"
    """MiB."""


class DeviceId(NamedTuple):
    """A GPU, or a MIG slice of one.

    Attributes:
        node: the node's name.
        gpu: the GPU's index on it, as the exporter writes it.
        instance: of a slice, its id on the GPU; empty for a whole GPU.
    """

    node: str
    gpu: str
    instance: str = ""

    @property
    def shown(self) -> str:
        """The GPU, and after a slash its slice."""
        return f"{self.gpu}/{self.instance}" if self.instance else self.gpu

    @property
    def order(self) -> tuple[Any, ...]:
        """What devices are sorted by: numbers as numbers."""
        return (self.node, *((len(one), one) if one.isdigit() else (99, one) for one in self[1:]))


class Series(NamedTuple):
    """One time series of one metric of one device.

    Attributes:
        metric: what was measured.
        device: of what.
        uuid: the GPU's, empty where it is not told.
        profile: of a slice, its profile (`1g.10gb`); empty otherwise.
        holder: pod that the exporter says the device is given to; None where it says nobody.
        has_process: whether a label names a process on it.
        times_s: instants, epoch seconds.
        values: one each; NaN where nothing was measured, or what was says that it cannot be.
    """

    metric: Metric
    device: DeviceId
    uuid: str
    profile: str
    holder: str | None
    has_process: bool
    times_s: "array[float]"
    values: "array[float]"


class Track(NamedTuple):
    """Values of one metric in the order of time, each instant once; no value is missing."""

    times_s: Numbers
    values: Numbers

    def after(self, begin_s: float, end_s: float) -> "Track":
        """Its part later than `begin_s`, until `end_s`."""
        first, last = np.searchsorted(self.times_s, [begin_s, end_s], side="right")
        return Track(self.times_s[first:last], self.values[first:last])


NO_TRACK: Final = Track(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Device:
    """All that was measured of one GPU or slice.

    Attributes:
        device: which.
        uuid: the GPU's, empty where it is not told.
        profile: of a slice, its profile.
        tracks: by metric; those without any value are not there.
        holders: by pod, the instants at which the device is told to be given to it.
        process_s: instants at which a process is told to be on it.
        seen_s: all instants at which anything was told of it, also that nothing could be measured.
    """

    device: DeviceId
    uuid: str
    profile: str
    tracks: Mapping[Metric, Track]
    holders: Mapping[str, Numbers]
    process_s: Numbers
    seen_s: Numbers


@dataclass(frozen=True)
class Telemetry:
    """What was measured of a cluster.

    Attributes:
        devices: by their order; a GPU that is told by its slices is not there itself.
        tells_pods_of_gpus: whether any whole GPU is said to be a pod's: then the others are nobody's.
        tells_pods_of_slices: the same of slices.
        notes: how many series or samples were not taken, by why.
    """

    devices: tuple[Device, ...]
    tells_pods_of_gpus: bool
    tells_pods_of_slices: bool
    notes: Mapping[str, int]

    @property
    def end_s(self) -> float:
        """The last instant of any device; minus infinity where there is none."""
        return max((float(one.seen_s[-1]) for one in self.devices), default=float("-inf"))


@dataclass
class _Parts:
    uuids: set[str] = field(default_factory=set)
    profiles: set[str] = field(default_factory=set)
    times_s: dict[Metric, "array[float]"] = field(default_factory=dict)
    values: dict[Metric, "array[float]"] = field(default_factory=dict)
    holders: dict[str, "array[float]"] = field(default_factory=dict)
    process_s: "array[float]" = field(default_factory=lambda: array("d"))


class Gathering:
    """Takes series one by one; what it has in the end does not depend on their order, nor on repetitions."""

    def __init__(self) -> None:
        self._parts: dict[DeviceId, _Parts] = {}
        self.notes: Final[Counter[str]] = Counter()

    def add(self, series: Series) -> None:
        """Take one series."""
        parts = self._parts.setdefault(series.device, _Parts())
        parts.uuids.add(series.uuid)
        parts.profiles.add(series.profile)
        parts.times_s.setdefault(series.metric, array("d")).extend(series.times_s)
        parts.values.setdefault(series.metric, array("d")).extend(series.values)
        if series.holder is not None:
            parts.holders.setdefault(series.holder, array("d")).extend(series.times_s)
        if series.has_process:
            parts.process_s.extend(series.times_s)

    def telemetry(self) -> Telemetry:
        """All that was taken, as devices."""
        sliced = {(one.node, one.gpu) for one in self._parts if one.instance}
        devices = []
        notes = Counter(self.notes)
        for one in sorted(self._parts, key=lambda device: device.order):
            if not one.instance and (one.node, one.gpu) in sliced:
                notes["GPUs told beside their own slices: the slices were taken"] += 1
                continue
            if any(map(len, self._parts[one].times_s.values())):
                devices.append(_device(one, self._parts[one]))
        return Telemetry(
            tuple(devices),
            any(one.holders for one in devices if not one.device.instance),
            any(one.holders for one in devices if one.device.instance),
            dict(sorted(notes.items())),
        )


def _device(device: DeviceId, parts: _Parts) -> Device:
    tracks = {
        metric: track
        for metric in Metric
        if metric in parts.times_s
        and len((track := _track(parts.times_s[metric], parts.values[metric])).times_s)
    }
    return Device(
        device,
        max(parts.uuids),
        max(parts.profiles),
        tracks,
        {holder: _instants(parts.holders[holder]) for holder in sorted(parts.holders)},
        _instants(parts.process_s),
        np.unique(np.concatenate([_instants(one) for one in parts.times_s.values()])),
    )


def _instants(times_s: "array[float]") -> Numbers:
    return np.unique(np.frombuffer(times_s, np.float64)) if times_s else np.empty(0)


def _track(times_s: "array[float]", values: "array[float]") -> Track:
    """Each instant once, with the largest of its values: a device that is told once per pod counts once."""
    times, found = np.frombuffer(times_s, np.float64), np.frombuffer(values, np.float64)
    is_known = ~np.isnan(found)
    times, found = times[is_known], found[is_known]
    if not len(times):
        return NO_TRACK
    order = np.lexsort((found, times))
    times, found = times[order], found[order]
    is_last = np.append(times[1:] != times[:-1], [True])
    return Track(times[is_last], found[is_last])
