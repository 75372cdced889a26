"""How placements are acted on: one file and one line here for each primitive."""

from collections.abc import Mapping

from antecast_executor.primitives import launch, pause, resume, squeeze, stop, swell
from antecast_executor.primitives.base import Node, Outcome, Primitive

PRIMITIVES: Mapping[str, Primitive] = {
    "launch": launch,
    "pause": pause,
    "resume": resume,
    "stop": stop,
    "squeeze": squeeze,
    "swell": swell,
}

__all__ = ["PRIMITIVES", "Node", "Outcome", "Primitive"]
