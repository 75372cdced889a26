"""The command `antecast episodes`: when jobs were slowed, who was on lent GPUs then, and why."""

import json
from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer(add_completion=False, rich_markup_mode=None)


@commands.command(
    "episodes",
    epilog="Example: antecast episodes var/run --jobs jobs.csv --pools pools.csv",
)
def episodes(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a replay: report.json and schedule.csv are read there.")
    ],
    jobs: Annotated[Path, typer.Option("--jobs", help="The CSV of jobs that was replayed.")],
    pools: Annotated[Path, typer.Option("--pools", help="The CSV of pools.")],
    history: Annotated[Path | None, typer.Option("--history", help="The --history of the replay.")] = None,
    file_format: Annotated[str, typer.Option("--format", help="Format of the files of jobs.")] = "csv",
    lenient: Annotated[bool, typer.Option("--lenient", help="As the replay was.")] = False,
    most: Annotated[int, typer.Option("--most", min=1, help="How many to print, the worst first.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print all as one JSON document.")] = False,
) -> None:
    """Tell the episodes in which a replay slowed jobs; write episodes.json into its folder."""
    from app.console import print_json, result_console, tell_inputs  # noqa: PLC0415
    from app.episode_words import episode_words, worst_first  # noqa: PLC0415
    from app.services.episodes import find_episodes, read_report, write_episodes  # noqa: PLC0415
    from app.services.ingest import Source, load  # noqa: PLC0415

    report = read_report(folder)
    times = (float(report["train_until_s"]), float(report["eval_from_s"]))
    inputs = load(Source(jobs, pools, history, file_format, *times, lenient))
    tell_inputs(inputs, as_json=as_json)
    found = find_episodes(inputs, folder, report)
    path = write_episodes(folder, found)
    if as_json:
        print_json(json.loads(path.read_text(encoding="utf-8")))
        return
    console = result_console()
    slowed = sum(episode.jobs for episode in found)
    lines = [f"{report['policy']}: {slowed} jobs slowed in {len(found)} episodes, the warm-up's among them."]
    lines += [line for episode in worst_first(found)[:most] for line in ("", *episode_words(episode))]
    for line in [*lines, "", f"Written: {path}"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
