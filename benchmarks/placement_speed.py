"""Time to place: 500 starts and 30 holds on a cluster of 1,250 or 6,250 nodes, and what splitting loses.

python -m benchmarks.placement_speed [--csv FILE] [--runs 20] [--quality]
"""

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Hold
from solver.placement import place
from solver.placement.model import greedy_placing, solve_placing
from solver.placement.task import Held, Limits, Movable, PlaceTask, Placing, Want

WIDTHS = (1, 2, 4, 8, 16)
SHARES = (0.55, 0.13, 0.16, 0.14, 0.02)
"""Widths of starts: about Philly's mix, with more wide gangs than it has."""

RUNNING_SHARES = (0.8, 0.1, 0.06, 0.04)
"""Widths of what runs, none wider than a node: four of them fill about six GPUs."""


def draw_task(
    seed: int,
    *,
    num_nodes: int,
    num_running: int,
    num_starts: int,
    num_holds: int,
    assigned: int = 0,
    moves: int = 0,
) -> PlaceTask:
    """A cluster on which gangs run wherever they happened to be put, and as many starts as nearly fill it."""
    rng = np.random.default_rng(seed)
    nodes = tuple(Node(f"n{k:05}", 8) for k in range(num_nodes))
    free = {node.name: list(node.gpus()) for node in nodes}
    movable: list[Movable] = []
    for k in range(num_running):
        width = int(rng.choice(WIDTHS[:4], p=RUNNING_SHARES))
        node = next((n for n in rng.integers(0, num_nodes, 8) if len(free[nodes[n].name]) >= width), None)
        if node is not None:
            gpus = tuple(free[nodes[node].name][:width])
            del free[nodes[node].name][:width]
            movable.append(Movable(Job(f"r{k}", "p0", 0.0, width), gpus))
    wants = [
        Want(
            Job(f"s{k:04}", f"p{k % 30}", float(k), int(rng.choice(WIDTHS, p=SHARES))),
            bool(rng.random() < 0.3),
        )
        for k in range(num_starts)
    ]
    wants[:assigned] = _assign_some(wants[:assigned], free, nodes)
    holds = tuple(Held(Hold(f"p{k}", int(rng.integers(4, 33))), 8) for k in range(num_holds))
    return PlaceTask(
        nodes,
        free,
        tuple(wants),
        holds,
        tuple(movable[: 10 * moves]),
        moves,
        widths=WIDTHS,
        shares=SHARES,
    )


def _assign_some(wants: Sequence[Want], free: dict[str, list[Gpu]], nodes: Sequence[Node]) -> list[Want]:
    before = {one.job_id: one.gpus for one in place([want.job for want in wants], free, nodes)}
    return [want._replace(assigned=before.get(want.job.job_id, ())) for want in wants]


def timed(
    solve: Callable[[PlaceTask], Placing], tasks: Sequence[PlaceTask]
) -> tuple[list[float], list[float], list[Placing]]:
    seconds, cpu, placings = [], [], []
    for task in tasks:
        begin, cpu_begin = time.perf_counter(), time.process_time()
        placings.append(solve(task))
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
    return seconds, cpu, placings


def row(label: str, tasks: Sequence[PlaceTask], solve: Callable[[PlaceTask], Placing]) -> dict[str, object]:
    seconds, cpu, placings = timed(solve, tasks)
    return {
        "case": label,
        "nodes": len(tasks[0].nodes),
        "starts": len(tasks[0].wants),
        "p50_s": round(float(np.quantile(seconds, 0.5)), 3),
        "p95_s": round(float(np.quantile(seconds, 0.95)), 3),
        "cpu_p95_s": round(float(np.quantile(cpu, 0.95)), 3),
        "own_gpus_started": _mean(
            [_started(t, p, is_own=True) for t, p in zip(tasks, placings, strict=True)]
        ),
        "held_gpus": _mean([sum(len(g) for pieces in p.held for g in pieces) for p in placings]),
        "guest_gpus_started": _mean(
            [_started(t, p, is_own=False) for t, p in zip(tasks, placings, strict=True)]
        ),
        "waste_gpus": round(float(np.mean([p.objective for p in placings])), 2),
        "gap_pct": round(100.0 * float(np.mean([p.gap for p in placings])), 2),
        "not_optimal": sum(p.status != "optimal" for p in placings),
        "groups": placings[0].groups,
    }


def _mean(values: Sequence[int]) -> float:
    return round(float(np.mean(values)), 1)


def _started(task: PlaceTask, placing: Placing, *, is_own: bool) -> int:
    own = {want.job.job_id for want in task.wants if want.is_own == is_own}
    return sum(len(one.gpus) for one in placing.placements if one.job_id in own)


def speed_rows(runs: int) -> list[dict[str, object]]:
    large = {"num_nodes": 1250, "num_running": 5000, "num_starts": 500, "num_holds": 30}
    huge = {"num_nodes": 6250, "num_running": 25_000, "num_starts": 2500, "num_holds": 30}
    plain = [draw_task(seed, **large) for seed in range(runs)]
    sticky = [draw_task(seed, **large, assigned=150) for seed in range(runs)]
    moving = [draw_task(seed, **large, moves=20) for seed in range(runs)]
    rows = [
        row("greedy", plain, greedy_placing),
        row("model", plain, solve_placing),
        row("model, 150 starts assigned before", sticky, solve_placing),
        row("model, 20 moves of 200 movable gangs", moving, solve_placing),
    ]
    few = [draw_task(seed, **huge, assigned=750) for seed in range(max(3, runs // 4))]
    far = Limits(deterministic=10.0, wall_s=10.0)
    one = replace(far, max_nodes=10_000)
    rows.append(row("greedy", few, greedy_placing))
    rows.append(
        row("model, 750 starts assigned before, in groups", few, lambda task: solve_placing(task, limits=far))
    )
    rows.append(row("model, the same, whole", few, lambda task: solve_placing(task, limits=one)))
    return rows


def quality_rows(runs: int) -> list[dict[str, object]]:
    """What is lost by splitting, on tasks small enough for the whole model."""
    small = [
        draw_task(seed, num_nodes=64, num_running=260, num_starts=40, num_holds=4, assigned=20, moves=8)
        for seed in range(runs)
    ]
    rows = [
        row("whole", small, lambda task: solve_placing(task, limits=Limits(deterministic=60.0, wall_s=60.0)))
    ]
    for nodes in (32, 16, 8):
        limits = Limits(deterministic=60.0, wall_s=60.0, max_nodes=nodes)
        rows.append(
            row(
                f"groups of at most {nodes} nodes",
                small,
                lambda task, at=limits: solve_placing(task, limits=at),
            )
        )
    rows.append(row("greedy", [replace(task, max_moves=0) for task in small], greedy_placing))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path, help="write the rows here as well")
    parser.add_argument("--runs", type=int, default=20, help="tasks of each kind")
    parser.add_argument("--quality", action="store_true", help="what splitting loses, in place of speed")
    asked = parser.parse_args()
    rows = quality_rows(asked.runs) if asked.quality else speed_rows(asked.runs)
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for one in rows:
        print("| " + " | ".join(map(str, one.values())) + " |")
    if asked.csv:
        with asked.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
