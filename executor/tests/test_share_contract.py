"""What every share back-end promises, tried on the simulated world and on the control program's back-end."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from antecast_executor.devices import CONTROL, make, mps_lane
from antecast_executor.devices.mps import CliShare
from antecast_executor.devices.sim_devices import SimShare
from antecast_executor.devices.world import World
from antecast_executor.interfaces import DeviceError, EffectiveAt, Enforcement
from antecast_executor.processes import procfs

NOWHERE = "GPU-00000000-0000-0000-0000-000000000000"


def _env(rig: Any, share_pct: float, memory_mib: int | None = None) -> Mapping[str, str]:
    return rig.backend.client_env(rig.uuid, share_pct=share_pct, memory_mib=memory_mib, priority=0)


@pytest.fixture
def attach(spawn: Callable[..., int], eventually: Callable[..., Any]) -> Callable[[Any, float], int]:
    """Start a worker with a share and wait until it is a client."""

    def start(rig: Any, share_pct: float) -> int:
        pid = spawn(_env(rig, share_pct))
        eventually(lambda: pid in rig.backend.clients(rig.uuid), f"{pid} among the clients")
        return pid

    return start


def test_a_daemon_is_there_after_ensure_however_often(mps: Any) -> None:
    assert list(mps.backend.clients(mps.uuid)) == []
    for _ in range(3):
        mps.backend.ensure(mps.uuid)
    assert mps.cap_pct() == 100
    assert list(mps.backend.clients(mps.uuid)) == []


@pytest.mark.parametrize(
    ("uuid", "code"),
    [
        ("MIG-11111111-1111-1111-1111-111111111111", "mig"),
        ("", "unknown_uuid"),
        ("0", "unknown_uuid"),
        ("GPU-../../etc", "unknown_uuid"),
        ("GPU-aaaaaaaa-1111-2222-3333-444444444444\nquit", "unknown_uuid"),
    ],
)
def test_what_is_no_gpu_is_refused(mps: Any, uuid: str, code: str) -> None:
    for call in (
        lambda: mps.backend.ensure(uuid),
        lambda: mps.backend.clients(uuid),
        lambda: mps.backend.set_share(uuid, None, 50),
        lambda: mps.backend.terminate_client(uuid, 1),
        lambda: mps.backend.release(uuid),
        lambda: mps.backend.client_env(uuid, share_pct=50, memory_mib=None, priority=0),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert caught.value.code == code


@pytest.mark.parametrize(
    "caps",
    [
        {"share_pct": 0.0},
        {"share_pct": -1.0},
        {"share_pct": 101.0},
        {"share_pct": float("nan")},
        {"memory_mib": 0},
        {"memory_mib": -5},
        {"priority": 2},
    ],
)
def test_a_cap_that_mps_would_take_the_wrong_way_is_refused(mps: Any, caps: dict[str, Any]) -> None:
    mps.backend.ensure(mps.uuid)
    with pytest.raises(DeviceError) as caught:
        mps.backend.client_env(mps.uuid, **({"share_pct": 50.0, "memory_mib": None, "priority": 0} | caps))
    assert caught.value.code == "bad_value"


def test_a_workers_environment_holds_its_caps(mps: Any) -> None:
    mps.backend.ensure(mps.uuid)
    env = mps.backend.client_env(mps.uuid, share_pct=30, memory_mib=2560, priority=1)
    assert env["CUDA_VISIBLE_DEVICES"] == mps.uuid
    assert env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=2560M"
    assert env["CUDA_MPS_CLIENT_PRIORITY"] == "1"


def test_a_running_client_keeps_the_share_it_started_with(mps: Any, attach: Callable[..., int]) -> None:
    mps.backend.ensure(mps.uuid)
    pid = attach(mps, 60)
    now = mps.backend.set_share(mps.uuid, pid, 60)
    assert (now.in_force, now.reason) == (60, "")
    for _ in range(2):
        asked = mps.backend.set_share(mps.uuid, pid, 20)
        assert asked.in_force == 60
        assert asked.effective_at is EffectiveAt.NEXT_CLIENT
        assert asked.enforcement is Enforcement.RESTART
        assert "keeps" in asked.reason
    assert mps.cap_pct() == 100  # one worker's share is no cap on its neighbours


def test_a_cap_binds_the_next_client_only(
    mps: Any, attach: Callable[..., int], spawn: Callable[..., int], eventually: Callable[..., Any]
) -> None:
    mps.backend.ensure(mps.uuid)
    env = _env(mps, 50)
    old = attach(mps, 50)
    answer = mps.backend.set_share(mps.uuid, None, 20)
    assert (answer.in_force, answer.effective_at) == (20, EffectiveAt.NEXT_CLIENT)
    assert mps.backend.set_share(mps.uuid, old, 50).in_force == 50
    if hasattr(mps, "world"):  # a real client's own view of its cap cannot be read from outside
        new = spawn(env)
        eventually(lambda: new in mps.backend.clients(mps.uuid), "the new client")
        assert mps.backend.set_share(mps.uuid, new, 50).in_force == 20


def test_before_there_is_a_server_a_cap_binds_the_next_one(mps: Any) -> None:
    mps.backend.ensure(mps.uuid)
    answer = mps.backend.set_share(mps.uuid, None, 40)
    assert (answer.in_force, answer.effective_at) == (40, EffectiveAt.NEXT_SERVER)
    assert answer.enforcement is Enforcement.NATIVE


def test_a_worker_granted_more_than_the_cap_has_it(mps: Any, attach: Callable[..., int]) -> None:
    mps.backend.ensure(mps.uuid)
    first = attach(mps, 30)
    mps.backend.set_share(mps.uuid, None, 30)
    second = attach(mps, 70)
    assert mps.backend.set_share(mps.uuid, second, 70).in_force == 70
    assert mps.backend.set_share(mps.uuid, first, 30).in_force == 30


def test_who_is_not_attached_has_no_share(mps: Any, spawn: Callable[..., int]) -> None:
    mps.backend.ensure(mps.uuid)
    answer = mps.backend.set_share(mps.uuid, spawn({}), 40)
    assert (answer.in_force, answer.reason) == (None, "not_attached")


def test_each_gpu_has_a_daemon_of_its_own(mps: Any, attach: Callable[..., int]) -> None:
    mps.backend.ensure(mps.uuid)
    mps.backend.ensure(mps.other)
    pid = attach(mps, 50)
    assert list(mps.backend.clients(mps.uuid)) == [pid]
    assert list(mps.backend.clients(mps.other)) == []
    mps.backend.release(mps.other)


def test_a_client_that_ends_is_off_the_list(
    mps: Any, attach: Callable[..., int], end: Callable[[int], None]
) -> None:
    mps.backend.ensure(mps.uuid)
    first, second = attach(mps, 50), attach(mps, 50)
    assert sorted(mps.backend.clients(mps.uuid)) == sorted([first, second])
    end(first)
    assert list(mps.backend.clients(mps.uuid)) == [second]


def test_a_terminated_client_lives_on_without_the_gpu(mps: Any, attach: Callable[..., int]) -> None:
    mps.backend.ensure(mps.uuid)
    gone, kept = attach(mps, 50), attach(mps, 50)
    mps.backend.terminate_client(mps.uuid, gone)
    assert list(mps.backend.clients(mps.uuid)) == [kept]
    found = procfs.stat(gone)
    assert found is not None
    assert found.is_running
    mps.backend.terminate_client(mps.uuid, gone)  # nothing is left to take away
    assert list(mps.backend.clients(mps.uuid)) == [kept]


def test_a_dead_daemon_is_said_to_be_dead_and_starts_again_with_the_cap(mps: Any) -> None:
    mps.backend.ensure(mps.uuid)
    mps.backend.set_share(mps.uuid, None, 40)
    mps.kill_daemon()
    for call in (
        lambda: mps.backend.clients(mps.uuid),
        lambda: mps.backend.set_share(mps.uuid, None, 50),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert caught.value.code == "no_daemon"
    mps.backend.ensure(mps.uuid)
    assert mps.cap_pct() in (40, 50)  # the last that was asked for, were it in vain
    assert list(mps.backend.clients(mps.uuid)) == []


def test_an_executor_that_starts_again_finds_daemon_clients_and_cap(
    mps: Any, attach: Callable[..., int]
) -> None:
    mps.backend.ensure(mps.uuid)
    pid = attach(mps, 35)
    mps.backend.set_share(mps.uuid, None, 80)
    again = mps.again()
    assert list(again.clients(mps.uuid)) == [pid]
    assert again.set_share(mps.uuid, pid, 35).in_force == 35
    again.ensure(mps.uuid)
    assert mps.cap_pct() == 80


def test_a_daemon_is_never_stopped_under_a_client(
    mps: Any, attach: Callable[..., int], end: Callable[[int], None]
) -> None:
    mps.backend.release(mps.uuid)  # none yet
    mps.backend.ensure(mps.uuid)
    pid = attach(mps, 50)
    with pytest.raises(DeviceError) as caught:
        mps.backend.release(mps.uuid)
    assert caught.value.code == "in_use"
    end(pid)
    mps.backend.release(mps.uuid)
    assert list(mps.backend.clients(mps.uuid)) == []
    mps.backend.ensure(mps.uuid)
    assert mps.cap_pct() == 100


def test_no_back_end_promises_to_change_a_running_client(mps: Any) -> None:
    found = {item.name: item for item in mps.backend.capabilities()}
    assert found["set_share"].supported
    assert found["set_share"].effective_at is EffectiveAt.NEXT_CLIENT
    assert not found["set_share_live"].supported
    assert found["set_share_live"].reason


# The world only


@pytest.fixture
def sim(tmp_path: Any) -> Any:
    return make("sim", tmp_path, node=tmp_path.name)


def test_after_a_fault_no_client_gets_in_before_all_have_left(
    tmp_path: Any, spawn: Callable[..., int], eventually: Callable[..., Any], end: Callable[[int], None]
) -> None:
    world = World.at(tmp_path, node=tmp_path.name)
    share = SimShare(world)
    with world.edit() as state:
        uuid = state["gpus"][0]["uuid"]
    share.ensure(uuid)
    env = share.client_env(uuid, share_pct=50, memory_mib=None, priority=0)
    first, second = spawn(env), spawn(env)
    eventually(lambda: len(share.clients(uuid)) == 2, "two clients")
    world.fault(uuid)
    late = spawn(env)
    eventually(lambda: procfs.environ(late), "the late one's start")
    assert late not in share.clients(uuid)
    end(first)
    assert list(share.clients(uuid)) == [second]
    end(second)
    assert list(share.clients(uuid)) == [late]


def test_a_lost_gpu_cannot_be_shared(sim: Any, tmp_path: Any) -> None:
    uuid = sim.devices.devices()[0].uuid
    World(tmp_path / "world").set_gpu(uuid, is_lost=True)
    with pytest.raises(DeviceError) as caught:
        sim.share.ensure(uuid)
    assert caught.value.code == "lost"


def test_an_unknown_gpu_cannot_be_shared(sim: Any) -> None:
    with pytest.raises(DeviceError) as caught:
        sim.share.ensure(NOWHERE)
    assert caught.value.code == "unknown_uuid"


# The control program only


def test_an_unknown_gpu_gets_no_daemon(cli: Any, sim: Any) -> None:
    share = CliShare(cli.run, control=cli.backend._control, devices=sim.devices)
    with pytest.raises(DeviceError) as caught:
        share.ensure(NOWHERE)
    assert caught.value.code == "unknown_uuid"
    assert not (cli.run / "mps" / NOWHERE).exists()


def test_a_daemons_folder_is_not_for_everybody(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    assert cli.folder.stat().st_mode & 0o777 == 0o750


def test_busy_is_not_dead(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    cli.knobs(busy=3, mute=2, blank=2)
    assert cli.backend.set_share(cli.uuid, None, 40).in_force == 40
    assert cli.cap_pct() == 40


def test_no_text_is_not_an_empty_list(cli: Any, attach: Callable[..., int]) -> None:
    cli.backend.ensure(cli.uuid)
    pid = attach(cli, 50)
    for blanks in range(1, 6):
        cli.knobs(blank=blanks)
        assert list(cli.backend.clients(cli.uuid)) == [pid]


def test_busy_for_ever_is_an_error(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    cli.knobs(busy=1_000_000)
    with pytest.raises(DeviceError) as caught:
        cli.again(timeout_s=1.0).set_share(cli.uuid, None, 40)
    assert caught.value.code == "busy"


def test_many_callers_lose_no_command(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    other = cli.again()  # another lane to the same daemon: these two do get in each other's way

    def cap(share_pct: int) -> float | None:
        backend = cli.backend if share_pct % 2 else other
        return float(backend.set_share(cli.uuid, None, share_pct).in_force)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(cap, range(10, 18))) == list(range(10, 18))


def test_a_stopped_daemon_is_a_timeout_and_is_left_alone(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    pid = cli.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    for call in (lambda it: it.ensure(cli.uuid), lambda it: it.clients(cli.uuid)):
        with pytest.raises(DeviceError) as caught:
            call(cli.again(timeout_s=0.5))
        assert caught.value.code == "timeout"
    os.kill(pid, signal.SIGCONT)
    cli.backend.ensure(cli.uuid)
    assert cli.daemon_pid() == pid


def test_a_value_the_daemon_does_not_take_is_not_said_to_be_in_force(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    cli.knobs(stubborn=1)
    answer = cli.backend.set_share(cli.uuid, None, 40)
    assert answer.in_force == 100
    assert "did not take" in answer.reason


def test_without_privilege_it_says_so(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    cli.knobs(deny=1)
    for call in (
        lambda: cli.backend.set_share(cli.uuid, None, 40),
        lambda: cli.backend.release(cli.uuid),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert caught.value.code == "no_permission"


def test_a_daemon_that_does_not_come_up_is_an_error_then_left_for_a_while(cli: Any) -> None:
    cli.knobs(stillborn=1)
    codes = []
    for _ in range(5):
        with pytest.raises(DeviceError) as caught:
            cli.backend.ensure(cli.uuid)
        codes.append(caught.value.code)
    assert codes == ["mps_error"] * 3 + ["crash_loop"] * 2


def test_servers_that_keep_dying_stop_the_restarts(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    with (cli.folder / "log" / "control.log").open("a") as log:
        log.writelines(f"[2025-01-01] Server {number} exited with status 1\n" for number in range(3))
    cli.kill_daemon()
    with pytest.raises(DeviceError) as caught:
        cli.backend.ensure(cli.uuid)
    assert caught.value.code == "crash_loop"


def test_a_foreign_daemon_is_not_touched(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    cli.kill_daemon()
    lane = mps_lane.Lane(str(cli.backend._control), cli.folder, cli.uuid, 20.0)
    theirs = {name: value for name, value in lane._environ().items() if name != mps_lane._OWNER}
    subprocess.run([lane._program(), "-d"], env=theirs, check=True)
    pid = cli.daemon_pid()
    for call in (
        lambda: cli.backend.ensure(cli.uuid),
        lambda: cli.backend.set_share(cli.uuid, None, 40),
        lambda: cli.backend.clients(cli.uuid),
    ):
        with pytest.raises(DeviceError) as caught:
            call()
        assert caught.value.code == "foreign_daemon"
    cli.backend.release(cli.uuid)
    found = procfs.stat(pid)
    assert found is not None
    assert found.is_running


def test_a_stale_number_of_a_daemon_is_no_daemon(cli: Any) -> None:
    cli.backend.ensure(cli.uuid)
    cli.kill_daemon()
    (cli.folder / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
    cli.backend.ensure(cli.uuid)
    assert cli.daemon_pid() != os.getpid()


def test_a_path_too_long_for_sockets_is_refused(cli: Any) -> None:
    deep = cli.run / ("x" * 80)
    with pytest.raises(DeviceError) as caught:
        CliShare(deep, control=cli.backend._control).ensure(cli.uuid)
    assert caught.value.code == "path_too_long"


def test_without_the_program_there_is_no_mps(cli: Any) -> None:
    share = CliShare(cli.run, control=f"no-{CONTROL}")
    assert not share.capabilities()[0].supported
    with pytest.raises(DeviceError) as caught:
        share.ensure(cli.uuid)
    assert caught.value.code == "no_mps"


def test_only_known_words_and_numbers_reach_the_program(cli: Any) -> None:
    lane = mps_lane.Lane(str(cli.backend._control), cli.folder, cli.uuid, 20.0)
    for words in (("start_server",), ("quit", 1), ("get_server_list\nquit",)):
        with pytest.raises(ValueError, match="not a command of ours"):
            lane.ask(*words)


# The real control program, which runs without a GPU: only servers and clients need one


def test_the_real_program_is_understood(short_dir: Any) -> None:
    control = os.environ.get("ANTECAST_TEST_MPS_CONTROL") or shutil.which(CONTROL)
    if control is None:
        pytest.skip(f"{CONTROL} is not here (ANTECAST_TEST_MPS_CONTROL names another place)")
    share, other = (CliShare(short_dir, control=control, timeout_s=20) for _ in range(2))
    uuid = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
    pid_file = short_dir / "mps" / uuid / "nvidia-cuda-mps-control.pid"
    try:
        share.ensure(uuid)
        assert list(share.clients(uuid)) == []
        assert share.set_share(uuid, None, 12.5).in_force == 12.5
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        with pytest.raises(DeviceError) as caught:
            share.clients(uuid)
        assert caught.value.code == "no_daemon"
        share.ensure(uuid)
        assert other.set_share(uuid, os.getpid(), 12.5).reason == "not_attached"

        def cap(share_pct: int) -> float | None:
            return (share if share_pct % 2 else other).set_share(uuid, None, share_pct).in_force

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(cap, range(10, 90))) == list(range(10, 90))
    finally:
        share.release(uuid)
    assert not pid_file.exists()
