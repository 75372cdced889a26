"""Turn a compare.csv into the rows of docs/benchmarks.md.

python -m benchmarks.markdown benchmarks/results/philly_pools_load080.csv
"""

import csv
import sys
from pathlib import Path

COLUMNS = (
    ("ratio", "speedup_ratio_of_means_vs_fcfs", "{:.2f}"),
    ("geo", "speedup_geomean_vs_fcfs", "{:.2f}"),
    ("slowed %", "slowed_pct_vs_fcfs", "{:.3f}"),
    ("worst min", "slowed_max_min_vs_fcfs", "{:,.0f}"),
    ("ratio vs backfill", "speedup_ratio_of_means_vs_backfill", "{:.2f}"),
    ("geo vs backfill", "speedup_geomean_vs_backfill", "{:.2f}"),
    ("mean queue s", "mean_queue_delay_s", "{:,.0f}"),
    ("requeues", "requeues", "{:,.0f}"),
    ("repeated GPU-h", "lost_gpu_hours", "{:,.0f}"),
    ("held idle GPU-h", "held_idle_gpu_hours", "{:,.0f}"),
)


def main() -> None:
    with Path(sys.argv[1]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    print("| policy | " + " | ".join(name for name, _, _ in COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    for row in rows:
        cells = (form.format(float(row[key])) for _, key, form in COLUMNS)
        print(f"| {row['policy']} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
