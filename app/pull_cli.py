"""The command that pulls job histories out of a running cluster. Nothing slow is imported here."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.import_cli import HISTORY, HistoryFolderOption, whole_stamp
from app.service_cli import seconds_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from app.services.slurm_pull import Wanted
    from data.intake.report import FileReport

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
pull_commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Pull job histories out of a running cluster.",
)
commands.add_typer(pull_commands, name="pull")


@pull_commands.callback()
def _pull() -> None:
    """Pull job histories out of a running cluster."""


@pull_commands.command(
    epilog="Example: antecast pull slurm --cluster research --tz Europe/Zurich --since 2026-01-01; later, "
    "from a timer, the same without --since"
)
def slurm(
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster whose jobs these are.")],
    tz: Annotated[str, typer.Option("--tz", metavar="ZONE", help="Its time zone.")],
    history: HistoryFolderOption = HISTORY,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="INSTANT", help="Jobs that ended from here on [default: the last pull]."
        ),
    ] = None,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="SPAN", help="So much of the last pull is asked for again.")
    ] = "1d",
    window: Annotated[
        str, typer.Option("--window", metavar="SPAN", help="Ends of jobs asked for at once, 1h at least.")
    ] = "1d",
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="SPAN", help="How long one call may take.")
    ] = "5m",
    sacct: Annotated[str, typer.Option("--sacct", metavar="PATH", help="The program sacct.")] = "sacct",
    squeue: Annotated[str, typer.Option("--squeue", metavar="PATH", help="The program squeue.")] = "squeue",
    retry_accounting: Annotated[
        bool,
        typer.Option("--retry-accounting", help="Ask again for accounting, or columns, that were not there."),
    ] = False,
    once: Annotated[  # noqa: ARG001 - it says what is the case anyway
        bool, typer.Option("--once", help="Pull once and end, which is all it ever does.")
    ] = True,
) -> None:
    """Pull Slurm's accounting into the history, from where the last pull ended. Needs no service.

    Where the site keeps no accounting the controller's queue is read instead.
    """
    from app.services.slurm_pull import Wanted  # noqa: PLC0415 - what reads files is slow to load
    from data.pull.programs import Limits  # noqa: PLC0415

    if not cluster.strip():
        raise typer.BadParameter("--cluster is empty, a name is expected")
    place, since_s = _when(tz, since)
    wanted = Wanted(
        cluster.strip(),
        place,
        history,
        since_s,
        seconds_of(overlap),
        seconds_of(window),
        sacct,
        squeue,
        retry_accounting,
        Limits(seconds_of(timeout)),
    )
    _pull_and_tell(wanted)


def _when(tz: str, since: str | None) -> "tuple[ZoneInfo, float | None]":
    from data.stamps import parse_stamp, zone  # noqa: PLC0415 - slow to load

    try:
        place = zone(tz)
    except ValueError as error:
        raise typer.BadParameter(f"--tz: {error}") from error
    try:
        return place, None if since is None else parse_stamp(whole_stamp(since), place).epoch_s
    except ValueError as error:
        raise typer.BadParameter(f"--since: {error}") from error


def _pull_and_tell(wanted: "Wanted") -> None:
    from app.import_lines import file_lines  # noqa: PLC0415 - slow to load
    from app.services.history_imports import totals  # noqa: PLC0415
    from app.services.slurm_pull import Listeners, pull  # noqa: PLC0415

    def done(report: "FileReport") -> None:
        for line in file_lines(report):
            typer.echo(line)

    sums = totals(pull(wanted, Listeners(done, typer.echo)))
    typer.echo(
        f"{sums['read']:,} rows read: {sums['new']:,} new, {sums['updated']:,} updated, "
        f"{sums['unchanged']:,} unchanged in {wanted.history}"
    )
