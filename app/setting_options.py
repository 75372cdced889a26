"""Options that commands of the service share, and how their settings are made. Nothing slow is loaded."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///path/to/file or postgresql://user@host/name "
        "[env: ANTECAST_DATABASE_URL; default: sqlite:///var/antecast.db].",
    ),
]


def _use_config(path: Path | None) -> Path | None:
    """Into the environment: the processes that a command starts read the same file."""
    if path is not None:
        os.environ["ANTECAST_CONFIG"] = str(path.resolve())
    return path


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of settings; the environment wins [env: ANTECAST_CONFIG].",
        callback=_use_config,
        expose_value=True,
        dir_okay=False,
    ),
]


def checked(kind: Any, given: dict[str, Any]) -> Any:
    """Settings of a class, from the command line, the environment and files.

    Raises:
        SettingError: for what is unknown, out of range, or does not fit together.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load

    from domain.errors import SettingError  # noqa: PLC0415

    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" if one["loc"] else str(one["msg"])
            for one in error.errors()
        )
        raise SettingError(reasons) from None


def service_settings(**given: Any) -> Any:
    """The service's settings; None is what was not given.

    Raises:
        SettingError: as `checked`.
    """
    from app.settings import ServiceSettings  # noqa: PLC0415 - slow to load

    return checked(ServiceSettings, given)
