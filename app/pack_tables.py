"""Packings as tables for people."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from app.services.pack_files import job_rows
from app.services.pack_pods import Packed, PackInputs, figures
from data.rules import printable


def rules_table(inputs: PackInputs, packed: Sequence[Packed]) -> Table:
    """One row per rule: how much is given out, and how much of the rest is of no use."""
    table = Table(box=box.SIMPLE_HEAD, caption_justify="left")
    table.caption = (
        "fragmented: free, and the next request is expected not to be able to use it (FGD);\n"
        "shares of all GPUs and CPUs; of free: share of the free GPUs"
    )
    table.add_column("rule", no_wrap=True)
    columns = (
        "placed",
        "GPUs\nasked",
        "\nallocated",
        "\n%",
        "frag-\nmented",
        "\n%",
        "of free\n%",
        "CPU\n%",
        "nodes\nin use",
    )
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for one in packed:
        row = figures(inputs, one)
        table.add_row(
            one.rule,
            f"{row['placed']} of {row['jobs']}",
            f"{row['asked_gpus']:.2f}",
            f"{row['allocated_gpus']:.2f}",
            f"{row['allocated_pct']:.2f}",
            f"{row['fragmented_gpus']:.2f}",
            f"{row['fragmented_pct']:.2f}",
            f"{row['fragmented_of_free_pct']:.2f}",
            f"{row['cpu_pct']:.2f}",
            str(row["nodes_in_use"]),
        )
    return table


def jobs_table(inputs: PackInputs, packed: Packed, most: int, *, is_placed: bool) -> Table:
    """Where requests went, or why the others found no place; at most so many rows."""
    title = "where jobs went" if is_placed else "no place"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, caption_justify="left")
    for name in ("job", "on", "starts at slice") if is_placed else ("job", "why", ""):
        table.add_column(name, overflow="fold")
    rows = [row for row in job_rows(inputs, packed) if bool(row[5]) != is_placed]
    for _, job_id, node, gpus, start, why, text in rows[:most]:
        cells = (gpus or node, start) if is_placed else (why, text)
        table.add_row(*(Text(printable(cell)) for cell in (job_id, *cells)))
    if len(rows) > most:
        table.caption = f"{len(rows) - most} more: --most, or the files that --out writes"
    return table


def left_out_line(inputs: PackInputs, packed: Packed) -> str:
    """How many found no place, by reason."""
    counts = figures(inputs, packed)["left_out"]
    listed = ", ".join(f"{count} {why}" for why, count in counts.items())
    return f"{packed.rule}: no place for {listed}" if counts else f"{packed.rule}: everything found a place"
