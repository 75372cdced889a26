"""How much one key may ask for."""

import pytest

from app.api.rates import MAX_KEYS, Buckets, RateLimits
from app.errors import TooManyRequests
from app.settings import ServiceSettings


class Seconds:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def test_a_bucket_is_full_at_first_and_fills_again():
    clock = Seconds()
    buckets = Buckets(2.0, 3, clock)
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b") == 0.0, "each key has its own"
    clock.now_s = 0.5
    assert buckets.take("a") == 0.0
    clock.now_s = 100.0
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5], "never more than full"


def test_memory_is_bounded():
    buckets = Buckets(1.0, 1, Seconds())
    for key in range(MAX_KEYS + 10):
        buckets.take(str(key))
    assert len(buckets._left) == MAX_KEYS


def test_long_work_has_a_limit_of_its_own_and_who_needs_no_key_has_none():
    refused = []
    rates = RateLimits(ServiceSettings(rate_burst=5, heavy_burst=1, rate_per_s=0.1, heavy_rate_per_s=0.1))
    rates.require("k", is_heavy=True, refused=refused.append)
    with pytest.raises(TooManyRequests, match="long work") as error:
        rates.require("k", is_heavy=True, refused=refused.append)
    assert error.value.retry_after_s == 10
    for _ in range(3):
        rates.require("k", is_heavy=False, refused=refused.append)
    with pytest.raises(TooManyRequests, match="too many requests"):
        rates.require("k", is_heavy=False, refused=refused.append)
    assert refused == ["heavy_rate", "rate"]
    for _ in range(10):
        rates.require("", is_heavy=True, refused=refused.append)
