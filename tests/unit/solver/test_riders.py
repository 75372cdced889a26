"""Who rides with whom."""

import pytest
from support import job

from solver.riders import Riders


def test_riders_and_their_hosts():
    riders, host, one, two = Riders(), job("host", num_gpus=4), job("one", num_gpus=1), job("two", num_gpus=3)
    riders.rides(one, host)
    riders.rides(two, host)
    assert riders.party(host) == [one, two, host]
    assert riders.party(one) == [one]
    assert [riders.shared_gpus(each) for each in (host, one, job("other", num_gpus=2))] == [4, 1, 0]
    assert riders.freed_gpus([one, two, host, job("other", num_gpus=2)]) == 6
    assert riders.gpus_outside({"one"}) == 3
    assert riders.host_of(one) is host
    assert riders.alone(one) is host
    assert riders.alone(one) is None
    assert (riders.of(host), "one" in riders, "two" in riders) == ([two], False, True)


def test_no_rider_has_riders_and_no_gpu_three_jobs():
    riders, host, other = Riders(), job("host", num_gpus=2), job("other", num_gpus=2)
    with pytest.raises(ValueError, match="job wide cannot ride with host, of whose GPUs 2 are left"):
        riders.rides(job("wide", num_gpus=3), host)
    riders.rides(job("one"), host)
    for rider, on in ((host, other), (job("one"), other), (job("new"), job("one"))):
        with pytest.raises(ValueError, match="no rider has riders"):
            riders.rides(rider, on)
    with pytest.raises(ValueError, match="of whose GPUs 1 are left"):
        riders.rides(other, host)
    riders.rides(job("two"), host)
