"""The command `antecast demo`."""

from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@commands.command(epilog="Example: antecast demo --out var/demo")
def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for database, logs and picture; emptied.")
    ] = Path("var/demo"),
    seed: Annotated[int, typer.Option("--seed", help="Seed of the history.")] = 7,
) -> None:
    """Run the whole loop here: service, worker, two executors on simulated GPUs, real processes as jobs.

    A minute of cluster time takes six seconds. It ends by itself, with a report and a picture.
    """
    from rich.console import Console  # noqa: PLC0415 - slow to load, as all that follows

    from app.console import bars, result_console  # noqa: PLC0415
    from app.demo import loop, show  # noqa: PLC0415

    err = Console(stderr=True)
    with bars(is_silent=False) as bar_for:
        shown = loop.run(
            out,
            lambda line: err.print(line, markup=False, highlight=False, soft_wrap=True),
            bar_for("jobs ended"),
            seed=seed,
        )
    picture = show.draw(shown, out / "who-ran-where.png")
    console = result_console()
    console.print(show.table(shown))
    console.print(show.pools_table(shown))
    console.print(show.verdict(shown), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Written: {picture}; logs and database beside it", markup=False, highlight=False)
