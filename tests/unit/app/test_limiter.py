"""How often a peer may fail."""

from datetime import UTC, datetime, timedelta

import pytest

from app.api.limiter import MAX_PEERS, FailureLimiter
from app.errors import TooManyRequests


class Clock:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.at


def test_each_peer_has_its_own_count_within_a_minute():
    clock = Clock()
    limiter = FailureLimiter(2, clock)
    limiter.failed("a")
    clock.at += timedelta(seconds=30)
    limiter.failed("a")
    limiter.failed("b")
    with pytest.raises(TooManyRequests) as refused:
        limiter.failed("a")
    assert refused.value.retry_after_s == 30
    clock.at += timedelta(seconds=30)
    limiter.failed("a")
    with pytest.raises(TooManyRequests):
        limiter.failed("a")


def test_memory_is_bounded():
    limiter = FailureLimiter(1, Clock())
    for peer in range(MAX_PEERS + 10):
        limiter.failed(str(peer))
    assert len(limiter._failures) == MAX_PEERS
    limiter.failed("0")  # long forgotten
    with pytest.raises(TooManyRequests):
        limiter.failed(str(MAX_PEERS))
