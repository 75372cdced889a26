"""The Compose file and the images: valid, and with no more rights than needed."""

import fnmatch
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from compose import COMPOSE_FILE, image, image_of, read
from support import REPOSITORY

COMPOSE = read()
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
ONE_SHOTS = {"passwords", "migrate", "set-up"}
DOCKERFILES = ["Dockerfile", "executor/Dockerfile"]
UID = "10001:10001"

each_service = pytest.mark.parametrize("name", SERVICES)
each_dockerfile = pytest.mark.parametrize("path", DOCKERFILES)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=120)


def test_it_is_valid_by_the_schema_of_the_compose_specification():
    checked = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE_FILE)
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_schema_finds_faults(tmp_path):
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(COMPOSE_FILE.read_text().replace("stop_grace_period:", "stop_grace:"))
    checked = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(broken)
    )
    assert checked.returncode == 1
    assert "stop_grace" in checked.stdout


def test_docker_compose_accepts_it():
    if shutil.which("docker") is None or run("docker", "compose", "version").returncode != 0:
        pytest.skip("docker compose is not installed here")
    checked = run("docker", "compose", "--file", str(COMPOSE_FILE), "config", "--quiet")
    assert checked.returncode == 0, checked.stderr


def test_all_parts_are_there():
    assert set(SERVICES) == {"postgres", "api", "worker", "node-1", "node-2", *ONE_SHOTS}


@each_service
def test_a_service_has_no_more_rights_than_it_needs(name):
    service = SERVICES[name]
    uid, _, gid = service["user"].partition(":")
    assert int(uid) > 0
    assert int(gid) > 0
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    refused = {"privileged", "cap_add", "devices", "pid", "ipc", "userns_mode", "device_cgroup_rules"}
    assert not refused & set(service)
    assert service.get("network_mode", "none") == "none"
    assert "container_name" not in service, "it could not be scaled"


@each_service
def test_a_service_has_limits_and_is_begun_again(name):
    service = SERVICES[name]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert service["restart"] == ("no" if name in ONE_SHOTS else "unless-stopped")
    assert service["logging"]["options"]["max-size"]


@each_service
def test_a_service_mounts_named_volumes_and_files_of_ours_only(name):
    for volume in SERVICES[name].get("volumes", ()):
        source, target, *_ = volume.split(":")
        assert source in COMPOSE["volumes"]
        assert target.startswith("/var/lib/")
    for config in SERVICES[name].get("configs", ()):
        assert (REPOSITORY / COMPOSE["configs"][config["source"]]["file"]).is_file()


@each_service
def test_what_a_service_waits_for_comes_to_it(name):
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        if how["condition"] == "service_completed_successfully":
            assert needed in ONE_SHOTS
        else:
            assert how["condition"] == "service_healthy"
            healthcheck = SERVICES[needed].get("healthcheck")
            assert healthcheck is None or "test" in healthcheck
            assert healthcheck or image_of(SERVICES[needed]).healthcheck()


def test_only_the_api_can_be_reached_and_only_from_this_machine():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8000:8000"]}
    outside = {name for name, service in SERVICES.items() if "outside" in service.get("networks", ())}
    assert outside == {"api"}
    assert all(COMPOSE["networks"][name]["internal"] for name in ("database", "nodes"))
    assert SERVICES["api"]["environment"]["ANTECAST_AUTH"] == "keys"


def test_nodes_reach_neither_the_database_nor_its_passwords():
    for name in ("node-1", "node-2"):
        assert SERVICES[name]["networks"] == ["nodes"]
        assert not any(volume.startswith("passwords:") for volume in SERVICES[name]["volumes"])
    with_passwords = {
        name for name, service in SERVICES.items() if "passwords:" in " ".join(service.get("volumes", ()))
    }
    assert with_passwords == set(SERVICES) - {"node-1", "node-2"}
    assert all(
        volume.endswith(":ro")
        for name in with_passwords - {"passwords"}
        for volume in SERVICES[name]["volumes"]
        if volume.startswith("passwords:")
    )


def test_no_password_is_in_the_files():
    for path in (COMPOSE_FILE, *(REPOSITORY / name for name in DOCKERFILES), REPOSITORY / ".dockerignore"):
        text = path.read_text()
        assert not re.search(r"://[^/\s:@]+:[^@\s]+@", text), path
        assert not re.search(r"(?i)(password|secret|token)\w*\s*[:=]\s*[\"']?(?!/)[a-z0-9]{6,}", text), path
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            assert "PASSWORD" not in key or (key.endswith("_FILE") and value.startswith("/var/lib/")), key


def test_no_registry_is_named():
    names = [service["image"] for service in SERVICES.values()]
    names += [base for path in DOCKERFILES for base in image(path).bases]
    for name in names:
        assert re.fullmatch(r"[a-z0-9-]+:[a-z0-9.-]+", name), name
        assert not name.endswith(":latest")
    for path in (COMPOSE_FILE, *(REPOSITORY / name for name in DOCKERFILES)):
        assert not re.search(r"index-url|trusted-host|find-links|\.io/|ghcr|pypi", path.read_text()), path


@each_dockerfile
def test_an_image_is_installed_from_the_lock_and_runs_without_tools_as_nobody(path):
    made = image(path)
    assert len(made.stages) == 2
    build = " ".join(rest for name, rest in made.stages[0] if name == "RUN")
    assert "--require-hashes --only-binary :all:" in build
    assert "uninstall --yes setuptools" in build
    last = " ".join(rest for name, rest in made.stages[1] if name == "RUN")
    assert "pip install" not in last
    assert "pip uninstall" in last
    assert not re.search(r"gcc|build-essential|git|curl", last)
    assert made.last("USER") == UID
    assert made.stages[1][-1][0] in ("ENTRYPOINT", "CMD")
    assert made.words("ENTRYPOINT")


def test_the_service_image_is_asked_for_its_health_by_readyz():
    assert "/readyz" in " ".join(image("Dockerfile").healthcheck())


@pytest.mark.parametrize("name", OURS)
def test_our_services_run_as_the_user_that_owns_the_folders_of_their_image(name):
    made = image_of(OURS[name])
    folders = " ".join(rest for instruction, rest in made.stages[-1] if instruction == "RUN")
    assert OURS[name]["user"] == UID
    for volume in OURS[name].get("volumes", ()):
        _, target, *_ = volume.split(":")
        assert re.search(
            rf"--owner 10001 --group 10001 --mode 0\d\d0 [^&]*{re.escape(target)}(\s|$)", folders
        )


@each_dockerfile
def test_what_an_image_copies_is_there_and_not_ignored(path):
    patterns = (REPOSITORY / ".dockerignore").read_text().split("\n")
    let_in = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    for source in image(path).sources():
        assert (REPOSITORY / source).exists(), source
        assert any(source == name or source.startswith(name + "/") for name in let_in), source


def test_the_service_image_holds_all_packages():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wanted = project["tool"]["setuptools"]["packages"]["find"]["include"]
    copied = set(image("Dockerfile").sources())
    assert {pattern.rstrip("*") for pattern in wanted} <= copied
    assert not any(fnmatch.fnmatch("tests", pattern) for pattern in copied)


def test_the_service_image_takes_the_executor_from_this_checkout():
    """The simulator needs its calibration; no index is asked for it, and nothing it needs is taken away."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert any(item.split(">")[0] == "antecast-executor" for item in project["project"]["dependencies"])
    made = image("Dockerfile")
    assert {"executor/src", "executor/pyproject.toml"} <= set(made.sources())
    build = " ".join(rest for name, rest in made.stages[0] if name == "RUN")
    assert "install --no-deps --no-build-isolation . ./executor" in build
    assert "uninstall --yes setuptools" in build
    assert "nvidia-ml-py" not in build


def test_the_executor_image_installs_what_the_executor_needs_and_nothing_else():
    """Its lock is cut out of the service's by the command in its Dockerfile."""
    (line,) = [rest for name, rest in image("executor/Dockerfile").stages[0] if "awk" in rest]
    program = re.match(r"awk '([^']+)' requirements.lock > executor.lock", line)[1]
    cut = run("awk", program, str(REPOSITORY / "requirements.lock")).stdout
    assert re.findall(r"^([a-z0-9-]+)==", cut, re.MULTILINE) == ["nvidia-ml-py", "setuptools"]
    assert cut.count("--hash=sha256:") >= 2
