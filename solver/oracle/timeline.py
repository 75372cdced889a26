"""GPUs in use over time as sorted arrays: asked for room thousands of times a second."""

import math
from typing import Final

import numpy as np

_FIRST_SIZE: Final = 64


class Timeline:
    """A step function of GPUs in use over all of time.

    Like `solver.profile.UseProfile`, but made for tens of thousands of jobs: a question costs a few numpy
    calls over the steps it touches, an addition moves the steps behind it.
    """

    __slots__ = ("_count", "_gpus", "_times_s")

    def __init__(self) -> None:
        self._times_s = np.full(_FIRST_SIZE, math.inf)
        self._gpus = np.zeros(_FIRST_SIZE, dtype=np.int64)
        self._times_s[0] = -math.inf
        self._count = 1

    def __len__(self) -> int:
        return self._count

    def add(self, start_s: float, end_s: float, gpus: int) -> None:
        """Take GPUs over [start, end), or give them back if there are fewer than none."""
        if end_s > start_s:
            first, last = self._cut(start_s), self._cut(end_s)
            self._gpus[first:last] += gpus

    def peak(self, start_s: float, end_s: float) -> int:
        """Most GPUs in use at any instant of [start, end); of the instant itself where they are equal."""
        times_s = self._times_s[: self._count]
        first = int(times_s.searchsorted(start_s, side="right")) - 1
        last = max(first + 1, int(times_s.searchsorted(end_s)))
        return int(self._gpus[first:last].max())

    def earliest(self, from_s: float, latest_s: float, length_s: float, limit_gpus: int) -> float | None:
        """First instant from which no more than a limit is in use for a while.

        Args:
            from_s: not before this instant,
            latest_s: nor after this one.
            length_s: how long; with 0 the instant itself must be within the limit.
            limit_gpus: most GPUs that may be in use.

        Returns:
            `from_s`, or the end of a step; None if there is no such instant.
        """
        times_s = self._times_s
        first = int(times_s[: self._count].searchsorted(from_s, side="right")) - 1
        last = int(times_s[: self._count].searchsorted(latest_s + length_s, side="right"))
        full = (self._gpus[first:last] > limit_gpus).nonzero()[0]
        if full.size == 0:
            return from_s
        full += first
        begins_s, ends_s = np.empty(full.size + 1), np.empty(full.size + 1)
        begins_s[0], ends_s[-1] = from_s, math.inf
        begins_s[1:], ends_s[:-1] = times_s[full + 1], times_s[full]
        room = (begins_s + length_s <= ends_s) & (begins_s < ends_s)
        found = float(begins_s[int(room.argmax())])
        return found if room.any() and found <= latest_s else None

    def tidy(self) -> None:
        """Forget instants at which nothing changes."""
        count = self._count
        kept = np.flatnonzero(np.diff(self._gpus[:count], prepend=self._gpus[0] - 1))
        self._times_s[: kept.size] = self._times_s[kept]
        self._gpus[: kept.size] = self._gpus[kept]
        self._times_s[kept.size : count] = math.inf
        self._count = kept.size

    def _cut(self, at_s: float) -> int:
        """Index of the step that begins at an instant; makes one where there is none."""
        count = self._count
        k = int(self._times_s[:count].searchsorted(at_s))
        if k < count and self._times_s[k] == at_s:
            return k
        if count + 1 == self._times_s.size:  # the last place stays infinite: it ends the last step
            self._times_s = np.concatenate([self._times_s, np.full(count, math.inf)])
            self._gpus = np.concatenate([self._gpus, np.zeros(count, dtype=np.int64)])
        self._times_s[k + 1 : count + 1] = self._times_s[k:count]
        self._gpus[k + 1 : count + 1] = self._gpus[k:count]
        self._times_s[k] = at_s
        self._gpus[k] = self._gpus[k - 1]
        self._count = count + 1
        return k
