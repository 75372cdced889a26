"""Free text made safe, in bounded time and memory."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.intake import text
from data.intake.rows import Notes, quoted
from data.intake.text import MAX_CHARACTERS, clean, cleaned

HOSTILE = {
    "escape": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07name",
    "right-to-left": "invoice\u202egnp.exe",
    "isolate": "\u2066a\u2069b",
    "zero-width": "ad\u200bmin",
    "newline": "a\nlevel=info msg=forged",
    "carriage": "harmless\rrm -rf",
    "c1": "\x9b31m",
    "tag": "a\U000e0041\U000e0042",
    "bom": "\ufeffa",
    "lone": "a\ud800b",
    "delete": "a\x7fb",
    "separator": "a\u2028b",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_cannot_be_seen_gets_through(name):
    kept, was_changed = cleaned(HOSTILE[name])
    assert was_changed
    assert kept is not None
    assert all(unicodedata.category(one) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for one in kept)
    assert quoted(HOSTILE[name])[1:-1].isprintable()


def test_a_note_is_made_of_what_was_taken_out():
    notes = Notes()
    assert clean("a\x07b", notes, "the job's name") == "ab"
    (note,) = notes.taken()
    assert "the job's name" in note.message
    assert clean("  plain ", notes, "x") == "plain"
    assert clean(None, notes, "x") is None
    assert clean("\u200b", notes, "x") is None
    assert len(notes.taken()) == 1


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.text(max_size=30))
def test_cleaning_twice_changes_nothing_more(word):
    kept, _ = cleaned(word)
    if kept is not None:
        assert cleaned(kept) == (kept, False)
        assert unicodedata.is_normalized("NFC", kept)
        kept.encode()


def test_composed_and_decomposed_names_are_one():
    assert cleaned("de\u0301de\u0301 job") == cleaned("d\u00e9d\u00e9 job") == ("d\u00e9d\u00e9 job", False)


def test_long_texts_are_cut_and_never_remembered_whole(monkeypatch):
    """What is remembered is the argument itself."""
    asked = []
    work = text._cleaned
    monkeypatch.setattr(text, "_cleaned", lambda word: (asked.append(len(word)), work(word))[1])
    for word in ("x" * 4_000_000, "\u00e9" * 4_000_000, "a" + "\u0301\u0323" * 2_000_000):
        kept, _ = cleaned(word)
        assert kept is not None
        assert len(kept) <= MAX_CHARACTERS
    assert max(asked) <= 4 * MAX_CHARACTERS
