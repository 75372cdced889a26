"""What this process counts by itself: requests, refusals, and errors of the database."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from app.metrics.catalogue import CATALOGUE

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0)
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each that nobody asks for

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ProcessMetrics:
    """Counts of one process, in a registry of their own. Nothing here is shared between processes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = _counter("antecast_http_requests_total", self.registry)
        self._seconds = Histogram(
            "antecast_http_request_seconds",
            *CATALOGUE["antecast_http_request_seconds"].definition,
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self.in_flight = Gauge(
            "antecast_http_in_flight",
            *CATALOGUE["antecast_http_in_flight"].definition,
            registry=self.registry,
        )
        self._refused = _counter("antecast_refused_total", self.registry)
        self._database_errors = _counter("antecast_database_errors_total", self.registry)
        for reason in ("login", "rate", "heavy_rate"):
            self._refused.labels(reason)
        self._database_errors.labels("away")

    def answered(self, method: str, route: str, status: int | None, took_s: float) -> None:
        """Count one request.

        Args:
            method: of HTTP; what is no usual one is counted as `other`.
            route: template of its route, never the path: there are few.
            status: of the answer; None if there was none.
            took_s: until the answer was out.
        """
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, "none" if status is None else str(status)).inc()
        self._seconds.labels(known, route).observe(took_s)

    def refused(self, reason: str) -> None:
        """Count a request that was answered 429: `login`, `rate` or `heavy_rate`."""
        self._refused.labels(reason).inc()

    def database_failed(self, kind: str) -> None:
        """Count an error of the database: `away`."""
        self._database_errors.labels(kind).inc()


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    return Counter(name, *CATALOGUE[name].definition, registry=registry)
