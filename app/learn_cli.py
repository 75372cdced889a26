"""The commands that train models, score them on the past and list them. Nothing slow is imported here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from app.services.learners import Learner

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

JobsOption = Annotated[
    Path, typer.Option("--jobs", help="CSV of jobs (job_id, pool, submit_s, num_gpus, duration_s, ...).")
]
PoolsOption = Annotated[Path, typer.Option("--pools", help="CSV of pools (pool, quota_gpus).")]
FormatOption = Annotated[str, typer.Option("--format", help="Format of the file of jobs.")]
LenientOption = Annotated[
    bool, typer.Option("--lenient", help="Skip bad rows, and list them, instead of refusing.")
]
ModelsOption = Annotated[Path, typer.Option("--models", help="Folder that trained models are kept in.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]

_MODELS: Final = Path("var/models")


KnownUntilOption = Annotated[
    float | None,
    typer.Option(
        "--known-until", help="Instant (s) as of which lives are scored [default: all that is recorded]."
    ),
]
LivesOption = Annotated[str, typer.Option("--lives", help="Lifetime model to train; empty for none.")]
ArrivalsOption = Annotated[str, typer.Option("--arrivals", help="Demand model to train; empty for none.")]


@commands.command(
    epilog="Example: antecast generate philly-like --seed 7 --days 14 --out var/workload; "
    "antecast train --jobs var/workload/jobs.csv --pools var/workload/pools.csv --as-of 1036800"
)
def train(
    jobs: JobsOption,
    pools: PoolsOption,
    as_of: Annotated[
        float, typer.Option("--as-of", help="Instant (s) as of which to train; nothing later is looked at.")
    ],
    models: ModelsOption = _MODELS,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Name to keep the models under [default: folder and name of --jobs]."),
    ] = None,
    lives: LivesOption = "hazard",
    arrivals: ArrivalsOption = "learned",
    trial_days: Annotated[
        float, typer.Option("--trial-days", min=2, max=90, help="Last days that old and new both forecast.")
    ] = 7.0,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=0, help="Delete all but the newest so many, and the one in use."),
    ] = None,
    seed: SeedOption = 0,
    file_format: FormatOption = "csv",
    lenient: LenientOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train models as of an instant; each replaces the one in use if it wins on the recent past.

    Where an earlier version of the same record is stored, only what has happened since is learned.
    """
    from app.clock import SystemClock  # noqa: PLC0415
    from app.console import bars, print_json  # noqa: PLC0415
    from app.learn_tables import tell_outcomes, tell_skipped  # noqa: PLC0415
    from app.services import learning, records  # noqa: PLC0415
    from models.artifacts.registry import Registry  # noqa: PLC0415

    history, quotas = records.read_source(records.Source(jobs, pools, file_format, lenient))
    tell_skipped(history)
    training = learning.Training(
        as_of_s=as_of,
        data=data or records.data_name(jobs),
        created=SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        trial_days=trial_days,
    )
    registry, outcomes = Registry(models), []
    with bars(is_silent=as_json) as bar_for:
        for learner in _learners(lives, arrivals, quotas, seed):
            outcomes.append(learning.train(learner, history, registry, training, bar_for))
            if keep is not None:
                registry.prune(training.data, learner.kind, keep)
    if as_json:
        print_json({"data": training.data, "models": [learning.described(one) for one in outcomes]})
    else:
        tell_outcomes(training.data, outcomes)


@commands.command(
    epilog="Example: antecast backtest --jobs jobs.csv --pools pools.csv --from 864000 --until 1036800 "
    "--every 1 --lives hazard,learned --out var/backtest"
)
def backtest(
    jobs: JobsOption,
    pools: PoolsOption,
    from_s: Annotated[
        float, typer.Option("--from", help="First origin (s): what had ended by then is learned from.")
    ],
    until_s: Annotated[
        float, typer.Option("--until", help="Jobs submitted from this instant (s) on are not asked about.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder to write into.")],
    every: Annotated[
        float, typer.Option("--every", min=0.01, help="Days from one origin to the next.")
    ] = 1.0,
    known_until: KnownUntilOption = None,
    lives: Annotated[
        str, typer.Option("--lives", help="Lifetime models, comma-separated.")
    ] = "hazard,learned",
    arrivals: Annotated[
        str, typer.Option("--arrivals", help="Demand models, comma-separated; empty for none.")
    ] = "learned",
    seed: SeedOption = 0,
    file_format: FormatOption = "csv",
    lenient: LenientOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train at each of several origins, score the days that follow: one table, a CSV, a JSON document."""
    from app.console import bars, print_json, result_console  # noqa: PLC0415
    from app.learn_tables import demand_table, lives_table, tell_skipped  # noqa: PLC0415
    from app.services import backtesting, records  # noqa: PLC0415
    from data.history import content_hash  # noqa: PLC0415

    history, quotas = records.read_source(records.Source(jobs, pools, file_format, lenient))
    tell_skipped(history)
    rolling = backtesting.Rolling(from_s, until_s, every)
    if known_until is not None:
        rolling = backtesting.Rolling(from_s, until_s, every, known_until)
    with bars(is_silent=as_json) as bar_for:
        found = [
            score(history, quotas, _names(names), rolling, seed=seed, progress_for=bar_for)
            for score, names in (
                (backtesting.backtest_lives, lives),
                (backtesting.backtest_demand, arrivals),
            )
        ]
    rows = [row for rows_of in found for row in rows_of]
    if not rows:
        raise typer.BadParameter("nothing to score: give --lives or --arrivals")
    inputs: dict[str, Any] = {"jobs_sha256": content_hash(history.frame), "seed": seed}
    written = backtesting.write_backtest(out, rows, inputs)
    if as_json:
        print_json({**inputs, "rows": [backtesting.flat(one) for one in rows]})
        return
    console = result_console()
    for rows_of, table in zip(found, (lives_table, demand_table), strict=True):
        if rows_of:
            console.print(table(rows_of, f"{jobs.name}, trained anew every {every:g} days"))
    console.print("Written: " + ", ".join(map(str, written)), markup=False, highlight=False, soft_wrap=True)


@commands.command(epilog="Example: antecast models --data philly-jobs --history")
def models(
    folder: ModelsOption = _MODELS,
    data: Annotated[str | None, typer.Option("--data", help="Of this cluster or data set only.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also say what was decided about each version, and why.")
    ] = False,
    prune: Annotated[
        int | None,
        typer.Option(
            "--prune", min=0, metavar="KEEP", help="First delete all but the newest KEEP and the one in use."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List trained models; * marks the one in use."""
    from app.console import print_json, result_console  # noqa: PLC0415
    from app.learn_tables import models_table  # noqa: PLC0415
    from app.services import trained  # noqa: PLC0415
    from models.artifacts.registry import Registry  # noqa: PLC0415

    registry = Registry(folder)
    lines = [(name, kind) for name, kind in registry.lines() if data in (None, name)]
    if prune is not None:
        for name, kind in lines:
            for number in registry.prune(name, kind, prune):
                typer.echo(f"deleted: {name}, {kind}, version {number}", err=True)
    listed = [trained.listed(registry, name, kind) for name, kind in lines]
    if as_json:
        print_json({"models": listed})
        return
    if not listed:
        typer.echo(f"no models in {folder}: `antecast train` makes some")
        return
    console = result_console()
    console.print(models_table(listed))
    if history:
        for line in listed:
            for one in line["decisions"]:
                text = f"{line['data']}, {line['kind']}, version {one['version']}, {one['at']}: {one['why']}"
                console.print(text, markup=False, highlight=False, soft_wrap=True)


def _learners(lives: str, arrivals: str, quotas: dict[str, int], seed: int) -> "list[Learner]":
    from app.services.demand_learner import DemandLearner  # noqa: PLC0415
    from app.services.learners import LifetimeLearner  # noqa: PLC0415

    chosen: list[Learner] = []
    if lives:
        chosen.append(LifetimeLearner(lives, quotas, seed))
    if arrivals:
        chosen.append(DemandLearner(arrivals, quotas, seed))
    if not chosen:
        raise typer.BadParameter("nothing to train")
    return chosen


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
