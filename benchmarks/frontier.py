"""The frontier of speed against jobs slowed: a policy at every eps and R, SIA at every confidence, max-min.

    python -m benchmarks.frontier --jobs jobs.csv --pools pools_load070.csv pools_load080.csv \\
        --csv benchmarks/results/frontier.csv --workers 2 --pictures docs/images

One replay per process. A row of the CSV is not run again while the code behind its policy, the files and the
settings are the same; so the script can be stopped and started, and run part by part: --pools, --eps,
--requeueable and --confidence choose points, --beside the policies run for comparison, and --no-run shows
what is there. Prints the table of the rows chosen, and for R = 0 whether the share of slowed jobs that came
out stayed below the eps that was asked for.
"""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from app.pictures import FrontierSeries, draw_frontier
from app.services.compare import parse_choice
from benchmarks.rows import Figures, markdown, number
from benchmarks.runs import (
    Row,
    add_options,
    asked_policy,
    between,
    exit_code,
    figures_of_rows,
    takes,
)

EPS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05)
REQUEUEABLE: Final = (0.0, 0.3, 0.6, 1.0)
CONFIDENCE: Final = (0.5, 0.7, 0.9, 0.95, 0.99)
BESIDE: Final = ("sia", "maxmin")
SAME_FORECASTS: Final = {"lives": "hazard", "arrivals": "corrected"}
"""Those that `planned` is given unless told otherwise."""
ASKED_EPS: Final = (0.001, 0.005, 0.01)
"""At these the realised share is held against eps."""

_COLUMNS: Final = {
    "load": lambda row: row["load"],
    "policy": lambda row: row["series"],
    "at": lambda row: row["label"],
    "ratio": number("ratio"),
    "geo": number("geo"),
    "slowed %": number("slowed_pct", ".3f"),
    "Clopper-Pearson": between("low_pct", "high_pct"),
    "over days": between("days_low_pct", "days_high_pct"),
    "worst min": number("worst_min", ",.0f"),
    "worst pool %": number("worst_pool_pct", ".2f"),
    "requeues": number("requeues", ",.0f"),
}


def points(pools: Sequence[Path], asked: str, eps: Sequence[float], shares: Sequence[float]) -> list[Row]:
    """The policy's rows, load by load, R by R."""
    choice = parse_choice(asked)
    rows = []
    for path in pools:
        for share in shares if takes(choice.policy, "requeueable") else (0.0,):
            r = {"requeueable": f"{share:g}"} if takes(choice.policy, "requeueable") else {}
            for level in eps:
                settings = {**choice.settings, **r, "eps": f"{level:g}"}
                rows.append(Row(path, f"{asked} R={share:g}", f"eps={level:g}", choice.policy, settings))
    return rows


def points_beside(pools: Sequence[Path], names: Collection[str], confidence: Sequence[float]) -> list[Row]:
    """The rows of those it is compared with: SIA with the same forecasts, and max-min, load by load."""
    rows = []
    for path in pools:
        for level in confidence if "sia" in names else ():
            settings = {**SAME_FORECASTS, "confidence": f"{level:g}"}
            rows.append(Row(path, "sia", f"confidence={level:g}", "sia", settings))
        if "maxmin" in names:
            rows.append(Row(path, "maxmin", "", "maxmin"))
    return rows


def kept(rows: Sequence[Figures]) -> list[Figures]:
    """Rows that say whether the promise was kept: R = 0, at the eps that are asked about."""
    labels = {f"eps={level:g}" for level in ASKED_EPS}
    return [row for row in rows if row["series"].endswith(" R=0") and row["label"] in labels]


def promise_table(rows: Sequence[Figures]) -> str:
    """Realised share of slowed jobs beside the eps asked for, with both intervals."""

    def wanted_pct(row: Figures) -> float:
        return 100.0 * float(row["label"].removeprefix("eps="))

    return markdown(
        kept(rows),
        {
            "load": lambda row: row["load"],
            "eps %": lambda row: f"{wanted_pct(row):g}",
            "slowed %": number("slowed_pct", ".3f"),
            "at most eps": lambda row: "yes" if float(row["slowed_pct"]) <= wanted_pct(row) else "no",
            "Clopper-Pearson": between("low_pct", "high_pct"),
            "over days": between("days_low_pct", "days_high_pct"),
            "days with slowed jobs": lambda row: row["slowed_days"],
        },
    )


def series_of(rows: Sequence[Figures], load: str) -> list[FrontierSeries]:
    """One line of the picture per series."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        if row["load"] == load:
            point = (float(row["slowed_pct"]), float(row["ratio"]), float(row["geo"]))
            found.setdefault(row["series"], []).append(point)
    return [FrontierSeries(name, tuple(values)) for name, values in found.items()]


def draw(rows: Sequence[Figures], asked: str, folder: Path) -> None:
    """A picture per load; the same rows give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for load in dict.fromkeys(row["load"] for row in rows):
        title = f"{asked}, SIA and max-min, {load}"
        draw_frontier(series_of(rows, load), folder / f"frontier_{load}.svg", title)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument(
        "--policy", type=asked_policy, default="planned", help="name or name:key=value; has the setting eps"
    )
    parser.add_argument("--eps", type=float, nargs="+", default=EPS)
    parser.add_argument("--requeueable", type=float, nargs="+", default=REQUEUEABLE)
    parser.add_argument("--beside", nargs="*", choices=BESIDE, default=BESIDE, help="none: the policy alone")
    parser.add_argument("--confidence", type=float, nargs="+", default=CONFIDENCE, help="of SIA")
    parser.add_argument("--pictures", type=Path, help="folder for a picture per load")
    chosen = parser.parse_args()
    rows = points(chosen.pools, chosen.policy, chosen.eps, chosen.requeueable)
    rows += points_beside(chosen.pools, chosen.beside, chosen.confidence)
    figures = figures_of_rows(rows, chosen)
    print(markdown(figures, _COLUMNS))
    print()
    print(promise_table(figures))
    if chosen.pictures is not None:
        draw(figures, chosen.policy, chosen.pictures)
    raise SystemExit(exit_code(rows, figures))


if __name__ == "__main__":
    main()
