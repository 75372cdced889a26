"""Public traces as files in the canonical columns (`data.schema`), and Earth's load by the minute.

python -m benchmarks.traces --traces ../shared/traces --out var/traces

Writes earth.csv, google2011.csv, venus.csv and graham.csv. Reads parquet, which needs pyarrow (in the
development environment only). Lines are sorted by (submit, id), times are seconds since the beginning.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pandas as pd

OPEN_LIFE_S: Final = 1e8
"""Duration of a job whose end the record does not hold: it runs at any cut within the record."""

GOOGLE_STATES: Final = {"FINISH": "completed", "FAIL": "failed", "KILL": "cancelled"}
VENUS_STATES: Final = {"Pass": "completed", "Failed": "failed", "Killed": "cancelled"}
GRAHAM_STATES: Final = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timeout",
}


def _seconds(instants: pd.Series, begin: pd.Timestamp) -> pd.Series:
    return (instants - begin).dt.total_seconds()


def _states(states: pd.Series, words: Mapping[str, str]) -> pd.Series:
    """In our vocabulary; what has no word there is left empty."""
    return states.str.split().str[0].map(words)


def _text(values: pd.Series, prefix: str) -> pd.Series:
    return prefix + values.astype(str)


def _letters(numbers: pd.Series) -> pd.Series:
    """Opaque names as letters: the trace has stripped the digits of each name and numbered what was left."""
    return numbers.astype(str).str.translate(str.maketrans("0123456789", "abcdefghij"))


def google2011(traces: Path) -> pd.DataFrame:
    """Jobs that were submitted within the trace; a job without an end lives `OPEN_LIFE_S`."""
    frame = pd.read_parquet(traces / "google2011_jobs_d00_19.parquet")
    frame = frame[~frame["started_before_trace"]]
    return pd.DataFrame(
        {
            "job_id": _text(frame["job_id"], "g"),
            "pool": _text(frame["scheduling_class"], "class"),
            "submit_s": frame["submit_s"],
            "num_gpus": 1,
            "duration_s": (frame["end_s"] - frame["schedule_s"]).fillna(OPEN_LIFE_S),
            "user": _text(frame["user_id"], "u"),
            "name": _letters(frame["logical_name_id"]),
            "state": _states(frame["end_state"], GOOGLE_STATES),
            "start_s": frame["schedule_s"],
        }
    )


def venus(traces: Path) -> pd.DataFrame:
    """The sample with users; a job without GPUs is in the pool "cpu" with a width of one."""
    frame = pd.read_parquet(traces / "venus_users_20200528_0611.parquet")
    return pd.DataFrame(
        {
            "job_id": [f"v{place:05}" for place in range(len(frame))],
            "pool": frame["gpu_num"].gt(0).map({True: "gpu", False: "cpu"}),
            "submit_s": _seconds(frame["submit_time"], frame["submit_time"].min()),
            "num_gpus": frame["gpu_num"].clip(lower=1),
            "duration_s": frame["duration_s"],
            "user": _text(frame["user"], "u"),
            "state": _states(frame["state"], VENUS_STATES),
        }
    )


def graham(traces: Path) -> pd.DataFrame:
    """Jobs with and without GPUs (width one); accounts as users, eligible instants as submits."""
    frame = pd.read_parquet(traces / "drac_graham_jobs.parquet")
    begin = frame["eligible_time"].min()
    return pd.DataFrame(
        {
            "job_id": _text(frame["job_unique_id"], "d"),
            "pool": _text(frame["partition_id_x"], "p"),
            "submit_s": _seconds(frame["eligible_time"], begin),
            "num_gpus": frame["gpus"].clip(lower=1),
            "duration_s": frame["run_time_sec"],
            "user": _text(frame["account_id"], "u"),
            "limit_s": frame["time_limit_sec"],
            "state": _states(frame["state"], GRAHAM_STATES),
            "gpu_type": frame["gpu_type"],
            "start_s": _seconds(frame["start_time"], begin),
        }
    )


def earth(traces: Path) -> pd.DataFrame:
    """GPUs running plus pending, and the size, of each virtual cluster by the minute."""
    frame = pd.read_parquet(traces / "earth_may2020_vc_minute_d01_24.parquet")
    loads = pd.DataFrame(
        {
            "pool": frame["vc"],
            "time_s": _seconds(frame["time"], frame["time"].min()),
            "gpus": frame["running_gpu_num"].astype(int) + frame["pending_gpu_num"].astype(int),
            "quota_gpus": frame["total_gpu_num"].astype(int),
        }
    )
    return loads.sort_values(["time_s", "pool"])


def jobs_csv(make: Callable[[Path], pd.DataFrame], traces: Path) -> pd.DataFrame:
    """A trace's jobs in the canonical order."""
    return make(traces).sort_values(["submit_s", "job_id"], kind="stable")


TRACES: Final[Mapping[str, Callable[[Path], pd.DataFrame]]] = {
    "google2011": google2011,
    "venus": venus,
    "graham": graham,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    loads = earth(options.traces)
    loads.to_csv(options.out / "earth.csv", index=False)
    print(f"earth: {len(loads)} minutes of {loads['pool'].nunique()} pools")
    for name, make in TRACES.items():
        frame = jobs_csv(make, options.traces)
        frame.to_csv(options.out / f"{name}.csv", index=False)
        open_share = (frame["duration_s"] == OPEN_LIFE_S).mean()
        print(f"{name}: {len(frame)} jobs, {open_share:.2%} without an end")


if __name__ == "__main__":
    main()
