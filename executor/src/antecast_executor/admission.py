"""Whether a document can be carried out on this node: fencing, devices, capacity, abilities."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from antecast_executor.document import Document, Placement, Refusal, Role, shares
from antecast_executor.interfaces import Device

# Shares are sums of decimal fractions: a rounding error is no overcommitment.
SHARE_TOLERANCE_PCT = 1e-6
MOST_ON_A_GPU = 2
"""Placements that may share a GPU (Gimbal's rule); so their shares add up to 200 % at most."""
_PACKED = {Role.HOST, Role.RIDER}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a document is checked against.

    Attributes:
        devices: the GPUs by UUID.
        can: the names of the primitives that are supported here.
        has_mps: whether MPS caps can be had.
        started: the placements that this node has started and that have not been forgotten, by id.
        spent: ids of placements that ended here before: they cannot be started again.
    """

    devices: Mapping[str, Device]
    can: frozenset[str]
    has_mps: bool
    started: Mapping[str, Placement] = field(default_factory=dict)
    spent: frozenset[str] = frozenset()


def refusals(
    document: Document, *, last: tuple[tuple[int, int], str] | None, node: NodeFacts
) -> tuple[Refusal, ...]:
    """Why the document has to be refused; empty if it can be accepted.

    Args:
        document: what is wanted.
        last: (epoch, generation) and hash of the document that was accepted last.
        node: what there is.
    """
    fence = _fencing(document, last)
    if fence is not None:
        return (fence,)
    found: list[Refusal] = []
    for placement in document.placements:
        before = node.started.get(placement.placement_id)
        found.extend(_changed(placement, before) if before is not None else _new(placement, node))
        found.extend(_abilities(placement, node))
    found.extend(_capacity(document, node))
    return tuple(found)


def _fencing(document: Document, last: tuple[tuple[int, int], str] | None) -> Refusal | None:
    if last is None:
        return None
    version, hash_ = last
    if document.version < version:
        return Refusal(None, "stale_generation", f"{document.version} is older than {version}")
    if document.version == version and document.hash != hash_:
        return Refusal(None, "stale_generation", f"{version} has been accepted with another content")
    return None


def _changed(placement: Placement, before: Placement) -> Iterator[Refusal]:
    if placement.command() != before.command():
        yield Refusal(
            placement.placement_id,
            "unsupported",
            "command, environment, GPUs, memory and ranks of a started placement are fixed: take a new id",
        )


def _new(placement: Placement, node: NodeFacts) -> Iterator[Refusal]:
    name = placement.placement_id
    if name in node.spent:
        # Not a fault of the document: the run it names is over, and stays so.
        return
    for uuid in placement.gpus:
        device = node.devices.get(uuid)
        if device is None:
            yield Refusal(name, "unknown_uuid", f"this node has no GPU {uuid}")
        elif device.is_lost:
            yield Refusal(name, "device_lost", f"GPU {uuid} is lost: {device.reason}")
        elif device.is_mig and placement.share_pct < 100:
            yield Refusal(name, "unsupported", f"GPU {uuid} is a MIG device: it takes no share below 100 %")


def _abilities(placement: Placement, node: NodeFacts) -> Iterator[Refusal]:
    name = placement.placement_id
    if "launch" not in node.can:
        yield Refusal(name, "unsupported", "this node cannot start processes")
    if placement.state == "paused" and "pause" not in node.can:
        yield Refusal(name, "unsupported", "this node cannot pause processes")
    if placement.share_pct < 100 and not (node.has_mps or "squeeze" in node.can):
        yield Refusal(name, "unsupported", "this node has no means for a share below 100 %")


def _capacity(document: Document, node: NodeFacts) -> Iterator[Refusal]:
    live = [item for item in document.placements if item.placement_id not in node.spent]
    for uuid, sharers in shares(live).items():
        device = node.devices.get(uuid)
        if len(sharers) > 1:
            yield from _sharing(uuid, sharers, device)
        yield from _memory(uuid, sharers, device)


def _sharing(uuid: str, sharers: Sequence[Placement], device: Device | None) -> Iterator[Refusal]:
    """A share is a cap and no partition: the two of a packed pair may have up to 100 % each.

    For all others more than 100 % is a GPU given away twice by mistake.
    """
    total = sum(item.highest_pct for item in sharers)
    reason, message = "", ""
    if len(sharers) > MOST_ON_A_GPU:
        reason, message = "overcommit", f"{len(sharers)} placements are to share GPU {uuid}: two at most"
    elif device is not None and device.is_mig:
        reason, message = "unsupported", f"GPU {uuid} is a MIG device: it takes one placement"
    elif total > 100 + SHARE_TOLERANCE_PCT and {item.role for item in sharers} != _PACKED:
        message = f"shares of GPU {uuid} add up to {total:g} %: above 100 only for a host and its rider"
        reason = "overcommit"
    if reason:
        for item in sharers:
            yield Refusal(item.placement_id, reason, message)


def _memory(uuid: str, sharers: Sequence[Placement], device: Device | None) -> Iterator[Refusal]:
    asked = sum(item.memory_mib or 0 for item in sharers)
    if device is None or device.memory_total_mib.value is None:
        return
    there = device.memory_total_mib.value - (device.memory_reserved_mib.value or 0.0)
    if asked > there:
        for item in sharers:
            if item.memory_mib is not None:
                message = f"{asked} MiB are asked of GPU {uuid}, which has {there:g}"
                yield Refusal(item.placement_id, "overcommit", message)
