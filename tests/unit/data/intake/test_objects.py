"""JSON of any size and shape: one object at a time, and bounded memory for what never ends."""

import io
import itertools
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import REPOSITORY

from data.intake.objects import MAX_EVENTS, json_items, json_lines
from data.intake.rows import MendedObject, Unreadable, rows_from
from data.intake.rules import ImportRule
from data.intake.source import MAX_LINE_BYTES, BrokenFileError
from data.records import AttemptRecord


class Endless(io.RawIOBase):
    """A beginning, then the same over and over, as much as is asked for."""

    def __init__(self, begin: bytes, again: bytes, size: int) -> None:
        super().__init__()
        self._blocks = itertools.chain(
            [begin], itertools.repeat(again * (2**16 // len(again)), size // 2**16)
        )

    def read(self, size: int = -1) -> bytes:
        return next(self._blocks, b"") if size else b""


def items(content: bytes, *prefixes: str):
    return [found for _, found in json_items(io.BytesIO(content), prefixes or ("item",))]


def lines(content: bytes):
    return [found for _, found in json_lines(io.BytesIO(content))]


def rules(found):
    return [one.rule if isinstance(one, Unreadable) else None for one in found]


def broken(content: bytes | io.RawIOBase, *prefixes: str):
    """Elements before the break, and what is said of it."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    found = []
    with pytest.raises(BrokenFileError) as error:
        found.extend(one for _, one in json_items(file, prefixes or ("item",)))
    return found, str(error.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("ab.\u00e9", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
objects = st.lists(st.dictionaries(st.text("abc", max_size=3), json_values, max_size=4), max_size=5)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(objects, st.booleans(), st.booleans())
def test_objects_come_back_as_they_were_written(written, ascii_only, is_pretty):
    text = json.dumps(written, ensure_ascii=ascii_only, indent=1 if is_pretty else None)
    assert items(text.encode()) == written
    inside = json.dumps({"meta": {"item": [1]}, "jobs": written, "more": [{}]}, ensure_ascii=ascii_only)
    assert items(inside.encode(), "jobs.item") == written
    a_line_each = "\n".join(json.dumps(one, ensure_ascii=ascii_only) for one in written)
    assert lines(a_line_each.encode()) == written


def test_several_lists_and_the_whole_document():
    content = b'{"a": [{"x": 1}], "b": {"c": [{"x": 2}, {"x": 3}]}, "d": [[{"x": 4}]]}'
    assert items(content, "a.item", "b.c.item", "d.item.item") == [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}]
    assert items(content, "") == [json.loads(content)]
    assert items(content, "no.item") == []


@pytest.mark.parametrize(
    "number", ["18446744073709551614", "-9223372036854775809", "123456789012345678901234567890", "1.5", "1e3"]
)
def test_numbers_beyond_64_bits_are_numbers(number):
    """Slurm writes 18446744073709551614 for a memory limit that was not set."""
    content = f'[{{"a": {number}}}, {{"b": 1}}]'.encode()
    assert items(content) == json.loads(content)
    assert [type(one["a"]) for one in items(content)[:1]] == [type(json.loads(content)[0]["a"])]


def test_of_a_name_that_is_there_twice_the_later_counts():
    assert items(b'[{"a": 1, "a": 2}]') == lines(b'{"a": 1, "a": 2}') == [{"a": 2}]


def test_a_number_beyond_any_costs_its_object_only():
    assert rules(items(b'[{"a": 1e999}, {"b": 1}]')) == [ImportRule.LINE_TOO_LONG, None]
    assert rules(lines(b'{"a": 1e999}\n{"b": 1}\n{"c": ' + b"9" * 5000 + b"}")) == [
        ImportRule.NOT_AN_OBJECT, None, ImportRule.NOT_AN_OBJECT,
    ]  # fmt: skip


@pytest.mark.parametrize("place", [0, 2**16 - 3000, 2**16 - 20, 2**16, 2**17 - 2000])
@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"-", b""), (b"0.", b""), (b"", b".5"), (b'"', b'"')]
)
def test_a_run_of_digits_without_end_ends_the_document_and_nothing_else(place, before, after):
    """Wherever it lies to the blocks that are read: the parser's own way would be to end the process."""
    content = b'[{"a": 1}, ' + b" " * place + b'{"b": ' + before + b"9" * 5000 + after + b"}, {}]"
    found, message = broken(content)
    assert found == [{"a": 1}]
    assert "a number has 4000 digits or more" in message


def test_an_exponent_without_end_ends_the_document():
    found, message = broken(b'[{"a": 1}, {"b": 1e9999999999999999999999}, {}]')
    assert found == [{"a": 1}]
    assert "a number is beyond any" in message


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_only_looks_like_json_is_said_to_be_none(word):
    assert rules(lines(b'{"a": ' + word + b'}\n{"b": 1}')) == [ImportRule.NOT_AN_OBJECT, None]
    found, message = broken(b'[{"b": 1}, {"a": ' + word + b"}]")
    assert found == [{"b": 1}]
    assert "breaks after element 1" in message


def test_what_is_no_object_is_told_of_and_the_rest_is_read():
    content = b'[1, "x", null, [2], {"a": 1}]'
    assert rules(items(content)) == [ImportRule.NOT_AN_OBJECT] * 4 + [None]
    assert "this is 'null'" in items(content)[2].message
    assert rules(lines(b'1\n[]\n{"a": 1}\n{"a"\n\n')) == [
        ImportRule.NOT_AN_OBJECT, ImportRule.NOT_AN_OBJECT, None, ImportRule.NOT_AN_OBJECT,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "good"),
    [
        (b'[{"a": 1}, {"a": 2', 1),
        (b'[{"a": 1}, {"a": 2}', 2),
        (b'[{"a": 1}][{"a": 2}]', 1),
        (b'[{"a": 1}] trailing', 1),
        (b'[{"a": 1}, {"a" 2}, {"a": 3}]', 1),
        (b'[{"a": 1}, {"a": "x\0y"}]', 1),
        (b'[{"a": 1},, {"a": 2}]', 1),
        (b"", 0),
        (b"no JSON at all", 0),
    ],
)
def test_elements_before_a_break_are_good(content, good):
    found, message = broken(content)
    assert found == [{"a": k + 1} for k in range(good)]
    assert message.startswith("the JSON breaks after element")
    assert "\n" not in message


def test_a_byte_order_mark_and_latin_1_are_no_reason_to_stop():
    found = items(b'\xef\xbb\xbf[{"a": "d\xe9"}, {"a": "plain"}, {"a": "d\xc3\xa9"}]')
    assert found == [{"a": "d\ufffd"}, {"a": "plain"}, {"a": "d\u00e9"}]
    assert [isinstance(one, MendedObject) for one in found] == [True, False, False]


def test_a_mended_object_is_told_of():
    record = AttemptRecord("c", "1", 0.0)
    for found in (
        json_items(io.BytesIO(b'[{"a": "d\xe9"}, {"a": 1}]'), ["item"]),
        json_lines(io.BytesIO(b'{"a": "d\xe9"}\n{"a": 1}')),
    ):
        rows = list(rows_from(found, lambda _raw, _notes: [record]))
        assert [[note.rule for note in row.notes] for row in rows] == [[ImportRule.NOT_UTF8], []]


def test_halves_of_characters_are_replaced():
    text = '{"\\ud800": "\\uDC00 \\ud83d\\ude00", "b": ["\\udfff"]}'
    assert lines(text.encode()) == [{"\ufffd": "\ufffd \U0001f600", "b": ["\ufffd"]}]
    found, message = broken(f'[{{"b": 1}}, {text}]'.encode())
    assert found == [{"b": 1}]
    assert "a text holds half of a character" in message


@pytest.mark.parametrize("depth", [50, 500, 5_000, 200_000])
def test_deep_nesting_costs_its_line_or_object_only(depth):
    deep = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    assert rules(lines(deep + b'\n{"b": 1}')) == [None if depth < 900 else ImportRule.NOT_AN_OBJECT, None]
    if depth < 10_000:
        assert rules(items(b"[" + deep + b', {"b": 1}]')) == [
            None if depth < 60 else ImportRule.LINE_TOO_LONG, None,
        ]  # fmt: skip


@pytest.mark.parametrize("begin", [b"[", b'[{"a": 1}, ', b'{"jobs": '])
def test_nesting_without_end_takes_little_memory(begin):
    tracemalloc.start()
    found, message = broken(Endless(begin, b"[", 2**28))
    assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    tracemalloc.stop()
    assert found == ([{"a": 1}] if b"a" in begin else [])
    assert "nested deeper than" in message


@pytest.mark.parametrize("begin", [b'[{"a": 1}, {"b": "', b'[{"a": 1}, {"', b'[{"a": 1}, ', b'{"jobs": "'])
def test_a_text_without_end_takes_little_memory(begin):
    again = b" " if begin.endswith(b" ") else b"x"
    tracemalloc.start()
    _, message = broken(Endless(begin, again, 2**31))
    assert tracemalloc.get_traced_memory()[1] < 16 * MAX_LINE_BYTES
    tracemalloc.stop()
    assert f"a text has more than {MAX_LINE_BYTES} bytes" in message


@pytest.mark.parametrize("inner", [b"1,", b'"' + b"x" * 100_000 + b'",'])
def test_an_element_without_end_is_read_over_and_takes_little_memory(inner):
    times = max(MAX_EVENTS, 1 + (MAX_LINE_BYTES if len(inner) > 9 else 0)) // (
        len(inner) if len(inner) > 9 else 1
    )
    huge = b'{"a": [' + inner * (times + 1) + b"0]}"
    assert rules(items(b"[" + huge + b', {"b": 1}]')) == [ImportRule.LINE_TOO_LONG, None]


def test_the_parser_is_used_behind_its_guards_only():
    """By itself it ends the process at long runs of digits, and keeps a path for every level of nesting."""
    users = {
        str(path.relative_to(REPOSITORY))
        for package in ("app", "data", "models", "simulator", "solver", "domain")
        for path in (REPOSITORY / package).rglob("*.py")
        if "import ijson" in path.read_text() or "from ijson" in path.read_text()
    }
    assert users == {"data/intake/objects.py"}
