"""Predicted against realised change of what-ifs, on weeks that the prediction has not seen.

python -m benchmarks.what_if_accuracy --bench $BENCH/philly-pools \\
    --csv benchmarks/results/what_if_accuracy.csv

For each later week and each way to draw futures: futures are drawn from what was submitted before the week
and replayed as it is and changed; then the week itself is. The realised difference should lie in the range of
the differences of single futures as often as `simulator.what_if.intervals.range_level` says. Cases that are
in the CSV already, from the same code and files, are not run again; --most stops after so many new ones.
"""

import argparse
import ast
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from benchmarks.code_version import ROOT, code_version
from benchmarks.rows import Figures, Table, file_hash, markdown, say, text_of
from data.history import in_order
from data.readers import READERS
from data.readers.benchmark_csv import read_pools
from domain.changes import World, read_patch
from domain.questions import DAY_S, Futures, Question
from simulator.what_if.courses import Course, courses_of
from simulator.what_if.figures import scope_of
from simulator.what_if.intervals import compared, range_level
from simulator.what_if.lived import WorldLived, live

ATTEMPTS: Final[dict[str, dict[str, Any]]] = {
    "days": {},
    "weeks": {"block_days": 7},
    "recent": {"half_life_days": 7.0},
    "recent weeks": {"block_days": 7, "half_life_days": 7.0},
    "two weeks": {"from_days": 14},
}
"""Ways to draw futures: days by themselves, whole weeks, recent days more often, and combinations."""

POOLS: Final = ("7f04ca", "0e4a51")
NUM_FUTURES: Final = 9
FIGURES: Final = (
    "mean_queue_delay_s",
    "p99_queue_delay_s",
    "speedup_ratio_of_means_vs_fcfs",
    "slowed_pct_vs_fcfs",
    "utilisation_pct",
    "lent_gpu_hours",
)
_BEHIND: Final = (
    *(f"domain/changes/{name}" for name in ("arrivals", "base", "draws", "quota", "settings")),
    *(f"simulator/what_if/{name}" for name in ("courses", "figures", "intervals", "lived")),
)
COLUMNS: Final = (
    "patch", "attempt", "from_day", "scope", "figure", "inputs", "days", "jobs_per_future", "jobs_realised",
    "predicted", "range_low", "range_high", "mean_low", "mean_high", "level_pct", "realised", "is_in_range",
    "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Patch:
    """A change whose effect is predicted, and the policy that it is predicted under."""

    name: str
    change: dict[str, Any]
    pool: str
    policy: str
    settings: dict[str, str]
    days: int
    learn_days: float


@dataclass(frozen=True)
class Case:
    """One later stretch, one way to draw futures, and the patches under one policy."""

    patches: tuple[Patch, ...]
    attempt: str
    from_day: int


def patches_of(group: str) -> tuple[Patch, ...]:
    """`load`: quotas and arrivals under `reclaim`; `eps` under `anticipatory`, on shorter stretches."""
    if group == "eps":
        settings = {"requeueable": "0", "lives": "learned", "arrivals": "learned"}
        change = {"kind": "settings", "set": {"eps": "0.005"}}
        return (Patch("eps 0.5 %", change, "", "anticipatory", settings, 2, 14.0),)
    found = []
    all_back = {"requeueable": "1"}
    for pool in POOLS:
        more = {"kind": "quota", "pool": pool, "by_pct": 20}
        twice = {"kind": "arrivals", "pool": pool, "times": 2}
        found.append(Patch(f"quota +20 % of {pool}", more, pool, "reclaim", all_back, 7, 1.0))
        found.append(Patch(f"load x2 of {pool}", twice, pool, "reclaim", all_back, 7, 1.0))
    return tuple(found)


def run(case: Case, frame: pd.DataFrame, quotas: dict[str, int], inputs: str) -> Iterator[Figures]:
    """Predict the changes of a case, replay what came, and set both side by side."""
    begun_s = time.perf_counter()
    first = case.patches[0]
    drawn = Futures(NUM_FUTURES, first.days, **ATTEMPTS[case.attempt])
    until_s = (case.from_day + first.days) * DAY_S
    before = in_order(frame[frame["submit_s"] < case.from_day * DAY_S])
    ahead = courses_of(before, Question(futures=drawn, learn_days=first.learn_days))
    came = courses_of(
        in_order(frame[frame["submit_s"] < until_s]), Question(days=first.days, learn_days=first.learn_days)
    )
    base = World(quotas, first.policy, first.settings)
    lived = [_live(courses, base, base, None) for courses in (ahead, came)]
    for patch in case.patches:
        changed = read_patch([patch.change]).on_world(base)
        after = [_live(courses, base, changed, patch) for courses in (ahead, came)]
        for scope in ["all"] + ([patch.pool] if patch.pool else []):
            pool = None if scope == "all" else sorted(quotas).index(scope)
            predicted, realised = (
                _compared(lived[half], after[half], (base, changed), pool, is_per_unit=half == 0)
                for half in (0, 1)
            )
            seconds = time.perf_counter() - begun_s
            yield from _rows(case, patch, scope, (predicted, realised), inputs, seconds)


def _live(courses: Sequence[Course], base: World, world: World, patch: Patch | None) -> list[WorldLived]:
    found = []
    for number, course in enumerate(courses):
        jobs = [one for one in course.jobs if one.job.num_gpus <= base.quotas[one.job.pool]]
        if patch is not None:
            jobs = read_patch([patch.change]).on_jobs(jobs, world, course.span)
        found.append(live(course, world, jobs, number, is_judged=False))
    return found


def _compared(
    base: Sequence[WorldLived],
    changed: Sequence[WorldLived],
    worlds: tuple[World, World],
    pool: int | None,
    *,
    is_per_unit: bool,
) -> dict[str, Any]:
    scopes = [
        scope_of(lived, [world.quotas[name] for name in sorted(world.quotas)], pool, is_per_unit=is_per_unit)
        for lived, world in zip((base, changed), worlds, strict=True)
    ]
    return compared(scopes[0], scopes[1], 0)


def _rows(
    case: Case,
    patch: Patch,
    scope: str,
    both: tuple[dict[str, Any], dict[str, Any]],
    inputs: str,
    seconds: float,
) -> Iterator[Figures]:
    predicted, realised = both
    for figure in FIGURES:
        interval, value = predicted["intervals"][figure], realised["difference"][figure]
        low, high = interval["range_low"], interval["range_high"]
        is_known = None not in (low, high, value)
        row = {
            "patch": patch.name,
            "attempt": case.attempt,
            "from_day": case.from_day,
            "scope": scope,
            "figure": figure,
            "inputs": inputs,
            "days": patch.days,
            "jobs_per_future": predicted["baseline"]["jobs"],
            "jobs_realised": realised["baseline"]["jobs"],
            "predicted": predicted["difference"][figure],
            "range_low": low,
            "range_high": high,
            "mean_low": interval["low"],
            "mean_high": interval["high"],
            "level_pct": range_level(NUM_FUTURES),
            "realised": value,
            "is_in_range": int(_is_in(value, low, high)) if is_known else None,
            "seconds": seconds,
        }
        yield {name: text_of(row[name]) for name in COLUMNS}


def _is_in(value: float, low: float, high: float) -> bool:
    """Whether a value lies in a range, up to the rounding of sums."""
    rounding = 1e-9 * max(abs(value), abs(low), abs(high))
    return low - rounding <= value <= high + rounding


def complete(
    cases: Iterable[Case], bench: Path, pools: Path, table: Table, most: int | None
) -> list[Figures]:
    """Fill the CSV with the rows of cases that are not in it, or rest on something else."""
    quotas = dict(read_pools(pools))
    frame = READERS["csv"](bench / "jobs.csv", quotas, is_lenient=False).frame
    known = {table.key(row): row for row in table.read()}
    done = 0
    for case in cases:
        inputs = inputs_of(case, bench, pools)
        is_there = all(
            any(row["patch"] == patch.name and _is_of(row, case, inputs) for row in known.values())
            for patch in case.patches
        )
        if is_there or done == most:
            continue
        done += 1
        for row in run(case, frame, quotas, inputs):
            known[table.key(row)] = row
        table.write(known.values())
        say(f"{case.patches[0].policy}, {case.attempt}, day {case.from_day}: done")
    return list(known.values())


def inputs_of(case: Case, bench: Path, pools: Path) -> str:
    """Hash of what a case's figures rest on."""
    parts = [code_version(case.patches[0].policy), file_hash(bench / "jobs.csv"), file_hash(pools)]
    parts += [repr(case.patches), repr(ATTEMPTS[case.attempt]), str(NUM_FUTURES)]
    for module in _BEHIND:
        text = (ROOT / f"{module}.py").read_text(encoding="utf-8")
        parts.append(ast.dump(ast.parse(text)))  # comments and formatting do not count
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _is_of(row: Figures, case: Case, inputs: str) -> bool:
    own = (row["attempt"], row["from_day"], row["inputs"])
    return own == (case.attempt, str(case.from_day), inputs)


def coverage(rows: Sequence[Figures]) -> str:
    """How often the realised change lay in the predicted range, by patch and way to draw, as Markdown."""
    groups: dict[tuple[str, str], list[Figures]] = {}
    for row in rows:
        if row["is_in_range"] and not _is_nothing(row):
            kind = row["patch"].split(" of ")[0]
            groups.setdefault((kind, row["attempt"]), []).append(row)
    listed = []
    for (patch, attempt), own in sorted(groups.items()):
        hits = [int(row["is_in_range"]) for row in own]
        signs = [row for row in own if abs(float(row["realised"])) > 1e-9]
        same = [float(row["realised"]) * float(row["predicted"]) > 0.0 for row in signs]
        listed.append(
            {
                "patch": patch,
                "futures drawn by": attempt,
                "stretches": str(len({row["from_day"] for row in own})),
                "predictions": str(len(own)),
                "in range": f"{100.0 * sum(hits) / len(hits):.0f} %",
                "stated": f"{float(own[0]['level_pct']):.0f} %",
                "right direction": f"{sum(same)} of {len(same)}",
            }
        )
    return markdown(listed, {name: _cell(name) for name in listed[0]}) if listed else "nothing yet"


def _is_nothing(row: Figures) -> bool:
    """Whether nothing was predicted, for sure, and nothing came: no feat where a figure cannot move."""
    return all(float(row[name]) == 0.0 for name in ("range_low", "range_high", "realised"))


def _cell(name: str) -> Any:
    return lambda row: row[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True, help="folder with jobs.csv and files of pools")
    parser.add_argument("--pools", default="pools_load080.csv", help="file of pools in it")
    parser.add_argument("--csv", type=Path, required=True, help="results")
    parser.add_argument("--groups", default="load,eps", help="load, eps")
    parser.add_argument("--attempts", default=",".join(ATTEMPTS), help="ways to draw futures")
    parser.add_argument("--from-days", default="24,31,38,45", help="where the later stretches begin")
    parser.add_argument("--most", type=int, help="run so many cases at most")
    chosen = parser.parse_args()
    cases = [
        Case(patches_of(group), attempt, int(day))
        for group in chosen.groups.split(",")
        for day in chosen.from_days.split(",")
        for attempt in chosen.attempts.split(",")
    ]
    table = Table(chosen.csv, COLUMNS, ("patch", "attempt", "from_day", "scope", "figure"))
    rows = complete(cases, chosen.bench, chosen.bench / chosen.pools, table, chosen.most)
    print(coverage(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
