"""Pictures: speed against jobs slowed, as points and as frontiers, and the distribution of speed-ups."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from app.services.compare import Row

COLOURS: Final = ("#4053d3", "#ddb310", "#b51d14", "#00beff", "#fb49b0", "#00b25d", "#6b6b6b", "#7a4b2a")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<")
_SLOWED_FLOOR_PCT: Final = 0.01
_PROMISED_PCT: Final = 0.1
_OVERLAP_PX: Final = 16.0


def draw_speed_against_slowed(rows: Sequence[Row], path: Path, title: str) -> None:
    """How fast against how many were slowed: up is faster, left is kinder. The format follows the suffix."""
    figure, axes = new_figure(title)
    _slowed_axis(axes)
    axes.set_ylabel("mean JCT without sharing / mean JCT")
    points = [(row.report["against_fcfs"]["slowed_pct"], _ratio(row)) for row in rows]
    axes.set_ylim(0, 1.15 * max(y for _, y in points))
    for k, (x, y) in enumerate(points):
        axes.plot(
            x,
            y,
            _MARKERS[k % len(_MARKERS)],
            color=COLOURS[k % len(COLOURS)],
            markersize=10,
            fillstyle="none",
            markeredgewidth=2,
        )
    for place, labels in _grouped(axes, points, [_plain(row.label) for row in rows]):
        axes.annotate(labels, place, xytext=(10, 6), textcoords="offset points", fontsize=9, parse_math=False)
    save_figure(figure, path)


def draw_speedups(rows: Sequence[Row], path: Path, title: str) -> None:
    """Share of jobs with at most a given speed-up; left of 1 are those that lost."""
    figure, axes = new_figure(title)
    for k, row in enumerate(rows):
        gains = np.sort(np.asarray(row.speedups, dtype=float))
        gains = gains[np.isfinite(gains) & (gains > 0)]
        if gains.size:
            shares = np.arange(1, gains.size + 1) / gains.size
            colour = COLOURS[k % len(COLOURS)]
            axes.step(gains, 100 * shares, where="post", color=colour, label=_plain(row.label))
    axes.axvline(1.0, color="#6b6b6b", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("speed-up of a job: JCT without sharing / JCT")
    axes.set_ylabel("jobs with at most this speed-up (%)")
    axes.set_ylim(0, 100)
    for text in axes.legend(loc="lower right", frameon=False, fontsize=9).get_texts():
        text.set_parse_math(False)
    save_figure(figure, path)


@dataclass(frozen=True, slots=True)
class FrontierSeries:
    """A policy at several settings: (jobs slowed in per cent, ratio of means, geometric mean) of each."""

    label: str
    points: tuple[tuple[float, float, float], ...]


def draw_frontier(series: Sequence[FrontierSeries], path: Path, title: str) -> None:
    """Speed against jobs slowed, as ratio of means and as geometric mean: one line per policy.

    Points of a line are joined in the order of the jobs slowed. The format follows the suffix.
    """
    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
    names = ("mean JCT without sharing / mean JCT", "geometric mean of the jobs' speed-ups")
    all_axes = figure.subplots(1, 2)
    for place, (axes, name) in enumerate(zip(all_axes, names, strict=True), start=1):
        plain_axes(axes)
        _slowed_axis(axes)
        axes.set_ylabel(name)
        for k, one in enumerate(series):
            points = sorted((point[0], point[place]) for point in one.points)
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                marker=_MARKERS[k % len(_MARKERS)],
                color=COLOURS[k % len(COLOURS)],
                markersize=5,
                linewidth=1.0,
                label=_plain(one.label),
            )
        axes.set_ylim(0, 1.1 * max(point[place] for one in series for point in one.points))
    handles, labels = all_axes[0].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
    save_figure(figure, path)


def _slowed_axis(axes: Axes) -> None:
    """Jobs slowed along x, with the promise marked."""
    axes.set_xscale("symlog", linthresh=_SLOWED_FLOOR_PCT)
    axes.set_xlim(-_SLOWED_FLOOR_PCT / 4, 100)
    axes.set_xticks([0, 0.01, 0.1, 1, 10, 100], ["0", "0.01", "0.1", "1", "10", "100"])
    axes.axvspan(-_SLOWED_FLOOR_PCT / 4, _PROMISED_PCT, color="#00b25d", alpha=0.08)
    axes.text(
        _PROMISED_PCT / 1.1,
        0.02,
        "promise kept",
        transform=axes.get_xaxis_transform(),
        ha="right",
        fontsize=8,
    )
    axes.set_xlabel("jobs that end more than 60 s later than without sharing (%)")


def _ratio(row: Row) -> float:
    return float(row.report["against_fcfs"]["speedup_ratio_of_means"])


def _grouped(
    axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str]
) -> list[tuple[tuple[float, float], str]]:
    """One label for points that lie on top of each other, so that labels do not."""
    groups: list[tuple[tuple[float, float], list[str]]] = []
    shown = axes.transData.transform(points)
    centres: list[np.ndarray] = []
    for point, place, label in zip(points, shown, labels, strict=True):
        near = [k for k, centre in enumerate(centres) if np.abs(centre - place).max() < _OVERLAP_PX]
        if near:
            groups[near[0]][1].append(label)
        else:
            groups.append((point, [label]))
            centres.append(place)
    return [(point, "\n".join(names)) for point, names in groups]


def new_figure(title: str) -> tuple[Figure, Axes]:
    """A figure with one plot in it."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10, loc="left", parse_math=False)
    plain_axes(axes)
    return figure, axes


def plain_axes(axes: Axes) -> None:
    """A light grid, no frame."""
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _plain(label: str) -> str:
    """Labels come from the command line: a leading underscore would hide one from the legend."""
    return " " + label if label.startswith("_") else label


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the same one gives the same bytes."""
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    with mpl.rc_context({"svg.hashsalt": "antecast"}):
        figure.savefig(path, dpi=150, metadata=metadata)
