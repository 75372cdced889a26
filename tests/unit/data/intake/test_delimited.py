"""Text tables: quotes as RFC 4180 has them, and bounded cost for those that never close."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.intake import delimited
from data.intake.delimited import MAX_RECORD_LINES, Fields, csv_lines, fit, other_width, split_lines
from data.intake.rows import Unreadable
from data.intake.rules import ImportRule


def table(content: bytes | str, delimiter: str = ","):
    raw = content.encode() if isinstance(content, str) else content
    return [
        (number, one.rule if isinstance(one, Unreadable) else one.values)
        for number, one in csv_lines(io.BytesIO(raw), delimiter)
    ]


def test_lines_are_split_at_a_delimiter_of_any_length():
    content = b"a|@|b|c\n\n  \n1|@|2\r\n"
    found = list(split_lines(io.BytesIO(content), "|@|"))
    assert found == [(1, Fields(["a", "b|c"])), (4, Fields(["1", "2"]))]


def test_fields_between_quotes():
    content = 'a,"b,c",d\n"x""y",,"z"\n1, "2,3",4\n"one\nfield\n",2,3\nlast,2,3'
    assert table(content) == [
        (1, ["a", "b,c", "d"]),
        (2, ['x"y', "", "z"]),
        (3, ["1", "2,3", "4"]),
        (4, ["one\nfield\n", "2", "3"]),
        (7, ["last", "2", "3"]),
    ]


def test_a_quote_inside_a_field_is_a_character():
    assert table('5" pipe,b\n') == [(1, ['5" pipe', "b"])]


def test_a_quote_that_is_never_closed_costs_its_line_only():
    content = 'a,b\n"never closed,2\n' + "".join(f"{k},{k}\n" for k in range(50))
    found = table(content)
    assert found[:2] == [(1, ["a", "b"]), (2, ImportRule.BAD_QUOTING)]
    assert found[2:] == [(k + 3, [str(k), str(k)]) for k in range(50)]


def test_text_behind_a_closing_quote_costs_its_line_only():
    assert table('"a"b,c\nd,e\n') == [(1, ImportRule.BAD_QUOTING), (2, ["d", "e"])]


def test_a_record_may_have_so_many_lines_and_no_more():
    for lines, is_read in ((MAX_RECORD_LINES, True), (MAX_RECORD_LINES + 1, False)):
        content = '"' + "\n".join("x" for _ in range(lines)) + '",b\nc,d\n'
        found = table(content)
        assert (found[0][1] != ImportRule.BAD_QUOTING) == is_read
        assert found[-1] == (lines + 1, ["c", "d"])


def test_lines_that_cannot_be_read_end_a_record_that_goes_on():
    found = table(b'"a\nb\0c\n",d\ne,f\n')
    assert found == [
        (1, ImportRule.BAD_QUOTING),
        (2, ImportRule.NUL_BYTE),
        (3, ImportRule.BAD_QUOTING),
        (4, ["e", "f"]),
    ]


def test_many_lone_quotes_cost_by_their_number(monkeypatch):
    """Counted in characters that the parser is given, not in seconds."""
    given_characters = 0
    parser = csv.reader

    def counting(lines, **how):
        def counted():
            nonlocal given_characters
            for line in lines:
                given_characters += len(line)
                yield line

        return parser(counted(), **how)

    monkeypatch.setattr(delimited.csv, "reader", counting)
    for lines in ('"a\n', '"\n', '"a""\n' + 'b""\n' * 19, '"' + "x" * 9_000 + "\n"):
        content = lines * (60_000 // len(lines))
        given_characters = 0
        assert len(table(content)) > 0
        assert given_characters <= (MAX_RECORD_LINES + 1) * 2 * len(content)


def test_every_line_is_in_one_record_or_in_one_fault():
    """Whatever quotes do, the lines of a table that are not blank are told of once each."""

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(st.text(alphabet='ab,"\n\r \t', max_size=60))
    def check(text):
        found = table(text)
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers))
        raw = text.split("\n")
        spans = [*numbers, len(raw) + 1][1:]
        for (number, values), after in zip(found, spans, strict=True):
            covered = 1 if isinstance(values, ImportRule) else 1 + sum(one.count("\n") for one in values)
            assert all(not line.strip() for line in raw[number - 1 + covered : after - 1])

    check()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.text(alphabet='ab,"; \n', max_size=6), min_size=2, max_size=4), max_size=6),
    st.sampled_from([",", ";", "\t", "|"]),
)
def test_what_a_writer_of_csv_quotes_is_read_back(rows, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    assert [values for _, values in table(out.getvalue(), delimiter)] == rows


def test_ten_thousand_columns_are_fields_and_a_short_message():
    header = ",".join(f"column{k}" for k in range(10_000))
    ((_, values),) = table(header)
    assert len(values) == 10_000
    assert fit(values, 12) is None
    assert len(other_width(values, 12)) < 400
    assert "the row has 10000 fields, the header has 12" in other_width(values, 12)


def test_one_empty_field_more_is_the_end_of_the_line():
    assert fit(["a", "b", ""], 2) == ["a", "b"]
    assert fit(["a", "b", "c"], 2) is None
    assert fit(["a", "b", "", ""], 2) is None
    assert fit(["a"], 2) is None


@pytest.mark.parametrize("formula", ["=cmd|' /C calc'!A0", "@SUM(1+9)", "+1-1", "-2+3", '=HYPERLINK("x")'])
def test_formulas_are_text(formula):
    quoted = '"' + formula.replace('"', '""') + '"'
    assert table(f"{quoted},b\n") == [(1, [formula, "b"])]


def test_mended_records_have_the_hash_of_their_bytes():
    ((_, plain), (_, quoted)) = csv_lines(io.BytesIO(b'd\xe9,1\n"a\nd\xe9",2\n'))
    assert plain.is_mended
    assert quoted.is_mended
    assert plain.bytes_hash
    assert quoted.bytes_hash
    assert plain.bytes_hash != quoted.bytes_hash
