"""Metrics for Prometheus: what this process counts, and what sources read from the database."""

from typing import Final

from app.metrics.clusters import Clusters
from app.metrics.gathering import MetricSource
from app.metrics.promise import Promise
from app.metrics.work import Executors, Work

SOURCES: Final[tuple[MetricSource, ...]] = (Clusters(), Work(), Executors(), Promise())
"""All sources. One line per source."""
