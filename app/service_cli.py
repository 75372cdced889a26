"""The commands that run the service. What asks a running one is in `app.client_cli`; nothing slow here."""

import os
import re
import signal
from typing import Annotated, Any, Final

import typer

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
key_commands = typer.Typer(help="API keys.", no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(key_commands, name="key")

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///path/to/file or postgresql://user@host/name "
        "[env: ANTECAST_DATABASE_URL; default: sqlite:///var/antecast.db].",
    ),
]

_SERVER_LOG: Final = "info"
_WAIT_FOR_CONNECTIONS_S: Final = 5


@commands.command()
def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on [env: ANTECAST_HOST].")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port [env: ANTECAST_PORT].")] = None,
    database_url: DatabaseOption = None,
    auth: Annotated[
        str | None, typer.Option("--auth", help="keys, or off (on loopback only) [env: ANTECAST_AUTH].")
    ] = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="The API alone; workers run elsewhere: `antecast worker`.")
    ] = False,
) -> None:
    """Run the service: the API and one worker; Ctrl-C ends both.

    GET /readyz answers 200 once it can work. Who asks needs a key: `antecast key create`.
    """
    settings = _settings(host=host, port=port, database_url=database_url, auth=auth)
    if no_worker:
        _serve_here(settings)
        return
    from app.supervise import Supervisor  # noqa: PLC0415 - not for the other commands

    migrate_database(settings.database_url)
    supervisor = Supervisor(_environment(settings))
    supervisor.add("API", ["serve", "--no-worker"], is_restarted=False)
    supervisor.add("worker", ["worker"], is_restarted=True)
    raise typer.Exit(supervisor.run())


@commands.command()
def worker(database_url: DatabaseOption = None) -> None:
    """Run one worker: it carries out replans, imports and what-ifs. Run as many as you like."""
    from app.logs import set_up  # noqa: PLC0415 - slow to load, as all that follows
    from app.runs.registry import kinds  # noqa: PLC0415
    from app.runs.settings import WorkerSettings  # noqa: PLC0415
    from app.runs.worker import Worker  # noqa: PLC0415
    from app.supervise import end_with_supervisor  # noqa: PLC0415

    given = {} if database_url is None else {"database_url": database_url}
    settings = _checked(WorkerSettings, given)
    set_up()
    made = Worker(settings, kinds(settings))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: made.stop())
    if not end_with_supervisor(made.stop):
        migrate_database(settings.database_url)
    raise typer.Exit(0 if made.run() else 1)


@commands.command()
def migrate(database_url: DatabaseOption = None) -> None:
    """Bring the database's tables up to date. Does nothing if they are; several may do so at once."""
    migrate_database(_settings(database_url=database_url).database_url)


@key_commands.command(
    name="create",
    epilog="Example: (umask 077; antecast key create me --scope admin > ~/.config/antecast/key)",
)
def create_key(
    name: Annotated[str, typer.Argument(help="Whose key it is; appears in logs and runs.")],
    scope: Annotated[list[str], typer.Option("--scope", help="read, plan, apply or admin; may be repeated.")],
    database_url: DatabaseOption = None,
) -> None:
    """Make an API key and print it, this once; in the database itself, with or without a running service.

    read: look at everything. plan: replans, imports, what-ifs, epochs. apply: events and decisions (a
    scheduler's key). admin: everything, also clusters, nodes and keys.
    """
    from app.services import keys  # noqa: PLC0415 - slow to load
    from app.store.engine import make_engine  # noqa: PLC0415

    settings = _settings(database_url=database_url)
    migrate_database(settings.database_url)
    engine = make_engine(settings.database_url)
    try:
        typer.echo(keys.create(engine, name, scope))
    finally:
        engine.dispose()


def seconds_of(text: str) -> float:
    """Seconds of a span like 90, 30s, 5m, 1h or 2d.

    Raises:
        BadParameter: if it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no span of time: 30s, 5m, 1h, 2d")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]]


def _serve_here(settings: Any) -> None:
    import uvicorn  # noqa: PLC0415 - slow to load

    from app.logs import set_up  # noqa: PLC0415
    from app.main import create_app  # noqa: PLC0415
    from app.supervise import end_with_supervisor  # noqa: PLC0415

    set_up()
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level=_SERVER_LOG,
        timeout_graceful_shutdown=_WAIT_FOR_CONNECTIONS_S,
    )
    server = uvicorn.Server(config)
    app.state.is_stopping = lambda: server.should_exit  # executors that wait for news are sent home
    if not end_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM)):
        migrate_database(settings.database_url)
    try:
        server.run()
    except SystemExit:  # its own exit code would say something else here
        raise typer.Exit(1) from None
    if not server.started:
        raise typer.Exit(1)


def migrate_database(database_url: str) -> None:
    """Bring a database's tables up to date.

    Raises:
        SettingError: if it cannot be reached or opened.
    """
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415 - slow to load

    from app.runs.worker import migrate as bring_up_to_date  # noqa: PLC0415
    from domain.errors import SettingError  # noqa: PLC0415

    try:
        bring_up_to_date(database_url)
    except OperationalError as error:
        raise SettingError(f"the database cannot be used: {error.orig}") from error


def _settings(**given: Any) -> Any:
    from app.settings import ServiceSettings  # noqa: PLC0415 - slow to load

    return _checked(ServiceSettings, {name: value for name, value in given.items() if value is not None})


def _checked(kind: Any, given: dict[str, Any]) -> Any:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load

    from domain.errors import SettingError  # noqa: PLC0415

    try:
        return kind(**given)
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" if one["loc"] else str(one["msg"])
            for one in error.errors()
        )
        raise SettingError(reasons) from None


def _environment(settings: Any) -> dict[str, str]:
    """The settings in force as variables for the processes of the service; also what was given by option."""
    from app.clock import SystemClock  # noqa: PLC0415

    given = settings.model_dump(mode="json")
    if settings.clock_speed != 1.0 and settings.clock_origin is None:
        given["clock_origin"] = SystemClock().now().isoformat()  # one for all of them
    return {f"ANTECAST_{name.upper()}": str(value) for name, value in given.items() if value is not None}
