import csv
import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.history import History, to_jobs
from data.readers import READERS
from data.readers.benchmark_csv import read_jobs, read_pools
from domain.errors import InputError

HEADER = "job_id,pool,submit_s,num_gpus,duration_s"
QUOTAS = {"007": 8, "6214e9": 58}
GOOD_ROWS = ("g1,007,0,1,10", "g2,6214e9,5,8,0.5")


def write(folder: Path, content: str | bytes, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def faults_of(path: Path, *, is_lenient: bool = False) -> list[tuple[int | None, str]]:
    with pytest.raises(InputError) as caught:
        read_jobs(path, QUOTAS, is_lenient=is_lenient)
    assert all(fault.source == str(path) for fault in caught.value.faults)
    return [(fault.line, fault.rule) for fault in caught.value.faults]


def text_of(*lines: str) -> str:
    return "\n".join((HEADER, *lines)) + "\n"


BAD_ROWS = {
    "too few fields": ("b,007,0,1", "field-count"),
    "too many fields": ("b,007,0,1,10,", "field-count"),
    "no id": (",007,0,1,10", "missing-value"),
    "blank id": ("  ,007,0,1,10", "missing-value"),
    "no submit": ("b,007,,1,10", "missing-value"),
    "submit in words": ("b,007,noon,1,10", "not-a-number"),
    "submit in another notation": ("b,007,1_000,1,10", "not-a-number"),
    "submit not a number": ("b,007,NaN,1,10", "not-finite"),
    "submit beyond all doubles": ("b,007,1e999,1,10", "not-finite"),
    "submit in milliseconds": ("b,007,1795986000000,1,10", "out-of-range"),
    "endless": ("b,007,0,1,inf", "not-finite"),
    "ends before it starts": ("b,007,0,1,-1", "negative-duration"),
    "no GPU": ("b,007,0,0,10", "width-below-one"),
    "less than no GPU": ("b,007,0,-4,10", "width-below-one"),
    "half a GPU": ("b,007,0,0.5,10", "not-an-integer"),
    "wider than its pool": ("b,007,0,9,10", "width-above-quota"),
    "absurdly wide": ("b,007,0,99999999999999999999,10", "out-of-range"),
    "unknown pool": ("b,008,0,1,10", "unknown-pool"),
    "pool by its number": ("b,7,0,1,10", "unknown-pool"),
    "known id": ("g1,007,0,1,10", "duplicate-id"),
    "known id with spaces": (" g1 ,007,0,1,10", "duplicate-id"),
    "text after a quote": ('b,"007"x,0,1,10', "bad-quoting"),
    "open quote": ('b,"007,0,1,10', "bad-quoting"),
    "endless field": ("b" * 10_001 + ",007,0,1,10", "field-too-long"),
    "field beyond the parser's limit": ("b" * 200_000 + ",007,0,1,10", "field-too-long"),
}


@pytest.mark.parametrize(("row", "rule"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_bad_row_is_refused_with_rule_and_line(tmp_path: Path, row: str, rule: str) -> None:
    path = write(tmp_path, text_of(GOOD_ROWS[0], row, GOOD_ROWS[1]))
    assert faults_of(path) == [(3, rule)]


@pytest.mark.parametrize(("row", "rule"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_lenient_reading_loses_the_bad_row_only(tmp_path: Path, row: str, rule: str) -> None:
    path = write(tmp_path, text_of(GOOD_ROWS[0], row, GOOD_ROWS[1]))
    history = read_jobs(path, QUOTAS, is_lenient=True)
    assert history.frame["job_id"].tolist() == ["g1", "g2"]
    assert [(fault.line, fault.rule) for fault in history.skipped] == [(3, rule)]
    assert history.num_skipped_rows == 1


def test_all_faults_come_at_once_and_all_good_rows_survive(tmp_path: Path) -> None:
    bad = [(row, rule) for row, rule in BAD_ROWS.values() if rule != "duplicate-id"]
    rows = [row for index, (row, _) in enumerate(bad) for row in (row, f"ok{index},007,0,1,10")]
    path = write(tmp_path, text_of(*rows))
    expected = [(2 + 2 * index, rule) for index, (_, rule) in enumerate(bad)]
    assert faults_of(path) == expected
    history = read_jobs(path, QUOTAS, is_lenient=True)
    assert set(history.frame["job_id"]) == {f"ok{index}" for index in range(len(bad))}
    assert [(fault.line, fault.rule) for fault in history.skipped] == expected


def test_several_faults_of_one_row_are_all_listed_and_the_row_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path, text_of(GOOD_ROWS[0], "g1,008,x,0,-1"))
    history = read_jobs(path, QUOTAS, is_lenient=True)
    rules = ["not-a-number", "width-below-one", "negative-duration", "unknown-pool", "duplicate-id"]
    assert [fault.rule for fault in history.skipped] == rules
    assert history.num_skipped_rows == 1


BAD_FILES = {
    "empty": (b"", None, "empty-file"),
    "white space": (b"\xef\xbb\xbf \n\r\n", None, "empty-file"),
    "header only": (HEADER.encode(), None, "no-rows"),
    "PNG": (b"\x89PNG\r\n\x1a\n\0\0", 1, "not-text"),
    "gzip": (b"\x1f\x8b\x08", 1, "not-text"),
    "UTF-16": (text_of(*GOOD_ROWS).encode("utf-16"), 1, "not-text"),
    "NUL": (text_of(*GOOD_ROWS, "g3,0\x0007,0,1,10").encode(), 4, "not-text"),
    "noise": (bytes(range(128, 256)) * 3, 1, "not-csv"),
    "prose": (b"Dear all,\nthe jobs are attached.\n", 1, "not-csv"),
    "JSON list": (b'[{"job_id": "a", "pool": "007"}]', 1, "not-csv"),
    "JSON": (b'\n{"job_id": "a", "pool": "007"}', 1, "not-csv"),
    "HTML": (b"<!doctype html>\n<html>", 1, "not-csv"),
    "semicolons": (text_of(*GOOD_ROWS).replace(",", ";").encode(), 1, "not-csv"),
    "tabs": (text_of(*GOOD_ROWS).replace(",", "\t").encode(), 1, "not-csv"),
    "bars": (text_of(*GOOD_ROWS).replace(",", "|").encode(), 1, "not-csv"),
    "no header": ("\n".join(GOOD_ROWS).encode(), 1, "not-csv"),
    "no pool": (b"job_id,submit_s,num_gpus,duration_s\na,0,1,10", 1, "missing-column"),
    "pool twice": (f"{HEADER},pool\na,007,0,1,10,007".encode(), 1, "duplicate-column"),
    "limit twice": (f"{HEADER},limit,limit_s\na,007,0,1,10,1,1".encode(), 1, "duplicate-column"),
    "unnamed column": (f"{HEADER},\na,007,0,1,10,x".encode(), 1, "unnamed-column"),
    "column in latin-1": (f"{HEADER},größe\na,007,0,1,10,x".encode("latin-1"), 1, "not-text"),
    "header with a broken quote": (f'{HEADER},"x"y\na,007,0,1,10,x'.encode(), 1, "bad-quoting"),
    "too many columns": ((HEADER + ",x" * 1_000).encode(), 1, "not-csv"),
    "header never closed": (f'{HEADER},"x\na,007,0,1,10,x'.encode(), 1, "bad-quoting"),
}


@pytest.mark.parametrize("is_lenient", [False, True])
@pytest.mark.parametrize(("content", "line", "rule"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_is_refused_leniently_or_not(
    tmp_path: Path, content: bytes, line: int | None, rule: str, is_lenient: bool
) -> None:
    assert faults_of(write(tmp_path, content), is_lenient=is_lenient) == [(line, rule)]


@pytest.mark.parametrize(
    ("delimiter", "message"),
    [(";", "columns look separated by ';', expected ','"), ("\t", "separated by tabs")],
)
def test_the_message_names_the_wrong_delimiter(tmp_path: Path, delimiter: str, message: str) -> None:
    path = write(tmp_path, text_of(*GOOD_ROWS).replace(",", delimiter))
    with pytest.raises(InputError, match=message):
        read_jobs(path, QUOTAS)


def test_what_cannot_be_opened_is_a_fault(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("nowhere.csv", "", "pipe", "loop", "a\0b", "x" * 5_000):
        assert faults_of(tmp_path / name) == [(None, "unreadable-file")]


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, text_of(*GOOD_ROWS))
    with path.open("r+b") as file:
        file.truncate(2**40)  # sparse
    assert faults_of(path) == [(None, "too-large")]


def test_every_missing_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\njob_id,submit_s\na,0\n")
    assert faults_of(path) == [(3, "missing-column")] * 3


def test_text_stays_text(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER},user,name\n1,6214e9,0,1,10,007,NA\n01,007,0,1,10,1e5,null\n")
    frame = read_jobs(path, QUOTAS).frame
    assert frame["job_id"].tolist() == ["01", "1"]
    assert frame["pool"].tolist() == ["007", "6214e9"]
    assert frame["user"].tolist() == ["1e5", "007"]
    assert frame["name"].tolist() == ["null", "NA"]


def test_ids_that_differ_in_case_are_different(tmp_path: Path) -> None:
    assert len(read_jobs(write(tmp_path, text_of("a,007,0,1,1", "A,007,0,1,1")), QUOTAS).frame) == 2


def test_the_message_about_a_duplicate_names_the_first_line(tmp_path: Path) -> None:
    path = write(tmp_path, text_of(*GOOD_ROWS, "", "g2,007,9,1,1", "g2,007,9,1,1"))
    history = read_jobs(path, QUOTAS, is_lenient=True)
    assert [str(fault) for fault in history.skipped] == [
        f"{path}:{line}: duplicate-id: job_id g2 is already on line 3" for line in (5, 6)
    ]
    assert history.frame["submit_s"].tolist() == [0.0, 5.0]


def test_a_row_whose_namesake_is_bad_is_good(tmp_path: Path) -> None:
    path = write(tmp_path, text_of("a,007,0,0,10", "a,007,0,1,10"))
    assert read_jobs(path, QUOTAS, is_lenient=True).frame["num_gpus"].tolist() == [1]


def test_lines_are_physical_lines(tmp_path: Path) -> None:
    rows = ('a,007,0,1,10,"two\nlines"', "", "b,007,0,0,10,x", '"c\n",007,0,1,10,"\n\n"', "d,,0,1,1,", "e")
    path = write(tmp_path, f"{HEADER},name\n" + "\n".join(rows))
    assert faults_of(path) == [(5, "width-below-one"), (10, "missing-value"), (11, "field-count")]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_all_line_endings_are_understood(tmp_path: Path, ending: str) -> None:
    content = ending.join([HEADER, GOOD_ROWS[0], "", "b,007,0,0,10", GOOD_ROWS[1]])
    history = read_jobs(write(tmp_path, content), QUOTAS, is_lenient=True)
    assert history.frame["job_id"].tolist() == ["g1", "g2"]
    assert history.skipped[0].line == 4


def test_an_open_quote_does_not_swallow_what_follows(tmp_path: Path) -> None:
    names = [f"n{index}" for index in range(500)]
    rows = [f'{name},"007",0,1,10' for name in names]
    path = write(tmp_path, text_of(*rows[:250], 'bad,"007,0,1,10', *rows[250:], 'bad,007,"0,1,10'))
    history = read_jobs(path, QUOTAS, is_lenient=True)
    assert set(history.frame["job_id"]) == set(names)
    assert [(fault.line, fault.rule) for fault in history.skipped] == [
        (252, "bad-quoting"),
        (503, "bad-quoting"),
    ]


def test_rows_that_keep_quotes_open_cost_no_more_than_others(tmp_path: Path) -> None:
    hostile = 'x","'  # leaves a quote open, whether or not it is inside one
    path = write(tmp_path, text_of(GOOD_ROWS[0], *[hostile] * 20_000, GOOD_ROWS[1]))
    history = read_jobs(path, QUOTAS, is_lenient=True)
    assert history.frame["job_id"].tolist() == ["g1", "g2"]
    assert history.num_skipped_rows == 20_000


def test_a_record_may_span_a_few_lines(tmp_path: Path) -> None:
    name = "\n".join("abcdefghijklmnopqrst")
    path = write(tmp_path, f'{HEADER},name\na,007,0,1,10,"{name}"\n')
    assert read_jobs(path, QUOTAS).frame["name"].tolist() == [name]
    path = write(tmp_path, f'{HEADER},name\na,007,0,1,10,"\n{name}"\nb,007,0,1,10,x\n')
    assert (2, "bad-quoting") in faults_of(path)
    assert read_jobs(path, QUOTAS, is_lenient=True).frame["job_id"].tolist() == ["b"]


def test_a_row_that_spans_lines_with_a_wrong_width_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, text_of('a,"007,0,1,10', 'b,007,0,1,10"'))
    with pytest.raises(InputError, match="has 2 fields, the header has 5 and spans 2 lines"):
        read_jobs(path, QUOTAS)


def test_bytes_that_are_not_utf8_cost_their_row_only(tmp_path: Path) -> None:
    content = text_of(GOOD_ROWS[0]).encode() + "d\xe9,007,0,1,10\n".encode("latin-1") + "é,007,1,1,1".encode()
    path = write(tmp_path, content)
    assert faults_of(path) == [(3, "not-text")]
    assert read_jobs(path, QUOTAS, is_lenient=True).frame["job_id"].tolist() == ["g1", "é"]


def test_messages_are_safe_for_a_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J" + "x" * 5_000
    path = write(tmp_path, text_of(GOOD_ROWS[0], f"b,{evil},{evil},1,10"))
    with pytest.raises(InputError) as caught:
        read_jobs(path, QUOTAS)
    assert str(caught.value).isprintable() or "\n" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert all(len(fault.message) < 200 for fault in caught.value.faults)


def test_lenient_reading_of_nothing_good_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, text_of("a,007,0,0,10", "b"))
    expected = [(None, "no-rows"), (2, "width-below-one"), (3, "field-count")]
    assert faults_of(path, is_lenient=True) == expected


def test_a_byte_order_mark_white_space_and_column_order_do_not_matter(tmp_path: Path) -> None:
    plain = read_jobs(write(tmp_path, text_of(*GOOD_ROWS)), QUOTAS).frame
    content = (
        "\ufeffduration_s , num_gpus,submit_s,pool,job_id\n"
        "0.5 ,8, 5,\t6214e9 , g2\n\n   \n"
        ' 10, "1",0.0,007,"g1"\n'
    )
    pd.testing.assert_frame_equal(read_jobs(write(tmp_path, content, "odd.csv"), QUOTAS).frame, plain)


def test_optional_columns_and_strangers_are_kept(tmp_path: Path) -> None:
    header = f"{HEADER},limit,state,deadline_s,requeue_u,colour"
    path = write(tmp_path, f"{header}\na,007,0,1,10,60,TIMEOUT,99,0.25,red\nb,007,1,1,10,,,,,\n")
    history = read_jobs(path, QUOTAS)
    assert history.extra_columns == ("colour",)
    assert history.source == str(path)
    first, second = history.frame.to_dict("records")
    assert first["limit_s"] == 60.0
    assert (first["state"], first["deadline_s"], first["requeue_u"]) == ("timeout", 99.0, 0.25)
    assert first["colour"] == "red"
    assert pd.isna([second[key] for key in ("limit_s", "state", "deadline_s", "requeue_u", "colour")]).all()


def test_the_registry_reads_what_the_reader_reads(tmp_path: Path) -> None:
    path = write(tmp_path, text_of(*GOOD_ROWS))
    pd.testing.assert_frame_equal(READERS["csv"](path, QUOTAS).frame, read_jobs(path, QUOTAS).frame)


def test_pools_are_read_as_text_with_their_quotas(tmp_path: Path) -> None:
    path = write(tmp_path, "pool,colour,quota_gpus\n6214e9,red,58\n007,blue,0\n")
    assert read_pools(path) == {"6214e9": 58, "007": 0}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("pool,quota_gpus\n", [(None, "no-rows")]),
        ("pool;quota_gpus\na;1\n", [(1, "not-csv")]),
        ("pool\na\n", [(1, "missing-column")]),
        ("pool,quota_gpus\na,1\na,2\n", [(3, "duplicate-pool")]),
        (
            "pool,quota_gpus\na,-1\nb,1.5\n,3\nc,x\nd\ne,\n",
            [
                (2, "negative-quota"),
                (3, "not-an-integer"),
                (4, "missing-value"),
                (5, "not-a-number"),
                (6, "field-count"),
                (7, "missing-value"),
            ],
        ),
    ],
)
def test_bad_pools_are_refused(tmp_path: Path, content: str, expected: list[tuple[int, str]]) -> None:
    with pytest.raises(InputError) as caught:
        read_pools(write(tmp_path, content))
    assert [(fault.line, fault.rule) for fault in caught.value.faults] == expected


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).map(str.strip)
times_s = st.floats(-1e11, 1e11, allow_nan=False)
Row = tuple[object, ...]
rows_of_jobs = st.lists(
    st.tuples(
        texts.filter(bool),
        st.sampled_from(sorted(QUOTAS)),
        times_s,
        st.integers(1, 8),
        times_s.map(abs),
        st.one_of(st.none(), st.floats(0, 1)),
        st.one_of(st.none(), texts.filter(bool)),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[0],
)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read_rows(path: Path, rows: list[Row], quotas: Mapping[str, int] = QUOTAS) -> History:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*HEADER.split(","), "requeue_u", "user"])
        writer.writerows(rows)
    return read_jobs(path, quotas)


@in_one_folder
@given(rows=rows_of_jobs)
def test_what_is_written_is_read(tmp_path: Path, rows: list[Row]) -> None:
    jobs, outcomes = to_jobs(read_rows(tmp_path / "jobs.csv", rows).frame)
    found = [
        (j.job_id, j.pool, j.submit_s, j.num_gpus, outcomes[j.job_id].duration_s, j.requeue_u, j.user)
        for j in jobs
    ]
    assert found == sorted(rows, key=lambda row: (row[2], row[0]))


@in_one_folder
@given(rows=rows_of_jobs, data=st.data())
def test_the_order_of_rows_does_not_matter(tmp_path: Path, rows: list[Row], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    left = read_rows(tmp_path / "left.csv", rows).frame
    pd.testing.assert_frame_equal(left, read_rows(tmp_path / "right.csv", shuffled).frame)


@in_one_folder
@given(content=st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_politely(tmp_path: Path, content: bytes) -> None:
    faults_of(write(tmp_path, content), is_lenient=True)


@in_one_folder
@given(noise=st.lists(st.text('ab",; \r\n0\u2028', max_size=12), max_size=8))
def test_noise_between_rows_never_breaks_the_reader(tmp_path: Path, noise: list[str]) -> None:
    path = write(tmp_path, text_of(GOOD_ROWS[0], *noise, GOOD_ROWS[1]))
    history = read_jobs(path, QUOTAS, is_lenient=True)
    assert "g1" in set(history.frame["job_id"])
    assert (history.num_skipped_rows == 0) == (not history.skipped)


@pytest.mark.bench_data
def test_the_benchmark_is_read_whole() -> None:
    default = Path(__file__).parents[3].parent / "shared"
    folder = Path(os.environ.get("ANTECAST_BENCH_ROOT", default)) / "bench" / "philly-pools"
    if not folder.is_dir():
        pytest.skip(f"no benchmark at {folder}: set ANTECAST_BENCH_ROOT")
    quotas = read_pools(folder / "pools_load080.csv")
    history = read_jobs(folder / "jobs.csv", quotas)
    assert len(history.frame) == 63_998
    assert history.frame["pool"].nunique() == len(quotas) == 11
    assert history.skipped == ()
    assert history.extra_columns == ()
