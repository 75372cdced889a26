"""Events as the service takes them; what is left out is left out on the wire.

Give each event a `uid` of your own: told twice, it counts once, so that repeating a call is always safe.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Event = dict[str, Any]


def submitted(
    job_id: str,
    pool: str,
    num_gpus: int,
    *,
    at: datetime | None = None,
    uid: str | None = None,
    **known: Any,
) -> Event:
    """A job has become eligible.

    Args:
        job_id: yours.
        pool: whose GPUs it may use by right.
        num_gpus: how many it needs.
        at: when; now where None.
        uid: your name for this event.
        known: what else is known of it: user, name, limit_s, is_requeueable, spec, ...
    """
    job = {"pool": pool, "num_gpus": num_gpus, **{name: _plain(value) for name, value in known.items()}}
    return event("submitted", job_id, at=at, uid=uid, job=job)


def started(
    job_id: str, *, is_guest: bool | None = None, at: datetime | None = None, uid: str | None = None
) -> Event:
    """It runs; on lent GPUs if `is_guest`, as the last decision said where that is None."""
    return event("started", job_id, at=at, uid=uid, is_guest=is_guest)


def ended(
    job_id: str,
    state: str = "unknown",
    *,
    duration_s: float | None = None,
    at: datetime | None = None,
    uid: str | None = None,
) -> Event:
    """It has run to an end: completed, failed, cancelled, timeout or unknown."""
    return event("ended", job_id, at=at, uid=uid, state=state, duration_s=duration_s)


def cancelled(job_id: str, *, at: datetime | None = None, uid: str | None = None) -> Event:
    """It was withdrawn, waiting or running."""
    return event("cancelled", job_id, at=at, uid=uid)


def sent_back(job_id: str, *, at: datetime | None = None, uid: str | None = None) -> Event:
    """You stopped it as a decision said; it waits again at its place."""
    return event("sent_back", job_id, at=at, uid=uid)


def event(kind: str, job_id: str, *, at: datetime | None, uid: str | None, **more: Any) -> Event:
    """An event of any kind."""
    said: Mapping[str, Any] = {"kind": kind, "job_id": job_id, "at": at, "uid": uid, **more}
    return {name: _plain(value) for name, value in said.items() if value is not None}


def instant(at: datetime) -> str:
    """An instant in RFC 3339.

    Raises:
        ValueError: if it has no time zone: guessing one is how jobs end before they start.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at.isoformat()} has no time zone: give it one, such as datetime.UTC")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    return instant(value) if isinstance(value, datetime) else value
