"""How often one peer may fail to authenticate."""

import math
from collections import OrderedDict, deque
from threading import Lock
from typing import Final

from app.clock import Clock
from app.errors import TooManyRequests

WINDOW_S: Final = 60.0
MAX_PEERS: Final = 10_000
"""Most peers that are remembered; the one that has been silent longest is forgotten first."""


class FailureLimiter:
    """Counts failures of each peer within the last minute, in this process only."""

    def __init__(self, max_failures: int, clock: Clock) -> None:
        self._max_failures = max_failures
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = Lock()

    def failed(self, peer: str) -> None:
        """Count one more.

        Raises:
            TooManyRequests: if the peer has failed too often; this one is then not counted.
        """
        now_s = self._clock.now().timestamp()
        with self._lock:
            times_s = self._failures.setdefault(peer, deque())
            self._failures.move_to_end(peer)
            while times_s and times_s[0] <= now_s - WINDOW_S:
                times_s.popleft()
            if len(times_s) >= self._max_failures:
                wait_s = max(1, math.ceil(times_s[0] + WINDOW_S - now_s))
                raise TooManyRequests(
                    f"too many failed authentications from {peer}; try again in {wait_s} s", wait_s
                )
            times_s.append(now_s)
            if len(self._failures) > MAX_PEERS:
                self._failures.popitem(last=False)
