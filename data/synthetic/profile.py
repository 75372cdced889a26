"""When in the day and the week things happen: a clock that runs faster in busy hours."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from data.synthetic.draws import FloatArray, IntArray

_HOUR_S: Final = 3600
_PRIOR_STARTS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Rate of bursts by hour of the day and day of the week, relative to the mean.

    Attributes:
        hours: 24 factors above 0; hour 0 begins at second 0.
        weekdays: 7 factors above 0; day 0 begins at second 0.
    """

    hours: tuple[float, ...]
    weekdays: tuple[float, ...]

    @classmethod
    def of_starts(cls, starts: FloatArray, span_s: float) -> "Profile":
        """The profile of bursts that began at `starts` (seconds) in a recording of `span_s` seconds.

        Counts are divided by how long each hour and weekday was on record, and drawn towards 1 as if
        twenty more starts had been seen in each, at the mean rate.
        """
        marks = np.arange(0, span_s, _HOUR_S)
        on_record = np.minimum(span_s - marks, _HOUR_S)
        return cls(
            _factors(np.bincount(_hour(starts), minlength=24), _seconds(_hour(marks), on_record, 24)),
            _factors(np.bincount(_day(starts), minlength=7), _seconds(_day(marks), on_record, 7)),
        )

    def busy_time(self, instants: FloatArray, span_s: float) -> FloatArray:
        """Where instants (seconds) lie on the busy clock, which also runs from 0 to `span_s`."""
        marks, busy = self._clock(span_s)
        return np.interp(instants, marks, busy)

    def plain_time(self, instants: FloatArray, span_s: float) -> FloatArray:
        """Inverse of `busy_time`."""
        marks, busy = self._clock(span_s)
        return np.interp(instants, busy, marks)

    def _clock(self, span_s: float) -> tuple[FloatArray, FloatArray]:
        marks = np.append(np.arange(0, span_s, _HOUR_S), span_s)
        rate = np.array(self.hours)[_hour(marks[:-1])] * np.array(self.weekdays)[_day(marks[:-1])]
        busy = np.concatenate(([0.0], np.cumsum(rate * np.diff(marks))))
        return marks, busy * (span_s / busy[-1])


def _hour(instants: FloatArray) -> IntArray:
    return (instants // _HOUR_S % 24).astype(np.int64)


def _day(instants: FloatArray) -> IntArray:
    return (instants // (24 * _HOUR_S) % 7).astype(np.int64)


def _seconds(place: IntArray, on_record_s: FloatArray, size: int) -> FloatArray:
    return np.bincount(place, on_record_s, size).astype(np.float64)


def _factors(seen: IntArray, on_record_s: FloatArray) -> tuple[float, ...]:
    expected = seen.sum() * on_record_s / on_record_s.sum()
    factors = (seen + _PRIOR_STARTS) / (expected + _PRIOR_STARTS)
    return tuple(float(f"{factor:.4g}") for factor in factors)
