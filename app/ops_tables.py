"""Keys, settings and findings as tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from app.services.doctor import Finding, Level
from app.setting_tables import InForce

_STYLES: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def keys_table(keys: Sequence[Mapping[str, Any]]) -> Table:
    """One row per key."""
    table = _table("key", "name", "scopes", "state", "made", "expires", "last used")
    for key in keys:
        table.add_row(
            key["key_id"],
            Text(key["name"]),
            " ".join(key["scopes"]),
            key["state"],
            *(_minute(key[name]) for name in ("created_at", "expires_at", "last_used_at")),
        )
    return table


def settings_table(rows: Sequence[InForce]) -> Table:
    """One row per setting."""
    table = _table("setting", "value", "from")
    for row in rows:
        table.add_row(row.name, Text(row.value), Text(row.source))
    return table


def findings_table(found: Sequence[Finding]) -> Table:
    """One row per finding, and below it what to do."""
    table = _table("", "what", "found")
    for one in found:
        text = Text(one.text)
        if one.hint:
            text.append(f"\n-> {one.hint}")
        table.add_row(Text(one.level.value, style=_STYLES[one.level]), one.name, text)
    return table


def _minute(instant: str | None) -> str:
    return "" if instant is None else instant[:16].replace("T", " ")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
