"""Consenting pairs: memory holds both, a host takes one rider."""

from hypothesis import given
from hypothesis import strategies as st

from solver.packing.consenting import CONTEXT_MIB, HOST_SHARE_PCT, RIDER_SHARE_PCT, Packable, Pair, pair_up

GPU_MIB = 16_000


def test_the_shares_are_the_whole_gpu():
    assert HOST_SHARE_PCT + RIDER_SHARE_PCT == 100.0


def test_a_rider_needs_room_for_both_and_for_the_second_context():
    host = Packable("host", 8_000, GPU_MIB)
    fits = Packable("rider", GPU_MIB - 8_000 - CONTEXT_MIB)
    assert pair_up([fits], [host]) == [Pair("rider", "host")]
    assert pair_up([fits._replace(memory_mib=fits.memory_mib + 1)], [host]) == []


def test_a_gpu_whose_memory_is_not_known_hosts_nobody():
    assert pair_up([Packable("rider", 1)], [Packable("host", 1, 0)]) == []


@given(st.lists(st.integers(1, 20_000), max_size=6), st.lists(st.integers(1, 20_000), max_size=6))
def test_nobody_is_paired_twice_and_memory_is_never_overcommitted(riders: list[int], hosts: list[int]):
    wait = [Packable(f"r{k}", mib) for k, mib in enumerate(riders)]
    run = [Packable(f"h{k}", mib, GPU_MIB) for k, mib in enumerate(hosts)]
    pairs = pair_up(wait, run)
    assert len({pair.rider for pair in pairs}) == len({pair.host for pair in pairs}) == len(pairs)
    memory = {one.job_id: one.memory_mib for one in (*wait, *run)}
    assert all(memory[pair.rider] + memory[pair.host] + CONTEXT_MIB <= GPU_MIB for pair in pairs)
