"""Rides by hand: which GPUs, whose slack, what pays, who is chosen."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from domain.cluster import Gpu
from domain.interference import RateForecast
from domain.jobs import Job
from solver.packing.candidates import PairRule
from solver.packing.rides import (
    HostNow,
    OnHost,
    Ride,
    RideRates,
    RideTerms,
    WaitingNow,
    choose_rides,
    lost_to_riders_s,
    place_on,
    ride_options,
)

HOUR_S = 3600.0
TERMS = RideTerms(sigma=0.25, gain=0.35, work=0.35, waits=1.0, only_inside=False, node_gpus={"any": 4})


class Told:
    """Two models: beside each other `m` runs at 0.8 and `o` at 0.6, each 0.1 less at the lower quantile."""

    def rates(self, model_a: str, model_b: str) -> tuple[RateForecast, RateForecast] | None:
        known = {"m": RateForecast(0.7, 0.8, 0.9), "o": RateForecast(0.5, 0.6, 0.7)}
        if "huge" in (model_a, model_b):
            return None
        return known[model_a], known[model_b]

    def fit_chance(self, model_a: str, model_b: str) -> float:
        return 0.0 if "huge" in (model_a, model_b) else 1.0


def rates(redistributes: bool = True) -> RideRates:
    median, lower = (
        PairRule(Told(), redistributes=redistributes, level=level) for level in ("median", "lower")
    )
    return RideRates(median, lower, redistributes)


def gpus(node: str, *indices: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(node, index) for index in indices)


def host(name: str = "host", width: int = 4, slack_h: float = 2.0, model: str = "m") -> HostNow:
    return HostNow(
        job=Job(name, "a", 0.0, width, model=model),
        free=gpus("n", *range(width)),
        riders=(),
        slack_s=slack_h * HOUR_S,
        left_s=8 * HOUR_S,
        tail_s=10 * HOUR_S,
        head_s=4 * HOUR_S,
        value=0.1,
    )


def waits(name: str = "rider", width: int = 1, model: str = "o") -> WaitingNow:
    return WaitingNow(
        job=Job(name, "a", 1.0, width, model=model),
        slack_s=10 * HOUR_S,
        waited_s=HOUR_S,
        left_s=HOUR_S,
        tail_s=2 * HOUR_S,
        value=1.0,
    )


def options(
    one: WaitingNow | None = None, hosts: Sequence[HostNow] = (), terms: RideTerms = TERMS, moves: bool = True
) -> list[Ride]:
    return ride_options([one or waits()], hosts or [host()], rates(moves), terms)


def test_a_ride_as_it_should_be():
    (found,) = options()
    assert (found.job.job_id, found.host.job_id, found.gpus) == ("rider", "host", gpus("n", 0))
    assert (found.rate, found.rate_lower, found.host_before) == (0.6, 0.5, 1.0)
    assert found.host_rate == pytest.approx((3 + 0.8) / 4)
    assert found.host_lower == pytest.approx((3 + 0.7) / 4)
    assert found.value == pytest.approx(1.0 * 0.6 - 0.1 * 0.05)
    assert found.charge == 0.0


def test_what_a_host_loses_fits_into_half_of_its_slack():
    # the rider takes 2 h / 0.5 at most, in which the host loses 0.3 / 4 of its speed: 0.3 h
    assert options(hosts=[host(slack_h=0.601)])
    assert not options(hosts=[host(slack_h=0.599)])
    # without samples that move it loses 0.3
    terms = replace(TERMS, sigma=0.31, work=0.1)
    assert not options(hosts=[host(width=2, slack_h=2.399)], terms=terms, moves=False)
    assert options(hosts=[host(width=2, slack_h=2.401)], terms=terms, moves=False)


def test_the_losses_to_all_riders_count():
    there = replace(host(), riders=(OnHost(Job("other", "a", 0.0, 1, model="o"), 4 * HOUR_S),))
    there = replace(there, free=gpus("n", 1, 2, 3))
    assert lost_to_riders_s(there, None, rates(), 0.9) == pytest.approx(0.3 / 4 * 4 * HOUR_S)
    (found,) = options(hosts=[replace(there, slack_s=1.21 * HOUR_S)])
    assert found.gpus == gpus("n", 1)
    assert (found.host_before, found.host_rate) == (pytest.approx(0.95), pytest.approx(0.9))
    assert not options(hosts=[replace(there, slack_s=1.19 * HOUR_S)])


def test_a_host_that_ends_first_loses_no_longer():
    soon = replace(host(slack_h=0.2), tail_s=HOUR_S)
    assert options(hosts=[soon])  # 0.3 / 4 of an hour and a little


def test_what_a_rider_loses_fits_into_its_own_slack():
    assert options(replace(waits(), slack_s=2.001 * HOUR_S))
    assert not options(replace(waits(), slack_s=1.999 * HOUR_S))


def test_no_host_loses_more_than_sigma():
    assert not options(waits(width=4), [host(slack_h=50.0)])
    (found,) = options(waits(width=4), [host(slack_h=50.0)], replace(TERMS, sigma=0.31))
    assert found.gpus == gpus("n", 0, 1, 2, 3)


def test_it_has_to_pay():
    assert not options(terms=replace(TERMS, gain=0.6))  # 0.6 less what the host loses
    assert options(terms=replace(TERMS, gain=0.59))
    assert not options(terms=replace(TERMS, work=0.41))  # 0.6 - 4 x 0.05
    assert options(terms=replace(TERMS, work=0.39))


def test_who_has_not_waited_for_what_a_ride_costs_waits_on():
    costs_s = (0.4 + 0.05) * HOUR_S / 0.6
    assert not options(replace(waits(), waited_s=costs_s - 1.0))
    assert options(replace(waits(), waited_s=costs_s + 1.0))
    assert options(replace(waits(), waited_s=0.0), terms=replace(TERMS, waits=0.0))


def test_only_inside_means_over_before_the_host_is():
    inside = replace(TERMS, only_inside=True)
    assert options(hosts=[replace(host(), head_s=4.01 * HOUR_S)], terms=inside)
    assert not options(hosts=[replace(host(), head_s=3.99 * HOUR_S)], terms=inside)


def test_who_does_not_fit_does_not_ride():
    assert not options(waits(model="huge"))
    assert not options(waits(width=5))
    full = tuple(OnHost(Job(f"r{k}", "a", 0.0, 1, model="o"), HOUR_S) for k in range(4))
    assert not options(hosts=[replace(host(width=8, slack_h=50.0), riders=full)])


def test_places_are_on_the_fewest_nodes():
    wide = (*gpus("n", 2, 3), *gpus("o", 0, 1, 2, 3))
    job = Job("j", "a", 0.0, 2)
    assert place_on(job, wide, 6, {"any": 4}) == gpus("n", 2, 3)
    assert place_on(replace(job, num_gpus=3), wide, 6, {"any": 4}) == gpus("o", 0, 1, 2)
    assert place_on(replace(job, num_gpus=5), wide, 6, {"any": 4}) == (*gpus("o", 0, 1, 2, 3), *gpus("n", 2))
    assert place_on(replace(job, num_gpus=6), wide, 6, {"any": 4}) == wide
    assert place_on(replace(job, num_gpus=7), wide, 8, {"any": 4}) == ()
    apart = (*gpus("n", 0), *gpus("o", 0))
    assert place_on(job, apart, 3, {"any": 4}) == ()


def test_gpus_of_the_wrong_type_are_nobodys_place():
    free = (Gpu("n", 0, "v100"), Gpu("n", 1, "v100"))
    assert place_on(Job("j", "a", 0.0, 1, gpu_type="p100"), free, 2, {"v100": 4}) == ()
    assert place_on(Job("j", "a", 0.0, 1, gpu_type="v100"), free, 2, {"v100": 4}) == free[:1]


def test_of_a_job_and_of_a_host_one_ride_is_taken():
    found = ride_options(
        [waits("one"), replace(waits("two"), value=2.0)], [host("x"), host("y")], rates(), TERMS
    )
    assert [(ride.job.job_id, ride.host.job_id) for ride in found] == [
        ("two", "x"), ("two", "y"), ("one", "x"), ("one", "y"),
    ]  # fmt: skip
    chosen = choose_rides(found, lambda _: 0.25, 6)
    assert [(ride.job.job_id, ride.host.job_id, ride.charge) for ride in chosen] == [
        ("two", "x", 0.25), ("one", "y", 0.25),
    ]  # fmt: skip


def test_after_refusals_the_choice_stops():
    found = ride_options([waits(f"j{k}") for k in range(4)], [host()], rates(), TERMS)
    asked: list[str] = []

    def refuse(ride: Ride) -> None:
        asked.append(ride.job.job_id)

    assert choose_rides(found, refuse, 2) == []
    assert asked == ["j0", "j1"]
