"""Patches: what a what-if changes. Each kind of change is one file, and one line in the registry here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from domain.changes.add_nodes import AddNodes
from domain.changes.arrivals import Arrivals
from domain.changes.base import (
    BrokenRuleError,
    Calendar,
    Change,
    ChangeError,
    ChangeRule,
    Span,
    Submitted,
    World,
)
from domain.changes.gang import Gang
from domain.changes.leave_out import LeaveOut
from domain.changes.no_lending import NoLending
from domain.changes.policy import OtherPolicy
from domain.changes.quota import Quota
from domain.changes.quotas import Quotas
from domain.changes.reading import Entry, EntryError
from domain.changes.remove_nodes import RemoveNodes
from domain.changes.settings import OtherSettings
from domain.errors import SettingError
from domain.jobs import submit_order

__all__ = [
    "CHANGES",
    "MAX_CHANGES",
    "Calendar",
    "ChangeError",
    "ChangeRule",
    "Patch",
    "Span",
    "Submitted",
    "World",
    "read_patch",
]

CHANGES: Final[Mapping[str, type[Change]]] = {
    "quota": Quota,
    "quotas": Quotas,
    "add_nodes": AddNodes,
    "remove_nodes": RemoveNodes,
    "policy": OtherPolicy,
    "settings": OtherSettings,
    "no_lending": NoLending,
    "arrivals": Arrivals,
    "gang": Gang,
    "leave_out": LeaveOut,
}
"""All kinds of change, by the name that an entry gives as its `kind`."""

MAX_CHANGES: Final = 64
"""Most entries of a patch."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes, made one after the other."""

    changes: tuple[Change, ...]

    def on_world(self, world: World, check: Callable[[World], None] | None = None) -> World:
        """The world with all changes.

        Args:
            world: as it is.
            check: looks at the world after each change; what it refuses is the entry's fault.

        Raises:
            ChangeError: if a change cannot be; it names the entry.
        """
        for index, change in enumerate(self.changes):
            try:
                world = change.on_world(world)
                if check is not None:
                    check(world)
            except BrokenRuleError as error:
                raise ChangeError(index, change.kind, error.rule, str(error)) from error
            except SettingError as error:
                raise ChangeError(index, change.kind, ChangeRule.REFUSED, str(error)) from error
        return world

    def on_jobs(self, jobs: Sequence[Submitted], world: World, span: Span) -> list[Submitted]:
        """The jobs with all changes, by (submit, id).

        Args:
            jobs: as they were, by (submit, id).
            world: changed by the whole patch.
            span: which time is replayed.

        Raises:
            ChangeError: if a change cannot be; it names the entry.
        """
        changed = list(jobs)
        for index, change in enumerate(self.changes):
            try:
                changed = list(change.on_jobs(changed, world, span))
            except BrokenRuleError as error:
                raise ChangeError(index, change.kind, error.rule, str(error)) from error
            changed.sort(key=lambda one: submit_order(one.job))
        return changed


def read_patch(entries: Sequence[Mapping[str, Any]], calendar: Calendar | None = None) -> Patch:
    """Read the entries of a patch, as JSON or TOML have them.

    Args:
        entries: each a table with `kind` and the fields of that kind.
        calendar: how texts become instants.

    Raises:
        ChangeError: for an entry that cannot be; it names the entry and the rule.
    """
    if len(entries) > MAX_CHANGES:
        raise ChangeError(
            MAX_CHANGES, "", ChangeRule.WRONG_VALUE, f"a patch has at most {MAX_CHANGES} changes"
        )
    known = calendar or Calendar()
    return Patch(tuple(_read(index, entry, known) for index, entry in enumerate(entries)))


def _read(index: int, fields: Mapping[str, Any], calendar: Calendar) -> Change:
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in CHANGES:
        shown = "" if kind is None else f"{kind!r} is none; "
        raise ChangeError(
            index, "", ChangeRule.UNKNOWN_KIND, f"{shown}kinds of change are: {', '.join(CHANGES)}"
        )
    entry = Entry(fields)
    try:
        change = CHANGES[kind].read(entry, calendar)
    except EntryError as error:
        rule = ChangeRule.MISSING_FIELD if error.is_missing else ChangeRule.WRONG_VALUE
        raise ChangeError(index, kind, rule, str(error)) from error
    except BrokenRuleError as error:
        raise ChangeError(index, kind, error.rule, str(error)) from error
    if entry.left_over():
        known = ", ".join(name for name in entry.known() if name != "kind")
        message = f"there is no field {entry.left_over()[0]!r}; there are: {known}"
        raise ChangeError(index, kind, ChangeRule.UNKNOWN_FIELD, message)
    return change
