"""Several policies over one workload: run, measured against each other, written down."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from data.pairs import PairTable
from data.schedule_csv import write_schedule
from domain.errors import SettingError
from domain.measures import speedup
from domain.packing import MAX_SET_JOBS
from simulator.engine import Progress
from simulator.packed_report import packing_report
from simulator.placed_report import placement_report
from simulator.references import check_reference, reference_world
from simulator.replay import Replay, replay
from simulator.report import Lived, against, describe, evaluated_jobs, finite, reference_of
from simulator.workload import Workload

REFERENCE: Final = "fcfs"
BASELINE: Final = "backfill"

SET_SIZES: Final = range(2, MAX_SET_JOBS + 1)
"""Jobs that a packed set can have."""

_CSV_KEYS: Final = (
    "speedup_ratio_of_means",
    "speedup_mean",
    "speedup_geomean",
    "speedup_p5",
    "speedup_p50",
    "speedup_p95",
    "slowed_jobs",
    "slowed_pct",
    "slowed_pct_low",
    "slowed_pct_high",
    "slowed_pct_days_low",
    "slowed_pct_days_high",
    "slowed_pct_in_warm_up",
    "slowed_gpu_hours_pct",
    "slowed_max_min",
    "slowed_total_min",
)
_CSV_REPORT_KEYS: Final = (
    "mean_jct_s",
    "mean_queue_delay_s",
    "makespan_s",
    "p99_queue_delay_s",
    "requeues",
    "worst_pool_slowed_pct",
    "donor_harm_pct",
    "jain_index_of_pool_speedups",
)
_CSV_USE_KEYS: Final = (
    "utilisation_pct",
    "effective_utilisation_pct",
    "lent_gpu_hours",
    "held_idle_gpu_hours",
    "lost_gpu_hours",
)


@dataclass(frozen=True)
class Choice:
    """One policy to run: its name in the registry, its settings, and the label of its row."""

    policy: str
    settings: Mapping[str, str]
    label: str


@dataclass(frozen=True)
class Row:
    """What one policy did.

    Attributes:
        label: as it was asked for, with a star where the policy saw the truth.
        replay: the run.
        report: all measures (`simulator.report.describe`); with another reference than `fcfs` also its name
            (`reference`) and the measures against it (`against_reference`).
        against_backfill: speed-ups and slowed jobs against the backfilling baseline.
        speedups: speed-up of each evaluated job against the reference, in the order of the jobs.
    """

    label: str
    replay: Replay
    report: dict[str, Any]
    against_backfill: Mapping[str, Any]
    speedups: Sequence[float] = field(repr=False)


def parse_choice(text: str) -> Choice:
    """Parse `name` or `name:key=value:key=value`.

    Raises:
        SettingError: if a part is no `key=value`.
    """
    name, *parts = text.split(":")
    return Choice(name, parse_pairs(parts), text)


def parse_pairs(parts: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` texts.

    Raises:
        SettingError: if one of them is something else, or a key occurs twice.
    """
    pairs: dict[str, str] = {}
    for part in parts:
        key, sign, value = part.partition("=")
        if not sign or not key:
            raise SettingError(f"{part!r} is not of the form key=value")
        if key in pairs:
            raise SettingError(f"{key} is set twice")
        pairs[key] = value
    return pairs


def run_one(  # noqa: PLR0913 - named, and each a part of the question
    workload: Workload,
    choice: Choice,
    *,
    may_see_truth: bool,
    seed: int = 0,
    progress: Progress | None = None,
    reference: str = REFERENCE,
    checks_plans: bool = False,
    pairs: PairTable | None = None,
) -> tuple[Replay, dict[str, Any]]:
    """Replay one policy and measure it against `fcfs`, and against another reference if there is one.

    Raises:
        SettingError: for an unknown policy, setting or reference.
        PlanError: with `checks_plans`, if a plan breaks a rule (`solver.check_plan`).
    """
    check_reference(reference)
    done = replay(
        workload,
        choice.policy,
        choice.settings,
        may_see_truth=may_see_truth,
        seed=seed,
        progress=progress,
        checks_plans=checks_plans,
        pairs=pairs,
    )
    report = _report(workload, done, reference_of(workload))
    world = _other_world(workload, reference, may_see_truth=may_see_truth, seed=seed)
    return done, report | _against_other(workload, Lived.of(done.schedule), reference, world)


def _report(workload: Workload, done: Replay, reference: Lived) -> dict[str, Any]:
    """The whole report: also what placement alone has slowed, and what sharing GPUs did, where they could."""
    report = describe(workload, done, reference)
    parts = {
        "placement": placement_report(workload, done, reference),
        "packing": packing_report(workload, done, report["use"]),
    }
    return report | {name: part for name, part in parts.items() if part}


def run_all(workload: Workload, choices: Sequence[Choice], **how: Any) -> list[Row]:
    """All rows of `run_each`."""
    return list(run_each(workload, choices, **how))


def run_each(  # noqa: PLR0913 - named, and each a part of the question
    workload: Workload,
    choices: Sequence[Choice],
    *,
    may_see_truth: bool,
    seed: int = 0,
    progress_for: Callable[[str], Progress] | None = None,
    reference: str = REFERENCE,
    checks_plans: bool = False,
    pairs: PairTable | None = None,
) -> Iterator[Row]:
    """Replay policies over one workload and measure each against `fcfs` and against `backfill`.

    `backfill` is run first, even where it is not asked for. A row comes as soon as its policy is done.

    Args:
        workload: what happens.
        choices: which policies, in the order of the rows.
        may_see_truth: whether clairvoyant policies (and true lives) are allowed.
        seed: of everything that is drawn.
        progress_for: makes the progress callback of a label.
        reference: one more world without sharing to measure against (`solver.references`).
        checks_plans: whether the independent checker looks at every plan before it is carried out.
        pairs: measured rates of two jobs on one GPU; None where no policy lets jobs share.

    Raises:
        PlanError: with `checks_plans`, if a plan breaks a rule (`solver.check_plan`); it says whose.
        SettingError: for unknown policies, settings or references, or a label asked for twice.
    """
    check_reference(reference)
    labels = [choice.label for choice in choices]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise SettingError(f"policy {twice} is asked for twice")

    def run(choice: Choice) -> Replay:
        progress = None if progress_for is None else progress_for(choice.label)
        return replay(
            workload,
            choice.policy,
            choice.settings,
            may_see_truth=may_see_truth,
            seed=seed,
            progress=progress,
            checks_plans=checks_plans,
            pairs=pairs,
        )

    first = run(next((one for one in choices if one.label == BASELINE), Choice(BASELINE, {}, BASELINE)))
    without, baseline = reference_of(workload), Lived.of(first.schedule)
    world = _other_world(workload, reference, may_see_truth=may_see_truth, seed=seed)
    for choice in choices:
        done = first if choice.label == BASELINE else run(choice)
        row = _row(workload, choice.label, done, without, baseline)
        row.report.update(_against_other(workload, Lived.of(done.schedule), reference, world))
        yield row


def _other_world(workload: Workload, reference: str, *, may_see_truth: bool, seed: int) -> Lived | None:
    """The world of another reference than the one that is always measured against."""
    if reference == REFERENCE:
        return None
    return reference_world(workload, reference, may_see_truth=may_see_truth, seed=seed)


def _against_other(workload: Workload, lived: Lived, name: str, world: Lived | None) -> dict[str, Any]:
    if world is None:
        return {}
    return {"reference": name, "against_reference": against(workload, lived, world)}


def _row(workload: Workload, label: str, done: Replay, reference: Lived, baseline: Lived) -> Row:
    lived = Lived.of(done.schedule)
    gains = [
        speedup(reference.end_s[job.job_id] - job.submit_s, lived.end_s[job.job_id] - job.submit_s)
        for job in evaluated_jobs(workload)
    ]
    return Row(
        label + "*" if done.saw_truth else label,
        done,
        _report(workload, done, reference),
        against(workload, lived, baseline),
        gains,
    )


def write_replay(folder: Path, done: Replay, report: Mapping[str, Any]) -> None:
    """Write `schedule.csv` and `report.json`; the same replay gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    write_schedule(folder / "schedule.csv", done.schedule.stretches)
    text = json.dumps(finite(report), indent=1, allow_nan=False)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")


def write_rows(folder: Path, rows: Sequence[Row], inputs: Mapping[str, Any]) -> None:
    """Write `compare.csv`, and each policy's schedule and report in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        name = row.label.rstrip("*").replace(":", "-").replace("=", "-").replace("/", "-")
        write_replay(folder / name, row.replay, {**row.report, **inputs})
    records = [flat(row) for row in rows]
    with (folder / "compare.csv").open("w", newline="", encoding="utf-8") as file:
        columns = list(dict.fromkeys(name for record in records for name in record))
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def flat(row: Row) -> dict[str, Any]:
    """A row's main figures as one flat record; what a policy has no part in is not in its record."""
    report = row.report
    other = report.get("against_reference")
    return {
        "policy": row.label,
        **{f"{key}_vs_fcfs": report["against_fcfs"][key] for key in _CSV_KEYS},
        **{f"{key}_vs_backfill": row.against_backfill[key] for key in _CSV_KEYS},
        **({f"{key}_vs_reference": other[key] for key in _CSV_KEYS} if other else {}),
        **{key: report[key] for key in _CSV_REPORT_KEYS},
        **{key: report["use"][key] for key in _CSV_USE_KEYS},
        **{f"deadlines_{key}": number for key, number in report.get("deadlines", {}).items()},
        **report.get("placement", {}),
        **_flat_packing(report.get("packing", {})),
        "faults": len(report["faults"]),
    }


def _flat_packing(packing: Mapping[str, Any]) -> dict[str, Any]:
    """Sets by size become one column a size."""
    sizes = (
        {f"sets_of_{size}": packing["sets_by_size"].get(str(size), 0) for size in SET_SIZES}
        if packing
        else {}
    )
    return {key: value for key, value in packing.items() if key != "sets_by_size"} | sizes
