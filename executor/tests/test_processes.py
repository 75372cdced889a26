"""Process trees are started, held and ended: on each means that this machine allows."""

import signal

import pytest
from process_rig import ASKED, FORKS, STEPS, Rig

from antecast_executor.interfaces import DeviceError, EffectiveAt, Enforcement

# Start and end


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_is_the_commands(rig: Rig, code: int) -> None:
    process = rig.launch(["sh", "-c", f"exit {code}"])
    exit_ = rig.ends(process)
    assert (exit_.exit_code, exit_.signal, exit_.is_known) == (code, None, True)
    rig.eventually(lambda: not rig.backend.is_alive(process), "end of the supervisor")
    assert list(rig.backend.pids("p", process)) == []


def test_a_signal_that_ended_it_is_named(rig: Rig) -> None:
    process = rig.launch(["sh", "-c", "kill -USR2 $$"])
    exit_ = rig.ends(process)
    assert (exit_.exit_code, exit_.signal) == (None, signal.SIGUSR2)


def test_while_it_runs_there_is_no_exit(rig: Rig) -> None:
    process = rig.steps()
    assert rig.backend.is_alive(process)
    assert rig.backend.exit_of("p", process) is None
    assert process.pid not in rig.backend.pids("p", process)
    assert len(rig.backend.pids("p", process)) == 1


def test_it_gets_its_environment_and_no_other(rig: Rig) -> None:
    process = rig.launch(["env"], env={"A": "1", "HOME": "/somewhere"})
    rig.ends(process)
    lines = rig.log.read_text().splitlines()
    assert {"A=1", "HOME=/somewhere"} <= set(lines)
    assert {line.partition("=")[0] for line in lines} <= {"A", "HOME", "PATH", "LANG"}


def test_output_and_errors_are_appended_to_the_log(rig: Rig) -> None:
    rig.log.write_text("before\n")
    rig.ends(rig.launch(["sh", "-c", "pwd; echo wrong >&2"], cwd=rig.root))
    assert rig.log.read_text() == f"before\n{rig.root}\nwrong\n"


def test_signals_have_their_usual_meaning_for_the_command(rig: Rig) -> None:
    rig.ends(rig.launch(["sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"]))
    known = sum(1 << (number - 1) for number in signal.valid_signals())
    masks = [int(line.split()[1], 16) & known for line in rig.log.read_text().splitlines()]
    assert masks == [0, 0]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["/no/such/program"], "No such file"),
        (["/etc/passwd"], "Permission denied"),
        ([""], "cannot be empty"),
        ([], "index"),
    ],
)
def test_a_command_that_cannot_start_is_an_error_and_leaves_nothing(
    rig: Rig, argv: list[str], text: str
) -> None:
    with pytest.raises(DeviceError, match=text) as caught:
        rig.launch(argv)
    assert caught.value.code == "launch_failed"
    assert rig.backend.find("p") is None
    assert [path.name for path in (rig.root / "run").iterdir()] == ["executor.json"]
    if rig.backend._base is not None:
        assert not (rig.backend._base / "p").exists()


def test_a_folder_that_is_not_there_is_an_error(rig: Rig) -> None:
    with pytest.raises(DeviceError, match="no-such-folder"):
        rig.launch(["true"], cwd=rig.root / "no-such-folder")


def test_a_launch_that_is_given_up_leaves_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("antecast_executor.processes.launching._LAUNCH_WAIT_S", 0.0)
        with pytest.raises(DeviceError, match="did not answer"):
            rig.python(STEPS, rig.root / "steps-p")
    rig.steps("clock")
    before = rig.count()
    rig.moves("clock", 50)
    assert rig.count() == before
    assert rig.backend.find("p") is None


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", ".hidden", "a" * 129, "executor.json"])
def test_a_name_that_is_no_placement_id_is_refused(rig: Rig, name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        rig.launch(["true"], name=name)
    assert caught.value.code == "launch_failed"


def test_a_placement_runs_once_at_a_time(rig: Rig) -> None:
    process = rig.steps()
    with pytest.raises(DeviceError, match="runs already"):
        rig.launch(["true"])
    rig.backend.kill("p", process)
    assert rig.ends(rig.launch(["sh", "-c", "exit 4"])).exit_code == 4


# Holding


def test_a_paused_placement_stands_and_goes_on_where_it_stood(rig: Rig) -> None:
    process = rig.steps()
    rig.steps("clock")
    answer = rig.backend.pause("p", process)
    assert (answer.in_force, answer.effective_at) == (1, EffectiveAt.NOW)
    stood_at = rig.count()
    rig.moves("clock", 50)
    assert rig.count() == stood_at
    assert rig.backend.pause("p", process).in_force == 1
    assert rig.backend.resume("p", process).in_force == 0
    rig.moves()
    assert rig.count() > stood_at


def test_a_pause_takes_all_of_the_tree(rig: Rig) -> None:
    process = rig.python(FORKS + STEPS, rig.root / "many-")
    rig.eventually(lambda: len(list(rig.root.glob("many-*"))) == 4, "four processes")
    rig.steps("clock")
    assert rig.backend.pause("p", process).in_force == 1

    def counts() -> list[str]:
        return [path.read_text() for path in sorted(rig.root.glob("many-*"))]

    before = counts()
    rig.moves("clock", 50)
    assert counts() == before


def test_a_paused_placement_can_be_killed(rig: Rig) -> None:
    process = rig.steps()
    assert rig.backend.pause("p", process).in_force == 1
    rig.backend.kill("p", process)
    assert rig.ends(process).signal == signal.SIGKILL
    assert list(rig.backend.pids("p", process)) == []


def test_a_paused_placement_can_be_asked_to_end(rig: Rig) -> None:
    process = rig.python(ASKED, rig.root / "ready")
    rig.eventually((rig.root / "ready").exists, "its handler")
    assert rig.backend.pause("p", process).in_force == 1
    rig.backend.terminate("p", process)
    assert rig.ends(process).exit_code == 3


def test_a_throttled_placement_makes_about_its_part_of_the_steps(rig: Rig) -> None:
    slow, _ = rig.steps(), rig.steps("clock")
    answer = rig.backend.throttle("p", slow, 50)
    assert (answer.in_force, answer.enforcement) == (50, Enforcement.ADVISORY)
    slow_from, clock_from = rig.count(), rig.count("clock")
    rig.moves("clock", 400)
    part = (rig.count() - slow_from) / (rig.count("clock") - clock_from)
    assert 0.25 < part < 0.75

    assert rig.backend.throttle("p", slow, 100).in_force == 100
    slow_from, clock_from = rig.count(), rig.count("clock")
    rig.moves("clock", 200)
    assert (rig.count() - slow_from) / (rig.count("clock") - clock_from) > 0.75


def test_a_throttled_placement_can_be_paused_resumed_and_killed(rig: Rig) -> None:
    process = rig.steps()
    rig.steps("clock")
    rig.backend.throttle("p", process, 40)
    assert rig.backend.pause("p", process).in_force == 1
    stood_at = rig.count()
    rig.moves("clock", 50)
    assert rig.count() == stood_at
    assert rig.backend.resume("p", process).in_force == 0
    rig.moves("p", 20)
    rig.backend.kill("p", process)
    assert rig.ends(process).signal == signal.SIGKILL


def test_what_has_ended_is_not_said_to_be_held(rig: Rig) -> None:
    process = rig.launch(["true"])
    rig.ends(process)
    rig.eventually(lambda: not rig.backend.is_alive(process), "end of the supervisor")
    for answer in (
        rig.backend.pause("p", process),
        rig.backend.resume("p", process),
        rig.backend.throttle("p", process, 50),
    ):
        assert (answer.in_force, answer.reason) == (None, "not_running")
    rig.backend.terminate("p", process)
    rig.backend.kill("p", process)
