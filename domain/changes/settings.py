"""Other settings of the same policy, such as eps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from domain.changes.base import Calendar, OnWorld, World
from domain.changes.reading import Entry


@dataclass(frozen=True)
class OtherSettings(OnWorld):
    """`set`: settings that change; the others stay."""

    settings: Mapping[str, str]

    kind: ClassVar[str] = "settings"
    example: ClassVar[Mapping[str, object]] = {"kind": "settings", "set": {"eps": 0.005}}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`set`."""
        return cls(entry.settings("set"))

    def on_world(self, world: World) -> World:
        """The settings."""
        return replace(world, settings={**world.settings, **self.settings})
