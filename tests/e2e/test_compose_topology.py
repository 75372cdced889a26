"""The Compose file's topology without containers: its commands, environment and volumes as local processes.

Host names become 127.0.0.1, volumes and mounted files local paths, the program names those of this
environment. PostgreSQL's image is stood in for by PostgreSQL's programs, which do what its entry point does.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import compose
import httpx
import pytest
from live import PATIENCE_S, ok, wait_until
from support import REPOSITORY

BIN = Path(sys.executable).parent
NUM_JOBS = 8  # as many as there are GPUs, so that both nodes have to take part


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def postgres_program(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = (shutil.which(name, path=place) for place in [None, *map(str, places)])
    return next(filter(None, found), None)


class Topology:
    """The services of the Compose file on this machine.

    Args:
        folder: for volumes, logs, and as the working directory of all of them.
    """

    def __init__(self, folder: Path) -> None:
        self.document = compose.read()
        self.services: dict[str, dict[str, Any]] = self.document["services"]
        self.folder = folder
        self.ports = {"api": free_port(), "postgres": free_port()}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()
        self._done: set[str] = set()
        self.working_directory.mkdir()

    @property
    def working_directory(self) -> Path:
        """Read-only in a container: nothing may appear here."""
        return self.folder / "cwd"

    def up(self) -> None:
        """Start everything in the order in which it waits for each other."""
        for name in self.services:
            self._start(name)

    def close(self) -> dict[str, int]:
        """Stop what runs, the last first, and return the exit codes."""
        codes = {}
        for name, process in reversed(self.processes.items()):
            process.terminate()
            try:
                codes[name] = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = process.wait()
        self.processes.clear()
        self._stack.close()
        return codes

    def wait(self, holds: Callable[[], bool], otherwise: str) -> None:
        """Wait for a condition, as long as everything runs."""

        def look() -> bool:
            for name, process in self.processes.items():
                goes_well = (None, 0) if self.services[name]["restart"] == "no" else (None,)
                assert process.poll() in goes_well, f"{name} ended: {self.log(name).read_text()}"
            return holds()

        try:
            wait_until(look, otherwise)
        except AssertionError as error:
            logs = (f"{name}: {self.log(name).read_text()[-1000:]}" for name in self.processes)
            raise AssertionError("\n".join([str(error), *logs])) from error

    def execute(self, name: str, *arguments: str) -> str:
        """`docker compose exec NAME ARGUMENTS`: its output."""
        made = self._run(name, arguments)
        assert made.returncode == 0, made.stderr
        return made.stdout

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _start(self, name: str) -> None:
        if name in self._done:
            return
        self._done.add(name)
        service = self.services[name]
        for needed, how in service.get("depends_on", {}).items():
            self._start(needed)
            self._wait_for(needed, how["condition"])
        if compose.image_of(service) is None:
            self._stack.enter_context(self._postgres(service))
            return
        with self.log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                self._command(service),
                env=self._environment(name),
                cwd=self.working_directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for(self, name: str, condition: str) -> None:
        if condition == "service_completed_successfully":
            if name in self.processes:
                code = self.processes.pop(name).wait(PATIENCE_S)
                assert code == 0, f"{name} ended with {code}: {self.log(name).read_text()}"
            return
        assert condition == "service_healthy", condition
        service = self.services[name]
        made = compose.image_of(service)
        words = service["healthcheck"]["test"][1:] if "healthcheck" in service else made.healthcheck()
        self.wait(lambda: self._run(name, words).returncode == 0, f"{name} does not become healthy")

    def _run(self, name: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._local(self.services[name], words),
            env=self._environment(name),
            cwd=self.working_directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def _command(self, service: Mapping[str, Any]) -> list[str]:
        """As Docker puts it together: the service's words take the place of the image's."""
        made = compose.image_of(service)
        assert made is not None
        entry = service.get("entrypoint", made.words("ENTRYPOINT"))
        command = service["command"] if "command" in service else made.words("CMD")
        return self._local(service, [*entry, *command])

    def _local(self, service: Mapping[str, Any], words: Sequence[str]) -> list[str]:
        program, *others = words
        found = postgres_program(program) if program.startswith("pg_") else shutil.which(program, path=BIN)
        assert found is not None, f"there is no program {program}"
        return [found, *(self._translate(service, word) for word in others)]

    def _environment(self, name: str) -> dict[str, str]:
        """Of the service alone: what this process has may not help."""
        service = self.services[name]
        given = {key: str(value) for key, value in service.get("environment", {}).items()}
        made = {key: self._translate(service, value) for key, value in given.items()}
        if "ANTECAST_PORT" in made:
            assert given["ANTECAST_PORT"] == service["ports"][0].rpartition(":")[2]
            made["ANTECAST_PORT"] = str(self.ports["api"])
        if name == "postgres":
            made["PGPORT"] = str(self.ports["postgres"])
        return {"PATH": f"{BIN}:{os.defpath}", **made}

    def _translate(self, service: Mapping[str, Any], text: str) -> str:
        for target, local in self._mounts(service).items():
            text = re.sub(rf"{re.escape(target)}(?=/|$)", str(local), text)
        text = text.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it is not listened on here
        return re.sub(
            rf"(?<=[/@])({'|'.join(self.ports)}):\d+",
            lambda found: f"127.0.0.1:{self.ports[found[1]]}",
            text,
        )

    def _mounts(self, service: Mapping[str, Any]) -> dict[str, Path]:
        """Path in the container -> path here."""
        mounts: dict[str, Path] = {}
        for volume in service.get("volumes", ()):
            source, target, *_ = volume.split(":")
            mounts[target] = self.folder / "volumes" / source
            mounts[target].mkdir(mode=0o750, parents=True, exist_ok=True)
        for config in service.get("configs", ()):
            mounts[config["target"]] = REPOSITORY / self.document["configs"][config["source"]]["file"]
        return mounts

    @contextmanager
    def _postgres(self, service: Mapping[str, Any]) -> Iterator[None]:
        """What the image's entry point does: make the cluster, run the scripts, listen."""
        programs = {name: postgres_program(name) for name in ("initdb", "pg_ctl", "psql")}
        if None in programs.values():
            pytest.skip("PostgreSQL's programs initdb, pg_ctl and psql are not installed")
        home = Path(tempfile.mkdtemp(prefix="antecast-pg-"))  # short: a socket's path has at most 107 bytes
        environment = self._environment("postgres")
        owner = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        for key in [key for key in environment if key.endswith("PASSWORD_FILE")]:
            environment[key] = shutil.copy(environment[key], home / key)
        (script,) = service["configs"]
        shutil.copy(self._mounts(service)[script["target"]], home / "script.sql")
        if owner:
            for path in (home, *home.iterdir()):
                shutil.chown(path, **owner)

        def run(name: str, *arguments: str) -> None:
            with (home / "out").open("wb") as out:
                made = subprocess.run(
                    [programs[name], *arguments],
                    env=environment,
                    cwd=home,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    check=False,
                    timeout=PATIENCE_S,
                    **owner,
                )
            assert made.returncode == 0, (home / "out").read_text()

        data = ["-D", str(home / "data")]
        options = ["--username", "postgres", "--pwfile", environment["POSTGRES_PASSWORD_FILE"], "--no-sync"]
        options += environment["POSTGRES_INITDB_ARGS"].split()
        listening = f"-k {home} -c listen_addresses=127.0.0.1 -c fsync=off"
        try:
            run("initdb", *data, *options)
            run("pg_ctl", *data, "-l", str(home / "log"), "-o", listening, "-w", "start")
            try:
                run("psql", "-v", "ON_ERROR_STOP=1", "-X", "-w", "-h", str(home), "-U", "postgres",
                    "-d", "postgres", "-f", str(home / "script.sql"))  # fmt: skip
                yield
            finally:
                run("pg_ctl", *data, "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def topology(tmp_path: Path) -> Iterator[Topology]:
    made = Topology(tmp_path)
    try:
        yield made
    finally:
        made.close()


def submission(number: int) -> dict[str, Any]:
    job = {
        "pool": ("vision", "speech")[number % 2],
        "num_gpus": 1,
        "spec": {"argv": ["sleep", "3"], "grace_s": 1.0},
    }
    return {"kind": "submitted", "job_id": f"job-{number}", "uid": f"submit-{number}", "job": job}


def watch_jobs(topology: Topology, client: httpx.Client) -> dict[str, set[str]]:
    """Until all have ended well: the nodes on which each was seen running."""
    seen: dict[str, set[str]] = {}

    def are_ended() -> bool:
        jobs = ok(client.get("/v1/clusters/demo/jobs"))["items"]
        for job in jobs:
            if job["state"] == "running":
                seen.setdefault(job["job_id"], set()).update(node for node, _ in job["gpus"])
        return len(jobs) == NUM_JOBS and all(job["end_state"] == "completed" for job in jobs)

    topology.wait(are_ended, "the jobs do not end")
    return seen


def test_the_composed_services_come_up_by_themselves_and_run_jobs_on_both_nodes(topology: Topology):
    topology.up()
    key = topology.execute("api", "antecast", "key", "create", "tester", "--scope", "admin").strip()
    base_url = f"http://127.0.0.1:{topology.ports['api']}"
    assert httpx.get(f"{base_url}/v1/clusters").status_code == 401
    with httpx.Client(
        base_url=base_url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S
    ) as client:
        assert ok(client.get("/readyz"))["database"] == "postgresql"

        def are_there() -> bool:
            nodes = ok(client.get("/v1/clusters/demo/inventory"))["nodes"]
            return [node["name"] for node in nodes] == ["node-1", "node-2"] and all(
                len(node["gpu_uuids"]) == 4 and not node["is_lost"] for node in nodes
            )

        topology.wait(are_there, "the nodes do not come up")
        events = [submission(number) for number in range(NUM_JOBS)]
        assert ok(client.post("/v1/clusters/demo/events", json={"events": events}))["accepted"] == NUM_JOBS
        seen = watch_jobs(topology, client)
        assert set(seen) == {f"job-{number}" for number in range(NUM_JOBS)}
        assert set().union(*seen.values()) == {"node-1", "node-2"}
        revoked = ok(client.get("/v1/keys"))["items"]
        assert [one["name"] for one in revoked if one["revoked_at"] is None] == ["tester"]
    codes = topology.close()
    assert codes.pop("api") in (0, -signal.SIGTERM), "uvicorn ends with the signal it was sent"
    assert codes == {"worker": 0, "node-1": 0, "node-2": 0}
    assert not list(topology.working_directory.iterdir()), "a container's file system is read-only"
