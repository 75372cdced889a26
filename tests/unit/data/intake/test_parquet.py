"""Parquet files, honest and not: rows as dictionaries, one broken value costs its row."""

import datetime as dt
import random
import tracemalloc
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.intake import parquet
from data.intake.parquet import parquet_columns, parquet_rows
from data.intake.rows import Unreadable
from data.intake.rules import ImportRule
from data.intake.source import BrokenFileError
from domain.errors import InputError


def written(path, table, **how):
    pq.write_table(pa.table(table), path, **how)
    return path


def rows(path, columns=None):
    return [row for _, row in parquet_rows(path, columns)]


def test_every_kind_of_column_with_one_value_per_row_is_read_as_it_is(tmp_path):
    table = pa.table(
        {
            "text": ["a", None, "a"],
            "words": pa.array(["u", "v", None]).dictionary_encode(),
            "large": pa.array(["x", "y", None], pa.large_string()),
            "binary": [b"\xff", b"", None],
            "list": [[1], [], None],
            "struct": [{"x": "a", "y": 1}, {"x": None, "y": 2}, None],
            "at": pa.array([0, 1, None], pa.timestamp("us")),
            "zoned": pa.array([0, 1, None], pa.timestamp("s", tz="Europe/Zurich")),
            "nanos": pa.array([1_000, None, 0], pa.timestamp("ns")),
            "day": pa.array([0, None, 1], pa.date32()),
            "decimal": pa.array([1, None, 2], pa.decimal128(10, 2)),
            "real": [1.5, None, float("inf")],
            "flag": [True, None, False],
            "a.b": ["dots", "in", "names"],
        }
    )
    found = rows(written(tmp_path / "a.parquet", table))
    assert found == table.drop_columns(["list", "struct"]).to_pylist()
    assert found[0]["zoned"] == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert found[0]["decimal"] == Decimal("1.00")


def test_columns_are_chosen_and_row_groups_joined(tmp_path):
    path = written(
        tmp_path / "a.parquet", {"a": range(10_000), "b": map(str, range(10_000))}, row_group_size=700
    )
    assert [place for place, _ in parquet_rows(path)] == list(range(1, 10_001))
    assert rows(path, ["b"])[9_999] == {"b": "9999"}
    assert rows(path, ["b", "a"])[0] == {"b": "0", "a": 0}
    assert parquet_columns(path) == ("a", "b")


def test_no_rows_are_no_rows(tmp_path):
    assert rows(written(tmp_path / "a.parquet", {"a": pa.array([], pa.string())})) == []


def test_a_value_that_is_none_costs_its_row_only(tmp_path):
    text = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc")]
    )
    found = rows(
        written(tmp_path / "a.parquet", {"text": text, "at": pa.array([0, 1, 2**62], pa.timestamp("us"))})
    )
    assert found[0]["text"] == "a"
    assert [one.rule for one in found[1:] if isinstance(one, Unreadable)] == [
        ImportRule.IMPOSSIBLE,
        ImportRule.BAD_TIME,
    ]


@pytest.mark.parametrize("kind", [pa.timestamp("us", tz="Nowhere/Else"), pa.duration("s"), pa.date32()])
def test_instants_without_a_place_are_told_of(kind, tmp_path):
    value = 2**30 if pa.types.is_date32(kind) else 2**60
    path = written(tmp_path / "a.parquet", {"at": pa.array([value], kind)})
    assert [one.rule for one in rows(path)] == [ImportRule.BAD_TIME]


def test_a_long_word_that_is_repeated_is_in_memory_once(tmp_path):
    """Packed it takes no room: 4,000 rows of 2^18 characters are a gigabyte."""
    path = tmp_path / "a.parquet"
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int32()), ["x" * 2**18])
    written(path, {"a": words}, store_schema=False)
    assert path.stat().st_size < 2**20
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    most = 0
    for _, row in parquet_rows(path):
        assert len(row["a"]) == 2**18
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 64 * 2**20
    assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    tracemalloc.stop()


def test_long_rows_come_in_small_batches(tmp_path):
    path = tmp_path / "a.parquet"
    written(path, {"a": [f"{k:6d}" * 2**12 for k in range(4_000)]}, use_dictionary=False)
    before = pa.total_allocated_bytes()
    most = 0
    for _, _row in parquet_rows(path):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 4_000 * 6 * 2**12 * 2.5  # the words of the row group, and what is being read of it


@pytest.mark.parametrize(
    ("limits", "table"),
    [
        ({"MAX_COLUMNS": 12}, {f"c{k}": [1] for k in range(20)}),
        ({"MAX_GROUP_BYTES": 12}, {"a": ["some text of a few letters"]}),
        ({"FREE_ROWS": 12, "MAX_ROWS_PER_BYTE": 0}, {"a": range(20)}),
    ],
)
def test_what_is_too_large_inside_is_refused(limits, table, tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", table)
    assert rows(path)
    for name, most in limits.items():
        monkeypatch.setattr(parquet, name, most)
    with pytest.raises(InputError, match=r"a.parquet: too-large: .*at most 12 are read"):
        rows(path)


def test_rows_that_take_no_room_are_refused_and_not_counted_out(tmp_path):
    path = written(tmp_path / "a.parquet", {"a": pa.nulls(12_000_000, pa.int8())}, compression="zstd")
    assert path.stat().st_size < 30_000
    with pytest.raises(InputError, match=r"too-large: the file has 12000000 rows"):
        rows(path)


def test_lists_that_take_no_room_are_never_unpacked(tmp_path):
    lists = pa.ListArray.from_arrays(pa.array([0, 5_000_000], pa.int32()), pa.nulls(5_000_000, pa.int8()))
    path = written(tmp_path / "a.parquet", {"a": lists, "b": [1]})
    assert path.stat().st_size < 2**20
    before = pa.total_allocated_bytes()
    for _, row in parquet_rows(path):
        assert row == {"b": 1}
        assert pa.total_allocated_bytes() - before < 2**20
    with pytest.raises(InputError, match="missing-column: there is no column 'a' with one value per row"):
        rows(path, ["b", "a"])


def test_columns_with_dots_in_their_names_are_columns(tmp_path):
    path = written(tmp_path / "a.parquet", {"a.b": ["x"], "a": [1], "c": [{"d": 1}]})
    assert rows(path, ["a.b"]) == [{"a.b": "x"}]
    assert rows(path, ["a"]) == [{"a": 1}]
    assert rows(path) == [{"a.b": "x", "a": 1}]


def test_cut_and_changed_files_end_in_one_clear_error(tmp_path):
    whole = written(tmp_path / "a.parquet", {"a": range(5_000), "b": [f"name{k % 7}" for k in range(5_000)]})
    content = whole.read_bytes()
    path = tmp_path / "b.parquet"
    for cut in (4, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        for read in (parquet_columns, rows):
            with pytest.raises(InputError, match=r"b.parquet: unreadable-file: .*Parquet.* cannot be read"):
                read(path)


def test_files_whose_tables_of_contents_lie_never_end_the_process(tmp_path):
    """Flipped bits in the footer, of which some make Arrow's own look at single chunks abort."""
    whole = written(
        tmp_path / "a.parquet",
        {"a": [f"n{k % 7}" for k in range(500)], "b": range(500), "c": [[k] for k in range(500)]},
        row_group_size=100,
    ).read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    path = tmp_path / "b.parquet"
    ends = set()
    for seed in range(400):
        rng = random.Random(seed)  # noqa: S311 - damage, not secrets
        content = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 5))):
            content[rng.randrange(len(content) - footer - 8, len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            ends.add("rows" if parquet_columns(path) and rows(path) else "none")
        except (InputError, BrokenFileError) as error:
            ends.add(type(error).__name__)
    assert {"rows", "InputError"} <= ends


def test_a_broken_page_after_good_rows_is_a_break(tmp_path):
    path = written(
        tmp_path / "a.parquet",
        {"a": [f"{k:08d}" for k in range(40_000)]},
        row_group_size=10_000,
        use_dictionary=False,
    )
    content = bytearray(path.read_bytes())
    third = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content[third : third + 200] = bytes(200)
    path.write_bytes(content)
    found: list[int] = []
    with pytest.raises(BrokenFileError, match=r"breaks after row [1-9]"):
        found.extend(place for place, _ in parquet_rows(path))
    assert 8_000 <= len(found) <= 20_000
