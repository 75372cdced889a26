"""The forecast monitor: its design by simulation, and what it says of hazard forecasts on a record.

python -m benchmarks.monitor_design
python -m benchmarks.monitor_design --jobs ../shared/bench/philly-pools/jobs.csv

Nothing that happens after --valid-until is looked at. Trained on what ended before --train-until and, with
--retrain-days, anew on the way.
"""

import argparse
from pathlib import Path

import numpy as np

from data.history import to_jobs
from data.readers import READERS
from domain.jobs import Job
from models import LIFETIME_MODELS, Training
from models.calibration.life_monitor import LEVEL, LifeMonitor
from models.calibration.monitor import LIFE, ForecastMonitor, StreamKey
from models.calibration.track import MonitorDesign, Track

DAY_S = 86_400.0
DESIGN = MonitorDesign()
STREAMS, MOST = 40, 10_000


def first_off(rate: float, level: float, seed: int, *, drift_only: bool) -> int:
    """Outcomes until trust is lost (or the drift alone alarms), `MOST` where it is not."""
    track = Track()
    for k, is_miss in enumerate((np.random.default_rng(seed).random(MOST) < rate).tolist()):
        track.observe(DESIGN, level, is_miss, float(k))
        if track.is_drifting(DESIGN) if drift_only else track.is_off:
            return k + 1
    return MOST


def recovery(level: float, seed: int) -> int:
    """Outcomes as said until trust returns, after 300 with four times the misses."""
    rng, track = np.random.default_rng(seed), Track()
    for k, is_miss in enumerate((rng.random(300) < min(1.0, 4.0 * (1.0 - level))).tolist()):
        track.observe(DESIGN, level, is_miss, float(k))
    for k, is_miss in enumerate((rng.random(MOST) < 1.0 - level).tolist()):
        track.observe(DESIGN, level, is_miss, 300.0 + k)
        if not track.is_off:
            return k + 1
    return MOST


def show_design() -> None:
    print(f"{DESIGN}\n")
    heads = ["level", "drift alone", "any", "misses x 1.5", "x 2", "x 2, bound of drift", "x 4", "back on"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for level in (0.5, 0.8, 0.9, 0.95, 0.99):
        allowed = 1.0 - level
        runs = [(1.0, True), (1.0, False), *((by, False) for by in (1.5, 2.0, 4.0))]
        means = []
        for by, drift_only in runs:
            rate = min(by * allowed, 0.95)
            until = [first_off(rate, level, seed, drift_only=drift_only) for seed in range(STREAMS)]
            means.append(f"{'> ' if max(until) == MOST else ''}{np.mean(until):,.0f}")
        bound = f"{DESIGN.delay_bound(level):,.0f}"
        back = f"{np.mean([recovery(level, seed) for seed in range(STREAMS)]):,.0f}"
        print(f"| {level} | {' | '.join([*means[:4], bound, means[4], back])} |")


def watch(args: argparse.Namespace) -> None:
    frame = READERS["csv"](args.jobs, None).frame
    train_s, valid_s = args.train_until, args.valid_until
    jobs, outcomes = to_jobs(frame[frame["submit_s"] < valid_s])
    ends = [(job.submit_s + outcomes[job.job_id].duration_s, job) for job in jobs]
    past = sorted(((at, job) for at, job in ends if at <= train_s), key=lambda one: (one[0], one[1].job_id))
    running = [(job, train_s - job.submit_s) for at, job in ends if job.submit_s < train_s < at]
    retrain_s = args.retrain_days * DAY_S if args.retrain_days else None
    told = [(job, outcomes[job.job_id].duration_s) for _, job in past]
    training = Training({}, told, running, train_s, retrain_every_s=retrain_s)
    watched = LifeMonitor(LIFETIME_MODELS[args.lives](training), ForecastMonitor())
    facts = [(at, 0, job) for at, job in ends if train_s < at < valid_s]
    facts += [(job.submit_s, 1, job) for job in jobs if job.submit_s >= train_s]
    said: list[tuple[bool, float, float]] = []
    off_s: dict[str, float] = {}
    since_s: dict[str, float] = {}
    for now_s, is_submit, job in sorted(facts, key=lambda fact: (fact[0], fact[1], fact[2].job_id)):
        if is_submit:
            watched.submitted(job, now_s)
            watched.started(job, now_s)
            lived_s = min(outcomes[job.job_id].duration_s, valid_s - now_s)
            said.append((watched.monitor.may_lend(job.pool), watched.quantile_s(job, LEVEL), lived_s))
        else:
            watched.ended(job, now_s, outcomes[job.job_id].duration_s)
        note(watched, job, now_s, since_s, off_s)
    for pool, at in since_s.items():
        off_s[pool] = off_s.get(pool, 0.0) + valid_s - at
    show_pools(watched, off_s, valid_s - train_s, valid_s)
    for is_on, words in ((True, "on"), (False, "off")):
        known = [lived_s > quantile_s for may, quantile_s, lived_s in said if may is is_on]
        share = f"{sum(known) / len(known):.3f}" if known else "none"
        print(f"submitted while lending was {words}: {len(known)} jobs, {share} missed")


def note(
    watched: LifeMonitor, job: Job, now_s: float, since_s: dict[str, float], off_s: dict[str, float]
) -> None:
    """Keep how long the job's pool has been off."""
    if not watched.monitor.may_lend(job.pool):
        since_s.setdefault(job.pool, now_s)
    elif job.pool in since_s:
        off_s[job.pool] = off_s.get(job.pool, 0.0) + now_s - since_s.pop(job.pool)


def show_pools(watched: LifeMonitor, off_s: dict[str, float], span_s: float, now_s: float) -> None:
    heads = ["pool", "outcomes", "missed", "running rate", "90 % interval", "longest run", "times off"]
    heads += ["off, % of time", "within 80 %"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for row in watched.monitor.report():
        share = off_s.get(row.pool, 0.0) / span_s
        record = watched.record(("pool", row.pool), now_s)
        within = "" if record is None else f"{record.within_80:.2f}"
        print(
            f"| {row.pool} | {row.observed} | {row.missed / row.observed:.3f} |"
            f" {row.miss_rate:.3f} | {row.low:.3f} to {row.high:.3f} | {row.longest_run} |"
            f" {row.times_off} | {share:.0%} | {within} |"
        )
    rows = [watched.monitor.stream(StreamKey(LIFE, row.pool)) for row in watched.monitor.report()]
    total, missed = sum(row.observed for row in rows if row), sum(row.missed for row in rows if row)
    print(f"\nall pools: {total} outcomes, {missed / total:.3f} missed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Path)
    parser.add_argument("--lives", default="hazard", choices=sorted(LIFETIME_MODELS))
    parser.add_argument("--train-until", type=float, default=12 * DAY_S)
    parser.add_argument("--valid-until", type=float, default=19 * DAY_S)
    parser.add_argument("--retrain-days", type=float, default=0.0)
    arguments = parser.parse_args()
    if arguments.jobs is None:
        show_design()
    else:
        watch(arguments)
