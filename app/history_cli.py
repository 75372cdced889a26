"""The commands that look into a history and take jobs out of it. Nothing slow is imported here."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import typer

from app.import_cli import HISTORY, HistoryFolderOption, JsonOption, whole_stamp
from domain.errors import SettingError

if TYPE_CHECKING:
    from data.shelf.jobs_export import Exported

_SHOWN: Final = 10

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
history_commands = typer.Typer(
    help="The history that `antecast import` keeps.", no_args_is_help=True, rich_markup_mode=None
)
commands.add_typer(history_commands, name="history")

ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Name of the cluster [default: the only one there is].")
]


@history_commands.command(name="list")
def list_history(history: HistoryFolderOption = HISTORY, as_json: JsonOption = False) -> None:
    """List clusters, what is known of each, and the files that were imported."""
    from app.console import print_json  # noqa: PLC0415 - slow to load
    from app.import_lines import printable  # noqa: PLC0415
    from app.services.history_views import listed  # noqa: PLC0415

    found = listed(history)
    if as_json:
        print_json(found)
        return
    for name, one in found["clusters"].items():
        days = (
            f"{one['days']:,} days from {one['first_day']} to {one['last_day']}" if one["days"] else "no day"
        )
        counted = "" if one["clock"] == "utc" else " (counted from an unknown origin)"
        typer.echo(
            f"{printable(name)}: {one['attempts']:,} attempts on {days}{counted}; "
            f"{one['nodes']:,} nodes, {one['pools_of_inventory']} pools in its inventory"
        )
    for one in found["imports"]:
        typer.echo(
            f"  {printable(one['file'])} ({one['format']}, sha256 {one['sha256'][:12]}): "
            f"{one['read']:,} rows, {one['rejected']:,} rejected"
        )
    if not found["clusters"]:
        typer.echo(f"there is no history in {history}")


@history_commands.command(
    name="describe", epilog="Example: antecast history describe --cluster research --out var/research"
)
def describe_history(
    cluster: ClusterOption = None,
    history: HistoryFolderOption = HISTORY,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="JSON to write the same into.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to draw pictures into.")] = None,
    picture: Annotated[str, typer.Option("--picture", help="Format of the pictures: png or svg.")] = "png",
) -> None:
    """Print (and draw) what a history holds, and say what it can and cannot support."""
    from app.history_lines import describe_lines  # noqa: PLC0415 - slow to load
    from app.services.history_views import choose, described, write_json  # noqa: PLC0415

    if picture not in ("png", "svg"):
        raise typer.BadParameter(f"{picture!r} is neither png nor svg")
    chosen = choose(history, cluster)
    found, view = described(chosen)
    for line in describe_lines(chosen.cluster, found):
        typer.echo(line)
    written = []
    if json_file is not None:
        write_json({"cluster": chosen.cluster, **found}, json_file)
        written.append(json_file)
    if out is not None:
        from app.history_pictures import draw_history  # noqa: PLC0415

        written += draw_history(found, view.jobs, writable(out), chosen.cluster, picture)
    if written:
        typer.echo("")
        typer.echo("Written: " + ", ".join(map(str, written)))


@history_commands.command(name="job", epilog="Example: antecast history job 1043074_91")
def show_job(
    job_id: Annotated[str, typer.Argument(help="Its id, as accounting or as people write it.")],
    cluster: ClusterOption = None,
    history: HistoryFolderOption = HISTORY,
) -> None:
    """Print the newest job of an id with its attempts as JSON, and how many older ones had the same id."""
    from app.console import print_json  # noqa: PLC0415 - slow to load
    from app.services.history_views import choose, job  # noqa: PLC0415

    print_json(job(choose(history, cluster), job_id))


@history_commands.command(
    name="export", epilog="Example: antecast history export --cluster research --out jobs.csv"
)
def export_history(
    out: Annotated[Path, typer.Option("--out", help="CSV to write, as train, evaluate and replay read it.")],
    cluster: ClusterOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="INSTANT", help="Only what was submitted from then on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="INSTANT", help="Only what was submitted before.")
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only this pool.")] = None,
    attempts: Annotated[
        bool, typer.Option("--attempts", help="One row for each attempt instead of each job.")
    ] = False,
    history: HistoryFolderOption = HISTORY,
    as_json: JsonOption = False,
) -> None:
    """Write jobs in the schema of histories: what cannot be in it is left out and counted.

    Instants are of UTC where they have no offset; seconds are taken as they are.
    """
    from app.console import print_json  # noqa: PLC0415 - slow to load
    from app.services.history_views import choose, export  # noqa: PLC0415

    made = export(
        choose(history, cluster),
        out,
        as_attempts=attempts,
        since_s=float("-inf") if since is None else _instant(since, "--since"),
        until_s=float("inf") if until is None else _instant(until, "--until"),
        pool=pool,
    )
    if as_json:
        print_json(
            {
                "rows": len(made.frame), "left_out": made.left_out, "told": made.told, "edge_s": made.edge_s,
                "pools": made.frame["pool"].value_counts().sort_index().to_dict(),
            }
        )  # fmt: skip
        return
    _tell_export(made, "attempts" if attempts else "jobs", out)


@history_commands.command(
    name="pools", epilog="Example: antecast history pools --out pools.csv --nodes nodes.csv"
)
def export_pools(
    out: Annotated[Path, typer.Option("--out", help="CSV of pools to write (pool, quota_gpus).")],
    nodes: Annotated[
        Path | None, typer.Option("--nodes", help="CSV of nodes to write, too (node, num_gpus, ...).")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="INSTANT", help="As it was then [default: as last known].")
    ] = None,
    cluster: ClusterOption = None,
    history: HistoryFolderOption = HISTORY,
) -> None:
    """Write pools and nodes as replays read them, by the inventory; without one, pools by their use."""
    from app.import_lines import printable  # noqa: PLC0415 - slow to load
    from app.services.history_views import choose, tables, write_text  # noqa: PLC0415

    made = tables(choose(history, cluster), None if at is None else _instant(at, "--at"))
    write_text(made.pools, out)
    typer.echo(f"{made.num_pools} pools of {made.gpus:,} GPUs in {out}, by {made.source}")
    if nodes is not None:
        write_text(made.nodes, nodes)
        typer.echo(f"{made.num_nodes} nodes in {nodes}")
    for name, why in list(made.left_out.items())[:_SHOWN]:
        typer.echo(f"  left out: {printable(name)}: {why}")
    if len(made.left_out) > _SHOWN:
        typer.echo(f"  and {len(made.left_out) - _SHOWN:,} more")


def _tell_export(made: "Exported", what: str, out: Path) -> None:
    typer.echo(f"{len(made.frame):,} {what} of {made.frame['pool'].nunique()} pools in {out}")
    _tell_counts("left out", made.left_out)
    _tell_counts("among them", made.told)
    typer.echo(f"  the record ends at {made.edge_s:.0f} s; train with --as-of {made.edge_s:.0f} or before")


def writable(folder: Path) -> Path:
    """A folder that is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"the folder {folder} cannot be made: {error.strerror}") from error
    return folder


def _tell_counts(heading: str, counts: Mapping[str, int]) -> None:
    for what, number in counts.items():
        typer.echo(f"  {heading}: {number:,} {what}")


def _instant(text: str, option: str) -> float:
    from data.stamps import parse_stamp  # noqa: PLC0415 - slow to load

    try:
        return parse_stamp(whole_stamp(text), ZoneInfo("UTC")).epoch_s
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error
