"""Give a running placement a smaller share: its MPS cap for the next client, and time slices meanwhile."""

from antecast_executor.interfaces import Capability
from antecast_executor.primitives import sharing
from antecast_executor.primitives.base import Node, Outcome
from antecast_executor.record import Record


def supported(node: Node) -> Capability:
    """By what means."""
    return sharing.means(node)


def apply(node: Node, record: Record, value: float | None) -> Outcome:
    """Squeeze it to `value` per cent."""
    return sharing.change(node, record, record.placement.share_pct if value is None else value)


def verify(node: Node, record: Record) -> Outcome | None:  # noqa: ARG001
    """Nothing more can be read: a running client keeps its MPS share, and time slices are advisory."""
    return None
