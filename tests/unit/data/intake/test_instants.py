"""Stamps of rows to instants: caches change nothing, and hours that clocks repeat are told apart."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.intake import instants
from data.intake.instants import Stamps, from_offset, parsed, resolve
from data.intake.rows import Notes, RejectedError
from data.intake.rules import ImportRule
from data.stamps import Doubt, NoZoneError, parse_stamp

ZONES = [
    "UTC", "Europe/Zurich", "America/Los_Angeles", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Adelaide",
    "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia", "Africa/Casablanca", "Africa/Monrovia",
]  # fmt: skip
BAD = [
    "2024-05-01T12:61:00", "2024-05-01T12:00:60", "2024-05-01T25:00:00", "0001-01-01T00:00:00",
    "9999-12-31T23:59:59", "2024-05-01T1\u0662:00:00", "yyyy-mm-ddThh:mm:ss", "20240-5-01T12:00:00",
]  # fmt: skip
DAY_S = 86_400
ZURICH = ZoneInfo("Europe/Zurich")
HOWE = ZoneInfo("Australia/Lord_Howe")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def naive(epoch_s: int) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC).replace(tzinfo=None)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.sampled_from(ZONES),
    st.lists(
        st.integers(2 * DAY_S, 47_000 * DAY_S).map(naive),
        min_size=1, max_size=8,
    ),
)  # fmt: skip
def test_an_hour_that_is_remembered_is_the_hour_worked_out(zone, when):
    stamps = Stamps(ZoneInfo(zone))
    for one in [*when, *(one + timedelta(minutes=7) for one in when)]:
        text = one.isoformat()
        assert stamps.parse(text) == parse_stamp(text, ZoneInfo(zone))


@pytest.mark.parametrize("zone", ZONES)
def test_around_each_change_of_clocks_every_minute_is_right(zone):
    """Minutes of local clocks, from the instants themselves."""
    tz = ZoneInfo(zone)
    stamps = Stamps(tz)
    for start in ("03-09T22", "03-30T22", "04-06T12", "10-05T12", "10-26T22", "11-02T22"):
        for minute in range(0, 20 * 60, 7):
            instant = datetime.fromisoformat(f"2024-{start}:00:00+00:00") + timedelta(minutes=minute)
            local = instant.astimezone(tz)
            found = stamps.parse(local.replace(tzinfo=None).isoformat())
            assert instant.timestamp() in {found.epoch_s, found.later_s}
            assert (found.doubt is Doubt.NONE) == (found.epoch_s == found.later_s)
            assert found.later_s if local.fold else found.epoch_s == instant.timestamp()


def test_half_an_hour_on_lord_howe_is_told_apart():
    stamps = Stamps(HOWE)
    repeated = stamps.parse("2024-04-07T01:45:00")
    assert (repeated.doubt, repeated.later_s - repeated.epoch_s) == (Doubt.REPEATED_HOUR, 1800.0)
    missing = stamps.parse("2024-10-06T02:15:00")
    assert (missing.doubt, missing.epoch_s) == (Doubt.MISSING_HOUR, at("2024-10-06T02:45:00+11:00"))
    assert stamps.parse("2024-04-07T01:15:00").doubt is Doubt.NONE


def test_bad_stamps_stay_bad_and_cost_no_memory():
    stamps = Stamps(ZURICH)
    for text in BAD:
        for _ in range(2):
            with pytest.raises(ValueError, match=r"no time stamp|no calendar|outside of|on no"):
                stamps.parse(text)
    assert len(stamps._hours) <= 1
    with pytest.raises(RejectedError, match="the start '2024-13' is no time stamp") as error:
        parsed(stamps, "2024-13", "the start")
    assert error.value.rule is ImportRule.BAD_TIME


def test_hours_are_forgotten_before_they_are_too_many(monkeypatch):
    monkeypatch.setattr(instants, "MOST_HOURS", 10)
    stamps = Stamps(ZURICH)
    for hour in range(24):
        stamps.parse(f"2024-05-01T{hour:02d}:00:00")
    assert len(stamps._hours) <= 10


def test_without_a_zone_naive_stamps_are_refused_and_others_are_not():
    stamps = Stamps(None)
    with pytest.raises(NoZoneError):
        stamps.parse("2024-05-01T12:00:00")
    assert stamps.parse("2024-05-01T12:00:00Z").epoch_s == at("2024-05-01T12:00:00+00:00")
    assert stamps.parse("1714564800").epoch_s == 1714564800.0


# Which of two instants it was


def times(elapsed_s=None, after_s=None, tz=ZURICH, **stamps):
    notes = Notes()
    reader = Stamps(tz)
    found = {name: reader.parse(text) for name, text in stamps.items()}
    made = resolve(found, elapsed_s, notes, after_s)
    return made, [note.rule for note in notes.taken()]


def test_the_length_tells_which_of_two_hours_it_was():
    made, rules = times(
        30 * 60, submit="2024-10-27T01:00:00", start="2024-10-27T02:50:00", end="2024-10-27T02:20:00"
    )
    assert (made.start_s, made.end_s) == (at("2024-10-27T02:50:00+02:00"), at("2024-10-27T02:20:00+01:00"))
    assert rules == [ImportRule.REPEATED_HOUR] * 2
    long, _ = times(
        2 * 3600, submit="2024-10-27T01:00:00", start="2024-10-27T01:50:00", end="2024-10-27T02:50:00"
    )
    assert long.end_s == at("2024-10-27T02:50:00+01:00")
    short, _ = times(
        3600, submit="2024-10-27T01:00:00", start="2024-10-27T01:50:00", end="2024-10-27T02:50:00"
    )
    assert short.end_s == at("2024-10-27T02:50:00+02:00")


def test_the_order_of_things_tells_which_of_two_hours_it_was():
    made, _ = times(submit="2024-10-27T02:50:00", start="2024-10-27T02:10:00", end="2024-10-27T02:30:00")
    assert made.submit_s == at("2024-10-27T02:50:00+02:00")
    assert made.start_s == at("2024-10-27T02:10:00+01:00")
    with pytest.raises(RejectedError):  # this clock showed no hour twice
        times(submit="2024-10-27T02:50:00", start="2024-10-27T02:10:00", tz=ZoneInfo("UTC"))


def test_a_job_with_a_higher_id_was_submitted_later():
    after_s = at("2024-10-27T02:40:00+02:00")
    made, _ = times(submit="2024-10-27T02:10:00", after_s=after_s)
    assert made.submit_s == at("2024-10-27T02:10:00+01:00")
    made, _ = times(submit="2024-10-27T02:50:00", after_s=after_s)
    assert made.submit_s == at("2024-10-27T02:50:00+02:00")


def test_equal_lengths_do_not_put_a_start_before_its_submission():
    """Submitted in the second of the two hours: a start and an end in both would last equally long."""
    made, rules = times(
        30 * 60, at("2024-10-27T02:05:00+01:00"), submit="2024-10-27T02:10:00", start="2024-10-27T02:20:00",
        end="2024-10-27T02:50:00",
    )  # fmt: skip
    assert made.submit_s == at("2024-10-27T02:10:00+01:00")
    assert (made.start_s, made.end_s) == (at("2024-10-27T02:20:00+01:00"), at("2024-10-27T02:50:00+01:00"))
    assert rules == [ImportRule.REPEATED_HOUR] * 3


def test_clocks_that_differ_by_two_seconds_are_forgiven_and_no_more():
    made, rules = times(submit="2024-05-01T12:00:02", start="2024-05-01T12:00:00", end="2024-05-01T12:00:01")
    assert made.start_s == made.end_s == made.submit_s
    assert rules == [ImportRule.CLOCK_SKEW] * 2
    with pytest.raises(RejectedError, match="the start is 3 s before the submission"):
        times(submit="2024-05-01T12:00:03", start="2024-05-01T12:00:00")
    with pytest.raises(RejectedError, match="the end is 60 s before the submission"):
        times(submit="2024-05-01T12:01:00", end="2024-05-01T12:00:00")
    with pytest.raises(RejectedError, match="the end is 60 s before the start"):
        times(submit="2024-05-01T12:00:00", start="2024-05-01T12:02:00", end="2024-05-01T12:01:00")
    with pytest.raises(RejectedError) as error:
        resolve({"start": parse_stamp("0", None)}, None, Notes())
    assert error.value.rule is ImportRule.NO_SUBMIT


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from(ZONES),
    st.integers(0, 400 * DAY_S),
    st.integers(0, 7200),
    st.integers(0, 7200),
    st.booleans(),
)
def test_what_a_local_clock_showed_comes_back(zone, submit, wait, run, has_elapsed):
    """Every job of a cluster in any zone: with its length known, it lasts as long as it did."""
    tz = ZoneInfo(zone)
    base = at("2024-01-01T00:00:00+00:00")
    instants_s = {"submit": base + submit, "start": base + submit + wait, "end": base + submit + wait + run}
    reader = Stamps(tz)
    found = {
        name: reader.parse(datetime.fromtimestamp(one, tz).replace(tzinfo=None).isoformat())
        for name, one in instants_s.items()
    }
    notes = Notes()
    try:
        made = resolve(found, float(run) if has_elapsed else None, notes, base + submit - 1)
    except RejectedError:
        assert any(one.doubt is not Doubt.NONE for one in found.values())
        return
    is_sure = all(one.doubt is Doubt.NONE for one in found.values())
    assert made.submit_s <= made.start_s <= made.end_s
    if is_sure:
        assert (made.submit_s, made.start_s, made.end_s) == tuple(instants_s.values())
    elif has_elapsed:
        assert made.end_s - made.start_s == run


def test_offsets_from_an_origin_stay_on_the_calendar():
    assert from_offset(10.0, 100.0, "submit") == 110.0
    for value in (-200.0, 1e300, float("nan"), float("inf")):
        with pytest.raises(RejectedError):
            from_offset(value, 100.0, "submit")
