"""The commands for API keys: in the database itself, with or without a running service."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.service_cli import migrate_database, seconds_of
from app.setting_options import ConfigOption, DatabaseOption, service_settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
key_commands = typer.Typer(help="API keys.", no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(key_commands, name="keys")
commands.add_typer(key_commands, name="key", hidden=True)  # as it was called at first

ExpiresOption = Annotated[
    str | None,
    typer.Option("--expires-in", metavar="SPAN", help="It is refused after this: 12h, 90d [default: never]."),
]
KeyArgument = Annotated[str, typer.Argument(help="The key's id, as `antecast keys list` shows it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@key_commands.command(
    name="create",
    epilog="Example: (umask 077; antecast keys create me --scope admin > ~/.config/antecast/key)",
)
def create_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; appears in logs and runs.")],
    scope: Annotated[list[str], typer.Option("--scope", help="read, plan, apply or admin; may be repeated.")],
    expires_in: ExpiresOption = None,
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Make an API key and print it, this once.

    read: look at everything. plan: replans, imports, what-ifs, epochs. apply: events and decisions (a
    scheduler's key). admin: everything, also clusters, nodes and keys.
    """
    del config  # it has been put into the environment
    from app.services import keys  # noqa: PLC0415 - slow to load

    lives_s = None if expires_in is None else seconds_of(expires_in)
    with _database(database_url) as engine:
        typer.echo(keys.create(engine, name, scope, lives_s=lives_s))


@key_commands.command(name="list", epilog="Example: antecast keys list --json")
def list_keys(
    as_json: JsonOption = False, database_url: DatabaseOption = None, config: ConfigOption = None
) -> None:
    """Show all keys without their secrets, the oldest first, and when each was last used."""
    del config  # it has been put into the environment
    from app.clock import SystemClock  # noqa: PLC0415 - slow to load
    from app.console import print_json, result_console  # noqa: PLC0415
    from app.ops_tables import keys_table  # noqa: PLC0415
    from app.services import keys  # noqa: PLC0415

    with _database(database_url) as engine:
        now = SystemClock().now()
        rows: list[dict[str, Any]] = [
            {**row.model_dump(mode="json", exclude={"secret_sha256"}), "state": keys.state_of(row, now)}
            for row in keys.listed(engine)
        ]
    if as_json:
        print_json({"items": rows})
    else:
        result_console().print(keys_table(rows))


@key_commands.command(name="revoke", epilog="Example: antecast keys revoke 0123456789abcdef")
def revoke_key(key_id: KeyArgument, database_url: DatabaseOption = None, config: ConfigOption = None) -> None:
    """Refuse a key from now on."""
    del config  # it has been put into the environment
    from app.clock import SystemClock  # noqa: PLC0415 - slow to load
    from app.services import keys  # noqa: PLC0415

    with _database(database_url) as engine:
        keys.revoke(engine, key_id, SystemClock())
    typer.echo(f"key {key_id} is revoked", err=True)


@key_commands.command(
    name="rotate",
    epilog="Example: (umask 077; antecast keys rotate 0123456789abcdef --overlap 1d > key)",
)
def rotate_key(
    key_id: KeyArgument,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="SPAN", help="How long the old key stays valid: 0, 2h, 1d.")
    ] = "1d",
    expires_in: ExpiresOption = None,
    database_url: DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a key of the same name and scopes and print it, this once; the old one is valid for a while."""
    del config  # it has been put into the environment
    from app.clock import SystemClock  # noqa: PLC0415 - slow to load
    from app.services import keys  # noqa: PLC0415

    overlap_s = seconds_of(overlap)
    lives_s = None if expires_in is None else seconds_of(expires_in)
    with _database(database_url) as engine:
        made = keys.rotate(engine, key_id, overlap_s, SystemClock(), lives_s=lives_s)
    typer.echo(made.key)
    typer.echo(f"key {key_id} is valid until {made.old_ends_at:%Y-%m-%d %H:%M:%S} UTC", err=True)


@contextmanager
def _database(database_url: str | None) -> "Iterator[Engine]":
    """The database, brought up to date."""
    from app.store.engine import make_engine  # noqa: PLC0415 - slow to load

    url = service_settings(database_url=database_url).database_url
    migrate_database(url)
    engine = make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()
