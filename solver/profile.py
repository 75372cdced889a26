"""GPUs taken over time: the resource-time plan of SIA_VC (SIA, section 4.1)."""

from bisect import bisect_left, bisect_right


class UseProfile:
    """A step function of GPUs in use from an instant on. Adding and asking cost O(steps touched).

    Args:
        from_s: instant at which it begins.
    """

    __slots__ = ("_gpus", "_times_s")

    def __init__(self, from_s: float) -> None:
        self._times_s = [from_s]
        self._gpus = [0]

    def add(self, start_s: float, end_s: float, gpus: int) -> None:
        """Take GPUs over [start, end); what lies before the beginning is ignored."""
        start_s = max(start_s, self._times_s[0])
        if end_s <= start_s:
            return
        first, last = self._cut(start_s), self._cut(end_s)
        for k in range(first, last):
            self._gpus[k] += gpus

    def peak(self, start_s: float, end_s: float) -> int:
        """Most GPUs in use at any instant of [start, end); of the instant itself where they are equal."""
        first = bisect_right(self._times_s, start_s) - 1
        last = max(first + 1, bisect_left(self._times_s, end_s))
        return max(self._gpus[first:last])

    def _cut(self, at_s: float) -> int:
        """Index of the step that begins at an instant; makes one where there is none."""
        k = bisect_left(self._times_s, at_s)
        if k == len(self._times_s) or self._times_s[k] != at_s:
            self._times_s.insert(k, at_s)
            self._gpus.insert(k, self._gpus[k - 1])
        return k
