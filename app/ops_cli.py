"""The commands for operators: which settings are in force, and what ails the service."""

from typing import Annotated, Any

import typer

from app.setting_options import ConfigOption, DatabaseOption, checked

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
config_commands = typer.Typer(help="Settings of the service.", no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(config_commands, name="config")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]

_EXIT_FAULT = 1


@config_commands.command(
    name="show", epilog="Example: antecast config show --config /etc/antecast/antecast.toml"
)
def show_config(
    as_json: JsonOption = False, database_url: DatabaseOption = None, config: ConfigOption = None
) -> None:
    """Print the settings in force and where each came from; secrets are hidden."""
    del config  # it has been put into the environment
    from app.console import print_json, result_console  # noqa: PLC0415 - slow to load
    from app.ops_tables import settings_table  # noqa: PLC0415
    from app.runs.settings import WorkerSettings  # noqa: PLC0415
    from app.setting_tables import in_force  # noqa: PLC0415

    given: dict[str, Any] = {} if database_url is None else {"database_url": database_url}
    rows = in_force(checked(WorkerSettings, given), given)
    if as_json:
        print_json({one.name: {"value": one.value, "source": one.source} for one in rows})
    else:
        result_console().print(settings_table(rows))


@config_commands.command(name="reference")
def show_reference() -> None:
    """Print the table of all settings in Markdown: that of docs/settings.md."""
    from app.setting_tables import reference  # noqa: PLC0415 - slow to load

    typer.echo(reference(), nl=False)


@commands.command(epilog="Example: antecast doctor --json")
def doctor(
    as_json: JsonOption = False, database_url: DatabaseOption = None, config: ConfigOption = None
) -> None:
    """Look for what ails the service on this machine: a line each, and what to do about it.

    Exit codes: 0 all is well, or there are only warnings; 1 something fails; 2 the settings cannot be used.
    """
    del config  # it has been put into the environment
    from app.console import print_json, result_console  # noqa: PLC0415 - slow to load
    from app.ops_tables import findings_table  # noqa: PLC0415
    from app.runs.settings import WorkerSettings  # noqa: PLC0415
    from app.services.doctor import Level, examine  # noqa: PLC0415

    found = examine(checked(WorkerSettings, {"database_url": database_url}))
    worst = max((one.level for one in found), key=list(Level).index)
    if as_json:
        items = [{"name": one.name, "level": one.level, "text": one.text, "hint": one.hint} for one in found]
        print_json({"level": worst, "items": items})
    else:
        result_console().print(findings_table(found))
    if worst is Level.FAIL:
        raise typer.Exit(_EXIT_FAULT)
