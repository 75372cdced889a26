"""Comparisons as tables and sentences for people."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from app.services.compare import BASELINE, REFERENCE, Row

_HOUR_S: Final = 3600.0


def comparison(rows: Sequence[Row], title: str) -> Table:
    """One row per policy: speed and slowed jobs against `fcfs` and against `backfill`, and the price."""
    table = Table(title=Text(title), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    table.caption = (
        "ratio: mean JCT of the baseline / mean JCT; geo: geometric mean of the jobs' speed-ups;\n"
        "slowed: jobs that end more than 60 s later than in the baseline;\n"
        "over days: 95 % interval, days of submission drawn anew; *: saw the true lives of jobs"
    )
    table.add_column("policy", no_wrap=True)
    for name in (f"{REFERENCE}:\nratio", "\ngeo", "slowed\n%", "worst\nmin", "slowed %,\nover days"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in (
        f"{BASELINE}:\nratio",
        "\ngeo",
        "slowed\n%",
        "queue\nmean h",
        "GPUs in\nuse %",
        "re-\nqueues",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(row.label),
            *_cells(row.report["against_fcfs"]),
            _over_days(row.report["against_fcfs"]),
            *_cells(row.against_backfill)[:3],
            f"{row.report['mean_queue_delay_s'] / _HOUR_S:.2f}",
            f"{row.report['use']['utilisation_pct']:.1f}",
            str(row.report["requeues"]),
        )
    return table


def against_reference(rows: Sequence[Row]) -> Table | None:
    """Speed and slowed jobs against the other reference that was asked for; None where none was."""
    name = rows[0].report.get("reference") if rows else None
    if name is None:
        return None
    table = Table(title=Text(f"against {name}"), title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("policy", no_wrap=True)
    for column in ("ratio", "geo", "slowed %", "worst min"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row.label), *_cells(row.report["against_reference"]))
    return table


def shared_gpus(rows: Sequence[Row]) -> Table | None:
    """What is asked where jobs may share GPUs or have deadlines; None where neither is so of any policy."""
    if not any("packing" in row.report or "deadlines" in row.report for row in rows):
        return None
    table = Table(
        title=Text("GPUs that two jobs share, and deadlines"), title_justify="left", box=box.SIMPLE_HEAD
    )
    table.caption_justify = "left"
    table.caption = (
        "work: work done as a share of what the GPUs could have done for one job each; shared: of the\n"
        "GPU-hours in use, those of two jobs; rate: mean speed of jobs that share, 1 is alone;\n"
        "worst: time that a job ran, over the time it would have run alone"
    )
    table.add_column("policy", no_wrap=True)
    for name in (
        "JCT\nmean h",
        "queue\nmean h",
        "makespan\nh",
        "deadlines\nmet %",
        "GPUs in\nuse %",
        "work\n%",
        "shared\n%",
        "rate\nmean",
        "hosts",
        "riders",
        "worst",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        report = row.report
        table.add_row(
            Text(row.label),
            f"{report['mean_jct_s'] / _HOUR_S:.2f}",
            f"{report['mean_queue_delay_s'] / _HOUR_S:.2f}",
            f"{report['makespan_s'] / _HOUR_S:.2f}",
            f"{report['deadlines']['met_pct']:.1f}" if "deadlines" in report else "",
            f"{report['use']['utilisation_pct']:.1f}",
            f"{report['use']['effective_utilisation_pct']:.1f}",
            *_packing_cells(report),
        )
    return table


def verdict(rows: Sequence[Row]) -> str:
    """One sentence: what was gained, and who was slowed.

    Speaks of the sharing policy that slowed fewest, the fastest of those, and, where others slowed more,
    of the one that slowed most. Policies that saw the truth are only spoken of where there is no other.
    """
    sharing = [row for row in rows if row.replay.policy not in (REFERENCE, BASELINE)]
    sharing = [row for row in sharing if not row.replay.saw_truth] or sharing
    if not sharing:
        return "No sharing policy was run."
    best = min(sharing, key=lambda row: (row.report["against_fcfs"]["slowed_jobs"], row.report["mean_jct_s"]))
    measures = best.report["against_fcfs"]
    slowed = measures["slowed_jobs"]
    who = "nobody" if slowed == 0 else f"{slowed} jobs ({measures['slowed_pct']:.2f} %)"
    text = (
        f"{best.label} cut the mean completion time of {best.report['jobs_evaluated']} jobs to "
        f"{best.report['mean_jct_s'] / _HOUR_S:.1f} h, {measures['speedup_ratio_of_means']:.1f} times less "
        f"than without sharing and {best.against_backfill['speedup_ratio_of_means']:.1f} times less than "
        f"with backfilling, and slowed {who}"
    )
    worst = max(sharing, key=lambda row: row.report["against_fcfs"]["slowed_jobs"])
    harm = worst.report["against_fcfs"]
    if harm["slowed_jobs"] > slowed:
        text += (
            f"; {worst.label} slowed {harm['slowed_jobs']} ({harm['slowed_pct']:.2f} %), "
            f"one of them by {harm['slowed_max_min'] / 60:.1f} h"
        )
    return text + "."


def _cells(measures: Mapping[str, float]) -> tuple[str, str, str, str]:
    return (
        f"{measures['speedup_ratio_of_means']:.2f}",
        f"{measures['speedup_geomean']:.2f}",
        f"{measures['slowed_pct']:.3f}",
        f"{measures['slowed_max_min']:.0f}",
    )


def _packing_cells(report: Mapping[str, Any]) -> tuple[str, ...]:
    packing = report.get("packing")
    if packing is None:
        return ("", "", "", "", "")
    return (
        f"{packing['packed_pct']:.1f}",
        _two_digits(packing["mean_packed_rate"]),
        str(packing["jobs_hosted"]),
        str(packing["jobs_rode"]),
        _two_digits(packing["colocation_slowdown_worst"]),
    )


def _two_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _over_days(measures: Mapping[str, float]) -> str:
    return f"{measures['slowed_pct_days_low']:.2f}-{measures['slowed_pct_days_high']:.2f}"
