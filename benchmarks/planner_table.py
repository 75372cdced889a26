"""The planner's figures at three loads and four shares of requeueable jobs, beside those that are wanted.

    python -m benchmarks.planner_table --jobs jobs.csv \\
        --pools pools_load070.csv pools_load080.csv pools_load090.csv --policies planned \\
        --referee referee.py --out var/planner --csv benchmarks/results/planner.csv

Each schedule is written under --out and judged by the referee where one is given. One replay per process;
rows of the CSV are not run again while nothing they rest on has changed. With R = 1 what is wanted is at
most half the requeues and repeated GPU-hours of `reclaim:order=shortest`, which is run beside.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.services.compare import parse_choice
from benchmarks.rows import Figures, markdown, number
from benchmarks.runs import (
    Row,
    add_options,
    asked_policy,
    exit_code,
    figures_of_rows,
    takes,
)

REQUEUEABLE: Final = (0.0, 0.3, 0.6, 1.0)
PEER: Final = "reclaim:order=shortest"
WORST_MIN: Final = 60.0
WORST_POOL_PCT: Final = 1.0
SLOWED_GPU_HOURS_PCT: Final = 0.5


@dataclass(frozen=True)
class Wanted:
    """Figures of a row that are aimed at: at least this fast, at most that many slowed.

    Attributes:
        ratio, geo: at least.
        slowed_pct: at most.
        requeues, lost_pct: at most; None: half the peer's where all jobs may be sent back, else nothing.
    """

    ratio: float
    geo: float
    slowed_pct: float
    requeues: float | None = None
    lost_pct: float | None = None


WANTED: Final = {
    ("load070", 0.0): Wanted(5.6, 6.9, 0.05),
    ("load080", 0.0): Wanted(11.5, 11.5, 0.1),
    ("load090", 0.0): Wanted(9.5, 13.0, 0.3),
    ("load080", 0.3): Wanted(11.0, 12.5, 0.1),
    ("load090", 0.3): Wanted(12.0, 18.5, 0.3),
    ("load080", 0.6): Wanted(12.4, 13.4, 0.01, 4_085 / 2, 1.3 / 2),
    ("load090", 0.6): Wanted(14.5, 21.5, 0.02, 6_414 / 2, 2.5 / 2),
    ("load080", 1.0): Wanted(12.90, 13.07, 0.0),
    ("load090", 1.0): Wanted(14.80, 18.66, 0.0),
}
"""By load and R."""


def rows_of(pools: Sequence[Path], policies: Sequence[str], shares: Sequence[float]) -> list[Row]:
    """All rows, load by load; policies without requeueable guests at R = 0 only; the peer where R = 1."""
    rows = []
    for path in pools:
        for asked in policies:
            choice = parse_choice(asked)
            for share in shares:
                if takes(choice.policy, "requeueable"):
                    settings = {**choice.settings, "requeueable": f"{share:g}"}
                    rows.append(Row(path, asked, f"R={share:g}", choice.policy, settings))
                elif share == 0.0:
                    rows.append(Row(path, asked, "R=0", choice.policy, choice.settings))
        if 1.0 in shares and PEER not in policies:
            peer = parse_choice(PEER)
            rows.append(Row(path, PEER, "R=1", peer.policy, {**peer.settings, "requeueable": "1"}))
    return rows


def missed(row: Figures, wanted: Wanted, peer: Figures | None) -> list[str]:
    """Names of the aims that a row does not reach.

    Args:
        row: its figures.
        wanted: what is aimed at.
        peer: figures of the peer where R = 1.
    """
    requeues, lost_pct = wanted.requeues, wanted.lost_pct
    if peer is not None:
        requeues, lost_pct = float(peer["requeues"]) / 2, float(peer["lost_gpu_hours_pct"]) / 2
    least = {"ratio": ("ratio", wanted.ratio), "geo": ("geo", wanted.geo)}
    most = {
        "slowed": ("slowed_pct", wanted.slowed_pct),
        "worst": ("worst_min", WORST_MIN),
        "a pool": ("worst_pool_pct", WORST_POOL_PCT),
        "GPU-hours": ("slowed_gpu_hours_pct", SLOWED_GPU_HOURS_PCT),
        "warm-up": ("warm_up_pct", wanted.slowed_pct),
        "requeues": ("requeues", requeues),
        "repeated": ("lost_gpu_hours_pct", lost_pct),
    }
    found = [name for name, (column, bound) in least.items() if float(row[column]) < bound]
    return found + [
        name for name, (column, bound) in most.items() if bound is not None and float(row[column]) > bound
    ]


def verdict_of(figures: Sequence[Figures]) -> Callable[[Figures], str]:
    """A cell that names the aims missed, "all" reached, or nothing where none are set."""
    peers = {row["load"]: row for row in figures if row["series"] == PEER}

    def cell(row: Figures) -> str:
        wanted = _wanted(row)
        if wanted is None or row["series"] == PEER:
            return ""
        peer = peers.get(row["load"]) if row["label"] == "R=1" else None
        found = missed(row, wanted, peer)
        return "missed: " + ", ".join(found) if found else "all"

    return cell


def _wanted(row: Figures) -> Wanted | None:
    return WANTED.get((row["load"], float(row["label"].removeprefix("R="))))


def _beside(column: str, form: str, aim: Callable[[Wanted], float]) -> Callable[[Figures], str]:
    """A figure with the wanted one in brackets."""

    def cell(row: Figures) -> str:
        wanted = _wanted(row)
        shown = format(float(row[column]), form)
        return shown if wanted is None else f"{shown} ({aim(wanted):g})"

    return cell


def columns_of(figures: Sequence[Figures]) -> dict[str, Callable[[Figures], str]]:
    """The columns of the table; wanted figures in brackets."""
    plain = {
        "worst min": ("worst_min", ",.0f"),
        "worst pool %": ("worst_pool_pct", ".2f"),
        "slowed GPU-h %": ("slowed_gpu_hours_pct", ".2f"),
        "warm-up %": ("warm_up_pct", ".3f"),
        "requeues": ("requeues", ",.0f"),
        "repeated GPU-h %": ("lost_gpu_hours_pct", ".2f"),
        "seconds": ("seconds", ",.0f"),
    }
    return {
        "load": lambda row: row["load"],
        "policy": lambda row: row["series"],
        "R": lambda row: row["label"].removeprefix("R="),
        "ratio": _beside("ratio", ".2f", lambda wanted: wanted.ratio),
        "geo": _beside("geo", ".2f", lambda wanted: wanted.geo),
        "slowed %": _beside("slowed_pct", ".3f", lambda wanted: wanted.slowed_pct),
        "at most, over days %": lambda row: f"{float(row['days_high_pct']):.3f}",
        **{name: number(column, form) for name, (column, form) in plain.items()},
        "referee": lambda row: row["referee"] or "not asked",
        "reached": verdict_of(figures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument(
        "--policies", type=asked_policy, nargs="+", default=["planned"], help="name or name:key=value"
    )
    parser.add_argument("--requeueable", type=float, nargs="+", default=REQUEUEABLE)
    parser.add_argument("--referee", type=Path, help="a judge of schedules; needs --out")
    chosen = parser.parse_args()
    if chosen.referee is not None and chosen.out is None:
        parser.error("--referee needs --out: it judges the schedules written there")
    rows = rows_of(chosen.pools, chosen.policies, chosen.requeueable)
    figures = figures_of_rows(rows, chosen)
    print(markdown(figures, columns_of(figures)))
    raise SystemExit(exit_code(rows, figures))


if __name__ == "__main__":
    main()
