"""Lines of the log: one event, one line, whatever the names in it are."""

import json
import logging
import sys

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from app import logs
from app.runs.children import run_child


@pytest.fixture
def lines(capsys):
    """What has been logged as JSON, line by line."""
    before = structlog.get_config()
    yield lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()
    logging.basicConfig(handlers=[], force=True)


HOSTILE = 'a\n{"event": "forged"}\r\x1b[31m\u2028\ud800\0"'


@pytest.mark.usefixtures("lines")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_hostile_name_breaks_no_line(capsys, log_format):
    logs.set_up(log_format)
    structlog.get_logger("test").info("request", path=HOSTILE, caller="me")
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert text.isascii()
    assert "\x1b" not in text
    assert "forged" in text


@given(st.text())
def test_what_is_escaped_can_be_printed_and_what_can_is_left_alone(text):
    event = logs.printable(None, "info", {"event": text})
    assert event["event"].isprintable()
    assert event["event"] == text or not text.isprintable()


def test_libraries_log_alike_and_what_is_less_important_is_left_out(lines):
    logs.set_up("json", "warning")
    structlog.get_logger("test").info("not this")
    logging.getLogger("uvicorn.error").warning("that %s", "one")
    (line,) = lines()
    assert (line["event"], line["level"]) == ("that one", "warning")


def test_a_child_says_whose_work_it_does_and_its_lines_come_through(lines, monkeypatch, tmp_path):
    (tmp_path / "talker.py").write_text(
        "import structlog\n"
        "from app.children import main\n"
        "def answer(request):\n"
        "    structlog.get_logger('child').warning('half way', job='\\n')\n"
        "    print('no line of the log')\n"
        "    return {}\n"
        "main(answer)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    logs.set_up("json")
    with structlog.contextvars.bound_contextvars(run_id="run-1"):
        assert run_child("talker", {}, 60.0, module="talker") == {}
    (line,) = lines()
    assert {
        "event": "half way",
        "run_id": "run-1",
        "child": "talker",
        "level": "warning",
    }.items() <= line.items()
