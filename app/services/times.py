"""Between instants on the wire and seconds on a cluster's clock."""

from datetime import UTC, datetime, timedelta
from typing import Final

from app.store.tables import ClusterRow

_MICROSECOND: Final = timedelta(microseconds=1)


def to_s(cluster: ClusterRow, instant: datetime) -> float:
    """Seconds since the cluster's clock origin, exact to the microsecond.

    Raises:
        ValueError: if the instant has no time zone.
    """
    if instant.tzinfo is None:
        raise ValueError(f"{instant} has no time zone")
    return (instant - cluster.clock_origin) // _MICROSECOND / 1e6


def to_instant(cluster: ClusterRow, seconds: float) -> datetime:
    """The instant in UTC, to the microsecond."""
    return (cluster.clock_origin + timedelta(microseconds=round(seconds * 1e6))).astimezone(UTC)
