"""The service as a real process."""

import re
import subprocess
import sys

import httpx
import pytest

from app.settings import ServiceSettings


def test_it_answers_healthz(tmp_path):
    command = [sys.executable, "-m", "app", "serve", "--port", "0"]
    command += ["--database-url", f"sqlite:///{tmp_path / 'antecast.db'}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next(
                found[1] for line in process.stderr if (found := re.search(r"running on (http://\S+)", line))
            )
            answer = httpx.get(f"{address}/healthz")
            assert answer.status_code == 200
            assert answer.json()["status"] == "ok"
            assert re.fullmatch(r"\d+\.\d+\.\d+", answer.json()["version"])
        finally:
            process.terminate()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org"])  # noqa: S104 - that is the point
def test_without_keys_it_listens_on_loopback_only(host, antecast, monkeypatch):
    monkeypatch.setenv("ANTECAST_AUTH", "off")
    result = antecast("serve", "--host", host)
    assert result.code == 2
    assert "not on loopback" in result.err


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("ANTECAST_PORT", "8123")
    monkeypatch.setenv("ANTECAST_HOST", "::1")
    assert (ServiceSettings().host, ServiceSettings().port) == ("::1", 8123)
