"""A picture of a placing: the GPUs of each node before and after, by who has them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from app.pictures import save_figure
from app.services.place_gangs import Answer
from domain.cluster import Gpu, Node

MOST_NODES: Final = 60
"""Nodes that are drawn, those that change first: more of them nobody can read."""

_MOST_INCHES: Final = 24.0

_COLOURS: Final = {
    "idle": "#ffffff",
    "runs": "#b9c0c7",
    "moved": "#ddb310",
    "starts": "#4053d3",
    "kept": "#9fe0bd",
}
_MEANING: Final = {
    "idle": "idle",
    "runs": "runs, stays",
    "moved": "runs, is moved",
    "starts": "starts",
    "kept": "kept idle",
}


def draw_nodes(found: Answer, path: Path, title: str) -> None:
    """Draw the nodes before and after. The format follows the suffix of the path."""
    nodes = _chosen(found)
    before, after = _before(found), _after(found)
    widest = max((node.num_gpus for node in nodes), default=1)
    width = min(3.0 + 0.5 * widest, _MOST_INCHES)
    figure = Figure(figsize=(width, 1.6 + 0.26 * len(nodes)), layout="constrained")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, name, state in zip(panels, ("before", "after"), (before, after), strict=True):
        axes.set_title(name, fontsize=9, loc="left")
        _draw(axes, nodes, state)
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=_COLOURS[k], edgecolor="#444444", label=_MEANING[k])
        for k in _COLOURS
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    save_figure(figure, path)


def _draw(axes: Axes, nodes: Sequence[Node], state: Mapping[Gpu, str]) -> None:
    for row, node in enumerate(nodes):
        for gpu in node.gpus():
            colour = _COLOURS[state.get(gpu, "runs")]
            box = Rectangle((gpu.index + 0.08, row + 0.12), 0.84, 0.76, facecolor=colour, edgecolor="#444444")
            box.set_linewidth(0.5)
            axes.add_patch(box)
    axes.set_xlim(0, max((node.num_gpus for node in nodes), default=1))
    axes.set_ylim(len(nodes), 0)
    axes.set_yticks([row + 0.5 for row in range(len(nodes))])
    labels = axes.set_yticklabels([node.name for node in nodes], fontsize=7)
    for label in labels:
        label.set_parse_math(False)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _before(found: Answer) -> dict[Gpu, str]:
    state = {gpu: "idle" for gpus in found.task.idle.values() for gpu in gpus}
    return state | {gpu: "moved" for step in found.placing.steps for move in step for gpu in move.old}


def _after(found: Answer) -> dict[Gpu, str]:
    state = {gpu: "idle" for gpus in found.task.idle.values() for gpu in gpus}
    moves = [move for step in found.placing.steps for move in step]
    state |= {gpu: "idle" for move in moves for gpu in move.old}
    state |= {gpu: "moved" for move in moves for gpu in move.new}
    state |= {gpu: "starts" for one in found.placing.placements for gpu in one.gpus}
    return state | {gpu: "kept" for pieces in found.placing.held for piece in pieces for gpu in piece}


def _chosen(found: Answer) -> list[Node]:
    """Nodes that are drawn, by name."""
    placing = found.placing
    touched = _names(gpu for one in placing.placements for gpu in one.gpus)
    touched |= _names(gpu for step in placing.steps for move in step for gpu in (*move.old, *move.new))
    touched |= _names(gpu for pieces in placing.held for piece in pieces for gpu in piece)
    ranked = sorted(found.task.nodes, key=lambda node: (node.name not in touched, node.name))
    return sorted(ranked[:MOST_NODES], key=lambda node: node.name)


def _names(gpus: Iterable[Gpu]) -> set[str]:
    return {gpu.node for gpu in gpus}
