"""The registry of versions: one champion, a history of why, several writers, and crashes at bad moments."""

import multiprocessing
import stat
from dataclasses import replace

import numpy as np
import pytest

from models.artifacts import ArtifactError, Manifest, Parts, Rule, Span
from models.artifacts import folder as folders
from models.artifacts import registry as registries
from models.artifacts.registry import ChampionChanged, Decision, Registry

NOW = "2026-01-05T00:00:00Z"
MANIFEST = Manifest("lifetime", "hazard", NOW, Span(0.0, 1.0, 1, "0" * 64, "1" * 64))
PARTS = Parts(values={"x": 1}, arrays={"a": np.arange(3)})


def decision(version: int, against: int | None = None, *, is_promoted: bool = True) -> Decision:
    return Decision(version, against, NOW, is_promoted, f"because of {version}")


@pytest.fixture
def registry(tmp_path) -> Registry:
    return Registry(tmp_path / "models")


def test_an_empty_registry_has_nothing_and_says_so(registry):
    assert registry.lines() == []
    assert registry.versions("philly", "lifetime") == []
    assert registry.line("philly", "lifetime").champion is None
    assert registry.prune("philly", "lifetime", keep=1) == []
    with pytest.raises(ArtifactError, match="there is no champion yet"):
        registry.load("philly", "lifetime")
    assert not registry.root.exists()


def test_a_version_is_not_in_use_before_it_is_promoted(registry):
    assert registry.add("philly", MANIFEST, PARTS) == 1
    assert registry.line("philly", "lifetime").champion is None
    registry.decide("philly", "lifetime", decision(1))
    assert registry.line("philly", "lifetime").champion == 1
    assert registry.load("philly", "lifetime").parts.values == {"x": 1}
    assert registry.lines() == [("philly", "lifetime")]


def test_the_history_says_who_was_compared_with_whom_and_why(registry):
    for _ in range(3):
        registry.add("philly", MANIFEST, PARTS)
    made = [decision(1), decision(2, 1, is_promoted=False), decision(3, 1)]
    for one in made:
        registry.decide("philly", "lifetime", one)
    line = registry.line("philly", "lifetime")
    assert (line.champion, line.decisions) == (3, tuple(made))


def test_kinds_and_data_have_champions_of_their_own(registry):
    registry.add("philly", MANIFEST, PARTS)
    registry.add("venus", replace(MANIFEST, kind="demand"), PARTS)
    registry.decide("philly", "lifetime", decision(1))
    assert registry.line("venus", "demand").champion is None
    assert registry.lines() == [("philly", "lifetime"), ("venus", "demand")]


def test_a_decision_made_against_a_champion_of_yesterday_is_refused(registry):
    for _ in range(3):
        registry.add("philly", MANIFEST, PARTS)
    registry.decide("philly", "lifetime", decision(1))
    registry.decide("philly", "lifetime", decision(2, 1))
    with pytest.raises(ChampionChanged, match="train again"):
        registry.decide("philly", "lifetime", decision(3, 1))
    assert registry.line("philly", "lifetime").champion == 2


def test_only_what_can_be_read_is_promoted(registry):
    with pytest.raises(ArtifactError, match="missing"):
        registry.decide("philly", "lifetime", decision(1))
    assert registry.line("philly", "lifetime").champion is None


def test_pruning_keeps_the_champion_and_the_newest(registry):
    for _ in range(6):
        registry.add("philly", MANIFEST, PARTS)
    registry.decide("philly", "lifetime", decision(2))
    assert registry.prune("philly", "lifetime", keep=2) == [1, 3, 4]
    assert [one.number for one in registry.versions("philly", "lifetime")] == [2, 5, 6]
    assert registry.load("philly", "lifetime").manifest == MANIFEST
    assert registry.prune("philly", "lifetime", keep=0) == [5, 6]
    assert registry.add("philly", MANIFEST, PARTS) == 7, "a number is never used again"
    with pytest.raises(ValueError, match="keep"):
        registry.prune("philly", "lifetime", keep=-1)


def test_a_damaged_version_is_listed_with_its_fault_and_a_damaged_champion_not_replaced(registry):
    for _ in range(2):
        registry.add("philly", MANIFEST, PARTS)
    registry.decide("philly", "lifetime", decision(1))
    place = registry.root / "philly" / "lifetime" / "000001"
    (place / "manifest.json").write_text("{}")
    first, second = registry.versions("philly", "lifetime")
    assert first.manifest is None
    assert "manifest.json" in first.fault
    assert second.manifest == MANIFEST
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        registry.load("philly", "lifetime")


def test_a_model_of_another_kind_is_not_taken_for_one_of_this(registry):
    registry.add("philly", MANIFEST, PARTS)
    place = registry.root / "philly"
    (place / "lifetime").rename(place / "demand")
    with pytest.raises(ArtifactError, match="is a lifetime model where demand belongs"):
        registry.load("philly", "demand", 1)


@pytest.mark.parametrize("name", ["..", ".", "", "../x", "a/b", "A", ".hidden", "x" * 65])
def test_data_names_cannot_lead_out_of_the_registry(registry, name):
    for ask in (registry.line, registry.versions, registry.load):
        with pytest.raises(ArtifactError) as caught:
            ask(name, "lifetime")
        assert caught.value.fault.rule == Rule.BAD_NAME.value
    with pytest.raises(ArtifactError, match="kinds are"):
        registry.line("philly", "../../etc")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"format_version": 2, "champion": null, "decisions": [], "last": 0}',
        '{"format_version": 1, "champion": "1", "decisions": [], "last": 0}',
        '{"format_version": 1, "champion": null, "decisions": [{}], "last": 0}',
        '{"format_version": 1, "champion": null, "decisions": []}',
    ],
)
def test_a_damaged_line_is_an_error_and_not_an_empty_line(registry, content):
    registry.add("philly", MANIFEST, PARTS)
    (registry.root / "philly" / "lifetime" / "line.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"line\.json"):
        registry.line("philly", "lifetime")


def test_a_line_behind_a_link_is_not_followed(registry, tmp_path):
    registry.add("philly", MANIFEST, PARTS)
    line = registry.root / "philly" / "lifetime" / "line.json"
    line.rename(tmp_path / "elsewhere.json")
    line.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ArtifactError, match="not-a-regular-file"):
        registry.line("philly", "lifetime")


def test_only_the_owner_can_read_the_registry(registry):
    registry.add("philly", MANIFEST, PARTS)
    for entry in (registry.root, *registry.root.rglob("*")):
        assert stat.S_IMODE(entry.stat().st_mode) == (0o700 if entry.is_dir() else 0o600)


def test_what_a_crash_left_behind_is_not_read_and_goes_with_the_next_change(registry):
    registry.add("philly", MANIFEST, PARTS)
    place = registry.root / "philly" / "lifetime"
    (place / ".tmp-half").mkdir()
    (place / ".tmp-half" / "manifest.json").write_text("{")
    (place / ".tmp-file").write_text("{")
    assert [one.number for one in registry.versions("philly", "lifetime")] == [1]
    registry.add("philly", MANIFEST, PARTS)
    assert sorted(entry.name for entry in place.iterdir()) == ["000001", "000002", "line.json"]


def test_a_crash_between_number_and_folder_loses_the_number_only(registry, monkeypatch):
    registry.add("philly", MANIFEST, PARTS)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(folders, "write", dies)
        with pytest.raises(KeyboardInterrupt):
            registry.add("philly", MANIFEST, PARTS)
    assert registry.add("philly", MANIFEST, PARTS) == 3
    assert [one.number for one in registry.versions("philly", "lifetime")] == [1, 3]


def test_a_crash_while_promoting_leaves_the_old_champion(registry, monkeypatch):
    for _ in range(2):
        registry.add("philly", MANIFEST, PARTS)
    registry.decide("philly", "lifetime", decision(1))

    def dies(*_):
        raise OSError("no space left on the device")

    with monkeypatch.context() as patched:
        patched.setattr(registries.folders, "write_file", dies)
        with pytest.raises(OSError, match="no space"):
            registry.decide("philly", "lifetime", decision(2, 1))
    assert registry.line("philly", "lifetime").champion == 1


def _adds(root, times: int) -> None:
    for _ in range(times):
        Registry(root).add("philly", MANIFEST, PARTS)


def test_writers_in_several_processes_do_not_lose_versions(registry):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_adds, args=(registry.root, 10)) for _ in range(2)]
    for writer in writers:
        writer.start()
    _adds(registry.root, 10)
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert [one.number for one in registry.versions("philly", "lifetime")] == list(range(1, 31))
    assert registry.line("philly", "lifetime").last == 30
