"""Attempts of an import before they are kept: files of a few ten thousand, sorted by cluster and day.

So an import holds one such file's worth in memory, however large its source is; a day's attempts are then
picked from all of them, without copies (the files are mapped).
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.records import AttemptRecord
from data.shelf.arrow import DAY_S, SCHEMA, table_of
from data.shelf.folder import writing

SEGMENT_ROWS: Final = 50_000
SEGMENT_CHARACTERS: Final = 2**25
"""Of lists of nodes, the only long text of an attempt."""


class Shelf(NamedTuple):
    """Where an attempt is kept: its cluster and the day of its submission, since 1970."""

    cluster: str
    day: int


class _Slice(NamedTuple):
    segment: int
    offset: int
    rows: int


class Segments:
    """Collects attempts in the order they come in."""

    def __init__(self, folder: Path) -> None:
        """Write to an empty folder, which is the caller's to remove."""
        self._folder: Final = folder
        self._waiting: list[AttemptRecord] = []
        self._waiting_characters = 0
        self._num_segments = 0
        self._slices: dict[Shelf, list[_Slice]] = defaultdict(list)

    def add(self, record: AttemptRecord) -> None:
        """Take one more."""
        self._waiting.append(record)
        if record.nodes is not None:
            self._waiting_characters += len(record.nodes)
        if len(self._waiting) >= SEGMENT_ROWS or self._waiting_characters >= SEGMENT_CHARACTERS:
            self._flush()

    def days(self) -> Iterator[tuple[Shelf, pa.Table]]:
        """Attempts of each cluster and day, in the order they came in; clusters and days ascend."""
        self._flush()
        for shelf in sorted(self._slices):
            parts = [self._part(one) for one in self._slices[shelf]]
            yield shelf, pa.concat_tables(parts)

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = table_of(self._waiting)
        self._waiting.clear()
        self._waiting_characters = 0
        days = np.floor_divide(table["submit_s"].to_numpy(), DAY_S).astype(np.int64)
        cluster = table["cluster"].combine_chunks().dictionary_encode()
        codes = cluster.indices.to_numpy()
        order = np.lexsort((np.arange(len(days)), days, codes))
        table = pc.take(table, pa.array(order))
        with (
            writing(self._folder.parent),
            pa.OSFile(str(self._path(self._num_segments)), "wb") as file,
            pa.ipc.new_file(file, SCHEMA) as out,
        ):
            out.write_table(table)
        self._index(cluster.dictionary.to_pylist(), codes[order], days[order])
        self._num_segments += 1

    def _index(self, names: list[str], codes: np.ndarray, days: np.ndarray) -> None:
        starts = np.flatnonzero(np.r_[True, (np.diff(codes) != 0) | (np.diff(days) != 0)])
        ends = np.r_[starts[1:], len(days)]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            where = Shelf(names[codes[start]], int(days[start]))
            self._slices[where].append(_Slice(self._num_segments, start, end - start))

    def _part(self, one: _Slice) -> pa.Table:
        with pa.memory_map(str(self._path(one.segment))) as file:
            return pa.ipc.open_file(file).read_all().slice(one.offset, one.rows)

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:06d}.arrow"
