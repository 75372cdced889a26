"""Who shared GPUs with whom: spells on one GPU, rides on a host, packed sets; and GPUs in use once each."""

import pytest

from domain.cluster import Gpu
from domain.jobs import Job
from domain.schedules import Stretch, as_attempts
from domain.sharing import PackedSet, Ride, packed_sets, rides, shared_spells
from domain.usage import lending_spells, use_integrals

HOUR_S = 3600.0
G = [Gpu("n", index) for index in range(4)]


def jobs(**widths: int) -> dict[str, Job]:
    return {name: Job(name, "A", float(k), width) for k, (name, width) in enumerate(widths.items())}


def on(name: str, start_s: float, end_s: float, *gpus: int, rate: float = 1.0) -> Stretch:
    return Stretch(name, start_s, end_s, rate=rate, gpus=tuple(G[index] for index in gpus))


def spells_of(known: dict[str, Job], *stretches: Stretch) -> list[tuple[float, float, int, str, str]]:
    found = shared_spells(known, stretches)
    return [(one.start_s, one.end_s, one.gpu.index, one.first, one.second) for one in found]


def test_a_gpu_is_shared_while_both_are_on_it_and_a_change_of_rate_is_no_end():
    known = jobs(a=1, b=1)
    found = spells_of(
        known,
        on("a", 0, 10, 0),
        on("b", 10, 20, 0, rate=0.5),
        on("a", 10, 30, 0, rate=0.5),
        on("a", 30, 40, 0),
    )
    assert found == [(10, 20, 0, "a", "b")]


def test_who_leaves_as_another_comes_has_shared_with_nobody():
    assert spells_of(jobs(a=1, b=1), on("a", 0, 10, 0), on("b", 10, 20, 0), on("a", 5, 5, 0)) == []


def test_stretches_without_gpus_are_shared_with_nobody():
    assert spells_of(jobs(a=1, b=1), Stretch("a", 0.0, 10.0), Stretch("b", 0.0, 10.0)) == []


def test_a_job_that_comes_back_to_its_gpus_after_a_pause_was_not_there_meanwhile():
    found = spells_of(jobs(a=1, b=1), on("a", 0, 10, 0), on("b", 0, 30, 0), on("a", 20, 40, 0))
    assert found == [(0, 10, 0, "a", "b"), (20, 30, 0, "b", "a")]


def test_of_two_that_come_at_once_the_wider_was_first_then_the_earlier_submitted():
    found = spells_of(
        jobs(narrow=1, wide=2, z=1), on("narrow", 0, 9, 0), on("wide", 0, 9, 0, 1), on("z", 0, 9, 1)
    )
    assert found == [(0, 9, 0, "wide", "narrow"), (0, 9, 1, "wide", "z")]
    assert spells_of(jobs(late=1, early=1), on("early", 0, 9, 2), on("late", 0, 9, 2)) == [
        (0, 9, 2, "late", "early")
    ]


def test_the_wider_job_is_the_host_whoever_was_there_first():
    known = jobs(rider=1, host=2)
    found = rides(known, shared_spells(known, [on("rider", 0, 50, 1), on("host", 10, 30, 0, 1)]))
    assert found == [Ride(10, 30, "host", "rider", 1)]


def test_of_two_of_equal_width_the_first_is_the_host_unless_the_other_shares_with_more():
    known = jobs(a=2, b=2)
    assert rides(known, shared_spells(known, [on("a", 0, 50, 0, 1), on("b", 10, 30, 0, 1)])) == [
        Ride(10, 30, "a", "b", 2)
    ]
    known = jobs(a=2, b=2, c=1)
    stretches = [on("a", 0, 50, 0, 1), on("b", 10, 30, 1, 2), on("c", 10, 20, 2)]
    assert rides(known, shared_spells(known, stretches)) == [
        Ride(10, 20, "b", "c", 1),
        Ride(10, 30, "b", "a", 1),
    ]


def test_a_set_lasts_while_somebody_rides_and_has_the_most_jobs_it_had_at_once():
    found = packed_sets(
        [
            Ride(0, 10, "h", "a", 1),
            Ride(5, 20, "h", "b", 1),
            Ride(20, 30, "h", "c", 1),  # joins as b leaves
            Ride(40, 50, "h", "d", 1),
            Ride(0, 9, "g", "e", 1),
        ]
    )
    assert found == [PackedSet(0, 9, "g", 2), PackedSet(0, 30, "h", 3), PackedSet(40, 50, "h", 2)]
    assert packed_sets([]) == []


# Use of GPUs: a is alone for an hour, b rides for two, and stays for one more.

QUOTAS = {"A": 2, "B": 2}
TWO = [Job("a", "A", 0.0, 2), Job("b", "B", 0.0, 1)]
RIDE = [
    on("a", 0, HOUR_S, 0, 1),
    on("a", HOUR_S, 3 * HOUR_S, 0, 1, rate=0.75),
    on("b", HOUR_S, 3 * HOUR_S, 1, rate=0.5),
    on("b", 3 * HOUR_S, 4 * HOUR_S, 1),
]


def test_a_shared_gpu_is_in_use_once():
    use = use_integrals(TWO, RIDE, QUOTAS, (0.0, 4 * HOUR_S))
    assert use.allocated_gpu_hours == 2 * 3 + 1
    assert use.work_gpu_hours == 2 * 1 + 2 * 2 * 0.75 + 2 * 0.5 + 1
    assert use.utilisation == 7 / 16
    assert use.effective_utilisation == 7 / 16
    assert use.held_idle_gpu_hours == 2.0  # b waits for the first hour, two GPUs are idle
    later = use_integrals(TWO, RIDE, QUOTAS, (2 * HOUR_S, 4 * HOUR_S))
    assert later.allocated_gpu_hours == 2 + 1


def test_a_shared_gpu_is_the_first_ones_until_that_has_left():
    """b's pool has no GPUs of its own: it borrows nothing while it rides, and one GPU once a has left."""
    quotas = {"A": 4, "B": 0}
    use = use_integrals(TWO, RIDE, quotas, (0.0, 4 * HOUR_S))
    assert use.lent_gpu_hours == 1.0
    assert use.lent_by_donor == pytest.approx({"A": 1.0, "B": 0.0})
    assert lending_spells(TWO, RIDE, quotas) == {"A": ((3 * HOUR_S, 4 * HOUR_S),), "B": ()}


# Attempts: what a change of rate has cut into stretches.


def test_an_attempt_is_one_whatever_its_rates():
    other = on("b", HOUR_S, 2 * HOUR_S, 1, rate=0.5)
    cut = [on("a", 0, HOUR_S, 0), other, on("a", HOUR_S, 4 * HOUR_S, 0, rate=0.5)]
    whole = on("a", 0, 4 * HOUR_S, 0, rate=(1 + 3 * 0.5) / 4)
    assert as_attempts(cut) == (other, whole)
    assert as_attempts([whole, other]) == (whole, other)


def test_pauses_moves_and_being_sent_back_end_an_attempt():
    lost = [on("a", 0, 1, 0)._replace(is_lost=True), on("a", 1, 2, 0, rate=0.5)._replace(is_lost=True)]
    stopped = on("a", 2, 3, 0)._replace(is_stopped=True)
    rest = [on("a", 3, 4, 0), on("a", 5, 6, 0), on("a", 6, 7, 1)]
    found = as_attempts([*lost, stopped, *rest])
    assert [(one.start_s, one.end_s) for one in found] == [(0, 2), (2, 3), (3, 4), (5, 6), (6, 7)]
    assert [one.was_sent_back for one in found] == [True, True, False, False, False]
    assert found[0].rate == 0.75
    counted = (Stretch("a", 0.0, 1.0, is_lost=True), Stretch("a", 1.0, 2.0, is_lost=True))
    assert as_attempts(counted) == counted, "where GPUs are only counted no rate changes"
