"""How much replays with calibrated MPS shares depend on the parameters of the share model.

    python -m benchmarks.share_sensitivity --folder FOLDER --csv sensitivity.csv [--policy packing:sigma=0.2]

Each parameter alone is multiplied by 0.8 and by 1.2. FOLDER has jobs_150.csv, jobs_300.csv, history.csv,
pairs.csv, pools_32.csv and nodes_32.csv. Rows that are in the CSV are not run again unless code, files or
what was asked have changed.
"""

import argparse
import csv
import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

from app.services.compare import parse_choice
from app.services.ingest import Source, load
from benchmarks.code_version import code_version
from benchmarks.runs import asked_policy
from data.pairs import read_pairs
from simulator.replay import replay
from simulator.workload import Workload
from solver.packing.share_model import PARAMETERS, ShareModel

FACTORS: Final = (0.8, 1.2)
JOBS: Final = ("jobs_150", "jobs_300")
COLUMNS: Final = ("jobs", "model", "inputs", "mean_jct_s", "mean_queue_s", "deadlines_met", "makespan_s")
Figures = dict[str, str]


class Variant(NamedTuple):
    """One column of parameters; `shares` None: jobs share freely, and no share is calibrated."""

    name: str
    shares: ShareModel | None


def variants() -> list[Variant]:
    """Without calibration, with the model as it is, and with one parameter changed at a time."""
    asis = ShareModel()
    changed = [
        Variant(f"{name} x {factor:g}", asis.scaled(name, factor))
        for name in PARAMETERS
        for factor in FACTORS
    ]
    return [Variant("no limits", None), Variant("as it is", asis), *changed]


def figures_of(workload: Workload, ends_s: Mapping[str, float], starts_s: Mapping[str, float]) -> Figures:
    """The four measures: mean JCT, mean queueing delay, deadlines met, makespan."""
    jobs = workload.jobs
    with_deadline = [(ends_s[job.job_id], job.deadline_s) for job in jobs if job.deadline_s is not None]
    return {
        "mean_jct_s": f"{sum(ends_s[job.job_id] - job.submit_s for job in jobs) / len(jobs):.1f}",
        "mean_queue_s": f"{sum(starts_s[job.job_id] - job.submit_s for job in jobs) / len(jobs):.1f}",
        "deadlines_met": str(sum(end_s <= deadline_s for end_s, deadline_s in with_deadline)),
        "makespan_s": f"{max(ends_s.values()) - min(job.submit_s for job in jobs):.1f}",
    }


def run(folder: Path, jobs: str, variant: Variant, asked: str) -> Figures:
    """Replay one variant; what is asked of the policy may set everything but `lgrr`."""
    workload = load(_source(folder, jobs)).workload
    choice = parse_choice(asked)
    lgrr = {"lgrr": "false" if variant.shares is None else "true"}
    pairs = read_pairs(folder / "pairs.csv")
    schedule = replay(
        workload, choice.policy, {**choice.settings, **lgrr}, pairs=pairs, share_model=variant.shares
    ).schedule
    return figures_of(workload, schedule.last_ends(), schedule.first_starts())


def inputs_hash(folder: Path, jobs: str, variant: Variant, asked: str) -> str:
    """Hash of code, files, and what was asked."""
    digest = hashlib.sha256(f"{code_version(parse_choice(asked).policy)} {asked}".encode())
    digest.update(repr(variant.shares and asdict(variant.shares)).encode())
    for name in (f"{jobs}.csv", "history.csv", "pairs.csv", "pools_32.csv", "nodes_32.csv"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]


def complete(folder: Path, asked: str, path: Path) -> list[Figures]:
    """All rows, running those that are not in the CSV or rest on something else; it is written after each."""
    known = {(row["jobs"], row["model"]): row for row in _read(path)}
    rows: list[Figures] = []
    for jobs in JOBS:
        for variant in variants():
            rests_on = inputs_hash(folder, jobs, variant, asked)
            row = known.get((jobs, variant.name))
            if row is None or row["inputs"] != rests_on:
                about = {"jobs": jobs, "model": variant.name, "inputs": rests_on}
                row = {**about, **run(folder, jobs, variant, asked)}
                print(f"{jobs}, {variant.name}: mean JCT {row['mean_jct_s']} s", file=sys.stderr, flush=True)
            rows.append(row)
            known[jobs, variant.name] = row
            _write(path, known.values())
    return rows


def table(rows: Sequence[Figures]) -> str:
    """Rows as a Markdown table."""
    lines = [
        "| jobs | share model | mean JCT, s | mean queueing, s | deadlines met | makespan, h |",
        "|---" * 6 + "|",
    ]
    for row in rows:
        jct_s, queue_s = float(row["mean_jct_s"]), float(row["mean_queue_s"])
        hours = float(row["makespan_s"]) / 3600.0
        lines.append(
            f"| {row['jobs']} | {row['model']} | {jct_s:,.0f} | {queue_s:,.0f} | {row['deadlines_met']} "
            f"| {hours:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the CSV and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--policy", type=asked_policy, default="packing")
    chosen = parser.parse_args(arguments)
    print(table(complete(chosen.folder, chosen.policy, chosen.csv)))
    return 0


def _source(folder: Path, jobs: str) -> Source:
    files = (folder / f"{jobs}.csv", folder / "pools_32.csv", folder / "history.csv")
    return Source(*files, "csv", 0.0, 0.0, False, folder / "nodes_32.csv")


def _read(path: Path) -> list[Figures]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return list(reader) if tuple(reader.fieldnames or ()) == COLUMNS else []


def _write(path: Path, rows: Iterable[Figures]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
