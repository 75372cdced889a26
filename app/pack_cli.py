"""The command `antecast pack`: where shares of GPUs and MIG slices would go, and what stays usable."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from app.services.pack_pods import Packed, PackInputs

commands = typer.Typer(add_completion=False, rich_markup_mode=None)


@commands.command(
    "pack", epilog="Example: antecast pack --nodes nodes.csv --pods pods.csv --rule all --out var/pack"
)
def pack(
    nodes: Annotated[
        Path,
        typer.Option(
            "--nodes", help="CSV of nodes (node, num_gpus, gpu_type, cpu_milli, memory_mib; partitioned)."
        ),
    ],
    pods: Annotated[
        Path,
        typer.Option(
            "--pods",
            help="CSV of jobs in their order (job_id, num_gpus, gpu_milli or profile, gpu_types, cpu_milli, "
            "memory_mib); the published openb files are read as they are.",
        ),
    ],
    rule: Annotated[
        str, typer.Option("--rule", help="Rule that places them, several with commas, or all.")
    ] = "complement",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of a rule that draws.")] = 0,
    shares_of_several: Annotated[
        bool, typer.Option("--shares-of-several", help="Let a job ask for a part of each of several GPUs.")
    ] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip bad rows of --pods, and list them, instead of refusing.")
    ] = False,
    most: Annotated[int, typer.Option("--most", min=0, help="Rows of each table that are printed.")] = 40,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for packing.json, jobs.csv and rules.csv.")
    ] = None,
    as_json: Annotated[
        Path | None,
        typer.Option("--json", help="File for everything as one JSON document; - prints it instead."),
    ] = None,
) -> None:
    """Place jobs that ask for shares of GPUs or MIG slices one by one, and say why some find no place.

    Nothing ends in between, and nothing is changed anywhere. Columns, rules, reasons: docs/fragmentation.md.
    """
    from app.services.pack_files import document  # noqa: PLC0415
    from app.services.pack_pods import load, rules_of  # noqa: PLC0415
    from app.services.pack_pods import pack as pack_by  # noqa: PLC0415

    rules = rules_of(rule)
    inputs = load(nodes, pods, is_lenient=lenient, may_share_several=shares_of_several)
    packed = [pack_by(inputs, name, seed) for name in rules]
    _tell(inputs, packed, document(inputs, packed, {"seed": seed}), out, as_json, most)


def _tell(
    inputs: "PackInputs",
    packed: "list[Packed]",
    told: dict[str, object],
    out: Path | None,
    as_json: Path | None,
    most: int,
) -> None:
    from rich.console import Console  # noqa: PLC0415

    from app.console import print_json, result_console  # noqa: PLC0415
    from app.pack_tables import jobs_table, left_out_line, rules_table  # noqa: PLC0415
    from app.services.pack_files import write_packings  # noqa: PLC0415
    from app.services.place_files import write_json  # noqa: PLC0415

    is_printed = as_json == Path("-")
    err = Console(stderr=True)
    for fault in inputs.skipped:
        err.print(f"skipped {fault}", markup=False, highlight=False, soft_wrap=True)
    written = [] if out is None else write_packings(out, inputs, packed, told)
    if as_json is not None and not is_printed:
        write_json(as_json, told)
        written.append(as_json)
    if is_printed:
        print_json(told)
        return
    console = result_console()
    if len(packed) == 1:
        made = (jobs_table(inputs, packed[0], most, is_placed=placed) for placed in (True, False))
        for table in made:
            if table.row_count:
                console.print(table)
    console.print(rules_table(inputs, packed))
    lines = [left_out_line(inputs, one) for one in packed]
    for line in [*lines, *(["Written: " + ", ".join(map(str, written))] if written else [])]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
