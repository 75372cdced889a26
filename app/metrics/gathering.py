"""Figures that `/metrics` reads from the database: by sources, each no more often than it can afford."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.clock import Clock
from app.metrics.catalogue import CATALOGUE
from domain.errors import AntecastError

_SHARE_OF_TIME: Final = 0.05
"""Most of the time that one source may take: what takes 3 s is read once a minute at most."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure.

    Attributes:
        name: of a metric of the catalogue.
        value: in the unit that the name ends in.
        labels: values, in the order of the metric's label names.
    """

    name: str
    value: float
    labels: tuple[str, ...] = ()


class MetricSource(Protocol):
    """Reads figures from the database. Register one with a line in `app.metrics.SOURCES`."""

    @property
    def name(self) -> str:
        """Unique among sources; the label `source` of `antecast_gathered_age_seconds`."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether it may take seconds: then nobody waits for it, and what it said last is shown."""
        ...

    def read(self, engine: Engine, now: datetime) -> Iterable[Sample]:
        """All its figures, as of now.

        Raises:
            SQLAlchemyError: if the database is away.
        """
        ...


@dataclass
class _Reading:
    """A source and what it said last."""

    source: MetricSource
    samples: tuple[Sample, ...] = ()
    read_at_s: float | None = None
    due_at_s: float = 0.0
    is_under_way: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Gatherer(Collector):
    """Shows what the sources said, and asks those again whose time has come.

    Asked by any number of scrapers: a source is read by one of them, at most every `every_s`, and so seldom
    that it takes a twentieth of the time at most. One that fails is shown as it was, and its age tells.

    Args:
        sources: which.
        every_s: at most so often.
        clock: ours, for ages; how often goes by the monotonic clock.
        monotonic_s: tells the time in seconds.
    """

    def __init__(
        self,
        sources: Sequence[MetricSource],
        *,
        every_s: float,
        clock: Clock,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every_s = every_s
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._readings = [_Reading(source) for source in sources]
        self._is_up = False
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")

    def refresh(self, engine: Engine) -> None:
        """Read what is due; slow sources in the background."""
        for reading in self._readings:
            with reading.lock:
                if reading.is_under_way or self._monotonic_s() < reading.due_at_s:
                    continue
                reading.is_under_way = True
            if reading.source.is_slow:
                self._background.submit(self._read, reading, engine)
            else:
                self._read(reading, engine)

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._background.shutdown(wait=True, cancel_futures=True)

    def collect(self) -> Iterator[Metric]:
        """All figures, by metric. Part of prometheus-client's protocol of collectors."""
        now_s = self._monotonic_s()
        yield GaugeMetricFamily(
            "antecast_database_up", CATALOGUE["antecast_database_up"].help, value=float(self._is_up)
        )
        ages = GaugeMetricFamily(
            "antecast_gathered_age_seconds",
            CATALOGUE["antecast_gathered_age_seconds"].help,
            labels=CATALOGUE["antecast_gathered_age_seconds"].labels,
        )
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for reading in self._readings:
            if reading.read_at_s is not None:
                ages.add_metric([reading.source.name], now_s - reading.read_at_s)
            for sample in reading.samples:
                _family(families, sample.name).add_metric(sample.labels, sample.value)
        yield ages
        yield from families.values()

    def _read(self, reading: _Reading, engine: Engine) -> None:
        began_s = self._monotonic_s()
        samples: tuple[Sample, ...] | None = None
        try:
            samples = tuple(reading.source.read(engine, self._clock.now()))
            self._is_up = True
        except SQLAlchemyError as error:
            self._is_up = False
            _log.warning("figures could not be read", source=reading.source.name, error=str(error))
        except AntecastError as error:
            _log.warning("figures could not be read", source=reading.source.name, error=str(error))
        finally:
            ended_s = self._monotonic_s()
            with reading.lock:
                if samples is not None:
                    reading.samples, reading.read_at_s = samples, ended_s
                reading.due_at_s = ended_s + max(self._every_s, (ended_s - began_s) / _SHARE_OF_TIME)
                reading.is_under_way = False


def _family(
    families: dict[str, GaugeMetricFamily | CounterMetricFamily], name: str
) -> GaugeMetricFamily | CounterMetricFamily:
    if name not in families:
        metric = CATALOGUE[name]
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        families[name] = kind(name, metric.help, labels=metric.labels)
    return families[name]
