"""Sources of metrics: asked no more often than they can afford, and shown as they were when they fail."""

from datetime import UTC, datetime
from threading import Event

from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy.exc import OperationalError

from app.metrics.gathering import Gatherer, Sample

NAME = "antecast_forecast_coverage_share"


class Clock:
    def now(self):
        return datetime(2026, 1, 5, tzinfo=UTC)


class Seconds:
    now_s = 0.0

    def __call__(self):
        return self.now_s


class Scores:
    """As a source of scores would be plugged in."""

    name = "scores"

    def __init__(self, seconds, *, is_slow=False, takes_s=0.0):
        self.is_slow = is_slow
        self.asked = 0
        self.fails = False
        self.go = Event()
        self._seconds, self._takes_s = seconds, takes_s

    def read(self, engine, now):  # noqa: ARG002
        self.asked += 1
        self._seconds.now_s += self._takes_s
        if self.is_slow:
            assert self.go.wait(60)
        if self.fails:
            raise OperationalError("select", {}, Exception("gone"))
        yield Sample(NAME, 0.5 + self.asked / 8, ("research", "lifetime", "0.8"))


def shown(gatherer):
    registry = CollectorRegistry()
    registry.register(gatherer)
    text = generate_latest(registry).decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_a_source_is_asked_now_and_then_and_the_longer_it_takes_the_more_seldom():
    seconds = Seconds()
    source = Scores(seconds, takes_s=3.0)
    gatherer = Gatherer([source], every_s=5.0, clock=Clock(), monotonic_s=seconds)
    asked = []
    for at_s in (0.0, 4.0, 62.0, 63.0):
        seconds.now_s = max(seconds.now_s, at_s)
        gatherer.refresh(None)
        asked.append(source.asked)
    assert asked == [1, 1, 1, 2], "3 s are a twentieth of a minute"
    figures = shown(gatherer)
    assert figures[f'{NAME}{{cluster="research",forecast="lifetime",level="0.8"}}'] == "0.75"
    assert figures["antecast_database_up"] == "1.0"
    gatherer.close()


def test_while_the_database_is_away_the_last_figures_stay_and_grow_old():
    seconds = Seconds()
    source = Scores(seconds)
    gatherer = Gatherer([source], every_s=5.0, clock=Clock(), monotonic_s=seconds)
    assert shown(gatherer) == {"antecast_database_up": "0.0"}, "nothing was read yet"
    gatherer.refresh(None)
    source.fails, seconds.now_s = True, 10.0
    gatherer.refresh(None)
    figures = shown(gatherer)
    assert figures["antecast_database_up"] == "0.0"
    assert figures['antecast_gathered_age_seconds{source="scores"}'] == "10.0"
    assert figures[f'{NAME}{{cluster="research",forecast="lifetime",level="0.8"}}'] == "0.625"
    gatherer.close()


def test_nobody_waits_for_a_slow_source():
    seconds = Seconds()
    source = Scores(seconds, is_slow=True)
    gatherer = Gatherer([source], every_s=5.0, clock=Clock(), monotonic_s=seconds)
    gatherer.refresh(None)
    gatherer.refresh(None)
    assert not any(NAME in name for name in shown(gatherer))
    source.go.set()
    gatherer.close()
    assert source.asked == 1
    assert any(NAME in name for name in shown(gatherer))
