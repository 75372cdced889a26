"""Another quota of one pool: a number, or so many more or per cent more, from where it is said."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule, OnWorld, World
from domain.changes.reading import Entry

_MAX_GPUS: Final = 1_000_000
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True)
class Quota(OnWorld):
    """`pool` with `gpus`, or `by_gpus` or `by_pct` more (less where negative, rounded away from today's).

    `from` says who gives the GPUs, or gets them: another pool, or `others` in proportion to their quotas
    (largest remainder). Without it they are new GPUs, or gone; where nodes are known they are GPUs that
    nobody was promised, and there have to be so many.
    """

    pool: str
    how: str
    amount: float
    giver: str | None = None

    kind: ClassVar[str] = "quota"
    example: ClassVar[Mapping[str, object]] = {"kind": "quota", "pool": "a", "by_pct": 20}

    @classmethod
    def read(cls, entry: Entry, _calendar: Calendar) -> Self:
        """`pool`, one of `gpus`, `by_gpus`, `by_pct`, and perhaps `from`."""
        how = entry.one_of("gpus", "by_gpus", "by_pct")
        limits = {"gpus": (0, _MAX_GPUS), "by_gpus": (-_MAX_GPUS, _MAX_GPUS)}
        amount = entry.whole(how, *limits[how]) if how in limits else entry.number(how, -100.0, 10_000.0)
        giver = entry.text("from") if entry.has("from") else None
        pool = entry.text("pool")
        if giver == pool:
            raise BrokenRuleError(ChangeRule.WRONG_VALUE, f"from is {pool}, which is the pool itself")
        return cls(pool, how, float(amount), giver)

    def on_world(self, world: World) -> World:
        """Its quota, and that of who gives."""
        world.require_pool(self.pool)
        before = world.quotas[self.pool]
        more = self._wanted(before) - before
        quotas = {**world.quotas, self.pool: before + more}
        if self.giver is not None:
            quotas = self._given(quotas, world, more)
        world.require_room(quotas, world.capacity_gpus if world.nodes else sum(quotas.values()))
        return replace(world, quotas=quotas)

    def _wanted(self, before: int) -> int:
        if self.how == "gpus":
            return int(self.amount)
        if self.how == "by_gpus":
            return before + int(self.amount)
        more = before * self.amount / 100.0
        return before + int(math.copysign(math.ceil(round(abs(more), 9)), more))

    def _given(self, quotas: Mapping[str, int], world: World, more: int) -> dict[str, int]:
        if self.giver != OTHERS:
            world.require_pool(str(self.giver))
            return {**quotas, str(self.giver): quotas[str(self.giver)] - more}
        others = {pool: quota for pool, quota in quotas.items() if pool != self.pool}
        if more > sum(others.values()):
            raise BrokenRuleError(
                ChangeRule.TOO_FEW_GPUS, f"{more} GPUs are wanted, the others have {sum(others.values())}"
            )
        if more < 0 and not sum(others.values()):
            raise BrokenRuleError(ChangeRule.TOO_FEW_GPUS, "no other pool has a quota to which to add")
        parts = _in_proportion(others, abs(more))
        sign = 1 if more < 0 else -1
        return {**quotas, **{pool: quota + sign * parts[pool] for pool, quota in others.items()}}


def _in_proportion(quotas: Mapping[str, int], gpus: int) -> dict[str, int]:
    """So many GPUs laid on pools in proportion to their quotas, by largest remainder, ties to the first."""
    total = sum(quotas.values())
    if not gpus or not total:
        return dict.fromkeys(quotas, 0)
    parts = {pool: gpus * quota // total for pool, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda pool: -(gpus * quotas[pool] % total))
    for pool in by_remainder[: gpus - sum(parts.values())]:
        parts[pool] += 1
    return parts
