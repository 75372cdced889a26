"""Imports that are killed: the history is as it was, and the next import cleans up and succeeds."""

import signal
import subprocess
import sys

import pytest
from support import REPOSITORY

from data.intake.driver import import_file
from data.intake.format import ReadOptions
from data.shelf.store import HistoryStore

KILLED = """
import signal, sys
from pathlib import Path
from data.intake import driver
from data.intake.format import ReadOptions
from data.shelf.store import HistoryStore

file, history, event, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
seen = 0

def die_at(name, _args):
    global seen
    seen += name == event
    if name == event and seen == count:
        signal.raise_signal(signal.SIGKILL)

def rows(_path, _rows):
    die_at("rows", ())

sys.addaudithook(die_at)
driver._TELL_EVERY = 50
with HistoryStore(history).importing() as into:
    driver.import_file(file, "swf", ReadOptions(cluster="c"), into, progress=rows)
"""
"""Dies by itself, at once and without a word, before the nth event of a kind."""

DAY_S = 86_400


def swf(rows, days: int = 3) -> bytes:
    """Jobs of several days."""
    lines = [f"{k} {k % days * DAY_S + k} 5 60 4 -1 -1 4 100 -1 1 {k % 5} 1 1 1 1 -1 -1" for k in rows]
    return ("; UnixStartTime: 1700000000\n" + "\n".join(lines) + "\n").encode()


def killed(file, history, event: str, count: int) -> None:
    command = [sys.executable, "-c", KILLED, str(file), str(history), event, str(count)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def bring(file, history):
    with HistoryStore(history).importing() as into:
        return import_file(file, "swf", ReadOptions(cluster="c"), into)


@pytest.fixture
def files(tmp_path):
    """A file that was imported before, and one that updates its jobs and brings others."""
    first, second = tmp_path / "first.swf", tmp_path / "second.swf"
    first.write_bytes(swf(range(1, 200)))
    second.write_bytes(swf(range(100, 400)).replace(b" 60 4 -1", b" 70 4 -1"))
    return first, second


@pytest.mark.parametrize(
    ("event", "count"),
    [
        ("rows", 2),
        ("tempfile.mkdtemp", 1),
        ("os.rename", 1),  # of the first day's part
        ("os.rename", 3),  # of the last
        ("os.rename", 4),  # of the report
        ("os.rename", 5),  # of the contents: whatever came before is not there
    ],
)
def test_an_import_that_is_killed_leaves_the_history_as_it_was(event, count, files, tmp_path):
    first, second = files
    history = tmp_path / "history"
    bring(first, history)
    before = HistoryStore(history).table("c")
    contents = (history / "manifest.json").read_bytes()
    killed(second, history, event, count)
    assert (history / "manifest.json").read_bytes() == contents
    assert HistoryStore(history).table("c").equals(before)
    report = bring(second, history)
    assert (report.fault, report.was_known) == (None, False)
    assert (report.new, report.updated, report.unchanged) == (200, 100, 0)
    undisturbed = tmp_path / "undisturbed"
    bring(first, undisturbed)
    bring(second, undisturbed)
    assert HistoryStore(history).table("c").equals(HistoryStore(undisturbed).table("c"))
    bring(first, history)
    bring(first, undisturbed)
    assert {str(path.relative_to(history)) for path in history.rglob("*")} == {
        str(path.relative_to(undisturbed)) for path in undisturbed.rglob("*")
    }


@pytest.mark.parametrize("event", ["os.rename", "tempfile.mkdtemp"])
def test_a_first_import_that_is_killed_leaves_an_empty_history(event, files, tmp_path):
    history = tmp_path / "history"
    killed(files[0], history, event, 1)
    assert HistoryStore(history).records("c") == []
    assert bring(files[0], history).new == 199


def test_a_sweep_that_is_killed_is_done_again(files, tmp_path):
    first, second = files
    history = tmp_path / "history"
    bring(first, history)
    bring(second, history)
    before = HistoryStore(history).table("c")
    killed(first, history, "os.remove", 2)
    assert HistoryStore(history).table("c").equals(before)
    bring(first, history)
    assert len(list((history / "parts").rglob("*.parquet"))) == len(HistoryStore(history).days("c"))
