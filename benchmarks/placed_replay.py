"""Replays with and without nodes: how many jobs are slowed, and how many by placement alone.

    python -m benchmarks.placed_replay --jobs jobs.csv --pools pools.csv --nodes nodes.csv \
        --train-until 1641600 --eval-from 1814400 --policies reclaim,maxmin,anticipatory,planned --csv out.csv

Rows that the CSV has already are not run again, so a run that was stopped goes on where it was. How far it is
is said on stderr; replays that plan take minutes. Before a span is looked at, choose on an earlier one with
--before: jobs submitted from that instant on are left out.
"""

import argparse
import csv
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from app.services.compare import Choice, parse_choice
from app.services.ingest import Source, load
from data.schedule_csv import write_schedule
from simulator.engine import Progress
from simulator.placed import DEFAULT_RULE, Keep, PlaceRule
from simulator.placed_report import placement_report
from simulator.replay import replay
from simulator.report import Lived, against, reference_of
from simulator.workload import Workload

_SAY_S: Final = 30.0
COUNTED = "counted"
"""Rule of the rows without nodes."""


def rules(text: str) -> dict[str, PlaceRule]:
    """Rules by their labels: `keep` or `keep:drains:by_end`, comma-separated."""
    made: dict[str, PlaceRule] = {}
    for label in text.split(","):
        keep, *rest = label.split(":")
        drains, by_end = int(rest[0]) if rest else 1, len(rest) > 1 and rest[1] == "by_end"
        made[label] = PlaceRule(Keep(keep), drains, by_end)
    return made


def told(label: str) -> Progress:
    """Says on stderr, at most twice a minute, how far a replay is."""
    begin = said = time.monotonic()

    def tell(ended: int, jobs: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= _SAY_S:
            said = now
            print(
                f"{label}: {ended:,} of {jobs:,} jobs after {now - begin:.0f} s", file=sys.stderr, flush=True
            )

    return tell


def measured(
    workload: Workload, choice: Choice, rule: PlaceRule, schedule: Path | None, progress: Progress
) -> dict[str, Any]:
    begin = time.perf_counter()
    done = replay(workload, choice.policy, choice.settings, rule=rule, progress=progress)
    reference = reference_of(workload)
    found = against(workload, Lived.of(done.schedule), reference)
    if schedule is not None:
        write_schedule(schedule, done.schedule.stretches)
    placed = placement_report(workload, done, reference)
    return {
        "ratio": round(found["speedup_ratio_of_means"], 3),
        "geo": round(found["speedup_geomean"], 3),
        "slowed_jobs": found["slowed_jobs"],
        "slowed_pct": round(found["slowed_pct"], 4),
        "worst_min": round(found["slowed_max_min"], 1),
        "by_placement_jobs": placed.get("slowed_by_placement_jobs", 0),
        "by_placement_pct": round(placed.get("slowed_by_placement_pct", 0.0), 4),
        "by_placement_worst_min": round(placed.get("slowed_by_placement_max_min", 0.0), 1),
        "held_up_jobs": placed.get("held_up_jobs", 0),
        "held_up_hours": round(placed.get("held_up_hours", 0.0), 1),
        "requeues": sum(stretch.was_sent_back for stretch in done.schedule.stretches),
        "replay_s": round(time.perf_counter() - begin),
    }


def workloads(asked: argparse.Namespace) -> Mapping[bool, Workload]:
    """The workload without and with nodes."""
    made: dict[bool, Workload] = {}
    for has_nodes in (False, True):
        source = Source(
            asked.jobs,
            asked.pools,
            train_until_s=asked.train_until,
            eval_from_s=asked.eval_from,
            nodes=asked.nodes if has_nodes else None,
        )
        whole = load(source).workload
        jobs = tuple(job for job in whole.jobs if asked.before is None or job.submit_s < asked.before)
        made[has_nodes] = replace(whole, jobs=jobs)
    return made


def main() -> None:
    asked = options()
    done: list[dict[str, Any]] = []
    if asked.csv.exists():
        with asked.csv.open(encoding="utf-8", newline="") as file:
            done = list(csv.DictReader(file))
    known = {(row["policy"], row["rule"]) for row in done}
    by_nodes = workloads(asked)
    for policy in asked.policies.split(","):
        for label, rule in {COUNTED: PlaceRule(), **rules(asked.rules)}.items():
            if (policy, label) in known:
                continue
            schedule = None if asked.out is None else asked.out / f"{policy}-{label}.csv".replace(":", "-")
            progress = told(f"{policy}, {label}")
            found = measured(by_nodes[label != COUNTED], parse_choice(policy), rule, schedule, progress)
            done.append({"policy": policy, "rule": label, **found})
            with asked.csv.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(done[-1]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(done)
    print("| " + " | ".join(done[0]) + " |\n|" + "---|" * len(done[0]))
    for row in done:
        print("| " + " | ".join(map(str, row.values())) + " |")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("jobs", "pools", "nodes", "csv"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="folder for the schedules")
    parser.add_argument("--train-until", type=float, required=True)
    parser.add_argument("--eval-from", type=float, required=True)
    parser.add_argument("--before", type=float, help="leave out jobs submitted from this instant on")
    parser.add_argument("--policies", default="reclaim,maxmin,anticipatory,planned")
    parser.add_argument("--rules", default=DEFAULT_RULE.keep.value, help="keep[:drains[:by_end]],...")
    asked = parser.parse_args()
    for folder in filter(None, (asked.out, asked.csv.parent)):
        folder.mkdir(parents=True, exist_ok=True)
    return asked


if __name__ == "__main__":
    main()
