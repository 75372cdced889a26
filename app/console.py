"""What the command line says: notes, results, progress."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.services.ingest import Inputs
from simulator.engine import Progress as EngineProgress
from simulator.report import finite

_LEAST_WIDTH: Final = 140


def result_console() -> Console:
    """Standard output, wide enough for a table also where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, _LEAST_WIDTH))


def tell_inputs(inputs: Inputs, *, as_json: bool) -> None:
    """Say on standard error what was left out or not used; standard output stays the result's."""
    err = Console(stderr=True, quiet=as_json and not inputs.skipped)
    for fault in inputs.skipped:
        err.print(f"skipped {fault}", markup=False, highlight=False, soft_wrap=True)
    if inputs.unused_columns:
        names = ", ".join(inputs.unused_columns)
        err.print(f"columns kept but not used: {names}", markup=False, highlight=False, soft_wrap=True)
    work = inputs.workload
    err.print(
        f"{len(work.jobs)} jobs to replay on {work.cluster.capacity_gpus} GPUs "
        f"in {len(work.cluster.pools)} pools, {len(work.past)} to learn from",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def tell_replay(report: Mapping[str, Any], out: Path) -> None:
    """Say what one replay did."""
    measures = report["against_fcfs"]
    console = Console()
    gain = (
        f"{report['policy']}: mean JCT {report['mean_jct_s'] / 3600:.2f} h, "
        f"{measures['speedup_ratio_of_means']:.2f} times less than without sharing "
        f"(geometric mean of the jobs' speed-ups {measures['speedup_geomean']:.2f})"
    )
    harm = (
        f"slowed {measures['slowed_jobs']} of {report['jobs_evaluated']} jobs "
        f"({measures['slowed_pct']:.3f} %, at most {measures['slowed_pct_high']:.3f} % at 95 % confidence, "
        f"or {measures['slowed_pct_days_high']:.3f} % over days), "
        f"the worst by {measures['slowed_max_min']:.0f} min; {report['requeues']} requeues"
    )
    broken = [f"rule broken: {fault}" for fault in report["faults"]]
    lines = [
        gain,
        harm,
        *_against_other(report),
        *_deadlines(report),
        *_packing(report),
        *_plans(report),
        *broken,
        f"Written: {out / 'schedule.csv'}, {out / 'report.json'}",
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _against_other(report: Mapping[str, Any]) -> list[str]:
    """Where another reference was asked for: what was gained and who was slowed against it."""
    if "reference" not in report:
        return []
    measures = report["against_reference"]
    said = (
        f"against {report['reference']}: {measures['speedup_ratio_of_means']:.2f} times less "
        f"(geometric mean {measures['speedup_geomean']:.2f}), slowed {measures['slowed_jobs']} "
        f"({measures['slowed_pct']:.3f} %), the worst by {measures['slowed_max_min']:.0f} min"
    )
    return [said]


def _deadlines(report: Mapping[str, Any]) -> list[str]:
    """Where jobs have deadlines: how many were met."""
    if "deadlines" not in report:
        return []
    met = report["deadlines"]
    return [f"deadlines met: {met['met']} of {met['jobs']} ({met['met_pct']:.1f} %)"]


def _packing(report: Mapping[str, Any]) -> list[str]:
    """Where jobs could share GPUs: how much they did, what that brought, and what it cost the worst."""
    if "packing" not in report:
        return []
    packing, use = report["packing"], report["use"]
    if not packing["jobs_packed"]:
        return ["no job shared a GPU"]
    sizes = ", ".join(f"{count} of {size}" for size, count in packing["sets_by_size"].items()) or "none"
    rate = packing["mean_packed_rate"]
    seen = "" if rate is None else f"rate of jobs that share {rate:.2f} on average; "
    worst, most = packing["colocation_slowdown_worst"], packing["colocation_slowed_most"]
    work = f"GPUs in use {use['utilisation_pct']:.1f} %, work done {use['effective_utilisation_pct']:.1f} %"
    who = f"{packing['jobs_hosted']} jobs hosted and {packing['jobs_rode']} rode, in sets of jobs: {sizes}"
    makespan_h = report["makespan_s"] / 3600
    return [
        f"shared GPUs: {packing['packed_pct']:.1f} % of those in use; {work}; makespan {makespan_h:.2f} h",
        f"{who}; {packing['equal_width_pct']:.1f} % of the shared GPU-hours between equal widths",
        f"{seen}{most} lost most: it ran {worst:.2f} times as long as it would have alone",
    ]


def _plans(report: Mapping[str, Any]) -> list[str]:
    """Of a policy that solves: how good its plans were, and what stood in where a solve failed."""
    plans = report.get("plans")
    if not plans or plans["proven_pct"] is None:
        return []
    gap = "unknown"
    if plans["gap_worst_pct"] is not None:
        gap = f"{plans['gap_median_pct']:.2g} % in the median, {plans['gap_worst_pct']:.2g} % at worst"
    stood_in = ", ".join(f"{kind} {count}" for kind, count in plans["by_fallback"].items() if count)
    said = (
        f"{plans['plans']} plans, {plans['by_status']['empty']} of them empty; "
        f"{plans['proven_pct']:.1f} % of the others proven, gap {gap}; "
        f"cut by the wall clock: {plans['cut_by_wall_clock']}; "
        f"fallbacks: {stood_in or 'none'}"
    )
    return [said]


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(finite(document), indent=1, allow_nan=False, default=str) + "\n")


@contextmanager
def bars(*, is_silent: bool) -> Iterator[Callable[[str], EngineProgress]]:
    """Progress bars on standard error, one per policy."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=is_silent or not console.is_terminal) as progress:

        def bar_for(label: str) -> EngineProgress:
            task = progress.add_task(label, total=None)

            def tick(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            return tick

        yield bar_for
