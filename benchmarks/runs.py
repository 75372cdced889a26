"""Replays as rows of a CSV: each in a process of its own, skipped where nothing it rests on has changed."""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

from app.services.compare import Choice, parse_choice, run_one, write_replay
from app.services.ingest import Source, load
from benchmarks.code_version import code_version
from benchmarks.rows import Figures, Table, file_hash, fill, in_processes, text_of
from domain.errors import SettingError
from simulator.replay import Replay
from simulator.workload import Workload
from solver.policies import POLICIES

TRAIN_UNTIL_S: Final = 1_641_600.0
EVAL_FROM_S: Final = 1_814_400.0
_HOUR_S: Final = 3600.0


@dataclass(frozen=True)
class Protocol:
    """What all rows have in common.

    Attributes:
        jobs: CSV of jobs.
        train_until_s, eval_from_s: see `antecast compare`.
        seed: of everything that is drawn.
        out: folder for schedules and reports; None keeps the figures only.
        referee: a judge of schedules, run on each; None for none.
    """

    jobs: Path
    train_until_s: float = TRAIN_UNTIL_S
    eval_from_s: float = EVAL_FROM_S
    seed: int = 0
    out: Path | None = None
    referee: Path | None = None


@dataclass(frozen=True)
class Row:
    """One replay.

    Attributes:
        pools: CSV of pools; its name is the row's load.
        series: what the row belongs to, such as a policy.
        label: what tells it from the others of its series.
        policy: name in the registry.
        settings: of the policy and its forecasts, texts.
        may_see_truth: whether it may look at true lives.
    """

    pools: Path
    series: str
    label: str
    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)
    may_see_truth: bool = False

    @property
    def load(self) -> str:
        """Name of the file of pools without what all of them have in common."""
        return self.pools.stem.removeprefix("pools_")

    @property
    def key(self) -> tuple[str, str, str]:
        """What there is one row of."""
        return (self.load, self.series, self.label)

    @property
    def asked(self) -> str:
        """Policy and settings as on the command line."""
        return ":".join([self.policy, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])

    @property
    def requeueable(self) -> float:
        """R: share of the jobs that may be sent back."""
        settings = fields(POLICIES[self.policy].settings)
        default = next((one.default for one in settings if one.name == "requeueable"), 0.0)
        return float(self.settings.get("requeueable", default))


COLUMNS: Final = (
    "load", "series", "label", "asked", "inputs",
    "ratio", "geo", "slowed", "slowed_pct", "low_pct", "high_pct", "days_low_pct", "days_high_pct",
    "slowed_days", "worst_min", "total_min", "worst_pool", "worst_pool_pct", "slowed_gpu_hours_pct",
    "warm_up_pct", "mean_queue_s", "requeues", "lost_gpu_hours", "lost_gpu_hours_pct", "held_idle_gpu_hours",
    "faults", "referee", "seconds",
)  # fmt: skip
"""Columns of the CSV. `inputs` is the hash of all that the figures rest on."""

Done = tuple[Row, Figures | BaseException]
Execute = Callable[[Sequence[Row], Protocol, int], Iterable[Done]]


def takes(policy: str, setting: str) -> bool:
    """Whether a policy has a setting of its own."""
    return any(one.name == setting for one in fields(POLICIES[policy].settings))


def asked_policy(text: str) -> str:
    """`name` or `name:key=value:...` of a policy that there is; for argparse.

    Raises:
        argparse.ArgumentTypeError: if there is none of that name, or a part is no `key=value`.
    """
    try:
        choice = parse_choice(text)
    except SettingError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if choice.policy not in POLICIES:
        raise argparse.ArgumentTypeError(f"no policy {choice.policy!r}; there are: {', '.join(POLICIES)}")
    return text


def inputs_hash(row: Row, protocol: Protocol) -> str:
    """Hash of code, files, instants, seed and settings; not of the row's names."""
    digest = hashlib.sha256()
    parts = [code_version(row.policy), row.asked, str(row.may_see_truth)]
    parts += [repr(protocol.train_until_s), repr(protocol.eval_from_s), str(protocol.seed)]
    parts += [file_hash(protocol.jobs), file_hash(row.pools)]
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()[:16]


def complete(
    rows: Sequence[Row], protocol: Protocol, path: Path, workers: int, execute: Execute | None = None
) -> list[Figures]:
    """Fill a CSV with the figures of rows, running those that are not in it or rest on something else.

    The file is written anew after each row, so what was done is not lost. Rows of others stay in it.

    Args:
        rows: wanted, in the order of the result.
        protocol: what they have in common.
        path: of the CSV.
        workers: replays at a time.
        execute: runs rows, in any order; processes of their own by default.

    Returns:
        The figures of the rows that could be run; a failure is told on standard error.
    """
    hashes = {row.key: inputs_hash(row, protocol) for row in rows}
    return fill(
        _table(path),
        rows,
        lambda row, known: _is_current(known, hashes[row.key], protocol),
        lambda missing: (execute or replayed)(missing, protocol, workers),
        lambda figures: f"{figures['ratio']} / {figures['geo']} / {figures['slowed_pct']} %",
    )


def replayed(rows: Sequence[Row], protocol: Protocol, workers: int) -> Iterator[Done]:
    """Replay rows, each in a process of its own, so many at a time."""
    return in_processes(partial(run_row, protocol=protocol), rows, workers)


def run_row(row: Row, protocol: Protocol) -> Figures:
    """Replay one row and measure it.

    The hash is taken first: code that is changed while it runs is not what the figures rest on.
    """
    rests_on = inputs_hash(row, protocol)
    source = Source(protocol.jobs, row.pools, None, "csv", protocol.train_until_s, protocol.eval_from_s)
    inputs = load(source)
    begun_s = time.perf_counter()
    choice = Choice(row.policy, row.settings, row.asked)
    done, report = run_one(inputs.workload, choice, may_see_truth=row.may_see_truth, seed=protocol.seed)
    seconds = time.perf_counter() - begun_s
    verdict = ""
    if protocol.out is not None:
        folder = protocol.out.joinpath(*(part.replace("/", "-").replace(" ", "-") for part in row.key))
        write_replay(folder, done, {**report, "seed": protocol.seed, "inputs": inputs.hashes})
        if protocol.referee is not None:
            verdict = judge(row, protocol, folder / "schedule.csv")
    figures = {
        "load": row.load,
        "series": row.series,
        "label": row.label,
        "asked": row.asked,
        "inputs": rests_on,
        **figures_of(report, inputs.workload, done),
        "referee": verdict,
        "seconds": seconds,
    }
    return {name: text_of(figures[name]) for name in COLUMNS}


def figures_of(report: Mapping[str, Any], workload: Workload, done: Replay) -> dict[str, Any]:
    """The figures of a row, by column."""
    measures = report["against_fcfs"]
    width = {job.job_id: job.num_gpus for job in workload.jobs}
    back = [s for s in done.schedule.stretches if s.was_sent_back]
    lost_hours = sum(width[s.job_id] * (s.end_s - s.start_s) * s.lost_share for s in back) / _HOUR_S
    work_hours = sum(width[one] * outcome.duration_s for one, outcome in workload.outcomes.items()) / _HOUR_S
    return {
        "ratio": measures["speedup_ratio_of_means"],
        "geo": measures["speedup_geomean"],
        "slowed": measures["slowed_jobs"],
        "slowed_pct": measures["slowed_pct"],
        "low_pct": measures["slowed_pct_low"],
        "high_pct": measures["slowed_pct_high"],
        "days_low_pct": measures["slowed_pct_days_low"],
        "days_high_pct": measures["slowed_pct_days_high"],
        "slowed_days": measures["slowed_days"],
        "worst_min": measures["slowed_max_min"],
        "total_min": measures["slowed_total_min"],
        "worst_pool": report["worst_pool"] if measures["slowed_jobs"] else "",
        "worst_pool_pct": report["worst_pool_slowed_pct"],
        "slowed_gpu_hours_pct": measures["slowed_gpu_hours_pct"],
        "warm_up_pct": measures["slowed_pct_in_warm_up"],
        "mean_queue_s": report["mean_queue_delay_s"],
        "requeues": report["requeues"],
        "lost_gpu_hours": lost_hours,
        "lost_gpu_hours_pct": 100.0 * lost_hours / work_hours if work_hours else 0.0,
        "held_idle_gpu_hours": report["use"]["held_idle_gpu_hours"],
        "faults": len(report["faults"]),
    }


def judge(row: Row, protocol: Protocol, schedule: Path) -> str:
    """What the referee says of a schedule: "valid", or the first rule that it breaks."""
    command = [sys.executable, str(protocol.referee), "--jobs", str(protocol.jobs), "--pools", str(row.pools)]
    command += ["--schedule", str(schedule), "--no-preemption", "--requeueable", str(row.requeueable)]
    command += ["--sim-from", str(protocol.train_until_s), "--eval-from", str(protocol.eval_from_s)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        verdict = json.loads(told.stdout)
    except json.JSONDecodeError:
        return f"unreadable: {told.stderr.strip()[-200:]}"
    faults = verdict.get("faults") or ([verdict["error"]] if "error" in verdict else [])
    return str(faults[0]) if faults or told.returncode else "valid"


def read_figures(path: Path) -> list[Figures]:
    """Rows of a CSV written by `complete`; none where there is no file or it has other columns."""
    return _table(path).read()


def _table(path: Path) -> Table:
    return Table(path, COLUMNS, ("load", "series", "label"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that all such scripts have in common."""
    parser.add_argument("--jobs", type=Path, required=True, help="CSV of jobs")
    parser.add_argument("--pools", type=Path, required=True, nargs="+", help="CSVs of pools, one per load")
    parser.add_argument("--train-until", type=float, default=TRAIN_UNTIL_S)
    parser.add_argument("--eval-from", type=float, default=EVAL_FROM_S)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--csv", type=Path, required=True, help="results; rows that are in it are not run again"
    )
    parser.add_argument("--workers", type=int, default=1, help="replays at a time")
    parser.add_argument("--out", type=Path, help="folder for schedules and reports, for `antecast episodes`")
    parser.add_argument(
        "--no-run", action="store_true", help="run nothing: only the rows in --csv that still hold"
    )


def figures_of_rows(rows: Sequence[Row], chosen: argparse.Namespace) -> list[Figures]:
    """`complete`, by what `add_options` was given."""
    execute: Execute = _nothing if chosen.no_run else replayed
    return complete(rows, protocol_of(chosen), chosen.csv, chosen.workers, execute)


def _nothing(_rows: Sequence[Row], _protocol: Protocol, _workers: int) -> Iterator[Done]:
    return iter(())


def protocol_of(chosen: argparse.Namespace) -> Protocol:
    """What `add_options` was given."""
    referee = getattr(chosen, "referee", None)
    times = (chosen.train_until, chosen.eval_from)
    return Protocol(chosen.jobs, *times, chosen.seed, chosen.out, referee)


def exit_code(rows: Sequence[Row], figures: Sequence[Figures]) -> int:
    """1 if a row could not be run, breaks a rule or was judged invalid."""
    is_sound = all(row["faults"] == "0" and row["referee"] in ("", "valid") for row in figures)
    return 0 if is_sound and len(figures) == len(rows) else 1


def between(low: str, high: str) -> Callable[[Figures], str]:
    """A cell that shows an interval of per cents."""
    return lambda row: f"{float(row[low]):.3f} to {float(row[high]):.3f}"


def _is_current(known: Figures, wanted: str, protocol: Protocol) -> bool:
    if known["inputs"] != wanted:
        return False
    return protocol.referee is None or bool(known["referee"])
