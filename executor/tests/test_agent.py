"""The whole agent, as a process, against a control plane over real HTTP and real jobs on simulated GPUs."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import STUBBORN, AgentProcess, agent_on, is_running, wait_gone
from control_plane import DEADLINE_S, ControlPlane, placement, sealed


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane().running() as running:
        yield running


@pytest.fixture
def agent(plane: ControlPlane, tmp_path: Path) -> Iterator[AgentProcess]:
    with agent_on(plane, tmp_path) as running:
        yield running


def test_enrolls_once_and_keeps_its_secret_to_itself(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.wait("a status", lambda: plane.statuses)
    assert plane.tokens_used == [{"token": "join-me", "node": "node-1", "version": "0.1.0"}]
    path = agent.state / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(agent.state.stat().st_mode) == 0o700
    agent.stop()
    agent.start()
    plane.wait("a second session", lambda: len(plane.sessions) > 1)
    assert len(plane.tokens_used) == 1
    assert not any("s3cret" in json.dumps(line) or "join-me" in json.dumps(line) for line in agent.logs())


def test_introduces_its_gpus_and_what_it_can_do(plane: ControlPlane, agent: AgentProcess) -> None:
    assert len(agent.gpus()) == 2
    can = {item["name"]: item for item in plane.sessions[0]["capabilities"]}
    assert {"launch", "pause", "resume", "stop", "squeeze", "swell"} <= can.keys()
    assert can["squeeze"]["enforcement"] == "advisory"
    assert plane.sessions[0]["placements"] == []


def test_launches_and_reports_the_exit_status(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid = agent.gpus()[0]
    script = "echo $GREETING $ANTECAST_PLACEMENT_ID; exit 7"
    plane.want(placement("a", ["sh", "-c", script], [uuid], env={"GREETING": "good day"}))
    ended = plane.wait_event("placement_ended", "a")
    assert ended["data"] | {"duration_s": 0} == {
        "exit_code": 7,
        "signal": None,
        "reason": "exited",
        "duration_s": 0,
    }
    assert plane.wait_placement("a", state="ended")["exit_code"] == 7
    assert (agent.state / "logs" / "a.log").read_text() == "good day a\n"
    assert plane.kinds("a") == ["placement_started", "placement_ended"]


def test_a_job_sees_exactly_the_gpus_it_was_given(plane: ControlPlane, agent: AgentProcess) -> None:
    first, second = agent.gpus()
    env = {"CUDA_VISIBLE_DEVICES": "all-of-them"}
    plane.want(placement("a", ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"], [second, first], env=env))
    plane.wait_event("placement_ended", "a")
    assert (agent.state / "logs" / "a.log").read_text() == f"{second},{first}\n"


def test_a_command_that_is_not_there_is_refused(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.want(placement("a", ["/no/such/program"], [agent.gpus()[0]]))
    refused = plane.wait_event("placement_refused", "a")
    assert refused["data"]["reason"] == "launch_failed"
    assert plane.wait_condition("a", "launch", "failed")["in_force"] is None
    assert plane.wait_placement("a", state="ended")["exit_code"] is None


def test_what_has_ended_is_not_started_again(plane: ControlPlane, agent: AgentProcess) -> None:
    job = placement("a", ["true"], [agent.gpus()[0]])
    plane.want(job)
    plane.wait_event("placement_ended", "a")
    plane.want()
    plane.wait("a to be forgotten", lambda: not plane.statuses[-1]["placements"])
    plane.want(job, placement("later", ["true"], [agent.gpus()[0]]))
    plane.wait_event("placement_ended", "later")
    assert plane.kinds("a") == ["placement_started", "placement_ended"]


def test_squeeze_and_swell_say_what_is_in_force(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid = agent.gpus()[0]
    job = placement("a", agent.waiter("a"), [uuid])
    plane.want(job)
    launched = plane.wait_condition("a", "launch", "verified")
    assert (launched["in_force"], launched["enforcement"]) == (100.0, "native")

    plane.want(job | {"share_pct": 50.0})
    squeezed = plane.wait_condition("a", "squeeze", "effective")
    # Time slices: advisory, and never called verified. The MPS share of the live client is still 100.
    assert squeezed["enforcement"] == "advisory"
    assert squeezed["requested"] == 50.0
    assert "stays 100 %" in squeezed["reason"]
    assert plane.wait_event("squeezed", "a")["data"]["enforcement"] == "advisory"

    plane.want(job)
    swelled = plane.wait_condition("a", "swell", "verified")
    assert (swelled["in_force"], swelled["enforcement"], swelled["effective_at"]) == (100.0, "native", "now")
    assert plane.wait_condition("a", "squeeze", "superseded")


def test_a_swell_beyond_the_share_it_started_with_waits_for_a_restart(
    plane: ControlPlane, agent: AgentProcess
) -> None:
    job = placement("a", agent.waiter("a"), [agent.gpus()[0]], share_pct=40.0)
    plane.want(job)
    assert plane.wait_condition("a", "launch", "verified")["in_force"] == 40.0
    plane.want(job | {"share_pct": 80.0})
    swelled = plane.wait_condition("a", "swell", "applied")
    assert (swelled["requested"], swelled["in_force"]) == (80.0, 40.0)
    assert swelled["effective_at"] == "next_client"


def test_two_share_a_gpu_after_the_first_was_squeezed(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid = agent.gpus()[0]
    host = placement("host", agent.waiter("host"), [uuid])
    plane.want(host)
    plane.wait_condition("host", "launch", "verified")
    rider = placement("rider", agent.waiter("rider"), [uuid], share_pct=30.0, role="rider", priority=1)
    plane.want(host | {"share_pct": 70.0}, rider)
    plane.wait_condition("host", "squeeze", "effective")
    assert plane.wait_condition("rider", "launch", "verified")["in_force"] == 30.0


def test_pause_and_resume(plane: ControlPlane, agent: AgentProcess) -> None:
    job = placement("a", agent.waiter("a"), [agent.gpus()[0]])
    plane.want(job)
    plane.wait_placement("a", state="running")
    plane.want(job | {"state": "paused"})
    plane.wait_placement("a", state="paused")
    assert plane.wait_condition("a", "pause", "verified")["in_force"] == 1.0
    agent.let_end("a", 0)
    generation = plane.want(job)
    plane.wait_generation(generation)
    plane.wait_event("placement_ended", "a")
    assert plane.kinds("a") == ["placement_started", "paused", "resumed", "placement_ended"]


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(
    plane: ControlPlane, agent: AgentProcess
) -> None:
    mark = agent.folder / "deaf"
    job = placement("a", [sys.executable, "-c", STUBBORN, str(mark)], [agent.gpus()[0]], grace_s=0.3)
    plane.want(job)
    plane.wait_placement("a", state="running")
    plane.wait("the job to be deaf", mark.exists)
    plane.want()
    ended = plane.wait_event("placement_ended", "a")
    assert (ended["data"]["signal"], ended["data"]["reason"]) == (signal.SIGKILL, "stopped")


def test_a_launch_waits_until_its_gpu_is_free(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid, mark = agent.gpus()[0], agent.folder / "deaf"
    first = placement("a", [sys.executable, "-c", STUBBORN, str(mark)], [uuid], grace_s=3600.0)
    plane.want(first)
    plane.wait("the job to be deaf", mark.exists)
    plane.want(placement("b", ["true"], [uuid]))
    plane.wait_placement("a", state="stopping")
    waiting = plane.wait_condition("b", "launch", "accepted")
    assert "not free yet" in waiting["reason"]
    os.kill(int(plane.wait_placement("a")["pid"]), signal.SIGKILL)
    plane.wait_event("placement_ended", "b")
    order = [(event["placement_id"], event["kind"]) for event in plane.events.values()]
    assert order.index(("a", "placement_ended")) < order.index(("b", "placement_started"))


def test_killed_agent_leaves_jobs_alone_and_its_successor_adopts_them(
    plane: ControlPlane, agent: AgentProcess
) -> None:
    first, second = agent.gpus()
    plane.want(placement("a", agent.waiter("a"), [first]), placement("b", agent.waiter("b"), [second]))
    pids = {name: plane.wait_placement(name, state="running")["pid"] for name in ("a", "b")}
    plane.wait_event("placement_started", "a")
    plane.wait_event("placement_started", "b")
    agent.kill()
    assert all(is_running(pid) for pid in pids.values())
    agent.let_end("b", 3)
    wait_gone(pids["b"])

    agent.start()
    assert plane.wait_placement("a", adopted=True, state="running")["pid"] == pids["a"]
    assert plane.wait_event("placement_ended", "b")["data"]["exit_code"] == 3
    assert plane.sessions[-1]["placements"] == ["a", "b"] or plane.sessions[-1]["placements"] == ["a"]
    agent.let_end("a", 5)
    assert plane.wait_event("placement_ended", "a")["data"]["exit_code"] == 5
    assert plane.kinds("a") == ["placement_started", "placement_adopted", "placement_ended"]


def test_a_stopped_agent_leaves_jobs_alone(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.want(placement("a", agent.waiter("a"), [agent.gpus()[0]]))
    pid = plane.wait_placement("a", state="running")["pid"]
    assert agent.stop() == 0
    assert is_running(pid)


def test_a_vanished_supervisor_is_said_to_be_so(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.want(placement("a", agent.waiter("a"), [agent.gpus()[0]]))
    pid = plane.wait_placement("a", state="running")["pid"]
    os.kill(pid, signal.SIGKILL)
    ended = plane.wait_event("placement_ended", "a")
    assert (ended["data"]["exit_code"], ended["data"]["reason"]) == (None, "vanished")


def test_older_generations_are_fenced_off(plane: ControlPlane, agent: AgentProcess) -> None:
    job = placement("a", agent.waiter("a"), [agent.gpus()[0]])
    plane.want(job, epoch=2)
    plane.wait_placement("a", state="running")
    # A control plane of an older epoch, with a larger generation, that wants the job away.
    stale = plane.want(epoch=1)
    report = plane.wait_generation(stale, accepted=False)
    assert [item["reason"] for item in report["refusals"]] == ["stale_generation"]
    assert plane.wait_placement("a", state="running")
    plane.want(job | {"role": "guest"}, epoch=2)
    plane.wait_generation(stale + 1)
    assert plane.kinds("a") == ["placement_started"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"share_pct": 60.0}, "overcommit"),
        ({"memory_mib": 200_000, "share_pct": 40.0}, "overcommit"),
        ({"gpus": ["GPU-00000000-0000-0000-0000-000000000000"]}, "unknown_uuid"),
        ({"argv": []}, "bad_document"),
    ],
)
def test_a_document_is_refused_whole(
    plane: ControlPlane, agent: AgentProcess, change: dict[str, object], reason: str
) -> None:
    first, second = agent.gpus()
    good = placement("good", agent.waiter("good"), [first], share_pct=50.0)
    fine = plane.want(good)
    plane.wait_placement("good", state="running")
    bad = placement("bad", ["true"], [first], share_pct=50.0) | change
    generation = plane.want(good, placement("other", ["true"], [second]), bad)
    report = plane.wait_generation(generation, accepted=False)
    assert reason in {item["reason"] for item in report["refusals"]}
    assert [item["placement_id"] for item in report["placements"]] == ["good"]
    # The next good one is taken.
    plane.want(good, placement("other", ["true"], [second]))
    plane.wait_event("placement_ended", "other")
    assert plane.kinds("bad") == []
    assert fine < generation


def test_a_document_garbled_on_its_way_is_fetched_again(plane: ControlPlane, agent: AgentProcess) -> None:
    job = placement("a", agent.waiter("a"), [agent.gpus()[0]])
    generation = plane.want()
    plane.wait_generation(generation)
    body = dict(plane.document or {}) | {"generation": generation + 1, "placements": [job]}
    plane.publish(body)
    report = plane.wait_generation(generation + 1, accepted=False)
    assert report["refusals"][0]["reason"] == "bad_hash"
    plane.publish(sealed(body))
    plane.wait_placement("a", state="running")


def test_a_lost_gpu_is_reported_and_takes_nothing_new(plane: ControlPlane, agent: AgentProcess) -> None:
    first, second = agent.gpus()
    job = placement("a", agent.waiter("a"), [first])
    plane.want(job)
    plane.wait_placement("a", state="running")
    agent.lose_gpu(second)
    assert plane.wait_event("device_lost")["data"]["uuid"] == second
    refused = plane.want(job, placement("b", agent.waiter("b"), [second]))
    plane.wait_generation(refused, accepted=False)
    agent.lose_gpu(second, is_lost=False)
    # Nobody has to publish again: what was refused for the GPU's sake is weighed again.
    plane.wait_placement("b", state="running")
    assert plane.wait_event("device_back")["data"]["uuid"] == second
    assert plane.wait_generation(refused)["refusals"] == []


def test_a_control_plane_that_is_away_changes_nothing(plane: ControlPlane, agent: AgentProcess) -> None:
    first, second = agent.gpus()
    plane.want(placement("a", agent.waiter("a"), [first]), placement("b", agent.waiter("b"), [second]))
    pid = plane.wait_placement("a", state="running")["pid"]
    short = plane.wait_placement("b", state="running")["pid"]
    plane.down()
    agent.let_end("b", 4)
    wait_gone(short)
    assert is_running(pid)
    plane.up()
    assert plane.wait_event("placement_ended", "b")["data"]["exit_code"] == 4
    assert plane.wait_placement("a", state="running")["pid"] == pid
    assert plane.kinds("b") == ["placement_started", "placement_ended"]


def test_what_is_to_be_paused_or_stopped_without_control_plane_is(
    plane: ControlPlane, agent: AgentProcess
) -> None:
    first, second = agent.gpus()
    rest = placement("rest", agent.waiter("rest"), [first], on_disconnect="pause")
    leave = placement("leave", agent.waiter("leave"), [second], on_disconnect="stop")
    plane.want(rest, leave, valid_for_s=1.0)
    plane.wait_placement("rest", state="running")
    pid = plane.wait_placement("leave", state="running")["pid"]
    plane.down()
    wait_gone(pid)
    plane.up()
    assert plane.wait_event("placement_ended", "leave")["data"]["reason"] == "stopped"
    plane.wait_event("paused", "rest")
    # Contact again: what is wanted is that it runs.
    plane.wait_event("resumed", "rest")


def test_events_arrive_exactly_once_whatever_is_cut(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid = agent.gpus()[0]
    plane.cut("events", 2)
    plane.cut("status", 1)
    plane.cut("desired", 1)
    plane.want(placement("a", ["true"], [uuid]))
    plane.wait_event("placement_ended", "a")
    plane.want(placement("b", ["false"], [uuid]))
    plane.wait_event("placement_ended", "b")
    # A status comes after the outbox has been emptied.
    seen = len(plane.statuses)
    plane.wait("more statuses", lambda: len(plane.statuses) > seen + 1)
    command = [sys.executable, "-m", "antecast_executor", "status", "--state", str(agent.state)]
    journal = subprocess.run(command, capture_output=True, check=True, timeout=DEADLINE_S)
    sent = Counter(event["event_id"] for item in plane.deliveries for event in item["events"])
    assert len(sent) == 4
    assert 1 < max(sent.values()) <= 3, "again after each cut, and never otherwise"
    assert json.loads(journal.stdout)["events_to_deliver"] == 0
    assert plane.kinds("a") == ["placement_started", "placement_ended"]
    assert plane.kinds("b") == ["placement_started", "placement_ended"]
    assert json.loads(journal.stdout)["generation"] == 2


def test_a_stale_session_is_replaced(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.wait("a status", lambda: plane.statuses)
    plane.expire_session()
    plane.wait("another session", lambda: len(plane.sessions) > 1)
    plane.want(placement("a", ["true"], [agent.gpus()[0]]))
    plane.wait_event("placement_ended", "a")
    assert "StaleSession" in agent.log.read_text()


def test_a_revoked_secret_stops_nothing(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.want(placement("a", agent.waiter("a"), [agent.gpus()[0]]))
    pid = plane.wait_placement("a", state="running")["pid"]
    with plane.changed:
        plane.refuse_secret = True
    plane.expire_session()
    plane.wait("the agent to notice", lambda: "does not accept this executor" in agent.log.read_text())
    assert is_running(pid)


def test_dry_run_prints_and_does_nothing(plane: ControlPlane, agent: AgentProcess) -> None:
    uuid = agent.gpus()[0]
    generation = plane.want()
    plane.wait_generation(generation)
    agent.stop()
    env = {"PASSWORD": "hunter2"}
    plane.want(placement("a", agent.waiter("a"), [uuid], env=env))
    journal = (agent.state / "journal.sqlite").read_bytes()
    done = subprocess.run(agent.command("--dry-run"), capture_output=True, check=True, timeout=DEADLINE_S)
    line = json.loads(done.stdout)
    assert (line["action"], line["placement_id"], line["gpus"]) == ("launch", "a", [uuid])
    assert line["argv"] == agent.waiter("a")
    assert b"hunter2" not in done.stdout + done.stderr
    assert (agent.state / "journal.sqlite").read_bytes() == journal
    assert not (agent.state / "placements" / "a").exists()


def test_a_second_executor_on_the_same_state_gives_way(plane: ControlPlane, agent: AgentProcess) -> None:
    plane.wait("a status", lambda: plane.statuses)
    done = subprocess.run(agent.command(), capture_output=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 2
    assert b"another executor runs" in done.stderr
