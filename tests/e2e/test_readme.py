"""The commands of the README, run in order as they stand there, against the real thing."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import REPOSITORY

from app.demo.processes import free_port

LIMIT_S = 300
MARK = "@@ block"

SERVICE = (
    ("ready",),
    (
        "jobs of 3 pools in past",
        '"capacity_gpus": 24',
        "jobs imported, 0 rows left out",
        "nothing to do",
        "mean wait, h",
        "pool-01",
    ),
    (
        '"starts":[{"job_id":"wide","is_guest":false,"gpus":null},{"job_id":"more","is_guest":true,',
        '"accepted":2,',
    ),
    (
        '"send_backs":["more"]',
        '"job_id":"a","is_guest":false',
        '"job_id":"b","is_guest":false',
        '"rejected":[]',
    ),
    (
        '"enforced_by": "executors"',
        '"accepted":1',
        '"end_state":"completed"',
        "I run on GPU GPU-",
        '"jobs":1,"ended":1',
    ),
)
"""Words that each block of the section on the service has to say."""

REPLAY = (("anticipatory", "Written: "),)


def blocks(heading: str) -> list[str]:
    """The shell blocks of a section of the README."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def run(commands: list[str], folder: Path) -> list[str]:
    """Run blocks in one shell that stops at the first failure; what each of them said."""
    script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n"
    script += "\n".join(f"echo '{MARK}'\n{block}" for block in commands)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTECAST_")}
    env = {**clean, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    env["ANTECAST_DECIDE_LIMIT_S"] = "55"  # however slow the machine is
    with subprocess.Popen(
        ["bash", "-c", script],  # noqa: S607 - whichever the reader has
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=LIMIT_S)
        except BaseException:
            os.killpg(shell.pid, signal.SIGTERM)
            raise
    logs = "".join(f"\n== {log}\n{log.read_text()[-3000:]}" for log in folder.rglob("*.log"))
    assert shell.returncode == 0, said + logs
    return said.split(f"{MARK}\n")[1:]


def assert_said(said: list[str], wanted: tuple[tuple[str, ...], ...]) -> None:
    assert len(said) == len(wanted), "the README has other blocks than this test knows"
    for block, words in zip(said, wanted, strict=True):
        for word in words:
            assert word in block, f"{word!r} is missing in:\n{block}"


def test_the_readme_runs_the_service(tmp_path):
    port = free_port()
    commands = [block.replace("8000", str(port)) for block in blocks("Run the service")]
    assert str(port) in commands[0]
    assert_said(run(commands, tmp_path), SERVICE)


def test_the_readme_replays_a_history(antecast, tmp_path):
    made = antecast("generate", "sia", "--num-pools", 2, "--days", 14, "--seed", 1, "--out", tmp_path)
    assert made.code == 0, made.err
    assert_said(run(blocks("Replay your own history"), tmp_path), REPLAY)


@pytest.mark.parametrize(
    "target", re.findall(r"^make (\S+)", "\n".join(blocks("Two commands")), re.MULTILINE)
)
def test_the_targets_named_are_there(target):
    assert re.search(rf"^{target}:.*## ", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
