"""Where settings come from, what is refused, and what is shown of them."""

import json
import re

import pytest
from pydantic import ValidationError
from support import REPOSITORY

from app.runs.settings import WorkerSettings
from app.setting_tables import reference
from app.settings import ServiceSettings, all_settings, as_variables
from domain.errors import SettingError

PASSWORD = "open sesame"  # noqa: S105 - that is the point


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in all_settings():
        monkeypatch.delenv(f"ANTECAST_{name.upper()}", raising=False)
    monkeypatch.setenv("ANTECAST_CONFIG", "")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(monkeypatch, tmp_path):
    def write(text, mode=0o644):
        path = tmp_path / "antecast.toml"
        path.write_text(text)
        path.chmod(mode)
        monkeypatch.setenv("ANTECAST_CONFIG", str(path))
        return path

    return write


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(config, monkeypatch):
    config('host = "::1"\nport = 1\nworker_slots = 7\nqueue_poll_s = 0.5\n')
    monkeypatch.setenv("ANTECAST_PORT", "2")
    monkeypatch.setenv("ANTECAST_WORKER_SLOTS", "3")
    made = WorkerSettings(worker_slots=4)
    assert (made.host, made.port, made.worker_slots, made.queue_poll_s) == ("::1", 2, 4, 0.5)
    assert ServiceSettings().host == "::1", "what only workers have does not disturb the others"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", r"antecast.toml: 'prot' is no setting; did you mean port\?"),
        ("quite_else = 1", r"'quite_else' is no setting$"),
        ("[server]\nport = 1", "'server' is no setting"),
        ("port = ", "cannot be read: Invalid value"),
    ],
)
def test_a_file_that_says_what_nobody_knows_is_refused(config, text, words):
    config(text)
    with pytest.raises(SettingError, match=words):
        ServiceSettings()


def test_a_file_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("ANTECAST_CONFIG", "/nowhere/antecast.toml")
    with pytest.raises(SettingError, match=r"/nowhere/antecast.toml cannot be read: No such file"):
        ServiceSettings()


def test_a_variable_that_is_no_setting_is_refused_and_others_names_are_left_alone(monkeypatch):
    for name in (
        "ANTECAST_SERVICE_HOST",
        "ANTECAST_PORT_8000_TCP_ADDR",
        "ANTECAST_EXECUTOR_NODE",
        "ANTECAST_URL",
    ):
        monkeypatch.setenv(name, "x")
    ServiceSettings()
    monkeypatch.setenv("ANTECAST_DATABSE_URL", "sqlite:///x.db")
    with pytest.raises(
        SettingError, match=r"ANTECAST_DATABSE_URL is no setting; did you mean ANTECAST_DATABASE_URL\?"
    ):
        ServiceSettings()


def test_a_secret_may_stand_in_a_file_of_its_own_that_nobody_else_may_read(monkeypatch, tmp_path):
    path = tmp_path / "url"
    path.write_text(f"postgresql://a:{PASSWORD}@h/d\n")
    path.chmod(0o600)
    monkeypatch.setenv("ANTECAST_DATABASE_URL_FILE", str(path))
    assert ServiceSettings().database_url == f"postgresql://a:{PASSWORD}@h/d"
    path.chmod(0o640)
    with pytest.raises(SettingError, match=r"others may read .*url \(mode 0640\): chmod 600"):
        ServiceSettings()
    path.chmod(0o600)
    monkeypatch.setenv("ANTECAST_DATABASE_URL", "sqlite:///x.db")
    with pytest.raises(
        SettingError, match="both ANTECAST_DATABASE_URL and ANTECAST_DATABASE_URL_FILE are set"
    ):
        ServiceSettings()
    for name, value in as_variables({"database_url": "sqlite:///y.db", "models_dir": None}).items():
        monkeypatch.setenv(name, value)  # what a process hands on to another is enough
    assert ServiceSettings().database_url == "sqlite:///y.db"
    monkeypatch.setenv("ANTECAST_PORT_FILE", str(path))
    with pytest.raises(SettingError, match="ANTECAST_PORT_FILE is no setting"):
        ServiceSettings()


def test_a_configuration_with_a_secret_must_not_be_readable_by_others(config):
    path = config(f'database_url = "postgresql://a:{PASSWORD}@h/d"')
    with pytest.raises(SettingError, match="holds database_url: others may read"):
        ServiceSettings()
    path.chmod(0o600)
    assert ServiceSettings().database_url.endswith("@h/d")
    config('database_url = "sqlite:////srv/antecast.db"')
    assert ServiceSettings().database_url.startswith("sqlite"), "no password, no secret"


@pytest.mark.parametrize(
    ("given", "both"),
    [
        ({"auth": "off", "host": "10.0.0.1"}, ("auth", "host")),
        ({"decide_limit_s": 61, "plan_limit_s": 60}, ("decide_limit_s", "plan_limit_s")),
        ({"status_every_s": 6, "lease_s": 10}, ("status_every_s", "lease_s")),
        ({"stop_wait_s": 30}, ("stop_wait_s", "30 s")),
        ({"max_body_kib": 2048, "max_upload_mib": 1}, ("max_body_kib", "max_upload_mib")),
        ({"queue_poll_s": 5, "worker_lease_s": 4}, ("queue_poll_s", "worker_lease_s")),
    ],
)
def test_what_does_not_fit_together_is_refused_naming_both(given, both):
    with pytest.raises(ValidationError) as refused:
        WorkerSettings(**given)
    assert all(side in str(refused.value) for side in both)


@pytest.mark.parametrize("command", [("worker",), ("serve", "--no-worker")])
def test_processes_that_are_started_apart_need_one_clock(antecast, monkeypatch, command):
    monkeypatch.setenv("ANTECAST_CLOCK_SPEED", "60")
    result = antecast(*command)
    assert result.code == 2
    assert "clock_speed is 60 and clock_origin is not set" in result.err


def test_config_show_says_where_each_value_comes_from_and_hides_secrets(antecast, monkeypatch, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        f'database_url = "postgresql://me:{PASSWORD.replace(" ", "%20")}@db:5433/d?x=1"\nport = 81\n'
    )
    path.chmod(0o600)
    monkeypatch.setenv("ANTECAST_HOST", "::1")
    shown = json.loads(antecast("config", "show", "--json", "--config", path).out)
    assert shown["host"] == {"value": "::1", "source": "environment ANTECAST_HOST"}
    assert shown["port"] == {"value": "81", "source": f"file {path}"}
    assert shown["database_url"]["value"] == "postgresql://me:***@db:5433/d"
    assert shown["auth"] == {"value": "keys", "source": "default"}
    given = antecast("config", "show", "--config", path, "--database-url", "sqlite:///x.db")
    assert "sqlite:///x.db" in given.out
    assert "command line" in given.out
    assert "sesame" not in given.out


def test_the_page_of_settings_is_that_of_the_program():
    page = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    wanted = reference()
    assert all(row.count("|") == 5 and not row.endswith("|  |") for row in wanted.splitlines()), (
        "each has its words"
    )
    assert wanted in page, "write it anew: antecast config reference"
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == set(all_settings())
