"""Why jobs wait, as a document and as tables; and a reference chosen on the command line."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from app import waiting_tables
from app.cli import EXIT_BROKEN, cli, main
from app.services.compare import Choice, flat, run_all
from app.services.ingest import Source, load
from app.services.waiting import as_document, select
from app.tables import against_reference
from domain.errors import PlanError, SettingError
from domain.jobs import Job
from domain.plans import Plan, Start
from simulator.waiting import Explained
from solver.explain.words import Change, Lever, Waiting, Why
from solver.policies.reclaim import Reclaim

JOBS = """job_id,pool,submit_s,num_gpus,duration_s,requeue_u,priority
j1,a,0,2,100,,
j2,a,10,1,50,0.9,
j3,a,20,2,5,,5
j4,b,20,3,30,,
"""


@pytest.fixture
def inputs(tmp_path):
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "pools.csv").write_text("pool,quota_gpus\na,2\nb,4\n")
    return ["--jobs", str(tmp_path / "jobs.csv"), "--pools", str(tmp_path / "pools.csv")]


def asked(*arguments: object):
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def test_why_says_who_waits_and_what_would_change_it(inputs):
    result = asked("why", *inputs, "--policy", "reclaim", "--set", "requeueable=0.5", "--at", 30)
    assert result.exit_code == 0, result.output
    assert "reclaim at 30 s: 2 jobs run, 1 GPUs are idle, 2 jobs wait (2 not-requeueable)" in result.output
    assert "if it could be sent back" in result.output


def test_why_with_nodes_says_that_idle_gpus_lie_apart(inputs, tmp_path):
    """Own jobs of 2 run on both nodes of 3, so that no node holds the other 2 of pool a."""
    (tmp_path / "jobs.csv").write_text(
        "job_id,pool,submit_s,num_gpus,duration_s,requeue_u\n"
        "j1,b,0,2,100,\nj2,b,0,2,100,\nj3,a,10,2,50,\nj4,a,10,2,5,0.1\n"
    )
    (tmp_path / "nodes.csv").write_text("node,num_gpus\nn1,3\nn2,3\n")
    asks = ["why", *inputs, "--policy", "fcfs", "--at", 20]
    assert "0 jobs wait" not in asked(*asks).output
    result = asked(*asks, "--nodes", tmp_path / "nodes.csv", "--job", "j3")
    assert result.exit_code == 0, result.output
    assert "no-node-fits" in result.output
    assert "does not fit any node although 2 GPUs are idle" in result.output
    assert "by_type: any: 2 idle, widest gang 1" in result.output
    assert "starts at once if 1 more GPUs of node n1 were idle (j1 there)" in result.output


def test_why_tells_one_job_in_full(inputs):
    result = asked("why", *inputs, "--policy", "fcfs", "--at", 30, "--job", "j3", "--clairvoyant")
    assert "job j3 of pool a (2 GPUs) has waited for 10 s: waits-in-own-lane" in result.output
    assert "before_gpus: 1" in result.output


def test_why_prints_one_document(inputs):
    result = asked("why", *inputs, "--policy", "fcfs", "--at", 30, "--json")
    said = json.loads(result.stdout)
    assert (said["waiting"], said["running"], said["idle_gpus"]) == (2, 2, 1)
    assert said["by_reason"] == {"waits-in-own-lane": 2}
    assert [row["job_id"] for row in said["jobs"]] == ["j2", "j3"]


def test_a_job_that_does_not_wait_is_refused(inputs):
    result = asked("why", *inputs, "--policy", "fcfs", "--at", 30, "--job", "j1")
    assert isinstance(result.exception, SettingError)
    assert asked("why", *inputs, "--policy", "fcfs", "--at", -1).exit_code == 2


@pytest.mark.parametrize("at", ["nan", "inf", "-inf"])
def test_an_instant_that_is_none_is_refused(inputs, at):
    result = asked("why", *inputs, "--policy", "fcfs", f"--at={at}")
    assert result.exit_code == 2
    assert f"--at is {at}, must be a finite number of seconds" in " ".join(result.output.split())


WAITS = Waiting(
    Job("j", "a", 0.0, 2),
    Why.HELD_FOR_POOL,
    "held for pool b",
    {"pool": "b", "level": 0.25},
    (Change(Lever.SHORTER_LIFE, 60.0, "starts at once if it were sure to end within 1 min"),),
    100.0,
    float("inf"),
)


def test_words_and_numbers_of_one_job():
    assert waiting_tables.in_full(WAITS, 90.0) == [
        "job j of pool a (2 GPUs) has waited for 1.5 min: held-for-pool",
        "  held for pool b",
        "  pool: b",
        "  level: 0.25",
        "  starts at once if it were sure to end within 1 min",
        "  expected to start in 10 s - ? from now",
    ]
    console = Console(width=120, file=io.StringIO())
    console.print(waiting_tables.overview([WAITS], 90.0))
    assert "if it were sure to end within 1 min" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_document_has_no_infinite_number():
    explained = Explained(90.0, "fcfs", {}, False, 1, 0, (WAITS,))
    (row,) = as_document(explained)["jobs"]
    assert (row["latest_s"], row["changes"][0]["lever"]) == (None, "shorter-life")
    assert list(select(explained, "j")) == [WAITS]


# References and the plan checker on the command line.


def test_a_replay_is_measured_against_another_reference(inputs, tmp_path):
    result = asked(
        "replay", *inputs, "--policy", "fcfs", "--reference", "priority", "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.output
    assert "against priority: " in result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["reference"] == "priority"
    late = report["against_reference"]
    assert (late["slowed_jobs"], late["slowed_max_min"]) == (0, pytest.approx(50 / 60, rel=1e-6))


def test_a_comparison_has_its_own_table_for_it(inputs):
    workload = load(Source(Path(inputs[1]), Path(inputs[3]))).workload
    rows = run_all(workload, [Choice("fcfs", {}, "fcfs")], may_see_truth=True, reference="backfill")
    assert flat(rows[0])["slowed_jobs_vs_reference"] == flat(rows[0])["slowed_jobs_vs_backfill"]
    table = against_reference(rows)
    assert table is not None
    assert str(table.title) == "against backfill"
    assert against_reference([]) is None


def test_an_unknown_reference_is_refused(inputs, tmp_path):
    result = asked("replay", *inputs, "--policy", "fcfs", "--reference", "best", "--out", tmp_path / "out")
    assert isinstance(result.exception, SettingError)
    assert "fcfs, backfill, priority" in str(result.exception)


COMMANDS = {
    "replay": ["--policy", "reclaim", "--out", "{out}"],
    "compare": ["--policies", "fcfs,reclaim", "--out", "{out}"],
    "why": ["--policy", "reclaim", "--at", "100"],
}


@pytest.fixture
def lends_to_the_due(monkeypatch):
    """`reclaim`, which starts as a guest whoever its lane has reached."""

    def decide(self: Reclaim, _now_s: float, _idle_gpus: int) -> Plan:
        self._lanes.advance()
        return Plan(starts=tuple(Start(job, True) for job in self._lanes.due_in_order()))

    def begin() -> None:
        monkeypatch.setattr(Reclaim, "decide", decide)

    return begin


@pytest.mark.parametrize("command", COMMANDS)
def test_plans_are_checked_unless_told_otherwise(command, inputs, tmp_path, lends_to_the_due):
    asks = [command, *inputs, *(part.format(out=tmp_path / "out") for part in COMMANDS[command])]
    assert asked(*asks).exit_code == 0
    lends_to_the_due()
    result = asked(*asks)
    assert isinstance(result.exception, PlanError)
    assert "the plan of reclaim at" in str(result.exception)
    assert "guest-inside-its-lane: job j1 of pool a" in str(result.exception)
    assert not isinstance(asked(*asks, "--no-check-plans").exception, PlanError)


def test_a_broken_plan_ends_the_command_with_the_code_for_it(
    inputs, tmp_path, lends_to_the_due, monkeypatch, capsys
):
    lends_to_the_due()
    command = ["antecast", "replay", *inputs, "--policy", "reclaim", "--out", tmp_path / "out"]
    monkeypatch.setattr("sys.argv", [str(part) for part in command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_BROKEN
    assert "antecast: the plan of reclaim at" in capsys.readouterr().err
