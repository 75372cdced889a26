"""Settings, secrets in files, and logs that cannot be forged."""

import io
import json
import logging
import random
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from control_plane import DEADLINE_S, TOKEN, ControlPlane

from antecast_executor.cli import main
from antecast_executor.client import Client, Credentials, Unreachable
from antecast_executor.config import ConfigError, load, read_secret, write_secret
from antecast_executor.link import BACK_OFF_MAX_S, BackOff
from antecast_executor.logs import clean, set_up

GOOD = {"url": "https://cp.example/", "state": "/s", "node": "n1"}


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_options_win_over_the_environment() -> None:
    environ = {
        "ANTECAST_EXECUTOR_TICK_S": "2",
        "ANTECAST_EXECUTOR_NODE": "env",
        "ANTECAST_EXECUTOR_DEVICES": "sim",
    }
    found = load(GOOD, environ)
    assert (found.url, found.node, found.tick_s, found.devices) == ("https://cp.example", "n1", 2.0, "sim")


@pytest.mark.parametrize(
    ("url", "expected"),
    [("https://cp", False), ("http://localhost:8000", False), ("http://[::1]:8", False), ("http://cp", True)],
)
def test_clear_text_is_noticed(url: str, expected: bool) -> None:
    assert load(GOOD | {"url": url}, {}).is_open_to_listeners is expected


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"url": "ftp://x"}, "url"),
        ({"url": "https://user:pw@x"}, "url"),
        ({"url": "https:///x"}, "url"),
        ({"url": None}, "url"),
        ({"node": "a b"}, "node"),
        ({"node": "../x"}, "node"),
        ({"devices": "amd"}, "devices"),
        ({"sim_gpus": 0}, "sim-gpus"),
        ({"tick_s": "nan"}, "tick-s"),
        ({"tick_s": "soon"}, "tick-s"),
    ],
)
def test_a_wrong_setting_is_named(change: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load(GOOD | change, {})


def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_secret(path, "s\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret(path) == "s"
    for mode in (0o640, 0o604):
        path.chmod(mode)
        with pytest.raises(ConfigError, match="chmod 600"):
            read_secret(path)
    path.chmod(0o600)
    path.write_text(" \n")
    with pytest.raises(ConfigError, match="empty"):
        read_secret(path)


def test_a_secret_does_not_show_in_its_repr() -> None:
    assert "s3cret" not in repr(Credentials("ex", "s3cret"))


def test_a_log_line_cannot_be_forged() -> None:
    stream = io.StringIO()
    set_up(stream)
    logging.getLogger("x").info("name %s", 'a\n{"level": "forged"}\x1b[2J\u202e\ud800' + "x" * 10_000)
    (line,) = stream.getvalue().splitlines()
    body = json.loads(line)
    assert body["level"] == "info"
    assert not set(body["message"]) & {"\n", "\x1b", "\u202e", "\ud800"}
    assert len(line) < 3000


def test_clean_keeps_what_people_write() -> None:
    assert clean("größe 模型") == "größe 模型"


def test_back_off_grows_to_half_a_minute_with_full_jitter() -> None:
    back_off = BackOff(random.Random(1))  # noqa: S311 - jitter
    waits = [back_off.next_s() for _ in range(200)]
    assert waits[0] <= 1.0
    assert max(waits) <= BACK_OFF_MAX_S
    assert max(waits) > 0.9 * BACK_OFF_MAX_S
    assert min(waits[10:]) < 0.1 * BACK_OFF_MAX_S
    back_off.reset()
    assert back_off.next_s() <= 1.0


def test_nobody_there_is_unreachable_and_not_a_crash() -> None:
    client = Client("http://127.0.0.1:9")
    with pytest.raises(Unreachable):
        client.status(Credentials("ex", "s"), {})
    client.close()


def test_run_without_a_token_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--url", "http://127.0.0.1:9", "--state", str(tmp_path), "--devices", "sim"]) == 2
    assert "--token-file is needed" in capsys.readouterr().err


def test_doctor_says_what_can_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o700)
    assert main(["doctor", "--state", str(tmp_path), "--devices", "sim"]) == 0
    found = capsys.readouterr().out
    assert "squeeze: advisory" in found
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
    tmp_path.chmod(0o755)
    assert main(["doctor", "--state", str(tmp_path), "--devices", "sim"]) == 1


def test_https_is_checked_against_the_certificates_it_was_given(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with: TLS was not tried")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *made, *names], check=True, capture_output=True, timeout=DEADLINE_S)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with ControlPlane(tls=tls).running() as plane:
        url = plane.url.replace("http://127.0.0.1", "https://localhost")
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            Client(url).enroll(TOKEN, node="n", version="0")
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            Client(url.replace("localhost", "127.0.0.1"), ca_file=certificate).enroll(
                TOKEN, node="n", version="0"
            )
        assert not plane.tokens_used
        who = Client(url, ca_file=certificate).enroll(TOKEN, node="n", version="0")
        assert who.executor_id == "ex-1"
