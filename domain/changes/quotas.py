"""Other quotas of several pools at once, of the GPUs that there are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from domain.changes.base import Calendar, OnWorld, World
from domain.changes.reading import Entry

_MAX_GPUS: Final = 1_000_000


@dataclass(frozen=True)
class Quotas(OnWorld):
    """`gpus`: a table of quotas by pool. Together with those not named they may not exceed today's GPUs."""

    gpus: Mapping[str, int]

    kind: ClassVar[str] = "quotas"
    example: ClassVar[Mapping[str, object]] = {"kind": "quotas", "gpus": {"a": 2, "b": 6}}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`gpus`."""
        return cls(entry.wholes("gpus", 0, _MAX_GPUS))

    def on_world(self, world: World) -> World:
        """The quotas that are named."""
        for pool in sorted(self.gpus):
            world.require_pool(pool)
        quotas = {**world.quotas, **self.gpus}
        world.require_room(quotas, world.capacity_gpus)
        return replace(world, quotas=quotas)
