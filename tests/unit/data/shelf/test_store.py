"""A history in a folder: whole or not at all, one writer, nothing of anybody else's touched."""

import fcntl
import json
import os
from dataclasses import replace

import pytest

from data.intake.format import Clock
from data.inventory_records import NodeRecord, PoolRecord
from data.records import AttemptRecord
from data.shelf import folder, store
from data.shelf.manifest import ImportEntry, Manifest, folder_name, read_manifest, write_manifest
from data.shelf.segments import Segments
from data.shelf.store import HistoryStore
from domain.attempts import EndCause
from domain.errors import InputError

DAY_S = 86_400.0
JOB = AttemptRecord("c", "1", 10.0, user="u", start_s=20.0, end_s=30.0, cause=EndCause.COMPLETED)
JOBS = [
    replace(JOB, raw_id=str(k), submit_s=10.0 + k % 3 * DAY_S, start_s=None, end_s=None) for k in range(9)
]


def bring(history: HistoryStore, records, sha="0" * 64, clock=Clock.UTC):
    report = {"records": len(records), "warnings": []}
    with history.importing() as into, into.arrivals() as arrivals:
        arrivals.take(records)
        entry = ImportEntry(sha, "a" * 64, f"{sha[:4]}.csv", f"reports/{sha[:24]}-aaaaaaaa.json")
        into.keep(arrivals, clock, entry, report)
    return report["new"], report["updated"], report["unchanged"]


def tree(root) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def sha(number: int) -> str:
    return f"{number:064x}"[::-1]


@pytest.fixture
def history(tmp_path):
    return HistoryStore(tmp_path / "history")


def test_what_is_brought_in_is_read_back(history):
    assert bring(history, JOBS) == (9, 0, 0)
    assert history.records("c") == sorted(JOBS, key=lambda one: (one.submit_s, one.raw_id))
    assert history.days("c") == [0, 1, 2]
    assert history.table("c", [1, 77], ["raw_id"]).to_pydict() == {"raw_id": ["1", "4", "7"]}
    assert history.records("another") == []
    assert history.table("another", columns=["user"]).schema.names == ["user"]


def test_an_import_of_the_same_writes_nothing_anew(history, tmp_path):
    bring(history, JOBS)
    before = {name: content for name, content in tree(tmp_path).items() if "/parts/" in name}
    assert bring(history, JOBS, sha(1)) == (0, 0, 9)
    after = tree(tmp_path)
    assert {name: content for name, content in after.items() if "/parts/" in name} == before
    assert len(history.manifest().imports) == 2


def test_only_days_that_change_are_written(history):
    bring(history, JOBS)
    first = history.manifest().clusters["c"].days
    assert bring(history, [replace(JOBS[1], cause=EndCause.CANCELLED)], sha(1)) == (0, 1, 0)
    second = history.manifest().clusters["c"].days
    assert {day for day in first if first[day] != second[day]} == {"1"}


def test_parts_replaced_are_swept_by_the_next_import_and_nothing_else_is(history, tmp_path):
    bring(history, JOBS)
    bring(history, [replace(JOBS[1], cause=EndCause.CANCELLED)], sha(1))
    root = tmp_path / "history"
    (root / "parts" / "notes of mine.txt").write_text("keep me")
    (root / "staging-left").mkdir()
    (root / "staging-left" / "000000.arrow").write_bytes(b"x")
    some = next((root / "parts").rglob("*.parquet"))
    some.with_name(some.name + ".new").write_bytes(b"half")
    bring(history, JOBS[:1], sha(2))
    names = set(tree(root))
    assert {name for name in names if name.endswith(".parquet")} == set(
        history.manifest().clusters["c"].days.values()
    )
    assert "parts/notes of mine.txt" in names
    assert not any("staging" in name or name.endswith(".new") for name in names)


# Whose folder it is


@pytest.mark.parametrize("name", ["parts/mine.parquet", "reports/2024.json", "staging-data/a.txt", "a.txt"])
def test_a_folder_with_other_things_is_refused_and_left_alone(name, tmp_path):
    root = tmp_path / "history"
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("mine")
    if name.startswith("staging"):
        (root / "other.txt").write_text("mine too")
    before = tree(root)
    with pytest.raises(InputError, match="the folder is no history and is not empty"):
        bring(HistoryStore(root), JOBS)
    after = tree(root)
    after.pop("lock", None)
    assert after == before


def test_a_manifest_of_something_else_is_refused_and_nothing_is_swept(tmp_path):
    root = tmp_path / "site"
    (root / "parts").mkdir(parents=True)
    (root / "manifest.json").write_text('{"name": "a web page", "icons": []}')
    (root / "parts" / "index-1.json").write_text("mine")
    with pytest.raises(InputError, match=r"manifest.json: unreadable-file: it cannot be read"):
        bring(HistoryStore(root), JOBS)
    assert (root / "parts" / "index-1.json").read_text() == "mine"


def test_a_link_to_a_folder_is_a_history_and_links_inside_are_not_followed(history, tmp_path):
    bring(history, JOBS)
    (tmp_path / "link").symlink_to(tmp_path / "history")
    linked = HistoryStore(tmp_path / "link")
    assert bring(linked, [replace(JOB, raw_id="x")], sha(1)) == (1, 0, 0)
    assert len(history.records("c")) == 10
    away = tmp_path / "away"
    away.mkdir()
    (away / "precious-1.json").write_text("mine")
    (tmp_path / "history" / "inventory").symlink_to(away)
    with pytest.raises(InputError, match="this is a link"):
        bring(history, JOBS, sha(2))
    assert (away / "precious-1.json").read_text() == "mine"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    root = tmp_path / "history"
    root.mkdir()
    (tmp_path / "precious").write_text("mine")
    (root / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="the folder cannot be written"):
        bring(HistoryStore(root), JOBS)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "history").write_text("a file")
    with pytest.raises(InputError, match="the folder cannot be written"):
        bring(HistoryStore(tmp_path / "history"), JOBS)
    with pytest.raises(InputError, match="it cannot be read: Not a directory"):
        HistoryStore(tmp_path / "history").records("c")


def test_a_folder_that_may_not_be_written_is_refused(history, tmp_path, monkeypatch):
    bring(history, JOBS)
    if os.access("/", os.W_OK):  # whoever runs as root may write everywhere
        denied = PermissionError(13, "Permission denied")
        monkeypatch.setattr(folder.os, "open", lambda *_args, **_kwargs: (_ for _ in ()).throw(denied))
    else:
        (tmp_path / "history").chmod(0o500)
    with pytest.raises(InputError, match="the folder cannot be written: Permission denied"):
        bring(history, JOBS, sha(1))
    assert len(history.records("c")) == 9


@pytest.mark.parametrize(
    "cluster",
    ["../../etc", "/etc/passwd", "a/b", "..", ".", "", "UPPER", "upper", "\u00e9t\u00e9", "e\u0301te\u0301",
     "\u4e2d\u6587", "con", "a" * 400, "a b", "-rf", "%s", "*"],
)  # fmt: skip
def test_no_name_of_a_cluster_leads_out_of_the_folder(cluster, history, tmp_path):
    name = folder_name(cluster)
    assert len(name) < 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    if cluster:
        bring(history, [replace(JOB, cluster=cluster)])
        assert history.records(cluster) == [replace(JOB, cluster=cluster)]
    assert {path.name for path in tmp_path.iterdir()} <= {"history"}


def test_clusters_whose_names_look_alike_have_folders_of_their_own():
    names = ["A", "a", "\u00e9", "e\u0301", "a/", "a-", "cluster", "\u4e2d", "\u6587", "x" * 90, "x" * 91]
    assert len({folder_name(name) for name in names}) == len(names)


# One writer; readers as they like


def test_two_imports_at_once_are_one_too_many(history):
    with (
        history.importing(),
        pytest.raises(InputError, match="another import is running; wait for it to end"),
        history.importing(),
    ):
        pass
    bring(history, JOBS)


def test_a_lock_that_fails_otherwise_says_so(history, monkeypatch):
    def no_locks(_handle, _how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(folder.fcntl, "flock", no_locks)
    with pytest.raises(InputError, match="cannot be written: No locks available"):
        bring(history, JOBS)
    assert fcntl is folder.fcntl


def test_a_reader_sees_the_old_contents_until_the_new_ones_are_whole(history, monkeypatch):
    bring(history, JOBS)
    seen = []
    write = store.write_manifest

    def watched(root, manifest):
        seen.append(len(history.records("c")))
        write(root, manifest)
        seen.append(len(history.records("c")))

    monkeypatch.setattr(store, "write_manifest", watched)
    bring(history, [replace(JOB, raw_id="x")], sha(1))
    assert seen == [9, 10]


def test_a_reader_that_was_overtaken_by_two_imports_reads_again(history, monkeypatch):
    """The first replaces a day, the second sweeps the file that the reader was about to open."""
    bring(history, JOBS)
    read = store._read
    overtaken = []

    def slow(path, columns):
        if not overtaken:
            overtaken.append(path)
            bring(history, [replace(JOBS[0], cause=EndCause.CANCELLED)], sha(1))
            bring(history, [replace(JOB, raw_id="x")], sha(2))
            assert not path.exists()
        return read(path, columns)

    monkeypatch.setattr(store, "_read", slow)
    assert len(history.records("c")) == 10


# Broken histories


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"version": 2}', b"\xff\xfe", b"[" * 100_000, b'{"version": 1}',
        b'{"version": 1, "clusters": {"c": {"days": {"1": "../../etc/passwd"}}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"days": {"1": "/etc/passwd.json"}}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"days": {"1": "parts/../../x.parquet"}}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"days": {"1": 7}}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"days": {"x": "parts/a/1.parquet"}}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"days": []}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"clock": "sundial"}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"inventory": "x"}}, "imports": []}',
        b'{"version": 1, "clusters": {"c": {"surprise": 1}}, "imports": []}',
        b'{"version": 1, "clusters": [], "imports": []}',
        b'{"version": 1, "clusters": {}, "imports": [{"sha256": 1, "asked": 2, "file": 3, "report": 4}]}',
        b'{"version": 1, "clusters": {}, "imports": [{"report": "reports/a.json"}]}',
    ],
)  # fmt: skip
def test_contents_that_were_tampered_with_are_refused(content, history, tmp_path):
    bring(history, JOBS)
    before = tree(tmp_path / "history")
    (tmp_path / "history" / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match=r"manifest.json: unreadable-file: (it cannot be read|version)"):
        history.records("c")
    with pytest.raises(InputError, match=r"manifest.json: unreadable-file"):
        bring(history, JOBS, sha(1))
    after = tree(tmp_path / "history")
    assert {**after, "manifest.json": before["manifest.json"]} == before


@pytest.mark.parametrize("damage", ["missing", "cut", "other columns", "garbage"])
def test_a_part_that_was_damaged_is_named(damage, history, tmp_path):
    bring(history, JOBS)
    part = tmp_path / "history" / history.manifest().clusters["c"].days["1"]
    if damage == "missing":
        part.unlink()
    elif damage == "other columns":
        store.pq.write_table(history.table("c", columns=["raw_id", "user"]), part)
    else:
        part.write_bytes(part.read_bytes()[:100] if damage == "cut" else b"garbage" * 100)
    for attempt in (lambda: history.records("c"), lambda: bring(history, JOBS, sha(1))):
        with pytest.raises(InputError, match=rf"{part.name}: unreadable-file: this part of the history"):
            attempt()
    assert len(history.table("c", [0, 2], ["raw_id"])) == 6


def test_a_report_or_an_inventory_that_is_gone_is_named(history, tmp_path):
    bring(history, [NodeRecord("c", "n1", 8)])
    entry = history.manifest().imports[0]
    (tmp_path / "history" / entry.report).write_text("{")
    with pytest.raises(InputError, match="this report of an import cannot be read"):
        history.report(entry)
    next((tmp_path / "history" / "inventory").iterdir()).write_text("[]")
    with pytest.raises(InputError, match="the inventory cannot be read"):
        history.inventory("c")


# Full disks


def full(*_args, **_kwargs):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (store, "_write"),
        (store, "replace_file"),
        (store, "write_manifest"),
        (store, "sync_folder"),
        (store.tempfile, "TemporaryDirectory"),
    ],
)
def test_a_full_disk_leaves_the_history_as_it_was(where, what, history, tmp_path, monkeypatch):
    bring(history, JOBS)
    with monkeypatch.context() as patched:
        patched.setattr(where, what, full)
        with pytest.raises(InputError, match=r"cannot be written: No space left on device; it is as it was"):
            bring(history, [replace(JOB, raw_id="x")], sha(1))
    assert len(history.records("c")) == 9
    assert bring(history, [replace(JOB, raw_id="x")], sha(1)) == (1, 0, 0)
    assert not list((tmp_path / "history").glob("staging-*"))


def test_a_real_disk_that_is_full_is_told_of():
    history = HistoryStore(store.Path("/dev/full/history"))
    with pytest.raises(InputError, match="the folder cannot be written: Not a directory"):
        bring(history, JOBS)


def test_a_disk_that_fills_while_rows_come_in_is_told_of(history, monkeypatch):
    monkeypatch.setattr("data.shelf.segments.pa.OSFile", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        bring(history, JOBS)
    assert history.records("c") == []


# Clocks


def test_instants_of_two_kinds_are_never_mixed(history):
    bring(history, JOBS)
    with pytest.raises(InputError, match="cluster 'c' has utc instants already, this file has relative ones"):
        bring(history, [replace(JOB, raw_id="x")], sha(1), Clock.RELATIVE)
    assert bring(history, [replace(JOB, cluster="d")], sha(1), Clock.RELATIVE) == (1, 0, 0)
    with pytest.raises(InputError, match="cluster 'd' has relative instants already, this file has utc ones"):
        bring(history, [replace(JOB, cluster="d", raw_id="x")], sha(2))
    assert [len(history.records(name)) for name in "cd"] == [9, 1]


def test_nodes_without_instants_go_with_both_clocks(history):
    bring(history, [NodeRecord("c", "n1", 8), PoolRecord("c", "p", 8)])
    assert bring(history, JOBS, sha(1), Clock.RELATIVE) == (9, 0, 0)
    assert bring(history, [NodeRecord("c", "n2", 8)], sha(2), Clock.UTC) == (1, 0, 0)
    assert history.manifest().clusters["c"].clock == "relative"
    with pytest.raises(InputError, match="has relative instants already"):
        bring(history, [NodeRecord("c", "n3", 8, seen_s=5.0)], sha(3), Clock.UTC)


def test_nodes_with_instants_bind_what_comes_after(history):
    bring(history, [NodeRecord("c", "n1", 8, seen_s=5.0)])
    with pytest.raises(InputError, match="has utc instants already"):
        bring(history, JOBS, sha(1), Clock.RELATIVE)


# Inventories


def test_an_inventory_is_merged_by_name_and_time(history):
    first = [NodeRecord("c", "n1", 8, seen_s=1.0), PoolRecord("c", "p", 8, from_s=0.0)]
    assert bring(history, first) == (2, 0, 0)
    second = [
        replace(first[0], num_gpus=4),
        NodeRecord("c", "n1", 8, seen_s=2.0),
        PoolRecord("c", "p", 16, 9.0),
    ]
    assert bring(history, second, sha(1)) == (2, 1, 0)
    assert bring(history, second, sha(2)) == (0, 0, 3)
    found = history.inventory("c")
    assert [(one.seen_s, one.num_gpus) for one in found.nodes] == [(1.0, 4), (2.0, 8)]
    assert found.changes("p") == [(0.0, 8), (9.0, 16)]
    assert history.inventory("other").nodes == ()


# Segments


def test_segments_keep_the_order_in_which_rows_came(tmp_path, monkeypatch):
    monkeypatch.setattr("data.shelf.segments.SEGMENT_ROWS", 7)
    segments = Segments(tmp_path)
    rows = [
        replace(JOB, raw_id=str(k), cluster="ab"[k % 2], submit_s=k % 3 * DAY_S + 10.0) for k in range(60)
    ]
    rows = [replace(one, start_s=None, end_s=None) for one in rows]
    for one in rows:
        segments.add(one)
    found = {(shelf.cluster, shelf.day): table["raw_id"].to_pylist() for shelf, table in segments.days()}
    assert list(found) == sorted(found)
    for (cluster, day), ids in found.items():
        assert ids == [one.raw_id for one in rows if one.cluster == cluster and one.submit_s // DAY_S == day]


def test_segments_are_written_early_where_lists_of_nodes_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr("data.shelf.segments.SEGMENT_CHARACTERS", 100)
    segments = Segments(tmp_path)
    for k in range(10):
        segments.add(replace(JOB, raw_id=str(k), nodes="n" * 60))
    assert len(list(tmp_path.iterdir())) == 5


def test_contents_are_written_and_read_back(tmp_path):
    manifest = Manifest()
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert json.loads((tmp_path / "manifest.json").read_text())["version"] == 1
    assert read_manifest(tmp_path / "none") == manifest
