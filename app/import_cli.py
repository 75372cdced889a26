"""The commands that bring accounting exports in without a service. Nothing slow is imported here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from domain.errors import SettingError

if TYPE_CHECKING:
    from data.intake.format import ReadOptions

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

EXIT_UNREADABLE: Final = 2

HistoryFolderOption = Annotated[
    Path,
    typer.Option("--history", envvar="ANTECAST_HISTORY_DIR", help="Folder that the history is kept in."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of lines.")]
HISTORY: Final = Path("var/history")

_AUTO: Final = "auto"


@commands.command(
    name="import",
    epilog="Example: sacct -a -P -S 2026-01-01 --duplicates --format ALL > jan.txt; "
    "antecast import jan.txt --cluster research --tz Europe/Zurich --report jan.json",
)
def import_files(
    files: Annotated[list[Path], typer.Argument(help="Exports, plain or packed (gzip, zstd).")],
    file_format: Annotated[
        str, typer.Option("--format", help="Format: see `antecast formats`; auto: by content.")
    ] = _AUTO,
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster whose jobs these are.")] = "cluster",
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="Its time zone, for stamps without an offset.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="INSTANT", help="Second 0 of files that count from one (of --tz)."),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping",
            help="TOML that says which column is what, for tables of no known format.",
            dir_okay=False,
        ),
    ] = None,
    procs_as_gpus: Annotated[
        bool, typer.Option("--procs-as-gpus", help="Count processors as GPUs where there are only those.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and report, keep nothing.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="JSON to write; all notes stand beside it as CSV.")
    ] = None,
    history: HistoryFolderOption = HISTORY,
) -> None:
    """Bring job histories and inventories of any format into the history; nothing is dropped silently.

    Importing a file again changes nothing; later rows of the same job update it. Needs no service.
    """
    from app.import_lines import file_lines, total_lines  # noqa: PLC0415 - what reads files is slow to load
    from app.services.history_imports import Wanted, run  # noqa: PLC0415

    if not cluster.strip():
        raise typer.BadParameter("--cluster is empty, a name is expected")
    options = _options(cluster.strip(), tz, origin, mapping, procs_as_gpus=procs_as_gpus)
    wanted = Wanted(tuple(files), options, history, file_format, dry_run, report)
    with _progress() as (tell, clear):

        def done(found: Any) -> None:
            clear()
            for line in file_lines(found):
                typer.echo(line)

        found = run(wanted, progress=tell, done=done)
    for line in total_lines(found, wanted):
        typer.echo(line)
    if any(one.fault is not None for one in found):
        raise typer.Exit(EXIT_UNREADABLE)


@commands.command()
def formats(as_json: JsonOption = False) -> None:
    """List the formats of job histories and inventories that can be imported."""
    from app.console import print_json  # noqa: PLC0415 - slow to load
    from data.formats import FORMATS  # noqa: PLC0415

    if as_json:
        print_json({one.name: {"kind": one.kind.value, "title": one.title} for one in FORMATS.values()})
        return
    width = max(map(len, FORMATS))
    for name in sorted(FORMATS):
        one = FORMATS[name]
        typer.echo(f"{name:<{width}}  {one.kind.value:<9}  {one.title}")


@commands.command(epilog="Example: antecast rules surplus-delimiter")
def rules(
    rule_id: Annotated[str | None, typer.Argument(metavar="ID", help="One rule; all where left out.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the rules in import reports mean and what is done about a row that meets one."""
    from app.console import print_json  # noqa: PLC0415 - slow to load
    from app.import_lines import rule_table  # noqa: PLC0415

    listed = rule_table()
    if rule_id is not None:
        listed = [one for one in listed if one["rule"] == rule_id]
        if not listed:
            raise SettingError(f"there is no rule {rule_id!r}: `antecast rules` lists them")
    if as_json:
        print_json(listed)
        return
    width = max(len(one["rule"]) for one in listed)
    for one in listed:
        typer.echo(f"{one['rule']:<{width}}  {one['action']:<8}  {one['meaning']}")
    if rule_id is not None and listed[0]["page"]:
        typer.echo(f"more: {listed[0]['page']}")


def _options(
    cluster: str, tz: str | None, origin: str | None, mapping: Path | None, *, procs_as_gpus: bool
) -> "ReadOptions":
    from app.services.history_views import read  # noqa: PLC0415 - slow to load
    from data.intake.format import ReadOptions  # noqa: PLC0415
    from data.intake.mapping_text import load_mapping  # noqa: PLC0415
    from data.stamps import parse_stamp, zone  # noqa: PLC0415

    try:
        place = None if tz is None else zone(tz)
    except ValueError as error:
        raise typer.BadParameter(f"--tz: {error}") from error
    try:
        origin_s = None if origin is None else parse_stamp(whole_stamp(origin), place).epoch_s
    except ValueError as error:
        raise typer.BadParameter(f"--origin: {error}") from error
    columns = None if mapping is None else read(lambda: load_mapping(mapping))
    return ReadOptions(cluster, place, origin_s, columns, procs_as_gpus=procs_as_gpus)


def whole_stamp(stamp: str) -> str:
    """A stamp with a clock: a date alone begins at midnight."""
    return f"{stamp}T00:00:00" if len(stamp) == len("2026-01-05") and stamp.count("-") == 2 else stamp


@contextmanager
def _progress() -> Iterator[tuple[Callable[[Path, int], None], Callable[[], None]]]:
    """A line on standard error while a file is read, where that is a terminal, and what ends it."""
    from rich.console import Console  # noqa: PLC0415 - slow to load
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("reading")

        def tell(path: Path, rows: int) -> None:
            size = path.stat().st_size / 1e6
            bar.update(task, description=f"{path.name} ({size:,.1f} MB): {rows:,} rows")

        def clear() -> None:
            bar.reset(task, description="reading")

        yield tell, clear
