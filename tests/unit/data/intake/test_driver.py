"""Importing files that are not what they seem: one report each, and never a traceback."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support import REPOSITORY

from data.intake import driver
from data.intake.driver import import_file, recognise
from data.intake.format import ReadOptions
from data.intake.report import KEPT_NOTES, Told
from data.shelf.store import HistoryStore
from domain.errors import InputError, SettingError

EXAMPLES = REPOSITORY / "tests" / "fixtures" / "formats"
OPTIONS = ReadOptions(cluster="c", tz=ZoneInfo("UTC"))
HEADER = "JobIDRaw|Submit|Start|End|State|AllocTRES|JobName\n"
ROW = "{k}|2024-05-01T08:00:00|2024-05-01T08:01:00|2024-05-01T09:00:00|COMPLETED|gres/gpu=1|{name}\n"


def sacct(*names: str) -> str:
    return HEADER + "".join(ROW.format(k=k, name=name) for k, name in enumerate(names, 1))


def written(folder: Path, content: bytes | str, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def dry(path: Path, name: str = "auto", options: ReadOptions = OPTIONS):
    return import_file(path, name, options, None)


def kept(path: Path, folder: Path):
    store = HistoryStore(folder)
    with store.importing() as into:
        report = import_file(path, "auto", OPTIONS, into)
    return report, store.records("c")


# What is no history


def archived(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("../../../etc/cron.d/evil", sacct("a"))
            archive.writestr("/etc/passwd", "x")
    else:
        with tarfile.open(fileobj=out, mode="w:gz" if kind == "tar.gz" else "w") as archive:
            inside = tarfile.TarInfo("../../../etc/cron.d/evil")
            content = sacct("a").encode()
            inside.size = len(content)
            archive.addfile(inside, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
@pytest.mark.parametrize("name", ["auto", "sacct", "swf", "philly", "parquet"])
def test_archives_are_refused_and_nothing_in_them_is_unpacked(kind, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = dry(written(tmp_path, archived(kind), "jobs.csv"), name)
    assert report.fault is not None
    assert report.fault["rule"] in {"not-text", "unreadable-file", "missing-column"}
    if name == "auto":
        assert f"looks like a {kind[:3]} archive" in report.fault["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]
    assert report.read == 0


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "empty-file"),
        ("\n\n\n", "unknown-format"),
        ("just a letter to somebody\nwith two lines\n", "unknown-format"),
        ("a,b,c\n1,2,3\n", "unknown-format"),
        (b"\xff\xfe" + "JobID|Submit".encode("utf-16-le"), "not-text"),
        (b"PAR1 and nothing else", "unreadable-file"),
        (b"\x1f\x8b\x08 no archive", "unreadable-file"),
        (HEADER, "no-rows"),
    ],
)
def test_what_no_format_reads_is_refused_with_a_reason(content, rule, tmp_path):
    report = dry(written(tmp_path, content))
    assert report.fault is not None
    assert report.fault["rule"] == rule
    assert len(report.fault["message"]) > 15
    json.dumps(report.as_json())


def test_the_wrong_format_is_refused_or_rejects_rows():
    """Whatever the operator says a file is."""
    for example in sorted(EXAMPLES.iterdir()):
        for name in driver.FORMATS:
            report = dry(example, name)
            assert report.read == report.accepted + report.repaired + report.rejected, (example.name, name)


def test_there_is_no_such_format(tmp_path):
    report = dry(written(tmp_path, sacct("a")), "exel")
    assert report.fault is not None
    assert "there is no format 'exel'; there are acme" in report.fault["message"]


def test_a_file_that_fits_two_formats_equally_well_is_asked_about(tmp_path, monkeypatch):
    path = written(tmp_path, sacct("a"))
    twin = driver.FORMATS["sacct"]
    monkeypatch.setattr(driver, "FORMATS", {"one": twin, "two": twin})
    with pytest.raises(InputError, match="fits sacct and sacct equally well: say which with --format"):
        recognise(path)


def test_without_a_zone_naive_stamps_stop_the_file(tmp_path):
    report = dry(written(tmp_path, sacct("a", "b")), options=ReadOptions(cluster="c"))
    assert report.fault is not None
    assert (report.fault["rule"], report.fault["line"]) == ("no-time-zone", 1) or report.fault["line"] == 2
    assert "--tz" in report.fault["message"]


# What is only partly good


def test_a_cut_archive_keeps_what_stood_before(tmp_path):
    names = [f"{k * 7919 % 10007:05d}" for k in range(2_000)]
    whole = gzip.compress(sacct(*names).encode())
    report, records = kept(written(tmp_path, whole[: len(whole) // 2]), tmp_path / "h")
    assert report.fault is None
    assert report.rules["cut-short"] == report.rejected == 1
    assert report.read == len(records) + 1 > 500
    assert (report.notes[-1].rule, report.notes[-1].line) == ("cut-short", report.read + 1)


def test_notes_name_their_line_and_the_first_thousand_are_listed(tmp_path):
    text = sacct(*["x"] * 1_500).replace("|2024-05-01T08:00:00|", "|soon|")
    report = dry(written(tmp_path, text))
    assert (report.read, report.rejected, len(report.notes)) == (1_500, 1_500, KEPT_NOTES)
    assert [note.line for note in report.notes[:2]] == [2, 3]
    assert report.as_json()["notes_not_listed"] == 500


def test_every_note_is_told_of_as_it_comes(tmp_path):
    text = sacct(*["x"] * 1_500).replace("|2024-05-01T08:00:00|", "|soon|")
    told: list[Told] = []
    path = written(tmp_path, text)
    import_file(path, "auto", OPTIONS, None, tell_notes=lambda _path, notes: told.extend(notes))
    assert len(told) == 1_500


@pytest.mark.parametrize("size", [100, 100_000, 3_000_000])
def test_messages_have_an_end_however_long_the_value(size, tmp_path):
    text = sacct("a", "b").replace("2024-05-01T09:00:00", "9" * size, 1).replace("gres/gpu=1", "x" * size, 1)
    report = dry(written(tmp_path, text))
    assert report.read == 2
    assert report.notes
    assert all(len(note.message) < 700 for note in report.notes)


# Names


HOSTILE_NAMES = {
    "formula": ("=cmd|' /C calc'!A0", None),
    "sum": ("@SUM(1+1)*cmd|' /C calc'!A0", None),
    "plus": ("+1-1", "+1-1"),
    "terminal": ("\x1b]0;owned\x07\x1b[31mred", "]0;owned[31mred"),
    "bidi": ("invoice\u202egnp.exe", "invoicegnp.exe"),
    "path": ("../../../etc/passwd", "../../../etc/passwd"),
    "html": ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    "percent": ("%s%n%x", "%s%n%x"),
    "sql": ("'; DROP TABLE jobs; --", "'; DROP TABLE jobs; --"),
}


@pytest.mark.parametrize("case", HOSTILE_NAMES)
def test_names_are_text_and_nothing_else(case, tmp_path):
    name, expected = HOSTILE_NAMES[case]
    report, (record,) = kept(written(tmp_path, sacct(name)), tmp_path / "h")
    if expected is None:  # a delimiter in the name: it is the one free text, and is rejoined
        assert report.rules == {"surplus-delimiter": 1}
        assert record.name == name
    else:
        assert record.name == expected
        assert ("control-characters" in report.rules) == (name != expected)


@pytest.mark.parametrize("cluster", ["a\x1b[31m", "a\nb", "a\u202eb", "x" * 501, "a\udcffb"])
def test_a_cluster_has_a_name_that_can_be_printed(cluster):
    with pytest.raises(SettingError, match="the cluster's name is"):
        ReadOptions(cluster=cluster)


def test_messages_about_hostile_files_can_be_printed(tmp_path):
    text = sacct("a", "b").replace("|2024-05-01T08:00:00|", "|\x1b[31m\u202e\u2066soon\x07|")
    for content in (text, "\x1b[31m,\u202e\nx,y\n", '[{"\\u202e": "\\u001b[31m"'):
        report = dry(written(tmp_path, content))
        messages = [note.message for note in report.notes] + [str((report.fault or {}).get("message"))]
        assert all(message.isprintable() for message in messages)
        assert report.why.isprintable()


# Keeping


def test_a_fault_of_the_history_names_the_history(tmp_path):
    path = written(tmp_path, sacct("a"))
    kept(path, tmp_path / "h")
    store = HistoryStore(tmp_path / "h")
    part = tmp_path / "h" / next(iter(store.manifest().clusters["c"].days.values()))
    part.write_bytes(b"x")
    with store.importing() as into:
        report = import_file(written(tmp_path, sacct("a", "b"), "other"), "auto", OPTIONS, into)
    assert report.fault is not None
    assert report.fault["message"].startswith(str(part)[:100])


def test_a_file_that_is_known_does_not_bring_back_what_was_updated_since(tmp_path):
    """The same again changes nothing, also where another file has said something else meanwhile."""
    first, second = written(tmp_path, sacct("old"), "first"), written(tmp_path, sacct("new"), "second")
    for path in (first, second, first):
        report, (record,) = kept(path, tmp_path / "h")
    assert record.name == "new"
    assert (report.was_known, report.new, report.updated, report.unchanged) == (True, 0, 0, 1)


def test_an_inventory_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "MOST_OF_INVENTORY", 1_000)
    text = "NODELIST PARTITION GRES STATE\n" + "".join(f"g{k}n[1-400] p gpu:8 idle\n" for k in range(9))
    report = dry(written(tmp_path, text), "sinfo")
    assert report.fault is not None
    assert report.fault["rule"] == "too-large"


# Memory


MEASURED = """
import sys
from pathlib import Path
from data.intake.driver import import_file
from data.intake.format import ReadOptions
from data.shelf.store import HistoryStore

with HistoryStore(Path(sys.argv[2])).importing() as into:
    report = import_file(Path(sys.argv[1]), "auto", ReadOptions(cluster="c"), into)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(report.new, int(peak.split()[1]) / 1024)
"""
"""How many rows it kept, and the most memory it has had, MiB."""


def peak_mib(folder: Path, rows: int) -> float:
    path = folder / f"{rows}.swf"
    with path.open("w") as file:
        file.write("; UnixStartTime: 1700000000\n")
        for k in range(rows):
            file.write(
                f"{k} {k * 120} {k % 999} {k % 7919} 8 -1 -1 8 7200 -1 1 {k % 97} 1 {k % 31} 1 1 -1 -1\n"
            )
    command = [sys.executable, "-c", MEASURED, str(path), str(folder / f"h{rows}")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True)
    new, peak = done.stdout.split()
    assert int(new) == rows
    return float(peak)


def test_memory_does_not_grow_with_rows(tmp_path):
    few, many = peak_mib(tmp_path, 80_000), peak_mib(tmp_path, 240_000)
    assert many < few * 1.1 + 16
    assert many < 500
