"""Where settings come from: the environment, files that it names, a TOML file. Unknown names are refused."""

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from domain.errors import SettingError

PREFIX: Final = "ANTECAST_"
CONFIG: Final = "ANTECAST_CONFIG"
"""Environment variable: path of the TOML file."""

FILE: Final = "_FILE"
SECRET: Final = "is_secret"  # noqa: S105 - the name of a mark
"""Key in a field's `json_schema_extra`: its value is never shown, and may stand in a file of its own."""

OTHER_VARIABLES: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "API_KEY",
        "BENCH_ROOT",
        "CHILD_LIFELINE",
        "CONFIG",
        "HISTORY_DIR",
        "KEY_FILE",
        "LOG_CONTEXT",
        "PASSWORD_FILE",
        "PUBLISHED_PORT",
        "SUPERVISOR_LIFELINE",
        "URL",
    )
)
"""Variables of ours that are no settings of the service: of the command line, Compose, the processes."""

_NOT_OURS: Final = re.compile(
    r"ANTECAST_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?"
    r"|(EXECUTOR|SIM|TEST|MPS|JOB|PLACEMENT|NUM|RANK).*)"
)
"""What Kubernetes sets for a Service named antecast, and what belongs to executors and their jobs."""


def is_secret(field: FieldInfo) -> bool:
    """Whether a setting's value is a secret, or may hold one."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(SECRET))


def holds_password(text: str) -> bool:
    """Whether a URL has a password in it; what is no URL counts as one."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    return not parts.scheme or parts.password is not None or "password" in parse_qs(parts.query)


def nearest(name: str, known: Collection[str]) -> str:
    """A hint: the known name that is most like another; empty where none is."""
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def require_known_variables(known: Collection[str], environment: Mapping[str, str]) -> None:
    """Refuse variables that look like settings and are none.

    Args:
        known: names of all settings and of what else may be set, in upper case with the prefix.
        environment: all variables.

    Raises:
        SettingError: naming the first that is unknown, and the known one that is most like it.
    """
    for name in sorted(environment):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and _NOT_OURS.fullmatch(upper) is None:
            raise SettingError(f"the environment variable {name} is no setting{nearest(upper, known)}")


def read_private(path: Path, what: str) -> str:
    """The text of a file with a secret, without its last line break.

    Raises:
        SettingError: if it cannot be read, or others may read it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{what}: {path} cannot be read: {_reason(error)}") from None
    if mode & 0o077:
        raise SettingError(f"{what}: others may read {path} (mode {mode:04o}): chmod 600 {path}")
    return text.removesuffix("\n").removesuffix("\r")


class SecretFiles(PydanticBaseSettingsSource):
    """`ANTECAST_<NAME>_FILE`: path of a file that holds the setting's value, for secrets only."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The text of the file that the variable names; None where it is not set, or empty."""
        variable = f"{PREFIX}{field_name.upper()}"
        path = os.environ.get(variable + FILE, "")
        if not is_secret(field) or not path:
            return None, field_name, False
        if variable in os.environ:
            raise SettingError(f"both {variable} and {variable}{FILE} are set: unset one of them")
        return read_private(Path(path), variable + FILE), field_name, False

    def __call__(self) -> dict[str, Any]:
        """All settings that files hold."""
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}


class ConfigFile(PydanticBaseSettingsSource):
    """The TOML file that `ANTECAST_CONFIG` names: settings by their names, no tables.

    Args:
        settings_cls: whose settings are wanted.
        known: all settings there are; the file is shared by processes that do not have the same ones.
    """

    def __init__(self, settings_cls: type[BaseSettings], known: Mapping[str, FieldInfo]) -> None:
        super().__init__(settings_cls)
        self._known = known

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not used: the file is read as a whole."""
        del field
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """All settings of the file that this class has."""
        path = os.environ.get(CONFIG, "")
        if not path:
            return {}
        found = read_config(Path(path), self._known)
        return {name: value for name, value in found.items() if name in self.settings_cls.model_fields}


def read_config(path: Path, known: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """The settings in a TOML file.

    Raises:
        SettingError: if it cannot be read, names what is no setting, or holds a secret that others may read.
    """
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"the configuration {path} cannot be read: {_reason(error)}") from None
    for name, value in found.items():
        if name not in known:
            raise SettingError(f"{path}: {name!r} is no setting{nearest(name, known)}")
        if is_secret(known[name]) and holds_password(str(value)):
            read_private(path, f"{path} holds {name}")
    return found


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
