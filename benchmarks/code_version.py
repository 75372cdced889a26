"""Which code a replay's figures rest on, as a hash: comments, docstrings and formatting do not count.

The modules that `simulator.replay` and its reports import, directly or not, wherever they are
imported; of the policies only the one that is asked about.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from solver.policies import POLICIES

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("antecast_executor", "data", "domain", "models", "simulator", "solver")
SOURCES: Final = (ROOT, ROOT / "executor" / "src")
ENTRANCES: Final = ("simulator.replay", "simulator.report", "simulator.packed_report")
_POLICIES: Final = "solver.policies"


@cache
def code_version(policy: str) -> str:
    """Hash of the code behind a policy's replay.

    Raises:
        KeyError: if there is no such policy.
    """
    own = POLICIES[policy].build.__module__
    digest = hashlib.sha256()
    for module in sorted(modules_behind(own)):
        digest.update(f"{module}\n{_bare(module)}\n".encode())
    return digest.hexdigest()[:16]


def modules_behind(policy_module: str) -> set[str]:
    """Names of our modules that a replay under a policy imports."""
    seen: set[str] = set()
    waiting = [*ENTRANCES, policy_module]
    while waiting:
        module = waiting.pop()
        if module in seen or not _is_ours(module):
            continue
        seen.add(module)
        parent = module.rpartition(".")[0]
        waiting += [parent] if parent else []
        waiting += _imports(module, policy_module)
    return seen


def _imports(module: str, policy_module: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    if module == _POLICIES:
        found = [name for name in found if name in {policy_module, "solver.policies.base"}]
    return found


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    if path is None:
        raise ValueError(f"{module} is no module of ours")
    return ast.parse(path.read_text(encoding="utf-8"))


def _bare(module: str) -> str:
    return ast.dump(_Undocumented().visit(ast.parse(ast.unparse(_tree(module)))), annotate_fields=False)


class _Undocumented(ast.NodeTransformer):
    """Drops texts that stand alone: docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES and _path(module) is not None


def _path(module: str) -> Path | None:
    for source in SOURCES:
        base = source.joinpath(*module.split("."))
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                return path
    return None
