"""`antecast forecast` and `antecast why`: the same document from files and from a service."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from live import ORIGIN, instant, make_cluster, ok, serving
from service import HandClock
from typer.testing import CliRunner

from app.cli import cli
from app.store import history
from app.store.engine import make_engine, transaction
from app.store.history import JOB_COLUMNS
from app.store.tables import HistoryImportRow

DAYS = 10
AT_S = DAYS * 86_400.0
KINDS = (("quick", 60.0), ("slow", 6000.0))
PAST = [
    {"job_id": f"p{k}", "pool": "a", "submit_s": 1200.0 * k, "num_gpus": 1, "duration_s": life_s + k % 7}
    | {"user": user, "name": "n"}
    for k, (user, life_s) in ((k, KINDS[k % 2]) for k in range(72 * DAYS))
]
POOLS = "pool,quota_gpus\na,4\nb,4\n"
ASKED = {
    "jobs": [
        {"job": {"pool": "a", "num_gpus": 1, "user": "slow", "name": "n"}, "elapsed_s": 600.0},
        {"job": {"pool": "b", "num_gpus": 2}},
        {"job_id": "nobody"},
    ],
    "levels": [0.1, 0.5, 0.9],
    "within_s": [60.0, 3600.0],
}


def asked(*arguments: object) -> Any:
    result = CliRunner().invoke(cli, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def whole(*arguments: object) -> Any:
    return json.loads(asked(*arguments, "--json"))


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    rows = [",".join(PAST[0])] + [",".join(map(str, row.values())) for row in PAST]
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "pools.csv").write_text(POOLS)
    (tmp_path / "asked.json").write_text(json.dumps(ASKED))
    return ["--jobs", tmp_path / "jobs.csv", "--pools", tmp_path / "pools.csv"]


def test_forecasts_of_files_and_of_a_service_are_one_document(
    sqlite_template: Path, tmp_path: Path, files: list[object]
):
    path = tmp_path / "antecast.db"
    path.write_bytes(sqlite_template.read_bytes())
    clock = HandClock(ORIGIN + timedelta(seconds=AT_S))
    with serving(f"sqlite:///{path}", clock=clock) as client:
        make_cluster(
            client,
            {"a": 4, "b": 4},
            enforced_by="scheduler",
            policy="anticipatory",
            settings={"lives": "learned"},
        )
        engine = make_engine(f"sqlite:///{path}")
        with transaction(engine) as session:
            row = HistoryImportRow(import_id="i", cluster="c1", file_format="csv", created_at=clock.now())
            history.add(session, row)
            history.add_jobs(session, "c1", "i", [dict.fromkeys(JOB_COLUMNS) | row for row in PAST])
        engine.dispose()
        ok(client.post("/v1/clusters/c1/epochs", json={"as_of": instant(AT_S)}))
        there = ["--url", client.base_url, "--cluster", "c1"]
        here = [*files, "--at", AT_S, "--lives", "learned"]
        lifetime, demand = (
            ["forecast", "lifetime", tmp_path / "asked.json"],
            ["forecast", "demand", "--pool", "a"],
        )
        assert whole(*lifetime, *there) == whole(*lifetime, *here)
        assert whole(*demand, *there) == whole(*demand, *here)
        table = asked(*lifetime, *there)
        assert table == asked(*lifetime, *here)
        assert "no live job of that id waits or runs" in table
        assert "beats quantiles of the last lives" in " ".join(table.split())
        assert asked(*demand, *there, "--horizon", "2h") == asked(*demand, *here, "--horizon", "2h")


def test_why_jobs_wait_in_a_replay_and_in_a_service_is_one_document(sqlite_template: Path, tmp_path: Path):
    (tmp_path / "jobs.csv").write_text(
        "job_id,pool,submit_s,num_gpus,duration_s\nj1,a,0,2,100\nj2,a,10,1,50\nj3,a,20,2,5\nj4,b,20,3,30\n"
    )
    (tmp_path / "pools.csv").write_text("pool,quota_gpus\na,2\nb,4\n")
    path = tmp_path / "antecast.db"
    path.write_bytes(sqlite_template.read_bytes())
    clock = HandClock(ORIGIN)
    with serving(f"sqlite:///{path}", clock=clock) as client:
        make_cluster(client, {"a": 2, "b": 4}, enforced_by="scheduler", policy="fcfs")
        clock.wait(30.0)
        come = {0: [("j1", "a", 2)], 10: [("j2", "a", 1)], 20: [("j3", "a", 2), ("j4", "b", 3)], 30: []}
        events: list[dict[str, Any]] = []
        for at_s, jobs in come.items():
            events += [
                {
                    "kind": "submitted",
                    "job_id": name,
                    "at": instant(at_s),
                    "job": {"pool": pool, "num_gpus": width},
                }
                for name, pool, width in jobs
            ]
            body = {"events": events, "at": instant(at_s)}
            starts = ok(client.post("/v1/clusters/c1/decisions", json=body))["starts"]
            events = [
                {"kind": "started", "job_id": one["job_id"], "at": instant(at_s), "is_guest": False}
                for one in starts
            ]
        there = ["why", "--url", client.base_url, "--cluster", "c1"]
        here = ["why", "--jobs", tmp_path / "jobs.csv", "--pools", tmp_path / "pools.csv", "--policy", "fcfs"]
        here += ["--at", 30]
        live, replayed = whole(*there), whole(*here)
        assert live["jobs"] == replayed["jobs"]
        assert live == replayed
        assert asked(*there, "--job", "j3") == asked(*here, "--job", "j3")
        assert asked(*there) == asked(*here)


@pytest.mark.parametrize(
    "arguments",
    [
        ("forecast", "demand"),
        ("forecast", "demand", "--url", "http://127.0.0.1:1", "--cluster", "c", "--at", "5"),
        ("forecast", "demand", "--url", "http://127.0.0.1:1"),
        ("why", "--url", "http://127.0.0.1:1"),
        ("why", "--at", "5"),
    ],
)
def test_files_and_a_service_are_not_mixed(arguments: tuple[str, ...]):
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "--cluster" in result.output
