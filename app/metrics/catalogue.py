"""All metrics there are: name, kind, labels, meaning. Nothing else is exported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: with its unit; counters end in `_total`.
        kind: counter, gauge or histogram.
        help: what it is, in one sentence.
        labels: their names, in order.
        is_of_process: counted by each process for itself; the others are read from the database, and the same
            whichever process is asked.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    is_of_process: bool = False

    @property
    def definition(self) -> tuple[str, tuple[str, ...]]:
        """Help and labels, as prometheus-client takes them behind the name."""
        return self.help, self.labels


def _of_process(name: str, kind: str, text: str, *labels: str) -> Metric:
    return Metric(name, kind, text, labels, is_of_process=True)


def _read(name: str, kind: str, text: str, *labels: str) -> Metric:
    return Metric(name, kind, text, labels)


_ALL: Final = (
    _of_process("antecast_http_requests_total", "counter", "Requests answered.", "method", "route", "status"),
    _of_process("antecast_http_request_seconds", "histogram", "Until the answer was out.", "method", "route"),
    _of_process("antecast_http_in_flight", "gauge", "Requests under way, long polls included."),
    _of_process(
        "antecast_refused_total",
        "counter",
        "Requests answered 429: login (failed too often), rate, heavy_rate (of long work).",
        "reason",
    ),
    _of_process("antecast_database_errors_total", "counter", "Errors of the database: away.", "kind"),
    _read("antecast_database_up", "gauge", "1 if the database answered when it was last asked."),
    _read("antecast_gathered_age_seconds", "gauge", "Since a source was last read.", "source"),
    _read("antecast_cluster_is_lending", "gauge", "0 while the kill switch is thrown.", "cluster"),
    _read("antecast_log_entries_total", "counter", "Entries of the log: facts and decisions.", "cluster"),
    _read("antecast_jobs", "gauge", "Jobs that wait or run.", "cluster", "pool", "state"),
    _read("antecast_quota_gpus", "gauge", "The pool's quota.", "cluster", "pool"),
    _read(
        "antecast_gpus",
        "gauge",
        "GPUs of the pool's jobs: own (within its quota), guest (lent to it), held_idle (kept free for it).",
        "cluster",
        "pool",
        "use",
    ),
    _read("antecast_capacity_gpus", "gauge", "GPUs of the cluster's epoch.", "cluster"),
    _read("antecast_idle_gpus", "gauge", "GPUs that no job has, held ones included.", "cluster"),
    _read("antecast_requeues", "gauge", "Attempts lost by live jobs, all in all.", "cluster"),
    _read("antecast_repeated_gpu_hours", "gauge", "GPU-hours of work lost and repeated.", "cluster"),
    _read(
        "antecast_decision_seconds",
        "gauge",
        "Time to decide, of the last 200 decisions.",
        "cluster",
        "quantile",
    ),
    _read("antecast_plan_age_seconds", "gauge", "Since the newest plan was made.", "cluster"),
    _read(
        "antecast_replan_every_seconds",
        "gauge",
        "How often plans are to be made, where that is set.",
        "cluster",
    ),
    _read("antecast_plans_total", "counter", "Plans made.", "cluster"),
    _read(
        "antecast_runs",
        "gauge",
        "Runs queued and running, and those asked for within the last hour that are over.",
        "cluster",
        "kind",
        "status",
    ),
    _read("antecast_oldest_queued_run_seconds", "gauge", "How long the oldest queued run waits.", "kind"),
    _read(
        "antecast_run_seconds",
        "gauge",
        "From start to end, of runs that succeeded within the last hour; of replans it is the solve time.",
        "kind",
        "quantile",
    ),
    _read("antecast_workers_alive", "gauge", "Workers whose lease holds."),
    _read("antecast_executors", "gauge", "Executors, alive or silent.", "cluster", "state"),
    _read("antecast_slowed_jobs", "gauge", "Jobs that ended later than without sharing.", "cluster"),
    _read(
        "antecast_slowed_share",
        "gauge",
        "Slowed jobs over all ended ones with a known reference.",
        "cluster",
    ),
    _read(
        "antecast_eps_share",
        "gauge",
        "The share of slowed jobs that the policy's setting eps allows.",
        "cluster",
    ),
    _read("antecast_lent_gpu_hours", "gauge", "GPU-hours lent so far.", "cluster"),
    _read("antecast_started_early_jobs", "gauge", "Jobs started earlier than without sharing.", "cluster"),
    _read(
        "antecast_forecast_coverage_share",
        "gauge",
        "Share of outcomes that lay within their forecast's interval; where forecasts are scored.",
        "cluster",
        "forecast",
        "level",
    ),
)

CATALOGUE: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _ALL}
"""By name."""

OPTIONAL: Final = frozenset({"antecast_forecast_coverage_share"})
"""Exported only where a source for it is installed."""
