"""Whatever a placement forked, and whoever its executor is: it is found, held and ended."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from process_rig import DAEMON, STEPS, Rig

from antecast_executor import processes
from antecast_executor.interfaces import DeviceError, Enforcement, ProcessId
from antecast_executor.processes import procfs

# Whatever it forked


def test_a_daemon_it_left_is_one_of_its_processes_and_is_killed(rig: Rig) -> None:
    process = rig.python(f"{DAEMON}\nimport signal\nsignal.pause()", rig.root / "steps-p", STEPS)
    rig.moves()
    assert len(rig.backend.pids("p", process)) == 2
    rig.steps("clock")
    assert rig.backend.pause("p", process).in_force == 1
    stood_at = rig.count()
    rig.moves("clock", 50)
    assert rig.count() == stood_at
    rig.backend.kill("p", process)
    assert list(rig.backend.pids("p", process)) == []
    stood_at = rig.count()
    rig.moves("clock", 50)
    assert rig.count() == stood_at


def test_nothing_outlives_the_command(rig: Rig) -> None:
    process = rig.python(f"{DAEMON}\nimport sys\nsys.exit(5)", rig.root / "steps-p", STEPS)
    assert rig.ends(process).exit_code == 5
    assert list(rig.backend.pids("p", process)) == []


def test_signals_to_the_supervisor_do_not_lose_the_exit(rig: Rig) -> None:
    process = rig.steps()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        os.kill(process.pid, number)
    rig.moves()
    os.kill(rig.backend.pids("p", process)[0], signal.SIGUSR2)
    assert rig.ends(process).signal == signal.SIGUSR2


def test_a_command_that_kills_its_process_group_does_not_reach_the_supervisor(rig: Rig) -> None:
    process = rig.launch(["sh", "-c", "kill -KILL 0"])
    assert rig.ends(process).signal == signal.SIGKILL


def test_without_its_supervisor_a_command_is_found_and_ended(rig: Rig) -> None:
    process = rig.steps()
    os.kill(process.pid, signal.SIGKILL)
    rig.eventually(lambda: not rig.backend.is_alive(process), "end of the supervisor")
    assert len(rig.backend.pids("p", process)) == 1
    assert rig.backend.exit_of("p", process) is None
    assert rig.backend.pause("p", process).in_force is None
    rig.backend.kill("p", process)
    exit_ = rig.ends(process)
    assert (exit_.is_known, exit_.exit_code, exit_.signal) == (False, None, None)


def test_a_supervisor_that_does_not_answer_does_not_save_its_command(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecast_executor.processes.backend._ANSWER_WAIT_S", 0.2)
    monkeypatch.setattr("antecast_executor.processes.backend._SUPERVISOR_WAIT_S", 0.2)
    process = rig.steps()
    assert rig.backend.pause("p", process).in_force == 1
    os.kill(process.pid, signal.SIGSTOP)
    answer = rig.backend.resume("p", process)
    assert answer.in_force is None
    assert answer.reason.startswith("no_answer")
    rig.backend.kill("p", process)
    rig.eventually(lambda: not rig.backend.is_alive(process), "end of the supervisor")
    assert list(rig.backend.pids("p", process)) == []


# Identity and adoption


def test_another_process_under_its_number_is_not_it(rig: Rig) -> None:
    process = rig.steps()
    for other in (
        ProcessId(process.pid, process.start_ticks + 1, process.boot_id),
        ProcessId(process.pid, process.start_ticks, "another boot"),
    ):
        assert not rig.backend.is_alive(other)
        assert list(rig.backend.pids("p", other)) == []
        assert rig.backend.pause("p", other).in_force is None
        rig.backend.terminate("p", other)
        rig.backend.kill("p", other)
        exit_ = rig.backend.exit_of("p", other)
        assert exit_ is not None
        assert not exit_.is_known
    rig.moves()


def test_a_placement_nobody_started_is_not_found(rig: Rig) -> None:
    assert rig.backend.find("p") is None


def test_the_executors_death_changes_nothing_and_the_next_one_adopts(
    rig: Rig, dead_executor: Callable[..., ProcessId]
) -> None:
    process = dead_executor()
    rig.moves()
    backend = rig.again()
    assert backend.find("p") == process
    assert backend.is_alive(process)
    assert len(backend.pids("p", process)) == 1
    assert backend.pause("p", process).in_force == 1
    assert backend.resume("p", process).in_force == 0
    rig.moves()
    backend.terminate("p", process)
    assert rig.eventually(lambda: backend.exit_of("p", process), "its end").signal == signal.SIGTERM


def test_how_it_ended_is_learnt_though_no_executor_saw_it(
    rig: Rig, dead_executor: Callable[..., ProcessId]
) -> None:
    process = dead_executor()
    os.kill(rig.backend.pids("p", process)[0], signal.SIGUSR2)
    assert rig.ends(process).signal == signal.SIGUSR2
    assert rig.again().exit_of("p", process) == rig.backend.exit_of("p", process)


def test_a_pause_outlasts_an_executor_that_comes_back(
    rig: Rig, dead_executor: Callable[..., ProcessId]
) -> None:
    process = dead_executor(["pause"])
    backend = rig.again()
    rig.steps("clock")
    stood_at = rig.count()
    rig.moves("clock", 100)
    assert rig.count() == stood_at
    assert backend.resume("p", process).in_force == 0
    rig.moves()


def test_a_pause_ends_if_no_executor_comes_back_and_returns_with_it(
    rig: Rig, dead_executor: Callable[..., ProcessId]
) -> None:
    process = dead_executor(["pause"], ttl=0.1)
    state = rig.root / "run" / "p" / "state.json"
    # This test's own process called itself the executor before the other one did.
    rig.eventually(lambda: json.loads(state.read_text())["is_let_go"], "end of the pause")
    rig.moves()
    backend = rig.again()
    rig.eventually(lambda: json.loads(state.read_text())["is_frozen"], "return of the pause")
    assert backend.resume("p", process).in_force == 0
    rig.moves()


def test_a_throttle_goes_on_without_the_executor(rig: Rig, dead_executor: Callable[..., ProcessId]) -> None:
    dead_executor(["throttle", 30.0])
    rig.steps("clock")
    slow_from, clock_from = rig.count(), rig.count("clock")
    rig.moves("clock", 400)
    assert 0.1 < (rig.count() - slow_from) / (rig.count("clock") - clock_from) < 0.65


# Afterwards


def test_what_runs_is_not_forgotten(rig: Rig) -> None:
    process = rig.steps()
    with pytest.raises(DeviceError) as caught:
        rig.backend.forget("p", process)
    assert caught.value.code == "still_alive"
    rig.moves()


def test_a_forgotten_placement_leaves_nothing(rig: Rig) -> None:
    process = rig.steps()
    rig.backend.kill("p", process)
    rig.ends(process)
    rig.backend.forget("p", process)
    del rig.started["p"]
    assert [path.name for path in (rig.root / "run").iterdir()] == ["executor.json"]
    if rig.backend._base is not None:
        assert not (rig.backend._base / "p").exists()
    rig.backend.forget("p", process)
    assert rig.backend.find("p") is None


def test_the_means_are_named(rig: Rig) -> None:
    found = {item.name: item for item in rig.backend.capabilities()}
    assert set(found) == {"launch", "pause", "resume", "stop", "throttle"}
    assert all(item.supported and item.reason for item in found.values())
    assert found["throttle"].enforcement is Enforcement.ADVISORY


def test_unknown_means_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError) as caught:
        processes.make(tmp_path, "magic")
    assert caught.value.code == "unsupported"


def test_a_command_name_cannot_disguise_a_process(rig: Rig) -> None:
    """Brackets and blanks in a name must not shift the fields that identify it."""
    script = "import signal\nopen('/proc/self/comm', 'w').write(') S 1 1 (')\nsignal.pause()"
    process = rig.python(script)
    [pid] = rig.eventually(lambda: rig.backend.pids("p", process), "its process")
    rig.eventually(lambda: ") S" in procfs.read_text(f"/proc/{pid}/comm"), "its name")
    found = procfs.stat(pid)
    assert found is not None
    assert found.parent == process.pid
