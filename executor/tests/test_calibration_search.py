"""The search: near the best of the grid in spite of noise, in few switches, and it knows when to stop."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from calibration_world import Grid, pair, run
from hypothesis import given, settings
from hypothesis import strategies as st

from antecast_executor.calibration import (
    OBJECTIVES,
    End,
    Limits,
    Measurement,
    Member,
    PackedSet,
    Remaining,
    Rules,
    Search,
    Setting,
    Worker,
    first_setting,
    measuring_s,
    most_switches,
    switches,
)
from antecast_executor.calibration.convex import fit

JCT = OBJECTIVES["jct"]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["jct", "promise"]))
def test_exact_measurements_lead_to_the_best_of_the_grid(seed: int, name: str) -> None:
    grid = Grid(seed, name, 0.0)
    assert grid.value(grid.search.best) == pytest.approx(grid.best(), rel=1e-9)
    assert grid.windows == len(grid.search.tries)


@pytest.mark.parametrize("jitter", [0.01, 0.02, 0.03])
def test_noisy_measurements_lead_to_99_percent_of_the_best(jitter: float) -> None:
    """Of the best of the grid in true value, on every one of these instances."""
    reached = []
    for seed in range(60):
        grid = Grid(seed, "jct", jitter)
        reached.append(grid.best() / grid.value(grid.search.best))
        assert grid.search.switches_in_all <= 10
    assert min(reached) >= 0.99
    assert sum(reached) / len(reached) >= 0.999


def test_one_window_each_as_the_paper_has_it_is_right_on_the_whole_only() -> None:
    reached = []
    for seed in range(60):
        grid = Grid(seed, "jct", 0.02, Rules(most_windows=1))
        reached.append(grid.best() / grid.value(grid.search.best))
        assert grid.windows == len(grid.search.tries)
    assert sum(reached) / len(reached) >= 0.995


def star(width: int, riders: Sequence[int], batch: int | None = None) -> PackedSet:
    partners: list[Worker | None] = [
        Worker(f"r{j}", i) for j, count in enumerate(riders) for i in range(count)
    ]
    partners += [None] * (width - len(partners))
    others = tuple(Member(f"r{j}", count, batch) for j, count in enumerate(riders))
    return PackedSet(Member("host", width, batch), others, tuple(partners))


SETS = st.integers(1, 8).flatmap(
    lambda width: (
        st.lists(st.integers(1, width), min_size=1, max_size=4)
        .filter(lambda riders: sum(riders) <= width)
        .map(lambda riders: star(width, riders, 64))
    )
)


@settings(max_examples=80)
@given(SETS, st.integers(0, 2**32 - 1), st.sampled_from(sorted(OBJECTIVES)), st.booleans(), st.booleans())
def test_it_always_ends_within_its_switches_and_its_limits(
    packed: PackedSet, seed: int, name: str, has_lgrr: bool, has_liss: bool
) -> None:
    """Measurements are drawn at random: nothing may depend on their making sense."""
    rng = random.Random(seed)  # noqa: S311
    start = first_setting(packed, rng.choice((50, 100)))
    least = tuple(tuple(rng.choice((10, 30)) for _ in row) for row in start.shares)
    limits = Limits(least, tuple((100,) * len(row) for row in least))
    jobs = [
        Remaining(rng.uniform(1, 1e5), rng.uniform(0, 1e5), rng.random(), rng.random())
        for _ in packed.members
    ]
    rules = Rules(has_lgrr, has_liss, most_windows=3)
    search = Search(packed, OBJECTIVES[name], jobs, start, rules=rules, limits=limits)
    path = [start]

    def truth(setting: Setting) -> Measurement:
        path.append(setting)
        assert limits.allow(setting)
        for item, row in zip(packed.members, setting.batches, strict=True):
            assert sum(row) == item.batch
            assert min(row) >= 1
        forwards = tuple(tuple(rng.uniform(0.1, 0.3) for _ in row) for row in setting.shares)
        return Measurement(tuple(rng.uniform(0.1, 1) for _ in jobs), forwards, rng.choice((0.0, 0.01)))

    run(search, truth)
    made = sum(switches(before, after) for before, after in pairwise([*path, search.best]))
    assert made == search.switches_in_all <= most_switches(packed)
    assert limits.allow(search.best)
    if not has_lgrr:
        assert made == 0
    if not has_liss:
        assert search.best.batches == start.batches


def test_three_failures_in_a_row_end_it_and_the_best_is_kept() -> None:
    """The third squeeze helps last: three more are tried and not a fourth."""
    values = {100: 10.0, 90: 8.0, 80: 7.0, 70: 6.0, 60: 6.5, 50: 7.0, 40: 8.0, 30: 9.0, 20: 10.0, 10: 11.0}
    search = Search(pair(), JCT, [Remaining(1.0), Remaining(1.0)], first_setting(pair()))
    seen: list[int] = []

    def truth(setting: Setting) -> Measurement:
        seen.append(setting.shares[1][0])
        return Measurement((1.0 / values[seen[-1]],) * 2)

    run(search, truth)
    assert seen == [100, 90, 80, 70, 60, 50, 40]
    assert (search.end, search.failures) == (End.NO_GAIN, 3)
    assert search.best.shares == ((100,), (70,))
    assert search.switches_in_all == 7
    assert search.next() is None


def test_the_protected_side_is_swelled_once_and_first() -> None:
    search = Search(pair(), JCT, [Remaining(1.0)] * 2, first_setting(pair(), 50))
    seen = []
    run(search, lambda setting: seen.append(setting.shares) or Measurement((1.0, 1.0)))
    assert seen == [((50,), (50,)), ((60,), (50,)), ((60,), (40,)), ((60,), (30,)), ((60,), (20,))]
    assert search.best.shares == ((50,), (50,))


def measured(host: float, rider: float, host_forwards: tuple[float, ...]) -> Measurement:
    return Measurement((host, rider), (host_forwards, (0.1,)))


def test_a_protected_host_with_stragglers_has_those_beside_them_squeezed() -> None:
    packed = star(2, [1])
    jobs = [Remaining(1.0, utilisation=0.1), Remaining(1.0, utilisation=0.9)]
    search = Search(packed, JCT, jobs, first_setting(packed))
    search.next()
    search.measured(measured(0.5, 0.5, (0.2, 0.1)))
    following = search.next()
    assert following is not None
    assert following.shares == ((100, 100), (90,))


def test_a_host_that_gives_way_moves_samples_off_its_stragglers_first() -> None:
    packed = star(2, [1], 64)
    jobs = [Remaining(1.0, utilisation=0.9), Remaining(1.0, utilisation=0.1)]
    search = Search(packed, JCT, jobs, first_setting(packed))
    seen = []

    def truth(setting: Setting) -> Measurement:
        seen.append(setting)
        slow, fast = setting.batches[0]
        times = (slow / 50.0 / (setting.shares[0][0] / 100.0), fast / 100.0)
        return Measurement((1.0 / max(times), 0.5), (times, (0.1,)))

    run(search, truth)
    assert [item.shares for item in seen[:2]] == [((100, 100), (100,))] * 2
    assert seen[1].batches[0] == (21, 43)
    assert search.best == seen[1], "every squeeze slows the host and helps nobody"


def test_without_means_to_move_samples_stragglers_are_swelled_and_the_rest_is_squeezed() -> None:
    packed = star(2, [1, 1])
    jobs = [Remaining(1.0, utilisation=0.9), Remaining(1.0), Remaining(1.0, utilisation=0.1)]
    search = Search(packed, JCT, jobs, first_setting(packed, 50))
    shares = []
    for _ in range(3):
        setting = search.next()
        assert setting is not None
        shares.append(setting.shares)
        search.measured(Measurement((0.5, 0.5, 0.5), ((0.2, 0.1), (0.1,), (0.1,))))
    assert shares[1] == ((50, 50), (60,), (60,))
    assert shares[2] == ((60, 40), (60,), (60,))


def test_a_measurement_that_nobody_asked_for_is_refused() -> None:
    search = Search(pair(), JCT, [Remaining(1.0)] * 2, first_setting(pair()))
    with pytest.raises(RuntimeError, match="not asked"):
        search.measured(Measurement((1.0, 1.0)))
    search.next()
    with pytest.raises(ValueError, match="rates"):
        search.measured(Measurement((1.0,)))


def test_a_start_outside_the_limits_is_refused() -> None:
    limits = Limits(((10,), (10,)), ((50,), (50,)))
    with pytest.raises(ValueError, match="limits"):
        Search(pair(), JCT, [Remaining(1.0)] * 2, first_setting(pair()), limits=limits)


def test_a_window_is_five_steps_and_at_most_a_minute() -> None:
    assert measuring_s(0.5) == 2.5
    assert measuring_s(30.0) == 60.0


@given(st.lists(st.floats(0.0, 100.0), min_size=3, max_size=11))
def test_the_smoothed_curve_is_convex_and_none_near_it_fits_better(values: list[float]) -> None:
    spread = max(values) - min(values)
    fitted = fit(values, [1.0] * len(values))
    bends = [a - 2 * b + c for a, b, c in zip(fitted, fitted[1:], fitted[2:], strict=False)]
    assert min(bends) >= -1e-3 * spread - 1e-9
    assert sum(fitted) == pytest.approx(sum(values), abs=1e-6 + 1e-3 * spread)


def test_a_convex_curve_is_left_as_it_is() -> None:
    values = [9.0, 5.0, 2.0, 1.0, 3.0]
    assert fit(values, [1.0] * 5) == values
