"""How much one key may ask for: a token bucket for all requests, another for those that begin long work.

Counted by each process for itself: with several API processes a key may ask for as many times as much.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from app.errors import TooManyRequests
from app.settings import ServiceSettings

MAX_KEYS: Final = 10_000
"""Most keys that are remembered; the one that was silent longest is forgotten first: its bucket is full."""


class Buckets:
    """Token buckets of one kind, one a key.

    Args:
        per_s: tokens that come in each second.
        burst: tokens that a bucket holds at most, and at first.
        monotonic_s: tells the time in seconds.
    """

    def __init__(self, per_s: float, burst: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key_id: str) -> float:
        """Take a token of a key's bucket: 0, or, where it is empty, the seconds until there is one."""
        now_s = self._monotonic_s()
        with self._lock:
            left, since_s = self._left.pop(key_id, (float(self._burst), now_s))
            left = min(left + (now_s - since_s) * self._per_s, float(self._burst))
            wait_s = 0.0 if left >= 1.0 else (1.0 - left) / self._per_s
            self._left[key_id] = (left - 1.0 if wait_s == 0.0 else left, now_s)
            if len(self._left) > MAX_KEYS:
                self._left.popitem(last=False)
        return wait_s


class RateLimits:
    """Both limits of a process."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._all = Buckets(settings.rate_per_s, settings.rate_burst)
        self._heavy = Buckets(settings.heavy_rate_per_s, settings.heavy_burst)

    def require(self, key_id: str, *, is_heavy: bool, refused: Callable[[str], None]) -> None:
        """Let one request pass, or refuse it.

        Args:
            key_id: whose request it is; who needs no key has no limit.
            is_heavy: whether it begins long work.
            refused: told the reason of a refusal.

        Raises:
            TooManyRequests: with the seconds to wait.
        """
        if not key_id:
            return
        wait_s, reason, what = self._all.take(key_id), "rate", "requests"
        if wait_s == 0.0 and is_heavy:
            wait_s, reason, what = self._heavy.take(key_id), "heavy_rate", "requests for long work"
        if wait_s > 0.0:
            refused(reason)
            whole_s = max(1, math.ceil(wait_s))
            raise TooManyRequests(f"too many {what} with this key; try again in {whole_s} s", whole_s)
