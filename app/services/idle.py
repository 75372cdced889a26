"""What `antecast idle` answers: telemetry and allocations of one instant, judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.services.history_views import choose, read
from data.intake.format import Clock
from data.telemetry.allocations import COLUMNS, Allocations, read_allocations, running_at
from data.telemetry.holding import holdings
from data.telemetry.idle import Findings, Judged, Thresholds, judge
from data.telemetry.prometheus import read_telemetry
from domain.errors import SettingError


@dataclass(frozen=True)
class Asked:
    """What is looked at.

    Attributes:
        telemetry: answers of Prometheus.
        allocations: CSV of GPUs that are given out; None: not that.
        history: folder of a history; None: not that.
        cluster: its cluster; None: the only one.
        limits: what counts as used.
    """

    telemetry: tuple[Path, ...]
    allocations: Path | None
    history: Path | None
    cluster: str | None
    limits: Thresholds


@dataclass(frozen=True)
class Answer:
    """What was found, and what has to be known of it.

    Attributes:
        found: GPU by GPU, and in sum.
        notes: what was not taken, could not be matched or is old.
        allocations_from: `file`, `history` or `labels`.
    """

    found: Findings
    notes: tuple[str, ...]
    allocations_from: str


def answer(asked: Asked) -> Answer:
    """Read, match and judge.

    Raises:
        InputError: if a file cannot be read.
        SettingError: if the history cannot, or has no dates.
    """
    telemetry = read_telemetry(asked.telemetry)
    given = _given(asked, telemetry.end_s)
    held = holdings(telemetry, None if given is None else given.found)
    notes = [f"{count:,} {what}" for what, count in telemetry.notes.items()]
    if given is not None:
        notes += [f"{count:,} {what}" for what, count in given.notes.items()]
        if given.edge_s is not None and telemetry.end_s - given.edge_s > asked.limits.window_s:
            late = f"the history ends {(telemetry.end_s - given.edge_s) / 60.0:,.0f} min before the telemetry"
            notes.append(f"{late}: jobs may have begun or ended since")
    source = "labels" if given is None else ("file" if asked.allocations is not None else "history")
    return Answer(judge(telemetry, held, asked.limits), (*notes, *held.notes), source)


def _given(asked: Asked, at_s: float) -> Allocations | None:
    if asked.allocations is not None:
        return read_allocations(asked.allocations, at_s)
    if asked.history is None:
        return None
    chosen = choose(asked.history, asked.cluster)
    if read(chosen.store.manifest).clusters[chosen.cluster].clock != Clock.UTC:
        raise SettingError(
            f"instants of {chosen.cluster!r} count from an unknown origin: it cannot be said what ran when"
        )
    return running_at(read(lambda: chosen.store.table(chosen.cluster, columns=COLUMNS)), at_s)


def document(told: Answer, limits: Thresholds) -> dict[str, Any]:
    """The answer as one JSON document; what was not measured is null."""
    found = told.found
    whole = sum(found.gpu_hours.values())
    return {
        "begin_s": found.begin_s,
        "end_s": found.end_s,
        "thresholds": {name: getattr(limits, name) for name in Thresholds.__dataclass_fields__},
        "allocations_from": told.allocations_from,
        "gpus": [_gpu(one) for one in found.gpus],
        "gpu_hours": {verdict.value: hours for verdict, hours in found.gpu_hours.items()},
        "attributed_gpu_hours": dict(found.attributed),
        "unattributed_gpu_hours": found.unattributed,
        "unattributed_pct": 100.0 * found.unattributed / whole if whole else None,
        "idle_at_least": dict(found.idle_at_least),
        "notes": list(told.notes),
    }


def _gpu(one: Judged) -> Mapping[str, Any]:
    return {
        "node": one.device.node,
        "gpu": one.device.shown,
        "mig_profile": one.profile or None,
        "jobs": names(one),
        "is_job_certain": one.held.is_certain,
        "verdict": one.verdict.value,
        "why": one.why or None,
        "util_pct": one.util_pct,
        "memory_pct": one.memory_pct,
        "since_s": one.since_s,
        "may_be_longer": one.is_longer,
    }


def names(one: Judged) -> Sequence[str]:
    """Who holds a GPU, each once."""
    return sorted({holder.name for holder in one.held.holders})
