"""Stamps to instants, over the hours that clocks repeat and leave out."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.stamps import Doubt, Instant, NoZoneError, fold_by_length, parse_stamp, zone

BERLIN = zone("Europe/Berlin")
ZONES = ("Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")


def utc_s(*parts):
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "epoch_s"),
    [
        ("2024-05-01T12:00:00", utc_s(2024, 5, 1, 10)),
        ("2024-01-01 12:00:00", utc_s(2024, 1, 1, 11)),
        ("2024-05-01T12:00:00.250", utc_s(2024, 5, 1, 10) + 0.25),
        ("2024-05-01T12:00:00Z", utc_s(2024, 5, 1, 12)),
        ("2024-05-01T12:00:00+02:00", utc_s(2024, 5, 1, 10)),
        ("2024-05-01T12:00:00-0730", utc_s(2024, 5, 1, 19, 30)),
        ("2017-10-03 04:44:21 PDT", utc_s(2017, 10, 3, 11, 44, 21)),
        ("1714557600", 1714557600.0),
        ("1714557600.5", 1714557600.5),
    ],
)
def test_a_stamp_has_one_instant(text, epoch_s):
    assert parse_stamp(text, BERLIN) == Instant(epoch_s, Doubt.NONE, epoch_s)


def test_the_hour_that_autumn_repeats_is_in_doubt_and_the_earlier_is_taken():
    found = parse_stamp("2024-10-27T02:30:00", BERLIN)
    assert found == Instant(utc_s(2024, 10, 27, 0, 30), Doubt.REPEATED_HOUR, utc_s(2024, 10, 27, 1, 30))


def test_the_hour_that_spring_leaves_out_is_moved_forward():
    found = parse_stamp("2024-03-31T02:30:00", BERLIN)
    assert found.doubt is Doubt.MISSING_HOUR
    assert found.epoch_s == utc_s(2024, 3, 31, 1, 30)  # 03:30 on the clock


def test_a_known_length_tells_which_of_the_repeated_hours_it_was():
    begin, end = (parse_stamp(f"2024-10-27T{clock}", BERLIN) for clock in ("01:50:00", "02:30:00"))
    assert fold_by_length(begin, end, 40 * 60)[1] == end.epoch_s
    assert fold_by_length(begin, end, 100 * 60)[1] == end.later_s


def test_without_a_zone_a_naive_stamp_is_refused_and_one_with_an_offset_is_not():
    with pytest.raises(NoZoneError, match="time zone is not given"):
        parse_stamp("2024-05-01T12:00:00", None)
    assert parse_stamp("2024-05-01T12:00:00Z", None).epoch_s == utc_s(2024, 5, 1, 12)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2024-13-01T00:00:00", "2024-02-30T00:00:00", "2024-05-01", "1714557600000",
     "2024-05-01T12:00:00 CST", "2024-05-01T12:00:00+25:00", "1024-05-01T12:00:00Z", "2024-05-01T25:00:00"],
)  # fmt: skip
def test_what_is_no_stamp_is_refused(text):
    with pytest.raises(ValueError, match=r"stamp|calendar|zones|earth|1970"):
        parse_stamp(text, BERLIN)


def test_an_unknown_zone_says_what_names_look_like():
    for name in ("Mars/Olympus", "../../etc/passwd", "", "/etc/localtime"):
        with pytest.raises(ValueError, match="Europe/Zurich"):
            zone(name)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.sampled_from(ZONES), st.integers(0, 2**31))
def test_an_instant_that_a_local_clock_shows_is_among_those_read_back(name, epoch_s):
    shown = datetime.fromtimestamp(epoch_s, zone(name)).replace(tzinfo=None)
    found = parse_stamp(shown.isoformat(), zone(name))
    assert epoch_s in {found.epoch_s, found.later_s}
    assert found.doubt is not Doubt.MISSING_HOUR
    assert timedelta(0) <= timedelta(seconds=found.later_s - found.epoch_s) <= timedelta(hours=1)
