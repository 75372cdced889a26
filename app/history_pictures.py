"""Pictures of a history: when jobs arrive, how wide they are, how long they live and wait, how they end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from app.pictures import COLOURS, new_figure, save_figure
from data.insight.lives import lives_of

_MOST_CURVES: Final = 7
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NO_POOL: Final = "(no pool)"


def draw_history(
    described: Mapping[str, Any], jobs: pd.DataFrame, out: Path, title: str, suffix: str
) -> list[Path]:
    """Draw all pictures for which there is something to draw.

    Args:
        described: as `data.insight.summary.describe` gives it.
        jobs: rows of a `JobsView`.
        out: folder to write into, which is there.
        title: name of the history.
        suffix: `png` or `svg`.
    """
    drawn = []
    for name, draw, is_there in (
        ("arrivals", _arrivals, bool(described["arrivals"])),
        ("hours-of-week", _hours_of_week, described["hours_of_week"] is not None),
        ("widths", _widths, bool(len(jobs))),
        ("lives", _lives, described["lives"]["whole"] > 0),
        ("waits", _waits, described["waits"]["jobs"] > 0),
        ("states", _states, bool(described["states"])),
    ):
        if is_there:
            path = out / f"{name}.{suffix}"
            draw(described, jobs, path, f"{title}: {name.replace('-', ' ')}")
            drawn.append(path)
    return drawn


def _arrivals(described: Mapping[str, Any], _jobs: pd.DataFrame, path: Path, title: str) -> None:
    figure, axes = new_figure(title)
    counts = [day["jobs"] for day in described["arrivals"]]
    axes.bar(range(len(counts)), counts, width=1.0, color=COLOURS[0])
    names = [day["day"] for day in described["arrivals"]]
    places = np.unique(np.linspace(0, len(names) - 1, min(6, len(names))).astype(int)).tolist()
    axes.set_xticks(places, [names[place] for place in places], fontsize=8)
    axes.set_xlabel("day of submission (UTC)" if described["clock"] == "utc" else "day of the record")
    axes.set_ylabel("jobs")
    save_figure(figure, path)


def _hours_of_week(described: Mapping[str, Any], _jobs: pd.DataFrame, path: Path, title: str) -> None:
    figure, axes = new_figure(title)
    axes.grid(visible=False)
    counts = np.asarray(described["hours_of_week"], float).reshape(7, 24)
    shown = axes.imshow(counts, aspect="auto", cmap="Blues", origin="upper")
    axes.set_yticks(range(7), list(_DAYS))
    axes.set_xticks(range(0, 24, 3))
    axes.set_xlabel("hour of submission (UTC)")
    figure.colorbar(shown, ax=axes, label="jobs")
    save_figure(figure, path)


def _widths(described: Mapping[str, Any], _jobs: pd.DataFrame, path: Path, title: str) -> None:
    figure, axes = new_figure(title)
    _bars(axes, described["widths"], COLOURS[0])
    axes.set_xlabel("GPUs of a job")
    save_figure(figure, path)


def _lives(described: Mapping[str, Any], jobs: pd.DataFrame, path: Path, title: str) -> None:
    figure, axes = new_figure(title)
    pools = [row["pool"] for row in described["pools"]][:_MOST_CURVES]
    of_pool = jobs["pool"].fillna(_NO_POOL)
    curves = [("all", jobs), *((pool, jobs[of_pool == pool]) for pool in pools if len(pools) > 1)]
    for place, (name, rows) in enumerate(curves):
        lives = lives_of(rows)
        if len(lives.times_s):
            axes.step(
                np.maximum(lives.times_s, 1.0),
                100 * lives.survival,
                where="post",
                color="black" if name == "all" else COLOURS[(place - 1) % len(COLOURS)],
                linewidth=2.0 if name == "all" else 1.0,
                label=" " + str(name),
            )
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    axes.set_xlabel("life, s (cut-off ones count as at least so long)")
    axes.set_ylabel("jobs that live longer (%)")
    _legend(axes)
    save_figure(figure, path)


def _waits(described: Mapping[str, Any], jobs: pd.DataFrame, path: Path, title: str) -> None:
    del described
    figure, axes = new_figure(title)
    waited_s = np.sort(jobs["wait_s"].dropna().to_numpy(float))
    axes.step(waited_s, 100 * np.arange(1, len(waited_s) + 1) / len(waited_s), where="post", color=COLOURS[2])
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_ylim(0, 100)
    axes.set_xlabel("wait for the first start, s")
    axes.set_ylabel("jobs that waited at most so long (%)")
    save_figure(figure, path)


def _states(described: Mapping[str, Any], _jobs: pd.DataFrame, path: Path, title: str) -> None:
    figure, axes = new_figure(title)
    _bars(axes, described["states"], COLOURS[5])
    axes.set_xlabel("how the last attempt ended")
    save_figure(figure, path)


def _bars(axes: Any, counts: Mapping[str, int], colour: str) -> None:
    names: Sequence[str] = list(counts)
    axes.bar(range(len(names)), [counts[name] for name in names], color=colour)
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=30, ha="right")
    axes.set_ylabel("jobs")


def _legend(axes: Any) -> None:
    for text in axes.legend(loc="upper right", frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)
