"""Seconds and memory of imports of sacct's lines, against how many there are.

    python -m benchmarks.import_speed [--rows 1000000 2000000] [--out benchmarks/results/import_speed.csv]

The lines are generated with what real files have mixed in (`benchmarks.sacct_rows`). Each import is a process
of its own that reads, keeps records and writes a history in a temporary folder; `cpu_s` is what it
computed, `seconds` what a clock showed. `ratio` is the seconds of CPU per row over those of the table's
first row: near 1 where the cost grows with the rows and no faster.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sacct_rows import ZONE, write_sacct
from data.intake.driver import import_file
from data.intake.format import ReadOptions
from data.shelf.store import HistoryStore

COLUMNS = (
    "rows",
    "seconds",
    "cpu_s",
    "rows_per_s",
    "us_per_row",
    "ratio",
    "peak_mib",
    "repaired",
    "rejected",
)
SEED = 1


def import_once(path: Path, history: Path) -> dict[str, float]:
    """Import a file into an empty history; what it cost, this process's start not counted."""
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    with HistoryStore(history).importing() as into:
        report = import_file(path, "sacct", ReadOptions(tz=ZONE), into)
    if report.fault is not None:
        raise SystemExit(f"the import failed: {report.fault}")
    return {
        "rows": report.read,
        "seconds": time.perf_counter() - begin_s,
        "cpu_s": time.process_time() - begin_cpu_s,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "repaired": report.repaired,
        "rejected": report.rejected,
    }


def measured(num_rows: int) -> dict[str, float]:
    """What the import of so many lines costs, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sacct.txt")
        write_sacct(path, num_rows, SEED)
        command = [sys.executable, "-m", "benchmarks.import_speed", "--once", str(path), folder + "/history"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--once", type=Path, nargs=2, metavar=("FILE", "HISTORY"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(import_once(*asked.once)))
        return
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    table = []
    for num_rows in asked.rows:
        found = measured(num_rows)
        us_per_row = found["cpu_s"] / num_rows * 1e6
        first = table[0]["us_per_row"] if table else us_per_row
        row = found | {
            "rows_per_s": num_rows / found["seconds"],
            "us_per_row": us_per_row,
            "ratio": us_per_row / first,
        }
        table.append(row)
        print(
            "| " + " | ".join(f"{row[name]:,.2f}".removesuffix(".00") for name in COLUMNS) + " |", flush=True
        )
    if asked.out:
        with asked.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([round(row[name], 3) for name in COLUMNS] for row in table)


if __name__ == "__main__":
    main()
