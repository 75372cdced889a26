"""Times in which nothing is lent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from domain.changes.base import BrokenRuleError, Calendar, ChangeRule, OnWorld, QuietTime, World
from domain.changes.moments import DAY_S, moment, time_of_day_s
from domain.changes.reading import Entry


@dataclass(frozen=True, slots=True)
class NoLending(OnWorld):
    """`from` and `to`: two instants, or `HH:MM` in UTC with `every` = `day`.

    In between no guest is started. Guests that run are left alone until their GPUs are wanted, as with the
    kill switch of a live cluster.
    """

    quiet: QuietTime

    kind: ClassVar[str] = "no_lending"
    example: ClassVar[Mapping[str, object]] = {
        "kind": "no_lending",
        "from": "08:00",
        "to": "18:00",
        "every": "day",
    }

    @classmethod
    def read(cls, entry: Entry, calendar: Calendar) -> Self:
        """`from`, `to`, perhaps `every`."""
        if entry.has("every"):
            if entry.text("every") != "day":
                raise BrokenRuleError(ChangeRule.WRONG_VALUE, "every can be day only")
            begin_s = time_of_day_s(entry.text("from"), calendar)
            length_s = (time_of_day_s(entry.text("to"), calendar) - begin_s) % DAY_S
            return cls(QuietTime(begin_s, begin_s + (length_s or DAY_S), DAY_S))
        begin, end = moment(entry.moment("from"), calendar), moment(entry.moment("to"), calendar)
        if begin.is_relative or end.is_relative:
            raise BrokenRuleError(ChangeRule.WRONG_VALUE, "from and to are instants, not +spans")
        if not begin.at_s < end.at_s:
            raise BrokenRuleError(ChangeRule.WRONG_VALUE, "from has to be before to")
        return cls(QuietTime(begin.at_s, end.at_s))

    def on_world(self, world: World) -> World:
        """One more quiet time."""
        return replace(world, quiet=(*world.quiet, self.quiet))
