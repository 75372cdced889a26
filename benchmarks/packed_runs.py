"""Replays on nodes in which jobs may share GPUs, as rows of a CSV; each schedule is judged by a referee.

The referee's verdict stands beside our own figures, and where it measures the same thing otherwise than we
do, that is a fault like any other.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from app.services.compare import Choice, run_one, write_replay
from app.services.ingest import Source, load
from benchmarks.code_version import code_version
from benchmarks.rows import Figures, Table, file_hash, fill, in_processes, text_of
from simulator.replay import Replay
from solver.policies import POLICIES

LISS: Final = "liss"
"""Setting of a policy: samples move between the workers of a job, so its rate is their mean."""
LGRR: Final = "lgrr"
"""Setting of a policy: MPS shares are set, under which rates are modelled and not measured."""
SHARE_GAIN: Final = "0.15"
"""What two jobs may gain together by shares, beyond free competition."""


@dataclass(frozen=True)
class Bench:
    """Files and instants of one benchmark.

    Attributes:
        name: stands in the table.
        jobs, pools, nodes, pairs: CSVs.
        history: CSV of jobs that had ended before; None where the jobs' own past is learned from.
        train_until_s, eval_from_s: see `antecast replay`.
    """

    name: str
    jobs: Path
    pools: Path
    nodes: Path
    pairs: Path
    history: Path | None = None
    train_until_s: float = 0.0
    eval_from_s: float = 0.0

    def options(self) -> dict[str, Path]:
        """Options of `antecast replay` that name files."""
        named = {name: getattr(self, name) for name in ("jobs", "pools", "nodes", "pairs", "history")}
        return {name: path for name, path in named.items() if path is not None}


@dataclass(frozen=True)
class PackedRow:
    """One replay.

    Attributes:
        bench: on what.
        series: what the row belongs to, such as a policy and its objective.
        label: what tells it from the others of its series.
        policy: name in the registry.
        settings: of the policy and its forecasts, texts.
        seed: of everything that is drawn.
    """

    bench: Bench
    series: str
    label: str
    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """What there is one row of."""
        return (self.bench.name, self.series, self.label)

    @property
    def asked(self) -> str:
        """Policy and settings as on the command line."""
        return ":".join([self.policy, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])

    @property
    def command(self) -> str:
        """The command that does the same, files by their names only."""
        words = ["antecast replay"]
        words += [f"--{name} {path.name}" for name, path in self.bench.options().items()]
        if self.bench.train_until_s or self.bench.eval_from_s:
            words.append(f"--train-until {self.bench.train_until_s:.12g}")
            words.append(f"--eval-from {self.bench.eval_from_s:.12g}")
        words += [f"--policy {self.policy}", *(f"--set {k}={v}" for k, v in sorted(self.settings.items()))]
        return " ".join([*words, f"--seed {self.seed}", "--no-check-plans"])


@dataclass(frozen=True)
class Judged:
    """What a referee says of a schedule.

    Attributes:
        flags: it was asked with, beside files.
        exit_code: of it; empty where there was none.
        verdict: "valid", the first rule that is broken, or the figure in which it disagrees.
    """

    flags: str = ""
    exit_code: str = ""
    verdict: str = ""


COLUMNS: Final = (
    "bench", "series", "label", "asked", "seed", "command", "inputs",
    "mean_jct_s", "mean_queue_s", "deadlines", "deadlines_met", "makespan_s",
    "ratio", "geo", "slowed", "slowed_pct", "days_high_pct", "worst_min", "requeues",
    "utilisation_pct", "effective_pct", "packed_pct", "equal_width_pct", "mean_packed_rate",
    "hosted", "rode", "sets", "worst_colocation",
    "faults", "referee_flags", "referee_exit", "referee", "seconds",
)  # fmt: skip
"""Columns of the CSV. `inputs` is the hash of all that the figures rest on."""

_SAME: Final = {
    "mean_jct_s": "mean_jct_s",
    "queue_mean_s": "mean_queue_s",
    "makespan_s": "makespan_s",
    "deadlines_met": "deadlines_met",
    "slowed": "slowed",
}
"""The referee's figures and ours that mean the same."""
_SAME_SHARE: Final = 1e-5


def inputs_hash(row: PackedRow) -> str:
    """Hash of code, files, instants, seed and settings; not of the row's names."""
    bench = row.bench
    parts = [code_version(row.policy), row.asked, str(row.seed)]
    parts += [repr(bench.train_until_s), repr(bench.eval_from_s)]
    parts += [f"{name} {file_hash(path)}" for name, path in bench.options().items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def run_row(row: PackedRow, *, out: Path, referee: Path | None) -> Figures:
    """Replay one row, measure it and have it judged.

    The hash is taken first: code that is changed while it runs is not what the figures rest on.
    """
    rests_on = inputs_hash(row)
    bench = row.bench
    source = Source(
        bench.jobs,
        bench.pools,
        bench.history,
        train_until_s=bench.train_until_s,
        eval_from_s=bench.eval_from_s,
        nodes=bench.nodes,
        pairs=bench.pairs,
    )
    inputs = load(source)
    begun_s = time.perf_counter()
    choice = Choice(row.policy, row.settings, row.asked)
    done, report = run_one(inputs.workload, choice, may_see_truth=False, seed=row.seed, pairs=inputs.pairs)
    seconds = time.perf_counter() - begun_s
    folder = out.joinpath(*(part.replace("/", "-").replace(" ", "-") for part in row.key))
    write_replay(folder, done, {**report, "seed": row.seed, "inputs": inputs.hashes})
    figures = figures_of(report)
    judged = Judged()
    if referee is not None:
        judged = judge(row, done, figures, referee=referee, schedule=folder / "schedule.csv")
    whole = {
        "bench": bench.name,
        "series": row.series,
        "label": row.label,
        "asked": row.asked,
        "seed": row.seed,
        "command": row.command,
        "inputs": rests_on,
        **figures,
        "referee_flags": judged.flags,
        "referee_exit": judged.exit_code,
        "referee": judged.verdict,
        "seconds": seconds,
    }
    return {name: text_of(whole[name]) for name in COLUMNS}


def figures_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a row, by column; None where there is none, such as of sharing where nobody could."""
    measures, use, packing = report["against_fcfs"], report["use"], report.get("packing", {})
    deadlines = report.get("deadlines", {})
    sizes = packing.get("sets_by_size", {})
    return {
        "mean_jct_s": report["mean_jct_s"],
        "mean_queue_s": report["mean_queue_delay_s"],
        "deadlines": deadlines.get("jobs"),
        "deadlines_met": deadlines.get("met"),
        "makespan_s": report["makespan_s"],
        "ratio": measures["speedup_ratio_of_means"],
        "geo": measures["speedup_geomean"],
        "slowed": measures["slowed_jobs"],
        "slowed_pct": measures["slowed_pct"],
        "days_high_pct": measures["slowed_pct_days_high"],
        "worst_min": measures["slowed_max_min"],
        "requeues": report["requeues"],
        "utilisation_pct": use["utilisation_pct"],
        "effective_pct": use["effective_utilisation_pct"],
        "packed_pct": packing.get("packed_pct"),
        "equal_width_pct": packing.get("equal_width_pct"),
        "mean_packed_rate": packing.get("mean_packed_rate"),
        "hosted": packing.get("jobs_hosted"),
        "rode": packing.get("jobs_rode"),
        "sets": " ".join(f"{size}:{count}" for size, count in sizes.items()),
        "worst_colocation": packing.get("colocation_slowdown_worst"),
        "faults": len(report["faults"]),
    }


def flags_of(row: PackedRow, in_force: Mapping[str, Any]) -> list[str]:
    """What the referee has to be told of a replay, by the settings that were in force.

    Samples move where `liss` is on, rates are those under shares where `lgrr` is, and guests are sent back
    where the policy does that at all.
    """
    flags = ["--redistribute"] if in_force.get(LISS) else []
    flags += ["--share-gain", SHARE_GAIN] if in_force.get(LGRR) else []
    if POLICIES[row.policy].may_send_back:
        flags += ["--requeueable", f"{in_force.get('requeueable', 0.0):g}"]
    return flags


def judge(
    row: PackedRow, done: Replay, figures: Mapping[str, Any], *, referee: Path, schedule: Path
) -> Judged:
    """Ask the referee whether a schedule is valid, and whether it measures what we do."""
    bench, flags = row.bench, flags_of(row, done.settings)
    command = [sys.executable, str(referee), "--schedule", str(schedule), *flags]
    for name in ("jobs", "pools", "nodes", "pairs"):
        command += [f"--{name}", str(bench.options()[name])]
    command += ["--sim-from", str(bench.train_until_s), "--eval-from", str(bench.eval_from_s)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return Judged(" ".join(flags), str(told.returncode), _verdict(told, figures))


def _verdict(told: "subprocess.CompletedProcess[str]", figures: Mapping[str, Any]) -> str:
    try:
        said = json.loads(told.stdout)
    except json.JSONDecodeError:
        return f"unreadable: {told.stderr.strip()[-200:]}"
    faults = said.get("faults") or ([said["error"]] if "error" in said else [])
    if faults or told.returncode:
        return str(faults[0]) if faults else f"exit code {told.returncode}"
    for theirs, ours in _SAME.items():
        if theirs in said and figures[ours] is not None:
            here, there = float(figures[ours]), float(said[theirs])
            if abs(here - there) > _SAME_SHARE * abs(there) + 1e-3:
                return f"{ours} is {here:g} by our report and {there:g} by the referee"
    return "valid"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that these scripts have in common."""
    parser.add_argument(
        "--csv", type=Path, required=True, help="results; rows that are in it are not run again"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for schedules and reports")
    parser.add_argument("--referee", type=Path, help="a judge of schedules")
    parser.add_argument("--workers", type=int, default=1, help="replays at a time")
    parser.add_argument("--only", nargs="+", help="only rows of these series")
    parser.add_argument(
        "--no-run", action="store_true", help="run nothing: only the rows in --csv that still hold"
    )


def figures_of_rows(rows: Sequence[PackedRow], chosen: argparse.Namespace) -> list[Figures]:
    """Figures of rows, by what `add_options` was given; those that are in the CSV and still hold are not run.

    Raises:
        SystemExit: if a row is of a policy that there is not.
    """
    unknown = sorted({row.policy for row in rows} - POLICIES.keys())
    if unknown:
        raise SystemExit(f"no policy {unknown[0]!r}; there are: {', '.join(POLICIES)}")
    hashes = {row.key: inputs_hash(row) for row in rows}

    def is_current(row: PackedRow, known: Figures) -> bool:
        is_judged = chosen.referee is None or bool(known["referee"])
        return known["inputs"] == hashes[row.key] and is_judged

    def execute(missing: Sequence[PackedRow]) -> Any:
        run = partial(run_row, out=chosen.out, referee=chosen.referee)
        return () if chosen.no_run else in_processes(run, missing, chosen.workers)

    return fill(Table(chosen.csv, COLUMNS, ("bench", "series", "label")), rows, is_current, execute, _shown)


def only(rows: Sequence[PackedRow], series: Sequence[str] | None) -> list[PackedRow]:
    """The rows of the series asked for; all where none was.

    Raises:
        SystemExit: if there is no such series.
    """
    known = dict.fromkeys(row.series for row in rows)
    unknown = [name for name in series or () if name not in known]
    if unknown:
        raise SystemExit(f"no series {unknown[0]!r}; there are: {', '.join(known)}")
    return [row for row in rows if series is None or row.series in series]


def exit_code(rows: Sequence[PackedRow], figures: Sequence[Figures]) -> int:
    """1 if a row could not be run, breaks a rule or was judged invalid."""
    is_sound = all(row["faults"] == "0" and row["referee"] in ("", "valid") for row in figures)
    return 0 if is_sound and len(figures) == len(rows) else 1


def _shown(figures: Figures) -> str:
    said = f"JCT {figures['mean_jct_s']} s, queue {figures['mean_queue_s']} s"
    return f"{said}, makespan {figures['makespan_s']} s, referee: {figures['referee'] or 'not asked'}"
