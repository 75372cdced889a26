"""Another policy, with settings of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from domain.changes.base import Calendar, OnWorld, World
from domain.changes.reading import Entry


@dataclass(frozen=True)
class OtherPolicy(OnWorld):
    """`policy`, and `set`: its settings, its defaults where not named."""

    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "policy"
    example: ClassVar[Mapping[str, object]] = {
        "kind": "policy",
        "policy": "reclaim",
        "set": {"requeueable": 1},
    }

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`policy`, perhaps `set`."""
        return cls(entry.text("policy"), entry.settings("set") if entry.has("set") else {})

    def on_world(self, world: World) -> World:
        """The policy; whether there is one, and what it can set, is for whoever knows policies."""
        return replace(world, policy=self.policy, settings=dict(self.settings))
