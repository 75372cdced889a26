"""What it costs to have it beside training code: one small wheel, no imports of others, little memory."""

import json
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import AgentProcess
from control_plane import DEADLINE_S, ControlPlane, placement

HERE = Path(__file__).parents[1]
MAX_RSS_MIB = 40.0
MODULES = """
import importlib, json, pkgutil, sys
import antecast_executor
for found in pkgutil.walk_packages(antecast_executor.__path__, "antecast_executor."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names))))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that holds the built wheel and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    source = folder / "source"
    shutil.copytree(
        HERE, source, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__", "tests")
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(source)]
    subprocess.run(build, check=True, timeout=600)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    found = folder / "venv" / "bin" / "python"
    install = [*pip, "--python", str(found), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, timeout=600)
    return found


def output(python: Path, *words: str) -> str:
    done = subprocess.run(
        [str(python), *words], capture_output=True, check=True, timeout=DEADLINE_S, text=True
    )
    return done.stdout


def test_the_wheel_imports_nothing_but_the_standard_library_and_itself(python: Path) -> None:
    assert json.loads(output(python, "-I", "-c", MODULES)) == ["__main__", "antecast_executor"]


def test_the_wheel_has_its_command_and_its_types(python: Path) -> None:
    assert output(python.with_name("antecast-executor"), "--version").strip() == "0.1.0"
    where = output(
        python, "-I", "-c", "import antecast_executor; print(antecast_executor.__path__[0])"
    ).strip()
    assert (Path(where) / "py.typed").exists()


@pytest.fixture
def agent(python: Path, tmp_path: Path) -> Iterator[AgentProcess]:
    with ControlPlane(status_every_s=0.1).running() as plane:
        running = AgentProcess(plane, tmp_path, sim_gpus=8, python=python)
        running.start()
        yield running
        running.clean_up()


def memory_mib(pid: int) -> dict[str, float]:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.findall(r"^(VmRSS|RssAnon|VmHWM):\s+(\d+) kB$", text, re.MULTILINE)
    return {name: int(kib) / 1024 for name, kib in found}


def test_memory_of_a_running_agent(agent: AgentProcess, capsys: pytest.CaptureFixture[str]) -> None:
    plane = agent.plane
    uuids = agent.gpus()
    plane.want(*(placement(f"p{number}", agent.waiter("end"), [uuid]) for number, uuid in enumerate(uuids)))
    for number in range(len(uuids)):
        plane.wait_condition(f"p{number}", "launch", "verified")
    seen = len(plane.statuses)
    plane.wait("more reports", lambda: len(plane.statuses) > seen + 20)
    assert agent.process is not None
    found = memory_mib(agent.process.pid)
    files = len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))
    with capsys.disabled():
        sizes = ", ".join(f"{name} {mib:.1f} MiB" for name, mib in sorted(found.items()))
        sys.stdout.write(f"\nagent with {len(uuids)} GPUs and as many placements: {sizes}, {files} handles\n")
    assert found["VmRSS"] <= MAX_RSS_MIB
    assert files <= 20 + 3 * len(uuids)
