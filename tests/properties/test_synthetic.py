"""Whatever the seed and the size, a generated workload obeys the rules of a history."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from data.synthetic import PhillyLikeParameters, SyntheticWorkload, fit, philly_like, sia_workload

seeds = st.integers(0, 2**32 - 1)


def check(workload: SyntheticWorkload, days: float) -> None:
    frame = workload.frame
    assert list(frame.columns) == [
        *("job_id", "pool", "submit_s", "num_gpus", "duration_s", "requeue_u", "user", "name")
    ]
    assert list(frame.index) == list(range(len(frame)))
    assert frame["job_id"].is_unique
    assert frame["job_id"].is_monotonic_increasing
    assert frame["submit_s"].is_monotonic_increasing
    for column in ("submit_s", "num_gpus", "duration_s"):
        assert frame[column].dtype == np.int64
    assert frame["submit_s"].between(0, days * 86_400, inclusive="left").all()
    assert (frame["duration_s"] >= 1).all()
    assert (frame["num_gpus"] >= 1).all()
    assert (frame["num_gpus"] <= frame["pool"].map(workload.quotas).astype("float64")).all()
    assert frame["requeue_u"].between(0, 1, inclusive="left").all()
    assert not frame.isna().any().any()
    assert set(frame["pool"]) <= set(workload.quotas)
    assert set(workload.target_load) == set(workload.quotas)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 6), st.integers(1, 40), st.floats(0.001, 5))
def test_sia_workload_is_valid(seed, num_pools, gpus_per_pool, days):
    workload = sia_workload(seed, num_pools=num_pools, gpus_per_pool=gpus_per_pool, days=days)
    check(workload, days)
    assert len(workload.quotas) == num_pools
    totals = workload.frame.groupby(["pool", "submit_s"])["num_gpus"].sum()
    assert totals.empty or totals.min() >= 1


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 14), st.floats(0.001, 3), st.none() | st.floats(0.3, 1.2))
def test_philly_like_is_valid(seed, num_pools, days, load):
    workload = philly_like(seed, days=days, load=load, num_pools=num_pools)
    check(workload, days)
    assert len(workload.quotas) == num_pools


jobs = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 50_000), st.integers(1, 4), st.integers(0, 10**6)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(jobs, seeds)
def test_whatever_can_be_fitted_survives_json_and_can_be_generated(rows, seed):
    frame = pd.DataFrame(rows, columns=["pool", "submit_s", "num_gpus", "duration_s"])
    frame["job_id"] = [f"j{i:03d}" for i in range(len(frame))]
    parameters = fit(frame, {"x": 4, "y": 8}, span_s=50_000)
    assert PhillyLikeParameters.from_json(parameters.to_json()) == parameters
    check(philly_like(seed, parameters, days=0.5), 0.5)
