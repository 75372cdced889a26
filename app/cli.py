"""The command `antecast`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from app import (
    client_cli,
    episodes_cli,
    evaluate_cli,
    forecast_cli,
    history_cli,
    idle_cli,
    import_cli,
    key_cli,
    learn_cli,
    mode_cli,
    ops_cli,
    pack_cli,
    packing_cli,
    place_cli,
    plan_cli,
    pull_cli,
    service_cli,
    what_if_cli,
    why_cli,
)
from app.demo import cli as demo_cli
from app.options import CheckPlansOption
from domain.errors import AntecastError, InputError, PlanError, StalledError

if TYPE_CHECKING:
    from app.services.compare import Choice, Row
    from app.services.ingest import Inputs

EXIT_FAULT: Final = 1
EXIT_USAGE: Final = 2
EXIT_BROKEN: Final = 3

_EPILOG: Final = (
    "Exit codes: 0 done; 1 a schedule breaks a rule; 2 bad input, setting or usage; "
    "3 a policy planned what cannot be, or what breaks a rule of docs/plan-checks.md (a bug worth reporting)."
)

cli = typer.Typer(
    name="antecast",
    help="Lend idle GPUs between pools without any pool ever noticing.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cli.add_typer(service_cli.commands)
cli.add_typer(key_cli.commands)
cli.add_typer(ops_cli.commands)
cli.add_typer(import_cli.commands)
cli.add_typer(pull_cli.commands)
cli.add_typer(history_cli.commands)
cli.add_typer(client_cli.commands)
cli.add_typer(plan_cli.commands)
cli.add_typer(mode_cli.commands)
cli.add_typer(demo_cli.commands)
cli.add_typer(learn_cli.commands)
cli.add_typer(evaluate_cli.commands)
cli.add_typer(why_cli.commands)
cli.add_typer(forecast_cli.commands, name="forecast")
cli.add_typer(episodes_cli.commands)
cli.add_typer(place_cli.commands)
cli.add_typer(pack_cli.commands)
cli.add_typer(packing_cli.commands)
cli.add_typer(idle_cli.commands)
cli.add_typer(what_if_cli.commands)

# Everything else is imported where it is used: numpy, pandas and the models are slow to load.

JobsOption = Annotated[
    Path, typer.Option("--jobs", help="CSV of jobs (job_id, pool, submit_s, num_gpus, ...).")
]
PoolsOption = Annotated[Path, typer.Option("--pools", help="CSV of pools (pool, quota_gpus).")]
NodesOption = Annotated[
    Path | None,
    typer.Option(
        "--nodes", help="CSV of nodes (node, num_gpus): gangs are put on GPUs, on the fewest nodes."
    ),
]
PairsOption = Annotated[
    Path | None,
    typer.Option(
        "--pairs",
        help="CSV of measured pairs (model_a, model_b, rate_a, rate_b): with --nodes, what policies that "
        "pack need.",
    ),
]
HistoryOption = Annotated[
    Path | None,
    typer.Option("--history", help="More jobs to learn from, that ended before the replay begins."),
]
FormatOption = Annotated[str, typer.Option("--format", help="Format of the files of jobs.")]
TrainUntilOption = Annotated[
    float,
    typer.Option(
        "--train-until", help="Instant (s) at which the replay begins; what ended before is learned from."
    ),
]
EvalFromOption = Annotated[
    float | None,
    typer.Option(
        "--eval-from", help="Jobs submitted from this instant (s) on are measured [default: --train-until]."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything that is drawn.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated."),
]
TruthOption = Annotated[
    bool, typer.Option("--clairvoyant", help="Let policies see true lives; their rows are starred.")
]
LenientOption = Annotated[
    bool, typer.Option("--lenient", help="Skip bad rows, and list them, instead of refusing.")
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder to write into.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
ReferenceOption = Annotated[
    str,
    typer.Option(
        "--reference",
        help="Measure against this world without sharing, too: fcfs, backfill or priority "
        "(docs/references.md).",
    ),
]
PictureOption = Annotated[str, typer.Option("--picture", help="Format of the pictures: png or svg.")]


@cli.command(
    epilog="Example: antecast replay --jobs jobs.csv --pools pools.csv --policy reclaim "
    "--set requeueable=1 --set order=shortest --train-until 1641600 --eval-from 1814400 --out var/run"
)
def replay(
    jobs: JobsOption,
    pools: PoolsOption,
    policy: Annotated[str, typer.Option("--policy", help="Name of the policy: see `antecast policies`.")],
    out: OutOption,
    nodes: NodesOption = None,
    pairs: PairsOption = None,
    history: HistoryOption = None,
    file_format: FormatOption = "csv",
    train_until: TrainUntilOption = 0.0,
    eval_from: EvalFromOption = None,
    seed: SeedOption = 0,
    settings: SetOption = None,
    clairvoyant: TruthOption = False,
    lenient: LenientOption = False,
    as_json: JsonOption = False,
    reference: ReferenceOption = "fcfs",
    check_plans: CheckPlansOption = True,
) -> None:
    """Replay a history under one policy; write schedule.csv and report.json."""
    from app.console import bars, print_json, tell_inputs, tell_replay  # noqa: PLC0415
    from app.services.compare import Choice, parse_pairs, run_one, write_replay  # noqa: PLC0415
    from app.services.ingest import Source, load  # noqa: PLC0415

    inputs = load(Source(jobs, pools, history, file_format, train_until, eval_from, lenient, nodes, pairs))
    tell_inputs(inputs, as_json=as_json)
    choice = Choice(policy, parse_pairs(settings or []), policy)
    with bars(is_silent=as_json) as bar_for:
        done, report = run_one(
            inputs.workload,
            choice,
            may_see_truth=clairvoyant,
            seed=seed,
            progress=bar_for(policy),
            reference=reference,
            checks_plans=check_plans,
            pairs=inputs.pairs,
        )
    report = {**report, "seed": seed, "inputs": inputs.hashes}
    write_replay(out, done, report)
    if as_json:
        print_json(report)
    else:
        tell_replay(report, out)
    if report["faults"]:
        raise typer.Exit(EXIT_FAULT)


@cli.command(
    epilog="Example: antecast compare --jobs jobs.csv --pools pools.csv --clairvoyant "
    "--policies fcfs,backfill,gssf,maxmin,reclaim:order=shortest:lives=learned --out var/compare"
)
def compare(
    jobs: JobsOption,
    pools: PoolsOption,
    policies: Annotated[
        str,
        typer.Option("--policies", help="Policies, comma-separated; settings as name:key=value:key=value."),
    ],
    out: OutOption,
    nodes: NodesOption = None,
    pairs: PairsOption = None,
    history: HistoryOption = None,
    file_format: FormatOption = "csv",
    train_until: TrainUntilOption = 0.0,
    eval_from: EvalFromOption = None,
    seed: SeedOption = 0,
    clairvoyant: TruthOption = False,
    lenient: LenientOption = False,
    as_json: JsonOption = False,
    picture: PictureOption = "png",
    reference: ReferenceOption = "fcfs",
    check_plans: CheckPlansOption = True,
) -> None:
    """Replay a history under several policies: one table, a CSV, two pictures."""
    from app.console import tell_inputs  # noqa: PLC0415
    from app.services.ingest import Source, load  # noqa: PLC0415

    choices = _choices(policies)
    _require_picture(picture)
    inputs = load(Source(jobs, pools, history, file_format, train_until, eval_from, lenient, nodes, pairs))
    tell_inputs(inputs, as_json=as_json)
    title = f"{jobs.name} on {pools.name}"
    rows = _run_and_write(
        inputs,
        choices,
        out,
        title,
        seed=seed,
        may_see_truth=clairvoyant,
        is_silent=as_json,
        reference=reference,
        checks_plans=check_plans,
    )
    _finish_comparison(rows, out, title, picture, as_json=as_json)


@cli.command("demo-replay", epilog="Example: antecast demo-replay --out var/demo-replay")
def demo_replay(
    out: OutOption = Path("var/demo-replay"),
    seed: SeedOption = 7,
    days: Annotated[float, typer.Option("--days", min=2, max=60, help="Days of jobs to generate.")] = 14.0,
    as_json: JsonOption = False,
    picture: PictureOption = "png",
) -> None:
    """Generate a cluster like the Philly trace and compare what sharing does to it."""
    from app.console import tell_inputs  # noqa: PLC0415
    from app.services.ingest import Source, load  # noqa: PLC0415
    from data.synthetic import philly_like, write_csv  # noqa: PLC0415

    _require_picture(picture)
    folder = out / "workload"
    write_csv(philly_like(seed, days=days, load=1.0), folder)
    source = Source(
        folder / "jobs.csv",
        folder / "pools.csv",
        train_until_s=days * 86_400 * 0.3,
        eval_from_s=days * 86_400 * 0.4,
    )
    inputs = load(source)
    tell_inputs(inputs, as_json=as_json)
    title = f"a generated cluster: {inputs.workload.cluster.capacity_gpus} GPUs, {days:g} days, seed {seed}"
    choices = _choices("fcfs,backfill,maxmin,sia,anticipatory")
    rows = _run_and_write(inputs, choices, out, title, seed=seed, may_see_truth=False, is_silent=as_json)
    _finish_comparison(rows, out, title, picture, as_json=as_json)


@cli.command(epilog="Example: antecast generate philly-like --seed 7 --days 14 --load 0.8 --out var/workload")
def generate(
    kind: Annotated[str, typer.Argument(help="philly-like, or sia (the yardstick of the SIA paper).")],
    out: OutOption,
    seed: SeedOption = 0,
    days: Annotated[float, typer.Option("--days", min=0.1, max=365, help="Days of jobs.")] = 14.0,
    load_share: Annotated[
        float | None,
        typer.Option("--load", help="philly-like: average load of each pool; sia: scale of the drawn loads."),
    ] = None,
    num_pools: Annotated[
        int | None, typer.Option("--num-pools", min=1, max=1000, help="Number of pools.")
    ] = None,
    checkpoint_s: Annotated[
        float | None, typer.Option("--checkpoint-s", min=1, help="Jobs save their progress every so often.")
    ] = None,
    restart_s: Annotated[
        float,
        typer.Option("--restart-s", min=0, help="With --checkpoint-s: time to be back at a checkpoint."),
    ] = 0.0,
    checkpoint_share: Annotated[
        float, typer.Option("--checkpoint-share", min=0, max=1, help="With --checkpoint-s: share that saves.")
    ] = 1.0,
) -> None:
    """Generate jobs.csv and pools.csv."""
    from data.synthetic import philly_like, sia_workload, with_checkpoints, write_csv  # noqa: PLC0415

    if kind == "sia":
        scale = 1.0 if load_share is None else load_share
        made = sia_workload(seed, num_pools=num_pools or 4, days=days, load_scale=scale)
    elif kind == "philly-like":
        made = philly_like(seed, days=days, load=load_share, num_pools=num_pools)
    else:
        raise typer.BadParameter(f"{kind!r} is neither philly-like nor sia")
    if checkpoint_s is not None:
        made = with_checkpoints(
            made, every_s=checkpoint_s, restart_s=restart_s, share=checkpoint_share, seed=seed
        )
    elif restart_s or checkpoint_share < 1.0:
        raise typer.BadParameter("--restart-s and --checkpoint-share go with --checkpoint-s")
    write_csv(made, out)
    typer.echo(f"{len(made.frame)} jobs of {len(made.quotas)} pools in {out}")


@cli.command()
def policies(as_json: JsonOption = False) -> None:
    """List the policies and what can be set."""
    from app.console import print_json  # noqa: PLC0415
    from simulator.forecasting import common_choices  # noqa: PLC0415
    from solver.policies import POLICIES  # noqa: PLC0415
    from solver.policies.base import describe_settings, setting_text  # noqa: PLC0415

    listed: dict[str, dict[str, Any]] = {
        name: {
            "clairvoyant": spec.is_clairvoyant,
            "settings": describe_settings(spec.settings)
            | {setting: names[0] for setting, names in common_choices(spec).items()},
            "choices": common_choices(spec),
            "rule": (sys.modules[spec.build.__module__].__doc__ or "").strip().splitlines()[0],
        }
        for name, spec in POLICIES.items()
    }
    if as_json:
        print_json(listed)
        return
    for name, entry in listed.items():
        star = "*" if entry["clairvoyant"] else ""
        typer.echo(f"{name}{star}: {entry['rule']}")
        for key, default in entry["settings"].items():
            shown = setting_text(default)
            others = entry["choices"].get(key, ())[1:]
            typer.echo(f"    --set {key}={shown}" + (f"  (or {', '.join(others)})" if others else ""))


def main() -> None:
    """Run the command line; errors meant for people become one message and an exit code."""
    try:
        cli(prog_name="antecast")
    except InputError as error:
        hint = "--lenient skips bad rows of jobs and lists them"
        _fail(f"{error}\n{len(error.faults)} fault(s); {hint}", EXIT_USAGE)
    except (PlanError, StalledError) as error:
        _fail(str(error), EXIT_BROKEN)
    except AntecastError as error:
        _fail(str(error), EXIT_USAGE)


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"antecast: {message}\n")
    raise SystemExit(code)


def _choices(text: str) -> "list[Choice]":
    from app.services.compare import parse_choice  # noqa: PLC0415

    choices = [parse_choice(part.strip()) for part in text.split(",") if part.strip()]
    if not choices:
        raise typer.BadParameter("--policies names no policy: see `antecast policies`")
    return choices


def _require_picture(picture: str) -> None:
    if picture not in ("png", "svg"):
        raise typer.BadParameter(f"{picture!r} is neither png nor svg")


def _run_and_write(
    inputs: "Inputs",
    choices: "Sequence[Choice]",
    out: Path,
    title: str,
    *,
    seed: int,
    may_see_truth: bool,
    is_silent: bool,
    reference: str = "fcfs",
    checks_plans: bool = True,
) -> "list[Row]":
    from app.console import bars  # noqa: PLC0415
    from app.services.compare import run_all, write_rows  # noqa: PLC0415

    with bars(is_silent=is_silent) as bar_for:
        rows = run_all(
            inputs.workload,
            choices,
            may_see_truth=may_see_truth,
            seed=seed,
            progress_for=bar_for,
            reference=reference,
            checks_plans=checks_plans,
            pairs=inputs.pairs,
        )
    write_rows(out, rows, {"seed": seed, "inputs": inputs.hashes, "title": title})
    return rows


def _finish_comparison(rows: "Sequence[Row]", out: Path, title: str, picture: str, *, as_json: bool) -> None:
    from app.console import print_json, result_console  # noqa: PLC0415
    from app.pictures import draw_speed_against_slowed, draw_speedups  # noqa: PLC0415
    from app.services.compare import flat  # noqa: PLC0415
    from app.tables import against_reference, comparison, shared_gpus, verdict  # noqa: PLC0415

    drawn = [out / f"speed-against-slowed.{picture}", out / f"speedups.{picture}"]
    draw_speed_against_slowed(rows, drawn[0], title)
    draw_speedups(rows, drawn[1], title)
    if as_json:
        print_json({"title": title, "verdict": verdict(rows), "rows": [flat(row) for row in rows]})
    else:
        console = result_console()
        console.print(comparison(rows, title))
        for other in (against_reference(rows), shared_gpus(rows)):
            if other is not None:
                console.print(other)
        console.print(verdict(rows), markup=False, highlight=False)
        written = [out / "compare.csv", *drawn]
        console.print(
            "Written: " + ", ".join(map(str, written)), markup=False, highlight=False, soft_wrap=True
        )
    if any(row.report["faults"] for row in rows):
        raise typer.Exit(EXIT_FAULT)
