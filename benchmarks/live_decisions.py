"""What a live decision costs, beside the policy alone: time, growth, restart, memory.

    python -m benchmarks.live_decisions [--database-url URL] [--jobs N] [--out live_decisions.csv]

A scheduler asks the API over HTTP and waits for each answer. The tables are written to SQLite in a temporary
folder, and to a PostgreSQL database of its own where a URL is given (it must be empty). `child`: waiting for
the warm process; `database`: statements and commits of the API as its driver sees them; `rest`: HTTP, JSON,
validation and the API's own Python, the scheduler's side included. `alone`: the same facts and decisions
in this process, without a service; the answers have to be the same.
"""

import argparse
import csv
import itertools
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import pandas as pd

from app.children.state import LiveDesk
from app.store.engine import make_engine, upgrade
from benchmarks.live_world import (
    PATIENCE_S,
    POLICY,
    Alone,
    Cost,
    Meter,
    Remote,
    alone,
    begin,
    newest_epoch,
    ok,
    serving,
)
from data.history import from_frame, to_jobs
from data.synthetic import philly_like
from domain.jobs import Job
from domain.plans import Plan
from simulator.engine import Engine
from simulator.workload import make_workload
from solver.policies import POLICIES

DAYS, TRAIN_DAYS, POOLS, LOAD = 12.0, 9.0, 8, 0.9
OPEN_JOBS = (100, 1_000, 5_000)
STEPS = 200
STEP_S = 10.0


@dataclass(frozen=True)
class Line:
    """A line of the results."""

    table: str
    database: str
    open_jobs: int
    decisions: int
    events: int
    median_ms: float
    p99_ms: float
    child_ms: float
    database_ms: float
    rest_ms: float
    statements: float
    alone_ms: float
    ratio: float
    last_over_first: float


def crowd(policy: Alone | Remote, jobs: Sequence[Job], num_open: int, capacity_gpus: int) -> list[Job]:
    """Keep so many jobs open: at each step one ends and one comes. Returns who started, in order."""
    coming, draw = iter(jobs), random.Random(1)  # noqa: S311
    running: dict[str, Job] = {}
    started: list[Job] = []
    idle_gpus, now_s = capacity_gpus, TRAIN_DAYS * 86_400.0

    def carry_out(plan: Plan) -> None:
        nonlocal idle_gpus
        for job in plan.send_backs:
            idle_gpus += running.pop(job.job_id).num_gpus
            policy.sent_back(job, now_s)
        for job, _ in plan.starts:
            idle_gpus -= job.num_gpus
            running[job.job_id] = job
            started.append(job)
            policy.started(job, now_s)

    for job in itertools.islice(coming, num_open):
        policy.submitted(job, now_s)
    for step in range(STEPS + 2):  # the first two are the crowd's arrival, and its starts told
        if step > 1:
            now_s += STEP_S
            gone = running.pop(draw.choice(list(running)))
            idle_gpus += gone.num_gpus
            policy.ended(gone, now_s)
            policy.submitted(next(coming), now_s)
        carry_out(policy.decide(now_s, idle_gpus))
    return started


def summed_up(
    table: str, database: str, open_jobs: int, remote: Sequence[Cost], local: Sequence[Cost]
) -> Line:
    """Medians of a run; `last_over_first`: of its last quarter over its first one."""
    whole = [1e3 * cost.whole_s for cost in remote]
    child = [1e3 * cost.child_s for cost in remote]
    base = [1e3 * cost.database_s for cost in remote]
    rest = [all_ms - child_ms - base_ms for all_ms, child_ms, base_ms in zip(whole, child, base, strict=True)]
    alone_ms = statistics.median(1e3 * cost.whole_s for cost in local)
    quarter = max(len(whole) // 4, 1)
    median = statistics.median
    return Line(
        table,
        database,
        open_jobs,
        len(whole),
        sum(cost.events for cost in remote),
        round(median(whole), 2),
        round(statistics.quantiles(whole, n=100, method="inclusive")[98], 2),
        round(median(child), 2),
        round(median(base), 2),
        round(median(rest), 2),
        round(statistics.fmean(cost.statements for cost in remote), 1),
        round(alone_ms, 3),
        round(median(whole) / alone_ms, 1),
        round(median(whole[-quarter:]) / median(whole[:quarter]), 2),
    )


def stream(client: httpx.Client, meter: Meter, url: str, num_jobs: int) -> Line:
    """A generated workload, as a scheduler would meet it."""
    made = philly_like(7, days=DAYS, num_pools=POOLS, load=LOAD)
    cut_s = TRAIN_DAYS * 86_400.0
    frame = made.frame.sort_values(["submit_s", "job_id"])
    earlier, later = frame[frame["submit_s"] < cut_s], frame[frame["submit_s"] >= cut_s].head(num_jobs)
    begin(client, url, "stream", made.quotas, earlier, cut_s)
    loaded = from_frame(pd.concat([earlier, later]), source="generated", quotas=made.quotas)
    workload = make_workload(loaded, made.quotas, train_until_s=cut_s, eval_from_s=cut_s)
    durations = {job_id: outcome.duration_s for job_id, outcome in workload.outcomes.items()}

    def run(policy: Alone | Remote) -> Any:
        engine = Engine(
            jobs=workload.jobs,
            outcomes=workload.outcomes,
            capacity_gpus=workload.cluster.capacity_gpus,
            policy=policy,
            tick_s=POLICIES[POLICY].tick_s,
        )
        return engine.run().stretches

    local, remote = alone(url, "stream", durations), Remote(client, "stream", durations, meter)
    if run(local) != run(remote):
        raise SystemExit("the service decides otherwise than the policy alone")
    return summed_up("stream", kind_of(url), 0, remote.costs, local.costs)


def growth(client: httpx.Client, meter: Meter, url: str, num_open: int) -> Line:
    """The same with so many jobs of one GPU open, for half of which there are GPUs."""
    made = philly_like(7, days=DAYS, num_pools=POOLS, load=LOAD)
    frame = made.frame.sort_values(["submit_s", "job_id"]).assign(num_gpus=1)
    cut_s = TRAIN_DAYS * 86_400.0
    earlier, rest = frame[frame["submit_s"] < cut_s], frame.head(num_open + STEPS)
    jobs, outcomes = to_jobs(from_frame(rest, source="generated", quotas=made.quotas).frame)
    crowded = [
        Job(f"open-{job.job_id}", job.pool, cut_s, job.num_gpus, user=job.user, name=job.name) for job in jobs
    ]
    durations = {f"open-{job_id}": outcome.duration_s for job_id, outcome in outcomes.items()}
    quotas = {pool: max(sum(job.pool == pool for job in jobs[:num_open]) // 2, 1) for pool in made.quotas}
    name = f"open-{num_open}"
    begin(client, url, name, quotas, earlier, cut_s)
    local, remote = alone(url, name, durations), Remote(client, name, durations, meter)
    capacity_gpus = sum(quotas.values())
    if crowd(local, crowded, num_open, capacity_gpus) != crowd(remote, crowded, num_open, capacity_gpus):
        raise SystemExit("the service decides otherwise than the policy alone")
    return summed_up("open", kind_of(url), num_open, remote.costs[2:], local.costs[2:])


def restart(url: str, cluster: str) -> None:
    """How long after a restart until the first decision, what of it goes where, and memory then."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"DATABASE_URL": url, "AUTH": "off", "PORT": port, "DECIDE_LIMIT_S": PATIENCE_S}
    env = os.environ | {f"ANTECAST_{name}": str(value) for name, value in names.items()}
    command = [sys.executable, "-m", "app", "serve", "--no-worker"]
    begun_s = time.perf_counter()
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            wait_until_it_answers(client, process)
            up_s = time.perf_counter() - begun_s
            ok(client.post(f"/v1/clusters/{cluster}/decisions", json={}))
            first_s = time.perf_counter() - begun_s
            children = [rss_mib(pid) for pid in children_of(process.pid)]
            print(
                f"restart   {kind_of(url):10} API up after {up_s:.2f} s, first decision after "
                f"{first_s:.2f} s; memory: API {rss_mib(process.pid):.0f} MiB, warm child "
                + ", ".join(f"{child:.0f} MiB" for child in children)
            )
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
    engine = make_engine(url)
    begun_s = time.perf_counter()
    desk = LiveDesk(engine, cluster, newest_epoch(engine, cluster))
    trained_s, first_seq = time.perf_counter() - begun_s, desk.seq
    with engine.connect() as connection:
        last_seq = connection.exec_driver_sql(f"SELECT max(seq) FROM log WHERE cluster = '{cluster}'")  # noqa: S608
        until = int(last_seq.scalar_one())
    desk.catch_up(until)
    told_s = time.perf_counter() - begun_s - trained_s
    print(
        f"rebuild   {kind_of(url):10} {trained_s:.2f} s to load and train on "
        f"{len(desk.trained.training.past):,} jobs, {told_s:.2f} s to read and tell "
        f"{until - first_seq:,} entries: {1e3 * told_s / (until - first_seq):.3f} ms each"
    )
    engine.dispose()


def wait_until_it_answers(client: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    """Until the service says it is there."""
    while True:
        try:
            if client.get("/healthz").is_success:
                return
        except httpx.TransportError:
            if process.poll() is not None:
                raise SystemExit("the service has ended") from None
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    """Processes of a process (Linux; none elsewhere)."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text(encoding="ascii").split()]


def rss_mib(pid: int) -> float:
    """Memory of a process that is resident (Linux; not a number elsewhere)."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), float("nan"))


def kind_of(url: str) -> str:
    """Which database."""
    return url.partition(":")[0].partition("+")[0]


def show(line: Line) -> None:
    """Print a line."""
    print(
        f"{line.table:6} {line.open_jobs or '':>5} {line.database:10} {line.decisions:>6} decisions "
        f"{line.events:>6} events: median {line.median_ms:6.2f} ms, p99 {line.p99_ms:6.2f}; "
        f"child {line.child_ms:5.2f}, database {line.database_ms:5.2f} ({line.statements:.1f} statements), "
        f"rest {line.rest_ms:5.2f}; alone {line.alone_ms:6.3f} (x{line.ratio:.1f}); "
        f"last quarter x{line.last_over_first:.2f}",
        flush=True,
    )


def measure(url: str, num_jobs: int) -> list[Line]:
    """All tables on one database."""
    upgrade(url)
    with serving(url) as (client, meter):
        floor = sorted(timed(lambda: client.get("/healthz")) for _ in range(STEPS))[STEPS // 2]
        print(f"HTTP alone (GET /healthz): median {1e3 * floor:.2f} ms")
        lines = [stream(client, meter, url, num_jobs)]
        show(lines[0])
        for num_open in OPEN_JOBS:
            lines.append(growth(client, meter, url, num_open))
            show(lines[-1])
    restart(url, "stream")
    return lines


def timed(what: Callable[[], Any]) -> float:
    """Seconds it takes."""
    begun_s = time.perf_counter()
    what()
    return time.perf_counter() - begun_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database-url", help="also measure on this PostgreSQL database")
    parser.add_argument("--jobs", type=int, default=1_000, help="jobs of the workload")
    parser.add_argument("--out", type=Path, help="also write the table as CSV")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        urls = [f"sqlite:///{folder}/antecast.db", *filter(None, [chosen.database_url])]
        lines = [line for url in urls for line in measure(url, chosen.jobs)]
    if chosen.out is not None:
        with chosen.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([column.name for column in fields(Line)])
            writer.writerows(map(astuple, lines))


if __name__ == "__main__":
    main()
