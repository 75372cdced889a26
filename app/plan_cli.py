"""The commands about plans: made, listed, looked at, reviewed, set beside each other."""

from typing import Annotated, Any, Final

import typer

from app.client_cli import (
    _URL,
    ClusterOption,
    JsonOption,
    KeyFileOption,
    UrlOption,
    _print,
    _print_json,
    _progress,
    _service,
    _until_planned,
)

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
plan_commands = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
commands.add_typer(plan_commands, name="plan")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="Its id; `latest` names the newest.")]
ReviewedArgument = Annotated[str, typer.Argument(metavar="PLAN", help="Its id.")]
VersionOption = Annotated[
    int | None,
    typer.Option("--version", min=1, help="The version you have seen [default: the present one]."),
]

_SHOWN: Final = 20


@plan_commands.callback(epilog="Example: antecast plan --cluster research")
def plan(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Name of the cluster.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Make a plan of this moment, wait for it and print it; or show, approve, reject, compare one.

    Executors carry it out, unless somebody has to approve it or the cluster is only observed; where the
    scheduler asks for decisions it is advice.
    """
    if context.invoked_subcommand is not None:
        return
    if cluster is None:
        raise typer.BadParameter("say for which cluster: --cluster NAME")
    with _service(url, key_file) as service:
        run = service.post(f"/v1/clusters/{cluster}/replans")
        with _progress("planning", is_silent=as_json) as tell:
            done = _until_planned(service, run["run_id"], tell)
        made = service.get(f"/v1/clusters/{cluster}/plans/{done['result']['plan_id']}")
    _tell(made, as_json=as_json)


@commands.command(name="plans", epilog="Example: antecast plans --cluster research")
def list_plans(
    cluster: ClusterOption,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many.")] = _SHOWN,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """List a cluster's plans, the newest first."""
    with _service(url, key_file) as service:
        found = service.get(f"/v1/clusters/{cluster}/plans?limit={limit}")
    if as_json:
        _print_json(found)
        return
    from app.mode_tables import plans_table  # noqa: PLC0415 - rich is not for everyone

    _print(*plans_table(found["items"]))


@plan_commands.command(name="show", epilog="Example: antecast plan show latest --cluster research")
def show_plan(
    plan_id: PlanArgument,
    cluster: ClusterOption,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Print a plan, what its holds rest on, and what they have come to."""
    with _service(url, key_file) as service:
        found = service.get(f"/v1/clusters/{cluster}/plans/{plan_id}")
    _tell(found, as_json=as_json)


@plan_commands.command(
    name="approve", epilog="Example: antecast plan approve plan-run-019b --cluster research"
)
def approve_plan(
    plan_id: ReviewedArgument,
    cluster: ClusterOption,
    version: VersionOption = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Approve a draft: it goes out at once. Refused if somebody was faster, or it has expired."""
    path = f"/v1/clusters/{cluster}/plans/{plan_id}"
    with _service(url, key_file) as service:
        _tell(service.change("POST", f"{path}/approve", {}, path, version), as_json=as_json)


@plan_commands.command(name="reject", epilog="Example: antecast plan reject plan-run-019b --cluster research")
def reject_plan(
    plan_id: ReviewedArgument,
    cluster: ClusterOption,
    version: VersionOption = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Reject a draft: nothing comes of it."""
    path = f"/v1/clusters/{cluster}/plans/{plan_id}"
    with _service(url, key_file) as service:
        _tell(service.change("POST", f"{path}/reject", {}, path, version), as_json=as_json)


@plan_commands.command(name="diff", epilog="Example: antecast plan diff latest --cluster research")
def diff_plan(
    plan_id: PlanArgument,
    cluster: ClusterOption,
    to: Annotated[str | None, typer.Option("--to", help="The other plan [default: the one before].")] = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Set a plan beside another: what was added, is gone, moved, or was done meanwhile."""
    query = "" if to is None else f"?to={to}"
    with _service(url, key_file) as service:
        found = service.get(f"/v1/clusters/{cluster}/plans/{plan_id}/diff{query}")
    if as_json:
        _print_json(found)
        return
    from app.mode_tables import diff_table  # noqa: PLC0415 - rich is not for everyone

    _print(*diff_table(found))


def _tell(made: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _print_json(made)
        return
    from app.mode_tables import holds_table, life_of  # noqa: PLC0415 - rich is not for everyone
    from app.service_tables import plan_table  # noqa: PLC0415

    _print(*plan_table(made), *life_of(made), *holds_table(made))
