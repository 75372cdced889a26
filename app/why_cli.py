"""The command `antecast why`: why jobs wait at an instant of a replay, and what would change that."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.forecast_cli import ClusterOption, KeyFileOption, UrlOption
from app.options import CheckPlansOption

if TYPE_CHECKING:
    from simulator.waiting import Explained
    from solver.explain.words import Waiting

_NodesOption = Annotated[
    Path | None,
    typer.Option(
        "--nodes", help="CSV of nodes (node, num_gpus): gangs are put on GPUs, on the fewest nodes."
    ),
]
_JobsOption = Annotated[
    Path | None, typer.Option("--jobs", help="CSV of jobs (job_id, pool, submit_s, num_gpus, ...).")
]
_PoolsOption = Annotated[Path | None, typer.Option("--pools", help="CSV of pools (pool, quota_gpus).")]
_AtOption = Annotated[
    float | None, typer.Option("--at", help="Instant (s) of the question, on the clock of --jobs.")
]
_PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Name of the policy: see `antecast policies`.")
]
_TrainUntilOption = Annotated[
    float, typer.Option("--train-until", help="Instant (s) at which the replay begins.")
]
_HistoryOption = Annotated[
    Path | None,
    typer.Option("--history", help="More jobs to learn from, that ended before the replay begins."),
]
_FormatOption = Annotated[str, typer.Option("--format", help="Format of the files of jobs.")]
_SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything that is drawn.")]
_TruthOption = Annotated[
    bool, typer.Option("--clairvoyant", help="Let the policy see true lives; the answer is starred.")
]
_LenientOption = Annotated[
    bool, typer.Option("--lenient", help="Skip bad rows, and list them, instead of refusing.")
]
_SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated."),
]

commands = typer.Typer(add_completion=False, rich_markup_mode=None)


@commands.command(
    "why",
    epilog="Example: antecast why --jobs jobs.csv --pools pools.csv --policy anticipatory "
    "--train-until 1641600 --at 1814400 --job j01234",
)
def why(
    jobs: _JobsOption = None,
    pools: _PoolsOption = None,
    at: _AtOption = None,
    policy: _PolicyOption = None,
    train_until: _TrainUntilOption = 0.0,
    history: _HistoryOption = None,
    nodes: _NodesOption = None,
    file_format: _FormatOption = "csv",
    settings: _SetOption = None,
    job: Annotated[str | None, typer.Option("--job", help="Ask about this job only, in full.")] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, help="How many jobs to print, the first in line first.")
    ] = 40,
    seed: _SeedOption = 0,
    clairvoyant: _TruthOption = False,
    lenient: _LenientOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
    check_plans: CheckPlansOption = True,
    url: UrlOption = None,
    cluster: ClusterOption = None,
    key_file: KeyFileOption = None,
) -> None:
    """Say why jobs wait at an instant: the reason, the numbers, what would let them start, and when they may.

    The history is replayed up to --at, the policy decides there, and whoever still waits is explained. What
    each reason means: docs/explain-waiting.md.

    With --url the service is asked about the latest decision of --cluster, as if it had been carried out.
    """
    if url is not None:
        if cluster is None or any(one is not None for one in (jobs, pools, at, policy)):
            raise typer.BadParameter(
                "with --url give --cluster, and neither --jobs, --pools, --at nor --policy"
            )
        from app.live_waiting import of_service  # noqa: PLC0415

        _say(of_service(url, key_file, cluster), job, most, as_json=as_json)
        return
    if jobs is None or pools is None or at is None or policy is None:
        raise typer.BadParameter("give --jobs, --pools, --at and --policy, or --url and --cluster")
    from app.console import bars, tell_inputs  # noqa: PLC0415
    from app.services.compare import parse_pairs  # noqa: PLC0415
    from app.services.ingest import Source, load  # noqa: PLC0415
    from simulator.waiting import explain_at  # noqa: PLC0415

    if not math.isfinite(at):
        raise typer.BadParameter(f"--at is {at}, must be a finite number of seconds")
    if at < train_until:
        raise typer.BadParameter(f"--at {at:g} lies before the replay begins (--train-until {train_until:g})")
    inputs = load(Source(jobs, pools, history, file_format, train_until, None, lenient, nodes))
    tell_inputs(inputs, as_json=as_json)
    with bars(is_silent=as_json) as bar_for:
        explained = explain_at(
            inputs.workload,
            policy,
            parse_pairs(settings or []),
            at,
            may_see_truth=clairvoyant,
            seed=seed,
            progress=bar_for(policy),
            checks_plans=check_plans,
        )
    _say(explained, job, most, as_json=as_json)


def _say(explained: "Explained", job: str | None, most: int, *, as_json: bool) -> None:
    from app.console import print_json  # noqa: PLC0415
    from app.services.waiting import as_document, select  # noqa: PLC0415

    if as_json:
        print_json(as_document(explained, job))
        return
    chosen = select(explained, job)
    _tell(explained, chosen if job is not None else chosen[:most], is_one=job is not None)


def _tell(explained: "Explained", chosen: "Sequence[Waiting]", *, is_one: bool) -> None:
    from app.console import result_console  # noqa: PLC0415
    from app.services.waiting import by_reason  # noqa: PLC0415
    from app.waiting_tables import in_full, overview  # noqa: PLC0415

    console = result_console()
    star = "*" if explained.saw_truth else ""
    reasons = ", ".join(f"{count} {why}" for why, count in by_reason(explained.waiting).items())
    console.print(
        f"{explained.policy}{star} at {explained.at_s:g} s: {explained.running} jobs run, "
        f"{explained.idle_gpus} GPUs are idle, {len(explained.waiting)} jobs wait"
        + (f" ({reasons})" if reasons else ""),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if is_one:
        for line in in_full(chosen[0], explained.at_s):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    elif chosen:
        console.print(overview(chosen, explained.at_s))
