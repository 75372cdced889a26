"""Attempts as Arrow tables, columns and back."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import pyarrow as pa

from data.records import AttemptRecord
from domain.attempts import EndCause, Limit, LimitKind

DAY_S: Final = 86_400

_TEXT, _REAL, _INT = pa.string(), pa.float64(), pa.int64()

_PLAIN: Final[tuple[tuple[str, pa.DataType], ...]] = (
    ("cluster", _TEXT),
    ("raw_id", _TEXT),
    ("submit_s", _REAL),
    ("attempt", _INT),
    ("shown_id", _TEXT),
    ("array_id", _TEXT),
    ("array_task", _INT),
    ("het_id", _TEXT),
    ("het_offset", _INT),
    ("num_tasks", _INT),
    ("most_at_once", _INT),
    ("pool", _TEXT),
    ("account", _TEXT),
    ("user", _TEXT),
    ("name", _TEXT),
    ("qos", _TEXT),
    ("gpus_asked_milli", _INT),
    ("gpus_given_milli", _INT),
    ("gpu_type", _TEXT),
    ("mig_profile", _TEXT),
    ("gpu_shards", _INT),
    ("cpus", _REAL),
    ("memory_mib", _REAL),
    ("num_nodes", _INT),
    ("eligible_s", _REAL),
    ("start_s", _REAL),
    ("end_s", _REAL),
    ("compute_s", _REAL),
    ("actor", _TEXT),
    ("reason", _TEXT),
    ("text_hash", _TEXT),
    ("is_before_record", pa.bool_()),
    ("nodes", _TEXT),
)
_DERIVED: Final = (("limit_kind", _TEXT), ("limit_s", _REAL), ("cause", _TEXT))

SCHEMA: Final = pa.schema([pa.field(name, kind) for name, kind in (*_PLAIN, *_DERIVED)])
"""Columns of a table of attempts: the fields of `AttemptRecord`, with the limit as two columns."""

KEY: Final = ("cluster", "raw_id", "submit_s", "attempt")

_PLAIN_NAMES: Final = tuple(name for name, _ in _PLAIN)
_GETTERS: Final = tuple(map(attrgetter, (*_PLAIN_NAMES, "limit.kind", "limit.limit_s", "cause")))


def table_of(records: Sequence[AttemptRecord]) -> pa.Table:
    """One row per record, in their order."""
    columns = (list(map(getter, records)) for getter in _GETTERS)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def records_of(table: pa.Table) -> list[AttemptRecord]:
    """The inverse of `table_of`; `source_line` is not kept."""
    found = []
    for row in table.select(SCHEMA.names).to_pylist():
        kind, limit_s, cause = row.pop("limit_kind"), row.pop("limit_s"), row.pop("cause")
        found.append(AttemptRecord(**row, limit=Limit(LimitKind(kind), limit_s), cause=EndCause(cause)))
    return found


def day_of(submit_s: float) -> int:
    """The day (UTC, since 1970) that an attempt is kept under."""
    return int(submit_s // DAY_S)
