"""Several rows of the same attempt become one: who knows more counts, whatever came first."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.shelf.arrow import KEY, SCHEMA
from domain.attempts import EndCause, LimitKind

_KNOWLEDGE: Final = {
    cause.value: 2 * cause.is_end_of_attempt + cause.is_end_of_job + (cause is not EndCause.UNKNOWN)
    for cause in EndCause
}
_FILLED: Final = (
    "shown_id", "array_id", "array_task", "het_id", "het_offset", "pool", "account", "user", "name", "qos",
    "gpus_asked_milli", "gpus_given_milli", "gpu_type", "mig_profile", "gpu_shards", "cpus", "memory_mib",
    "num_nodes", "eligible_s", "nodes",
)  # fmt: skip
"""What a job is: where the row that counts does not say it, another may. When and how it ended, never."""

_LIMIT: Final = ("limit_kind", "limit_s")
"""A limit is what a job is too, in two columns."""


class Merged(NamedTuple):
    """A day's attempts after an import.

    Attributes:
        table: one row per attempt, by submission and id.
        new, updated, unchanged: attempts of the import, by what was known of them.
    """

    table: pa.Table
    new: int
    updated: int
    unchanged: int


def merged(known: pa.Table | None, found: pa.Table) -> Merged:
    """Bring an import's rows of one cluster and day to what is known of that day.

    Of rows with the same key the one counts that knows more: that its job ended, that its attempt ended, that
    it started, when it ended last; of equal ones the one that came last. The order of imports makes no
    difference, except between rows that know equally much, and between lesser rows that disagree about what
    the one that counts leaves open.
    """
    num_known = 0 if known is None else len(known)
    both = found if known is None else pa.concat_tables([known, found])
    both = both.combine_chunks()
    ids, ranks = _order(both)
    group = (
        np.r_[True, np.any(np.diff(ids[:, ranks], axis=1) != 0, axis=0)].cumsum() - 1 if len(both) else ranks
    )
    last = np.r_[np.flatnonzero(np.diff(group)), len(ranks) - 1]
    best = ranks[last]
    table = pc.take(both, pa.array(best))
    is_single = np.bincount(group, minlength=len(last)) == 1
    if not is_single.all():
        table = _filled(table, both, ranks, group, is_single)
    is_old = _has(ranks < num_known, group, len(last))
    is_found = _has(ranks >= num_known, group, len(last))
    same = _unchanged(table, known, ranks, group, is_old & is_found, num_known)
    order = pc.sort_indices(
        table, [("submit_s", "ascending"), ("raw_id", "ascending"), ("attempt", "ascending")]
    )
    new, both_times = int((is_found & ~is_old).sum()), int((is_old & is_found).sum())
    return Merged(pc.take(table, order), new, both_times - same, same)


def _order(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Keys as numbers, shape (3, rows), and the rows sorted by key and then by how much they know."""
    raw_id = table["raw_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    submit = table["submit_s"].to_numpy()
    keys = np.vstack((raw_id.astype(np.float64), submit, table["attempt"].to_numpy().astype(np.float64)))
    causes = table["cause"].combine_chunks().dictionary_encode()
    known = np.array([_KNOWLEDGE.get(word, 0) for word in causes.dictionary.to_pylist()] or [0])
    knows = known[causes.indices.to_numpy()] if len(table) else np.zeros(0)
    started = table["start_s"].is_valid().to_numpy().astype(np.int8)
    ended = table["end_s"].fill_null(-np.inf).to_numpy()
    ran = table["compute_s"].fill_null(-np.inf).to_numpy()
    order = np.lexsort((np.arange(len(table)), ran, ended, started, knows, keys[2], keys[0], keys[1]))
    return keys, order


def _filled(
    table: pa.Table, both: pa.Table, ranks: np.ndarray, group: np.ndarray, is_single: np.ndarray
) -> pa.Table:
    """What a job is, from the row that knows most among those that say it."""
    several = ~is_single[group]
    rows, groups = ranks[several], group[several]
    for names in (*((name,) for name in _FILLED), _LIMIT):
        gaps = ~_is_said(table, names[0])
        if not gaps[groups].any():
            continue
        fills = _is_said(both, names[0])[rows] & gaps[groups]
        if not fills.any():
            continue
        source = np.arange(len(table), dtype=np.int64) + len(both)
        source[groups[fills]] = rows[fills]  # of several the last is kept: it knows most
        for name in names:
            column = pa.chunked_array([*both[name].chunks, *table[name].chunks], both[name].type)
            taken = pc.take(column, pa.array(source))
            table = table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), taken)
    return table


def _is_said(table: pa.Table, name: str) -> np.ndarray:
    """Where a column says something."""
    column = table[name]
    said = pc.not_equal(column, LimitKind.UNKNOWN.value) if name == "limit_kind" else column.is_valid()
    return np.asarray(said.to_numpy())


def _has(marks: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    return np.bincount(group, weights=marks, minlength=groups) > 0


def _unchanged(
    table: pa.Table,
    known: pa.Table | None,
    ranks: np.ndarray,
    group: np.ndarray,
    is_both: np.ndarray,
    num_known: int,
) -> int:
    """How many attempts that were known are as they were."""
    if known is None or not is_both.any():
        return 0
    old_row = np.full(len(is_both), -1, dtype=np.int64)
    was_known = ranks < num_known
    old_row[group[was_known]] = ranks[was_known]
    now = pc.take(table, pa.array(np.flatnonzero(is_both)))
    before = pc.take(known, pa.array(old_row[is_both]))
    same = np.ones(len(now), dtype=np.bool_)
    for name in SCHEMA.names:
        if name in KEY:
            continue
        one, other = now[name].combine_chunks(), before[name].combine_chunks()
        equal = pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False)
        same &= equal | (
            one.is_null().to_numpy(zero_copy_only=False) & other.is_null().to_numpy(zero_copy_only=False)
        )
    return int(same.sum())
