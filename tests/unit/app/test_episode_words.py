"""Episodes in words."""

from app.episode_words import clock, episode_words, span, worst_first
from domain.measures import SLOWED_AFTER_S
from simulator.episodes import Cause, Episode, Evidence
from simulator.lent import CohortOf, GuestsOf


def an_episode(jobs=3, total_min=90.0, begin_s=0.0, guests=(), cohort=None, expected=None):
    evidence = Evidence(8, begin_s, 12, expected, 20, 6.0, 3600.0)
    pools = {"a": jobs}
    return Episode(
        begin_s,
        begin_s + 600.0,
        jobs,
        jobs,
        pools,
        30.0,
        total_min,
        guests,
        cohort,
        1,
        2,
        evidence,
        evidence.cause,
    )


def test_the_worst_come_first():
    found = [an_episode(1), an_episode(3, 10.0), an_episode(3, 90.0, 5.0), an_episode(3, 90.0, 1.0)]
    assert [(one.jobs, one.total_min, one.begin_s) for one in worst_first(found)] == [
        (3, 90.0, 1.0),
        (3, 90.0, 5.0),
        (3, 10.0, 0.0),
        (1, 90.0, 0.0),
    ]


def test_instants_and_lengths():
    assert clock(29 * 86_400.0 + 16 * 3600.0 + 20 * 60.0 + 59.0) == "day 29 16:20"
    assert [span(s) for s in (SLOWED_AFTER_S - 1.0, 90.0, 5400.0, 1.5 * 86_400.0)] == [
        "59 s",
        "1.5 min",
        "1.5 h",
        "1.5 d",
    ]


def test_an_episode_with_guests_and_forecasts():
    guests = tuple(
        GuestsOf(pool, 2, 2, {1: 2}, 60.0, 7200.0, outlived)
        for pool, outlived in zip("bcdefg", (2, 0, 0, 0, 0, 0), strict=True)
    )
    cohort = CohortOf("b", "u", "run#", 1, 2, 2, 9, 3600.0)
    head, lent, siblings, cause, done = episode_words(an_episode(guests=guests, cohort=cohort, expected=5.0))
    assert head.startswith(
        "day 0 00:00 to day 0 00:10: 3 jobs late (3 of a), the worst by 30 min, 1.5 h in all; 8 GPUs"
    )
    assert (
        "2 GPUs of b (2 x 1; for 1.0 min, at most 2.0 h; 2 beyond their 0.9 quantile); 2 GPUs of c (" in lent
    )
    assert lent.endswith("; 2 more pools")
    assert "2 of 9 jobs of pool b (u run#), 1 GPUs each, submitted from day 0 01:00 on" in siblings
    assert cause == (
        "  cause: arrivals: more was asked for than usual; "
        "12 GPUs were still held by early starters, 5 expected; "
        "20 GPUs newly asked for within 1.0 h, 6 are usual"
    )
    assert done == "  while it lasted 1 guests were started and 2 sent back"


def test_an_episode_without():
    one = an_episode()
    assert one.cause == Cause.ARRIVALS
    lines = episode_words(one)
    assert len(lines) == 4
    assert lines[1] == "  on lent GPUs: nobody"
    assert "early starters" not in lines[2]
