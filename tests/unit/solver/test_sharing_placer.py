"""Placing requests by each rule, and taking them back."""

import numpy as np
import pytest

from domain.errors import PlanError, SettingError
from solver.sharing.nodes import NodeSpec
from solver.sharing.placer import Placer, Spot
from solver.sharing.requests import Demand, Request, counted, demand_of, mix_of
from solver.sharing.rules import DEFAULT_RULE, RULES
from solver.sharing.rules.base import Workload

SPECS = (NodeSpec(32_000, 65_536, 2, "P100"), NodeSpec(96_000, 262_144, 4, "T4"))
TYPES = ("P100", "T4")
ASKED = (
    Request(4_000, 8_192, 1, 470),
    Request(3_000, 8_192, 1, 810),
    Request(12_000, 16_384, 1),
    Request(24_000, 16_384, 4),
    Request(8_000, 1_024),
)


def workload(specs: tuple[NodeSpec, ...] = SPECS, asked: tuple[Request, ...] = ASKED) -> Workload:
    types = tuple(sorted({spec.gpu_type for spec in specs}))
    counts = counted(demand_of(request, types) for request in asked)
    return Workload(specs, mix_of(counts), dict(counts))


def placer(rule: str = DEFAULT_RULE, seed: int = 0) -> Placer:
    return Placer(SPECS, RULES[rule](workload()), seed=seed)


def free(one: Placer) -> list[list[int]]:
    return [row.tolist() for row in one.states.gpu_milli]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_fills_what_fits_and_gives_it_back(rule: str) -> None:
    one = placer(rule)
    before = free(one)
    demands = [one.demand(request) for request in ASKED * 3]
    placed = [(demand, spot) for demand in demands if (spot := one.place(demand)) is not None]
    assert len(placed) >= len(ASKED)
    assert (one.states.gpu_milli >= 0).all()
    assert (one.states.cpu_milli >= 0).all()
    for demand, spot in placed:
        one.release(demand, spot)
    assert free(one) == before
    assert one.states.cpu_milli.tolist() == [32_000, 96_000]
    assert one.states.memory_mib.tolist() == [65_536, 262_144]


@pytest.mark.parametrize("rule", RULES)
def test_what_fits_nowhere_is_turned_away_and_changes_nothing(rule: str) -> None:
    one = placer(rule)
    before = free(one)
    assert one.place(one.demand(Request(num_gpus=5))) is None
    assert one.place(one.demand(Request(100_000, num_gpus=1))) is None
    assert one.place(one.demand(Request(num_gpus=3, gpu_types=("P100",)))) is None
    assert free(one) == before


def test_fgd_puts_a_share_beside_the_one_that_completes_it() -> None:
    one = placer("fgd")
    half = one.demand(Request(4_000, 8_192, 1, 470))
    first = one.place(half)
    second = one.place(half)
    assert first is not None
    assert second is not None
    assert (second.node, second.gpus) == (first.node, first.gpus)


def test_the_default_rule_sends_cpu_without_gpus_to_where_cpu_would_be_left_over() -> None:
    one = placer()
    spots = [one.place(one.demand(Request(24_000, 1_024))) for _ in range(2)]
    assert [spot.node for spot in spots if spot is not None] == [1, 1]


def test_equal_costs_go_by_the_order_given() -> None:
    twins = (SPECS[0], SPECS[0], SPECS[0])
    one = Placer(twins, RULES["fgd"](workload(twins)), order=[2, 0, 1])
    spot = one.place(demand_of(ASKED[2], ("P100",)))
    assert spot == Spot(1, (0,), -1)


def test_random_draws_by_its_seed() -> None:
    def nodes(seed: int) -> list[int]:
        one = placer("random", seed)
        spots = [one.place(one.demand(Request(1_000, 1_024))) for _ in range(12)]
        return [spot.node for spot in spots if spot is not None]

    assert nodes(1) == nodes(1)
    assert set(nodes(1)) == {0, 1}


def test_costs_are_infinite_where_it_cannot_run() -> None:
    one = placer()
    costs = one.costs(one.demand(Request(num_gpus=3)))
    assert np.isinf(costs).tolist() == [True, False]


def test_packing_uses_started_gpus_then_started_nodes() -> None:
    one = placer("packing")
    third = one.demand(Request(num_gpus=1, gpu_milli=300))
    first = one.place(third)
    assert first is not None
    assert one.place(third) == first
    whole = one.place(one.demand(Request(num_gpus=1)))
    assert whole is not None
    assert whole.node == first.node


def test_several_shares_go_to_the_tightest_gpus_one_each() -> None:
    one = Placer(SPECS[1:], RULES["bestfit"](workload(SPECS[1:])))
    one.states.gpu_milli[0] = [900, 400, 300, 1000]
    spot = one.place(demand_of(Request(num_gpus=2, gpu_milli=350), ("T4",)))
    assert spot == Spot(0, (0, 1), -1)
    assert free(one) == [[550, 50, 300, 1000]]


def test_what_does_not_run_cannot_be_released() -> None:
    one = placer()
    demand = one.demand(ASKED[0])
    with pytest.raises(PlanError, match="does not run"):
        one.release(demand, Spot(0, (0,), -1))
    with pytest.raises(SettingError, match="'A10' is on no node"):
        one.demand(Request(num_gpus=1, gpu_types=("A10",)))


def test_a_request_is_checked() -> None:
    with pytest.raises(SettingError, match="negative"):
        Request(cpu_milli=-1)
    with pytest.raises(SettingError, match="gpu_milli is 1001"):
        Request(num_gpus=1, gpu_milli=1001)


MIG_SPECS = (NodeSpec(64_000, 262_144, 2, "A100-40GB", partitioned=2),)
MIG_ASKED = tuple(Request(2_000, 1_024, 1, profile=name) for name in ("1g.5gb", "2g.10gb", "3g.20gb"))


@pytest.mark.parametrize("rule", ["bestfit", "fgd", "complement"])
def test_slices_are_placed_at_legal_starts_and_given_back(rule: str) -> None:
    one = Placer(MIG_SPECS, RULES[rule](workload(MIG_SPECS, MIG_ASKED)))
    demands: list[Demand] = [one.demand(request) for request in MIG_ASKED * 3]
    placed = [(demand, spot) for demand in demands if (spot := one.place(demand)) is not None]
    assert all(spot.start >= 0 for _, spot in placed)
    assert one.states.gpu_milli.sum() == 2000 - sum(demand.gpu_milli for demand, _ in placed)
    for demand, spot in placed:
        one.release(demand, spot)
    assert one.states.slices.tolist() == [[0, 0]]
    with pytest.raises(PlanError):
        one.release(placed[0][0], placed[0][1])
    with pytest.raises(PlanError, match="no place"):
        one.release(placed[0][0], Spot(0, (0,), 7))


def test_fgd_keeps_a_half_free_for_the_large_slice() -> None:
    one = Placer(MIG_SPECS, RULES["fgd"](workload(MIG_SPECS, MIG_ASKED)))
    for _ in range(3):
        one.place(one.demand(MIG_ASKED[0]))
    large = [one.place(one.demand(MIG_ASKED[2])) for _ in range(3)]
    assert None not in large
