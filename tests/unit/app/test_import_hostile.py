"""What hostile files, names and folders come to at the command line: exit codes and clean lines."""

import csv
import json
import os

import pytest
from support import REPOSITORY

from data.formats import FORMATS
from data.shelf.store import HistoryStore

EXAMPLES = REPOSITORY / "tests" / "fixtures" / "formats"
HEADER = "JobIDRaw|Submit|Start|End|State|AllocTRES|Partition|User|JobName\n"
ROW = "{id}|{submit}|2024-05-01T08:01:00|2024-05-01T09:00:00|COMPLETED|gres/gpu=1|{pool}|{user}|{name}\n"
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202egnp.exe\u2066"
FILE = "evil\x1b[2J\u202e\u2066\nline" + os.fsdecode(b"\xff") + ".txt"


def sacct(**values: str) -> str:
    row = {"id": "1", "submit": "2024-05-01T08:00:00", "pool": "p", "user": "u", "name": "n", **values}
    return HEADER + ROW.format(**row)


def is_clean(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTECAST_HISTORY_DIR", str(tmp_path / "kept"))
    return tmp_path


def test_names_of_files_jobs_users_and_pools_cannot_move_the_cursor(antecast, folder):
    names = {"pool": HOSTILE, "user": HOSTILE, "name": HOSTILE}
    (folder / FILE).write_text(sacct(**names) + ROW.format(id=HOSTILE, submit=HOSTILE, **names))
    done = antecast("import", FILE, "--cluster", "c", "--tz", "UTC", "--report", "r.json")
    assert (done.code, done.err) == (0, "")
    assert is_clean(done.out)
    assert "1 accepted" in done.out or "1 repaired" in done.out
    assert "1 rejected" in done.out
    (record,) = HistoryStore(folder / "kept").records("c")
    assert record.name == record.user == record.pool == "]0;owned[31mredgnp.exe"
    for command in (
        ("list",),
        ("describe", "c"),
        ("describe",),
        ("job", "1", "--cluster", "c"),
        ("job", "1"),
    ):
        shown = antecast("history", *command)
        assert is_clean(shown.out), command
        assert is_clean(shown.err), command
        assert "Traceback" not in shown.err
    (report,) = json.loads((folder / "r.json").read_text())["files"]
    assert all(note["message"].isprintable() for note in report["notes"])


def test_notes_are_no_formulas(antecast, folder):
    """Whoever opens them in a spreadsheet sees text."""
    (folder / "=cmd.txt").write_text(
        sacct(submit="=cmd|' /C calc'!A0") + sacct(submit="@SUM(1)").split("\n", 1)[1]
    )
    antecast("import", "=cmd.txt", "--tz", "UTC", "--report", "r.json")
    (notes,) = (path for path in folder.iterdir() if path.suffix == ".csv")
    with notes.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert len(cells) > 5
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)


@pytest.mark.parametrize("cluster", ["../../etc", "/etc/passwd", "a/../../b", "..", "\u4e2d\u6587", "-x y"])
def test_no_cluster_leads_out_of_the_history(cluster, antecast, folder):
    (folder / "jobs.txt").write_text(sacct())
    done = antecast("import", "jobs.txt", f"--cluster={cluster}", "--tz", "UTC")
    assert done.code == 0, done.err
    assert {path.name for path in folder.iterdir()} == {"jobs.txt", "kept"}
    assert len(HistoryStore(folder / "kept").records(cluster)) == 1


@pytest.mark.parametrize("cluster", ["a\x1b[31m", "a\nb", "x" * 600])
def test_a_cluster_that_cannot_be_printed_is_refused(cluster, antecast, folder):
    (folder / "jobs.txt").write_text(sacct())
    done = antecast("import", "jobs.txt", "--cluster", cluster, "--tz", "UTC")
    assert done.code == 2
    assert is_clean(done.err)
    assert "Traceback" not in done.err


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(antecast, folder):
    (folder / "jobs.txt").write_text(sacct())
    (folder / "home" / "parts").mkdir(parents=True)
    (folder / "home" / "parts" / "thesis-1.json").write_text("mine")
    done = antecast("import", "jobs.txt", "--tz", "UTC", "--history", "home")
    assert done.code == 2
    assert "is no history and is not empty" in " ".join(done.err.replace("\u2502", "").split())
    assert (folder / "home" / "parts" / "thesis-1.json").read_text() == "mine"


def test_a_linked_history_is_a_history(antecast, folder):
    (folder / "jobs.txt").write_text(sacct())
    (folder / "elsewhere").mkdir()
    (folder / "kept").symlink_to(folder / "elsewhere")
    assert antecast("import", "jobs.txt", "--cluster", "c", "--tz", "UTC").code == 0
    assert (folder / "kept").is_symlink()
    assert len(HistoryStore(folder / "elsewhere").records("c")) == 1


def test_every_example_is_imported_by_the_command(antecast, folder):
    """All at once, each to a cluster of its own."""
    for name in sorted(FORMATS):
        (example,) = EXAMPLES.glob(f"{name}.*")
        done = antecast("import", example, "--cluster", name, "--tz", "UTC")
        assert done.code == 0, (name, done.err)
        assert f"{example.name}: {name} (" in done.out
    assert len(HistoryStore(folder / "kept").manifest().imports) == len(FORMATS)
    assert is_clean(antecast("history", "list").out)
