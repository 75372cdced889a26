"""Child processes: what they answer, how they end, and that none is left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_support.processes import environment, is_alive, until

from app.runs.children import KEPT_STDERR_BYTES, _Heard, run_child
from app.runs.errors import ChildFailedError, ChildRefusedError, ChildTimeoutError, RunCancelledError

ENVIRONMENT = {"PYTHONPATH": environment("")["PYTHONPATH"]}


def run(request, limit_s=60, check=lambda: None, **more):
    return run_child(
        "test", request, limit_s, check, module="run_support.child", environment=ENVIRONMENT, **more
    )


def pids(folder):
    return [int(path.stem) for path in folder.glob("*.pid")]


def test_the_request_goes_in_and_the_answer_comes_out():
    assert run({"text": "é", "big": "x" * 1_000_000})["echo"] == {"text": "é", "big": "x" * 1_000_000}


def test_what_libraries_print_does_not_get_into_the_answer():
    assert run({"do": "print"})["echo"] == {"do": "print"}


def test_a_refusal_comes_with_its_words():
    with pytest.raises(ChildRefusedError, match="put pools first") as refused:
        run({"do": "refuse"})
    assert refused.value.kind == "SettingError"


def test_a_crash_tells_the_end_of_what_was_said():
    with pytest.raises(ChildFailedError, match=r"exit code 7.*the last words$") as failed:
        run({"do": "crash"})
    assert len(str(failed.value)) < 3_000


def test_an_end_without_an_answer_is_a_failure():
    with pytest.raises(ChildFailedError, match="exit code 0 and no answer"):
        run({"do": "exit silently"})


def test_an_unknown_child_is_a_failure():
    with pytest.raises(ChildFailedError, match="No module named"):
        run_child("no_such_child", {}, 60)


def test_an_answer_has_a_largest_size(monkeypatch):
    monkeypatch.setattr("app.runs.children.MAX_ANSWER_BYTES", 10_000)
    with pytest.raises(ChildFailedError, match="ask for less"):
        run({"do": "flood", "bytes": 2_000_000})


def test_at_the_limit_the_whole_group_is_killed(tmp_path):
    with pytest.raises(ChildTimeoutError, match="after 3 s"):
        run({"do": "fork", "folder": str(tmp_path)}, limit_s=3)
    assert len(pids(tmp_path)) == 2
    until(lambda: not any(map(is_alive, pids(tmp_path))), "the end of the group")


def test_a_cancelled_child_is_killed(tmp_path):
    def check():
        if pids(tmp_path):
            raise RunCancelledError

    with pytest.raises(RunCancelledError):
        run({"do": "wait", "folder": str(tmp_path)}, check=check)
    (pid,) = pids(tmp_path)
    assert not is_alive(pid)


def test_progress_is_told_and_kept_out_of_errors():
    told = []
    run({"do": "progress"}, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (4, 4)


def test_standard_error_is_kept_at_its_end_only():
    heard = _Heard("test", None)
    for _ in range(100):
        heard.take_err(b"x" * 10_000)
    heard.take_err(b'\n{"done": 1, "total": 2}\nend')
    assert len(heard.err) <= KEPT_STDERR_BYTES
    with pytest.raises(ChildFailedError, match=r"end$"):
        heard.answer(1)


def test_a_child_dies_with_its_parent(tmp_path):
    program = (
        "from app.runs.children import run_child; import sys; "
        "run_child('test', {'do': 'fork', 'folder': sys.argv[1]}, 60, module='run_support.child')"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment("")) as parent:
        until(lambda: len(pids(tmp_path)) == 2, "the children")
        parent.kill()
    until(lambda: not any(map(is_alive, pids(tmp_path))), "the end of the children")


def test_nothing_stays_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    run({})
    assert len(list(Path("/proc/self/fd").iterdir())) == before
