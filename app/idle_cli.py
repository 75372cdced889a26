"""The command `antecast idle`: which GPUs are held and not used, and which are really free."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

commands = typer.Typer(add_completion=False, rich_markup_mode=None)

_LENGTH: Final = re.compile(r"(?P<number>\d{1,7})(?P<unit>[smhd]?)", re.ASCII)
_UNIT_S: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@commands.command(
    "idle",
    epilog="Example: antecast idle util.json used.json free.json --history var/history --cluster research "
    "--window 1h --json idle.json",
)
def idle(
    telemetry: Annotated[
        list[Path],
        typer.Argument(help="Answers of Prometheus (/api/v1/query_range) for metrics of the DCGM exporter."),
    ],
    allocations: Annotated[
        Path | None,
        typer.Option("--allocations", help="CSV of GPUs that are given out (job_id, node, gpu; since_s)."),
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", help="Folder of the history whose running jobs hold GPUs.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Its cluster [default: the only one there is].")
    ] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="LENGTH", help="How long, up to the last sample: 90s, 30m, 2h.")
    ] = "30m",
    low_util: Annotated[
        float, typer.Option("--low-util", min=0.0, max=100.0, help="Percent: a lower mean is no use.")
    ] = 5.0,
    low_memory: Annotated[
        float, typer.Option("--low-memory", min=0.0, max=100.0, help="Percent: free GPUs have less in use.")
    ] = 5.0,
    held_memory: Annotated[
        float,
        typer.Option("--held-memory", min=0.0, max=100.0, help="Percent: held GPUs with less are idle."),
    ] = 50.0,
    most: Annotated[int, typer.Option("--most", min=0, help="Rows that are printed.")] = 40,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="JSON to write the same into; - prints it.")
    ] = None,
) -> None:
    """Say which GPUs are held and not used, and which are free: by a window, never by utilisation alone.

    Who holds a GPU is the scheduler's to say: --allocations or --history; else labels of pods, where the
    exporter has them. Verdicts and their limits: docs/idle.md.
    """
    from app.console import print_json, result_console  # noqa: PLC0415 - slow to load
    from app.idle_tables import gpu_table, lines  # noqa: PLC0415
    from app.services.history_views import write_json  # noqa: PLC0415
    from app.services.idle import Asked, answer, document  # noqa: PLC0415
    from data.telemetry.idle import Thresholds  # noqa: PLC0415

    if allocations is not None and history is not None:
        raise typer.BadParameter("--allocations and --history both say who holds GPUs: give one of them")
    if cluster is not None and history is None:
        raise typer.BadParameter("--cluster is a cluster of --history, which is not given")
    limits = Thresholds(_length_s(window), low_util, low_memory, held_memory)
    told = answer(Asked(tuple(telemetry), allocations, history, cluster, limits))
    if json_file == Path("-"):
        print_json(document(told, limits))
        return
    console = result_console()
    console.print(gpu_table(told.found.gpus, most))
    said = lines(told, most)
    if json_file is not None:
        write_json(document(told, limits), json_file)
        said.append(f"Written: {json_file}")
    for line in said:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _length_s(text: str) -> float:
    found = _LENGTH.fullmatch(text.strip())
    if found is None or not int(found["number"]):
        raise typer.BadParameter(f"--window {text!r} is no length: 90s, 30m, 2h or 1d")
    return int(found["number"]) * _UNIT_S[found["unit"]]
