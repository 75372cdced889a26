"""Objects of Kubernetes: pods, Jobs, Workloads of Kueue, PodGroups, RayJobs; nodes and queues beside them.

As JSON lines, as a watch writes them, as lists of kubectl or of the API. A gang is one record, told by the
object that knows most of it; the objects that are part of it are noted and not counted again. What is not
said is not known: an object that is seen running and never again has no end.
"""

from collections.abc import Iterator
from typing import Final

from data.intake.format import Format, Head, Kind, Match, Reading
from data.intake.rows import Row, rows_from
from data.intake.source import opened, refuse
from data.kubernetes.families import MAX_GANGS, Families, TooManyError
from data.kubernetes.gangs import RANKS, gang_kind
from data.kubernetes.objects import text
from data.kubernetes.records import Reader
from data.kubernetes.watch import first_objects, seen_objects
from data.rules import Rule


def sniff(head: Head) -> Match | None:
    """Objects with a kind that stands for work."""
    kinds = kinds_of(head)
    work = [kind for kind in kinds if kind == "Pod" or kind in RANKS]
    if not work:
        return None
    named = sorted(set(work))
    return Match(0.97, f"objects of Kubernetes of kind {', '.join(named[:4])}")


def kinds_of(head: Head) -> list[str]:
    """Kinds of the first objects of a file, gangs by their name here."""
    if not head.start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")) or b'"kind"' not in head.start:
        return []
    seen = first_objects(head.path)
    return [
        kind
        for one in seen
        if one.found.get("metadata") is not None
        and (kind := gang_kind(one.found) or text(one.found.get("kind"))) is not None
    ]


def rows(reading: Reading) -> Iterator[Row]:
    """Rows of a file: an object or an event each."""
    families = _families(reading)
    reader = Reader(reading.options.cluster, families)
    with opened(reading.path) as file:
        yield from rows_from(seen_objects(reading.path, file), reader.parse)
    reading.facts["kinds"] = dict(sorted(reader.kinds.items()))
    if reader.gaps:
        reading.facts["watch_gaps"] = reader.gaps


def _families(reading: Reading) -> Families:
    families = Families()
    try:
        with opened(reading.path) as file:
            families.look(seen_objects(reading.path, file))
    except TooManyError:
        message = f"the file has more than {MAX_GANGS} Jobs, Workloads and PodGroups: split it by namespace"
        raise refuse(reading.path, Rule.TOO_LARGE, message) from None
    if len(families):
        with opened(reading.path) as file:
            families.look_again(seen_objects(reading.path, file))
    return families


FORMAT: Final = Format(
    "kubernetes",
    "Objects of Kubernetes: pods, Jobs, Workloads, PodGroups, RayJobs",
    Kind.HISTORY,
    sniff,
    rows,
)
