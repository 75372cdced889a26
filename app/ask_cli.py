"""The commands that ask a running service what it expects, and why jobs wait."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from app.client_cli import ClusterOption, JsonOption, KeyFileOption, UrlOption

if TYPE_CHECKING:
    from app.remote import Remote

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
forecast_commands = typer.Typer(
    help="What a running service expects: lives of jobs, demand of pools.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
commands.add_typer(forecast_commands, name="forecast")

_URL: Final = "http://127.0.0.1:8000"
_HOUR_S: Final = 3600.0


@forecast_commands.command("lives", epilog="Example: antecast forecast lives job-1 --cluster research")
def lives(
    jobs: Annotated[list[str], typer.Argument(help="Ids of live jobs.")],
    cluster: ClusterOption,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """How long live jobs are still going to run: one in ten is done by the first column, nine by the last."""
    body = {"jobs": [{"job_id": job} for job in jobs], "levels": [0.1, 0.5, 0.9], "within_s": [_HOUR_S]}
    with _service(url, key_file) as service:
        answer = service.post(f"/v1/clusters/{cluster}/forecasts/lifetime", body)
    _tell(answer, "lives_table", as_json=as_json)


@forecast_commands.command("demand", epilog="Example: antecast forecast demand --cluster research")
def demand(
    cluster: ClusterOption,
    pool: Annotated[str | None, typer.Option("--pool", help="This pool only.")] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=336.0, help="How far ahead.")] = 24.0,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """GPUs that jobs still to come will ask for, pool by pool and step by step."""
    params: dict[str, Any] = {"horizon_s": hours * _HOUR_S, "level": [0.5, 0.9]}
    if pool is not None:
        params["pool"] = pool
    with _service(url, key_file) as service:
        answer = service.get(f"/v1/clusters/{cluster}/forecasts/demand", **params)
    _tell(answer, "demand_table", as_json=as_json)


@commands.command("waiting", epilog="Example: antecast waiting --cluster research --job job-7")
def waiting(
    cluster: ClusterOption,
    job: Annotated[str | None, typer.Option("--job", help="Ask about this job only, in full.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, max=1000, help="How many jobs to print.")] = 40,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Say why jobs of a live cluster wait; `antecast why` says it of a record, in the same words.

    The reason that binds, its numbers, what would let the job start now, and when it is expected to.
    """
    with _service(url, key_file) as service:
        if job is None:
            answer = service.get(f"/v1/clusters/{cluster}/explanations", limit=most)
        else:
            answer = service.get(f"/v1/clusters/{cluster}/jobs/{quote(job, safe='')}/explanation")
    _tell(answer, "waits_table" if job is None else "explanation_lines", as_json=as_json)


def _service(url: str, key_file: Path | None) -> "Remote":
    from app.remote import Remote, read_key  # noqa: PLC0415 - slow to load

    return Remote(url, read_key(key_file))


def _tell(answer: dict[str, Any], as_what: str, *, as_json: bool) -> None:
    from app import ask_tables  # noqa: PLC0415 - rich is not for everyone
    from app.console import print_json, result_console  # noqa: PLC0415

    if as_json:
        print_json(answer)
        return
    console = result_console()
    for part in getattr(ask_tables, as_what)(answer):
        console.print(part, markup=False, highlight=False)
