"""Runs of the command line inside this process, through the same door as the shell's."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def antecast(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["antecast", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
