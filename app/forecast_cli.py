"""The commands `antecast forecast`: lives and demand, from files or of a service's cluster."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from app.schemas.forecasts import LifetimesIn
    from app.services.foresight import Foresight

commands = typer.Typer(
    help="How long jobs run, and what pools will ask for.", no_args_is_help=True, rich_markup_mode=None
)

JobsOption = Annotated[
    Path | None, typer.Option("--jobs", help="CSV of past jobs, with --pools and --at; not with --url.")
]
PoolsOption = Annotated[Path | None, typer.Option("--pools", help="CSV of pools (pool, quota_gpus).")]
AtOption = Annotated[
    float | None, typer.Option("--at", help="Instant (s) of the question; nothing later is looked at.")
]
LivesOption = Annotated[str, typer.Option("--lives", help="Lifetime model; a service has its own.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the training; a service has its own.")]
FormatOption = Annotated[str, typer.Option("--format", help="Format of the file of jobs.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="Ask the service there, about --cluster, instead of files.")
]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="With --url: name of the cluster.")]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", help="With --url: file with the API key, readable by you only.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]

_PATIENCE_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True)
class _Source:
    """Where forecasts come from: files, or a service."""

    jobs: Path | None
    pools: Path | None
    at_s: float | None
    lives: str
    seed: int
    file_format: str
    url: str | None
    cluster: str | None
    key_file: Path | None

    def require(self) -> None:
        """Raise a usage error unless it is wholly one of the two."""
        files = (self.jobs, self.pools, self.at_s)
        if self.url is None and (None in files or self.cluster is not None):
            raise typer.BadParameter("give --jobs, --pools and --at, or --url and --cluster")
        if self.url is not None and (self.cluster is None or any(one is not None for one in files)):
            raise typer.BadParameter("with --url give --cluster, and neither --jobs, --pools nor --at")
        if self.at_s is not None and not math.isfinite(self.at_s):
            raise typer.BadParameter(f"--at is {self.at_s}, must be a finite number of seconds")


@commands.command(
    epilog="Example: antecast forecast lifetime asked.json --jobs jobs.csv --pools pools.csv --at 1036800"
)
def lifetime(
    asked: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help='JSON as POST .../forecasts/lifetime takes it: {"jobs": [{"job": {"pool": "vision", '
            '"num_gpus": 2}, "elapsed_s": 3600}], "levels": [0.1, 0.5, 0.9], "within_s": [7200]}.',
        ),
    ],
    jobs: JobsOption = None,
    pools: PoolsOption = None,
    at: AtOption = None,
    lives: LivesOption = "hazard",
    seed: SeedOption = 0,
    file_format: FormatOption = "csv",
    url: UrlOption = None,
    cluster: ClusterOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast how long jobs run on, given how long they have; docs/forecasts-api.md says what it means.

    From files, `job_id` names a job that has been submitted and has not ended at --at.
    """
    source = _Source(jobs, pools, at, lives, seed, file_format, url, cluster, key_file)
    source.require()
    body = _read(asked)
    document = _lifetimes_of_service(source, body) if url is not None else _lifetimes_of_files(source, body)
    from app.console import print_json, result_console  # noqa: PLC0415 - slow to load
    from app.forecast_tables import lives_asked  # noqa: PLC0415

    if as_json:
        print_json(document)
    else:
        result_console().print(lives_asked(document))


@commands.command(
    epilog="Example: antecast forecast demand --url http://127.0.0.1:8000 --cluster research --step 1h"
)
def demand(
    pool: Annotated[
        list[str] | None, typer.Option("--pool", help="About this pool; may be repeated [default: all].")
    ] = None,
    horizon: Annotated[str, typer.Option("--horizon", metavar="SPAN", help="How far ahead.")] = "24h",
    step: Annotated[str, typer.Option("--step", metavar="SPAN", help="Length of a step.")] = "1h",
    level: Annotated[
        list[float] | None, typer.Option("--level", help="May be repeated [default: .1 .5 .9].")
    ] = None,
    jobs: JobsOption = None,
    pools: PoolsOption = None,
    at: AtOption = None,
    lives: LivesOption = "hazard",
    seed: SeedOption = 0,
    file_format: FormatOption = "csv",
    url: UrlOption = None,
    cluster: ClusterOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forecast the peak GPUs and the arrivals of pools, step by step; docs/forecasts-api.md."""
    from app.service_cli import seconds_of  # noqa: PLC0415 - slow to load

    source = _Source(jobs, pools, at, lives, seed, file_format, url, cluster, key_file)
    source.require()
    query = _query(pool, seconds_of(horizon), seconds_of(step), sorted(level or [0.1, 0.5, 0.9]))
    document = _demand_of_service(source, query) if url is not None else _demand_of_files(source, query)
    from app.console import print_json, result_console  # noqa: PLC0415
    from app.forecast_tables import steps_asked  # noqa: PLC0415

    if as_json:
        print_json(document)
        return
    console = result_console()
    for table in steps_asked(document):
        console.print(table)
    for what, score in document["held_out"].items():
        console.print(f"{what}: {score['note']}", markup=False, highlight=False, soft_wrap=True)


def _lifetimes_of_service(source: _Source, body: "LifetimesIn") -> dict[str, Any]:
    from app.services.forecast_documents import lifetimes_of_answer  # noqa: PLC0415

    path = f"/v1/clusters/{source.cluster}/forecasts/lifetime"
    asked = body.model_dump(mode="json", exclude_unset=True)
    answer = _scored(source, lambda service: service.post(path, asked), ("held_out",))
    return lifetimes_of_answer(answer)


def _lifetimes_of_files(source: _Source, body: "LifetimesIn") -> dict[str, Any]:
    from app.services import forecast_documents, foresight  # noqa: PLC0415
    from app.services.facts import job_of  # noqa: PLC0415

    if body.ends_by:
        raise typer.BadParameter("files have no calendar: ask with `within_s` instead of `ends_by`")
    made, at_s = _trained(source)
    ages = {job.job_id: (job, age_s) for job, age_s in made.training.censored}
    rows: list[dict[str, Any]] = []
    known: list[tuple[Any, float]] = []
    for place, one in enumerate(body.jobs):
        job, age_s = ages.get(one.job_id or "", (None, 0.0))
        if one.job is not None:
            job = job_of({**one.job.model_dump(), "job_id": f"\0{place}", "submit_s": at_s})
        row = {"job_id": one.job_id, "pool": None if job is None else job.pool, "why_not": None}
        if job is None:
            row["why_not"] = foresight.NOT_LIVE
        else:
            known.append((job, age_s if one.elapsed_s is None else one.elapsed_s))
        rows.append(row)
    said = {
        "levels": body.levels,
        "within_s": body.within_s,
        "items": made.rows(rows, known, at_s, levels=body.levels, within_s=body.within_s),
    }
    scores = foresight.held_out(made.name, made.training)
    return forecast_documents.lifetimes(said, made.rests_on(), forecast_documents.scored(scores, "lifetime"))


def _demand_of_service(source: _Source, query: Mapping[str, Any]) -> dict[str, Any]:
    from urllib.parse import urlencode  # noqa: PLC0415

    from app.services.forecast_documents import demand_of_answer  # noqa: PLC0415

    asked = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
    path = f"/v1/clusters/{source.cluster}/forecasts/demand?{asked}"
    answer = _scored(source, lambda service: service.get(path), ("held_out_peak_gpus", "held_out_arrivals"))
    return demand_of_answer(answer)


def _demand_of_files(source: _Source, query: Mapping[str, Any]) -> dict[str, Any]:
    from app.services import forecast_documents, foresight  # noqa: PLC0415

    made, at_s = _trained(source)
    try:
        said = made.steps(
            at_s,
            pools=query["pool"],
            horizon_s=query["horizon_s"],
            step_s=query["step_s"],
            levels=query["levels"],
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    scores = foresight.held_out(made.name, made.training)
    held_out = {what: forecast_documents.scored(scores, what) for what in ("peak_gpus", "arrivals")}
    return forecast_documents.demand({**query, **said}, made.rests_on(), held_out)


def _scored(source: _Source, ask: Callable[[Any], dict[str, Any]], scores: tuple[str, ...]) -> dict[str, Any]:
    """Ask a service, and again while it works out how good its answers are."""
    from app.remote import Remote, read_key  # noqa: PLC0415 - slow to load

    until_s = time.monotonic() + _PATIENCE_S
    with Remote(str(source.url), read_key(source.key_file)) as service:
        while True:
            answer = ask(service)
            is_pending = any(answer[name]["state"] == "pending" for name in scores)
            if not is_pending or time.monotonic() > until_s:
                return answer
            time.sleep(_LOOK_EVERY_S)


def _trained(source: _Source) -> "tuple[Foresight, float]":
    from app.services import foresight, records  # noqa: PLC0415 - slow to load

    if source.jobs is None or source.pools is None or source.at_s is None:
        raise typer.BadParameter("give --jobs, --pools and --at")
    files = records.Source(source.jobs, source.pools, source.file_format, False)
    history, quotas = records.read_source(files)
    made = foresight.of_record(history.frame, quotas, source.at_s, source.lives, source.seed)
    return made, source.at_s


def _read(asked: Path) -> "LifetimesIn":
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load

    from app.schemas.forecasts import LifetimesIn  # noqa: PLC0415

    try:
        return LifetimesIn.model_validate_json(asked.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise typer.BadParameter(f"{asked}: {where}: {first['msg']}") from error


def _query(pool: list[str] | None, horizon_s: float, step_s: float, levels: list[float]) -> dict[str, Any]:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load

    from app.schemas.forecasts import DemandIn  # noqa: PLC0415

    try:
        made = DemandIn(pool=pool or None, horizon_s=horizon_s, step_s=step_s, levels=levels)
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return made.model_dump()
