"""Rides: which waiting job may start on GPUs of which running one, and what that is worth.

A ride is one more way to start a job early. It makes nobody late by itself: what the rider loses to sharing
fits into the time until it is due, and what the host loses to all of its riders into its slack. Both are
reckoned with lower quantiles of rates and high ones of lives. Beyond that it has to pay (`docs/packing.md`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from domain.cluster import Gpu
from domain.jobs import Job
from domain.packing import MAX_SET_JOBS
from solver.packing.ride_sieve import Sieve
from solver.packing.ride_words import HostNow, OnHost, Ride, RideRates, RideTerms, WaitingNow
from solver.placement.cells import pieces_of
from solver.placement.greedy import may_use

__all__ = [
    "HostNow", "OnHost", "Ride", "RideRates", "RideTerms", "WaitingNow",
    "choose_rides", "lost_to_riders_s", "place_on", "ride_options",
]  # fmt: skip

MOST_OPTIONS: Final = 200
"""Rides looked at in one decision, the worthiest."""


def place_on(job: Job, free: Sequence[Gpu], host_gpus: int, node_gpus: Mapping[str, int]) -> tuple[Gpu, ...]:
    """GPUs for a job among those of a host that nobody shares; none if it does not fit there.

    On the fewest nodes that its width needs, the fullest of the host's first where they hold a piece whole; a
    job as wide as its host takes all of its GPUs.
    """
    if job.num_gpus > len(free) or not all(may_use(job.gpu_type, gpu.gpu_type) for gpu in free):
        return ()
    if job.num_gpus == host_gpus:
        return tuple(free)
    by_node: dict[str, list[Gpu]] = {}
    for gpu in free:
        by_node.setdefault(gpu.node, []).append(gpu)
    taken: list[Gpu] = []
    for piece in pieces_of(job.num_gpus, max(node_gpus[gpu.gpu_type] for gpu in free)):
        fits = [(len(here), name) for name, here in by_node.items() if len(here) >= piece]
        if not fits:
            return ()
        taken += by_node.pop(min(fits)[1])[:piece]
    return tuple(taken)


def ride_options(
    waiting: Iterable[WaitingNow], hosts: Sequence[HostNow], rates: RideRates, terms: RideTerms
) -> list[Ride]:
    """Rides that make nobody late and pay, not priced yet; at most `MOST_OPTIONS`, the worthiest.

    Args:
        waiting: jobs, those first that are to be looked at first.
        hosts: running jobs.
        rates: of pairs.
        terms: what rides have to keep to.

    Returns:
        Worthiest first; ties by (submit, id) of the rider, then of the host.
    """
    sieve = Sieve(hosts, rates, terms)
    pairs = ((one, hosts[place]) for one in waiting for place in sieve.left_for(one))
    found = [ride for one, host in pairs if (ride := _ride(one, host, rates, terms)) is not None]
    found.sort(key=_order)
    return found[:MOST_OPTIONS]


def choose_rides(
    options: Sequence[Ride], price: Callable[[Ride], float | None], most_refused: int
) -> list[Ride]:
    """Take the worthiest, one after another: of a job and of a host one each.

    Args:
        options: worthiest first.
        price: jobs that a ride is expected to slow, given those taken before; None: it is refused.
        most_refused: after so many refusals no more are looked at.
    """
    chosen: list[Ride] = []
    busy: set[str] = set()
    refused: set[str] = set()
    for ride in options:
        if len(refused) >= most_refused:
            break
        if {ride.job.job_id, ride.host.job_id} & busy or ride.job.job_id in refused:
            continue
        charge = price(ride)
        if charge is None:
            refused.add(ride.job.job_id)
            continue
        chosen.append(replace(ride, charge=charge))
        busy |= {ride.job.job_id, ride.host.job_id}
    return chosen


def lost_to_riders_s(host: HostNow, rider: OnHost | None, rates: RideRates, host_lower: float) -> float:
    """Work that a host loses to its riders at most, seconds: a high quantile of how long they share.

    Without samples that move a host runs at the rate of its slowest worker, so the sum over riders is an
    upper bound.
    """
    host_wall_s = host.tail_s / host_lower
    lost_s = 0.0
    for one in (*host.riders, *([] if rider is None else [rider])):
        lower = rates.of_host(rates.lower, host.job, [one.job])
        lost_s += (1.0 - (lower or 0.0)) * min(one.tail_s, host_wall_s)
    return lost_s


def _ride(one: WaitingNow, host: HostNow, rates: RideRates, terms: RideTerms) -> Ride | None:
    """The ride of a job with a host; None where it must not be or does not pay."""
    if one.job.num_gpus > len(host.free) or len(host.riders) >= MAX_SET_JOBS - 1:
        return None
    lower = rates.lower.pair(one.job.model, host.job.model)
    median = rates.median.pair(one.job.model, host.job.model)
    if lower is None or median is None or not _rider_is_in_time(one, host, lower[0], terms):
        return None
    lower_with = _host_in_time(one, host, rates, one.tail_s / lower[0], terms)
    if lower_with is None:
        return None
    here = [rider.job for rider in host.riders]
    before, after = (rates.of_host(rates.median, host.job, some) for some in (here, [*here, one.job]))
    if before is None or after is None or not _pays(one, host, (median[0], before, after), terms):
        return None
    gpus = place_on(one.job, host.free, host.job.num_gpus, terms.node_gpus)
    value = one.value * median[0] - host.value * (before - after)
    ride = Ride(one.job, host.job, gpus, median[0], lower[0], after, before, lower_with, value)
    return ride if gpus else None


def _rider_is_in_time(one: WaitingNow, host: HostNow, lower: float, terms: RideTerms) -> bool:
    wall_s = one.tail_s / lower
    return (1.0 - lower) * wall_s <= one.slack_s and not (terms.only_inside and wall_s > host.head_s)


def _host_in_time(
    one: WaitingNow, host: HostNow, rates: RideRates, wall_s: float, terms: RideTerms
) -> float | None:
    """Lower quantile of the host's rate with one more rider; None if it loses more than it may."""
    riders = [*(rider.job for rider in host.riders), one.job]
    lower = rates.of_host(rates.lower, host.job, riders)
    if lower is None or lower < 1.0 - terms.sigma:
        return None
    lost_s = lost_to_riders_s(host, OnHost(one.job, wall_s), rates, lower)
    return lower if lost_s <= host.spare_s else None


def _pays(one: WaitingNow, host: HostNow, rates: tuple[float, float, float], terms: RideTerms) -> bool:
    """Whether a ride gains enough by the c-mu rule, adds enough work, and waiting has lasted long enough."""
    rate, before, after = rates
    lost = before - after
    if rate / one.left_s - lost / host.left_s < terms.gain / one.left_s:
        return False
    if one.job.num_gpus * rate - host.job.num_gpus * lost < terms.work * one.job.num_gpus:
        return False
    shared_s = min(one.left_s / rate, host.left_s / after)
    return one.waited_s >= terms.waits * (1.0 - rate + lost) * shared_s


def _order(ride: Ride) -> tuple[float, float, str, float, str]:
    value = ride.value if math.isfinite(ride.value) else 0.0
    return (-value, ride.job.submit_s, ride.job.job_id, ride.host.submit_s, ride.host.job_id)
