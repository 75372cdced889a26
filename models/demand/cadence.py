"""Jobs that come by the clock: a cadence is found from arrivals alone and says when the next one is due."""

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

_LEAST_PERIOD_S: Final = 60.0
_LOOK_BACK: Final = 16
_BEATS: Final = 8
_TOLERANCE: Final = 0.01
_LEAST_TOLERANCE_S: Final = 3.0
_AROUND: Final = 4.0
_LEAST_STREAK: Final = 2
_KNOWN_PERIODS: Final = 4
_KEPT_INSTANTS: Final = 4096


class Due(NamedTuple):
    """An arrival that a cadence calls for: when, and on how many beats in a row it rests."""

    at_s: float
    streak: int


class Cadence:
    """Arrivals of one pool, searched for chains of equal gaps.

    At each arrival the gaps to the last few arrivals are tried as periods, and those found lately. A beat
    counts if an arrival lies within 1 % of where it should and hardly another one nearby: in a dense
    burst anything would fit. The chain is anchored anew at every beat, so that a slow drift does not end it.
    """

    def __init__(self) -> None:
        self._instants: list[float] = []
        self._periods: list[float] = []
        self._due: list[Due] = []

    def arrived(self, now_s: float) -> None:
        """A job has arrived; jobs of the same second are one arrival."""
        if self._instants and now_s - self._instants[-1] <= 1.0:
            return
        streak, period_s = self._best(now_s)
        self._instants.append(now_s)
        if len(self._instants) > 2 * _KEPT_INSTANTS:
            del self._instants[:_KEPT_INSTANTS]
        self._due = [due for due in self._due if due.at_s > now_s]
        if streak >= _LEAST_STREAK:
            self._due.append(Due(now_s + period_s, streak))
            self._remember(period_s)

    def due(self, window_s: float, now_s: float) -> tuple[int, int, float]:
        """Longest streak that is due in (now, now + window], and after it; seconds until the first of all.

        Streaks are 0 and the seconds infinite where nothing is due.
        """
        within = beyond = 0
        first_s = float("inf")
        for at_s, streak in self._due:
            if at_s <= now_s:
                continue
            first_s = min(first_s, at_s - now_s)
            if at_s <= now_s + window_s:
                within = max(within, streak)
            else:
                beyond = max(beyond, streak)
        return within, beyond, first_s

    def _best(self, now_s: float) -> tuple[int, float]:
        gaps = [now_s - at_s for at_s in self._instants[-_LOOK_BACK:]]
        best, best_period_s = 0, 0.0
        for period_s in (*self._periods, *gaps):
            if period_s >= _LEAST_PERIOD_S:
                streak = self._streak(now_s, period_s)
                if streak > best:
                    best, best_period_s = streak, period_s
        return best, best_period_s

    def _streak(self, now_s: float, period_s: float) -> int:
        """How many beats before `now_s` were kept in a row, at most `_BEATS`."""
        instants, tolerance_s = self._instants, max(_LEAST_TOLERANCE_S, _TOLERANCE * period_s)
        at_s, streak = now_s, 0
        while streak < _BEATS:
            wanted_s = at_s - period_s
            first = bisect_left(instants, wanted_s - tolerance_s)
            beyond = bisect_right(instants, wanted_s + tolerance_s, first)
            if first == beyond:
                break
            around = bisect_right(instants, wanted_s + _AROUND * tolerance_s, beyond)
            around -= bisect_left(instants, wanted_s - _AROUND * tolerance_s, 0, first + 1)
            if around > beyond - first + 1:
                break
            at_s = min(instants[first:beyond], key=lambda one_s: abs(one_s - wanted_s))
            streak += 1
        return streak

    def _remember(self, period_s: float) -> None:
        near = [one for one in self._periods if abs(one - period_s) > _TOLERANCE * period_s]
        self._periods = [period_s, *near][:_KNOWN_PERIODS]
