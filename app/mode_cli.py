"""The commands about modes: how far a decision goes, the kill switch, reviews, and observed days."""

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
)

commands = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

ClusterArgument = Annotated[str, typer.Argument(help="Name of the cluster.")]

_MODES: Final = ("observe", "advise", "enforce")
_APPROVALS: Final = ("automatic", "required")


@commands.command(name="mode", epilog="Example: antecast mode research observe")
def mode(
    cluster: ClusterArgument,
    wanted: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODE]",
            help="observe (only look on), advise (somebody reviews lending) or enforce; left out: say which.",
        ),
    ] = None,
    approval: Annotated[
        str | None,
        typer.Option("--approval", help="Whether plans need approval: automatic or required."),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Say in which mode a cluster is, or change it."""
    changes = _changes(wanted, approval)
    path = f"/v1/clusters/{cluster}"
    with _service(url, key_file) as service:
        found = service.change("PATCH", path, changes, path) if changes else service.get(path)
    _tell(found, as_json=as_json)


@commands.command(name="stop-lending", epilog="Example: antecast stop-lending research")
def stop_lending(
    cluster: ClusterArgument,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """The kill switch: start no guest any more, at once.

    Guests that run are left until their GPUs are wanted. Changing the cluster's is_lending turns it on again.
    """
    with _service(url, key_file) as service:
        found = service.post(f"/v1/clusters/{cluster}/stop-lending")
    _tell(found, as_json=as_json)


@commands.command(name="actions", epilog="Example: antecast actions --cluster research --accept 12")
def actions(
    cluster: ClusterOption,
    accept: Annotated[
        list[int] | None, typer.Option("--accept", min=1, help="Accept this one; may be repeated.")
    ] = None,
    reject: Annotated[
        list[int] | None, typer.Option("--reject", min=1, help="Reject this one; may be repeated.")
    ] = None,
    status: Annotated[str, typer.Option("--status", help="Of those to list.")] = "proposed",
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """List what lending proposes in a cluster whose mode is advise, or review it."""
    path = f"/v1/clusters/{cluster}/actions"
    with _service(url, key_file) as service:
        reviewed = [service.post(f"{path}/{number}/accept") for number in accept or []]
        reviewed += [service.post(f"{path}/{number}/reject") for number in reject or []]
        found: dict[str, Any] = {"items": reviewed, "next_after": None}
        if not reviewed:
            found = service.get(f"{path}?status={status}")
    if as_json:
        _print_json(found)
        return
    from app.mode_tables import actions_table  # noqa: PLC0415 - rich is not for everyone

    _print(*actions_table(found["items"]))


@commands.command(
    name="observations", epilog="Example: antecast observations --cluster research --day 2026-01-06"
)
def observations(
    cluster: ClusterOption,
    day: Annotated[
        str | None,
        typer.Option("--day", metavar="YYYY-MM-DD", help="Look back at this day (UTC) now, and wait for it."),
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = _URL,
    key_file: KeyFileOption = None,
) -> None:
    """Print what sharing would have made of the last days, beside what happened and beside no sharing."""
    path = f"/v1/clusters/{cluster}/observations"
    with _service(url, key_file) as service:
        if day is None:
            found = service.get(path)
        else:
            run = service.post(path, {"day": day})
            with _progress("going through the day again", is_silent=as_json) as tell:
                service.wait_for(run["run_id"], tell)
            found = {"items": [service.get(f"{path}/{day}")], "next_before": None}
    if as_json:
        _print_json(found)
        return
    from app.mode_tables import observations_table  # noqa: PLC0415 - rich is not for everyone

    _print(*observations_table(found["items"]))


def _changes(wanted: str | None, approval: str | None) -> dict[str, str]:
    changes = {}
    for name, value, known in (("mode", wanted, _MODES), ("approval", approval, _APPROVALS)):
        if value is None:
            continue
        if value not in known:
            raise typer.BadParameter(f"{name} is {value!r}, must be one of: {', '.join(known)}")
        changes[name] = value
    return changes


def _tell(found: dict[str, Any], *, as_json: bool) -> None:
    names = ("name", "mode", "approval", "is_lending", "enforced_by", "version")
    said = {name: found[name] for name in names}
    if as_json:
        _print_json(said)
        return
    lends = "lends" if found["is_lending"] and found["mode"] != "observe" else "lends nothing"
    typer.echo(f"{found['name']}: mode {found['mode']}, {lends}; approval of plans: {found['approval']}")
