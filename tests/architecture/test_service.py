"""Rules of the service that the import linter cannot see."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY

APP = REPOSITORY / "app"
STATEMENTS = {"select", "insert", "update", "delete", "text", "func", "col"}
HEAVY = (
    "pandas",
    "numpy",
    "scipy",
    "lightgbm",
    "matplotlib",
    "dbos",
    "models",
    "simulator",
    "data",
    "solver.policies",
)
READS_THE_CLOCK = {
    APP / "clock.py",
    APP / "demo" / "loop.py",  # starts the clock of its cluster
}


def sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts)


def imported(path: Path, packages: tuple[str, ...]) -> set[str]:
    """Names that a file imports from packages."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in packages:
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in sources(APP) if APP / "store" not in path.parents],
    ids=lambda path: str(path.relative_to(APP)),
)
def test_only_the_store_holds_sql(path: Path):
    assert not imported(path, ("sqlalchemy", "sqlmodel")) & STATEMENTS


@pytest.mark.parametrize(
    "path",
    [path for path in sources(APP) if path not in READS_THE_CLOCK],
    ids=lambda p: str(p.relative_to(APP)),
)
def test_only_the_clock_reads_the_wall_clock(path: Path):
    """Spans of time may be measured (`time.monotonic`, `time.perf_counter`); instants come from the clock."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            named = f"{owner.id}.{node.func.attr}" if isinstance(owner, ast.Name) else ""
            assert named not in {"datetime.now", "datetime.utcnow", "time.time", "date.today"}, (
                f"{path.name}:{node.lineno}"
            )


def test_the_api_loads_no_models():
    """They live in child processes; the API has to be there at once and to stay small."""
    code = "import sys, app.main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    loaded = set(done.stdout.split())
    assert "app.main" in loaded
    assert not loaded & set(HEAVY)
