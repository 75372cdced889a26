"""Why jobs wait at an instant of a replay: the answer of `antecast why` as plain data."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from domain.errors import SettingError
from simulator.waiting import Explained
from solver.explain.words import Waiting


def as_document(explained: Explained, job_id: str | None = None) -> dict[str, Any]:
    """Everything that was found, or about one job only.

    Raises:
        SettingError: if that job does not wait then.
    """
    chosen = select(explained, job_id)
    return {
        "policy": explained.policy,
        "settings": dict(explained.settings),
        "saw_truth": explained.saw_truth,
        "at_s": explained.at_s,
        "idle_gpus": explained.idle_gpus,
        "running": explained.running,
        "waiting": len(explained.waiting),
        "by_reason": by_reason(explained.waiting),
        "jobs": [as_row(one) for one in chosen],
    }


def select(explained: Explained, job_id: str | None) -> Sequence[Waiting]:
    """The jobs asked about.

    Raises:
        SettingError: if the one asked about does not wait then.
    """
    if job_id is None:
        return explained.waiting
    chosen = [one for one in explained.waiting if one.job.job_id == job_id]
    if not chosen:
        raise SettingError(
            f"job {job_id!r} does not wait at {explained.at_s:g} s: it runs, has ended, comes later or "
            "is none of the replayed jobs"
        )
    return chosen


def by_reason(waiting: Sequence[Waiting]) -> dict[str, int]:
    """How many jobs wait for each reason, the most frequent first."""
    counts = Counter(one.why.value for one in waiting)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def as_row(one: Waiting) -> Mapping[str, Any]:
    """Why one job waits, as plain data."""
    return {
        "job_id": one.job.job_id,
        "pool": one.job.pool,
        "num_gpus": one.job.num_gpus,
        "submit_s": one.job.submit_s,
        "why": one.why.value,
        "text": one.text,
        "evidence": dict(one.evidence),
        "changes": [asdict(change) | {"lever": change.lever.value} for change in one.changes],
        "earliest_s": _instant_s(one.earliest_s),
        "latest_s": _instant_s(one.latest_s),
    }


def _instant_s(at_s: float | None) -> float | None:
    """To the microsecond, as it goes over the wire; None where it is never."""
    return None if at_s is None or math.isinf(at_s) else round(at_s, 6)
