"""The command `antecast place`: where waiting gangs would go, what would be moved, and why some cannot."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from app.services.place_gangs import Answer
    from app.services.place_task import Inputs

commands = typer.Typer(add_completion=False, rich_markup_mode=None)

_NodesOption = Annotated[Path, typer.Option("--nodes", help="CSV of nodes (node, num_gpus, gpu_type).")]
_JobsOption = Annotated[
    Path,
    typer.Option(
        "--jobs",
        help="CSV of gangs that wait (job_id, num_gpus; pool, submit_s, gpu_type, guest, value, gpus).",
    ),
]
_RunningOption = Annotated[
    Path | None,
    typer.Option(
        "--running", help="CSV of gangs that run (job_id, gpus; movable, move_cost): else all is idle."
    ),
]
_HoldsOption = Annotated[
    Path | None,
    typer.Option("--holds", help="CSV of GPUs to keep idle (pool, num_gpus; widest_gpus, gpu_type)."),
]
_PreviousOption = Annotated[
    Path | None,
    typer.Option(
        "--previous", help="JSON or folder that an earlier call wrote: as little changes as need be."
    ),
]
_MaxMovesOption = Annotated[
    int, typer.Option("--max-moves", min=0, max=1_000_000, help="How many running gangs may be moved.")
]
_LimitOption = Annotated[
    float,
    typer.Option(
        "--limit", min=0.0, max=3600.0, help="Work of each solve, in the solver's unit of about a second."
    ),
]
_WallOption = Annotated[
    float,
    typer.Option(
        "--wall-limit",
        min=0.0,
        max=7200.0,
        help="Seconds after which a solve is cut short whatever its work.",
    ),
]
_OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for placing.json, waiting.csv, moves.csv, held.csv, nodes.png."),
]
_JsonOption = Annotated[
    Path | None, typer.Option("--json", help="File for everything as one JSON document; - prints it instead.")
]


@commands.command(
    "place",
    epilog="Example: antecast place --nodes nodes.csv --jobs waiting.csv --running running.csv "
    "--holds holds.csv --max-moves 2 --out var/place",
)
def place(
    nodes: _NodesOption,
    jobs: _JobsOption,
    running: _RunningOption = None,
    holds: _HoldsOption = None,
    previous: _PreviousOption = None,
    max_moves: _MaxMovesOption = 0,
    limit: _LimitOption = 10.0,
    wall_limit: _WallOption = 30.0,
    max_nodes: Annotated[
        int, typer.Option("--max-nodes", min=1, help="Nodes of one model; more are solved in groups.")
    ] = 1500,
    reassign_cost: Annotated[
        float,
        typer.Option("--reassign-cost", min=0.0, help="Price per GPU of giving a waiting gang other GPUs."),
    ] = 0.5,
    move_cost: Annotated[
        float, typer.Option("--move-cost", min=0.0, help="Price per GPU of a move that names no move_cost.")
    ] = 2.0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Seed of the solver.")] = 0,
    most: Annotated[int, typer.Option("--most", min=0, help="Rows of each table that are printed.")] = 40,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip bad rows of --jobs, and list them, instead of refusing.")
    ] = False,
    out: _OutOption = None,
    as_json: _JsonOption = None,
    picture: Annotated[str, typer.Option("--picture", help="Format of the picture: png or svg.")] = "png",
) -> None:
    """Say where waiting gangs would go, which running ones would be moved, and why some have no place.

    Nothing is changed anywhere. Nothing moves unless --max-moves allows it and a row of --running says that
    the gang may be. Columns, reasons and prices: docs/placement.md.
    """
    from app.services.place_files import document  # noqa: PLC0415
    from app.services.place_gangs import answer  # noqa: PLC0415
    from app.services.place_task import Source, load  # noqa: PLC0415
    from solver.placement.task import Costs, Limits  # noqa: PLC0415

    if picture not in ("png", "svg"):
        raise typer.BadParameter(f"{picture!r} is neither png nor svg")
    if not all(map(math.isfinite, (limit, wall_limit, reassign_cost, move_cost))):
        raise typer.BadParameter("limits and prices have to be finite numbers")
    inputs = load(Source(nodes, jobs, running, holds, previous, max_moves, lenient))
    costs, limits = Costs(reassign_cost, move_cost), Limits(limit, wall_limit, max_nodes, seed)
    found = answer(inputs, costs, limits)
    about = {"max_moves": max_moves, "limit": limit, "seed": seed, "notes": list(inputs.notes)}
    _tell(inputs, found, document(found, about), out, as_json, most, picture)


def _tell(
    inputs: "Inputs",
    found: "Answer",
    told: dict[str, object],
    out: Path | None,
    as_json: Path | None,
    most: int,
    picture: str,
) -> None:
    from rich.console import Console  # noqa: PLC0415

    from app.console import print_json, result_console  # noqa: PLC0415
    from app.place_tables import summary, tables  # noqa: PLC0415
    from app.services.place_files import write_answer, write_json  # noqa: PLC0415

    is_printed = as_json == Path("-")
    _say(Console(stderr=True), [*(f"skipped {fault}" for fault in inputs.skipped), *inputs.notes])
    written: list[Path] = []
    if out is not None:
        written += write_answer(out, found, told)
        written.append(_drawn(found, out, picture))
    if as_json is not None and not is_printed:
        write_json(as_json, told)
        written.append(as_json)
    if is_printed:
        print_json(told)
        return
    console = result_console()
    for table in tables(found, most):
        console.print(table)
    lines = summary(found)
    _say(console, [*lines, *(["Written: " + ", ".join(map(str, written))] if written else [])])


def _drawn(found: "Answer", out: Path, picture: str) -> Path:
    from app.place_picture import draw_nodes  # noqa: PLC0415

    path = out / f"nodes.{picture}"
    gain = found.gain
    draw_nodes(found, path, f"{gain.placed} of {gain.gangs} gangs placed, {gain.moves} moved")
    return path


def _say(console: "Console", lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
