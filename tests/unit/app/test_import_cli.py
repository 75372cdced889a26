"""The commands import, formats and rules: what they print, write and keep, and how they refuse."""

import csv
import gzip
import json

import pytest

from app.services.import_notes import plain
from data.formats import FORMATS
from data.intake.rules import ImportRule
from data.shelf.store import HistoryStore

HEADER = "; Computer: ours\n; UnixStartTime: 1700000000\n"


def swf(number, submit, *, run=100, status=1, user=3):
    return f"{number} {submit} 5 {run} 4 -1 -1 4 200 -1 {status} {user} 1 7 1 1 -1 -1\n"


JOBS = HEADER + "".join(swf(k, 600 * k) for k in range(1, 21))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a history of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    (tmp_path / "jobs.swf").write_text(JOBS)
    return tmp_path


def report_of(folder, name="r.json"):
    return json.loads((folder / name).read_text())


def kept(folder, cluster="c"):
    return HistoryStore(folder / "kept").table(cluster).to_pylist()


def test_a_file_is_recognised_by_content_kept_and_reported(antecast, folder):
    (folder / "jobs.swf").rename(folder / "what.ever")
    done = antecast("import", "what.ever", "--cluster", "c", "--report", "r.json")
    assert done.code == 0, done.err
    assert "what.ever: swf (a header behind semicolons" in done.out
    assert "20 rows read, 20 accepted, 0 repaired, 0 rejected; 20 attempts: 20 new" in done.out
    assert "1 file: 20 rows read = 20 accepted + 0 repaired + 0 rejected; 20 new" in done.out
    (found,) = report_of(folder)["files"]
    assert (found["read"], found["accepted"], found["repaired"], found["rejected"]) == (20, 20, 0, 0)
    assert (found["format"], found["rules"], found["fault"]) == ("swf", {}, None)
    assert [row["raw_id"] for row in kept(folder)] == [str(k) for k in range(1, 21)]


def test_without_the_environment_the_history_lies_in_var(antecast, folder, monkeypatch):
    monkeypatch.delenv("ANTECAST_HISTORY_DIR")
    assert antecast("import", "jobs.swf").code == 0
    assert (folder / "var" / "history" / "manifest.json").is_file()


def test_counts_add_up_and_every_note_is_in_the_file_beside_the_report(antecast, folder):
    bad = [f"{k} -1 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n" for k in range(1500)]  # no submission
    (folder / "bad.swf").write_text(JOBS + "".join(bad) + "1 2 3\n")
    done = antecast("import", "bad.swf", "--cluster", "c", "--report", "r.json")
    assert done.code == 0, done.err
    document = report_of(folder)
    (found,) = document["files"]
    assert found["read"] == found["accepted"] + found["repaired"] + found["rejected"] == 1521
    assert found["rules"] == {"field-count": 1, "no-submit": 1500}
    assert len(found["notes"]) + found["notes_not_listed"] == 1501
    assert document["totals"]["rules"] == found["rules"]
    with (folder / "r.notes.csv").open(newline="") as file:
        notes = list(csv.DictReader(file))
    assert len(notes) == 1501
    assert notes[0]["line"] == "23"
    assert [note["rule"] for note in notes].count("no-submit") == 1500
    assert (notes[-1]["rule"], notes[-1]["action"], notes[-1]["file"]) == (
        "field-count", "rejected", "bad.swf"
    )  # fmt: skip
    assert "no-submit 1,500, field-count 1" in done.out
    assert not list(folder.glob("*.new"))


def test_the_same_file_twice_changes_nothing(antecast, folder):
    assert antecast("import", "jobs.swf", "--cluster", "c").code == 0
    before = {path: path.read_bytes() for path in (folder / "kept" / "parts").rglob("*.parquet")}
    again = antecast("import", "jobs.swf", "--cluster", "c", "--report", "r.json")
    assert again.code == 0
    assert "known already, 0 new, 0 updated, 20 unchanged" in again.out
    (found,) = report_of(folder)["files"]
    assert (found["was_known"], found["new"], found["updated"], found["unchanged"]) == (True, 0, 0, 20)
    after = {path: path.read_bytes() for path in (folder / "kept" / "parts").rglob("*.parquet")}
    assert after == before


def test_overlapping_pulls_merge_and_a_later_row_updates_its_job(antecast, folder):
    first = [swf(k, 600 * k) for k in range(1, 6)] + [swf(6, 3600, run=-1, status=-1)]
    second = [swf(k, 600 * k) for k in range(4, 9)]
    (folder / "1").write_text(HEADER + "".join(first))
    (folder / "2").write_text(HEADER + "".join(second))
    done = antecast("import", "1", "2", "--cluster", "c", "--report", "r.json")
    assert done.code == 0, done.err
    one, other = report_of(folder)["files"]
    assert (one["new"], one["updated"], one["unchanged"]) == (6, 0, 0)
    assert (other["new"], other["updated"], other["unchanged"]) == (2, 1, 2)
    rows = kept(folder)
    assert [row["raw_id"] for row in rows] == [str(k) for k in range(1, 9)]
    assert [row["cause"] for row in rows if row["raw_id"] == "6"] == ["completed"]


def test_the_order_of_pulls_makes_no_difference(antecast, folder):
    (folder / "1").write_text(HEADER + swf(6, 3600, run=-1, status=-1))
    (folder / "2").write_text(HEADER + swf(6, 3600))
    assert antecast("import", "2", "1", "--cluster", "c").code == 0
    assert [row["cause"] for row in kept(folder)] == ["completed"]


def test_a_dry_run_reads_reports_and_keeps_nothing(antecast, folder):
    done = antecast("import", "jobs.swf", "--dry-run", "--report", "r.json")
    assert done.code == 0
    assert "nothing was kept (a dry run)" in done.out
    assert not (folder / "kept").exists()
    document = report_of(folder)
    assert document["is_dry_run"]
    assert document["history"] is None
    assert document["files"][0]["new"] is None


def test_a_bad_file_does_not_keep_the_good_ones_out(antecast, folder):
    (folder / "prose.txt").write_text("nothing of use\n")
    (folder / "empty").touch()
    done = antecast(
        "import", "prose.txt", "empty", "missing", "jobs.swf", "--cluster", "c", "--report", "r.json"
    )
    assert done.code == 2
    assert "prose.txt: not imported: unknown-format: " in done.out
    assert "4 files, 3 of them not imported: 20 rows read" in done.out
    assert "Traceback" not in done.err
    rules = [one["fault"] and one["fault"]["rule"] for one in report_of(folder)["files"]]
    assert rules == ["unknown-format", "empty-file", "unreadable-file", None]
    assert report_of(folder)["totals"]["unreadable"] == 3
    assert len(kept(folder)) == 20


def test_packed_files_are_read_as_they_are(antecast, folder):
    (folder / "jobs.swf.gz").write_bytes(gzip.compress(JOBS.encode()))
    assert "20 rows read, 20 accepted" in antecast("import", "jobs.swf.gz").out


def test_origin_zone_and_processors_are_taken_from_the_operator(antecast, folder):
    (folder / "relative.swf").write_text(JOBS.replace("; UnixStartTime: 1700000000\n", ""))
    done = antecast(
        "import", "relative.swf", "--cluster", "c", "--origin", "2024-01-01", "--tz", "Europe/Zurich",
        "--procs-as-gpus",
    )  # fmt: skip
    assert done.code == 0, done.err
    first = kept(folder)[0]
    assert first["submit_s"] == 1704063600.0 + 600.0
    assert first["gpus_given_milli"] == 4000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tz", "Mars/Olympus"], "there is no time zone 'Mars/Olympus'"),
        (["--origin", "soon"], "--origin: 'soon' is no time stamp"),
        (["--origin", "2024-01-01"], "has no offset"),
        (["--cluster", " "], "--cluster is empty"),
        (["--report", "no/such/folder/r.json"], "cannot be written"),
        (["--history", "jobs.swf"], "the folder cannot be written"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_read(antecast, folder, options, words):
    done = antecast("import", "jobs.swf", *options)
    assert done.code == 2
    assert words in " ".join(done.err.split()).replace("│ ", "")
    assert "Traceback" not in done.err
    assert "lenient" not in done.err
    assert not (folder / "kept").exists()


def test_an_unknown_format_is_refused_with_those_there_are(antecast, folder):
    done = antecast("import", folder / "jobs.swf", "--format", "xml")
    assert done.code == 2
    assert "there is no format 'xml'; there are " in done.out


def test_a_broken_history_is_said_and_not_overwritten(antecast, folder):
    (folder / "kept").mkdir()
    (folder / "kept" / "manifest.json").write_text("{")
    done = antecast("import", "jobs.swf")
    assert done.code == 2
    assert "manifest.json: unreadable-file" in done.err
    assert (folder / "kept" / "manifest.json").read_text() == "{"


def test_formats_and_rules_are_listed(antecast):
    listed = antecast("formats")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == sorted(FORMATS)
    assert set(json.loads(antecast("formats", "--json").out)) == set(FORMATS)
    rules = json.loads(antecast("rules", "--json").out)
    assert {one["rule"] for one in rules} >= {one.value for one in ImportRule}
    one = antecast("rules", "no-submit")
    assert "rejected  nothing says when it was submitted" in one.out
    assert "docs/import-rules/no-submit.md" in one.out
    assert antecast("rules", "no-such").code == 2


def test_text_of_sources_reaches_neither_terminal_nor_spreadsheet_as_a_command(antecast, folder):
    (folder / "=cmd\x1b[2J.swf").write_text(JOBS + "x\x1b]0;gotcha\x07 1 2\n")
    done = antecast("import", "=cmd\x1b[2J.swf", "--report", "r.json")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    with (folder / "r.notes.csv").open(newline="") as file:
        assert [row["file"] for row in csv.DictReader(file)] == ["'=cmd\x1b[2J.swf"]
    assert [plain(text) for text in ("=1", "+1", "-1", "@x", "a=1", "\udcff")] == [
        "'=1", "'+1", "'-1", "'@x", "a=1", "\\udcff"
    ]  # fmt: skip
