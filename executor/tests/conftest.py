"""What tests of the executor share: waiting, throwaway processes, and rigs for many back-ends.

A rig offers the back-end under test and the same few ways to change what is behind it, so that one test
runs on all of them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from process_rig import LAUNCHER, MEANS, STEPS, Rig

from antecast_executor import processes
from antecast_executor.devices import mps_lane
from antecast_executor.devices.mps import CliShare
from antecast_executor.devices.sim_devices import SimDevices, SimShare
from antecast_executor.devices.world import MEMORY, World
from antecast_executor.interfaces import (
    Capability,
    Device,
    DeviceBackend,
    DeviceError,
    EffectiveAt,
    Enforcement,
    GpuProcess,
    ProcessId,
    Reading,
    ShareBackend,
)
from antecast_executor.processes import procfs

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
FAKE_CONTROL = HERE / "fake_mps" / "nvidia-cuda-mps-control"
DEADLINE_S = 60.0
MIB = 1024 * 1024
IDLE = "import signal; signal.pause()"


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Whatever the condition yields once it holds; a failed test if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            pytest.fail(f"waited {DEADLINE_S:g} s in vain: {what}")
        time.sleep(0.005)


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any], str], Any]:
    return wait_for


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A folder with a short path: sockets allow no long ones."""
    with tempfile.TemporaryDirectory(prefix="ac", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def spawn() -> Iterator[Callable[[Mapping[str, str]], int]]:
    """Start idle processes with a given environment, and nothing else in it; they end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(env: Mapping[str, str]) -> int:
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", IDLE], env=dict(env))
        started.append(process)
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def end() -> Callable[[int], None]:
    """End a child of this process and collect it."""

    def finish(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not ((found := procfs.stat(pid)) and found.is_running), f"end of {pid}")

    return finish


# Devices


class SimDevicesRig:
    """A world of two GPUs."""

    def __init__(self, folder: Path, spawn: Callable[[Mapping[str, str]], int]) -> None:
        self.world = World.at(folder, node=folder.name, gpus=2)
        self.backend: DeviceBackend = SimDevices(self.world)
        self.spawn = spawn

    def set_temperature(self, uuid: str, value_c: int) -> None:
        self.world.set_gpu(uuid, temperature_c=value_c)

    def set_mig(self, uuid: str) -> None:
        self.world.set_gpu(uuid, is_mig=True)

    def lose(self, uuid: str) -> None:
        self.world.set_gpu(uuid, is_lost=True)

    def bring_back(self, uuid: str) -> None:
        self.world.set_gpu(uuid, is_lost=False)

    def break_driver(self, code: str) -> None:
        self.world.set_driver(code)

    def mend_driver(self) -> None:
        self.world.set_driver("ok")

    def use(self, uuid: str, memory_mib: int) -> int:
        return self.spawn({"CUDA_VISIBLE_DEVICES": uuid, MEMORY: str(memory_mib)})

    def close(self) -> None:
        self.backend.close()


class ChildDevices:
    """A DeviceBackend in another process, where LD_LIBRARY_PATH has what it is to load."""

    def __init__(self, library_path: Path, state: Path) -> None:
        env = {**os.environ, "LD_LIBRARY_PATH": str(library_path), "STUB_NVML_STATE": str(state)}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "stub_nvml" / "child.py")],
            env=env | {"PYTHONPATH": str(SOURCE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def devices(self) -> list[Device]:
        return [_device(item) for item in self._call("devices")]

    def processes(self, uuid: str) -> list[GpuProcess]:
        return [
            GpuProcess(item["pid"], Reading(**item["memory_used_mib"]))
            for item in self._call("processes", uuid)
        ]

    def capabilities(self) -> list[Capability]:
        return [
            Capability(
                item["name"],
                item["supported"],
                Enforcement(item["enforcement"]),
                EffectiveAt(item["effective_at"]),
                item["reason"],
            )
            for item in self._call("capabilities")
        ]

    def close(self) -> None:
        self._call("close")

    def end(self) -> None:
        self._process.communicate()

    def _call(self, name: str, *arguments: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "code" in answer:
            raise DeviceError(answer["code"], answer["message"])
        return answer["result"]


def _device(item: dict[str, Any]) -> Device:
    readings = {name: Reading(**value) for name, value in item.items() if isinstance(value, dict)}
    return Device(**(item | readings))


class StubNvmlRig:
    """The real NVML back-end and the unmodified nvidia-ml-py over a stub of the driver's library."""

    CODES = {"no_driver": 9, "version_mismatch": 18}  # noqa: RUF012

    def __init__(self, library_path: Path, folder: Path) -> None:
        self.path = folder / "nvml"
        self.values: dict[str, str] = {"count": "2"}
        for index in range(2):
            self.values |= {
                f"gpu{index}.uuid": f"GPU-{index}1111111-2222-3333-4444-555555555555",
                f"gpu{index}.name": "Stub GPU",
                f"gpu{index}.total": str(81_559 * MIB),
                f"gpu{index}.reserved": str(561 * MIB),
                f"gpu{index}.used": "0",
                f"gpu{index}.temp": "40",
            }
        self.write()
        self.child = ChildDevices(library_path, self.path)
        self.backend: DeviceBackend = self.child

    def set(self, **values: object) -> None:
        self.values |= {name.replace("__", "."): str(value) for name, value in values.items()}
        self.write()

    def write(self) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text("".join(f"{name}={value}\n" for name, value in self.values.items()))
        draft.replace(self.path)

    def set_temperature(self, uuid: str, value_c: int) -> None:
        self.set(**{f"{self._gpu(uuid)}.temp": value_c})

    def set_mig(self, uuid: str) -> None:
        self.set(**{f"{self._gpu(uuid)}.mig": 1})

    def lose(self, uuid: str) -> None:
        self.set(**{f"{self._gpu(uuid)}.handle": 15})

    def bring_back(self, uuid: str) -> None:
        self.set(**{f"{self._gpu(uuid)}.handle": 0})

    def break_driver(self, code: str) -> None:
        self.set(init=self.CODES[code])

    def mend_driver(self) -> None:
        self.set(init=0)

    def use(self, uuid: str, memory_mib: int) -> int:
        gpu = self._gpu(uuid)
        self.set(**{f"{gpu}.procs": f"4242:{memory_mib * MIB}", f"{gpu}.used": memory_mib * MIB})
        return 4242

    def close(self) -> None:
        self.child.end()

    def _gpu(self, uuid: str) -> str:
        return next(name.split(".")[0] for name, value in self.values.items() if value == uuid)


@pytest.fixture(scope="session")
def stub_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stub of libnvidia-ml.so.1."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here: the NVML back-end was not tried")
    folder = tmp_path_factory.mktemp("nvml")
    source = HERE / "stub_nvml" / "nvml_stub.c"
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "-o", library, source]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def nvml(stub_nvml: Path, tmp_path: Path) -> Iterator[StubNvmlRig]:
    rig = StubNvmlRig(stub_nvml, tmp_path)
    yield rig
    rig.close()


@pytest.fixture(params=["sim", "nvml"])
def gpus(request: pytest.FixtureRequest) -> Iterator[SimDevicesRig | StubNvmlRig]:
    """Two GPUs behind each device back-end in turn."""
    if request.param == "nvml":
        yield request.getfixturevalue("nvml")
        return
    rig = SimDevicesRig(request.getfixturevalue("tmp_path"), request.getfixturevalue("spawn"))
    yield rig
    rig.close()


# Sharing


class SimShareRig:
    """MPS of a world."""

    def __init__(self, folder: Path) -> None:
        self.world = World.at(folder, node=folder.name, gpus=2)
        self.backend: ShareBackend = SimShare(self.world)
        with self.world.edit() as state:
            self.uuid, self.other = (gpu["uuid"] for gpu in state["gpus"])

    def again(self) -> ShareBackend:
        return SimShare(self.world)

    def kill_daemon(self) -> None:
        self.world.kill_daemon(self.uuid)

    def cap_pct(self) -> float:
        with self.world.edit() as state:
            return float(state["mps"][self.uuid]["cap_pct"])

    def close(self) -> None:
        """Nothing is left running."""


class CliShareRig:
    """The control program's back-end over a program that says what the real one says."""

    def __init__(self, folder: Path, timeout_s: float = 20.0) -> None:
        self.run = folder
        self.timeout_s = timeout_s
        self.uuid = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
        self.other = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
        # Under this very Python: a launcher found on the path can be many times slower.
        self.control = folder / FAKE_CONTROL.name
        _, _, script = FAKE_CONTROL.read_text().partition("\n")
        self.control.write_text(f"#!{sys.executable} -IS\n{script}")
        self.control.chmod(0o755)
        self.backend: ShareBackend = self.again()

    @property
    def folder(self) -> Path:
        return self.run / "mps" / self.uuid

    def again(self, timeout_s: float | None = None) -> CliShare:
        wait_s = self.timeout_s if timeout_s is None else timeout_s
        return CliShare(self.run, control=str(self.control), timeout_s=wait_s)

    def knobs(self, **values: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "knobs").write_text("\n".join(f"{name}={value}" for name, value in values.items()))

    def daemon_pid(self) -> int:
        return int((self.folder / "nvidia-cuda-mps-control.pid").read_text())

    def kill_daemon(self) -> None:
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not ((found := procfs.stat(pid)) and found.is_running), "end of the daemon")

    def cap_pct(self) -> float:
        lane = mps_lane.Lane(str(self.control), self.folder, self.uuid, self.timeout_s)
        return float(lane.ask("get_default_active_thread_percentage"))

    def close(self) -> None:
        for path in self.run.glob("mps/*/nvidia-cuda-mps-control.pid"):
            pid = int(path.read_text())
            if procfs.environ(pid).get("CUDA_MPS_PIPE_DIRECTORY") == str(path.parent):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def cli(short_dir: Path) -> Iterator[CliShareRig]:
    rig = CliShareRig(short_dir)
    yield rig
    rig.close()


@pytest.fixture(params=["sim", "cli"])
def mps(request: pytest.FixtureRequest) -> Iterator[SimShareRig | CliShareRig]:
    """MPS behind each share back-end in turn."""
    if request.param == "cli":
        yield request.getfixturevalue("cli")
        return
    rig = SimShareRig(request.getfixturevalue("tmp_path"))
    yield rig
    rig.close()


# Processes


@pytest.fixture(params=MEANS)
def rig(request: pytest.FixtureRequest, tmp_path: Path, eventually: Callable[..., Any]) -> Iterator[Rig]:
    try:
        rig = Rig(tmp_path, request.param, eventually)
    except DeviceError as error:
        pytest.skip(f"not tried here: {error}")
    yield rig
    for name, process in rig.started.items():
        rig.backend.kill(name, process)
        rig.ends(process, name)
        rig.backend.forget(name, process)


@pytest.fixture
def dead_executor(rig: Rig) -> Callable[..., ProcessId]:
    """Let another executor start a placement and hold it, and kill that executor."""

    def run(*holds: list[object], ttl: float = 900.0) -> ProcessId:
        argv = [sys.executable, "-I", "-S", "-c", STEPS, str(rig.root / "steps-p")]
        spec = json.dumps([str(rig.root / "run"), rig.means, ttl, argv, holds])
        source = Path(processes.__file__).parents[2]
        with subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, spec],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(source)},
            text=True,
        ) as executor:
            assert executor.stdout is not None
            process = ProcessId(*json.loads(executor.stdout.readline()))
            executor.kill()
        rig.started["p"] = process
        return process

    return run
