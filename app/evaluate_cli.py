"""Commands about forecasts: how good they are, and why one says what it says."""

from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer(rich_markup_mode=None)

TrainUntilOption = Annotated[
    float, typer.Option("--train-until", help="Models learn at once from what had ended by then (s).")
]
EvalFromOption = Annotated[
    float,
    typer.Option("--eval-from", help="Jobs submitted, and windows begun, from then on are scored (s)."),
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder to write report.json into.")]
JobsOption = Annotated[Path | None, typer.Option("--jobs", help="CSV of jobs, with --pools.")]
PoolsOption = Annotated[Path | None, typer.Option("--pools", help="CSV of pools (pool, quota_gpus).")]
HistoryOption = Annotated[
    Path | None,
    typer.Option("--history", help="An imported history instead of --jobs; --pools may be left out."),
]
SeriesOption = Annotated[
    Path | None,
    typer.Option("--series", help="CSV of GPUs wanted by pool over time (pool, time_s, gpus, quota_gpus)."),
]
PairsOption = Annotated[
    Path | None,
    typer.Option("--pairs", help="CSV of measured pairs (model_a, model_b, rate_a, rate_b), scored too."),
]
UntilOption = Annotated[
    float | None,
    typer.Option(
        "--until",
        help="Instant (s) at which knowledge ends: what still runs counts with its age [default: never].",
    ),
]
RetrainOption = Annotated[
    float, typer.Option("--retrain-days", min=0, max=365, help="Fit lives anew every so many days; 0: once.")
]
RetrainDemandOption = Annotated[
    float, typer.Option("--retrain-demand-days", min=0, max=365, help="The same for demand.")
]
SeriesTrainOption = Annotated[
    float | None,
    typer.Option("--series-train-until", help="Instant on the clock of --series [default: --train-until]."),
]
LenientOption = Annotated[
    bool, typer.Option("--lenient", help="Skip bad rows, and list them, instead of refusing.")
]


@commands.command(
    epilog="Example: antecast evaluate --jobs jobs.csv --pools pools.csv --train-until 1641600 "
    "--eval-from 1814400 --out var/evaluate"
)
def evaluate(
    train_until: TrainUntilOption,
    eval_from: EvalFromOption,
    out: OutOption,
    jobs: JobsOption = None,
    pools: PoolsOption = None,
    history: HistoryOption = None,
    series: SeriesOption = None,
    pairs: PairsOption = None,
    until: UntilOption = None,
    parts: Annotated[
        str, typer.Option("--parts", help="What to score, comma-separated; the last two need their files.")
    ] = "lifetime,demand,levels,interference",
    file_format: Annotated[str, typer.Option("--format", help="Format of the files of jobs.")] = "csv",
    lives: Annotated[str, typer.Option("--lives", help="Lifetime model to score.")] = "hazard",
    retrain_days: RetrainOption = 0.0,
    retrain_demand_days: RetrainDemandOption = 1.0,
    series_train_until: SeriesTrainOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything that is drawn.")] = 0,
    lenient: LenientOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables.")
    ] = False,
) -> None:
    """Score the forecasts on a record, split in time, beside their baselines; write report.json."""
    from app.console import bars, print_json, result_console  # noqa: PLC0415
    from app.forecast_tables import tables_of  # noqa: PLC0415
    from app.services.evaluate import Question, write_report  # noqa: PLC0415
    from app.services.evaluate import evaluate as score  # noqa: PLC0415

    question = Question(
        jobs=jobs,
        pools=pools,
        history=history,
        series=series,
        pairs=pairs,
        train_until_s=train_until,
        eval_from_s=eval_from,
        file_format=file_format,
        lives=lives,
        retrain_days=retrain_days,
        retrain_demand_days=retrain_demand_days,
        series_train_until_s=series_train_until,
        until_s=until,
        seed=seed,
        is_lenient=lenient,
        parts=tuple(part.strip() for part in parts.split(",") if part.strip()),
    )
    with bars(is_silent=as_json) as bar_for:
        report = score(question, bar_for)
    path = write_report(out, report)
    if as_json:
        print_json(report)
        return
    console = result_console()
    for table in tables_of(report):
        console.print(table)
    console.print(f"Written: {path}", markup=False, highlight=False, soft_wrap=True)


@commands.command(epilog="Example: antecast explain j01234 --jobs jobs.csv --pools pools.csv")
def explain(
    job: Annotated[str, typer.Argument(help="Id of a job of the file.")],
    jobs: Annotated[Path, typer.Option("--jobs", help="CSV of jobs.")],
    pools: PoolsOption = None,
    file_format: Annotated[str, typer.Option("--format", help="Format of the file of jobs.")] = "csv",
    longer_than: Annotated[
        float | None,
        typer.Option(
            "--longer-than", help="Explain the chance to run longer than this (s) [default: the life]."
        ),
    ] = None,
    watch_days: Annotated[
        float,
        typer.Option(
            "--watch-days", min=0, max=365, help="Days before the job over which forecasts are judged."
        ),
    ] = 7.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything that is drawn.")] = 0,
    lenient: LenientOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Say why a job's life is forecast as it is: reasons that sum, past jobs like it, the record so far."""
    from app.console import bars, print_json, result_console  # noqa: PLC0415
    from app.forecast_tables import explanation  # noqa: PLC0415
    from app.services.evaluate import read_history  # noqa: PLC0415
    from app.services.explaining import Asked  # noqa: PLC0415
    from app.services.explaining import explain as answer  # noqa: PLC0415

    history = read_history(jobs, pools, file_format, is_lenient=lenient)
    with bars(is_silent=as_json) as bar_for:
        found = answer(history, Asked(job, watch_days * 86_400.0, longer_than, seed), bar_for)
    if as_json:
        print_json(found.to_dict())
        return
    console = result_console()
    console.print(found.sentence, markup=False, highlight=False, soft_wrap=True)
    for table in explanation(found):
        console.print(table)
