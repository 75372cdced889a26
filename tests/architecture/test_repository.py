"""Rules about the repository itself."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import REPOSITORY

from solver.policies import POLICIES

PACKAGES = ("app", "data", "domain", "models", "simulator", "solver")
SOURCES = sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))
SMALL_SOURCES = sorted(
    path for name in ("executor", "client") for path in (REPOSITORY / name / "src").rglob("*.py")
)


def functions(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


@pytest.mark.parametrize(
    "path", [*SOURCES, *SMALL_SOURCES], ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_no_file_and_no_function_is_too_long(path):
    assert len(path.read_text().splitlines()) <= 500
    for node in functions(path):
        assert length(node) <= 60, f"{node.name} has {length(node)} lines"


def test_every_policy_has_its_page():
    pages = {path.stem for path in (REPOSITORY / "docs" / "policies").glob("*.md")} - {"README"}
    assert pages == set(POLICIES)
    overview = (REPOSITORY / "docs" / "policies" / "README.md").read_text()
    for name in POLICIES:
        assert f"({name}.md)" in overview


def test_the_wheel_holds_the_packages_and_their_data(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--wheel-dir", str(tmp_path), str(REPOSITORY)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {str(path.relative_to(REPOSITORY)) for path in SOURCES}
    expected |= {"data/philly_like.json", "domain/py.typed"}
    expected |= {f"data/mappings/{path.name}" for path in (REPOSITORY / "data" / "mappings").glob("*.toml")}
    assert expected <= held
    assert not any(name.startswith(("tests", "benchmarks")) for name in held)


def test_every_ignore_pattern_is_anchored_so_that_no_package_vanishes():
    patterns = (REPOSITORY / ".gitignore").read_text().split()
    assert all(pattern.startswith("/") or pattern == "__pycache__/" for pattern in patterns)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_locks_pin_by_hash_and_name_no_index(name):
    text = (REPOSITORY / name).read_text()
    pinned = re.findall(r"^([a-z0-9._-]+)==", text, re.MULTILINE)
    assert len(pinned) > 30
    assert text.count("--hash=sha256:") >= len(pinned)
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)


def test_links_in_the_documents_lead_somewhere():
    documents = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    documents += [*(REPOSITORY / "executor").glob("*.md"), *(REPOSITORY / "client").glob("*.md")]
    for document in documents:
        for target in re.findall(r"\]\(([^)#\s,]+)[)#]", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_nothing_is_unpickled_and_no_shell_is_used():
    for path in [*SOURCES, *SMALL_SOURCES]:
        text = path.read_text()
        assert not re.search(
            r"\bimport (pickle|marshal|shelve|joblib)\b|shell=True|\beval\(|(?<!session\.)\bexec\(", text
        ), path
