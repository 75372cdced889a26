"""Who holds which GPU: jobs by the scheduler, and where it says nothing, pods by the exporter's labels."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from data.telemetry.allocations import Allocation
from data.telemetry.tracks import Device, DeviceId, Numbers, Telemetry


class Holding(StrEnum):
    """What is known of who holds a GPU."""

    HELD = "held"
    PERHAPS = "perhaps"
    """Jobs hold some GPUs of its node, and nothing says which."""
    NOBODY = "nobody"
    UNKNOWN = "unknown"
    """Nothing tells of allocations."""


class Holder(NamedTuple):
    """A job or pod, and from when on it has the GPU; None where that is not known."""

    name: str
    since_s: float | None


@dataclass(frozen=True)
class Held:
    """Who holds a GPU at the end of the window.

    Attributes:
        holding: what is known.
        holders: who does; where `is_certain` is false, some of them.
        is_certain: whether each of them holds this very GPU.
    """

    holding: Holding
    holders: tuple[Holder, ...] = ()
    is_certain: bool = True

    @property
    def since_s(self) -> float | None:
        """From when on it is certain that somebody holds it; None where that is not known."""
        known = [one.since_s for one in self.holders if one.since_s is not None]
        if not self.is_certain:
            return max(known, default=None)
        return min(known, default=None) if len(known) == len(self.holders) else None


@dataclass(frozen=True)
class Holdings:
    """Who holds each GPU.

    Attributes:
        of: by device; those of which there is no telemetry, but which are given to a job, too.
        missing: the latter.
        of_nodes: by node where only numbers are known, how many of its GPUs are given out at least.
        notes: what could not be matched.
    """

    of: Mapping[DeviceId, Held]
    missing: tuple[DeviceId, ...]
    of_nodes: Mapping[str, int]
    notes: tuple[str, ...]


def holdings(telemetry: Telemetry, allocations: Sequence[Allocation] | None) -> Holdings:
    """Who holds each GPU at the end of the telemetry.

    Args:
        telemetry: what was measured.
        allocations: what the scheduler has given out; None where nobody has said.
    """
    found = {one.device: _by_labels(one, telemetry, allocations is not None) for one in telemetry.devices}
    if not allocations:
        return Holdings(found, (), {}, ())
    matching = _Matching(telemetry.devices)
    named: dict[DeviceId, list[Allocation]] = defaultdict(list)
    of_node: dict[str, list[Allocation]] = defaultdict(list)
    missing: dict[DeviceId, None] = {}
    for one in allocations:
        node = matching.node(one.node)
        if one.gpu is None:
            of_node[node].append(one)
            continue
        devices = matching.devices(node, one.gpu)
        for device in devices or [DeviceId(node, *one.gpu.split("/", 1))]:
            named[device].append(one)
            if not devices:
                missing[device] = None
    for device, given in named.items():
        found[device] = Held(Holding.HELD, tuple(Holder(one.job_id, one.since_s) for one in given))
    at_least, notes = _by_numbers(found, of_node, matching)
    return Holdings(found, tuple(sorted(missing, key=lambda one: one.order)), at_least, tuple(notes))


def _by_labels(device: Device, telemetry: Telemetry, is_told: bool) -> Held:
    """What labels say. Where none names a pod, on no GPU of the kind, that none is named says nothing."""
    pods = tuple(
        Holder(pod, float(times_s[0]) if times_s[0] > device.seen_s[0] else None)
        for pod, times_s in device.holders.items()
        if times_s[-1] >= device.seen_s[-1] or times_s[-1] > device.seen_s[-1] - _step_s(times_s)
    )
    if pods:
        return Held(Holding.HELD, pods)
    tells = telemetry.tells_pods_of_slices if device.device.instance else telemetry.tells_pods_of_gpus
    return Held(Holding.NOBODY if is_told or tells else Holding.UNKNOWN)


def _step_s(times_s: Numbers) -> float:
    """What lies between two samples of a series; those of another metric may lie between them."""
    return float(np.median(np.diff(times_s))) if len(times_s) > 1 else 0.0


def _by_numbers(
    found: dict[DeviceId, Held], of_node: Mapping[str, Sequence[Allocation]], matching: "_Matching"
) -> tuple[dict[str, int], list[str]]:
    """Fill in what numbers of GPUs per node say of GPUs that nobody is named for."""
    at_least: dict[str, int] = {}
    notes = []
    for node, given in sorted(of_node.items()):
        left = [one for one in matching.of_node(node) if found[one].holding is not Holding.HELD]
        gpus = len({one.gpu for one in left})
        known = [one.num_gpus for one in given if one.num_gpus is not None]
        is_counted = len(known) == len(given)
        if not matching.of_node(node):
            jobs = ", ".join(sorted({one.job_id for one in given})[:3])
            notes.append(f"node {node}: jobs run on it ({jobs}), and there is no telemetry of it")
            continue
        if sum(known) > gpus:
            notes.append(f"node {node}: jobs hold {sum(known)} GPUs, there is telemetry of {gpus}")
        holders = tuple(Holder(one.job_id, one.since_s) for one in given)
        is_all = sum(known) >= gpus
        is_certain = is_all and is_counted and len(holders) == 1
        at_least[node] = min(gpus, sum(known))
        held = Held(Holding.HELD if is_all else Holding.PERHAPS, holders, is_certain)
        found.update(dict.fromkeys(left, held))
    return at_least, notes


class _Matching:
    """Finds the devices that a scheduler speaks of: nodes with or without their domain, GPUs by any name."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._nodes: dict[str, list[Device]] = defaultdict(list)
        for one in devices:
            self._nodes[one.device.node].append(one)
        short: dict[str, list[str]] = defaultdict(list)
        for name in self._nodes:
            short[name.partition(".")[0]].append(name)
        self._short = {name: full[0] for name, full in short.items() if len(full) == 1}

    def node(self, name: str) -> str:
        """The node's name in the telemetry; as it is where there is none such."""
        if name in self._nodes:
            return name
        return self._short.get(name.partition(".")[0], name)

    def of_node(self, node: str) -> list[DeviceId]:
        """Its devices."""
        return [one.device for one in self._nodes.get(node, ())]

    def devices(self, node: str, gpu: str) -> list[DeviceId]:
        """Devices of an index (all slices of it), of index/slice, or of a UUID."""
        devices = self._nodes.get(node, ())
        exact = [one.device for one in devices if gpu == one.device.shown]
        index = gpu.partition("/")[0]
        whole = [one.device for one in devices if one.device.gpu == index and not one.device.instance]
        same = [one.device for one in devices if gpu in (one.device.gpu, one.uuid)]
        return exact or whole or same
