"""The command that asks what a change would do: over files, or of a running service."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.client_cli import KeyFileOption, UrlOption
from app.what_if_flags import Flags, read_scenario
from domain.errors import SettingError
from domain.questions import question_from

if TYPE_CHECKING:
    from app.services.what_if_files import Cluster

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

_QUESTION: Final = ("changes", "days", "warm_up_days", "futures", "seed", "learn_days")
_SCENARIO: Final = ("name", *_QUESTION)

Many = list[str] | None
JobsOption = Annotated[Path | None, typer.Option("--jobs", help="CSV of past jobs, with --pools.")]
PoolsOption = Annotated[Path | None, typer.Option("--pools", help="CSV of pools (pool, quota_gpus).")]
NodesOption = Annotated[
    Path | None, typer.Option("--nodes", help="CSV of nodes (node, num_gpus): gangs are put on them.")
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="A cluster of the service at --url instead of files.")
]
ScenarioOption = Annotated[
    Path | None, typer.Option("--scenario", help="TOML or JSON with [[changes]]; flags come after them.")
]
QuotaOption = Annotated[
    Many, typer.Option("--quota", metavar="POOL=N", help="Another quota: 48, +4, -4, +20%, -20%.")
]
ArrivalsOption = Annotated[
    Many, typer.Option("--arrivals", metavar="POOL=xN", help="So many times as many arrivals: x2, x0.5.")
]
GangOption = Annotated[
    Many, typer.Option("--gang", metavar="POOL:GPUS@AT", help="One more gang, at 2026-11-02T10:00 or +6h.")
]
LeaveOutOption = Annotated[
    Many, typer.Option("--leave-out", help="Ids of jobs, with commas; or pool:NAME, user:NAME.")
]
AddNodesOption = Annotated[
    Many, typer.Option("--add-nodes", metavar="NxGPUS[:POOL]", help="More nodes, for a pool or for all.")
]
RemoveNodeOption = Annotated[Many, typer.Option("--remove-node", help="A node that is gone.")]
NoLendingOption = Annotated[
    Many, typer.Option("--no-lending", metavar="FROM/TO", help="Lend nothing: 08:00/18:00, or instants.")
]
PolicyOption = Annotated[str | None, typer.Option("--policy", help="Another policy.")]
SetOption = Annotated[
    Many, typer.Option("--set", metavar="KEY=VALUE", help="A setting that changes; may be repeated.")
]
EpsOption = Annotated[str | None, typer.Option("--eps", help="Another eps: 0.5%, or a share.")]
DaysOption = Annotated[float | None, typer.Option("--days", help="Days of the past to go through again.")]
FuturesOption = Annotated[
    int | None, typer.Option("--futures", help="Draw so many futures from the past instead.")
]
FutureDaysOption = Annotated[int | None, typer.Option("--future-days", help="Length of each.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of everything that is drawn.")]
BasePolicyOption = Annotated[str, typer.Option("--base-policy", help="With --jobs: the policy as it is.")]
BaseSetOption = Annotated[
    Many, typer.Option("--base-set", metavar="KEY=VALUE", help="With --jobs: its settings as they are.")
]
RequeueableOption = Annotated[
    Many, typer.Option("--requeueable-pool", help="With --jobs: a pool whose jobs may be sent back.")
]
OriginOption = Annotated[
    datetime | None, typer.Option("--origin", help="With --jobs: instant (UTC) of the file's second 0.")
]
FormatOption = Annotated[str, typer.Option("--format", help="With --jobs: format of the file.")]
LenientOption = Annotated[bool, typer.Option("--lenient", help="With --jobs: skip bad rows.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


@commands.command(
    "what-if",
    epilog="Example: antecast what-if --jobs jobs.csv --pools pools.csv --quota vision=+20% --eps 0.5% "
    "--arrivals speech=x2 --futures 9",
)
def what_if(
    jobs: JobsOption = None,
    pools: PoolsOption = None,
    nodes: NodesOption = None,
    cluster: ClusterOption = None,
    scenario: ScenarioOption = None,
    quota: QuotaOption = None,
    arrivals: ArrivalsOption = None,
    gang: GangOption = None,
    leave_out: LeaveOutOption = None,
    add_nodes: AddNodesOption = None,
    remove_node: RemoveNodeOption = None,
    no_lending: NoLendingOption = None,
    policy: PolicyOption = None,
    settings: SetOption = None,
    eps: EpsOption = None,
    days: DaysOption = None,
    futures: FuturesOption = None,
    future_days: FutureDaysOption = None,
    seed: SeedOption = None,
    base_policy: BasePolicyOption = "anticipatory",
    base_settings: BaseSetOption = None,
    requeueable_pool: RequeueableOption = None,
    origin: OriginOption = None,
    file_format: FormatOption = "csv",
    lenient: LenientOption = False,
    as_json: JsonOption = False,
    url: UrlOption = "http://127.0.0.1:8000",
    key_file: KeyFileOption = None,
) -> None:
    """Ask what a change would do: replay the past, or futures drawn from it, as it is and changed.

    Nothing is changed by it. Over files, and of a service that has the same jobs, the JSON is the same.
    """
    on_jobs = {"arrivals": arrivals or (), "gang": gang or (), "leave_out": leave_out or ()}
    on_nodes = {"add_nodes": add_nodes or (), "remove_node": remove_node or ()}
    lending = {"no_lending": no_lending or (), "settings": settings or ()}
    flags = Flags(quota or (), policy=policy, eps=eps, **on_jobs, **on_nodes, **lending)
    said: dict[str, Any] = {} if scenario is None else read_scenario(scenario)
    over = {"days": days, "futures": futures, "future_days": future_days, "seed": seed}
    asked = _question(said, flags, over)
    if (cluster is None) == (jobs is None) or (jobs is None) != (pools is None):
        raise typer.BadParameter("give either --jobs and --pools, or --cluster of the service at --url")
    if jobs is not None and pools is not None:
        from app.services.what_if_files import Cluster  # noqa: PLC0415 - slow to load

        settings_as_is = dict(_pair(text) for text in base_settings or ())
        files = (jobs, pools, nodes, base_policy, settings_as_is, file_format, lenient, origin)
        answer = _of_files(Cluster(*files, requeueable_pool or ()), asked, is_silent=as_json)
    else:
        answer = _of_service(url, key_file, str(cluster), {**asked, "name": said.get("name")})
    _tell(answer, as_json=as_json)


def _question(said: Mapping[str, Any], flags: Flags, over: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a question: of the scenario, then of the flags."""
    unknown = sorted(set(said) - set(_SCENARIO))
    if unknown:
        raise SettingError(f"a scenario has no {unknown[0]!r}; it has: {', '.join(_SCENARIO)}")
    asked = {name: said[name] for name in _QUESTION if said.get(name) is not None}
    asked["changes"] = [*said.get("changes", []), *flags.changes()]
    asked |= {name: over[name] for name in ("days", "seed") if over[name] is not None}
    drawn = dict(asked.get("futures") or {})
    if over["futures"] is not None:
        drawn["count"] = over["futures"]
    if over["future_days"] is not None:
        drawn["days"] = over["future_days"]
    return {**asked, "futures": drawn} if drawn else asked


def _of_files(cluster: "Cluster", asked: Mapping[str, Any], *, is_silent: bool) -> dict[str, Any]:
    from app.console import bars  # noqa: PLC0415 - slow to load
    from app.services.what_if_files import ask  # noqa: PLC0415

    question = question_from(asked)
    with bars(is_silent=is_silent) as bar_for:
        return ask(cluster, question, bar_for("replaying"))


def _of_service(url: str, key_file: Path | None, cluster: str, body: Mapping[str, Any]) -> dict[str, Any]:
    from app.remote import Remote, read_key  # noqa: PLC0415 - slow to load

    with Remote(url, read_key(key_file)) as service:
        run = service.post(f"/v1/clusters/{cluster}/what-ifs", body)
        service.wait_for(run["run_id"], lambda _run: None)
        answer: dict[str, Any] = service.get(f"/v1/clusters/{cluster}/what-ifs/{run['run_id']}")["answer"]
        return answer


def _tell(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(answer, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False))
        return
    from app.console import result_console  # noqa: PLC0415 - rich is not for everyone
    from app.what_if_tables import answer_tables  # noqa: PLC0415

    console = result_console()
    for part in answer_tables(answer):
        console.print(part, markup=False, highlight=False)


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE")
    return key, value
