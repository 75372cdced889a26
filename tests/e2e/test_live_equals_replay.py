"""Decisions asked for over REST, at the instants of a replay, are those of the replay, job by job."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pandas as pd
import pytest
from databases import Database
from live import Durations, RemotePolicy, finished, instant, make_cluster, ok, serving, working
from support import BENCH_ROOT, PHILLY, needs_bench_data

from data.history import from_frame
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from data.schedule_csv import write_schedule
from data.synthetic import philly_like
from domain.schedules import Schedule
from simulator.engine import Engine
from simulator.replay import replay
from simulator.workload import Workload, make_workload
from solver.policies import POLICIES


def live(
    client: httpx.Client, workload: Workload, policy: str, cluster: str = "c1"
) -> tuple[Schedule, RemotePolicy]:
    """The engine's world, with a policy that lives in the service."""
    durations = Durations()
    remote = RemotePolicy(client, cluster, durations)
    engine = Engine(
        jobs=workload.jobs,
        outcomes=workload.outcomes,
        capacity_gpus=workload.cluster.capacity_gpus,
        policy=remote,
        observers=[durations],
        tick_s=POLICIES[policy].tick_s,
    )
    return engine.run(), remote


def begin(
    client: httpx.Client,
    workload: Workload,
    earlier: pd.DataFrame,
    policy: str,
    settings: Mapping[str, str],
    seed: int = 0,
) -> None:
    """A cluster that has learned from a history as of the instant at which the replay begins."""
    make_cluster(
        client,
        workload.cluster.quotas(),
        enforced_by="scheduler",
        policy=policy,
        settings=dict(settings),
        seed=seed,
    )
    queued = ok(
        client.post(
            "/v1/clusters/c1/history",
            content=earlier.to_csv(index=False),
            headers={"Content-Type": "text/csv"},
        )
    )
    finished(client, queued["run_id"])
    body = {"as_of": instant(workload.train_until_s), "reason": "replay"}
    ok(client.post("/v1/clusters/c1/epochs", json=body))


def cut(frame: pd.DataFrame, train_until_s: float, until_s: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is submitted before the replay begins, and all up to its last arrival."""
    return frame[frame["submit_s"] < train_until_s], frame[frame["submit_s"] < until_s]


def workload_of(frame: pd.DataFrame, quotas: Mapping[str, int], train_until_s: float) -> Workload:
    history = from_frame(frame, source="test", quotas=quotas)
    return make_workload(history, quotas, train_until_s=train_until_s, eval_from_s=train_until_s)


def test_live_decisions_equal_a_replay_and_are_derived_again_by_another_process(
    database: Database, tmp_path: Path
):
    made = philly_like(7, days=4, num_pools=4, load=1.0)
    settings = {"requeueable": "0.5", "eps": "0.01", "finish": "1"}
    train_until_s = 2.75 * 86_400.0
    earlier, frame = cut(made.frame, train_until_s, train_until_s + 3 * 3600.0)
    workload = workload_of(frame, made.quotas, train_until_s)
    offline = replay(workload, "anticipatory", settings, seed=3)
    with serving(database.url) as client, working(database.url, tmp_path / "worker.log"):
        begin(client, workload, earlier, "anticipatory", settings, seed=3)
        schedule, remote = live(client, workload, "anticipatory")
        assert schedule.stretches == offline.schedule.stretches
        assert any(stretch.is_guest for stretch in schedule.stretches)
        assert any(stretch.is_lost for stretch in schedule.stretches)
        decided = ok(client.get("/v1/clusters/c1/report"))
        assert decided["ended"] == len(workload.jobs)
    last_seq = remote.last_seq
    with serving(database.url) as client:  # a service that starts again knows nothing but the log
        again = ok(
            client.post("/v1/clusters/c1/decisions", json={"at": instant(schedule.stretches[-1].end_s)})
        )
        assert again["seq"] == last_seq + 1
        assert again["starts"] == []


@pytest.mark.parametrize("policy", ["reclaim", "maxmin", "fcfs"])
def test_policies_of_all_kinds_can_be_asked_live(database: Database, tmp_path: Path, policy: str):
    made = philly_like(6, days=1.5, num_pools=3)
    train_until_s = 86_400.0
    earlier, frame = cut(made.frame, train_until_s, train_until_s + 900.0)
    workload = workload_of(frame, made.quotas, train_until_s)
    settings = {"requeueable": "1"} if policy == "reclaim" else {}
    offline = replay(workload, policy, settings)
    with serving(database.url) as client, working(database.url, tmp_path / "worker.log"):
        begin(client, workload, earlier, policy, settings)
        schedule, _ = live(client, workload, policy)
    assert schedule.stretches == offline.schedule.stretches


class TestPhilly:
    """A stretch of the real trace, accepted by the referee."""

    pytestmark = needs_bench_data

    TRAIN_UNTIL_S = 1_641_600.0
    STRETCH_S = 9 * 3600.0

    def test_live_decisions_on_philly_pools_equal_the_replay_and_the_referee_accepts_them(
        self, tmp_path: Path
    ):
        settings = {"requeueable": "0.3"}
        quotas = read_pools(PHILLY / "pools_load080.csv")
        whole = READERS["csv"](PHILLY / "jobs.csv", quotas).frame
        earlier, frame = cut(whole, self.TRAIN_UNTIL_S, self.TRAIN_UNTIL_S + self.STRETCH_S)
        workload = workload_of(frame, quotas, self.TRAIN_UNTIL_S)
        offline = replay(workload, "anticipatory", settings)
        url = f"sqlite:///{tmp_path / 'antecast.db'}"
        with serving(url) as client, working(url, tmp_path / "worker.log"):
            begin(client, workload, earlier, "anticipatory", settings)
            schedule, remote = live(client, workload, "anticipatory")
        assert remote.decisions > 300
        assert schedule.stretches == offline.schedule.stretches
        frame.drop(columns="start_s").to_csv(tmp_path / "jobs.csv", index=False)
        write_schedule(tmp_path / "schedule.csv", schedule.stretches)
        command = [sys.executable, str(BENCH_ROOT / "referee" / "referee.py")]
        command += ["--jobs", str(tmp_path / "jobs.csv"), "--pools", str(PHILLY / "pools_load080.csv")]
        command += ["--schedule", str(tmp_path / "schedule.csv"), "--no-preemption"]
        command += ["--requeueable", settings["requeueable"]]
        command += ["--sim-from", str(self.TRAIN_UNTIL_S), "--eval-from", str(self.TRAIN_UNTIL_S)]
        judged = subprocess.run(command, capture_output=True, text=True, check=False)
        assert judged.returncode == 0, judged.stdout + judged.stderr
        assert json.loads(judged.stdout)["faults"] == []
