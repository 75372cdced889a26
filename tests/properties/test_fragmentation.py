"""Fragmentation and placement on generated nodes: against the definition spelt out, and kept costs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.sharing import mig
from solver.sharing.fragmentation import fragments_milli
from solver.sharing.nodes import NodeSpec, NodeStates, empty_states
from solver.sharing.placer import Placer
from solver.sharing.requests import NO_PROFILE, Demand, Request, TaskMix, counted, demand_of, mix_of
from solver.sharing.rules import RULES
from solver.sharing.rules.base import Workload

TYPES = ("A100-40GB", "T4")
CPUS = st.integers(0, 12).map(lambda cpus: 1000 * cpus)
MILLI = st.sampled_from((100, 190, 250, 470, 500, 810, 1000))
PROFILES = ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
SLICES = st.builds(lambda cpu, name: Request(cpu, 0, 1, profile=name), CPUS, st.sampled_from(PROFILES))
SHARES = st.builds(lambda cpu, milli: Request(cpu, 0, 1, milli), CPUS, MILLI)
WHOLES = st.builds(
    lambda cpu, gpus, types: Request(cpu, 0, gpus, gpu_types=types),
    CPUS,
    st.integers(0, 3),
    st.sampled_from(((), ("T4",), TYPES)),
)
REQUESTS = st.one_of(SLICES, SHARES, WHOLES)
SPECS = st.lists(
    st.one_of(
        st.builds(lambda cpu, gpus: NodeSpec(cpu, 4096, gpus, "T4"), CPUS, st.integers(0, 4)),
        st.builds(
            lambda cpu, whole, cut: NodeSpec(cpu, 4096, whole + cut, "A100-40GB", cut),
            CPUS,
            st.integers(0, 2),
            st.integers(0, 2),
        ),
    ),
    min_size=1,
    max_size=4,
).map(lambda specs: (*specs, NodeSpec(12_000, 4096, 2, "T4"), NodeSpec(12_000, 4096, 2, "A100-40GB", 1)))


def spelt_out(states: NodeStates, node: int, demand: Demand) -> int:
    """F_n(m) by the words of the definition, one GPU at a time."""
    free = [int(milli) for milli in states.gpu_milli[node]]
    right = bool(int(states.type_bit[node]) & demand.types)
    has_room = []
    for gpu, milli in enumerate(free):
        mask = int(states.slices[node, gpu])
        if demand.profile != NO_PROFILE:
            spots = mig.legal_spots(int(states.geometry[node]), demand.profile, mask) if mask >= 0 else ()
            has_room.append(bool(spots))
        else:
            has_room.append(mask < 0 and milli >= max(demand.gpu_milli, 1))
    runs = right and demand.num_gpus > 0 and sum(has_room) >= demand.num_gpus
    runs = runs and states.cpu_milli[node] >= demand.cpu_milli
    return sum(milli for milli, room in zip(free, has_room, strict=True) if not (runs and room))


def filled(specs: tuple[NodeSpec, ...], requests: list[Request], rule: str) -> tuple[Placer, TaskMix]:
    demands = [demand_of(request, TYPES) for request in requests]
    counts = counted(demands)
    mix = mix_of(counts)
    placer = Placer(specs, RULES[rule](Workload(specs, mix, dict(counts))))
    for demand in demands:
        placer.place(demand)
    return placer, mix


@settings(max_examples=60, deadline=None)
@given(specs=SPECS, requests=st.lists(REQUESTS, min_size=1, max_size=12))
def test_the_arrays_say_what_the_definition_says(
    specs: tuple[NodeSpec, ...], requests: list[Request]
) -> None:
    placer, mix = filled(specs, requests, "bestfit")
    found = fragments_milli(placer.states, mix)
    for node in range(len(specs)):
        for column, demand in enumerate(mix.demands):
            assert found[node, column] == spelt_out(placer.states, node, demand)
    assert (found >= 0).all()
    assert (found <= placer.states.gpu_milli.sum(axis=1)[:, None]).all()


@settings(max_examples=40, deadline=None)
@given(
    specs=SPECS,
    requests=st.lists(REQUESTS, min_size=1, max_size=12),
    rule=st.sampled_from(("fgd", "bestfit", "dotprod", "packing", "complement")),
)
def test_kept_costs_equal_costs_computed_anew(
    specs: tuple[NodeSpec, ...], requests: list[Request], rule: str
) -> None:
    placer, _ = filled(specs, requests, rule)
    fresh, _ = filled(specs, requests, rule)
    fresh._kept.clear()
    for request in requests:
        demand = demand_of(request, TYPES)
        assert np.array_equal(placer.costs(demand), fresh.costs(demand))


@settings(max_examples=40, deadline=None)
@given(
    specs=SPECS,
    requests=st.lists(REQUESTS, min_size=1, max_size=16),
    rule=st.sampled_from(tuple(RULES)),
)
def test_nothing_is_lost_and_nothing_overlaps(
    specs: tuple[NodeSpec, ...], requests: list[Request], rule: str
) -> None:
    counts = counted(demand_of(request, TYPES) for request in requests)
    placer = Placer(specs, RULES[rule](Workload(specs, mix_of(counts), dict(counts))))
    empty = empty_states(specs)
    placed = []
    for request in requests:
        demand = demand_of(request, TYPES)
        could = placer.states.can_run(demand).any()
        spot = placer.place(demand)
        assert (spot is not None) == could
        if spot is not None:
            assert len(set(spot.gpus)) == demand.num_gpus
            placed.append((demand, spot))
    taken = sum(demand.num_gpus * demand.gpu_milli for demand, _ in placed)
    assert placer.states.gpu_milli.sum() == empty.gpu_milli.sum() - taken
    assert placer.states.cpu_milli.sum() == empty.cpu_milli.sum() - sum(d.cpu_milli for d, _ in placed)
    for demand, spot in reversed(placed):
        placer.release(demand, spot)
    for field in ("cpu_milli", "memory_mib", "gpu_milli", "slices"):
        assert np.array_equal(getattr(placer.states, field), getattr(empty, field))
