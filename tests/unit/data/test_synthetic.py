"""The generators against their definitions and against the statistics they were fitted to."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.synthetic import (
    PhillyLikeParameters,
    SyntheticWorkload,
    fit,
    philly_like,
    shipped_parameters,
    sia_workload,
    with_checkpoints,
    write_csv,
)
from data.synthetic.sia import cut_shares, mean_gap_s, mean_life_s, width_shares
from domain.errors import SettingError

DAYS_LONG = 400


@pytest.fixture(scope="module")
def long_sia() -> SyntheticWorkload:
    return sia_workload(3, num_pools=3, days=DAYS_LONG)


@pytest.fixture(scope="module")
def many_philly() -> pd.DataFrame:
    """Eight seeds one after the other, pools kept apart, so that chance evens out."""
    frames = [philly_like(seed).frame.assign(seed=seed) for seed in range(8)]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def refitted() -> list[PhillyLikeParameters]:
    """Parameters fitted to generated workloads of the fitted length."""
    quotas = {pool.name: pool.quota_gpus for pool in shipped_parameters().pools}
    return [fit(philly_like(seed, days=19).frame, quotas, span_s=19 * 86_400) for seed in range(6)]


def same(first: SyntheticWorkload, second: SyntheticWorkload) -> bool:
    texts = [w.frame.to_csv(index=False) for w in (first, second)]
    return texts[0] == texts[1] and first.quotas == second.quotas and first.target_load == second.target_load


def share_soon_after(frame: pd.DataFrame, by: list[str], within_s: float) -> float:
    """Share of jobs with a predecessor in the same pool within `within_s`."""
    return float((frame.groupby(by)["submit_s"].diff() <= within_s).mean())


@pytest.mark.parametrize("make", [sia_workload, philly_like])
def test_same_seed_same_workload_and_other_seed_another(make):
    assert same(make(11), make(11))
    assert same(make(11), make(np.random.Generator(np.random.PCG64(11))))
    assert not same(make(11), make(12))


@pytest.mark.parametrize("make", [sia_workload, philly_like])
def test_a_pool_keeps_its_jobs_when_pools_are_added(make):
    columns = ["submit_s", "num_gpus", "duration_s", "user", "name"]
    few, more = make(5, num_pools=2).frame, make(5, num_pools=4).frame
    for pool in few["pool"].unique():
        ours, theirs = (f.loc[f["pool"] == pool, columns].reset_index(drop=True) for f in (few, more))
        pd.testing.assert_frame_equal(ours, theirs)


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    philly_like(1, days=1)
    sia_workload(1)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


# --- SIA's own workload


def test_sia_loads_are_near_their_targets(long_sia):
    got = long_sia.offered_load(DAYS_LONG)
    for pool, target in long_sia.target_load.items():
        assert 0.6 <= target < 0.95
        assert got[pool] == pytest.approx(target, rel=0.05)


def test_sia_load_scale_moves_every_load():
    plain, scaled = sia_workload(3), sia_workload(3, load_scale=1.05)
    for pool, target in plain.target_load.items():
        assert scaled.target_load[pool] == pytest.approx(1.05 * target)


def test_sia_mean_gap_follows_from_the_definition():
    # 0.8 x (sqrt(10) + 100) / 2 min + 0.2 x 550 min = 151.26 min; (8 + 1) / 2 GPUs; load 0.8 of 8 GPUs
    assert mean_life_s() == pytest.approx(9075.9, abs=0.1)
    assert mean_gap_s(0.8, 8) == pytest.approx(4.5 * 9075.9 / 6.4, rel=1e-4)


def test_sia_gaps_between_bursts_are_exponential(long_sia):
    for pool, jobs in long_sia.frame.groupby("pool"):
        gaps = np.diff(np.sort(jobs["submit_s"].unique()))
        expected = mean_gap_s(long_sia.target_load[str(pool)], 8)
        assert gaps.mean() == pytest.approx(expected, rel=0.05)
        assert gaps.std() == pytest.approx(expected, rel=0.07)


def test_sia_widths_follow_the_published_shares(long_sia):
    counts = long_sia.frame["num_gpus"].value_counts()
    expected = len(long_sia.frame) * np.array([0.70, 0.10, 0.15, 0.05])
    got = counts.reindex([1, 2, 4, 8]).to_numpy()
    chi_square = ((got - expected) ** 2 / expected).sum()
    assert set(counts.index) == {1, 2, 4, 8}
    assert chi_square < 16.3  # 0.1 % point with 3 degrees of freedom


def test_sia_burst_totals_are_uniform_up_to_the_quota(long_sia):
    bursts = long_sia.frame.groupby(["pool", "submit_s"])["num_gpus"].sum()
    counts = bursts.value_counts().reindex(range(1, 9), fill_value=0).to_numpy()
    expected = counts.sum() / 8
    # two bursts of one pool in the same second, which would add up, are rarer than 1 in 1,000 here
    assert ((counts - expected) ** 2 / expected).sum() < 24.3  # 0.1 % point with 7 degrees of freedom


def test_sia_lives_follow_the_published_mixture(long_sia):
    minutes = long_sia.frame["duration_s"].to_numpy() / 60
    edges = np.concatenate((np.linspace(10**0.5, 100, 9), np.linspace(100, 1000, 5)[1:]))
    counts, _ = np.histogram(minutes, edges)
    expected = len(minutes) * np.array([0.8 / 8] * 8 + [0.2 / 4] * 4)
    assert minutes.min() >= 10**0.5 - 0.01
    assert minutes.max() <= 1000
    assert ((counts - expected) ** 2 / expected).sum() < 31.3  # 0.1 % point with 11 degrees of freedom


@pytest.mark.parametrize("quota", [1, 2, 3, 4, 5, 7, 8, 9, 16, 40])
def test_sia_cut_keeps_shares_and_never_exceeds_what_is_left(quota):
    cut = cut_shares(quota)
    for left in range(1, quota + 1):
        assert cut[left].sum() == pytest.approx(1)
        assert (cut[left][np.array([1, 2, 4, 8]) > left] == 0).all()
    wanted = width_shares(quota)
    jobs = sia_workload(1, num_pools=1, gpus_per_pool=quota, days=3000 / quota).frame
    got = jobs["num_gpus"].value_counts(normalize=True).reindex([1, 2, 4, 8], fill_value=0).to_numpy()
    assert np.abs(got - wanted).max() < 0.03


@pytest.mark.parametrize(
    "arguments",
    [{"num_pools": 0}, {"gpus_per_pool": 0}, {"days": 0}, {"days": float("nan")}, {"load_scale": -1}],
)
def test_sia_refuses_settings_out_of_range(arguments):
    with pytest.raises(SettingError, match="must be at least 1"):
        sia_workload(1, **arguments)


# --- philly-like


def test_philly_like_has_the_overall_statistics_of_the_real_jobs(many_philly):
    # the 27,203 real jobs of the first 19 days: 95.3 % narrow, median 2,102 s, p95 22,039 s, mean 10,583 s,
    # 1,432 jobs a day, 80.9 % within 60 s and 85.0 % within 300 s of a job of the same pool
    life = many_philly["duration_s"]
    assert (many_philly["num_gpus"] == 1).mean() == pytest.approx(0.953, abs=0.015)
    assert life.median() == pytest.approx(2102, rel=0.15)
    assert life.quantile(0.95) == pytest.approx(22_039, rel=0.25)
    assert life.mean() == pytest.approx(10_583, rel=0.25)
    assert len(many_philly) / (8 * 14) == pytest.approx(1432, rel=0.1)
    assert share_soon_after(many_philly, ["seed", "pool"], 60) == pytest.approx(0.809, abs=0.03)
    assert share_soon_after(many_philly, ["seed", "pool"], 300) == pytest.approx(0.850, abs=0.03)


@pytest.mark.parametrize("seed", range(4))
def test_every_seed_alone_is_near_the_real_median_and_rate(seed):
    frame = philly_like(seed).frame
    assert frame["duration_s"].median() == pytest.approx(2102, rel=0.25)
    assert len(frame) == pytest.approx(14 * 1432, rel=0.25)


def test_fitting_a_generated_workload_recovers_the_parameters_of_the_big_pools(refitted):
    for place in range(3):
        true, found = shipped_parameters().pools[place], [fitted.pools[place] for fitted in refitted]
        assert {pool.name for pool in found} == {true.name}

        def mean(label: str, found=found) -> float:
            return float(np.mean([getattr(pool, label) for pool in found]))

        assert mean("jobs_per_day") == pytest.approx(true.jobs_per_day, rel=0.15)
        assert mean("bursts_per_day") == pytest.approx(true.bursts_per_day, rel=0.1)
        assert mean("life_sibling_corr") == pytest.approx(true.life_sibling_corr, abs=0.12)
        assert mean("size_life_corr") == pytest.approx(true.size_life_corr, abs=0.15)
        middle = shipped_parameters().levels.index(0.5)
        assert np.mean([p.life_s[middle] for p in found]) == pytest.approx(true.life_s[middle], rel=0.2)
        assert np.mean([p.width_shares[0] for p in found]) == pytest.approx(true.width_shares[0], abs=0.03)


def test_fitting_recovers_loads_and_the_inequality_of_pools(refitted):
    true = {pool.name: pool.load for pool in shipped_parameters().pools}
    found = {name: np.mean([p.load for f in refitted for p in f.pools if p.name == name]) for name in true}
    for name, load in true.items():
        assert found[name] == pytest.approx(load, rel=0.5, abs=0.1)
    assert max(found.values()) > 4 * min(found.values())


def test_fitting_recovers_the_week(refitted):
    true = shipped_parameters().pools[0].weekday_profile
    found = np.mean([fitted.pools[0].weekday_profile for fitted in refitted], axis=0)
    assert np.abs(found - true).max() < 0.25
    assert found[5:].max() < 0.75 * found[:5].min()


def test_closed_loop_bursts_follow_ends_more_often_than_open_ones():
    shipped = shipped_parameters()
    shares = []
    for closed_share in (0.0, 0.9):
        pool = replace(shipped.pools[2], closed_share=closed_share)
        workload = philly_like(4, replace(shipped, pools=(pool,)), days=60)
        shares.append(fit(workload.frame, workload.quotas, span_s=60 * 86_400).pools[0].closed_share)
    assert shares[0] < 0.15
    assert shares[1] > shares[0] + 0.3


def test_bursts_are_far_denser_than_a_poisson_process_of_the_same_rate():
    frame = philly_like(2).frame
    uniform = np.random.Generator(np.random.PCG64(1)).uniform(0, 14 * 86_400, len(frame))
    poisson = frame.assign(submit_s=uniform).sort_values("submit_s")
    times = []
    for pool, jobs in frame.groupby("pool"):
        seen = share_soon_after(jobs, ["pool"], 60)
        by_chance = share_soon_after(poisson[poisson["pool"] == pool], ["pool"], 60)
        assert seen >= by_chance
        times.append(seen / max(by_chance, 0.01))
    assert np.median(times) > 5
    largest = frame[frame["pool"] == shipped_parameters().pools[0].name]
    assert share_soon_after(largest, ["pool"], 60) > 0.9  # by chance 0.57


def test_some_bursts_are_larger_than_their_pool_and_some_pools_idle_meanwhile():
    workload = philly_like(0)
    gap = workload.frame.groupby("pool")["submit_s"].diff()
    burst = (gap > 300).groupby(workload.frame["pool"]).cumsum()
    width = workload.frame.groupby([workload.frame["pool"], burst])["num_gpus"].sum()
    pool = width.index.get_level_values("pool").map(workload.quotas)
    large = width[width.to_numpy() > pool.to_numpy()]
    assert len(large.index.get_level_values("pool").unique()) >= 4
    load = workload.offered_load(14)
    assert min(load.values()) < 0.5
    assert max(load.values()) > 0.8


def test_lives_can_be_learnt_from_the_name():
    frame = philly_like(6).frame
    life = np.log(frame["duration_s"])
    half = frame.index % 2 == 0
    past = life[half].groupby([frame["pool"], frame["name"]]).mean()
    key = pd.MultiIndex.from_frame(frame.loc[~half, ["pool", "name"]])
    known = past.reindex(key).to_numpy()
    pool_mean = life.groupby(frame["pool"]).transform("mean")[~half].to_numpy()
    seen = ~np.isnan(known)
    truth = life[~half].to_numpy()[seen]
    with_name, without = (np.mean((truth - guess[seen]) ** 2) for guess in (known, pool_mean))
    assert with_name < 0.6 * without
    assert frame["name"].str.startswith("scratch-").mean() > 0.02


def test_a_given_load_sets_the_quotas():
    workload = philly_like(9, load=0.8)
    widest = workload.frame.groupby("pool")["num_gpus"].max()
    for pool, got in workload.offered_load(14).items():
        quota = workload.quotas[pool]
        assert quota >= widest[pool]
        assert got == pytest.approx(0.8, rel=0.5 / quota + 0.01) or quota == widest[pool]
    total = (workload.frame["num_gpus"] * workload.frame["duration_s"]).sum() / (14 * 86_400)
    assert total / sum(workload.quotas.values()) == pytest.approx(0.8, abs=0.05)


def test_more_pools_than_fitted_get_names_and_draws_of_their_own():
    workload = philly_like(1, num_pools=13, days=3)
    names = list(workload.quotas)
    assert len(set(names)) == 13
    assert names[11] == f"{names[0]}-2"
    first, second = (workload.frame.loc[workload.frame["pool"] == name, "submit_s"] for name in names[::11])
    assert list(first) != list(second)


@pytest.mark.parametrize(
    "arguments", [{"num_pools": 0}, {"days": 0}, {"days": float("inf")}, {"load": 0}, {"load": float("nan")}]
)
def test_philly_like_refuses_settings_out_of_range(arguments):
    with pytest.raises(SettingError):
        philly_like(1, **arguments)


# --- parameters


def test_parameters_survive_json():
    shipped = shipped_parameters()
    assert PhillyLikeParameters.from_json(shipped.to_json()) == shipped


def test_the_shipped_file_is_small_and_names_its_source():
    shipped = shipped_parameters()
    assert len(shipped.to_json()) < 20_000
    assert "CC BY 4.0" in shipped.source
    assert "Microsoft" in shipped.source
    assert [pool.jobs_per_day for pool in shipped.pools] == sorted(
        (pool.jobs_per_day for pool in shipped.pools), reverse=True
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"levels": [0.0, 0.7, 0.5, 1.0]}, "must ascend"),
        ({"pools": []}, "at least one pool"),
        ({"extra": 1}, "unexpected keyword"),
    ],
)
def test_malformed_parameters_are_refused(change, rule):
    raw = json.loads(shipped_parameters().to_json()) | change
    with pytest.raises(ValueError, match=rule):
        PhillyLikeParameters.from_json(json.dumps(raw))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"closed_share": 1.2}, "closed_share"),
        ({"size_life_corr": -2}, "size_life_corr"),
        ({"bursts_per_day": 0}, "bursts_per_day"),
        ({"widths": [0, 2, 4, 8]}, "widths must be"),
        ({"widths": []}, "widths must be"),
        ({"width_shares": [1.0]}, "one share per width"),
        ({"quota_gpus": 1, "widths": [2, 4, 8, 16]}, "no width fits"),
        ({"hour_profile": [1.0] * 23}, "24 values"),
        ({"life_s": [1.0, 2.0]}, "one value per level"),
    ],
)
def test_malformed_pools_are_refused(change, rule):
    raw = json.loads(shipped_parameters().to_json())
    raw["pools"][0] |= change
    with pytest.raises(ValueError, match=rule):
        PhillyLikeParameters.from_json(json.dumps(raw))


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense"])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        PhillyLikeParameters.from_json(text)


# --- fitting


def tiny() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "pool": ["p", "p", "p"],
            "submit_s": [0, 60, 7200],
            "num_gpus": [1, 1, 2],
            "duration_s": [100, 100, 1000],
        }
    )


def test_fit_counts_by_hand():
    (pool,) = fit(tiny(), {"p": 4}, span_s=86_400).pools
    assert pool.jobs_per_day == 3
    assert pool.bursts_per_day == 2
    assert (pool.widths, pool.width_shares) == ((1, 2), (0.6667, 0.3333))
    assert pool.load == pytest.approx((100 + 100 + 2000) / (86_400 * 4), rel=1e-3)
    assert pool.gap_s == (60.0,) * len(pool.gap_s)
    assert pool.common_width_share == 1
    assert pool.closed_share == 0


def test_fit_does_not_depend_on_the_order_of_rows():
    assert fit(tiny().iloc[::-1], {"p": 4}) == fit(tiny(), {"p": 4})


def test_fit_of_a_single_job_can_be_generated_from():
    parameters = fit(tiny().head(1), {"p": 1}, span_s=3600)
    frame = philly_like(1, parameters, days=2).frame
    assert set(frame["duration_s"]) == {100}
    assert set(frame["num_gpus"]) == {1}


@pytest.mark.parametrize(
    ("frame", "quotas", "rule"),
    [
        (tiny().drop(columns="pool"), {"p": 4}, "columns are missing: pool"),
        (tiny().head(0), {"p": 4}, "no jobs"),
        (tiny(), {"q": 4}, "no quota for pool p"),
        (tiny(), {"p": 1}, "job c is wider"),
        (tiny().assign(submit_s=-1), {"p": 4}, "submissions must lie"),
    ],
)
def test_fit_refuses_what_it_cannot_use(frame, quotas, rule):
    with pytest.raises(ValueError, match=rule):
        fit(frame, quotas)


# --- files


def test_written_files_read_back_equal(tmp_path: Path):
    workload = sia_workload(8, num_pools=2)
    write_csv(workload, tmp_path / "out")
    text = {"job_id": "str", "pool": "str", "user": "str", "name": "str"}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out" / "jobs.csv", dtype=text), workload.frame)
    pools = pd.read_csv(tmp_path / "out" / "pools.csv", dtype={"pool": "str"})
    assert dict(zip(pools["pool"], pools["quota_gpus"], strict=True)) == workload.quotas


def test_a_share_of_the_jobs_saves_checkpoints_and_nothing_else_changes():
    plain = philly_like(5, days=3)
    made = with_checkpoints(plain, every_s=600.0, restart_s=45.0, share=0.25, seed=5)
    saves = made.frame["checkpoint_s"].notna()
    assert saves.mean() == pytest.approx(0.25, abs=0.03)
    assert set(made.frame.loc[saves, "checkpoint_s"]) == {600.0}
    assert set(made.frame.loc[saves, "restart_s"]) == {45.0}
    assert made.frame["restart_s"].notna().equals(saves)
    assert made.frame[plain.frame.columns].equals(plain.frame)
    again = with_checkpoints(plain, every_s=600.0, restart_s=45.0, share=0.25, seed=5)
    assert again.frame.equals(made.frame)
    assert not with_checkpoints(plain, every_s=600.0, restart_s=45.0, share=0.25, seed=6).frame.equals(
        made.frame
    )


@pytest.mark.parametrize("bad", [{"every_s": 0.5}, {"restart_s": -1.0}, {"share": 1.5}])
def test_checkpoints_that_make_no_sense_are_refused(bad):
    numbers = {"every_s": 600.0, "restart_s": 0.0, "share": 1.0} | bad
    with pytest.raises(ValueError, match="checkpoints every"):
        with_checkpoints(philly_like(5, days=1), **numbers, seed=0)
