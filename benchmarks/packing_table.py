"""Two jobs on one GPU: ours and its peers in one table, against the aims, and what each part of ours brings.

    python -m benchmarks.packing_table --bench packing --referee referee.py --out var/packing \\
        --csv benchmarks/results/packing.csv

The folder has jobs_150.csv, jobs_300.csv (on nodes_32.csv, pools_32.csv) and jobs_3000.csv (on nodes_256.csv,
pools_256.csv), pairs.csv, and history.csv, from which lives are learned. Peers that draw are run with five
seeds. Rows of the CSV are not run again while nothing they rest on has changed. Rates under MPS shares (LGRR)
are modelled; all others are measured.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Final

from benchmarks.packed_runs import Bench, PackedRow, add_options, exit_code, figures_of_rows, only
from benchmarks.rows import Figures, markdown, number

SIZES: Final = {"150": "32", "300": "32", "3000": "256"}
"""Jobs of a benchmark, and GPUs of its cluster."""

PEERS: Final = ("fcfs", "sjf", "lucid", "gandiva", "gavel-makespan")
"""Policies to compare with."""

SEEDS: Final = {"gandiva": 5}
"""Policies that draw, and with how many seeds each is run; the seed is a setting of theirs."""

POLICY: Final = "packing"
OBJECTIVES: Final = ("jct", "deadline", "makespan", "promise")

STEPS: Final[Mapping[str, Mapping[str, str]]] = {
    "equal widths": {"unequal": "off", "liss": "off", "lgrr": "off"},
    "+ unequal": {"unequal": "on", "liss": "off", "lgrr": "off"},
    "+ LISS": {"unequal": "on", "liss": "on", "lgrr": "off"},
    "+ LGRR (modelled)": {"unequal": "on", "liss": "on", "lgrr": "on"},
}
"""What ours is built up from, in the order of the Gimbal paper, and the settings of each."""
MEASURED_ONLY: Final = "+ LISS"
MODELLED: Final = "+ LGRR (modelled)"


@dataclass(frozen=True)
class Aim:
    """A measure, the peer that it is held against, and by how much ours should be better.

    Attributes:
        measure: its name.
        column: of the CSV.
        objective: of ours, for it.
        peer: whom it is held against.
        measured, modelled: wanted with measured rates only, and with rates under shares on top.
        is_more_better: whether more is better.
    """

    measure: str
    column: str
    objective: str
    peer: str
    measured: float
    modelled: float
    is_more_better: bool = False

    def gain(self, ours: float, theirs: float) -> float:
        """How many times better ours is."""
        return ours / theirs if self.is_more_better else theirs / ours


AIMS: Final = (
    Aim("mean JCT", "mean_jct_s", "jct", "lucid", 1.18, 1.28),
    Aim("mean queueing", "mean_queue_s", "jct", "lucid", 1.4, 1.5),
    Aim("deadlines met", "deadlines_met", "deadline", "gandiva", 1.2, 1.32, is_more_better=True),
    Aim("makespan", "makespan_s", "makespan", "gavel-makespan", 1.10, 1.12),
)


def series_of(objective: str) -> str:
    """Name of our rows under an objective."""
    return f"{POLICY} {objective}"


def bench_of(folder: Path, size: str) -> Bench:
    """The benchmark of so many jobs."""
    gpus = SIZES[size]
    return Bench(
        f"{size} jobs",
        jobs=folder / f"jobs_{size}.csv",
        pools=folder / f"pools_{gpus}.csv",
        nodes=folder / f"nodes_{gpus}.csv",
        pairs=folder / "pairs.csv",
        history=folder / "history.csv",
    )


def rows_of(bench: Bench) -> list[PackedRow]:
    """All rows of a benchmark: peers, then ours by objective and step."""
    rows = [PackedRow(bench, peer, "", peer) for peer in PEERS if peer not in SEEDS]
    rows += [
        PackedRow(bench, peer, f"seed {seed}", peer, {"seed": str(seed)}, seed)
        for peer, seeds in SEEDS.items()
        for seed in range(seeds)
    ]
    for objective in OBJECTIVES:
        for step, settings in STEPS.items():
            asked = {"objective": objective, **settings}
            rows.append(PackedRow(bench, series_of(objective), step, POLICY, asked))
    return rows


class Means:
    """Figures by benchmark, series and label; mean of the seeds where a series has several."""

    def __init__(self, figures: Iterable[Figures]) -> None:
        self._figures = list(figures)

    def of(self, bench: str, series: str, column: str, label: str | None = None) -> float | None:
        """Mean of a column, None where there is no such row or figure; with a label only of that row."""
        found = [
            float(row[column])
            for row in self._figures
            if (row["bench"], row["series"]) == (bench, series)
            and label in (None, row["label"])
            and row[column]
        ]
        return fmean(found) if found else None

    def gain(self, bench: str, aim: Aim, step: str) -> float | None:
        """How many times better ours is than the peer; None where a row is missing or the peer's is 0."""
        ours = self.of(bench, series_of(aim.objective), aim.column, step)
        theirs = self.of(bench, aim.peer, aim.column)
        if not ours or not theirs:
            return None
        return aim.gain(ours, theirs)


def gains_table(figures: Sequence[Figures]) -> str:
    """How many times better ours is than the peer of each measure, beside what is wanted."""
    means = Means(figures)
    rows = [
        {
            "jobs": bench,
            "measure": aim.measure,
            "peer": aim.peer,
            "peer's": _plain(means.of(bench, aim.peer, aim.column)),
            "ours, measured rates": _beside(means.gain(bench, aim, MEASURED_ONLY), aim.measured),
            "ours with LGRR, modelled": _beside(means.gain(bench, aim, MODELLED), aim.modelled),
        }
        for bench in _benches(figures)
        for aim in AIMS
    ]
    return _table_of(rows)


def steps_table(figures: Sequence[Figures]) -> str:
    """The ablation: each measure after each step, and how many times better than the peer."""
    means = Means(figures)
    rows = []
    for bench in _benches(figures):
        for aim in AIMS:
            row = {"jobs": bench, "measure": aim.measure}
            for step in STEPS:
                value = means.of(bench, series_of(aim.objective), aim.column, step)
                gain = means.gain(bench, aim, step)
                row[step] = _plain(value) + ("" if gain is None else f" ({gain:.2f}x {aim.peer})")
            rows.append(row)
    return _table_of(rows)


RUNS_COLUMNS: Final[Mapping[str, Callable[[Figures], str]]] = {
    "jobs": lambda row: row["bench"],
    "policy": lambda row: row["series"],
    "": lambda row: row["label"],
    "JCT h": number("mean_jct_s", per=3600.0),
    "queue h": number("mean_queue_s", per=3600.0),
    "deadlines met": number("deadlines_met", ".0f"),
    "makespan h": number("makespan_s", per=3600.0),
    "slowed %": number("slowed_pct", ".1f"),
    "in use %": number("utilisation_pct", ".1f"),
    "work %": number("effective_pct", ".1f"),
    "shared %": number("packed_pct", ".1f"),
    "rate": number("mean_packed_rate"),
    "worst": number("worst_colocation"),
    "referee": lambda row: f"{row['referee_exit']} {row['referee_flags']}".strip() or "not asked",
    "seconds": number("seconds", ",.1f"),
}


def missed(figures: Sequence[Figures]) -> list[str]:
    """Aims that are not reached, or cannot be judged, one line each."""
    means = Means(figures)
    said = []
    for bench in _benches(figures):
        for aim in AIMS:
            for step, wanted in ((MEASURED_ONLY, aim.measured), (MODELLED, aim.modelled)):
                gain = means.gain(bench, aim, step)
                if gain is None or gain < wanted:
                    found = "not known" if gain is None else f"{gain:.3f}"
                    said.append(
                        f"{bench}, {aim.measure}, {step}: {found}, wanted {wanted:g} against {aim.peer}"
                    )
    return said


def _benches(figures: Iterable[Figures]) -> list[str]:
    return list(dict.fromkeys(row["bench"] for row in figures))


def _table_of(rows: Sequence[Figures]) -> str:
    if not rows:
        return "no rows"
    return markdown(rows, {name: itemgetter(name) for name in rows[0]})


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _beside(gain: float | None, wanted: float) -> str:
    """A gain with the wanted one in brackets, starred where it is reached."""
    if gain is None:
        return f"({wanted:g})"
    return f"{gain:.3f} ({wanted:g}){' *' if gain >= wanted else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True, help="folder of the benchmark")
    parser.add_argument("--jobs", nargs="+", choices=SIZES, default=list(SIZES), help="how many jobs")
    add_options(parser)
    chosen = parser.parse_args()
    rows = only([row for size in chosen.jobs for row in rows_of(bench_of(chosen.bench, size))], chosen.only)
    figures = figures_of_rows(rows, chosen)
    print(markdown(figures, RUNS_COLUMNS))
    print(f"\nTimes better than the peer (wanted; * reached)\n\n{gains_table(figures)}")
    print(f"\nStep by step\n\n{steps_table(figures)}")
    for line in missed(figures):
        print(f"missed: {line}")
    raise SystemExit(exit_code(rows, figures))


if __name__ == "__main__":
    main()
