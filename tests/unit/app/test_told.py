"""What nodes tell: hostile until cleaned."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.schemas.executors import EventIn, EventsIn, SessionIn, StatusIn
from app.schemas.told import MAX_TEXT, cleaned, printable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=200), part, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_is_kept_is_printable_and_can_be_stored(value):
    try:
        kept = cleaned(value)
    except ValueError:
        return
    text = json.dumps(kept, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    assert text.isprintable()


@pytest.mark.parametrize("text", ["a\0b", "a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800b", "a\u2028b"])
def test_control_characters_become_visible(text):
    assert printable(text) == text[0] + "\N{REPLACEMENT CHARACTER}" + printable(text[2:])


def test_long_text_is_cut():
    assert printable("x" * 10**6) == "x" * (MAX_TEXT - 3) + "..."


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**60, json.loads("[" * 12 + "]" * 12)])
def test_what_cannot_be_kept_is_refused(value):
    with pytest.raises(ValueError, match=r"finite|whole numbers|nested"):
        cleaned({"value": value})


def session(**changes):
    body = {
        "boot_id": "b",
        "version": "1",
        "devices": [{"uuid": "GPU-1", "index": 0, "name": "x\ny"}],
        "capabilities": [{"name": "launch", "supported": True, "reason": "\x07"}],
    }
    return body | changes


def test_a_device_keeps_what_else_is_said_of_it():
    device = SessionIn.model_validate(session()).devices[0].model_dump()
    assert device == {"uuid": "GPU-1", "index": 0, "name": "x\N{REPLACEMENT CHARACTER}y", "is_lost": False}


@pytest.mark.parametrize(
    "changes",
    [
        {"boot_id": "a\nb"},
        {"boot_id": "x" * 65},
        {"version": ""},
        {"devices": [{"uuid": "GPU 1", "index": 0}]},
        {"devices": [{"uuid": "GPU-1", "index": -1}]},
        {"devices": [{"uuid": "GPU-1", "index": 0}] * 1025},
        {"placements": ["../../etc/passwd"]},
        {"placements": ["p"] * 1025},
        {"more": 1},
        {"capabilities": [{"name": "", "supported": True}]},
    ],
)
def test_a_session_is_refused_if(changes):
    with pytest.raises(ValidationError):
        SessionIn.model_validate(session(**changes))


def event(**changes):
    body = {
        "event_id": "6f1f2f1e-7ab5-4d0c-93d9-5a9e2f3f9d55",
        "kind": "placement_ended",
        "at": "2026-01-05T01:00:00.25Z",
        "placement_id": "p.1.0",
        "job_id": "p",
        "data": {"exit_code": 0, "signal": None, "reason": "exited", "duration_s": 3.5, "more": 1},
    }
    return body | changes


def test_an_event_is_taken():
    kept = EventsIn.model_validate({"session": 1, "events": [event()]}).events[0]
    assert kept.at.isoformat() == "2026-01-05T01:00:00.250000+00:00"
    assert kept.data["more"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"event_id": "x"},
        {"kind": "rm -rf"},
        {"at": "2026-01-05T01:00:00"},
        {"at": "0001-01-01T00:00:00+14:00"},
        {"placement_id": ""},
        {"job_id": "x" * 256},
        {"data": {"exit_code": "0"}},
        {"data": {"duration_s": -1}},
        {"data": {"signal": 0}},
        {"data": {str(number): 0 for number in range(257)}},
        {"data": []},
    ],
)
def test_an_event_is_refused_if(changes):
    with pytest.raises(ValidationError):
        EventIn.model_validate(event(**changes))


def test_a_status_is_bounded():
    body = {
        "session": 1,
        "epoch": 1,
        "generation": 1,
        "accepted": False,
        "refusals": [{"placement_id": None, "reason": "bad_hash", "message": "x" * 10**5}],
        "placements": [],
        "devices": [],
        "capabilities": [],
        "sent_at": "2026-01-05T01:00:00Z",
    }
    assert len(StatusIn.model_validate(body).refusals[0].message) == MAX_TEXT
    assert StatusIn.model_validate(body).calibrations == []
    told = [{"placements": ["a", "b"], "state": "waits", "outcome": None, "reason": "a\n", "steps": []}]
    assert StatusIn.model_validate(body | {"calibrations": told}).calibrations[0]["state"] == "waits"
    for changes in ({"calibrations": [7]}, {"calibrations": told * 1_025}):
        with pytest.raises(ValidationError):
            StatusIn.model_validate(body | changes)
    for changes in ({"generation": 2**31}, {"session": True}, {"epoch": -1}, {"sent_at": "now"}):
        with pytest.raises(ValidationError):
            StatusIn.model_validate(body | changes)
