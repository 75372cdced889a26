"""Objects of Kubernetes as far as all kinds are alike: whose they are, when they came, who owns them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from data.intake.rows import RejectedError, quoted
from data.intake.rules import ImportRule
from data.intake.text import cleaned
from data.stamps import parse_stamp

Object = Mapping[str, Any]

NOTHING: Final[Object] = {}

_LONGEST_STAMP: Final = 80


def mapping(value: Any) -> Object:
    """A value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else NOTHING


def objects(value: Any) -> Iterator[Object]:
    """The objects of a list; nothing of what is none."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def text(value: Any) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value.strip() else None


def safe(value: Any) -> str | None:
    """A text that is not empty, as it may be kept: without what cannot be seen, and of bounded length."""
    found = text(value)
    return None if found is None else cleaned(found)[0]


def count(value: Any, default: int) -> int:
    """A count, as JSON has it or as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else default


@lru_cache(maxsize=2**14)
def _epoch_s(stamp: str) -> float:
    return parse_stamp(stamp, None).epoch_s


def instant_s(value: Any, what: str) -> float | None:
    """The instant of a time stamp (RFC 3339, with an offset); None where there is none.

    Raises:
        RejectedError: if it is no stamp, or says no offset.
    """
    stamp = text(value)
    if stamp is None:
        return None
    try:
        return _epoch_s(stamp[:_LONGEST_STAMP])
    except ValueError as error:
        raise RejectedError(
            ImportRule.BAD_TIME, f"{what} {quoted(stamp)} is no time with an offset"
        ) from error


@dataclass(frozen=True, slots=True)
class Owner:
    """Who an object belongs to."""

    kind: str
    name: str
    uid: str
    is_controller: bool


@dataclass(frozen=True, slots=True)
class Meta:
    """What every object says of itself.

    Attributes:
        group: API group, empty for the core one; None where the object does not say.
        kind: kind.
        uid: unique for ever.
        namespace, name: unique at one time.
        labels, annotations: as they stand.
        created: when it was submitted, as it stands.
        deleted: when it is gone or will be, as it stands.
        owners: whose it is.
    """

    group: str | None
    kind: str
    uid: str
    namespace: str
    name: str
    labels: Object
    annotations: Object
    created: Any
    deleted: Any
    owners: tuple[Owner, ...]

    @property
    def shown_id(self) -> str:
        """Namespace and name, as people write it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> Owner | None:
        """The owner that made it."""
        owners = [one for one in self.owners if one.is_controller]
        return owners[0] if owners else (self.owners[0] if len(self.owners) == 1 else None)

    def said(self, *names: str) -> str | None:
        """The first of some labels or annotations that it has."""
        for name in names:
            found = text(self.labels.get(name)) or text(self.annotations.get(name))
            if found is not None:
                return found
        return None


def kind_of(found: Object) -> tuple[str | None, str]:
    """API group and kind of an object; the group is None where it is not said."""
    version = text(found.get("apiVersion"))
    group = None if version is None else version.rpartition("/")[0]
    return group, text(found.get("kind")) or ""


def meta_of(found: Object, *, needs_uid: bool = True) -> Meta:
    """What an object says of itself.

    Args:
        found: the object.
        needs_uid: whether it has to have a uid; else its name does.

    Raises:
        RejectedError: if it has none.
    """
    meta = mapping(found.get("metadata"))
    group, kind = kind_of(found)
    uid = safe(meta.get("uid")) or (None if needs_uid else safe(meta.get("name")))
    if uid is None:
        raise RejectedError(ImportRule.NO_JOB_ID, f"the {kind or 'object'} has no metadata.uid")
    return Meta(
        group=group,
        kind=kind,
        uid=uid,
        namespace=safe(meta.get("namespace")) or "",
        name=safe(meta.get("name")) or uid,
        labels=mapping(meta.get("labels")),
        annotations=mapping(meta.get("annotations")),
        created=meta.get("creationTimestamp"),
        deleted=meta.get("deletionTimestamp"),
        owners=tuple(_owners(meta.get("ownerReferences"))),
    )


def _owners(value: Any) -> Iterator[Owner]:
    for one in objects(value):
        uid = safe(one.get("uid"))
        if uid is not None:
            yield Owner(
                text(one.get("kind")) or "",
                safe(one.get("name")) or "",
                uid,
                one.get("controller") is True,
            )


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an object's status."""

    is_true: bool
    reason: str
    message: str
    at_s: float | None


def conditions(status: Object) -> dict[str, Condition]:
    """Conditions of a status by type, the last of each."""
    found = {}
    for one in objects(status.get("conditions")):
        kind = text(one.get("type"))
        if kind is not None:
            found[kind] = Condition(
                one.get("status") is True or one.get("status") == "True",
                text(one.get("reason")) or "",
                text(one.get("message")) or "",
                instant_s(one.get("lastTransitionTime"), f"the condition {kind}"),
            )
    return found
