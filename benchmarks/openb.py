"""FGD's openb protocol: how much of a cluster is allocated when more arrives than fits.

python -m benchmarks.openb --traces ../shared/traces/openb --csv benchmarks/results/openb.csv

Pods of a workload arrive in the order of the published runs (`openb_draw`) until 130 % of the GPUs have been
asked for; each goes where a rule puts it or is turned away for good, nothing ends. Reported: allocated GPUs
at 100 % and 130 % of arrived load, and the expected fragmentation, in per cent of all GPUs, as the published
files define them (mean over the pods whose arrived load rounds to that per cent). --csv keeps one row per
workload, rule and seed; rows that it holds already are not run again. Seeds 42 to 46 were looked at while
the rules were made, 47 to 51 were not. Cost per pod is processor time.
"""

import argparse
import csv
import gzip
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from app.services.pack_pods import demands_of, hosts_of, pods_of_rows, workload_of
from benchmarks.openb_draw import arrivals
from data.readers.share_csv import pods_of, read_hosts
from solver.sharing.fragmentation import expected_milli
from solver.sharing.nodes import NodeSpec
from solver.sharing.patterns import usable_gpus
from solver.sharing.placer import Placer
from solver.sharing.requests import Demand, counted
from solver.sharing.rules import DEFAULT_RULE, RULES
from solver.sharing.rules.base import Workload

PREFIX = "openb_pod_list_"
TARGET = 1.3
GRID = range(131)
TIMED_EVERY = 7  # reading the processor clock is a system call, dearer than a placement
NO_CPU_MEANS_MILLI = 100  # what the published runs count for a pod that asks for no CPU
SEEDS = tuple(range(42, 52))
TUNING_SEEDS = SEEDS[:5]
PUBLISHED = {
    "random": "01-Random",
    "dotprod": "02-DotProd",
    "packing": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
Floats = npt.NDArray[np.float64]


class Trace(NamedTuple):
    """A workload: its nodes and its pods, both by name."""

    specs: tuple[NodeSpec, ...]
    demands: tuple[Demand, ...]

    @property
    def total_milli(self) -> int:
        return 1000 * sum(spec.num_gpus for spec in self.specs)

    def workload(self) -> Workload:
        return workload_of(self.specs, self.demands)


class Run(NamedTuple):
    """Per cents of all GPUs at each load of the grid, and processor seconds of every seventh pod."""

    allocated: Floats
    fragmented: Floats
    pods: int
    cost_s: Floats


@cache
def trace(folder: Path, name: str) -> Trace:
    hosts = hosts_of(read_hosts(folder / "openb_node_list_gpu_node.csv"))
    file = folder / f"{PREFIX}{name}.parquet"
    table = pd.read_parquet(file).sort_values("name", kind="stable", ignore_index=True)
    pods = pods_of_rows(pods_of(table, str(file), may_share_several=True))
    requests = [replace(pod.request, cpu_milli=pod.request.cpu_milli or NO_CPU_MEANS_MILLI) for pod in pods]
    specs = tuple(host.spec for host in hosts)
    return Trace(specs, tuple(demands_of(requests, specs)))


def replay(work: Trace, rule: str, seed: int) -> Run:
    """Let the pods of one seed arrive and place them by a rule."""
    workload = work.workload()
    milli = [demand.gpu_milli for demand in work.demands]
    order, places = arrivals(
        milli, [d.num_gpus for d in work.demands], TARGET * work.total_milli, seed, len(work.specs)
    )
    placer = Placer(work.specs, RULES[rule](workload), places, seed)
    of_nodes = expected_milli(placer.states, workload.mix)
    arrived = used = 0
    seen: list[tuple[float, float, float]] = []
    cost_s: list[float] = []
    for i, pod in enumerate(order):
        demand = work.demands[pod]
        begun_s = time.thread_time() if i % TIMED_EVERY == 0 else None
        spot = placer.place(demand)
        if begun_s is not None:
            cost_s.append(time.thread_time() - begun_s)
        arrived += demand.num_gpus * demand.gpu_milli
        if spot is not None:
            used += demand.num_gpus * demand.gpu_milli
            one = np.array([spot.node])
            of_nodes[one] = expected_milli(placer.states.take(one), workload.mix)
        seen.append((arrived, used, of_nodes.sum()))
    shares = 100.0 * np.array(seen) / work.total_milli
    return Run(*_on_grid(shares), len(order), np.array(cost_s))


def _on_grid(shares: Floats) -> tuple[Floats, Floats]:
    load = np.round(shares[:, 0])
    on_grid = np.full((2, len(GRID)), np.nan)
    for place in GRID:
        at = load == place
        if not at.any():
            at = (load >= place - 1) & (load <= place + 1)
        if at.any():
            on_grid[:, place] = shares[at, 1:].mean(axis=0)
    return on_grid[0], on_grid[1]


@cache
def published(folder: Path, what: str) -> dict[tuple[str, str, int], Floats]:
    """Published curves by workload, rule and seed; `what` is allocation or fragmentation."""
    with gzip.open(folder / f"fgd_expected_{what}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return {
            (row["workload"].removeprefix(PREFIX), row["sc_policy"], int(row["seed"])): np.array(
                [float(row[str(load)] or "nan") for load in GRID]
            )
            for row in csv.DictReader(file)
        }


def measured(folder: Path, name: str, rule: str, seed: int) -> dict[str, Any]:
    run = replay(trace(folder, name), rule, seed)
    row: dict[str, Any] = {"workload": name, "rule": rule, "seed": seed, "pods": run.pods}
    row["tuning"] = int(seed in TUNING_SEEDS)
    for load in (100, 130):
        row[f"fragmented_{load}"] = round(float(run.fragmented[load]), 3)
    for level in (50, 99):
        row[f"p{level}_ms"] = round(1e3 * float(np.percentile(run.cost_s, level)), 3)
    row["mean_ms"] = round(1e3 * float(run.cost_s.mean()), 3)
    return row | {str(load): round(float(run.allocated[load]), 2) for load in GRID}


def kept_rows(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def keep(path: Path | None, row: dict[str, Any]) -> None:
    if path is None:
        return
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def mean_of(rows: Iterable[dict[str, Any]], column: str) -> float:
    return float(np.mean([float(row[column]) for row in rows]))


def curve(rows: Iterable[dict[str, Any]]) -> Floats:
    each = np.array([[float(row[str(load)]) for load in GRID] for row in rows])
    return np.asarray(each.mean(axis=0))


def draw_gap(folder: Path, row: dict[str, Any]) -> float:
    """Largest difference to the published allocation while nothing is turned away, below 15 % load."""
    theirs = published(folder, "allocation")[row["workload"], PUBLISHED["fgd"], int(row["seed"])]
    return float(np.abs(curve([row])[:15] - theirs[:15]).max())


def table(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    print("| workload | rule | 100 % | 130 % | fragmented at 130 % | published | largest gap | ms per pod |")
    print("|---|---|---|---|---|---|---|---|")
    groups = dict.fromkeys((row["workload"], row["rule"]) for row in rows)
    for name, rule in sorted(groups, key=lambda one: (one[0], list(RULES).index(one[1]))):
        group = [row for row in rows if (row["workload"], row["rule"]) == (name, rule)]
        cells = [f"{mean_of(group, c):.2f}" for c in ("100", "130", "fragmented_130")]
        cells += _beside_published(folder, name, rule, group)
        cells.append(" / ".join(f"{mean_of(group, c):.2f}" for c in ("mean_ms", "p50_ms", "p99_ms")))
        print(f"| {name} | {rule} | " + " | ".join(cells) + " |")
    for name in dict.fromkeys(name for name, _ in groups):
        print(
            f"\n{name}: the best cutting loses {unavoidable_pct(trace(folder, name)):.2f} % of the GPU demand"
        )
    print(f"\nLargest gap of a draw to the published one: {max(draw_gap(folder, row) for row in rows):.2f}")


def _beside_published(folder: Path, name: str, rule: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    if rule not in PUBLISHED:
        return ["", ""]
    keys = [(name, PUBLISHED[rule], int(row["seed"])) for row in rows]
    theirs = np.mean([published(folder, "allocation")[key] for key in keys], axis=0)
    fragmented = np.mean([published(folder, "fragmentation")[key][130] for key in keys])
    gap = np.nanmax(np.abs(curve(rows) - theirs))
    return [f"{theirs[100]:.2f} / {theirs[130]:.2f} / {fragmented:.2f}", f"{gap:.2f}"]


def unavoidable_pct(work: Trace) -> float:
    """Per cents of the GPU demand that even the best cutting of GPUs into the shares asked for loses.

    By duality the fewest GPUs that hold all shares are what the shares are worth in all.
    """
    counts = counted(demand for demand in work.demands if demand.is_fraction)
    shares: Counter[int] = Counter()
    for demand, count in counts.items():
        shares[demand.gpu_milli] += count
    usable = usable_gpus(shares)
    lost_gpus = sum(count * (float(usable[milli]) - milli / 1000.0) for milli, count in shares.items())
    return 1e5 * lost_gpus / sum(demand.num_gpus * demand.gpu_milli for demand in work.demands)


def against_fgd(rows: Sequence[dict[str, Any]], rule: str) -> None:
    """Seed by seed: the same pods in the same order, so differences are the rule's."""
    print(f"\n| workload | seeds | {rule} - fgd at 100 % | at 130 % | worst seed at 130 % |")
    print("|---|---|---|---|---|")
    by_key = {(row["workload"], row["rule"], int(row["seed"])): row for row in rows}
    for name in sorted({row["workload"] for row in rows}):
        for label, seeds in (("42-46 (tuning)", TUNING_SEEDS), ("47-51 (fresh)", SEEDS[5:])):
            pairs = [(by_key.get((name, rule, s)), by_key.get((name, "fgd", s))) for s in seeds]
            both = [(a, b) for a, b in pairs if a is not None and b is not None]
            if both:
                gains = {c: [float(a[c]) - float(b[c]) for a, b in both] for c in ("100", "130")}
                means = " | ".join(f"{np.mean(gains[c]):+.2f}" for c in gains)
                print(f"| {name} | {label} | {means} | {min(gains['130']):+.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the openb files")
    parser.add_argument("--workloads", help="default: all in the folder")
    parser.add_argument("--rules", default=f"bestfit,fgd,{DEFAULT_RULE}", help=", ".join(RULES))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--csv", type=Path, help="rows kept, and not run again")
    args = parser.parse_args()
    found = sorted(p.stem.removeprefix(PREFIX) for p in args.traces.glob(f"{PREFIX}*.parquet"))
    rows = kept_rows(args.csv)
    done = {(row["workload"], row["rule"], int(row["seed"])) for row in rows}
    for name in args.workloads.split(",") if args.workloads else found:
        for rule in args.rules.split(","):
            for seed in map(int, args.seeds.split(",")):
                if (name, rule, seed) not in done:
                    rows.append(measured(args.traces, name, rule, seed))
                    keep(args.csv, rows[-1])
    table(args.traces, rows)
    against_fgd(rows, DEFAULT_RULE)


if __name__ == "__main__":
    main()
