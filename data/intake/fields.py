"""What a column of a table can be: the fields of a record as a mapping names them, and their units."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final


class FieldKind(StrEnum):
    """What a field holds, and so which units and options its column can have."""

    TEXT = "text"
    TIME = "time"
    LENGTH = "length"
    LIMIT = "limit"
    GPUS = "gpus"
    NUMBER = "number"
    MEMORY = "memory"
    COUNT = "count"
    STATE = "state"
    MARK = "mark"


FIELDS: Final = MappingProxyType(
    {
        "raw_id": FieldKind.TEXT,
        "shown_id": FieldKind.TEXT,
        "array_id": FieldKind.TEXT,
        "array_task": FieldKind.COUNT,
        "het_id": FieldKind.TEXT,
        "het_offset": FieldKind.COUNT,
        "attempt": FieldKind.COUNT,
        "pool": FieldKind.TEXT,
        "account": FieldKind.TEXT,
        "user": FieldKind.TEXT,
        "name": FieldKind.TEXT,
        "qos": FieldKind.TEXT,
        "reason": FieldKind.TEXT,
        "nodes": FieldKind.TEXT,
        "gpu_type": FieldKind.TEXT,
        "mig_profile": FieldKind.TEXT,
        "submit": FieldKind.TIME,
        "eligible": FieldKind.TIME,
        "start": FieldKind.TIME,
        "end": FieldKind.TIME,
        "gap": FieldKind.LENGTH,
        "wait": FieldKind.LENGTH,
        "run": FieldKind.LENGTH,
        "compute": FieldKind.LENGTH,
        "limit": FieldKind.LIMIT,
        "gpus": FieldKind.GPUS,
        "gpus_asked": FieldKind.GPUS,
        "gpus_given": FieldKind.GPUS,
        "cpus": FieldKind.NUMBER,
        "memory": FieldKind.MEMORY,
        "num_nodes": FieldKind.COUNT,
        "state": FieldKind.STATE,
        "censored": FieldKind.MARK,
        "before_record": FieldKind.MARK,
    }
)
"""Names that the table `[columns]` of a mapping may have."""

Unit = tuple[int, int]
"""A unit as a fraction of the record's own: a value is multiplied by the first and divided by the second."""

CLOCKED: Final = "slurm"
"""The unit of lengths and limits that are written as Slurm writes them: `1-02:03:04`."""

TIME_UNITS: Final[MappingProxyType[str, Unit]] = MappingProxyType(
    {
        "s": (1, 1),
        "ms": (1, 10**3),
        "us": (1, 10**6),
        "ns": (1, 10**9),
        "min": (60, 1),
        "h": (3600, 1),
        "d": (86_400, 1),
    }
)
GPU_UNITS: Final[MappingProxyType[str, Unit]] = MappingProxyType(
    {"count": (1000, 1), "percent": (10, 1), "milli": (1, 1)}
)
NUMBER_UNITS: Final[MappingProxyType[str, Unit]] = MappingProxyType(
    {"count": (1, 1), "percent": (1, 100), "milli": (1, 1000)}
)
MEMORY_UNITS: Final[MappingProxyType[str, Unit]] = MappingProxyType(
    {
        "MiB": (1, 1),
        "B": (1, 2**20),
        "KiB": (1, 2**10),
        "GiB": (2**10, 1),
        "TiB": (2**20, 1),
        "kB": (10**3, 2**20),
        "MB": (10**6, 2**20),
        "GB": (10**9, 2**20),
    }
)

UNITS: Final[MappingProxyType[FieldKind, MappingProxyType[str, Unit]]] = MappingProxyType(
    {
        FieldKind.TIME: TIME_UNITS,
        FieldKind.LENGTH: TIME_UNITS,
        FieldKind.LIMIT: TIME_UNITS,
        FieldKind.GPUS: GPU_UNITS,
        FieldKind.NUMBER: NUMBER_UNITS,
        FieldKind.MEMORY: MEMORY_UNITS,
    }
)
"""Units by kind; the first of each is meant where a mapping names none."""

OPTIONS: Final[MappingProxyType[FieldKind, frozenset[str]]] = MappingProxyType(
    {
        FieldKind.TEXT: frozenset({"columns", "separator", "alternatives"}),
        FieldKind.TIME: frozenset({"unit"}),
        FieldKind.LENGTH: frozenset({"unit"}),
        FieldKind.LIMIT: frozenset({"unit", "unlimited"}),
        FieldKind.GPUS: frozenset({"unit", "times", "shares_of_many"}),
        FieldKind.NUMBER: frozenset({"unit", "times"}),
        FieldKind.MEMORY: frozenset({"unit", "times"}),
        FieldKind.COUNT: frozenset(),
        FieldKind.STATE: frozenset(),
        FieldKind.MARK: frozenset({"when"}),
    }
)
"""Options that a column of each kind has beside `column`, `value`, `nulls` and `optional`."""


def units_of(kind: FieldKind) -> tuple[str, ...]:
    """Words that a column of this kind may have as its unit."""
    names = tuple(UNITS.get(kind, ()))
    return (*names, CLOCKED) if kind in {FieldKind.LENGTH, FieldKind.LIMIT} else names
