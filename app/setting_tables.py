"""Settings for people: what is in force and where it came from, and the reference page of all there are."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from app.runs.settings import WorkerSettings
from app.setting_sources import CONFIG, FILE, PREFIX, holds_password, is_secret, read_config
from app.settings import ServiceSettings, all_settings

HIDDEN: Final = "***"

_SIGNS: Final = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))
_ENTRY: Final = re.compile(r"^ {8}(\w+(?:, \w+)*): (.*)$")


@dataclass(frozen=True, slots=True)
class InForce:
    """One setting as it is.

    Attributes:
        name: of the setting.
        value: as text; secrets hidden.
        source: where it came from.
    """

    name: str
    value: str
    source: str


def in_force(settings: ServiceSettings, given: Mapping[str, Any]) -> list[InForce]:
    """All settings of an instance, in the order of the class.

    Args:
        settings: made with `given`.
        given: what came from the command line.

    Raises:
        SettingError: if the configuration file cannot be read.
    """
    fields = type(settings).model_fields
    path = os.environ.get(CONFIG, "")
    filed = read_config(Path(path), all_settings()) if path else {}
    variables = {name.upper(): name for name in os.environ}
    return [
        InForce(name, shown(name, getattr(settings, name)), _source(name, given, variables, filed))
        for name in fields
    ]


def shown(name: str, value: Any) -> str:
    """A setting's value for people's eyes."""
    text = "" if value is None else str(value)
    field = all_settings().get(name)
    if field is None or not is_secret(field) or not holds_password(text):
        return text
    try:
        parts = urlsplit(text)
        host = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return HIDDEN
    if not parts.scheme:
        return HIDDEN
    return f"{parts.scheme}://{parts.username or ''}:{HIDDEN}@{host}{parts.path}"


def reference() -> str:
    """The table of all settings in Markdown, as docs/settings.md has it."""
    words = {**_words(ServiceSettings), **_words(WorkerSettings)}
    lines = ["| setting | default | allowed | what it is |", "|---|---|---|---|"]
    for name, field in all_settings().items():
        default = "none" if field.default is None else str(getattr(field.default, "value", field.default))
        lines.append(f"| `{name}` | `{default}` | {_allowed(field)} | {words[name]} |")
    return "\n".join(lines) + "\n"


def _source(
    name: str, given: Mapping[str, Any], variables: Mapping[str, str], filed: Mapping[str, Any]
) -> str:
    variable = f"{PREFIX}{name.upper()}"
    if name in given:
        return "command line"
    if variable in variables:
        return f"environment {variables[variable]}"
    if os.environ.get(variable + FILE):
        return f"file {os.environ[variable + FILE]} ({variable}{FILE})"
    if name in filed:
        return f"file {os.environ[CONFIG]}"
    return "default"


def _allowed(field: FieldInfo) -> str:
    choices = _choices(field.annotation)
    if choices:
        return ", ".join(choices)
    bounds = [
        f"{sign} {getattr(limit, attribute):g}"
        for kind, attribute, sign in _SIGNS
        for limit in field.metadata
        if isinstance(limit, kind)
    ]
    if bounds:
        return ", ".join(bounds)
    return "may be in a file of its own" if is_secret(field) else ""


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [str(member.value) for member in getattr(annotation, "__members__", {}).values()]


def _words(kind: type[ServiceSettings]) -> dict[str, str]:
    """What the class's docstring says of each setting."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in (kind.__doc__ or "").splitlines():
        entry = _ENTRY.match(line)
        if entry:
            names = entry[1].split(", ")
            found.update(dict.fromkeys(names, entry[2]))
        elif line.startswith(" " * 12) and names:
            for name in names:
                found[name] = f"{found[name]} {line.strip()}"
        elif not line.startswith(" " * 8):
            names = []
    return found
