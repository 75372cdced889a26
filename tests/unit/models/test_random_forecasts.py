"""Random forecasts: drawn from what the pool has done, whatever is asked about, and from nothing later."""

import numpy as np
from support import job

from models.demand.random_demand import RandomDemand
from models.lifetime.random_lives import RandomLifetimes
from models.scenarios.random_stretches import RandomStretches

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def bursts(days, pool="a"):
    """Every four hours a job of 2 GPUs that runs for 20 min."""
    return [
        (job(f"{pool}{k}", k * 4 * HOUR_S + 60.0, 2, pool), 1200.0) for k in range(int(days * DAY_S / 14_400))
    ]


def fitted(days=4, seed=0):
    past = sorted(bursts(days, "a") + bursts(days, "b"), key=lambda one: one[0].submit_s + one[1])
    demand = RandomDemand({"a": 8, "b": 5, "idle": 3}, seed=seed)
    demand.fit(past, (), days * DAY_S)
    return demand


def test_a_life_is_one_of_the_pools_drawn_once_at_the_submit():
    model = RandomLifetimes([(job(f"p{k}"), float(60 + k)) for k in range(100)], seed=3)
    asked = [job(f"n{k}") for k in range(50)]
    for one in asked:
        model.submitted(one, 0.0)
    said = [model.quantile_s(one, 0.5) for one in asked]
    assert set(said) <= {float(60 + k) for k in range(100)}
    assert len(set(said)) > 20
    model.ended(job("later"), 5.0, 1e6)
    assert [model.quantile_s(one, 0.9) for one in asked] == said
    assert RandomLifetimes(seed=3).quantile_s(job("x"), 0.5) == 3600.0


def test_a_life_of_no_length_is_still_positive():
    assert RandomLifetimes([(job("p"), 0.0)]).quantile_s(job("x"), 0.5) == 1.0


def test_loads_are_those_of_windows_that_were():
    demand = fitted()
    seen = {demand.new_load_gpus(HOUR_S, 4 * DAY_S + k * HOUR_S)["a"] for k in range(50)}
    assert seen == {0.0, 2.0}, "an hour holds one job or none"
    assert demand.new_load_gpus(HOUR_S, 5 * DAY_S)["idle"] == 0.0
    assert demand.new_load_gpus(43_200.0, 5 * DAY_S)["b"] in (4.0, 6.0, 8.0)
    assert demand.new_load_gpus(HOUR_S, 5 * DAY_S) == demand.new_load_gpus(HOUR_S, 5 * DAY_S + 1.0)


def test_nothing_known_means_the_whole_quota():
    demand = RandomDemand({"a": 8})
    demand.fit((), (), 0.0)
    assert demand.new_load_gpus(HOUR_S, 0.0) == {"a": 8.0}
    assert (demand.peaks(0.0) == 8.0).all()


def test_one_scenario_of_whole_gpus_that_another_draw_does_not_repeat():
    demand = fitted()
    draws = [demand.peaks(4 * DAY_S + k * 300.0) for k in range(40)]
    assert draws[0].shape == (1, 3, 15)
    assert {float(value) for drawn in draws for value in drawn.ravel()} <= {0.0, 2.0}
    assert len({drawn.tobytes() for drawn in draws}) > 5
    assert not any(drawn[:, 2].any() for drawn in draws)
    assert np.array_equal(draws[3], fitted().peaks(4 * DAY_S + 900.0))
    assert demand.arrivals(5 * DAY_S).sum() > 0
    assert any(
        not np.array_equal(a, b) for a, b in zip(draws, (fitted(seed=1).peaks(4 * DAY_S),) * 40, strict=True)
    )


def test_what_is_told_of_later_changes_no_draw():
    demand, other = fitted(), fitted()
    one = job("new", 4 * DAY_S + 10.0, 8)
    other.submitted(one, 4 * DAY_S + 10.0)
    other.started(one, 4 * DAY_S + 10.0)
    other.rate_changed(one, 4 * DAY_S + 15.0, 0.5)
    other.sent_back(one, 4 * DAY_S + 20.0)
    other.started(one, 4 * DAY_S + 30.0)
    other.ended(one, 4 * DAY_S + 40.0, 10.0)
    other.cancelled(job("gone", 0.0, 1, "nowhere"), 4 * DAY_S + 40.0)
    at_s = 4 * DAY_S + 299.0
    assert np.array_equal(demand.peaks(at_s), other.peaks(at_s))
    assert demand.new_load_gpus(300.0, 4 * DAY_S) == fitted().new_load_gpus(300.0, 4 * DAY_S)


def test_all_scenarios_are_the_same():
    stretches = RandomStretches({"a": 8, "b": 5}, 0, 7, since_s=0.0, begin_s=0.0)
    for k, (one, life_s) in enumerate(bursts(4)):
        stretches.arrived(one, one.submit_s)
        stretches.started(one, one.submit_s)
        stretches.ended(one, one.submit_s + life_s, life_s)
        assert k < 24
    peaks, arrivals = stretches.draw(4 * DAY_S)
    assert peaks.shape == arrivals.shape == (7, 2, 15)
    assert (peaks == peaks[:1]).all()
    assert (arrivals == arrivals[:1]).all()
