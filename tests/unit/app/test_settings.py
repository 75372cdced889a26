"""Settings of the service and the clock they choose."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from app.clock import ScaledClock, SystemClock, make_clock
from app.settings import ServiceSettings, is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org"])  # noqa: S104 - that is the point
def test_without_keys_it_listens_on_loopback_only(host):
    with pytest.raises(ValidationError, match="not on loopback"):
        ServiceSettings(host=host, auth="off")
    assert ServiceSettings(host=host).auth == "keys"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_loopback_is_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.evil.example", "127.0.0.1.evil.example", "0", "2130706433"])
def test_what_only_looks_like_loopback_is_not(host):
    assert not is_loopback(host)


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("ANTECAST_DATABASE_URL", "postgresql://u:secret@h/d")
    monkeypatch.setenv("ANTECAST_CLOCK_SPEED", "60")
    monkeypatch.setenv("ANTECAST_CLOCK_ORIGIN", "2026-01-05T00:00:00Z")
    settings = ServiceSettings()
    assert settings.database_url == "postgresql://u:secret@h/d"
    assert "secret" not in repr(settings)
    clock = make_clock(settings.clock_speed, settings.clock_origin)
    assert clock == ScaledClock(datetime(2026, 1, 5, tzinfo=UTC), 60.0)


@pytest.mark.parametrize(
    "wrong", [{"clock_speed": 0}, {"clock_speed": "nan"}, {"max_body_kib": 0}, {"port": 70_000}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        ServiceSettings(**wrong)


def test_a_faster_clock_gains_on_the_wall_clock():
    assert isinstance(make_clock(), SystemClock)
    origin = datetime(2026, 1, 1, tzinfo=UTC)
    clock = ScaledClock(origin, 3.0)
    before = datetime.now(UTC)
    now = clock.now()
    after = datetime.now(UTC)
    assert origin + 3 * (before - origin) <= now <= origin + 3 * (after - origin)
