"""Nodes of Kubernetes, and queues with quotas: ClusterQueues of Kueue, Queues of Volcano and KAI."""

from collections.abc import Iterator
from typing import Final

from data.formats import kubernetes
from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.rows import Row
from data.kubernetes.gangs import RANKS
from data.kubernetes.nodes import INVENTORY_KINDS


def sniff(head: Head) -> Match | None:
    """Objects of which some are nodes or queues and none stands for work."""
    kinds = kubernetes.kinds_of(head)
    found = sorted(INVENTORY_KINDS.intersection(kinds))
    if not found or any(kind == "Pod" or kind in RANKS for kind in kinds):
        return None
    return Match(0.97, f"objects of Kubernetes of kind {', '.join(found)}")


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: an object or an event each; pods and Jobs further down are read as such."""
    yield from kubernetes.rows(reading)


FORMAT: Final = Format(
    "kubernetes-nodes", "Nodes and queues of Kubernetes, with their GPUs", Kind.INVENTORY, sniff, rows
)
