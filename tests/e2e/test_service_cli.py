"""The service's commands as its users meet them: one real service with a real worker, asked over HTTP."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from run_support.processes import is_alive, until

JOBS = "job_id,pool,submit_s,num_gpus,duration_s\n" + "".join(
    f"j{k},vision,{k * 600},1,{1200 if k % 2 else 300}\n" for k in range(200)
)


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen
    url: str
    folder: Path


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    env = {**os.environ, "ANTECAST_DATABASE_URL": f"sqlite:///{folder}/antecast.db", "ANTECAST_AUTH": "off"}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--port", "0"], env=env, stderr=log
        ) as process,
    ):
        try:
            found = until(lambda: re.search(r"running on (http://\S+)", (folder / "log").read_text()))
            yield Running(process, found[1], folder)
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
def ask(antecast, service, monkeypatch):
    monkeypatch.setenv("ANTECAST_URL", service.url)
    monkeypatch.delenv("ANTECAST_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(service.folder))
    return antecast


@pytest.fixture
def cluster(ask, service, request):
    """A cluster of this test's own, with pools."""
    name = re.sub("[^a-z0-9-]", "-", request.node.name.lower())[:63]
    made = ask("cluster", "create", name, "--policy", "fcfs")
    assert made.code == 0, made.err
    assert json.loads(made.out)["policy"] == "fcfs"
    file = service.folder / "inventory.json"
    pools = [{"name": "vision", "quota_gpus": 1}, {"name": "speech", "quota_gpus": 3}]
    file.write_text(json.dumps({"pools": pools}))
    put = ask("cluster", "inventory", name, file)
    assert put.code == 0, put.err
    assert json.loads(put.out)["capacity_gpus"] == 4
    return name


def import_jobs(ask, service, cluster):
    (service.folder / "jobs.csv").write_text(JOBS)
    result = ask("upload", service.folder / "jobs.csv", "--cluster", cluster, "--origin", "2026-01-05")
    assert result.code == 0, result.err
    assert "200 jobs imported, 0 rows left out" in result.out


def test_a_what_if_is_asked_and_answered(ask, service, cluster):
    import_jobs(ask, service, cluster)
    quotas = ["--quota", "vision=2", "--quota", "speech=2"]
    result = ask("ask", "--cluster", cluster, *quotas, "--days", "30", "--json")
    assert result.code == 0, result.err
    answer = json.loads(result.out)
    assert answer["window"]["jobs"] == 200
    assert answer["changed"]["mean_queue_delay_s"] < answer["baseline"]["mean_queue_delay_s"]
    assert answer["difference"]["mean_jct_s"] < 0
    shown = ask("ask", "--cluster", cluster, *quotas, "--days", "30")
    assert shown.code == 0, shown.err
    assert "mean wait, h" in shown.out
    assert "vision" in shown.out


def test_a_what_if_of_the_service_says_what_one_over_files_does(ask, service, cluster):
    import_jobs(ask, service, cluster)
    (service.folder / "pools.csv").write_text("pool,quota_gpus\nvision,1\nspeech,3\n")
    flags = ["--quota", "vision=+1", "--days", "3", "--json"]
    files = ["--jobs", service.folder / "jobs.csv", "--pools", service.folder / "pools.csv"]
    answers = []
    for whose in (["--cluster", cluster], [*files, "--base-policy", "fcfs"]):
        result = ask("what-if", *whose, *flags)
        assert result.code == 0, result.err
        answers.append(json.loads(result.out))
    assert answers[0]["difference"]["mean_queue_delay_s"] < 0
    assert answers[0]["difference"] == pytest.approx(answers[1]["difference"], rel=1e-6)  # clocks differ


def test_a_plan_is_made_and_printed(ask, cluster):
    result = ask("plan", "--cluster", cluster)
    assert result.code == 0, result.err
    assert "nothing to do" in result.out
    made = json.loads(ask("plan", "--cluster", cluster, "--json").out)
    assert (made["number"], made["starts"]) == (2, [])


def test_plans_can_be_made_again_and_again(ask, cluster):
    assert "every 300 s" in ask("replan", "--cluster", cluster, "--every", "5m").out
    assert json.loads(ask("cluster", "show", cluster).out)["replan_every_s"] == 300
    assert "only when asked for" in ask("replan", "--cluster", cluster, "--never").out
    assert json.loads(ask("cluster", "show", cluster).out)["replan_every_s"] is None
    assert re.search(r"run run-\w+ is queued", ask("replan", "--cluster", cluster, "--once").out)
    assert ask("replan", "--cluster", cluster, "--once", "--every", "5m").code == 2
    assert re.search(r"run run-\w+ is succeeded", ask("replan", "--cluster", cluster, "--once", "--wait").out)
    assert ask("replan", "--cluster", cluster, "--never", "--wait").code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask", "--cluster", "nix", "--quota", "vision=1"], "there is no cluster 'nix'"),
        (["ask", "--cluster", "nix", "--quota", "vision"], "KEY=VALUE"),
        (["ask", "--cluster", "nix", "--quota", "vision=x"], "a number of GPUs"),
        (["replan", "--cluster", "nix", "--every", "soon"], "no span of time"),
        (["cluster", "show", "nix", "--url", "http://127.0.0.1:1"], "cannot be reached"),
        (["cluster", "show", "nix", "--key-file", "/nowhere/key"], "there is no key file"),
    ],
)
def test_what_goes_wrong_is_said_clearly(ask, arguments, words):
    result = ask(*arguments)
    assert result.code == 2
    assert words in result.err
    assert "Traceback" not in result.err


def test_a_what_if_beyond_the_capacity_is_a_clear_error(ask, cluster):
    result = ask("ask", "--cluster", cluster, "--quota", "vision=2")
    assert result.code == 2
    assert "quotas add up to 5 GPUs, the cluster has 4" in result.err


def test_a_file_that_breaks_rules_is_refused_with_its_first_fault(ask, service, cluster):
    (service.folder / "bad.csv").write_text(JOBS + "bad,vision,0,0,1\n")
    result = ask("upload", service.folder / "bad.csv", "--cluster", cluster)
    assert result.code == 2
    assert "1 faults and was refused" in result.err


def test_a_key_file_that_others_may_read_is_refused(ask, service):
    key = service.folder / "key"
    key.write_text("ak_x")
    key.chmod(0o644)
    result = ask("cluster", "show", "nix", "--key-file", key)
    assert result.code == 2
    assert "chmod 600" in result.err
    key.chmod(0o600)
    assert "no cluster" in ask("cluster", "show", "nix", "--key-file", key).err


def test_keys_and_join_tokens_are_printed_once(antecast, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTECAST_DATABASE_URL", f"sqlite:///{tmp_path}/keys.db")
    made = antecast("key", "create", "me", "--scope", "read", "--scope", "plan")
    assert re.fullmatch(r"ak_[0-9a-f]{16}_[0-9a-f]{64}\n", made.out)
    assert antecast("key", "create", "me", "--scope", "everything").code == 2
    url = f"sqlite:///{tmp_path}/keys.db"
    assert antecast("migrate").code == 0
    assert antecast("join-token", "nix", "n1", "--database-url", url).code == 2


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_worker_and_api_come_and_go_together(tmp_path, number):
    env = {**os.environ, "ANTECAST_DATABASE_URL": f"sqlite:///{tmp_path}/antecast.db"}
    command = [sys.executable, "-m", "app", "serve", "--port", "0"]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, env=env, stderr=log) as process:
        try:
            text = (tmp_path / "log").read_text
            until(lambda: "running on" in text() and text().count("worker is ready") == 1, "both")
            first = children_of(process.pid)
            assert len(first) == 2
            if number == signal.SIGTERM:
                os.kill(first[1], signal.SIGKILL)
                until(lambda: text().count("worker is ready") == 2, "a new worker")
                assert children_of(process.pid)[0] == first[0]
            last = children_of(process.pid)
            process.send_signal(number)
            assert process.wait(60) in (0, -signal.SIGKILL)
            until(lambda: not any(map(is_alive, [*first, *last])), "the end of all")
        finally:
            process.kill()


def test_importing_the_command_line_loads_nothing_slow():
    program = "import app.cli, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {
        "numpy",
        "pandas",
        "scipy",
        "lightgbm",
        "matplotlib",
        "dbos",
        "fastapi",
        "sqlalchemy",
    }


def test_a_refused_file_is_explained_fault_by_fault(ask, service, cluster):
    file = service.folder / "bad.csv"
    file.write_text("job_id,pool,submit_s,num_gpus,duration_s\na,vision,0,1,-5\nb,vision,5,x,1\n")
    result = ask("upload", file, "--cluster", cluster)
    assert result.code == 2
    assert "line 2: negative-duration: " in result.err
    assert "line 3: " in result.err
    assert "was refused" in result.err


def test_an_export_of_the_scheduler_is_uploaded_as_it_is(ask, service, cluster):
    (service.folder / "jan.txt").write_text(
        "JobIDRaw|User|Partition|Submit|Start|End|State|AllocTRES\n"
        "1|ada|vision|2026-01-05T02:00:00|2026-01-05T02:01:00|2026-01-05T03:01:00|COMPLETED|gres/gpu=1\n"
        "2|bob|speech|2026-01-05T02:00:00|Unknown|Unknown|PENDING|\n"
    )
    file = service.folder / "jan.txt"
    result = ask("upload", file, "--cluster", cluster, "--format", "auto", "--tz", "UTC")
    assert result.code == 0, result.err
    assert "1 jobs imported, 1 rows left out" in result.out
    assert "left-out: 1 jobs: still waiting" in result.err
    refused = ask("upload", file, "--cluster", cluster, "--format", "auto")
    assert refused.code == 2
    assert "no-time-zone" in refused.err


def test_jobs_that_end_after_now_are_pointed_out(ask, service, cluster):
    (service.folder / "late.csv").write_text("job_id,pool,submit_s,num_gpus,duration_s\na,vision,0,1,1e9\n")
    result = ask("upload", service.folder / "late.csv", "--cluster", cluster, "--json")
    assert result.code == 0
    assert "is `origin`, the instant of the file's second 0, right?" in result.err
    assert json.loads(result.out)["num_jobs"] == 1


def test_a_port_that_is_taken_ends_the_service(service):
    port = service.url.rpartition(":")[2]
    command = [sys.executable, "-m", "app", "serve", "--no-worker", "--port", port]
    env = {**os.environ, "ANTECAST_DATABASE_URL": f"sqlite:///{service.folder}/second.db"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "address already in use" in ended.stderr


@pytest.mark.parametrize(
    ("command", "url", "words"),
    [
        (("join-token", "nix", "node-1"), "sqlite:///{folder}/new.db", "there is no cluster 'nix'"),
        (("migrate",), "postgresql://nobody@127.0.0.1:1/nix", "the database cannot be used"),
        (("migrate",), "sqlite:////proc/nix.db", "the database cannot be used"),
    ],
)
def test_a_database_that_is_new_or_away_is_no_surprise(antecast, tmp_path, command, url, words):
    result = antecast(*command, "--database-url", url.format(folder=tmp_path))
    assert result.code == 2
    assert words in result.err
    assert "Traceback" not in result.err


def test_from_a_look_to_reviewed_plans_and_back(ask, service):
    """A cluster begins as one that is looked on; then its plans are approved; then lending stops."""

    def done(*words, code=0):
        result = ask(*words)
        assert result.code == code, (words, result.out, result.err)
        return result.err if code else result.out

    def told(*words):
        return json.loads(done(*words, "--json"))

    file = service.folder / "two-pools.json"
    file.write_text(json.dumps({"pools": [{"name": name, "quota_gpus": 2} for name in ("a", "b")]}))
    done("cluster", "create", "looked-on", "--policy", "reclaim", "--mode", "observe")
    done("cluster", "inventory", "looked-on", file)
    of = ("--cluster", "looked-on")
    assert "mode observe, lends nothing" in done("mode", "looked-on")
    day = told("observations", *of, "--day", "2026-01-06")["items"][0]
    assert (day["day"], day["report"]["jobs"]) == ("2026-01-06", 0)

    assert "must be one of" in done("mode", "looked-on", "boldly", code=2)
    assert told("mode", "looked-on", "enforce", "--approval", "required")["approval"] == "required"
    job = {"pool": "a", "num_gpus": 1, "is_requeueable": True}
    events = [{"kind": "submitted", "job_id": f"j{k}", "job": job} for k in range(3)]
    posted = httpx.post(f"{service.url}/v1/clusters/looked-on/events", json={"events": events})
    assert posted.json()["accepted"] == 3
    draft = told("plan", *of)
    assert [one["is_guest"] for one in draft["starts"]] == [False, False, True]
    name = draft["plan_id"]
    assert re.search(rf"1\s+{name}.*draft\s+3", done("plans", *of))
    assert "churn 0 %" in done("plan", "diff", "latest", *of, "--to", name)
    assert "look again" in done("plan", "approve", name, *of, "--version", 9, code=2)
    assert "approved, version 2, reviewed by local" in done("plan", "approve", name, *of)
    assert "lends nothing" in done("stop-lending", "looked-on")
    assert "superseded" in done("plan", "show", name, *of)
    assert "nothing is proposed" in done("actions", *of)
