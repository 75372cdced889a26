"""Whether forecasts keep what they say, online: miss rates, runs of misses, drift, and whether to lend.

One stream of outcomes per kind of forecast, pool and window. Forecasts are scored whether or not anything is
lent on them, so a pool that has been switched off earns its trust back.
"""

import math
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple, Self

from models.calibration.track import MonitorDesign, Track, checked_fields

STATE_VERSION: Final = 1

LIFE: Final = "life"
"""Kind of the streams that `LifeMonitor` feeds: a miss is a life longer than its quantile."""


class StreamKey(NamedTuple):
    """Which stream: what is forecast, of which pool, over which window (None: it has none)."""

    kind: str
    pool: str
    window_s: float | None = None


@dataclass(frozen=True, slots=True)
class StreamReport:
    """How one stream does.

    Attributes:
        kind: what is forecast.
        pool: of which pool.
        window_s: over which window; None where it has none.
        observed: outcomes so far.
        missed: misses so far.
        said_rate: running mean of the chances of a miss that were said.
        miss_rate: running miss rate.
        low: lower end of its 90 % interval.
        high: its upper end.
        run: misses in a row up to now.
        longest_run: the most so far.
        drift: in [0, 1], 1 being an alarm.
        may_lend: whether the stream is trusted.
        since_s: since when that is so.
        times_off: how often trust was lost.
    """

    kind: str
    pool: str
    window_s: float | None
    observed: int
    missed: int
    said_rate: float
    miss_rate: float
    low: float
    high: float
    run: int
    longest_run: int
    drift: float
    may_lend: bool
    since_s: float
    times_off: int

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, for tables and JSON."""
        return asdict(self)


class ForecastMonitor:
    """Watches streams of outcomes, and says on which forecasts to lend.

    Args:
        design: when a stream is switched off and on.
        most_streams: kept at once; beyond, the one that has been silent longest is forgotten.

    Raises:
        ValueError: if `most_streams` is not positive.
    """

    def __init__(self, design: MonitorDesign | None = None, *, most_streams: int = 10_000) -> None:
        if most_streams < 1:
            raise ValueError(f"most_streams is {most_streams}, must be positive")
        self.design: Final = design or MonitorDesign()
        self._most_streams = most_streams
        self._tracks: dict[StreamKey, Track] = {}

    def observe(self, key: StreamKey, level: float, is_miss: bool, now_s: float, weight: float = 1.0) -> None:
        """Take in one outcome.

        Args:
            key: whose.
            level: said chance that there would be no miss, in (0, 1).
            is_miss: whether there was one.
            now_s: instant at which that became known, not before the stream's last.
            weight: in (0, 1]; below 1 where the outcome is not independent of others that are told.

        Raises:
            ValueError: if the level leaves (0, 1) or the weight (0, 1], or time is not finite or runs
                backwards.
        """
        track = self._tracks.get(key) or Track()
        track.observe(self.design, level, is_miss, now_s, weight)
        # The one told last is the last of the dictionary.
        self._tracks.pop(key, None)
        self._tracks[key] = track
        if len(self._tracks) > self._most_streams:
            del self._tracks[next(iter(self._tracks))]

    def may_lend(self, pool: str, window_s: float | None = None) -> bool:
        """Whether guests that cannot be sent back may be lent to on this pool's forecasts.

        Every stream of the pool that concerns the window must be trusted: those over this window and those
        without one. What was never observed is trusted: there is nothing against it.

        Args:
            pool: whose forecasts are relied on.
            window_s: over which window; None: over any.
        """
        return not self.reasons_off(pool, window_s)

    def reasons_off(self, pool: str, window_s: float | None = None) -> list[str]:
        """Why not to lend, in words: a sentence per stream that is not trusted, see `may_lend`."""
        off = [
            (key, track)
            for key, track in self._tracks.items()
            if track.is_off and key.pool == pool and (window_s is None or key.window_s in (None, window_s))
        ]
        return [self._sentence(key, track) for key, track in sorted(off, key=lambda each: _order(each[0]))]

    def report(self) -> list[StreamReport]:
        """How every stream does, by kind, pool and window."""
        return [self._row(key, self._tracks[key]) for key in sorted(self._tracks, key=_order)]

    def stream(self, key: StreamKey) -> StreamReport | None:
        """How one stream does; None while nothing was observed."""
        track = self._tracks.get(key)
        return None if track is None else self._row(key, track)

    def to_state(self) -> dict[str, object]:
        """Everything it remembers, as what JSON can hold."""
        tracks = [{**key._asdict(), **track.to_state()} for key, track in self._tracks.items()]
        return {
            "version": STATE_VERSION,
            "most_streams": self._most_streams,
            "design": asdict(self.design),
            "tracks": tracks,
        }

    @classmethod
    def from_state(cls, state: object) -> Self:
        """The monitor of which `to_state` spoke: told the same, it goes on the same.

        Raises:
            ValueError: if the state is of another version, incomplete, or contradicts itself.
        """
        names = {"version", "most_streams", "design", "tracks"}
        if not isinstance(state, dict) or state.keys() != names:
            raise ValueError(f"the state of a monitor has exactly the fields {sorted(names)}")
        if state["version"] != STATE_VERSION:
            raise ValueError(f"the state is of version {state['version']!r}, this reads {STATE_VERSION}")
        most, tracks = state["most_streams"], state["tracks"]
        is_sound = isinstance(most, int) and not isinstance(most, bool) and isinstance(tracks, list)
        if not is_sound:
            raise ValueError("most_streams must be a whole number and tracks a list")
        design = MonitorDesign(**checked_fields(MonitorDesign, state["design"]))
        monitor = cls(design, most_streams=most)
        for key, track in map(_read_track, tracks):
            if key in monitor._tracks or track.drift > design.threshold:
                raise ValueError(f"stream {tuple(key)} is there twice or beyond its threshold")
            monitor._tracks[key] = track
        if len(tracks) > most:
            raise ValueError(f"there are {len(tracks)} streams, {most} at most")
        return monitor

    def _row(self, key: StreamKey, track: Track) -> StreamReport:
        low, high = track.bounds()
        return StreamReport(
            *key,
            observed=track.observed,
            missed=track.missed,
            said_rate=track.allowed_rate,
            miss_rate=track.miss_rate,
            low=low,
            high=high,
            run=track.run,
            longest_run=track.longest_run,
            drift=track.drift / self.design.threshold,
            may_lend=not track.is_off,
            since_s=track.since_s,
            times_off=track.times_off,
        )

    def _sentence(self, key: StreamKey, track: Track) -> str:
        low, high = track.bounds()
        window = "" if key.window_s is None else f" over {key.window_s:g} s"
        return (
            f"{key.kind} forecasts of pool {key.pool}{window} miss {track.miss_rate:.1%} lately"
            f" ({low:.1%} to {high:.1%}) where {track.allowed_rate:.1%} was said;"
            f" {track.run} misses in a row, {track.longest_run} at most"
        )


def _order(key: StreamKey) -> tuple[str, str, float]:
    return key.kind, key.pool, -1.0 if key.window_s is None else key.window_s


def _read_track(state: object) -> tuple[StreamKey, Track]:
    """A stream's key and track of its state, checked."""
    if not isinstance(state, dict) or not set(StreamKey._fields) <= state.keys():
        raise ValueError("the state of a stream has a kind, a pool and a window_s")
    kind, pool, window_s = (state[name] for name in StreamKey._fields)
    is_text = isinstance(kind, str) and isinstance(pool, str)
    is_number = isinstance(window_s, int | float) and not isinstance(window_s, bool)
    if not is_text or not (window_s is None or (is_number and math.isfinite(window_s))):
        raise ValueError(
            f"a stream is named by two texts and a window or none, not {kind!r}, {pool!r}, {window_s!r}"
        )
    rest = {name: value for name, value in state.items() if name not in StreamKey._fields}
    return StreamKey(kind, pool, window_s), Track.from_state(rest)
