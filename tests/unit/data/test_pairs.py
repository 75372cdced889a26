"""Tables of measured pairs: what they say, and how bad files are refused."""

from pathlib import Path

import pytest

from data.pairs import MAX_MODELS, PairTable, pair_of, read_pairs
from domain.errors import InputError

HEADER = "model_a,model_b,rate_a,rate_b"
GOOD = ("x,x,0.5,0.5", "y,x,0.9,0.25")


def write(folder: Path, *lines: str) -> Path:
    path = folder / "pairs.csv"
    path.write_text("\n".join((HEADER, *lines)) + "\n")
    return path


def faults_of(path: Path) -> list[tuple[int | None, str]]:
    with pytest.raises(InputError) as caught:
        read_pairs(path)
    assert all(fault.source == str(path) for fault in caught.value.faults)
    return [(fault.line, fault.rule) for fault in caught.value.faults]


def test_rates_belong_to_their_models_in_whatever_order_a_row_has_them(tmp_path: Path) -> None:
    table = read_pairs(write(tmp_path, *GOOD, "y,y,1,1"))
    assert table.models == ("x", "y")
    assert (table.rate("y", "x"), table.rate("x", "y")) == (0.9, 0.25)
    assert table.rates[("x", "y")] == (0.25, 0.9)
    assert table.unfit == frozenset()


def test_a_pair_without_a_row_does_not_fit(tmp_path: Path) -> None:
    table = read_pairs(write(tmp_path, *GOOD))
    assert table.unfit == {("y", "y")}
    assert table.rate("y", "y") is None


BAD_ROWS = {
    "too few fields": ("z,x,0.5", "field-count"),
    "no model": (",x,0.5,0.5", "missing-value"),
    "no rate": ("z,x,0.5,", "missing-value"),
    "rate in words": ("z,x,half,0.5", "not-a-number"),
    "rate not a number": ("z,x,NaN,0.5", "not-finite"),
    "endless rate": ("z,x,inf,0.5", "not-finite"),
    "no progress": ("z,x,0,0.5", "out-of-range"),
    "backwards": ("z,x,-0.5,0.5", "out-of-range"),
    "twice as fast as alone": ("z,x,0.5,2", "out-of-range"),
    "in percent": ("z,x,50,60", "out-of-range"),
    "the same pair": ("x,x,0.4,0.4", "duplicate-pair"),
    "the same pair the other way round": ("x,y,0.25,0.9", "duplicate-pair"),
    "endless name": ("z" * 201 + ",x,0.5,0.5", "field-too-long"),
}


@pytest.mark.parametrize(("row", "rule"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_bad_row_is_refused_with_rule_and_line(tmp_path: Path, row: str, rule: str) -> None:
    faults = faults_of(write(tmp_path, *GOOD, row))
    assert set(faults) == {(4, rule)}


def test_every_fault_is_named(tmp_path: Path) -> None:
    assert faults_of(write(tmp_path, "x,x,9,0.5", "x,y,0.5", "y,,0.5,0.5")) == [
        (2, "out-of-range"),
        (3, "field-count"),
        (4, "missing-value"),
    ]


def test_names_that_only_read_alike_are_other_pairs(tmp_path: Path) -> None:
    table = read_pairs(write(tmp_path, "'a' beside b,c,0.5,0.5", "a,b beside c,0.5,0.5"))
    assert len(table.rates) == 2


@pytest.mark.parametrize(
    ("content", "rule"),
    [("", "empty-file"), (HEADER + "\n", "no-rows"), ("model_a,model_b,rate_a\nx,x,1\n", "missing-column")],
)
def test_a_file_that_is_no_table_of_pairs_is_refused(tmp_path: Path, content: str, rule: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(content)
    assert [found for _, found in faults_of(path)] == [rule]


def test_more_models_than_are_allowed_are_refused(tmp_path: Path) -> None:
    rows = (f"m{k},m{k},1,1" for k in range(MAX_MODELS + 1))
    assert faults_of(write(tmp_path, *rows)) == [(None, "too-large")]


def test_a_table_without_a_model_knows_nothing_of_it() -> None:
    table = PairTable.of({("b", "a"): (0.1, 0.2), ("c", "a"): (0.3, 0.4)}, frozenset({("c", "b")}))
    assert table.models == ("a", "b", "c")
    left = table.without(frozenset({"b"}))
    assert dict(left.rates) == {("a", "c"): (0.4, 0.3)}
    assert (left.unfit, left.models) == (frozenset(), ("a", "c"))


def test_a_table_contradicts_itself_nowhere() -> None:
    with pytest.raises(ValueError, match="once"):
        PairTable.of({("a", "b"): (1.0, 1.0), ("b", "a"): (1.0, 1.0)})
    with pytest.raises(ValueError, match="once"):
        PairTable.of({("a", "b"): (1.0, 1.0)}, frozenset({("b", "a")}))
    with pytest.raises(ValueError, match="rates lie"):
        PairTable.of({("a", "b"): (1.0, 0.0)})
    assert pair_of("b", "a") == pair_of("a", "b") == ("a", "b")


SHARED = "model_a,model_b,rate_a,rate_b,share_a_pct,share_b_pct"


def write_shared(folder: Path, *lines: str) -> Path:
    path = folder / "shared.csv"
    path.write_text("\n".join((SHARED, *lines)) + "\n")
    return path


def test_rows_under_shares_stand_beside_free_rates(tmp_path: Path) -> None:
    table = read_pairs(
        write_shared(
            tmp_path, "y,x,0.9,0.25,,", "y,x,0.6,0.5,60,100", "x,x,0.5,0.5,100,100", "x,x,0.6,0.3,80,40"
        )
    )
    assert dict(table.rates) == {("x", "y"): (0.25, 0.9), ("x", "x"): (0.5, 0.5)}
    assert table.under_shares == {
        ("x", "y"): {(100.0, 60.0): (0.5, 0.6)},
        ("x", "x"): {(40.0, 80.0): (0.3, 0.6)},
    }
    assert table.without(frozenset({"y"})).under_shares == {("x", "x"): {(40.0, 80.0): (0.3, 0.6)}}


BAD_SHARES = {
    "no free row": ("z,x,0.5,0.5,60,100", "no-free-rates"),
    "no share at all": ("x,x,0.5,0.5,0,100", "out-of-range"),
    "above the whole": ("x,x,0.5,0.5,60,110", "out-of-range"),
    "the same setting": ("x,y,0.5,0.6,100,60", "duplicate-pair"),
    "free competition twice": ("x,x,0.5,0.5,100,", "duplicate-pair"),
}


@pytest.mark.parametrize(("row", "rule"), BAD_SHARES.values(), ids=BAD_SHARES.keys())
def test_a_bad_row_under_shares_is_refused(tmp_path: Path, row: str, rule: str) -> None:
    path = write_shared(tmp_path, "y,x,0.9,0.25,,", "x,x,0.5,0.5,,", "y,x,0.6,0.5,60,", row)
    assert faults_of(path) == [(5, rule)]


def test_what_an_incomplete_table_lacks_is_not_known(tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path, *GOOD), is_complete=False).unfit == frozenset()


def test_the_hash_is_of_what_a_table_holds_whatever_the_order_of_its_rows(tmp_path: Path) -> None:
    tables = [
        read_pairs(write(tmp_path, *rows)).content_hash()
        for rows in (
            GOOD,
            GOOD[::-1],
            ("x,x,0.5,0.5", "x,y,0.25,0.9"),
            ("x,x,0.5,0.5", "x,y,0.9,0.25"),
            (*GOOD, "y,y,1,1"),
        )
    ]
    assert len(tables[0]) == 64
    assert tables[0] == tables[1] == tables[2]
    assert len(set(tables)) == 3
