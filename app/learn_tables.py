"""Trained models and their scores as tables and sentences for people."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.console import result_console
from app.services.backtesting import OVERALL, Scored
from app.services.learning import Outcome
from data.history import History

_DAY_S: Final = 86_400.0


def tell_skipped(history: History) -> None:
    """Say on standard error what was left out."""
    err = Console(stderr=True)
    for fault in history.skipped:
        err.print(f"skipped {fault}", markup=False, highlight=False, soft_wrap=True)


def tell_outcomes(data: str, outcomes: Sequence[Outcome]) -> None:
    """Say what was trained and what came of it, a line or two for each."""
    console = result_console()
    for one in outcomes:
        how = "went on from a stored version" if one.is_continued else "learned from the whole record"
        use = "in use from now on" if one.is_promoted else "stored, not in use"
        lines = [f"{data}, {one.kind}: version {one.version} ({one.name}), {how}; {use}", f"  {one.why}"]
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def lives_table(found: Sequence[Scored], title: str) -> Table:
    """One row per model and stretch, and one per model for all of them."""
    table = Table(title=Text(title), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    table.caption = (
        "pinball: mean over nine levels, of ln seconds; too short: share of lives whose class is said to be\n"
        "shorter at 90 % confidence; running: not ended when last seen, counted with their age"
    )
    for name, justify in (("model", "left"), ("from day", "right"), ("until day", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name in ("jobs", "running", "pinball", "within\n.1-.9 %", "beyond\n.9 %", "too short\n%", "C-index"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        scores = one.scores
        place = (OVERALL, "") if one.is_overall else (_day(one.origin_s), _day(one.until_s))
        table.add_row(
            Text(one.model),
            *place,
            f"{scores['num_jobs']:.0f}",
            f"{scores['num_running']:.0f}",
            f"{scores['pinball']:.4f}",
            *(f"{100 * scores[name]:.1f}" for name in ("coverage_80", "beyond_90", "too_short_at_90")),
            f"{scores['c_index']:.3f}",
            style="bold" if one.is_overall else None,
            end_section=one.is_overall,
        )
    return table


def demand_table(found: Sequence[Scored], title: str) -> Table:
    """One row per model, window and stretch, and one per model and window for all of them."""
    table = Table(title=Text(title), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    table.caption = (
        "pinball: GPUs requested, mean over nine levels; a cell is a pool and an instant;\n"
        "precision and recall are those of the forecast that jobs will arrive"
    )
    for name, justify in (("model", "left"), ("window min", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name in (
        "from day",
        "until day",
        "cells",
        "precision",
        "recall",
        "pinball",
        "best\nbaseline",
        "within\n.95 %",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        scores = one.scores
        place = (OVERALL, "") if one.is_overall else (_day(one.origin_s), _day(one.until_s))
        table.add_row(
            Text(one.model),
            f"{(one.window_s or 0.0) / 60:g}",
            *place,
            f"{scores['cells']:.0f}",
            f"{scores['precision']:.2f}",
            f"{scores['recall']:.2f}",
            f"{scores['pinball']:.4f}",
            f"{scores['pinball_best_baseline']:.4f}",
            f"{100 * scores['coverage_95']:.1f}",
            style="bold" if one.is_overall else None,
            end_section=one.is_overall,
        )
    return table


def models_table(listed: Sequence[Mapping[str, Any]]) -> Table:
    """One row per version."""
    table = Table(box=box.SIMPLE_HEAD, caption_justify="left", caption="*: in use")
    for name, justify in (("data", "left"), ("kind", "left"), ("version", "right"), ("model", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name in ("as of day", "jobs", "pinball", "stored"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in listed:
        for one in line["versions"]:
            mark = "*" if one["number"] == line["champion"] else ""
            head = (Text(line["data"]), line["kind"], f"{one['number']}{mark}")
            if one["fault"] is not None:
                table.add_row(*head, Text(one["fault"]))
                continue
            pinball = one["scores"].get("pinball")
            table.add_row(
                *head,
                Text(one["name"]),
                _day(one["until_s"]),
                str(one["num_jobs"]),
                "" if pinball is None else f"{pinball:.4f}",
                one["created"],
            )
    return table


def _day(instant_s: float) -> str:
    return f"{instant_s / _DAY_S:g}"
