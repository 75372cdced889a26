"""Scores of forecasts as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
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
        yield monitors(report["lifetime"]["monitor"])
    if "demand" in report:
        yield demand(report["demand"], "Demand: GPUs requested by the jobs of a window, by pool")
        yield demand(
            {window: found["held"] for window, found in report["demand"].items()},
            "Demand: GPUs of those jobs still held at the window's end",
        )
    if "levels" in report:
        yield demand(report["levels"], "Levels: GPUs wanted by pool at the window's end")
    if "interference" in report:
        yield interference(report["interference"])


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


def monitors(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Of each pool, how often lives outlasted their 0.9 quantile, and what the monitor makes of it."""
    table = _table("Lives that outlast their 0.9 quantile, watched pool by pool")
    table.caption = (
        "running: over the last outcomes, twins of a burst counting as one; off: not to be lent on"
    )
    for column in ("pool", "outcomes", "missed", "running", "longest\nrun", "drift", "times\noff", "now"):
        table.add_column(column, justify="left" if column == "pool" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(row["pool"]),
            f"{row['observed']:,}",
            _said(row["missed"] / row["observed"], "{:.1%}"),
            _said(row["miss_rate"], "{:.1%}"),
            f"{row['longest_run']}",
            _said(row["drift"], "{:.2f}"),
            f"{row['times_off']}",
            "on" if row["may_lend"] else "off",
        )
    return table


def demand(part: Mapping[str, Any], title: str) -> Table:
    """One row per window."""
    table = _table(title)
    columns = (
        "window",
        "precision",
        "recall",
        "pinball\nGPUs",
        "best\nbaseline",
        "95 %\ncovers",
        "after\nchange",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for window_s, found in part.items():
        table.add_row(
            duration_words(float(window_s)),
            *(_said(found.get(name), "{:.3f}") for name in ("precision", "recall")),
            *(_said(found[name], "{:.3f}") for name in ("pinball", "pinball_best_baseline")),
            *(_said(found[name], "{:.1%}") for name in ("coverage_95", "coverage_95_after_change")),
        )
    return table


def interference(part: Mapping[str, Any]) -> Table:
    """Rates of two jobs on a GPU, each model left out in turn."""
    table = _table("Interference: rates beside models of which nothing was measured")
    for column in ("model", "mean error", "within\n80 %"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, suffix in (("pairs", ""), ("mean rate", "_mean_rate"), ("summed utilisation", "_utilisation")):
        table.add_row(
            name, _said(part[f"mae{suffix}"], "{:.3f}"), _said(part[f"coverage_80{suffix}"], "{:.1%}")
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


def lives_asked(document: Mapping[str, Any]) -> Table:
    """One row per job that was asked about: its remaining life at each level, and its chances."""
    table = _table("How much longer jobs run")
    table.caption = f"{document['rests_on']['model']}: {document['held_out']['note']}"
    for title in ("job", "pool", "has run"):
        table.add_column(title, no_wrap=True)
    for level in document["levels"]:
        table.add_column(f"at .{f'{level:.6f}'.rstrip('0')[2:]}", justify="right", no_wrap=True)
    for within_s in document["within_s"]:
        table.add_column(f"ends in\n{duration_words(within_s)}", justify="right", no_wrap=True)
    for place, one in enumerate(document["items"], start=1):
        head = (Text(one["job_id"] or f"no. {place}"), Text(one["pool"] or "-"))
        if one["why_not"] is not None:
            table.add_row(*head, Text(one["why_not"]))
            continue
        table.add_row(
            *head,
            duration_words(one["elapsed_s"]),
            *(duration_words(rest_s) for rest_s in one["remaining_s"]),
            *(f"{chance:.0%}" for chance in one["chances"]),
        )
    return table


def steps_asked(document: Mapping[str, Any]) -> Iterator[Table]:
    """A table per pool: peak GPUs and arrivals of each step."""
    levels = [f".{f'{level:.6f}'.rstrip('0')[2:]}" for level in document["levels"]]
    for pool in document["pools"]:
        table = _table(f"{pool['pool']}: quota {pool['quota_gpus']} GPUs")
        table.add_column("from now", justify="right", no_wrap=True)
        for what in ("peak GPUs", "arrivals"):
            for level in ("mean", *levels):
                table.add_column(f"{what}\n{level}", justify="right", no_wrap=True)
        for step in pool["steps"]:
            cells = [duration_words(step["begins_s"]) if step["begins_s"] else "0"]
            for what in ("peak_gpus", "arrivals"):
                cells += [f"{step[f'{what}_mean']:.1f}", *(f"{value:g}" for value in step[what])]
            table.add_row(*cells)
        yield table


def _table(title: str) -> Table:
    return Table(title=Text(title), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)


def _said(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else form.format(value)  # noqa: PLR0124 - NaN
