"""Scores of forecasts as tables for people."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from models.explain.life import LifeExplanation
from models.explain.words import duration_words

_LIFE_COLUMNS: Final = (
    ("pinball", "pinball\nln s", "{:.4f}"),
    ("pinball_s", "pinball\ns", "{:,.0f}"),
    ("coverage_80", "within\n.1-.9", "{:.1%}"),
    ("beyond_90", "beyond\n.9", "{:.1%}"),
    ("c_index", "C-index", "{:.3f}"),
    ("too_short_at_90", "class too\nshort at .9", "{:.1%}"),
)


def tables_of(report: Mapping[str, Any]) -> Iterator[Table]:
    """A table for each part of a report of `antecast evaluate`."""
    if "lifetime" in report:
        yield lifetimes(report["lifetime"])
        yield tails(report["lifetime"])


def lifetimes(part: Mapping[str, Any]) -> Table:
    """One row per lifetime model, ours first."""
    table = _table(f"Lifetimes: {part['num_jobs']:,.0f} jobs forecast at their submit")
    table.caption = (
        f"{part['gain_pct']:.1f} % below the best baseline ({part['best_baseline']}); groups of 200 jobs and "
        f"more whose share within .1-.9 leaves 70-90 %: {part['groups']['outside_70_90']}"
    )
    table.add_column("model", no_wrap=True)
    for _, title, _ in _LIFE_COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for name, scores in part["models"].items():
        table.add_row(Text(name), *(_said(scores[key], form) for key, _, form in _LIFE_COLUMNS))
    return table


def tails(part: Mapping[str, Any]) -> Table:
    """Shares of long lives, said and seen."""
    table = _table("Long lives: share said and share seen")
    for title in ("longer than", "given longer than", "jobs", "said", "seen"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in part["tails"]:
        table.add_row(
            f"{row['beyond_h']:g} h",
            f"{row['given_h']:g} h" if row["given_h"] else "-",
            f"{row['num_jobs']:,.0f}",
            _said(row["said"], "{:.2%}"),
            _said(row["seen"], "{:.2%}"),
        )
    return table


def explanation(found: LifeExplanation) -> Iterator[Table]:
    """Reasons with their contributions, past jobs like it, and how such forecasts have done."""
    reasons = _table(f"Why: {found.asked}, in {found.unit}")
    reasons.add_column("reason")
    reasons.add_column("contribution", justify="right", no_wrap=True)
    reasons.add_row("any job, of which nothing is known", f"{found.base:.2f}")
    for reason in found.reasons:
        reasons.add_row(Text(reason.words), f"{reason.contribution:+.2f}")
    reasons.add_row("forecast", f"{found.prediction:.2f}")
    yield reasons
    if found.similar:
        similar = _table("Past jobs like it")
        for title in ("job", "ran", "ended at, s", "in common"):
            similar.add_column(title, no_wrap=True)
        for job in found.similar:
            similar.add_row(
                Text(job.job_id), duration_words(job.duration_s), f"{job.ended_s:,.0f}", Text(job.why)
            )
        yield similar
    if found.records:
        records = _table("How such forecasts have done")
        for title in ("lives of", "jobs", "within 80 %", "beyond .9"):
            records.add_column(title, no_wrap=True)
        for one in found.records:
            records.add_row(
                Text(one.group), f"{one.number}", f"{one.within_80:.0%}", f"{one.longer_than_90:.0%}"
            )
        yield records


def _table(title: str) -> Table:
    return Table(title=Text(title), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)


def _said(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else form.format(value)  # noqa: PLR0124 - NaN
