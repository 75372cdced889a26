"""The commands that ask a running service over HTTP."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.service_cli import migrate_database, seconds_of
from app.setting_options import DatabaseOption

if TYPE_CHECKING:
    from app.remote import Remote

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
cluster_commands = typer.Typer(
    help="Clusters and what they consist of.", no_args_is_help=True, rich_markup_mode=None
)
commands.add_typer(cluster_commands, name="cluster")

UrlOption = Annotated[
    str, typer.Option("--url", envvar="ANTECAST_URL", help="Where the service is.", show_default=True)
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar="ANTECAST_KEY_FILE",
        help="File with the API key, readable by you only [default: ~/.config/antecast/key]; "
        "the variable ANTECAST_API_KEY comes first.",
    ),
]
ClusterOption = Annotated[str, typer.Option("--cluster", help="Name of the cluster.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]

_URL: Final = "http://127.0.0.1:8000"
_SHOWN_FAULTS: Final = 10
_LEAST_WIDTH: Final = 110


@commands.command(epilog="Example: antecast upload jobs.csv --cluster research --origin 2026-01-05")
def upload(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="CSV of past jobs, or an export.")
    ],
    cluster: ClusterOption,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv (columns below), auto, or a format of `antecast formats` that holds a history.",
        ),
    ] = "csv",
    tz: Annotated[
        str | None,
        typer.Option("--tz", metavar="ZONE", help="Time zone of stamps without an offset; not for csv."),
    ] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Leave bad rows out instead of refusing.")
    ] = False,
    origin: Annotated[
        datetime | None,
        typer.Option(
            "--origin", help="Instant (UTC) of the file's second 0 [default: that of the cluster's clock]."
        ),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Upload a file of past jobs to the service, for forecasts to learn from; waits until it is read.

    Columns of csv: job_id, pool, submit_s, num_gpus, duration_s; user and name make forecasts better.
    Of other formats what `antecast history export` leaves out is left out, and what has not ended.
    """
    options = {"format": file_format, "lenient": str(lenient).lower()}
    if tz is not None:
        options["tz"] = tz
    if origin is not None:
        options["origin"] = origin.isoformat() + ("Z" if origin.tzinfo is None else "")
    with _service(url, key_file) as service:
        queued = service.upload(f"/v1/clusters/{cluster}/history", file, options)
        try:
            with _progress(f"reading {file.name}", is_silent=as_json) as tell:
                done = service.wait_for(queued["run_id"], tell)["result"]
        finally:
            _list_faults(service.get(f"/v1/clusters/{cluster}/history/{queued['import_id']}"))
    if as_json:
        _print_json(done)
    else:
        typer.echo(f"{done['num_jobs']} jobs imported, {done['num_skipped']} rows left out")


@commands.command(epilog="Example: antecast ask --cluster research --quota vision=48 --quota speech=16")
def ask(
    cluster: ClusterOption,
    quota: Annotated[
        list[str] | None,
        typer.Option("--quota", metavar="POOL=GPUS", help="A pool's other quota; may be repeated."),
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Another policy.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated."),
    ] = None,
    days: Annotated[float, typer.Option("--days", help="Days of the past to go through again.")] = 7.0,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Ask what other quotas, another policy or other settings would have done; nothing is changed.

    The last days of the history and of what has ended since are replayed twice: as it is, and changed.
    """
    body: dict[str, Any] = {
        "quotas": {pool: _gpus(pool, value) for pool, value in _pairs(quota or []).items()},
        "days": days,
    }
    if policy is not None:
        body["policy"] = policy
    if settings:
        body["settings"] = _pairs(settings)
    with _service(url, key_file) as service:
        run = service.post(f"/v1/clusters/{cluster}/what-ifs", body)
        with _progress("going through the past twice", is_silent=as_json) as tell:
            answer = service.wait_for(run["run_id"], tell)["result"]
    if as_json:
        _print_json(answer)
        return
    from app.service_tables import what_if_tables  # noqa: PLC0415 - rich is not for everyone

    _print(*what_if_tables(answer))


@commands.command(epilog="Example: antecast replan --cluster research --every 5m")
def replan(
    cluster: ClusterOption,
    every: Annotated[
        str | None, typer.Option("--every", metavar="SPAN", help="From now on so often: 30s, 5m, 1h.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Once, now [default].")] = False,
    never: Annotated[bool, typer.Option("--never", help="From now on only when asked.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until the plan is made; another exit code than 0 if none is.")
    ] = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Ask for a plan, by default without waiting for it, or say how often one is made."""
    if (every is not None) + once + never > 1:
        raise typer.BadParameter("--every, --once and --never exclude each other")
    if wait and (every is not None or never):
        raise typer.BadParameter("--wait is for one plan: it goes with --once")
    with _service(url, key_file) as service:
        if every is None and not never:
            run = service.post(f"/v1/clusters/{cluster}/replans")
            if wait:
                run = _until_planned(service, run["run_id"], lambda _: None)
            typer.echo(f"run {run['run_id']} is {run['status']}")
            return
        span = None if every is None else seconds_of(every)
        path = f"/v1/clusters/{cluster}"
        service.change("PATCH", path, {"replan_every_s": span}, seen=path)
    typer.echo(f"{cluster}: a plan every {span:g} s" if span else f"{cluster}: a plan only when asked for")


@commands.command(name="join-token", epilog="Example: antecast join-token research node-01")
def join_token(
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.")],
    node: Annotated[str, typer.Argument(help="Name of the node, as in the inventory.")],
    ttl: Annotated[str, typer.Option("--ttl", metavar="SPAN", help="How long it is good for.")] = "1h",
    database_url: DatabaseOption = None,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Make a one-time token by which a node's executor enrols, and print it, this once.

    Put it into a file with mode 600 on the node, for `antecast-executor run --token-file`.
    With --database-url it is made in the database itself, without a running service.
    """
    ttl_s = int(seconds_of(ttl))
    if database_url is not None:
        typer.echo(_token_from_database(database_url, cluster, node, ttl_s))
        return
    with _service(url, key_file) as service:
        made = service.post(f"/v1/clusters/{cluster}/join-tokens", {"node": node, "ttl_s": ttl_s})
    typer.echo(made["token"])


@cluster_commands.command(
    name="create", epilog="Example: antecast cluster create research --enforced-by executors"
)
def create_cluster(
    name: Annotated[str, typer.Argument(help="Name of the cluster: a-z, 0-9 and -.")],
    enforced_by: Annotated[
        str,
        typer.Option(
            "--enforced-by",
            help="scheduler (yours, it asks for decisions) or executors (ours, on the nodes).",
        ),
    ] = "scheduler",
    policy: Annotated[
        str, typer.Option("--policy", help="Policy: see `antecast policies`.")
    ] = "anticipatory",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything that is drawn.")] = 0,
    mode: Annotated[
        str, typer.Option("--mode", help="observe (only look on), advise (somebody reviews) or enforce.")
    ] = "enforce",
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Make a cluster. It lends nothing until it has an inventory."""
    body = {
        "name": name,
        "enforced_by": enforced_by,
        "policy": policy,
        "settings": _pairs(settings or []),
        "seed": seed,
        "mode": mode,
    }
    with _service(url, key_file) as service:
        _print_json(service.post("/v1/clusters", body))


@cluster_commands.command(name="show")
def show_cluster(
    name: Annotated[str, typer.Argument(help="Name of the cluster.")],
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Print a cluster as JSON."""
    with _service(url, key_file) as service:
        _print_json(service.get(f"/v1/clusters/{name}"))


@cluster_commands.command(
    name="inventory", epilog="Example: antecast cluster inventory research inventory.json"
)
def inventory(
    name: Annotated[str, typer.Argument(help="Name of the cluster.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help='JSON: {"pools": [{"name": "vision", "quota_gpus": 8, "is_requeueable": true}], '
            '"nodes": [{"name": "node-1", "num_gpus": 8}]}; nodes are needed for executors only.',
        ),
    ] = None,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Print a cluster's pools and nodes as JSON; with a file, put them first."""
    path = f"/v1/clusters/{name}/inventory"
    with _service(url, key_file) as service:
        if file is not None:
            try:
                wanted = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise typer.BadParameter(f"{file} is no JSON: {error}") from error
            service.change("PUT", path, wanted, seen=path)
        _print_json(service.get(path))


def _until_planned(service: "Remote", run_id: str, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    done = service.wait_for(run_id, tell)
    while "made_again_by" in done["result"]:  # the cluster changed meanwhile
        done = service.wait_for(done["result"]["made_again_by"], tell)
    return done


def _token_from_database(database_url: str, cluster: str, node: str, ttl_s: int) -> str:
    from app.clock import SystemClock  # noqa: PLC0415 - slow to load
    from app.services import executors  # noqa: PLC0415
    from app.store.engine import make_engine, transaction  # noqa: PLC0415

    migrate_database(database_url)
    engine = make_engine(database_url)
    try:
        with transaction(engine) as session:
            return executors.issue_join_token(session, cluster, node, ttl_s, SystemClock())
    finally:
        engine.dispose()


def _service(url: str, key_file: Path | None) -> "Remote":
    from app.remote import Remote, read_key  # noqa: PLC0415 - slow to load

    return Remote(url, read_key(key_file))


@contextmanager
def _progress(what: str, *, is_silent: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar on standard error while a run is waited for."""
    from rich.console import Console  # noqa: PLC0415 - slow to load
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=is_silent or not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def tell(run: dict[str, Any]) -> None:
            far = (run["result"] or {}).get("progress") if run["status"] == "running" else None
            described = f"{what} ({run['status']})"
            if far is None:
                bar.update(task, description=described)
            else:
                bar.update(task, description=described, completed=far["done"], total=far["total"])

        yield tell


def _list_faults(read: Mapping[str, Any]) -> None:
    """What is wrong in a file, on standard error."""
    shown = read["faults"][:_SHOWN_FAULTS]
    for fault in shown:
        place = "" if fault["line"] is None else f"line {fault['line']}: "
        typer.echo(f"{place}{fault['rule']}: {fault['message']}", err=True)
    left = (read["num_faults"] or 0) - len(shown)
    if left > 0:
        typer.echo(f"and {left} more", err=True)


def _pairs(parts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in parts:
        key, sign, value = part.rpartition("=")
        if not sign or not key:
            raise typer.BadParameter(f"{part!r} is not of the form KEY=VALUE")
        if key in pairs:
            raise typer.BadParameter(f"{key} is set twice")
        pairs[key] = value
    return pairs


def _gpus(pool: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise typer.BadParameter(f"the quota of {pool} is {text!r}, must be a number of GPUs")
    return int(text)


def _print(*parts: Any) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to load

    console = Console()
    if not console.is_terminal:  # a file or a pipe is as wide as it has to be
        console = Console(width=max(console.width, _LEAST_WIDTH))
    for part in parts:
        console.print(part, markup=False, highlight=False)


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
