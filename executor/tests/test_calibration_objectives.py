"""What every objective owes, and what each one is about."""

import math

import pytest
from calibration_world import pair, run
from hypothesis import given
from hypothesis import strategies as st

from antecast_executor.calibration import (
    BROKEN,
    OBJECTIVES,
    Measurement,
    Remaining,
    Search,
    Setting,
    first_setting,
)

RATES = st.floats(0.01, 100.0)
JOBS = st.builds(
    Remaining,
    steps=st.floats(0.0, 1e6),
    deadline_in_s=st.none() | st.floats(-1e4, 1e6),
    utilisation=st.none() | st.floats(0.0, 1.0),
    lowest_rate=st.none() | st.floats(0.0, 10.0),
    promised_in_s=st.none() | st.floats(-1e4, 1e6),
)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
@given(st.lists(st.tuples(JOBS, RATES), min_size=2, max_size=5), st.data())
def test_faster_is_never_worse_and_all_is_a_number(
    name: str, cases: list[tuple[Remaining, float]], data: st.DataObject
) -> None:
    objective = OBJECTIVES[name]
    jobs, rates = [job for job, _ in cases], [rate for _, rate in cases]
    value = objective.value(Measurement(tuple(rates)), jobs)
    assert value >= 0
    place = data.draw(st.integers(0, len(jobs) - 1))
    rates[place] *= data.draw(st.floats(1.0, 10.0))
    assert objective.value(Measurement(tuple(rates)), jobs) <= value * (1 + 1e-12)
    for place in range(len(jobs)):
        assert not math.isnan(objective.priority(Measurement(tuple(rates)), jobs, place))


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_a_search_on_one_path_is_the_same_again(name: str) -> None:
    jobs = [Remaining(500.0, 900.0, 0.4, 0.2), Remaining(800.0, 700.0, 0.8, 0.1)]
    packed = pair()

    def truth(setting: Setting) -> Measurement:
        (first,), (second,) = setting.shares
        return Measurement((1.0 - 0.004 * second, math.sqrt(first * second) / 100.0))

    found = []
    for _ in range(2):
        search = Search(packed, OBJECTIVES[name], jobs, first_setting(packed))
        run(search, truth)
        start = OBJECTIVES[name].value(truth(first_setting(packed)), jobs)
        assert search.best_value <= start
        found.append((search.best, search.best_value, len(search.tries)))
    assert found[0] == found[1]


def test_jct_is_the_mean_and_protects_the_idler_job() -> None:
    jct, seen = OBJECTIVES["jct"], Measurement((2.0, 5.0))
    jobs = [Remaining(100.0, utilisation=0.2), Remaining(100.0, utilisation=0.9)]
    assert jct.value(seen, jobs) == pytest.approx(35.0)
    assert jct.priority(seen, jobs, 0) > jct.priority(seen, jobs, 1)
    unknown = [Remaining(100.0), jobs[1]]
    assert jct.priority(seen, unknown, 0) < jct.priority(seen, unknown, 1)


def test_deadline_is_the_largest_overrun_and_protects_the_least_slack() -> None:
    deadline = OBJECTIVES["deadline"]
    jobs = [Remaining(100.0, deadline_in_s=70.0), Remaining(50.0, deadline_in_s=60.0), Remaining(9.0)]
    seen = Measurement((1.0, 1.0, 1.0))
    assert deadline.value(seen, jobs) == pytest.approx(30.0)
    order = sorted(range(3), key=lambda place: -deadline.priority(seen, jobs, place))
    assert order == [0, 1, 2]
    assert deadline.value(Measurement((2.0, 1.0, 1.0)), jobs) == 0.0


def test_makespan_is_the_last_end_and_protects_the_longest() -> None:
    makespan, seen = OBJECTIVES["makespan"], Measurement((1.0, 1.0))
    jobs = [Remaining(100.0), Remaining(50.0)]
    assert makespan.value(seen, jobs) == 100.0
    assert makespan.priority(seen, jobs, 0) > makespan.priority(seen, jobs, 1)


def test_promise_takes_nothing_that_breaks_one() -> None:
    promise = OBJECTIVES["promise"]
    jobs = [Remaining(100.0, lowest_rate=0.8), Remaining(100.0, promised_in_s=400.0)]
    assert promise.value(Measurement((0.8, 0.25)), jobs) == pytest.approx((125.0 + 400.0) / 2)
    assert promise.value(Measurement((0.79, 9.0)), jobs) > BROKEN
    assert promise.value(Measurement((0.4, 9.0)), jobs) > promise.value(Measurement((0.79, 9.0)), jobs)
    assert promise.value(Measurement((9.0, 0.24)), jobs) > BROKEN
    assert promise.value(Measurement((0.8, 0.25), error=0.01), jobs) > BROKEN, "sure is surer than measured"
    assert promise.priority(Measurement((0.8, 9.0)), jobs, 0) > promise.priority(
        Measurement((0.8, 9.0)), jobs, 1
    )
    late = [jobs[0], Remaining(1.0, promised_in_s=-1.0)]
    assert promise.value(Measurement((1.0, 1.0)), late) == 2 * BROKEN


def test_promise_finds_its_way_to_what_can_be_kept_and_no_further_than_it_can() -> None:
    """The host keeps 0.9 only once its rider is squeezed below half; below that the rider gets slower."""
    jobs = [Remaining(1000.0, lowest_rate=0.9), Remaining(1000.0)]
    packed = pair()

    def truth(setting: Setting) -> Measurement:
        rider = setting.shares[1][0] / 100.0
        return Measurement((1.0 - 0.2 * rider, 0.6 * rider**0.5))

    search = Search(packed, OBJECTIVES["promise"], jobs, first_setting(packed))
    run(search, truth)
    assert search.is_allowed
    assert search.best.shares == ((100,), (50,))
    hopeless = Search(
        packed, OBJECTIVES["promise"], [Remaining(1.0, lowest_rate=2.0), jobs[1]], first_setting(packed)
    )
    run(hopeless, truth)
    assert not hopeless.is_allowed
