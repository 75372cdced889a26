"""Lending and packing together, beside each alone, on jobs of a real cluster with a model each.

    python -m benchmarks.packed_lending --bench philly-packed --pairs packing/pairs.csv \\
        --referee referee.py --out var/packed-lending --csv benchmarks/results/packed_lending.csv

The folder has jobs.csv, and pools_loadXXX.csv and nodes_loadXXX.csv for each load. What is asked of both
together: faster than either alone at the same share of slowed jobs, or a smaller one.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from app.services.compare import parse_choice
from benchmarks.packed_runs import Bench, PackedRow, add_options, exit_code, figures_of_rows, only
from benchmarks.rows import Figures, markdown, number

LOADS: Final = ("080", "090")
TRAIN_UNTIL_S: Final = 1_641_600.0
EVAL_FROM_S: Final = 1_814_400.0

LENDING: Final = "lending alone"
PACKING: Final = "packing alone"
BOTH: Final = "lending and packing"


class Asked(NamedTuple):
    """One row: what it is an instance of, and policy and settings as `name:key=value:...`."""

    series: str
    asked: str


ROWS: Final = (
    Asked(LENDING, "anticipatory"),
    Asked(PACKING, "anticipatory:eps=0:packing=on"),
    Asked(BOTH, "anticipatory:packing=on"),
)
"""Several rows of a series are several points of it, such as budgets."""

SLOWED_PCT_TOLERANCE: Final = 0.005
"""Shares of slowed jobs that differ by less are the same, per cent."""


def bench_of(folder: Path, pairs: Path, load: str) -> Bench:
    """The benchmark at a load."""
    return Bench(
        f"load{load}",
        jobs=folder / "jobs.csv",
        pools=folder / f"pools_load{load}.csv",
        nodes=folder / f"nodes_load{load}.csv",
        pairs=pairs,
        train_until_s=TRAIN_UNTIL_S,
        eval_from_s=EVAL_FROM_S,
    )


def rows_of(bench: Bench, asked: Iterable[Asked] = ROWS) -> list[PackedRow]:
    """All rows of a load; each is told from the others of its series by what was asked."""
    rows = []
    for one in asked:
        choice = parse_choice(one.asked)
        rows.append(PackedRow(bench, one.series, one.asked, choice.policy, choice.settings))
    return rows


COLUMNS: Final[Mapping[str, Callable[[Figures], str]]] = {
    "load": lambda row: row["bench"].removeprefix("load"),
    "": lambda row: row["series"],
    "policy": lambda row: row["asked"],
    "JCT h": number("mean_jct_s", per=3600.0),
    "ratio": number("ratio"),
    "geo": number("geo"),
    "slowed %": number("slowed_pct", ".3f"),
    "at most, over days %": number("days_high_pct", ".3f"),
    "worst min": number("worst_min", ",.0f"),
    "queue h": number("mean_queue_s", per=3600.0),
    "in use %": number("utilisation_pct", ".1f"),
    "work %": number("effective_pct", ".1f"),
    "shared %": number("packed_pct", ".1f"),
    "rate": number("mean_packed_rate"),
    "referee": lambda row: f"{row['referee_exit']} {row['referee_flags']}".strip() or "not asked",
    "seconds": number("seconds", ",.0f"),
}


def verdicts(figures: Sequence[Figures]) -> list[str]:
    """Of each row of both together: how much faster than the fastest of each alone that slows no more."""
    said = []
    for row in figures:
        if row["series"] != BOTH:
            continue
        parts = [f"{alone}: {_against(row, figures, alone)}" for alone in (LENDING, PACKING)]
        head = f"{row['bench']}, {row['asked']}, {float(row['slowed_pct']):.3f} % slowed"
        said.append(f"{head}; against {'; '.join(parts)}")
    return said


def _against(row: Figures, figures: Iterable[Figures], alone: str) -> str:
    peers = [one for one in figures if (one["bench"], one["series"]) == (row["bench"], alone)]
    if not peers:
        return "not run"
    most = float(row["slowed_pct"]) + SLOWED_PCT_TOLERANCE
    as_good = [one for one in peers if float(one["slowed_pct"]) <= most]
    if not as_good:
        fewest = min(float(one["slowed_pct"]) for one in peers)
        return f"none slows as few (at least {fewest:.3f} %)"
    fastest = min(as_good, key=lambda one: float(one["mean_jct_s"]))
    gain = float(fastest["mean_jct_s"]) / float(row["mean_jct_s"])
    return f"{gain:.3f} times as fast as {fastest['asked']} ({float(fastest['slowed_pct']):.3f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True, help="folder of the benchmark")
    parser.add_argument("--pairs", type=Path, required=True, help="CSV of measured pairs")
    parser.add_argument("--loads", nargs="+", default=LOADS, help="such as 080")
    add_options(parser)
    chosen = parser.parse_args()
    rows = only(
        [row for load in chosen.loads for row in rows_of(bench_of(chosen.bench, chosen.pairs, load))],
        chosen.only,
    )
    figures = figures_of_rows(rows, chosen)
    print(markdown(figures, COLUMNS))
    for line in verdicts(figures):
        print(line)
    raise SystemExit(exit_code(rows, figures))


if __name__ == "__main__":
    main()
