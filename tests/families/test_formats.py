"""What every registered format owes, whatever it reads: an example of each lies in tests/fixtures/formats."""

import gzip
import json
import random
import signal
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mutations import mutated
from support import REPOSITORY

from data.formats import FORMATS
from data.intake.driver import import_file, recognise
from data.intake.format import Clock, Kind, Reading, ReadOptions
from data.intake.heads import head
from data.intake.report import FileReport
from data.intake.rows import Row
from data.intake.rules import Action, ImportRule
from data.inventory_records import NodeRecord, PoolRecord
from data.records import AttemptRecord
from data.shelf.store import HistoryStore
from data.stamps import MAX_INSTANT_S
from domain.attempts import EndCause, Limit

EXAMPLES = REPOSITORY / "tests" / "fixtures" / "formats"
OPTIONS = ReadOptions(cluster="c", tz=ZoneInfo("Europe/Zurich"))
SEEDS = range(100)
MOST_S = 20
"""A file of two kilobytes that takes so long hangs."""

every_format = pytest.mark.parametrize("name", sorted(FORMATS))


@cache
def example(name: str) -> Path:
    found = sorted(EXAMPLES.glob(f"{name}.*"))
    assert len(found) == 1, (
        f"the format {name} needs an example written by hand, tests/fixtures/formats/{name}.<ending>: "
        "a few rows of each kind it reads, on more than one day, all of them good"
    )
    return found[0]


def bring(path: Path, folder: Path, name: str = "auto") -> FileReport:
    with HistoryStore(folder).importing() as into:
        return import_file(path, name, OPTIONS, into)


def dry(path: Path, name: str = "auto") -> FileReport:
    return import_file(path, name, OPTIONS, None)


def files(folder: Path, kind: str = "") -> dict[str, bytes]:
    found = (path for path in sorted((folder / kind).rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def kept(folder: Path) -> dict[str, Any]:
    """All that a history says of its clusters."""
    store = HistoryStore(folder)
    return {
        name: (entry.clock, store.records(name), store.inventory(name))
        for name, entry in store.manifest().clusters.items()
    }


def rows_of(name: str) -> list[Row]:
    return list(FORMATS[name].rows(Reading(example(name), OPTIONS)))


def adds_up(report: FileReport) -> bool:
    told = report.as_json()
    json.dumps(told, allow_nan=False)
    assert all(Action(note["action"]) is ImportRule(note["rule"]).action for note in told["notes"])
    assert sum(report.rules.values()) == len(told["notes"]) + told["notes_not_listed"]
    rejections = sum(
        count for rule, count in report.rules.items() if ImportRule(rule).action is Action.REJECTED
    )
    assert rejections >= report.rejected
    return report.read == report.accepted + report.repaired + report.rejected


# Recognising


@every_format
def test_its_example_is_recognised_by_its_content_and_by_nothing_else_better(name, tmp_path):
    path = tmp_path / "history"
    path.write_bytes(example(name).read_bytes())
    found, why = recognise(path)
    assert found.name == name
    assert len(why) > 10
    assert why.isprintable()
    begin = head(path)
    scores = {other: match.score for other, one in FORMATS.items() if (match := one.sniff(begin)) is not None}
    assert all(0.0 < score <= 1.0 for score in scores.values())
    assert all(score < scores[name] for other, score in scores.items() if other != name)


@every_format
def test_it_has_a_name_a_title_and_a_page(name):
    one = FORMATS[name]
    assert one.name == name == name.lower()
    assert len(one.title) > 10
    page = REPOSITORY / "docs" / "formats" / f"{name}.md"
    assert page.exists(), f"write docs/formats/{name}.md: what the format is, where it comes from, its traps"


# Records


@every_format
def test_every_record_obeys_the_types_of_its_fields_and_the_range_of_instants(name):
    rows = rows_of(name)
    assert rows
    found = [record for row in rows for record in row.records]
    assert found
    expected = {Kind.HISTORY: AttemptRecord, Kind.INVENTORY: (NodeRecord, PoolRecord)}[FORMATS[name].kind]
    for record in found:
        assert isinstance(record, expected)
        for field, kind in get_type_hints(type(record)).items():
            value = getattr(record, field)
            assert _is_of(value, kind), f"{field} is {value!r}, {kind} is expected"
            if isinstance(value, str):
                assert value, f"{field} is empty: what is not known is None"
                assert value.isprintable()
            if field.endswith("_s") and value is not None and field not in {"compute_s", "max_time_s"}:
                assert 0.0 <= value <= MAX_INSTANT_S
    assert [row.line for row in rows] == sorted(row.line for row in rows)


def _is_of(value: Any, kind: Any) -> bool:
    if kind is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in {str, bool, EndCause, Limit}:
        return isinstance(value, kind)
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        if arguments[-1] is Ellipsis:
            return isinstance(value, tuple) and all(_is_of(one, arguments[0]) for one in value)
        return isinstance(value, tuple) and all(map(_is_of, value, arguments))
    return any(value is None if one is type(None) else _is_of(value, one) for one in arguments)


@every_format
def test_its_report_adds_up(name):
    report = dry(example(name))
    assert report.fault is None
    assert report.kind is FORMATS[name].kind
    assert report.read > 1
    assert report.rejected == 0, [note.message for note in report.notes]
    assert adds_up(report)
    if report.kind is Kind.HISTORY:
        assert len(report.days) > 1, "an example has rows of more than one day"
        assert sum(one.attempts for one in report.days.values()) == report.records


# Keeping


@every_format
def test_the_same_file_twice_changes_nothing(name, tmp_path):
    first = bring(example(name), tmp_path)
    assert (first.fault, first.updated, first.unchanged) == (None, 0, 0)
    assert 0 < first.new <= first.records
    before, clusters = files(tmp_path), HistoryStore(tmp_path).manifest().clusters
    second = bring(example(name), tmp_path)
    assert second.was_known
    assert (second.new, second.updated, second.unchanged) == (0, 0, first.new)
    assert files(tmp_path) == before
    other_name = tmp_path.parent / f"{tmp_path.name}.copy"
    other_name.write_bytes(example(name).read_bytes())
    assert bring(other_name, tmp_path).was_known
    assert files(tmp_path) == before
    assert HistoryStore(tmp_path).manifest().clusters == clusters


@every_format
def test_the_same_rows_in_another_file_change_nothing(name, tmp_path):
    """Packed, its bytes are others: every row is compared with what is there."""
    first = bring(example(name), tmp_path / "h")
    before = files(tmp_path / "h", "parts"), files(tmp_path / "h", "inventory")
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(example(name).read_bytes(), mtime=0))
    if name == "parquet":  # which is packed inside, and not read through another packing
        assert bring(packed, tmp_path / "h").fault is not None
        return
    second = bring(packed, tmp_path / "h")
    assert (second.was_known, second.new, second.updated, second.unchanged) == (False, 0, 0, first.new)
    assert (files(tmp_path / "h", "parts"), files(tmp_path / "h", "inventory")) == before


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"parquet"}))
def test_packed_files_give_the_same_history(name, tmp_path):
    content = example(name).read_bytes()
    bring(example(name), tmp_path / "plain")
    for packing, packed in (
        ("gzip", gzip.compress(content, mtime=0)),
        ("zstd", pa.compress(content, codec="zstd", asbytes=True)),
    ):
        path = tmp_path / packing
        path.write_bytes(packed)
        report = bring(path, tmp_path / f"from-{packing}")
        assert (report.fault, report.format) == (None, name)
        assert kept(tmp_path / f"from-{packing}") == kept(tmp_path / "plain")


@every_format
def test_rows_in_another_order_give_the_same_history(name, tmp_path):
    bring(example(name), tmp_path / "ordered")
    for seed in range(3):
        path = tmp_path / f"{seed}"
        path.write_bytes(_shuffled(name, example(name).read_bytes(), random.Random(seed)))  # noqa: S311
        report = bring(path, tmp_path / f"from-{seed}")
        assert (report.fault, report.rejected) == (None, 0)
        assert kept(tmp_path / f"from-{seed}") == kept(tmp_path / "ordered")


def _shuffled(name: str, content: bytes, rng: random.Random) -> bytes:
    """The example with its rows in another order, headers and comments left where they are."""
    if name == "parquet":
        table = pq.read_table(pa.BufferReader(content))
        out = pa.BufferOutputStream()
        pq.write_table(table.take(rng.sample(range(len(table)), len(table))), out)
        return bytes(out.getvalue())
    text = content.decode()
    if text.startswith(("[", '{"jobs"', '{\n "jobs"', '{"nodes"', '{\n "nodes"')):
        document = json.loads(text)
        rng.shuffle(document if isinstance(document, list) else next(iter(document.values())))
        return json.dumps(document, indent=1).encode()
    parts = text.strip("\n").split("\n\n")
    if len(parts) > 1:
        rng.shuffle(parts)
        return ("\n\n".join(parts) + "\n").encode()
    lines = text.splitlines()
    header = sum(line.startswith(";") for line in lines) or int(not text.startswith("{"))
    rest = lines[header:]
    rng.shuffle(rest)
    return "\n".join([*lines[:header], *rest, ""]).encode()


@every_format
def test_a_dry_run_writes_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = dry(example(name))
    assert (report.new, report.updated, report.unchanged) == (None, None, None)
    assert report.read > 0
    assert list(tmp_path.iterdir()) == []


@every_format
def test_its_clock_goes_with_its_instants(name):
    report = dry(example(name))
    first = min(report.days, default=None)
    if first is not None:
        assert (report.clock is Clock.RELATIVE) == (first < 365), "instants before 1971 are relative ones"


# Damage


class HangError(Exception):
    """It takes far too long."""


def _hang(_signal: int, _frame: Any) -> None:
    raise HangError


@every_format
def test_a_hundred_kinds_of_damage_end_in_counts_that_add_up_or_in_a_clear_error(name, tmp_path):
    """Read as what it says it is, and as what the operator says; some of them are kept."""
    content = example(name).read_bytes()
    path = tmp_path / "damaged"
    before = signal.signal(signal.SIGALRM, _hang)
    try:
        for seed in SEEDS:
            path.write_bytes(mutated(content, seed))
            chosen = name if seed % 2 else "auto"
            signal.alarm(MOST_S)
            report = (
                bring(path, tmp_path / "h", chosen)
                if seed % 10 == 0
                else import_file(path, chosen, OPTIONS, None)
            )
            signal.alarm(0)
            assert adds_up(report), f"seed {seed}"
            _is_clear(report)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    kept(tmp_path / "h")


def _is_clear(report: FileReport) -> None:
    messages = [note.message for note in report.notes]
    if report.fault is not None:
        messages.append(report.fault["message"])
        assert report.fault["rule"]
    for message in messages:
        assert message
        assert message.isprintable()
        assert len(message) < 700


@every_format
def test_a_file_that_is_cut_anywhere_never_leaves_half_a_history(name, tmp_path):
    content = example(name).read_bytes()
    path = tmp_path / "cut"
    for part in range(1, 8):
        path.write_bytes(content[: len(content) * part // 8])
        folder = tmp_path / f"h{part}"
        report = bring(path, folder, name)
        assert adds_up(report)
        if report.fault is not None:
            assert kept(folder) == {}
        else:
            assert sum(len(records) for _, records, _ in kept(folder).values()) <= report.records


def test_no_example_is_of_a_format_that_is_gone():
    assert {path.name.partition(".")[0] for path in EXAMPLES.iterdir()} == set(FORMATS)


def test_records_have_no_field_that_a_history_forgets():
    """Whatever a reader fills in is kept, but for the line it stood on."""
    from data.shelf.arrow import SCHEMA  # noqa: PLC0415 - beside what it is compared with

    known = {*SCHEMA.names, "limit", "source_line"}
    assert {field.name for field in fields(AttemptRecord)} <= known
