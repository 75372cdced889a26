"""The commands that run the service. What asks a running one is in `app.client_cli`; nothing slow here."""

import math
import os
import re
import signal
from typing import Annotated, Any

import typer

from app.setting_options import ConfigOption, DatabaseOption, checked, service_settings

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


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
    config: ConfigOption = None,
) -> None:
    """Run the service: the API and one worker; Ctrl-C ends both. Settings: `antecast config show`.

    GET /readyz answers 200 once it can work. Who asks needs a key: `antecast keys create`.
    """
    del config  # it has been put into the environment
    settings = service_settings(host=host, port=port, database_url=database_url, auth=auth)
    if no_worker:
        _require_one_clock(settings)
        _serve_here(settings)
        return
    from app.supervise import Supervisor  # noqa: PLC0415 - not for the other commands

    migrate_database(settings.database_url)
    supervisor = Supervisor(_environment(settings))
    supervisor.add("API", ["serve", "--no-worker"], is_restarted=False)
    supervisor.add("worker", ["worker"], is_restarted=True)
    raise typer.Exit(supervisor.run())


@commands.command()
def worker(database_url: DatabaseOption = None, config: ConfigOption = None) -> None:
    """Run one worker: it carries out replans, imports and what-ifs. Run as many as you like."""
    del config  # it has been put into the environment
    from app.logs import set_up  # noqa: PLC0415 - slow to load, as all that follows
    from app.runs.registry import kinds  # noqa: PLC0415
    from app.runs.settings import WorkerSettings  # noqa: PLC0415
    from app.runs.worker import Worker  # noqa: PLC0415
    from app.supervise import end_with_supervisor  # noqa: PLC0415

    settings = checked(WorkerSettings, {"database_url": database_url})
    _require_one_clock(settings)
    set_up(settings.log_format, settings.log_level)
    made = Worker(settings, kinds(settings))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: made.stop())
    if not end_with_supervisor(made.stop):
        migrate_database(settings.database_url)
    raise typer.Exit(0 if made.run() else 1)


@commands.command()
def migrate(database_url: DatabaseOption = None, config: ConfigOption = None) -> None:
    """Bring the database's tables up to date. Does nothing if they are; several may do so at once."""
    del config  # it has been put into the environment
    migrate_database(service_settings(database_url=database_url).database_url)


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

    from app.api.hurried import hurried  # noqa: PLC0415
    from app.logs import set_up  # noqa: PLC0415
    from app.main import create_app  # noqa: PLC0415
    from app.supervise import end_with_supervisor  # noqa: PLC0415

    set_up(settings.log_format, settings.log_level)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=hurried(settings.head_limit_s),
        log_config=None,  # as everything of this process logs
        access_log=False,  # a line of ours says more
        timeout_graceful_shutdown=math.ceil(settings.stop_wait_s),
    )
    server = uvicorn.Server(config)
    app.state.is_stopping = lambda: server.should_exit  # executors that wait for news are sent home
    if not end_with_supervisor(lambda: os.kill(os.getpid(), signal.SIGTERM)):
        migrate_database(settings.database_url)
    for number in (signal.SIGINT, signal.SIGTERM):  # the server raises again what it was stopped by
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
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


def _environment(settings: Any) -> dict[str, str]:
    """The settings in force as variables for the processes of the service; also what was given by option."""
    from app.clock import SystemClock  # noqa: PLC0415
    from app.settings import as_variables  # noqa: PLC0415

    given = settings.model_dump(mode="json")
    if settings.clock_speed != 1.0 and settings.clock_origin is None:
        given["clock_origin"] = SystemClock().now().isoformat()  # one for all of them
    return as_variables(given)


def _require_one_clock(settings: Any) -> None:
    """Processes that are started apart do not agree on a faster clock by themselves.

    Raises:
        SettingError: naming both settings.
    """
    from domain.errors import SettingError  # noqa: PLC0415

    if settings.clock_speed != 1.0 and settings.clock_origin is None:
        raise SettingError(
            f"clock_speed is {settings.clock_speed:g} and clock_origin is not set: API and workers that are "
            "started apart would not agree on the time; set the same clock_origin for all"
        )
