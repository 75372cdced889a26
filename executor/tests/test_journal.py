"""The journal: what was written is there after a crash, what was torn is not, and nothing is half there."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from control_plane import placement, sealed

from antecast_executor.conditions import request
from antecast_executor.document import parse
from antecast_executor.interfaces import Exit, ProcessId
from antecast_executor.journal import SPENT_KEPT, Accepted, Event, Journal, JournalError
from antecast_executor.record import Record, Rung, RunState

BOOT = "boot-1"


def record(name: str = "a", **more: object) -> Record:
    body = {
        "epoch": 1,
        "generation": 1,
        "valid_for_s": 60.0,
        "plan_id": None,
        "placements": [placement(name, ["true"], ["GPU-1"], env={"ä": "ö"} and {"A": "ö"})],
        "actions": [],
    }
    (wanted,) = parse(json.dumps(sealed(body)).encode()).placements
    return Record(wanted, **more)  # type: ignore[arg-type]


def event(kind: str = "placement_started") -> Event:
    return Event(kind, "2026-01-01T00:00:00.000000Z", "a", "job-a", {"pid": 7})


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = record(
        state=RunState.STOPPING,
        process=ProcessId(7, 8, BOOT),
        started_s=1.5,
        rung=Rung.DETACHED,
        rung_at_s=2.5,
        end=Exit(None, 9, 3.0),
        conditions={"squeeze": request("squeeze", 50.0, 4.0)},
    )
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    journal.save(kept)
    journal.close()
    assert Journal(tmp_path / "j", boot_id=BOOT).records() == [kept]


def test_every_commit_reaches_the_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    settings = [
        journal._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    ]
    assert settings == ["wal", 2]


def test_the_outbox_outlives_the_process_and_empties_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    journal.save(record(), [event()])
    journal.emit([event("device_lost")])
    journal.close()
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    first, second = journal.pending()
    assert [first["kind"], second["kind"]] == ["placement_started", "device_lost"]
    assert first["event_id"] != second["event_id"]
    assert journal.pending() == [first, second], "an event keeps its id however often it is read"
    journal.delivered([first["event_id"]])
    journal.close()
    assert Journal(tmp_path / "j", boot_id=BOOT).pending() == [second]


def test_another_boot_voids_the_document_and_keeps_the_fence(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    journal.accept(Accepted(3, 4, "hash", "{}", 12.0))
    journal.close()
    journal = Journal(tmp_path / "j", boot_id="boot-2")
    assert journal.is_new_boot
    assert journal.accepted() == Accepted(3, 4, "hash", None, 0.0)
    journal.close()
    assert not Journal(tmp_path / "j", boot_id="boot-2").is_new_boot


def test_ids_that_have_run_stay_spent(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    journal.save(record(state=RunState.RUNNING))
    assert journal.spent() == set()
    journal.save(record(state=RunState.ENDED))
    journal.forget("a")
    assert (journal.records(), journal.spent()) == ([], {"a"})


def test_spent_ids_do_not_pile_up_for_ever() -> None:
    journal = Journal(None, boot_id=BOOT)
    with journal._db:
        rows = [(f"old-{number}",) for number in range(SPENT_KEPT + 10)]
        journal._db.executemany("INSERT INTO spent VALUES (?)", rows)
    journal.forget("nobody")
    assert len(journal.spent()) == SPENT_KEPT
    assert "old-0" not in journal.spent()


WRITER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from antecast_executor.journal import Event, Journal
journal = Journal(Path(sys.argv[1]), boot_id="boot-1")
number = 0
while True:
    journal.emit([Event("paused", str(number), None, None, {})])
    print(number, flush=True)
    number += 1
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "src"
    command = [sys.executable, "-c", WRITER, str(tmp_path / "j"), str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == 30:
                break
        writer.kill()
        rest = writer.stdout.read().split("\n")
    told = max([30, *(int(line) for line in rest if line.isdigit())])
    there = [int(item["at"]) for item in Journal(tmp_path / "j", boot_id=BOOT).pending(10_000)]
    assert there == list(range(len(there)))
    assert len(there) > told - 1


@pytest.mark.parametrize("cut", [1, 100, 1000, 4000])
def test_a_torn_last_write_is_as_if_it_had_not_been(tmp_path: Path, cut: int) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    journal.save(record(), [event()])
    before = wal_size(tmp_path / "j")
    journal.save(record(state=RunState.ENDED), [event("placement_ended")])
    assert wal_size(tmp_path / "j") - before > cut
    # As the disk is found after power was lost in the middle of the last write.
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"j{suffix}", tmp_path / f"torn{suffix}")
    os.truncate(tmp_path / "torn-wal", wal_size(tmp_path / "j") - cut)
    torn = Journal(tmp_path / "torn", boot_id=BOOT)
    assert [item.state for item in torn.records()] == [RunState.LAUNCHING]
    assert [item["kind"] for item in torn.pending()] == ["placement_started"]
    torn.save(record(state=RunState.RUNNING))
    journal.close()


def wal_size(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def test_a_damaged_journal_is_not_started_over(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"this was a journal once" * 100)
    with pytest.raises(JournalError, match="not a database"):
        Journal(path, boot_id=BOOT)
    assert path.read_bytes().startswith(b"this was"), "it is left for a person to look at"


def test_a_failed_write_is_made_up_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    other = sqlite3.connect(tmp_path / "j", isolation_level=None)
    other.execute("PRAGMA busy_timeout = 0")
    journal._db.execute("PRAGMA busy_timeout = 0")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError):
        journal.save(record(state=RunState.RUNNING), [event()])
    with pytest.raises(JournalError):
        journal.save(record(state=RunState.ENDED), [event("placement_ended")])
    other.execute("ROLLBACK")
    journal.emit([event("device_lost")])
    assert [item.state for item in journal.records()] == [RunState.ENDED]
    assert [item["kind"] for item in journal.pending()] == [
        "placement_started",
        "placement_ended",
        "device_lost",
    ]


def test_a_copy_changes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", boot_id=BOOT)
    journal.save(record())
    copy = Journal.copy_of(tmp_path / "j", boot_id=BOOT)
    copy.forget("a")
    assert len(journal.records()) == 1
