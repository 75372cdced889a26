"""Which workers count as gone: those that have been silent for long enough, whatever the clocks say.

A lease says until when, on the wall clock of whoever renewed it. That alone would do harm when a clock jumps:
forward, and everyone looks gone at once; back, and who is gone looks alive for hours. So each worker also
watches, on a clock that cannot jump, whether the others renew.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

GRACE_S: Final = 2.5
"""A live worker renews every second: who has not for so long is not just early by a clock that has jumped."""


class LeaseWatch:
    """What one worker has seen of the leases of all.

    Args:
        lease_s: whoever has not renewed for so long is gone, whatever the lease says.
        steady: seconds on a clock that cannot jump.
    """

    def __init__(self, lease_s: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._lease_s = lease_s
        self._steady = steady
        self._seen: dict[str, tuple[datetime, float]] = {}

    def silent(self, leases: Mapping[str, datetime], now: datetime) -> dict[str, datetime]:
        """Those that are gone, with the lease they were last seen with.

        Args:
            leases: of all workers, as they are now.
            now: on the wall clock.
        """
        steady_s = self._steady()
        self._seen = {
            worker_id: kept if (kept := self._seen.get(worker_id)) and kept[0] == until else (until, steady_s)
            for worker_id, until in leases.items()
        }
        return {
            worker_id: until
            for worker_id, (until, since_s) in self._seen.items()
            if self._is_gone(until < now, steady_s - since_s)
        }

    def _is_gone(self, has_run_out: bool, silent_s: float) -> bool:
        return silent_s >= (GRACE_S if has_run_out else self._lease_s)
