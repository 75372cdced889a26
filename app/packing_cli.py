"""The commands `antecast packing`: whether two jobs should share a GPU, and what a file of rates covers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from app.services.packing_advice import AskedJob, Question
    from app.services.packing_rates import PairKnowledge

commands = typer.Typer(
    name="packing",
    help="Two jobs on one GPU: whether to pack them, and at what shares.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_JsonOption = Annotated[
    Path | None, typer.Option("--json", help="File for everything as one JSON document; - prints it instead.")
]

_JobOption = Annotated[
    list[str],
    typer.Option(
        "--job",
        help="MODEL[,width=..,memory_mib=..,left_s=..,deadline_s=..]: twice, or once with --jobs. "
        "Seconds count from now; the wider of two is the host, else the first.",
    ),
]
_JobsOption = Annotated[
    Path | None,
    typer.Option(
        "--jobs",
        help="CSV of running jobs, the possible hosts (job_id, model, gpus; left_s, deadline_s, "
        "memory_mib, gpu_memory_mib, may_host).",
    ),
]
_NodesOption = Annotated[
    Path | None, typer.Option("--nodes", help="With --jobs: CSV of nodes (node, num_gpus, gpu_type).")
]
_PairsOption = Annotated[
    Path | None,
    typer.Option(
        "--pairs",
        help="CSV of measured pairs (model_a, model_b, rate_a, rate_b; share_a_pct, share_b_pct).",
    ),
]
_CompleteOption = Annotated[
    bool,
    typer.Option("--complete-pairs", help="Two models of --pairs that have no row do not fit together."),
]
_ProfilesOption = Annotated[
    Path | None,
    typer.Option(
        "--profiles",
        help="CSV of models alone (model; batch_size, sm_utilisation, memory_mib, solo_step_s).",
    ),
]
_ObjectiveOption = Annotated[
    str, typer.Option("--objective", help="What is to get better: jct, deadline, makespan or promise.")
]
_BudgetOption = Annotated[
    float, typer.Option("--budget-pct", min=0.0, max=99.0, help="Speed that the host may lose, percent.")
]
_MemoryOption = Annotated[
    float | None, typer.Option("--gpu-memory-mib", min=1.0, max=2**24, help="Memory of one GPU.")
]
_BalanceOption = Annotated[
    bool, typer.Option("--balance", help="The samples of a wider host move to its faster workers.")
]


@commands.command(
    "advise",
    epilog="Example: antecast packing advise --job 'ResNet-50,left_s=7200' --job 'Graph network' "
    "--gpu-memory-mib 40960 --objective promise --budget-pct 10",
)
def advise(
    job: _JobOption,
    jobs: _JobsOption = None,
    nodes: _NodesOption = None,
    pairs: _PairsOption = None,
    complete_pairs: _CompleteOption = False,
    profiles: _ProfilesOption = None,
    objective: _ObjectiveOption = "jct",
    budget_pct: _BudgetOption = 10.0,
    gpu_memory_mib: _MemoryOption = None,
    balance: _BalanceOption = False,
    most: Annotated[int, typer.Option("--most", min=1, help="Rows of the table that are printed.")] = 20,
    as_json: _JsonOption = None,
) -> None:
    """Say whether to put two jobs on one GPU, at which MPS shares, and what it does to both.

    With --jobs and --nodes: which running job would be the best host. Nothing is changed anywhere. Rates come
    from --pairs where there are any, else from profiles: docs/packing-advice.md.
    """
    from app.services.packing_advice import OBJECTIVES, Question, parse_job  # noqa: PLC0415
    from app.services.packing_rates import load_knowledge  # noqa: PLC0415

    if (jobs is None) != (nodes is None):
        raise typer.BadParameter("--jobs and --nodes go together")
    if len(job) != (2 if jobs is None else 1):
        raise typer.BadParameter("--job is there twice, or once with --jobs and --nodes")
    if objective not in OBJECTIVES:
        raise typer.BadParameter(f"--objective is one of {', '.join(OBJECTIVES)}, not {objective!r}")
    asked = [parse_job(text, name) for text, name in zip(job, ("first", "second"), strict=False)]
    knowledge = load_knowledge(pairs, profiles, is_complete=complete_pairs)
    question = Question(objective, budget_pct / 100.0, gpu_memory_mib, balance, jobs is None)
    if jobs is None or nodes is None:
        _two(asked, knowledge, question, as_json)
    else:
        _hosts(asked[0], (jobs, nodes), knowledge, question, most, as_json)


@commands.command("profile-check", epilog="Example: antecast packing profile-check pairs.csv")
def profile_check(
    file: Annotated[Path, typer.Argument(help="CSV of measured pairs or of profiles.")],
    most: Annotated[int, typer.Option("--most", min=1, help="Models that are listed.")] = 20,
    as_json: _JsonOption = None,
) -> None:
    """Check a file of measured pairs or of profiles, and say what it covers.

    Columns and rules: docs/formats/packing-profiles.md.
    """
    from app.packing_tables import coverage_lines  # noqa: PLC0415
    from app.services.packing_files import coverage  # noqa: PLC0415

    found = coverage(file)
    _tell(found, [], coverage_lines(found, most), as_json)


def _two(
    asked: "Sequence[AskedJob]", knowledge: "PairKnowledge", question: "Question", as_json: Path | None
) -> None:
    from app.packing_tables import advice_lines, advice_table  # noqa: PLC0415
    from app.services.packing_advice import advise as advise_on  # noqa: PLC0415
    from app.services.packing_files import document  # noqa: PLC0415

    found = advise_on(asked[0], asked[1], knowledge, question)
    _tell(document(found, question), [advice_table(found)], advice_lines(found, question), as_json)


def _hosts(
    rider: "AskedJob",
    files: tuple[Path, Path],
    knowledge: "PairKnowledge",
    question: "Question",
    most: int,
    as_json: Path | None,
) -> None:
    from app.packing_tables import advice_lines, hosts_table  # noqa: PLC0415
    from app.services.packing_files import hosts_document  # noqa: PLC0415
    from app.services.packing_hosts import rank_hosts, read_candidates  # noqa: PLC0415

    hosts = rank_hosts(rider, read_candidates(*files), knowledge, question)
    best = hosts.ranked[0] if hosts.ranked and hosts.ranked[0].is_advised else None
    lines = ["no running job is a good host" if best is None else f"best host: {best.host.name}"]
    lines += [] if best is None else advice_lines(best, question)
    lines += [f"no host: {name} {why}" for name, why in hosts.excluded[:most]] + list(hosts.notes)
    _tell(hosts_document(hosts, question), [hosts_table(hosts, most)] if hosts.ranked else [], lines, as_json)


def _tell(
    told: dict[str, Any], tables: "Sequence[Table]", lines: Sequence[str], as_json: Path | None
) -> None:
    from app.console import print_json, result_console  # noqa: PLC0415
    from app.services.place_files import write_json  # noqa: PLC0415

    if as_json == Path("-"):
        print_json(told)
        return
    if as_json is not None:
        write_json(as_json, told)
        lines = [*lines, f"Written: {as_json}"]
    console = result_console()
    for table in tables:
        console.print(table)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
