"""What every primitive is made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from antecast_executor.clock import Clock
from antecast_executor.conditions import ConditionState
from antecast_executor.interfaces import (
    Capability,
    DeviceBackend,
    EffectiveAt,
    Enforcement,
    InForce,
    ProcessBackend,
    ShareBackend,
)
from antecast_executor.record import Record


@dataclass(frozen=True, slots=True)
class Node:
    """What a primitive acts on."""

    devices: DeviceBackend
    share: ShareBackend
    processes: ProcessBackend
    clock: Clock
    logs: Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far a primitive came, and what the back-end said."""

    state: ConditionState
    answer: InForce | None = None
    reason: str | None = None


class Primitive(Protocol):
    """One way of acting on a placement; a module of this package is one.

    `apply` may raise DeviceError. `verify` is asked at every tick until the condition is verified or final;
    None means that nothing has changed.
    """

    def supported(self, node: Node) -> Capability:
        """Whether and how this node can do it."""
        ...

    def apply(self, node: Node, record: Record, value: float | None) -> Outcome:
        """Do it, and bring the record up to date."""
        ...

    def verify(self, node: Node, record: Record) -> Outcome | None:
        """See whether it holds now."""
        ...


def find(capabilities: Iterable[Capability], name: str) -> Capability:
    """The capability of that name; an unsupported one if the back-end does not know it."""
    for item in capabilities:
        if item.name == name:
            return item
    return Capability(name, False, Enforcement.UNSUPPORTED, EffectiveAt.NOW, "not known to this back-end")


def worker_pids(node: Node, record: Record) -> list[int]:
    """The processes of a placement that are clients of its GPU's MPS daemon."""
    if record.process is None or not record.is_under_mps:
        return []
    clients = set(node.share.clients(record.placement.gpus[0]))
    return [pid for pid in node.processes.pids(record.placement_id, record.process) if pid in clients]
